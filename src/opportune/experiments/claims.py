"""Claims of experiments: a statement, its evidence as numbers with 95% intervals, and the verdict.

One rule for every claim: a number must lie above or below its threshold. If its whole interval does, the claim
holds; if the whole interval lies on the other side, the claim does not hold; if the interval contains the threshold,
the claim is undecided. Differences are paired, instance by instance, since all policies meet the same draws.
"""

from collections.abc import Iterable, Sequence
from enum import StrEnum
from typing import Annotated

import numpy as np
from numpy.typing import ArrayLike
from pydantic import BaseModel, ConfigDict, Field

from opportune.analysis.intervals import interval

ROUNDING = 1e-9  # the largest rounding error of a sum of probabilities


class Verdict(StrEnum):
    """The outcome of a claim."""

    HELD = "held"
    NOT_HELD = "not held"
    NOT_DECIDED = "not decided"


class Estimate(BaseModel):
    """A number behind a claim, its 95% interval, and the thresholds that it must lie above, below or between.

    Without an interval (a single instance, or none) the number is undecided.
    """

    model_config = ConfigDict(strict=True, frozen=True, allow_inf_nan=False)

    label: str
    mean: float | None
    low: float | None
    high: float | None
    above: float | None = None
    below: float | None = None

    @property
    def verdict(self) -> Verdict:
        """The side of the thresholds on which the interval lies."""
        if self.low is None or self.high is None:
            return Verdict.NOT_DECIDED
        above = -np.inf if self.above is None else self.above
        below = np.inf if self.below is None else self.below
        if self.low > above and self.high < below:
            return Verdict.HELD
        return Verdict.NOT_HELD if self.high < above or self.low > below else Verdict.NOT_DECIDED

    @property
    def held(self) -> bool:
        """Whether the whole interval lies on the claimed side."""
        return self.verdict is Verdict.HELD


class Claim(BaseModel):
    """A statement that its experiment could refute, and the outcome."""

    model_config = ConfigDict(strict=True, frozen=True)

    statement: Annotated[str, Field(min_length=1)]
    verdict: Verdict
    evidence: str
    estimates: list[Estimate] = []


def measure(
    label: str, values: ArrayLike, *, above: float | None = None, below: float | None = None,
    within: tuple[float, float] = (-np.inf, np.inf),
) -> Estimate:  # fmt: skip
    """The mean over instances with its interval, limited to possible values (`within`: a share is at most 100%).

    Instances without a value (NaN) are left out.
    """
    known = np.asarray(values, dtype=np.float64)
    known = known[~np.isnan(known)]
    if known.size == 0:
        return Estimate(label=label, mean=None, low=None, high=None, above=above, below=below)
    found = interval(known)
    low, high = (None, None) if np.isnan(found.half_width) else (max(found.low, within[0]), min(found.high, within[1]))
    return Estimate(label=label, mean=found.mean, low=low, high=high, above=above, below=below)


def exact(label: str, value: float, *, above: float | None = None, below: float | None = None) -> Estimate:
    """A number without randomness: its interval is the number itself."""
    return Estimate(label=label, mean=value, low=value, high=value, above=above, below=below)


def decide(estimates: Iterable[Estimate], *, some: bool = False) -> Verdict:
    """The verdict on a claim about all of these numbers, or about at least one if `some`."""
    verdicts = [estimate.verdict for estimate in estimates]
    decisive, otherwise = (Verdict.HELD, Verdict.NOT_HELD) if some else (Verdict.NOT_HELD, Verdict.HELD)
    if decisive in verdicts:
        return decisive
    return otherwise if verdicts and all(verdict is otherwise for verdict in verdicts) else Verdict.NOT_DECIDED


def claim(
    statement: str, lead: str, estimates: Sequence[Estimate], *, digits: int = 1, unit: str = "",
    some: bool = False, note: str = "",
) -> Claim:  # fmt: skip
    """A claim about all (or `some`) of these numbers; `lead` describes them in the evidence."""
    shown = "; ".join(_say(estimate, digits, unit) for estimate in estimates)
    evidence = f"{lead}, mean and 95% interval: {shown or 'none'}.{_say_threshold(estimates, unit)}"
    return Claim(
        statement=statement,
        verdict=decide(estimates, some=some),
        evidence=f"{evidence} {note}".strip(),
        estimates=list(estimates),
    )


def without_exception(statement: str, exceptions: int, evidence: str) -> Claim:
    """A claim about every single run or instance: one exception refutes it, so the threshold is half an exception."""
    estimates = [exact("exceptions", float(exceptions), below=0.5)]
    return Claim(statement=statement, verdict=decide(estimates), evidence=evidence, estimates=estimates)


def _say(estimate: Estimate, digits: int, unit: str) -> str:
    if estimate.mean is None:
        return f"{estimate.label}: no instance has one"
    mean = f"{estimate.label}: {estimate.mean:.{digits}f}{unit}"
    if estimate.low is None or estimate.high is None:
        return f"{mean} (a single instance)"
    return f"{mean} ({estimate.low:.{digits}f} to {estimate.high:.{digits}f})"


def _say_threshold(estimates: Sequence[Estimate], unit: str) -> str:
    """The thresholds of the numbers, unless they are simply 0."""
    if not estimates:
        return ""
    first = estimates[0]
    words = [
        f"{word} {threshold:.3g}{unit}"
        for word, threshold in (("above", first.above), ("below", first.below))
        if threshold is not None
    ]
    plain = first.below is None and first.above == 0.0
    return "" if plain or not words else f" Held {' and '.join(words)}."
