"""How contexts arrive: a study file's variables in the form that problems and worlds take, and their distributions."""

import math
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opportune.errors import InputError
from opportune.problems.history import History
from opportune.problems.variables import DayOfStudy, Finite, Number, Schedule, Scheduled, TimeOfDay, Weekday, Weekend
from opportune.study.people import is_range
from opportune.study.schema import StudyFile
from opportune.study.variables import DAY_OF_STUDY, HistoryTable, VariableTable
from opportune.worlds.distributions import Choice, Distribution, LogNormal, Normal, Resampled, Uniform, numbers_of, pack

Floats = NDArray[np.float64]


def variables_of(settings: StudyFile) -> dict[str, Any]:
    """The variables of the context in the form that `Problem.from_formula` takes."""
    own = {name: variable_of(settings, name) for name in settings.variables}
    return {**own, **baseline_of(settings)}


def variable_of(settings: StudyFile, name: str) -> Any:
    """A variable of [variables.NAME] in the form that `Problem.from_formula` takes."""
    table = settings.variables[name]
    if table.schedule == "time of day":
        return TimeOfDay(table.names or ())
    if table.schedule in {"weekday", "weekend"}:
        return (Weekday if table.schedule == "weekday" else Weekend)(first=table.first)
    if table.schedule == DAY_OF_STUDY:
        days = -(-settings.study.horizon // decisions_per_day(settings))
        if days < 2:
            raise InputError(f"variable {name!r} is the day of a study of {days} day; expected 2 days or more")
        return DayOfStudy.scaled(days) if table.scaled else DayOfStudy(days)
    if table.history is not None:
        return _history(settings, name, table, table.history).resolved(decisions_per_day(settings))
    if table.numeric:
        assert table.range is not None
        return Number(*table.range)
    return table.values


def baseline_of(settings: StudyFile) -> dict[str, Any]:
    """The baseline variables in the formula or in a condition: public variables that never change for a person."""
    if not settings.participants.baseline:
        return {}
    texts = [settings.reward.formula, *(table.never_if or "" for table in settings.actions.values())]
    words = {word for text in texts for word in words_of(text)}
    return {name: baseline_variable(values) for name, values in settings.participants.baseline.items() if name in words}


def baseline_variable(values: list[Any]) -> Any:
    """A baseline variable in the form that `Problem.from_formula` takes: a number in a range, or levels."""
    return Number(*values) if is_range(values) else values


def words_of(text: str) -> set[str]:
    """The names in a formula, a term or a condition."""
    return set(re.findall(r"[^\W\d]\w*", text))


def visibility_of(settings: StudyFile) -> dict[str, Any]:
    """The visibility of each variable that does not follow a schedule."""
    own = {name: table.visibility for name, table in settings.variables.items() if table.schedule is None}
    return {**own, **dict.fromkeys(baseline_of(settings), "public")}


def decisions_per_day(settings: StudyFile) -> int:
    """The decisions per day: `decisions_per_day`, else the number of `times`, else of named times of day, else 1."""
    if settings.study.decisions_per_day is not None:
        return settings.study.decisions_per_day
    if settings.schedule.times is not None:
        return len(settings.schedule.times)
    names = (table.names or [] for table in settings.variables.values() if table.schedule == "time of day")
    return len(next(names, [""]))


def _history(settings: StudyFile, name: str, table: VariableTable, history: HistoryTable) -> History:
    """A variable computed from the person's own past; the default range of a mean of rewards is the rewards' bounds."""
    span = table.range
    if span is None and history.of == "reward":
        span = settings.reward.bounds
        if span is None or history.summary != "mean":
            text = f"variable {name!r} is a {history.summary} of rewards without range"
            also = ", or bounds in [reward]" if history.summary == "mean" else ""
            raise InputError(f"{text}; expected range = [lowest, highest]{also}")
    low, high = (None, None) if span is None else span
    return History(
        of=history.of, summary=history.summary, decisions=history.decisions, days=history.days,
        discount=history.discount, low=low, high=high, initial=table.initial,
    )  # fmt: skip


def distributions_of(settings: StudyFile) -> dict[str, Distribution]:
    """The distribution of every variable that is neither scheduled nor drawn from a table."""
    found: dict[str, Distribution] = {}
    for name, table in settings.variables.items():
        if table.distribution is not None:
            found[name] = distribution_of(table)
        elif table.schedule is None and table.table is None and table.history is None:
            chances = table.probabilities or [1.0 / len(table.values)] * len(table.values)
            found[name] = Choice(dict(zip(table.values, chances, strict=True)))
    for name, variable in baseline_of(settings).items():
        if isinstance(variable, Number):
            found[name] = Uniform(variable.low, variable.high)
        else:
            found[name] = Choice(dict.fromkeys(variable, 1.0 / len(variable)))
    return found


def distribution_of(variable: VariableTable) -> Distribution:
    """A variable's distribution; raises `InputError` if hardly any of it lies within the variable's range."""
    table = variable.distribution
    assert table is not None
    assert variable.range is not None
    bounds = Number(*variable.range)
    made: Distribution
    if table.kind == "normal":
        made = Normal(_given(table.mean), _given(table.sd))
    elif table.kind == "uniform":
        made = Uniform(*(bounds.low, bounds.high) if table.low is None else (table.low, _given(table.high)))
    elif table.median is not None:
        made = LogNormal(table.median, _given(table.sigma))
    else:
        made = LogNormal.from_mean(_given(table.mean), _given(table.sd))
    numbers_of(made, bounds)
    return made


def _given(value: float | None) -> float:
    assert value is not None
    return value


def table_of(settings: StudyFile, folder: Path) -> Resampled | None:
    """The table from which variables are drawn jointly; None if the file has none. Its path is relative to `folder`."""
    columns = [name for name, table in settings.variables.items() if table.table is not None]
    if not columns:
        return None
    return Resampled.from_csv(folder / str(settings.variables[columns[0]].table), columns)


def probabilities_of(settings: StudyFile, variables: Mapping[str, Any], table: Resampled | None) -> Floats:
    """The probability of each context of a finite set; the last variable changes fastest."""
    sizes = sizes_of(variables)
    if settings.contexts.joint is not None:
        return np.array(settings.contexts.joint, dtype=np.float64).reshape(math.prod(sizes.values()))
    scheduled = {name: variable for name, variable in variables.items() if isinstance(variable, Scheduled)}
    together = [] if table is None else list(table.columns)
    joint = np.ones(1)
    for name, size in sizes.items():
        each = np.ones(size)  # joint shares are multiplied in below
        if name not in scheduled and name not in together:
            given = settings.variables[name].probabilities if name in settings.variables else None
            each = np.asarray(given or np.full(size, 1.0 / size))
        joint = np.multiply.outer(joint, each).ravel()
    if scheduled:
        schedule = Schedule(scheduled, decisions_per_day=decisions_per_day(settings))
        joint = joint * _spread(_shares(schedule.table(schedule.period or 1)), list(scheduled), sizes)
    if table is not None:
        packed = pack({name: tuple(variables[name]) for name in together}, {}, table=table)
        rows = packed.parameters.reshape(len(together), -1)[:, 1:].T
        joint = joint * _spread(_shares(rows), together, sizes)
    return np.asarray(joint / joint.sum())


def sizes_of(variables: Mapping[str, Any]) -> dict[str, int]:
    """The number of levels of each variable, if all variables have levels."""
    return {name: len(v.levels if isinstance(v, Finite) else v) for name, v in variables.items()}


def _shares(rows: Floats) -> dict[tuple[int, ...], float]:
    """The share of each combination of levels among rows of level numbers."""
    found, counts = np.unique(rows.astype(np.int64), axis=0, return_counts=True)
    return {tuple(levels): count / len(rows) for levels, count in zip(found.tolist(), counts.tolist(), strict=True)}


def _spread(shares: Mapping[tuple[int, ...], float], names: list[str], sizes: Mapping[str, int]) -> Floats:
    """The joint shares of some variables, repeated for every combination of all variables."""
    joint = np.zeros([sizes[name] for name in names])
    for levels, share in shares.items():
        joint[levels] = share
    shape = [size if name in names else 1 for name, size in sizes.items()]
    return np.broadcast_to(joint.reshape(shape), list(sizes.values())).ravel()
