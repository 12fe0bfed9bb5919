"""The variables of a context: numbers with bounds, variables with levels, and variables that follow a schedule.

A variable is one of

    Number(0, 20_000)                       any number between two bounds
    ["low", "fair", "high"]                 one of these levels
    TimeOfDay(["morning", "evening"])       public, known from the decision point's number: the schedule
    Weekday(), Weekend(), DayOfStudy(70)    public and known from the schedule too
    History(of="nudges", summary="sum", days=7)   computed from the participant's own record

Decision points and days of study count from 1.
"""

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opportune import checks
from opportune.errors import InputError
from opportune.problems.history import History

WEEKDAYS = ("Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday")
WORKDAYS = 5  # per week; the other days are the weekend
MOST_PER_DAY = 1440
"""The most decision points in a day: one per minute."""
MOST_DAYS = 100_000
MOST_LEVELS = 32_000


@dataclass(frozen=True)
class Number:
    """A numeric variable between two finite bounds, both included.

    Args:
        low: the least value.
        high: the largest value.

    """

    low: float
    high: float

    def __post_init__(self) -> None:
        low, high = checks.real("low of Number", self.low), checks.real("high of Number", self.high)
        if low >= high:
            raise InputError(f"Number is from {low:g} to {high:g}; expected low < high")
        checks.keep(self, low=low, high=high)

    @property
    def middle(self) -> float:
        """The value halfway between the bounds."""
        return self.low + 0.5 * (self.high - self.low)


@dataclass(frozen=True)
class TimeOfDay:
    """The times of day at which decisions are made, in order, one decision point each.

    Args:
        names: their names, such as ("morning", "evening").

    """

    names: Sequence[str]

    def __post_init__(self) -> None:
        expected = "a list of names, one per decision point"
        given = checks.listed("names of TimeOfDay", self.names, expected, most=MOST_PER_DAY)
        names = tuple(checks.text("an entry of names of TimeOfDay", name) for name in given)
        if not names:
            raise InputError(f"names of TimeOfDay has 0 names; expected 1 to {MOST_PER_DAY}")
        if len(set(names)) < len(names):
            raise InputError(f"names of TimeOfDay has a name twice: {list(names)}")
        checks.keep(self, names=names)

    @property
    def levels(self) -> tuple[str, ...]:
        """The variable's levels, in order."""
        return tuple(self.names)


@dataclass(frozen=True, kw_only=True)
class Weekday:
    """The day of the week.

    Args:
        first: the weekday on which the study begins.

    """

    first: str = "Monday"

    def __post_init__(self) -> None:
        checks.keep(self, first=checks.choice("first of Weekday", self.first, WEEKDAYS))

    @property
    def levels(self) -> tuple[str, ...]:
        """The variable's levels: the seven days, Monday first, on whatever day the study begins."""
        return WEEKDAYS


@dataclass(frozen=True, kw_only=True)
class Weekend:
    """Whether it is Saturday or Sunday: "weekday" or "weekend".

    Args:
        first: the weekday on which the study begins.

    """

    first: str = "Monday"

    def __post_init__(self) -> None:
        checks.keep(self, first=checks.choice("first of Weekend", self.first, WEEKDAYS))

    @property
    def levels(self) -> tuple[str, ...]:
        """The variable's levels, in order."""
        return ("weekday", "weekend")


@dataclass(frozen=True)
class DayOfStudy:
    """The day of study, a number: (day - centre) / scale; by default the day itself.

    Args:
        days: the number of days of the study.
        centre: the day with value 0.
        scale: the number of days that make 1.

    """

    days: int
    centre: float = 0.0
    scale: float = 1.0

    def __post_init__(self) -> None:
        checks.keep(self, days=checks.whole("days of DayOfStudy", self.days, least=2, most=MOST_DAYS))
        checks.keep(self, centre=checks.real("centre of DayOfStudy", self.centre))
        checks.keep(self, scale=checks.scale("scale of DayOfStudy", self.scale))
        if self.on(1) >= self.on(self.days) or not math.isfinite(self.on(self.days)):
            raise InputError(
                f"DayOfStudy has centre {self.centre:g} and scale {self.scale:g}; expected days that differ by them"
            )

    @classmethod
    def scaled(cls, days: int) -> "DayOfStudy":
        """The day of study from -1 on the first day to 1 on the last."""
        days = checks.whole("days of DayOfStudy", days, least=2, most=MOST_DAYS)
        return cls(days, centre=(days + 1) / 2, scale=(days - 1) / 2)

    @property
    def number(self) -> Number:
        """The variable's bounds: its values on the first and on the last day."""
        return Number(self.on(1), self.on(self.days))

    def on(self, day: int) -> float:
        """The variable's value on a day, counted from 1."""
        return (checks.whole("day", day, least=1, most=self.days) - self.centre) / self.scale


Finite = TimeOfDay | Weekday | Weekend
Scheduled = TimeOfDay | Weekday | Weekend | DayOfStudy
Variable = Number | tuple[Any, ...] | Scheduled | History


class Schedule:
    """When decisions are made, and the public variables that follow from the schedule.

    Args:
        variables: {name: TimeOfDay, Weekday, Weekend or DayOfStudy}.
        decisions_per_day: by default the number of times of day, or 1 if there are none.

    """

    def __init__(self, variables: Mapping[str, Scheduled], *, decisions_per_day: int | None = None) -> None:
        variables = checks.mapping("variables of the schedule", variables, "{name: variable}")
        for name, variable in variables.items():
            if not isinstance(variable, Scheduled):
                raise InputError(
                    f"variable {checks.brief(name)} of the schedule is {checks.brief(variable)}; "
                    "expected TimeOfDay, Weekday, Weekend or DayOfStudy"
                )
        self.variables = variables
        self.decisions_per_day = self._per_day(decisions_per_day)
        checks.size("the schedule has", self.last_step or 0, checks.MOST_STEPS, "decision points")

    @property
    def period(self) -> int | None:
        """The number of decision points until the schedule repeats; None with a day of study, which never repeats."""
        if any(isinstance(variable, DayOfStudy) for variable in self.variables.values()):
            return None
        weekly = any(isinstance(variable, Weekday | Weekend) for variable in self.variables.values())
        daily = any(isinstance(variable, TimeOfDay) for variable in self.variables.values())
        return 7 * self.decisions_per_day if weekly else self.decisions_per_day if daily else 1

    @property
    def last_step(self) -> int | None:
        """The last decision point, if a day of study sets the study's end."""
        days = [variable.days for variable in self.variables.values() if isinstance(variable, DayOfStudy)]
        return min(days) * self.decisions_per_day if days else None

    def values(self, step: int) -> dict[str, Any]:
        """The scheduled variables at a decision point: {name: level, or number for a day of study}."""
        step = checks.whole("step", step, least=1)
        if self.last_step is not None and step > self.last_step:
            raise InputError(
                f"step is {step}; expected at most {self.last_step}, the last decision point of the study's "
                f"{self.last_step // self.decisions_per_day} days"
            )
        return {name: self._value(variable, step) for name, variable in self.variables.items()}

    def table(self, steps: int) -> NDArray[np.float64]:
        """The scheduled variables at decision points 1..steps as numbers, [steps, variables].

        A variable with levels enters by the number of its level, counted from 0; a day of study by its value.
        """
        steps = checks.whole("steps", steps, least=1, most=self.last_step or checks.MOST_STEPS)
        rows = np.empty((steps, len(self.variables)))
        day, moment = np.divmod(np.arange(steps), self.decisions_per_day)
        for column, variable in enumerate(self.variables.values()):
            if isinstance(variable, DayOfStudy):
                rows[:, column] = (day + 1 - variable.centre) / variable.scale
            elif isinstance(variable, TimeOfDay):
                rows[:, column] = moment
            else:
                weekday = (WEEKDAYS.index(variable.first) + day) % 7
                rows[:, column] = weekday if isinstance(variable, Weekday) else weekday >= WORKDAYS
        return rows

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Schedule):
            return NotImplemented
        return (self.variables, self.decisions_per_day) == (other.variables, other.decisions_per_day)

    def __hash__(self) -> int:
        return hash((tuple(self.variables.items()), self.decisions_per_day))

    def __repr__(self) -> str:
        return f"Schedule({', '.join(self.variables) or 'no variables'}; {self.decisions_per_day} decisions per day)"

    def _per_day(self, given: int | None) -> int:
        """The number of decisions per day; every TimeOfDay must have as many times."""
        per_day = None if given is None else checks.whole("decisions_per_day", given, least=1, most=MOST_PER_DAY)
        for name, variable in self.variables.items():
            if isinstance(variable, TimeOfDay):
                if per_day is not None and per_day != len(variable.names):
                    raise InputError(
                        f"variable {name!r} has {len(variable.names)} times of day; "
                        f"expected {per_day}, one for each decision of the day"
                    )
                per_day = len(variable.names)
        return 1 if per_day is None else per_day

    def _value(self, variable: Scheduled, step: int) -> Any:
        day, moment = divmod(step - 1, self.decisions_per_day)
        if isinstance(variable, TimeOfDay):
            return variable.names[moment]
        if isinstance(variable, DayOfStudy):
            return variable.on(day + 1)
        weekday = (WEEKDAYS.index(variable.first) + day) % 7
        if isinstance(variable, Weekday):
            return WEEKDAYS[weekday]
        return "weekday" if weekday < WORKDAYS else "weekend"


def check_variable(name: str, value: Any) -> Variable:
    """A variable as given: a Number or scheduled variable unchanged, anything else read as a list of levels."""
    if isinstance(value, Number | Scheduled | History):
        return value
    return check_levels(name, value)


def check_levels(
    name: str, value: Any, expected: str = "its levels, a Number or a scheduled variable"
) -> tuple[Any, ...]:
    """A variable's levels: distinct plain values. NaN is rejected, as it equals nothing."""
    who = f"variable {checks.brief(name)}"
    given = checks.listed(who, value, expected, most=MOST_LEVELS)
    levels = tuple(_level(who, level, given) for level in given)
    if not levels:
        raise InputError(f"{who} has no levels; expected at least one")
    if len(set(levels)) < len(levels):
        raise InputError(f"{who} has a level twice: {checks.brief(list(levels))}")
    if len({isinstance(level, bool) for level in levels if not isinstance(level, str)}) > 1:
        raise InputError(
            f"{who} has truths and numbers among its levels {checks.brief(list(levels))}; expected one kind"
        )
    return levels


def _level(who: str, value: Any, levels: list[Any]) -> Any:
    """A level: text, a number, or a truth value."""
    level = value.item() if isinstance(value, np.generic) else value
    if isinstance(level, str):
        return checks.text(f"a level of {who}", level, empty=True)
    if isinstance(level, bool):
        return level
    if not isinstance(level, int | float) or (isinstance(level, float) and math.isnan(level)):
        given = "NaN" if isinstance(level, float) else checks.brief(level)
        raise InputError(f"{who} has {given} among its levels {checks.brief(levels)}; expected numbers or text")
    checks.real(f"a level of {who}", level)
    return level


def level_number(name: str, value: Any, levels: tuple[Any, ...]) -> int:
    """The number of a level; 1 and True are different levels."""
    level = value.item() if isinstance(value, np.generic) else value
    known = levels.index(level) if isinstance(level, str | int | float) and level in levels else None
    if known is None or isinstance(level, bool) != isinstance(levels[known], bool):
        raise InputError(f"{name} is {checks.brief(value)}; expected one of {checks.brief(list(levels))}")
    return known


def levels_of(variable: Variable) -> tuple[Any, ...] | None:
    """A variable's levels, or None if it is numeric."""
    if isinstance(variable, Number | DayOfStudy | History):
        return None
    return variable if isinstance(variable, tuple) else variable.levels


def bounds_of(variable: Variable) -> Number | None:
    """A numeric variable's bounds, or None if it has levels."""
    if isinstance(variable, DayOfStudy):
        return variable.number
    if isinstance(variable, History):
        return Number(*variable.range)
    return variable if isinstance(variable, Number) else None


def entered_as_numbers(levels: tuple[Any, ...]) -> bool:
    """Whether a formula treats a variable with these levels as numeric: all levels are numbers."""
    return all(isinstance(level, int | float) for level in levels)


_KINDS: dict[str, type[Any]] = {
    "number": Number, "time_of_day": TimeOfDay, "weekday": Weekday, "weekend": Weekend, "day_of_study": DayOfStudy,
    "history": History,
}  # fmt: skip


def to_json(variable: Variable) -> dict[str, Any]:
    """A variable as plain JSON values."""
    if isinstance(variable, tuple):
        return {"kind": "levels", "levels": list(variable)}
    kind = next(kind for kind, made in _KINDS.items() if isinstance(variable, made))
    return {"kind": kind, **asdict(variable)}


def from_json(name: str, saved: Any) -> Variable:
    """The variable that `to_json` described."""
    settings = dict(saved) if isinstance(saved, Mapping) else {}
    kind = checks.choice(f"kind of variable {checks.brief(name)}", settings.pop("kind", None), ("levels", *_KINDS))
    try:
        if kind == "levels" and settings.keys() == {"levels"}:
            return check_levels(name, settings["levels"])
        for part in fields(_KINDS[kind]):
            settings[part.name]
        return _KINDS[kind](**settings)  # type: ignore[no-any-return]
    except (KeyError, TypeError):
        raise InputError(
            f"variable {checks.brief(name)} is {checks.brief(saved)}; expected a description of this kind of variable"
        ) from None
