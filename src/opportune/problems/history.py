"""`History`: a variable that is computed from the participant's own record (algorithm.history)."""

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opportune import checks
from opportune.errors import InputError

OF = ("reward", "nudges", "answered", "opened", "contact")
"""The events that a history variable may summarise, in the order of their numbers in algorithm.history."""
SUMMARIES = ("mean", "sum", "days since")
MOST_BACK = 1_000
"""The most decision points that a history variable may look back."""
LONG_AGO = 28.0
"""The default upper limit of "days since"."""


@dataclass(frozen=True, kw_only=True)
class History:
    """A number computed from the participant's own record at each decision; it is sensed and never sent.

    Args:
        of: "reward"; "nudges", all that were made; "answered", nudges that were answered; "opened", unasked openings of
            the app; "contact", either of the last two.
        summary: "mean" or "sum" over that many past decision points; "days since" the latest.
        decisions: how many past decision points to include, or
        days: how many past days to include. One of the two is required, except for "days since", which counts up to
            `days` (28).
        discount: the weight of a decision point relative to the one after it; above 0 and up to 1.
        low: the least value; smaller values are raised to it. By default 0; for rewards `low` and `high` are required.
        high: the largest value.
        initial: the value before anything is on record; by default the middle of the range for a mean of rewards,
            `high` for days since, and otherwise the value nearest to 0.

    A mean of rewards includes those that have arrived so far.

    """

    of: str
    summary: str
    decisions: int | None = None
    days: int | None = None
    discount: float = 1.0
    low: float | None = None
    high: float | None = None
    initial: float | None = None

    def __post_init__(self) -> None:
        checks.choice("of of History", self.of, OF)
        checks.choice("summary of History", self.summary, SUMMARIES)
        since = self.summary == "days since"
        if since and self.of == "reward":
            raise InputError("History has days since a reward; expected days since nudges, answered, opened or contact")
        for name, most in (("decisions", MOST_BACK), ("days", MOST_BACK)):
            given = getattr(self, name)
            if given is not None:
                checks.keep(self, **{name: checks.whole(f"{name} of History", given, least=1, most=most)})
        given = [name for name in ("decisions", "days") if getattr(self, name) is not None]
        if since and "decisions" in given:
            raise InputError("History has days since and decisions; expected days or neither")
        if not since and len(given) != 1:
            raise InputError(
                f"History has {' and '.join(given) or 'neither decisions nor days'}; expected one of the two"
            )
        discount = checks.real("discount of History", self.discount, above=0.0, most=1.0)
        if since and discount < 1.0:
            raise InputError("History has days since and a discount; expected none")
        checks.keep(self, discount=discount)
        self._check_range()

    def _check_range(self) -> None:
        for name in ("low", "high", "initial"):
            if (given := getattr(self, name)) is not None:
                checks.keep(self, **{name: checks.real(f"{name} of History", given)})
        if self.of == "reward" and (self.low is None or self.high is None):
            raise InputError("History of rewards has no range; expected low=... and high=...")
        low, high = 0.0 if self.low is None else self.low, self.high
        if high is not None and low >= high:
            raise InputError(f"History is from {low:g} to {high:g}; expected low < high")
        if self.initial is not None and not low <= self.initial <= (math.inf if high is None else high):
            raise InputError(f"initial of History is {self.initial:g}; expected a value in its range")

    def resolved(self, per_day: int) -> "History":
        """The variable with all defaults filled in, for this number of decisions per day."""
        back = self.decisions if self.days is None or self.summary == "days since" else self.days * per_day
        if back is not None:
            back = checks.whole("decision points that History looks back", back, least=1, most=MOST_BACK)
        usual = {"mean": 1.0, "sum": float(back or 1), "days since": float(self.days or LONG_AGO)}[self.summary]
        low, high = 0.0 if self.low is None else self.low, usual if self.high is None else self.high
        first = {"mean": low + 0.5 * (high - low) if self.of == "reward" else 0.0, "sum": 0.0, "days since": high}
        initial = min(max(first[self.summary], low), high) if self.initial is None else self.initial
        days = self.days if self.summary == "days since" else None
        return replace(self, decisions=back, days=days, low=low, high=high, initial=initial)

    @property
    def range(self) -> tuple[float, float]:
        """The least and the largest value of a resolved variable."""
        assert self.low is not None
        assert self.high is not None
        return self.low, self.high


def histories_of(variables: Mapping[str, Any], per_day: int) -> dict[str, History]:
    """The variables of the participant's own history, with all defaults filled in."""
    return {name: variable.resolved(per_day) for name, variable in variables.items() if isinstance(variable, History)}


def check_sensed(histories: Mapping[str, History], visibility: Mapping[str, str]) -> None:
    """Reject any visibility other than "sensed" for history variables, since they are computed."""
    for name in histories:
        if visibility[name] != "sensed":
            raise InputError(f"visibility of {name!r} is {visibility[name]!r}; expected 'sensed', as it is computed")


def in_numbers(histories: Mapping[str, History], names: Sequence[str], per_day: int) -> NDArray[np.float64]:
    """The history variables as numbers, one row each (algorithm.history); `names` are those of all variables."""
    rows = [
        (names.index(name), OF.index(h.of), SUMMARIES.index(h.summary), h.decisions or 0, h.discount, h.low, h.high,
         h.initial, per_day)
        for name, h in histories.items()
    ]  # fmt: skip
    return np.array(rows, dtype=np.float64)
