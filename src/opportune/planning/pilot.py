"""Reading pilot data: a CSV file with one row per decision point, each row checked against the study file."""

import csv
import io
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opportune import checks
from opportune.errors import DataError, InputError
from opportune.files import decoded, read_whole
from opportune.problems.finite import Problem
from opportune.problems.variables import Scheduled, bounds_of, levels_of
from opportune.study import Study

Floats = NDArray[np.float64]
COLUMNS = ("participant", "step", "action", "reward")
MARKS = ("opened", "nudged", "answered")
"""Optional columns with 0 and 1: the app was opened unasked, a nudge was made, it was answered."""
SHOWN = 20
"""How many bad rows an error lists; the others are only counted."""
_YES_NO = {"0": 0.0, "1": 1.0, "no": 0.0, "yes": 1.0, "false": 0.0, "true": 1.0}


@dataclass(frozen=True)
class Row:
    """A decision point; an unknown variable or a missing reward is None."""

    line: int
    participant: str
    step: int
    context: Mapping[str, Any]
    action: str
    reward: float | None
    marks: Mapping[str, float]


@dataclass(frozen=True)
class Pilot:
    """Pilot data: the usable rows, and what is wrong with the others."""

    source: str
    rows: list[Row]
    bad: list[tuple[int, str]]

    def features(self, study: Study) -> tuple[Floats, Floats, NDArray[np.int64], list[str]]:
        """Features and rewards of complete rows, the index of each row's participant, and the participants' names."""
        problem = problem_of(study)
        actions = study.settings.study.actions
        x, y, who = [], [], []
        for row in self.rows:
            found = problem.locate(row.context, row.step)
            if row.reward is None or found.missing or found.unreported:
                continue
            finite = isinstance(problem, Problem)
            every = problem.features[found.context] if finite else problem.features(found.values)
            x.append(every[actions.index(row.action)])
            y.append(row.reward)
            who.append(row.participant)
        names = list(dict.fromkeys(who))
        place = {name: i for i, name in enumerate(names)}
        return np.array(x), np.array(y), np.array([place[name] for name in who], dtype=np.int64), names


def problem_of(study: Study) -> Any:
    """The study's problem, even if the file has no bound on the effects: only features are needed here."""
    if study.settings.reward.theta_bound is None and not study.has_truth:
        reward = study.settings.reward.model_copy(update={"theta_bound": 1.0})
        settings = study.settings.model_copy(update={"reward": reward})
        study = Study(source=study.source, text=study.text, settings=settings)
    return study.problem


def read_pilot(study: Study, path: str | Path, *, skip_bad: bool = False) -> Pilot:
    """Read pilot data for a study.

    Args:
        study: the study; its variables and actions define the expected columns and values.
        path: a CSV file with a header: participant, step, action, reward, and a column for each variable that does not
            follow a schedule, including those of the baseline and of the person's own history. An empty cell means a
            reported variable that is unknown, or a reward that did not arrive.
        skip_bad: leave out bad rows. By default they are rejected, with their line numbers.

    """
    if not isinstance(study, Study):
        raise InputError(f"study is {checks.brief(study)}; expected a Study, as load_study returns it")
    checks.yes_no("skip_bad", skip_bad)
    source = checks.path("path", path)
    expected = "a CSV file in UTF-8"
    text = decoded(read_whole(source, expected), source, expected)
    try:
        pilot = _read(study, io.StringIO(text, newline=""), str(source))
    except csv.Error as error:
        raise InputError(f"{source} cannot be read: {error}; expected {expected}") from None
    if pilot.bad and not skip_bad:
        listed = [f"{source}, line {line}: {text}" for line, text in pilot.bad[:SHOWN]]
        if len(pilot.bad) > SHOWN:
            listed.append(f"{source}: {len(pilot.bad) - SHOWN} more bad rows")
        raise DataError("\n".join(listed))
    if not pilot.rows:
        raise DataError(f"{source} has no usable row; expected some below its header")
    return pilot


def _read(study: Study, lines: Iterable[str], source: str) -> Pilot:
    reader = csv.reader(lines)
    header = [name.strip() for name in next(reader, [])]
    problem = problem_of(study)
    wanted = [name for name, variable in study.variables.items() if not isinstance(variable, Scheduled)]
    for name in (*COLUMNS, *wanted):
        checks.choice(f"column of {source}", name, header)
    if len(set(header)) < len(header):
        raise InputError(f"{source} has the same column twice: {', '.join(header)}")
    rows: list[Row] = []
    bad: list[tuple[int, str]] = []
    seen: dict[tuple[str, int], int] = {}
    for cells in reader:
        if not cells:
            continue
        line = reader.line_num
        try:
            row = _row(study, problem, header, cells, line, wanted)
            first = seen.setdefault((row.participant, row.step), line)
            if first != line:
                raise InputError(f"participant {row.participant} already has step {row.step} in line {first}")
            rows.append(row)
        except InputError as error:
            bad.append((line, str(error)))
    return Pilot(source, rows, bad)


def _row(study: Study, problem: Any, header: list[str], cells: list[str], line: int, variables: list[str]) -> Row:
    if len(cells) != len(header):
        raise InputError(f"{len(cells)} values; expected {len(header)}, one for each column")
    cell = {name: text.strip() for name, text in zip(header, cells, strict=True)}
    if not cell["participant"]:
        raise InputError("no participant; expected a name or number")
    try:
        step = int(cell["step"])
    except ValueError:
        step = 0
    if step < 1:
        raise InputError(f"step is {checks.brief(cell['step'])}; expected a whole number >= 1")
    actions = study.settings.study.actions
    action = checks.choice("action", cell["action"], actions)
    context = {name: _value(problem, name, cell[name]) for name in variables}
    for name, value in context.items():
        if value is None and problem.visibility[name] != "reported":
            raise InputError(f"no {name}; expected a value")
    problem.locate(context, step)
    marks = {}
    for name in MARKS:
        if cell.get(name):
            if cell[name].lower() not in _YES_NO:
                raise InputError(f"{name} is {checks.brief(cell[name])}; expected 0 or 1")
            marks[name] = _YES_NO[cell[name].lower()]
    reward = None if not cell["reward"] else _number("reward", cell["reward"])
    bounds = study.settings.reward.bounds
    if reward is not None and bounds is not None and not bounds[0] <= reward <= bounds[1]:
        raise InputError(f"reward is {reward:g}; expected {bounds[0]:g} to {bounds[1]:g}, as bounds in [reward] say")
    return Row(line, checks.text("participant", cell["participant"]), step, context, action, reward, marks)


def _value(problem: Any, name: str, text: str) -> Any:
    """A variable's value: a level of the study file, or a number; None for an empty cell."""
    if not text:
        return None
    bounds = bounds_of(problem.variables[name])
    if bounds is not None:
        value = _number(name, text)
        if not bounds.low <= value <= bounds.high:
            raise InputError(f"{name} is {value:g}; expected {bounds.low:g} to {bounds.high:g}")
        return value
    found = levels_of(problem.variables[name]) or ()
    levels = {str(level): level for level in found}
    if text in levels:
        return levels[text]
    if not isinstance(found[0], str):
        value = _number(name, text)
        for level in found:
            if abs(level - value) < 1e-9:
                return level
    raise InputError(f"{name} is {checks.brief(text)}; expected one of {', '.join(map(str, found))}")


def _number(name: str, text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = math.nan
    if not math.isfinite(value):
        raise InputError(f"{name} is {checks.brief(text)}; expected a finite number")
    return value
