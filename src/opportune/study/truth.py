"""The truth, which only simulations know: [effects] and [world]."""

import math
from typing import Annotated, Any, ClassVar

from pydantic import Field

from opportune.algorithm.rng import normal
from opportune.study.base import WRONG, Mistakes, Table, refuse, show

EFFECT = "a number, { low = ..., high = ... } or { mean = ..., sd = ... }"

Probability = Annotated[float, Field(ge=0.0, le=1.0)]
Rate = Probability | Annotated[dict[str, Probability], Field(min_length=1)]
"""A rate, or one rate for each level of a public variable."""


class Effect(Table):
    """[effects]: the true effect of a term, a number or a distribution from which each instance draws."""

    one_value: ClassVar[bool] = True

    value: float | None = Field(default=None, description="a number")
    low: float | None = Field(default=None, description="a number")
    high: float | None = Field(default=None, description="a number")
    mean: float | None = Field(default=None, description="a number")
    sd: float | None = Field(default=None, ge=0.0, description="a number >= 0, the sd between instances")
    se: float | None = Field(default=None, ge=0.0, description="a number >= 0, the standard error of the mean")

    def mistakes(self) -> Mistakes:
        """An effect must be a number or have all parameters of one distribution."""
        if self.model_fields_set not in ({"value"}, {"low", "high"}, {"mean", "sd"}, {"mean", "sd", "se"}):
            yield "", f"has {', '.join(sorted(self.model_fields_set)) or 'nothing'}; expected {EFFECT}"
        elif self.low is not None and self.high is not None and self.low > self.high:
            yield "low", f"has low = {self.low:g} and high = {self.high:g}; expected low <= high"

    @property
    def drawn(self) -> bool:
        """Whether each instance draws its own effect."""
        return self.value is None

    @property
    def bound(self) -> float:
        """A bound on its distance from 0; normal effects exceed it once in 400 draws."""
        if self.value is not None:
            return abs(self.value)
        if self.low is not None and self.high is not None:
            return max(abs(self.low), abs(self.high))
        assert self.mean is not None
        assert self.sd is not None
        return abs(self.mean) + 3.0 * math.hypot(self.sd, self.se or 0.0)

    def at(self, uniform: float) -> float:
        """The effect at a uniform draw from [0, 1)."""
        if self.value is not None:
            return self.value
        if self.low is not None and self.high is not None:
            return self.low + uniform * (self.high - self.low)
        assert self.mean is not None
        assert self.sd is not None
        return self.mean + self.sd * float(normal(uniform))


def as_effect(given: Any) -> Any:
    """Convert a number to a table; leave tables as they are."""
    if isinstance(given, int | float) and not isinstance(given, bool) and math.isfinite(given):
        return {"value": given}
    if given is WRONG or (isinstance(given, dict) and "value" not in given):
        return given
    raise refuse("", f"is {show(given)}; expected {EFFECT}")


class SpellsTable(Table):
    """`spells` in [world]: times when a participant is on holiday or ill."""

    rate: float = Field(gt=0.0, lt=1.0, description="the probability that a spell begins on a day")
    days: int = Field(ge=1, le=366, description="a whole number from 1 to 366, the days that a spell lasts")
    silent: bool = Field(default=False, description="true or false, whether nobody knows about it meanwhile")


class WorldTable(Table):
    """[world]: how participants respond, and when they are available."""

    noise_sd: float | None = Field(default=None, ge=0.0, description="a number >= 0, the true sd of the reward's noise")
    open_rate: Rate = Field(
        default=0.0,
        description="the probability that a patient opens the app unasked, or one for each level of a public variable",
    )
    response_rate: Rate = Field(
        default=1.0, description="the probability that a nudge is answered, or one for each level of a public variable"
    )
    response_spread: float = Field(
        default=0.0, ge=0.0, le=10.0, description="a number >= 0, the sd between people of the log-odds of answering"
    )
    habituation: float = Field(
        default=1.0,
        gt=0.0,
        le=1.0,
        description="a number above 0 and up to 1, the factor on responses for each nudge of the last seven days",
    )
    spells: SpellsTable | None = Field(default=None, description="a table such as { rate = 0.01, days = 7 }")
    available_rate: float = Field(
        default=1.0, ge=0.0, le=1.0, description="the probability that a patient is available at a decision"
    )
    reward_rate: float = Field(default=1.0, ge=0.0, le=1.0, description="the probability that a reward ever arrives")
    reward_delay: int = Field(
        default=0, ge=0, le=10_000, description="a whole number from 0 to 10000, the longest delay of a reward in steps"
    )

    @property
    def by_level(self) -> dict[str, dict[str, float]]:
        """The rates that differ by level of a public variable."""
        rates = {"open_rate": self.open_rate, "response_rate": self.response_rate}
        return {key: rate for key, rate in rates.items() if isinstance(rate, dict)}
