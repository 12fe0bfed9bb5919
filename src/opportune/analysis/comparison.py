"""Comparisons of policies: outcomes, paired differences, nudges, and regret where it is comparable.

All policies of a simulation meet the same draws, so differences of outcomes vary less than the outcomes themselves;
they are computed run by run. Outcome and realised regret mean the same for every policy. The paper's regret does not:
its clairvoyant has the policy's own budget, so only policies with the same budget are compared.
"""

import math
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from opportune import checks
from opportune.analysis.inputs import check_results
from opportune.analysis.intervals import Interval, interval_of_runs
from opportune.analysis.metrics import (
    clairvoyants,
    described_policies,
    has_realised_regret,
    has_regret,
    mean_outcome,
    realised_regret,
    regret,
)
from opportune.revealers import REVEALERS


class Compared(NamedTuple):
    """One policy: means over runs with their 95% intervals, and the difference of its outcome from the reference's."""

    policy: str
    budget: float | None
    outcome: Interval
    difference: Interval | None  # None for the reference
    realised_regret: Interval | None  # None if these worlds do not report the best possible value
    nudges: Interval
    reveals: Interval
    budget_left: float | None
    clairvoyant: str | None  # the clairvoyant that `regret` is measured against
    regret: Interval | None


def compare_policies(data: xr.Dataset, reference: str | None = None) -> list[Compared]:
    """Compare every policy of a Dataset with a reference, by default that of `pick_reference`."""
    chosen = pick_reference(data, reference)
    outcome = at_end(mean_outcome(data))
    realised = at_end(realised_regret(data)) if has_realised_regret(data) else None
    against = {policy: name for name, members in clairvoyants(data).items() for policy in members}
    lost = at_end(regret(data)) if has_regret(data) else None
    rows = []
    for label, policy in zip(map(str, data["policy"].values), described_policies(data), strict=True):
        here = {"policy": label}
        rows.append(
            Compared(
                policy=label,
                budget=None if policy["budget"] is None else float(policy["budget"]["amount"]),
                outcome=interval_of_runs(outcome.sel(here)),
                difference=None if label == chosen else paired_difference(outcome, label, chosen),
                realised_regret=None if realised is None else interval_of_runs(realised.sel(here)),
                nudges=interval_of_runs(data["nudges"].sel(here)),
                reveals=interval_of_runs(data["reveals"].sel(here)),
                budget_left=_budget_left(data.sel(here), policy["budget"]),
                clairvoyant=None if lost is None else against.get(label),
                regret=None if lost is None or label not in against else interval_of_runs(lost.sel(here)),
            )
        )
    return rows


def pick_reference(data: xr.Dataset, wanted: str | None = None) -> str:
    """The reference policy: the one wanted, else the first that never nudges, else the first."""
    data = check_results(data, "a comparison of policies")
    labels = [str(label) for label in data["policy"].values]
    if wanted is not None:
        return checks.choice("reference", wanted, labels)
    kinds = [REVEALERS.named().get(policy["revealer"]["kind"]) for policy in described_policies(data)]
    return next((label for label, kind in zip(labels, kinds, strict=True) if kind and not kind.spends), labels[0])


def paired_difference(values: xr.DataArray, policy: str, reference: str) -> Interval:
    """A policy's values minus the reference's, on the same draws."""
    return interval_of_runs(values.sel(policy=policy, drop=True) - values.sel(policy=reference, drop=True))


def at_end(values: xr.DataArray) -> xr.DataArray:
    """The values of whole runs."""
    return values.isel(step=-1) if "step" in values.dims else values


def digits_for(intervals: Iterable[Interval | None]) -> int:
    """Digits after the point for these numbers: two significant ones of the least half-width, or of the numbers."""
    found = [i for i in intervals if i is not None]
    sizes = [i.half_width for i in found if i.half_width > 0] or [abs(i.mean) / 10 for i in found if i.mean]
    finite = [size for size in sizes if math.isfinite(size)]
    return max(0, min(4, 1 - math.floor(math.log10(min(finite))))) if finite else 1


def _budget_left(data: xr.Dataset, budget: dict[str, Any] | None) -> float | None:
    """The rest of one policy's budget: in nudges if it is hard, else in reveal probabilities."""
    if budget is None:
        return None
    spent = data["nudges"] if budget["hard"] else data["spent"]
    runs = spent.sum("world") if budget["shared"] else spent
    return float(budget["amount"] - np.mean(runs.values))
