"""How contexts arrive: a study file's variables as the problem and the world take them, and how each is drawn."""

import math
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opportune.errors import InputError
from opportune.problems.variables import DayOfStudy, Finite, Number, Schedule, Scheduled, TimeOfDay, Weekday, Weekend
from opportune.study.schema import StudyFile
from opportune.study.variables import DAY_OF_STUDY, VariableTable
from opportune.worlds.distributions import Choice, Distribution, LogNormal, Normal, Resampled, Uniform, numbers_of, pack

Floats = NDArray[np.float64]


def variables_of(settings: StudyFile) -> dict[str, Any]:
    """The variables of the context as `Problem.from_formula` takes them: levels, numbers, places in the schedule."""
    per_day = decisions_per_day(settings)
    days = -(-settings.study.horizon // per_day)
    return {name: _variable(name, table, days) for name, table in settings.variables.items()}


def decisions_per_day(settings: StudyFile) -> int:
    """How many decisions a day has; times of day say so too, and must agree."""
    clock = len(settings.schedule.times or [])
    given = settings.study.decisions_per_day
    if clock and given is not None and clock != given:
        text = f"times in [schedule] has {clock} times, and decisions_per_day in [study] is {given}"
        raise InputError(f"{text}; expected as many")
    times = {name: table for name, table in settings.variables.items() if table.schedule == "time of day"}
    scheduled = {name: TimeOfDay(table.names or ()) for name, table in times.items()}
    return Schedule(scheduled, decisions_per_day=given or clock or None).decisions_per_day


def _variable(name: str, table: VariableTable, days: int) -> Any:
    if table.schedule == "time of day":
        return TimeOfDay(table.names or ())
    if table.schedule == "weekday":
        return Weekday(first=table.first)
    if table.schedule == "weekend":
        return Weekend(first=table.first)
    if table.schedule == DAY_OF_STUDY:
        if days < 2:
            raise InputError(f"variable {name!r} is the day of a study of {days} day; expected 2 days or more")
        return DayOfStudy.scaled(days) if table.scaled else DayOfStudy(days)
    if table.numeric:
        assert table.range is not None
        return Number(*table.range)
    return table.values


def distributions_of(settings: StudyFile) -> dict[str, Distribution]:
    """How every variable is drawn that is neither scheduled nor in a table."""
    found: dict[str, Distribution] = {}
    for name, table in settings.variables.items():
        if table.distribution is not None:
            found[name] = distribution_of(table)
        elif table.schedule is None and table.table is None:
            chances = table.probabilities or [1.0 / len(table.values)] * len(table.values)
            found[name] = Choice(dict(zip(table.values, chances, strict=True)))
    return found


def distribution_of(variable: VariableTable) -> Distribution:
    """A variable's distribution; one that has hardly anything to draw within the variable's range is refused."""
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
    """The rows from which variables are drawn jointly, if the file names a table; its path is relative to `folder`."""
    columns = [name for name, table in settings.variables.items() if table.table is not None]
    if not columns:
        return None
    return Resampled.from_csv(folder / str(settings.variables[columns[0]].table), columns)


def probabilities_of(settings: StudyFile, variables: Mapping[str, Any], table: Resampled | None) -> Floats:
    """The probability of each context where contexts are a finite set, first variable slowest."""
    sizes = sizes_of(variables)
    if settings.contexts.joint is not None:
        return np.array(settings.contexts.joint, dtype=np.float64).reshape(math.prod(sizes.values()))
    scheduled = {name: variable for name, variable in variables.items() if isinstance(variable, Scheduled)}
    together = [] if table is None else list(table.columns)
    joint = np.ones(1)
    for name, size in sizes.items():
        each = np.ones(size)  # what belongs together is put in below
        if name not in scheduled and name not in together:
            each = np.asarray(settings.variables[name].probabilities or np.full(size, 1.0 / size))
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
    """How many levels each variable has, where all have levels."""
    return {name: len(v.levels if isinstance(v, Finite) else v) for name, v in variables.items()}


def _shares(rows: Floats) -> dict[tuple[int, ...], float]:
    """How often each combination of levels occurs among rows of their numbers."""
    found, counts = np.unique(rows.astype(np.int64), axis=0, return_counts=True)
    return {tuple(levels): count / len(rows) for levels, count in zip(found.tolist(), counts.tolist(), strict=True)}


def _spread(shares: Mapping[tuple[int, ...], float], names: list[str], sizes: Mapping[str, int]) -> Floats:
    """Joint shares of some variables, in their order, for every combination of all variables."""
    joint = np.zeros([sizes[name] for name in names])
    for levels, share in shares.items():
        joint[levels] = share
    shape = [size if name in names else 1 for name, size in sizes.items()]
    return np.broadcast_to(joint.reshape(shape), list(sizes.values())).ravel()
