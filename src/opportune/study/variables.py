"""[variables.NAME]: what a variable may be: one of some levels, any number of a range, or a place in the schedule."""

import math
from typing import Annotated, Any, Literal

from pydantic import Field, model_validator

from opportune.problems.variables import MOST_LEVELS, WEEKDAYS
from opportune.study.base import Table, refuse, show

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
"""The levels of what follows the calendar."""
_KINDS_OF_VALUES = ("levels", "range", "schedule")
_WAYS_TO_DRAW = ("probabilities", "distribution", "table")


class DistributionTable(Table):
    """How any number of a range is drawn; what lies outside the range is never drawn."""

    kind: Literal["normal", "lognormal", "uniform"] = Field(description="'normal', 'lognormal' or 'uniform'")
    mean: float | None = Field(default=None, description="a number")
    sd: float | None = Field(default=None, gt=0.0, description="a number > 0")
    median: float | None = Field(default=None, gt=0.0, description="a number > 0")
    sigma: float | None = Field(default=None, gt=0.0, description="a number > 0, the sd of the logarithm")
    low: float | None = Field(default=None, description="a number")
    high: float | None = Field(default=None, description="a number")

    @model_validator(mode="after")
    def _check(self) -> "DistributionTable":
        given = self.model_fields_set - {"kind"}
        if given not in _PARAMETERS[self.kind]:
            named = " and ".join(sorted(given)) or "nothing else"
            raise refuse("", f"has a {self.kind} distribution with {named}; expected {_EXPECTED[self.kind]}")
        if self.low is not None and self.high is not None and self.low >= self.high:
            text = f"has a uniform distribution with low = {self.low:g} and high = {self.high:g}"
            raise refuse("low", f"{text}; expected low < high")
        if self.kind == "lognormal" and self.mean is not None and self.mean <= 0.0:
            raise refuse("mean", f"has a lognormal distribution with mean = {self.mean:g}; expected a number > 0")
        return self


class HistoryTable(Table):
    """A variable that is computed from what is on record of the person's own past."""

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

    @model_validator(mode="after")
    def _check(self) -> "HistoryTable":
        if self.decisions is not None and self.days is not None:
            raise refuse("days", "has history with decisions and days; expected one of them")
        window = self.decisions is not None or self.days is not None
        if self.summary == "days since" and (self.of == "reward" or self.decisions or self.discount < 1.0):
            text = "has history with summary = 'days since'"
            raise refuse("summary", f"{text}; expected of = 'nudges' or 'contact', say, and at most days with it")
        if self.summary != "days since" and not window:
            raise refuse("", "has history without decisions or days; expected how far back it goes")
        return self


class VariableTable(Table):
    """[variables.NAME]: one variable of the context."""

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
    label: Annotated[str, Field(min_length=1)] | None = Field(default=None, description="a text, what people read")
    question: Annotated[str, Field(min_length=1)] | None = Field(
        default=None, description="a text, what participants are asked for a reported variable"
    )
    answers: list[Annotated[str, Field(min_length=1)]] | None = Field(
        default=None, description="a list of texts, one for each level, that participants choose from"
    )
    level_labels: list[Annotated[str, Field(min_length=1)]] | None = Field(
        default=None, description="a list of texts, one for each level, that people read instead of the levels"
    )
    digits: int | None = Field(
        default=None, ge=0, le=6, description="a whole number from 0 to 6, the digits after the point that people read"
    )
    escalate: dict[str, Annotated[str, Field(min_length=1, max_length=500)]] = Field(
        default={}, description="a table of levels with what staff must do at once, { strong = 'Ask for the doctor.' }"
    )
    persistence: float = Field(
        default=0.0, ge=0.0, lt=1.0, description="a probability below 1, that it stays as it was at the last decision"
    )
    history: HistoryTable | None = Field(
        default=None, description="a table such as { of = 'reward', summary = 'mean', decisions = 14 }"
    )
    initial: float | None = Field(default=None, description="a number, before there is any history")

    @model_validator(mode="after")
    def _check(self) -> "VariableTable":
        self._check_keys()
        if self.schedule is not None:
            self._check_schedule(self.schedule)
        if self.levels is not None and len(self.levels) > MOST_LEVELS:
            raise refuse("levels", f"has {len(self.levels):,} levels; expected at most {MOST_LEVELS:,}")
        if self.levels is not None and not good_levels(self.levels):
            expected = type(self).model_fields["levels"].description
            raise refuse("levels", f"has levels = {show(self.levels)}; expected {expected}")
        if self.levels is not None and len(self.levels) > MOST_LEVELS:
            raise refuse("levels", f"has {len(self.levels)} levels; expected at most {MOST_LEVELS}")
        if self.range is not None:
            self._check_range(*self.range)
        if self.probabilities is not None:
            self._check_probabilities(self.probabilities)
        self._check_words()
        if self.history is not None:
            self._check_history()
        elif self.initial is not None:
            raise refuse("initial", "has initial without history; expected both")
        if self.persistence and self.schedule is not None:
            raise refuse("persistence", "has persistence and schedule; nothing is drawn, expected only schedule")
        return self

    @property
    def numeric(self) -> bool:
        """Whether it may be any number of its range: one that is drawn from a distribution, or a table's."""
        if self.history is not None:
            return True
        drawn = self.distribution is not None or self.table is not None
        return self.range is not None and drawn and "step" not in self.model_fields_set

    @property
    def values(self) -> list[Any]:
        """The levels of a variable that has some, written out."""
        if self.levels is not None:
            return self.levels
        assert self.range is not None
        low, high = self.range
        count = round((high - low) / self.step) + 1
        numbers = [round(low + i * self.step, 12) for i in range(count)]
        return [int(x) if x.is_integer() else x for x in numbers]

    def _check_keys(self) -> None:
        """Which keys go together."""
        given = [key for key in _KINDS_OF_VALUES if getattr(self, key) is not None]
        if not given and self.history is None:
            raise refuse("", "lacks its values; expected levels = [...], range = [lowest, highest] or schedule = ...")
        if len(given) > 1:
            raise refuse(given[1], f"has {given[0]} and {given[1]}; expected only one of them")
        if self.range is None and "step" in self.model_fields_set:
            raise refuse("step", "has step without range; expected range = [lowest, highest] with it")
        for key in ("names", "first", "scaled"):
            owners = [schedule for schedule, keys in _SCHEDULES.items() if key in keys]
            if key in self.model_fields_set and self.schedule not in owners:
                raise refuse(key, f"has {key} without schedule = {' or '.join(map(repr, owners))}; expected both")
        ways = [key for key in _WAYS_TO_DRAW if getattr(self, key) is not None]
        if len(ways) > 1:
            raise refuse(ways[1], f"has {ways[0]} and {ways[1]}; expected only one of them")
        if self.distribution is not None and self.schedule is None and not self.numeric:
            other = "levels" if self.levels is not None else "step"
            text = f"has distribution and {other}; a distribution is for any number of a range"
            raise refuse("distribution", f"{text}, expected range = [lowest, highest] alone")

    def _check_schedule(self, schedule: str) -> None:
        for key in _WAYS_TO_DRAW:
            if getattr(self, key) is not None:
                raise refuse(key, f"has {key} and schedule; nothing is drawn, expected only schedule")
        if "visibility" in self.model_fields_set and self.visibility != "public":
            text = f"has visibility = {self.visibility!r}; expected 'public', as everyone knows the schedule"
            raise refuse("visibility", text)
        if schedule == "time of day":
            if self.names is None:
                raise refuse("schedule", "has schedule = 'time of day' without names; expected one for each decision")
            if len(set(self.names)) < len(self.names) or "" in self.names:
                expected = type(self).model_fields["names"].description
                raise refuse("names", f"has names = {show(self.names)}; expected {expected}")

    def _check_range(self, low: float, high: float) -> None:
        if self.numeric:
            if low >= high:
                raise refuse("range", f"has range = {show([low, high])}; expected lowest < highest")
            return
        steps = (high - low) / self.step
        if not steps < MOST_LEVELS:
            text = f"has range = {show([low, high])} in steps of {self.step:g}"
            raise refuse(
                "range", f"{text}; expected at most {MOST_LEVELS} levels, or distribution = ... for any number"
            )
        if steps < 1.0 - 1e-9 or abs(steps - round(steps)) > 1e-9:
            text = f"has range = {show([low, high])} in steps of {self.step:g}"
            raise refuse("range", f"{text}; expected lowest < highest, a whole number of steps apart")

    def _check_words(self) -> None:
        for key in ("question", "answers"):
            if getattr(self, key) is not None and (self.visibility != "reported" or self.schedule is not None):
                raise refuse(key, f"has {key}; participants are asked for reported variables only")
        if self.answers is not None:
            wanted = 0 if self.numeric else len(self.values)
            if len(self.answers) != wanted or len(set(self.answers)) < wanted:
                text = f"has answers = {show(self.answers)}"
                expected = f"{wanted} different texts, one for each level" if wanted else "none for any number"
                raise refuse("answers", f"{text}; expected {expected}")

        levels = self.names or ([] if self.numeric or self.schedule is not None else self.values)
        known = WEEK.get(self.schedule or "", levels)
        if self.level_labels is not None and len(self.level_labels) != len(known):
            expected = f"{len(known)} texts, one for each level" if known else "none for any number"
            raise refuse("level_labels", f"has level_labels = {show(self.level_labels)}; expected {expected}")
        for level in self.escalate:
            if level not in map(str, known):
                text = f"has escalate for {level!r}"
                raise refuse("escalate", f"{text}; expected levels of it, {show([str(level) for level in known])}")

    def _check_history(self) -> None:
        for key in (*_WAYS_TO_DRAW, "question", "answers", "persistence", "step"):
            if key in self.model_fields_set:
                raise refuse(key, f"has {key} and history; nothing is drawn or asked, expected only history")
        for key in ("levels", "schedule"):
            if getattr(self, key) is not None:
                raise refuse(key, f"has {key} and history; expected history alone, or with range = [lowest, highest]")
        if self.visibility != "sensed":
            text = f"has visibility = {self.visibility!r} and history"
            raise refuse("visibility", f"{text}; expected 'sensed', as it is computed from the record")
        if self.range is not None and self.initial is not None and not self.range[0] <= self.initial <= self.range[1]:
            raise refuse("initial", f"has initial = {self.initial:g}; expected a number within {show(self.range)}")

    def _check_probabilities(self, probabilities: list[float]) -> None:
        given, wanted = len(probabilities), len(self.values)
        if given != wanted:
            raise refuse("probabilities", f"has {given} probabilities for {wanted} levels; expected one for each level")
        if abs(sum(probabilities) - 1.0) > 1e-9:
            raise refuse("probabilities", f"has probabilities that sum to {sum(probabilities):.10g}; expected 1")


def good_levels(levels: list[Any]) -> bool:
    """Whether these can be a variable's levels: at least two, all different, texts or numbers."""
    texts = all(isinstance(level, str) and level for level in levels)
    numbers = all(
        isinstance(level, int | float) and not isinstance(level, bool) and math.isfinite(level) for level in levels
    )
    return len(levels) >= 2 and (texts or numbers) and len(set(levels)) == len(levels)
