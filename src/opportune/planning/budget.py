"""The value of the budget: what patients get for a number of nudges, and the least number that reaches the target.

With V(b) the mean outcome per day under budget b and V(never) that without nudges, what a budget brings is the share

    s(b) = (V(b) - V(never)) / (V(most) - V(never)),

where V(most) is the better of two ends: a nudge at every allowed decision, and the rule without a limit on its budget.
Caps and habituation may make the first worse than the rule. Where V(most) is not above V(never) beyond chance, there is
no share.

Each participant draws effects from the file's distributions, and counts as one observation. Intervals of means are
Student's t; those of shares and of the least budget come from drawing participants again (bootstrap percentiles).
"""

import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from opportune.analysis.intervals import interval
from opportune.planning.settings import Settings
from opportune.planning.simulated import Simulations, means
from opportune.policy import Policy

Floats = NDArray[np.float64]
DRAWS = 2_000
ROUNDS = 2
BETWEEN = 3
"""The search for the least budget tries `BETWEEN` budgets between the two that enclose it, `ROUNDS` times."""


class Least(NamedTuple):
    """The least budget that reaches the target, with its interval, and how it differs between participants."""

    budget: int
    low: float
    high: float
    share: float
    """The share that this budget brings: the target or, where no budget reaches it, the target times `most`."""
    reached: bool
    """Whether the target itself can be reached."""
    most: float
    """The share that the policy brings without a limit."""
    drawn_low: float
    drawn_high: float
    """The least budget of one participant in ten is below and above."""
    never_reached: float
    """The share of participants for whom no budget reaches the target."""
    useful: bool
    """Whether the better end is better than no nudges, beyond chance."""


class Values(NamedTuple):
    """What each policy brings at each budget, for each participant."""

    outcome: dict[str, dict[float, Floats]]
    """{policy: {budget: outcome per day [participant]}}; budget 0 is never nudging."""
    nudges: dict[str, dict[float, Floats]]
    always: Floats
    always_nudges: Floats
    main: str

    @property
    def never(self) -> Floats:
        """The outcome without nudges, under the recommender of the plan's policy."""
        return self.outcome[self.main][0.0]

    @property
    def unlimited(self) -> Floats:
        """The outcome under the plan's policy without a limit on its budget."""
        return self.outcome[self.main][max(self.outcome[self.main])]

    @property
    def most(self) -> Floats:
        """The outcome at the end of the scale: see `most`."""
        return most(self.never, self.always, self.unlimited)


def find_values(settings: Settings, simulations: Simulations) -> Values:
    """Simulate every policy at every budget, and the two ends.

    Each policy of the file is a part by itself, kept when it is finished. On a GPU all are one: kernels are built for
    the rules that run together, and take longer to build than to run.
    """
    asked = {entry: _asked(settings, entry) for entry in settings.entries}
    parts = [[entry] for entry in asked] if settings.device == "cpu" else [list(asked)]
    outcome: dict[str, dict[float, Floats]] = {}
    nudges: dict[str, dict[float, Floats]] = {}
    for part in parts:
        names = [settings.name(entry) for entry in part]
        policies = [policy for entry in part for policy in asked[entry].values()]
        key = "value-" + "-".join(map(str, part))
        data = _run(settings, simulations, key, ", ".join(names), policies, settings.replicates)
        place = 0
        for entry, name in zip(part, names, strict=True):
            here = slice(place, place + len(asked[entry]))
            outcome[name] = dict(zip(asked[entry], data["outcome"].values[here], strict=True))
            nudges[name] = dict(zip(asked[entry], data["nudges"].values[here], strict=True))
            place = here.stop
    main = settings.name(settings.main)
    return Values(outcome, nudges, outcome[main].pop(math.inf), nudges[main].pop(math.inf), main)


def _asked(settings: Settings, entry: int) -> dict[float, Policy]:
    """A policy of the file at every budget; that of the plan also without a limit, and at every decision."""
    asked = {float(budget): settings.policy(entry, budget) for budget in settings.budgets}
    if entry == settings.main:
        asked[float(settings.horizon)] = settings.policy(entry, float(settings.horizon))
        asked[math.inf] = settings.always(entry)
    return asked


def _run(
    settings: Settings, simulations: Simulations, key: str, what: str, policies: list[Policy], replicates: int
) -> xr.Dataset:
    size = float(settings.horizon * settings.participants * replicates * len(policies))
    return simulations.run(key, what, size, lambda: means(settings, settings.worlds, policies, replicates))


def most(never: Floats, always: Floats, unlimited: Floats) -> Floats:
    """The better end for each participant, NaN where on average it is not above `never` beyond chance."""
    better = always if always.mean() >= unlimited.mean() else unlimited
    gain = interval(better - never)
    sure = gain.mean > 0.0 and not gain.low <= 0.0  # NaN, with one participant, says nothing against it
    return better if sure else np.full_like(better, np.nan)


def shares(values: Any, never: Any, end: Any) -> Floats:
    """The share of the gain at the end of the scale that a budget brings; NaN where that gain is 0 or unknown."""
    gain = np.asarray(end - never, dtype=np.float64)
    worth = np.where(np.abs(gain) > 1e-12, gain, np.nan)
    return np.asarray((values - never) / worth, dtype=np.float64)


def crossing(budgets: Floats, reached: Floats, target: float) -> float:
    """The least budget at which a curve through these points reaches the target; infinite if it never does."""
    for i, (budget, share) in enumerate(zip(budgets, reached, strict=True)):
        if share >= target:
            if i == 0:
                return float(budget)
            before, low = budgets[i - 1], reached[i - 1]
            return float(before + (budget - before) * (target - low) / (share - low))
    return math.inf


def resampled(values: Mapping[float, Floats], never: Floats, end: Floats, seed: int) -> tuple[Floats, Floats]:
    """Budgets, and the share each brings in cohorts of participants who are drawn again: [cohort, budget]."""
    budgets = np.array(sorted(values))
    curves = np.stack([values[b] for b in budgets], axis=1)
    n = len(never)
    picks = np.random.default_rng(seed).multinomial(n, np.full(n, 1.0 / n), size=DRAWS) / n
    base, top = picks @ never, picks @ end
    return budgets, shares(picks @ curves, base[:, None], top[:, None])


def find_least(settings: Settings, values: Values, simulations: Simulations) -> Least:
    """The least budget that reaches the target under the policy that the plan is for.

    Between the two budgets that enclose it, more are simulated, with fewer replications.
    """
    curve = values.outcome[values.main]
    never, end = float(values.never.mean()), float(values.most.mean())
    if math.isnan(end):
        first = int(min(b for b in settings.budgets if b >= 1.0)) if max(settings.budgets) >= 1.0 else 1
        nothing = math.nan
        return Least(first, nothing, nothing, settings.target, False, nothing, nothing, nothing, 1.0, False)
    highest = max(float(shares(v.mean(), never, end)) for v in curve.values())
    reached = highest >= settings.target
    target = settings.target if reached else settings.target * highest
    for _ in range(ROUNDS):
        budgets = np.array(sorted(curve))
        found = crossing(budgets, np.array([float(shares(curve[b].mean(), never, end)) for b in budgets]), target)
        above = int(np.searchsorted(budgets, found))
        below, top = budgets[max(above - 1, 0)], budgets[min(above, len(budgets) - 1)]
        new = np.unique(np.round(np.linspace(below, top, BETWEEN + 2)[1:-1]))
        between = [float(b) for b in new if below < b < top]
        if not between:
            break
        policies = [settings.policy(settings.main, b) for b in between]
        key = "search-" + "-".join(f"{b:g}" for b in between)
        data = _run(settings, simulations, key, "the least budget", policies, settings.fewer)
        curve.update(zip(between, data["outcome"].values, strict=True))
        values.nudges[values.main].update(zip(between, data["nudges"].values, strict=True))
    budgets, again = resampled(curve, values.never, values.most, settings.seed)
    drawn = np.array([crossing(budgets, row, target) for row in again])
    means_now = np.array([float(shares(curve[b].mean(), never, end)) for b in budgets])
    found = crossing(budgets, means_now, target)
    own = _own_least(values, target)
    inside = own[np.isfinite(own)]
    return Least(
        budget=max(1, min(settings.horizon, math.ceil(found - 1e-9))),
        low=float(np.quantile(drawn, 0.025, method="nearest")),
        high=float(np.quantile(drawn, 0.975, method="nearest")),
        share=target,
        reached=reached,
        most=highest,
        drawn_low=float(np.quantile(inside, 0.1)) if inside.size else math.nan,
        drawn_high=float(np.quantile(inside, 0.9)) if inside.size else math.nan,
        never_reached=1.0 - inside.size / max(own.size, 1),
        useful=True,
    )


def _own_least(values: Values, target: float) -> Floats:
    """The least budget of each single participant who gains by nudges."""
    curve = values.outcome[values.main]
    budgets = np.array(sorted(curve))
    own = shares(np.stack([curve[b] for b in budgets], axis=1), values.never[:, None], values.most[:, None])
    useful = (values.most - values.never) > 1e-12
    return np.array([crossing(budgets, row, target) for row in own[useful]])


def value_table(settings: Settings, values: Values) -> pd.DataFrame:
    """What each policy brings at each budget: outcome per day with its interval, share, what one more nudge adds."""
    rows = []
    never, top = float(values.never.mean()), float(values.most.mean())
    for policy, curve in values.outcome.items():
        budgets, again = resampled(curve, values.never, values.most, settings.seed)
        for i, budget in enumerate(budgets):
            mean = interval(curve[budget])
            low, high = quantiles(again[:, i])
            row = {
                "policy": policy, "budget": budget, "nudges": float(values.nudges[policy][budget].mean()),
                "outcome": mean.mean, "low": mean.low, "high": mean.high,
                "share": float(shares(curve[budget].mean(), never, top)),
                "share_low": low, "share_high": high,
                "one_more": math.nan, "one_more_low": math.nan, "one_more_high": math.nan,
            }  # fmt: skip
            if i > 0:
                more = interval((curve[budget] - curve[budgets[i - 1]]) / (budget - budgets[i - 1]))
                row |= {"one_more": more.mean, "one_more_low": more.low, "one_more_high": more.high}
            rows.append(row)
    end = interval(values.always)
    rows.append(
        {
            "policy": "always", "budget": math.nan, "nudges": float(values.always_nudges.mean()), "outcome": end.mean,
            "low": end.low, "high": end.high, "share": float(shares(end.mean, never, top)),
            "share_low": math.nan, "share_high": math.nan, "one_more": math.nan, "one_more_low": math.nan,
            "one_more_high": math.nan,
        }
    )  # fmt: skip
    return pd.DataFrame(rows)


def quantiles(values: Floats) -> tuple[float, float]:
    """The middle 95% of what is finite; NaN where nothing is."""
    known = values[np.isfinite(values)]
    if known.size == 0:
        return math.nan, math.nan
    return float(np.quantile(known, 0.025)), float(np.quantile(known, 0.975))
