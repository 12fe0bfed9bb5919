"""[variables.NAME]: variables with levels, numbers in a range, parts of the schedule and the person's own past."""

import math
from typing import Annotated, Any, ClassVar, Literal

from pydantic import Field

from opportune.problems.variables import MOST_LEVELS, WEEKDAYS
from opportune.study.base import Mistakes, Table, show

Weekdays = Literal["Monday", "Tuesday", "Wednesday", "Thursday", "Friday", "Saturday", "Sunday"]

DAY_OF_STUDY = "day of study"
_PARAMETERS: dict[str, tuple[set[str], ...]] = {
    "normal": ({"mean", "sd"},),
    "lognormal": ({"median", "sigma"}, {"mean", "sd"}),
    "uniform": ({"low", "high"}, set()),
}
_EXPECTED = {
    "normal": "mean and sd",
    "lognormal": "median and sigma, or mean and sd",
    "uniform": "low and high, or neither for the whole range",
}
_SCHEDULES: dict[str, set[str]] = {
    "time of day": {"names"},
    "weekday": {"first"},
    "weekend": {"first"},
    DAY_OF_STUDY: {"scaled"},
}
WEEK: dict[str, list[Any]] = {"weekday": list(WEEKDAYS), "weekend": ["weekday", "weekend"], DAY_OF_STUDY: []}
"""The levels of variables that follow the calendar."""
_KINDS_OF_VALUES = ("levels", "range", "schedule")
_WAYS_TO_DRAW = ("probabilities", "distribution", "table")


class DistributionTable(Table):
    """`distribution`: how numbers are drawn; it is truncated to the variable's range."""

    one_value: ClassVar[bool] = True

    kind: Literal["normal", "lognormal", "uniform"] = Field(description="'normal', 'lognormal' or 'uniform'")
    mean: float | None = Field(default=None, description="a number")
    sd: float | None = Field(default=None, gt=0.0, description="a number > 0")
    median: float | None = Field(default=None, gt=0.0, description="a number > 0")
    sigma: float | None = Field(default=None, gt=0.0, description="a number > 0, the sd of the logarithm")
    low: float | None = Field(default=None, description="a number")
    high: float | None = Field(default=None, description="a number")

    def mistakes(self) -> Mistakes:
        """A distribution must have the parameters of its kind, with valid values."""
        given = self.model_fields_set - {"kind"}
        if given not in _PARAMETERS[self.kind]:
            named = " and ".join(sorted(given)) or "nothing else"
            yield "", f"has a {self.kind} distribution with {named}; expected {_EXPECTED[self.kind]}"
        elif self.low is not None and self.high is not None and self.low >= self.high:
            text = f"has a uniform distribution with low = {self.low:g} and high = {self.high:g}"
            yield "low", f"{text}; expected low < high"
        elif self.kind == "lognormal" and self.mean is not None and self.mean <= 0.0:
            yield "mean", f"has a lognormal distribution with mean = {self.mean:g}; expected a number > 0"


class HistoryTable(Table):
    """`history`: a variable computed from the record of the person's own past."""

    of: Literal["reward", "nudges", "answered", "opened", "contact"] = Field(
        description="'reward', 'nudges', 'answered', 'opened' or 'contact' (answered or opened)"
    )
    summary: Literal["mean", "sum", "days since"] = Field(description="'mean', 'sum' or 'days since'")
    decisions: Annotated[int, Field(ge=1, le=1000)] | None = Field(
        default=None, description="a whole number from 1 to 1000, the latest decisions that count"
    )
    days: Annotated[int, Field(ge=1, le=366)] | None = Field(
        default=None, description="a whole number from 1 to 366, the latest days that count"
    )
    discount: float = Field(
        default=1.0,
        gt=0.0,
        le=1.0,
        description="a number above 0 and up to 1, the weight of each decision further back",
    )

    def mistakes(self) -> Mistakes:
        """A history must have one window, which suits its summary."""
        if self.decisions is not None and self.days is not None:
            yield "days", "has history with decisions and days; expected one of them"
        if self.summary == "days since" and (self.of == "reward" or self.decisions or self.discount < 1.0):
            text = "has history with summary = 'days since'"
            yield "summary", f"{text}; expected of = 'nudges' or 'contact', say, and at most days with it"
        if self.summary != "days since" and self.decisions is None and self.days is None:
            yield "", "has history without decisions or days; expected how far back it goes"


class VariableTable(Table):
    """[variables.NAME]: a variable of the context."""

    levels: list[Any] | None = Field(
        default=None, description="a list of at least two different texts, or of two different numbers"
    )
    range: Annotated[list[float], Field(min_length=2, max_length=2)] | None = Field(
        default=None, description="[lowest, highest], such as [1, 5] for 1, 2, 3, 4, 5"
    )
    step: float = Field(default=1.0, gt=0.0, description="a number > 0, the distance of neighbours in range")
    schedule: Literal["time of day", "weekday", "weekend", "day of study"] | None = Field(
        default=None, description="'time of day', 'weekday', 'weekend' or 'day of study'"
    )
    names: Annotated[list[str], Field(min_length=1)] | None = Field(
        default=None, description="a list of different names, one for each decision of a day"
    )
    first: Weekdays = Field(
        default="Monday",
        description="the weekday on which the study begins, 'Monday', 'Tuesday', 'Wednesday', 'Thursday', 'Friday', "
        "'Saturday' or 'Sunday'",
    )
    scaled: bool = Field(default=False, description="true (from -1 on the first day to 1 on the last) or false")
    visibility: Literal["public", "sensed", "reported"] = Field(
        default="sensed", description="'public', 'sensed' or 'reported'"
    )
    probabilities: list[Annotated[float, Field(ge=0.0, le=1.0)]] | None = Field(
        default=None, description="a list of probabilities, one for each level, that sum to 1"
    )
    distribution: DistributionTable | None = Field(
        default=None, description="a table such as { kind = 'normal', mean = 7, sd = 1.5 }"
    )
    table: Annotated[str, Field(min_length=1)] | None = Field(
        default=None, description="the name of a CSV file with a column of the variable's name"
    )
    label: Annotated[str, Field(min_length=1)] | None = Field(default=None, description="a text, shown to people")
    question: Annotated[str, Field(min_length=1)] | None = Field(
        default=None, description="a text, the question to participants for a reported variable"
    )
    answers: list[Annotated[str, Field(min_length=1)]] | None = Field(
        default=None, description="a list of texts, one for each level, that participants choose from"
    )
    level_labels: list[Annotated[str, Field(min_length=1)]] | None = Field(
        default=None, description="a list of texts, one for each level, shown to people instead of the levels"
    )
    digits: int | None = Field(
        default=None, ge=0, le=6, description="a whole number from 0 to 6, the decimal places shown to people"
    )
    escalate: dict[str, Annotated[str, Field(min_length=1, max_length=500)]] = Field(
        default={},
        description="a table of levels with instructions to staff, such as { strong = 'Ask for the doctor.' }",
    )
    persistence: float = Field(
        default=0.0, ge=0.0, lt=1.0, description="a probability below 1, of keeping the value of the last decision"
    )
    history: HistoryTable | None = Field(
        default=None, description="a table such as { of = 'reward', summary = 'mean', decisions = 14 }"
    )
    initial: float | None = Field(default=None, description="a number, the value before there is any history")

    def mistakes(self) -> Mistakes:
        """A variable must have one kind of values, and the other keys must suit them."""
        yield self._mistakes_of_values()
        yield self._mistakes_of_step()
        for key in ("names", "first", "scaled"):
            yield self._mistakes_of_schedule_key(key)
        yield self._mistakes_of_drawing()
        for key in ("question", "answers"):
            yield self._mistakes_of_asking(key)
        yield self._mistakes_of_schedule()
        yield self._mistakes_of_history()
        yield self._mistakes_of_initial()

    @property
    def numeric(self) -> bool:
        """Whether it can be any number in its range: computed, or drawn from a distribution or a table."""
        if self.history is not None:
            return True
        drawn = self.distribution is not None or self.table is not None
        return self.range is not None and drawn and "step" not in self.model_fields_set

    @property
    def values(self) -> list[Any]:
        """The levels of a variable with `levels` or a stepped `range`."""
        if self.levels is not None:
            return self.levels
        assert self.range is not None
        low, high = self.range
        count = round((high - low) / self.step) + 1
        numbers = [round(low + i * self.step, 12) for i in range(count)]
        return [int(x) if x.is_integer() else x for x in numbers]

    @property
    def seen_as(self) -> str:
        """The visibility; variables that follow a schedule are public."""
        return "public" if self.schedule is not None else self.visibility

    @property
    def known_levels(self) -> list[Any]:
        """All levels, including those of a schedule; empty for numbers."""
        if self.schedule is not None:
            return list(WEEK.get(self.schedule, self.names or []))
        return [] if self.numeric else self.values

    def _mistakes_of_values(self) -> Mistakes:
        """There must be one kind of valid values; then keys about levels must suit them."""
        given = [key for key in _KINDS_OF_VALUES if getattr(self, key) is not None]
        expected = {key: field.description for key, field in type(self).model_fields.items()}
        if not given and self.history is None:
            text = "lacks its values; expected levels = [...], range = [lowest, highest] or schedule = ..."
            yield "levels", text
        elif len(given) > 1:
            yield given[1], f"has {given[0]} and {given[1]}; expected only one of them"
        elif self.levels is not None and len(self.levels) > MOST_LEVELS:
            yield "levels", f"has {len(self.levels):,} levels; expected at most {MOST_LEVELS:,}"
        elif self.levels is not None and not good_levels(self.levels):
            yield "levels", f"has levels = {show(self.levels)}; expected {expected['levels']}"
        elif self.range is not None and (text := self._wrong_range(*self.range)):
            yield "range", text
        elif self.schedule == "time of day" and self.names is None:
            yield "schedule", "has schedule = 'time of day' without names; expected one for each decision"
        elif self.schedule == "time of day" and self.names and not _all_different(self.names):
            yield "names", f"has names = {show(self.names)}; expected {expected['names']}"
        else:
            yield self._mistakes_of_probabilities()
            yield self._mistakes_of_answers()
            yield self._mistakes_of_level_labels()
            yield self._mistakes_of_escalate()

    def _mistakes_of_step(self) -> Mistakes:
        _ = self.step  # a wrong value has been reported
        if "step" in self.model_fields_set and self.range is None and self.history is None:
            yield "step", "has step without range; expected range = [lowest, highest] with it"

    def _wrong_range(self, low: float, high: float) -> str:
        """The message for a wrong range; "" if it is valid."""
        if self.numeric:
            return "" if low < high else f"has range = {show([low, high])}; expected lowest < highest"
        text = f"has range = {show([low, high])} in steps of {self.step:g}"
        steps = (high - low) / self.step
        if not steps < MOST_LEVELS:
            return f"{text}; expected at most {MOST_LEVELS} levels, or distribution = ... for any number"
        if steps < 1.0 - 1e-9 or abs(steps - round(steps)) > 1e-9:
            return f"{text}; expected lowest < highest, a whole number of steps apart"
        return ""

    def _mistakes_of_probabilities(self) -> Mistakes:
        if self.probabilities is None or self.schedule is not None or self.numeric:
            return
        given, wanted = len(self.probabilities), len(self.values)
        if given != wanted:
            yield "probabilities", f"has {given} probabilities for {wanted} levels; expected one for each level"
        elif abs(sum(self.probabilities) - 1.0) > 1e-9:
            total = f"{sum(self.probabilities):.10g}"
            yield "probabilities", f"has probabilities that sum to {total}; expected 1"

    def _mistakes_of_answers(self) -> Mistakes:
        if self.answers is None or self.seen_as != "reported":
            return
        wanted = len(self.known_levels)
        if len(self.answers) != wanted or len(set(self.answers)) < wanted:
            expected = f"{wanted} different texts, one for each level" if wanted else "none for any number"
            yield "answers", f"has answers = {show(self.answers)}; expected {expected}"

    def _mistakes_of_level_labels(self) -> Mistakes:
        if self.level_labels is not None and len(self.level_labels) != len(self.known_levels):
            wanted = len(self.known_levels)
            expected = f"{wanted} texts, one for each level" if wanted else "none for any number"
            yield "level_labels", f"has level_labels = {show(self.level_labels)}; expected {expected}"

    def _mistakes_of_escalate(self) -> Mistakes:
        known = [str(level) for level in self.known_levels]
        for level in self.escalate:
            if level not in known:
                yield "escalate", f"has escalate for {level!r}; expected its levels, {show(known)}"

    def _mistakes_of_schedule_key(self, key: str) -> Mistakes:
        """A key for certain schedules needs one of these."""
        owners = [schedule for schedule, keys in _SCHEDULES.items() if key in keys]
        _ = getattr(self, key)  # a wrong value has been reported
        has_values = self.history is not None or any(getattr(self, key) is not None for key in _KINDS_OF_VALUES)
        if key in self.model_fields_set and self.schedule not in owners and has_values:
            yield key, f"has {key} without schedule = {' or '.join(map(repr, owners))}; expected both"

    def _mistakes_of_drawing(self) -> Mistakes:
        """A variable must be drawn in one way, which suits its values."""
        ways = [key for key in _WAYS_TO_DRAW if getattr(self, key) is not None]
        if len(ways) > 1:
            yield ways[1], f"has {ways[0]} and {ways[1]}; expected only one of them"
        elif self.distribution is not None and self.schedule is None and not self.numeric:
            other = "levels" if self.levels is not None else "step"
            text = f"has distribution and {other}; a distribution is for any number of a range"
            yield "distribution", f"{text}, expected range = [lowest, highest] alone"

    def _mistakes_of_asking(self, key: str) -> Mistakes:
        """Only reported variables may have questions and answers."""
        if getattr(self, key) is not None and self.seen_as != "reported" and self.history is None:
            yield key, f"has {key}; participants are asked for reported variables only"

    def _mistakes_of_schedule(self) -> Mistakes:
        """A variable that follows a schedule must be public and must not be drawn."""
        if self.schedule is None:
            return
        for key in (*_WAYS_TO_DRAW, "persistence"):
            yield self._mistakes_of_nothing_drawn(key)
        if "visibility" in self.model_fields_set and self.visibility != "public":
            text = f"has visibility = {self.visibility!r}; expected 'public', as everyone knows the schedule"
            yield "visibility", text

    def _mistakes_of_nothing_drawn(self, key: str) -> Mistakes:
        if getattr(self, key):
            yield key, f"has {key} and schedule; nothing is drawn, expected only schedule"

    def _mistakes_of_history(self) -> Mistakes:
        """A history must be sensed, and must not be drawn or asked for."""
        if self.history is None:
            return
        for key in (*_WAYS_TO_DRAW, "question", "answers", "persistence", "step", "levels", "schedule"):
            yield self._mistakes_beside_history(key)
        if self.visibility != "sensed":
            text = f"has visibility = {self.visibility!r} and history"
            yield "visibility", f"{text}; expected 'sensed', as it is computed from the record"

    def _mistakes_beside_history(self, key: str) -> Mistakes:
        _ = getattr(self, key)  # a wrong value has been reported
        if key in self.model_fields_set:
            values = key in _KINDS_OF_VALUES
            only = "history alone, or with range = [lowest, highest]" if values else "only history"
            yield key, f"has {key} and history; {'' if values else 'nothing is drawn or asked, '}expected {only}"

    def _mistakes_of_initial(self) -> Mistakes:
        """An initial value needs a history and must lie in the range."""
        if self.initial is None:
            return
        if self.history is None:
            yield "initial", "has initial without history; expected both"
        elif self.range is not None:
            low, high = self.range
            if low < high and not low <= self.initial <= high:
                yield "initial", f"has initial = {self.initial:g}; expected a number within {show(self.range)}"


def _all_different(names: list[str]) -> bool:
    return "" not in names and len(set(names)) == len(names)


def good_levels(levels: list[Any]) -> bool:
    """Whether levels are valid: at least two, all different, all texts or all numbers."""
    texts = all(isinstance(level, str) and level for level in levels)
    numbers = all(
        isinstance(level, int | float) and not isinstance(level, bool) and math.isfinite(level) for level in levels
    )
    return len(levels) >= 2 and (texts or numbers) and len(set(levels)) == len(levels)
