"""The value of the budget: the outcome for each number of nudges, and the least number that reaches the target.

With V(b) the mean outcome per day under budget b and V(never) the outcome without nudges, the share of budget b is

    s(b) = (V(b) - V(never)) / (V(most) - V(never)),

where V(most) is the better of two extremes: a nudge at every allowed decision, and the rule without a limit on its
budget. Caps and habituation can make the first worse than the rule. The share is undefined unless V(most) exceeds
V(never) beyond chance.

Each participant draws effects from the file's distributions and counts as one observation. Intervals of means use
Student's t; those of shares and of the least budget are percentiles of a bootstrap over participants.
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
    """The least budget that reaches the target, with its interval and its spread across participants."""

    budget: int
    low: float
    high: float
    share: float
    """The share that this budget achieves: the target or, if no budget reaches it, the target times `most`."""
    reached: bool
    """Whether the target itself can be reached."""
    most: float
    """The share that the policy achieves without a limit on its budget."""
    drawn_low: float
    drawn_high: float
    """The middle 80% of participants have a least budget between `drawn_low` and `drawn_high`."""
    never_reached: float
    """The share of participants for whom no budget reaches the target."""
    useful: bool
    """Whether the better extreme beats no nudges beyond chance."""


class Values(NamedTuple):
    """The outcome of each policy at each budget, for each participant."""

    outcome: dict[str, dict[float, Floats]]
    """{policy: {budget: outcome per day [participant]}}; budget 0 means no nudges."""
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
        """The outcome at the top of the scale: see `most`."""
        return most(self.never, self.always, self.unlimited)


def find_values(settings: Settings, simulations: Simulations) -> Values:
    """Simulate every policy at every budget, and the two extremes.

    On a CPU each policy of the file is a part of its own, kept once it is finished. On a GPU all policies form one
    part: kernels are built for the rules that run together, and building takes longer than running.
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
    """A policy of the file at every budget; the plan's policy also without a limit and with a nudge at every step."""
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
    """The better extreme for each participant; NaN if its mean does not exceed that of `never` beyond chance."""
    better = always if always.mean() >= unlimited.mean() else unlimited
    gain = interval(better - never)
    sure = gain.mean > 0.0 and not gain.low <= 0.0  # with one participant `low` is NaN, which is no evidence against
    return better if sure else np.full_like(better, np.nan)


def shares(values: Any, never: Any, end: Any) -> Floats:
    """The share of the largest possible gain that a budget achieves; NaN if that gain is 0 or unknown."""
    gain = np.asarray(end - never, dtype=np.float64)
    worth = np.where(np.abs(gain) > 1e-12, gain, np.nan)
    return np.asarray((values - never) / worth, dtype=np.float64)


def crossing(budgets: Floats, reached: Floats, target: float) -> float:
    """The least budget at which the curve through these points reaches the target; infinite if it never does."""
    for i, (budget, share) in enumerate(zip(budgets, reached, strict=True)):
        if share >= target:
            if i == 0:
                return float(budget)
            before, low = budgets[i - 1], reached[i - 1]
            return float(before + (budget - before) * (target - low) / (share - low))
    return math.inf


def resampled(values: Mapping[float, Floats], never: Floats, end: Floats, seed: int) -> tuple[Floats, Floats]:
    """Budgets, and their shares in bootstrap cohorts of participants: [cohort, budget]."""
    budgets = np.array(sorted(values))
    curves = np.stack([values[b] for b in budgets], axis=1)
    n = len(never)
    picks = np.random.default_rng(seed).multinomial(n, np.full(n, 1.0 / n), size=DRAWS) / n
    base, top = picks @ never, picks @ end
    return budgets, shares(picks @ curves, base[:, None], top[:, None])


def find_least(settings: Settings, values: Values, simulations: Simulations) -> Least:
    """The least budget that reaches the target under the plan's policy.

    The search simulates more budgets between the two that enclose it, with fewer replications.
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
    """The least budget of each participant who gains from nudges."""
    curve = values.outcome[values.main]
    budgets = np.array(sorted(curve))
    own = shares(np.stack([curve[b] for b in budgets], axis=1), values.never[:, None], values.most[:, None])
    useful = (values.most - values.never) > 1e-12
    return np.array([crossing(budgets, row, target) for row in own[useful]])


def value_table(settings: Settings, values: Values) -> pd.DataFrame:
    """A row per policy and budget: outcome per day, its gain over no nudges, share, and the gain from one more nudge.

    Gains are differences within the same participants, so their intervals are narrower than those of outcomes.
    """
    rows = []
    never, top = float(values.never.mean()), float(values.most.mean())
    for policy, curve in values.outcome.items():
        budgets, again = resampled(curve, values.never, values.most, settings.seed)
        for i, budget in enumerate(budgets):
            mean, gain = interval(curve[budget]), interval(curve[budget] - values.never)
            low, high = quantiles(again[:, i])
            row = {
                "policy": policy, "budget": budget, "nudges": float(values.nudges[policy][budget].mean()),
                "outcome": mean.mean, "low": mean.low, "high": mean.high,
                "gain": gain.mean, "gain_low": gain.low, "gain_high": gain.high,
                "share": float(shares(curve[budget].mean(), never, top)),
                "share_low": low, "share_high": high,
                "one_more": math.nan, "one_more_low": math.nan, "one_more_high": math.nan,
            }  # fmt: skip
            if i > 0:
                more = interval((curve[budget] - curve[budgets[i - 1]]) / (budget - budgets[i - 1]))
                row |= {"one_more": more.mean, "one_more_low": more.low, "one_more_high": more.high}
            rows.append(row)
    end, gain = interval(values.always), interval(values.always - values.never)
    rows.append(
        {
            "policy": "always", "budget": math.nan, "nudges": float(values.always_nudges.mean()),
            "outcome": end.mean, "low": end.low, "high": end.high,
            "gain": gain.mean, "gain_low": gain.low, "gain_high": gain.high,
            "share": float(shares(end.mean, never, top)), "share_low": math.nan, "share_high": math.nan,
            "one_more": math.nan, "one_more_low": math.nan, "one_more_high": math.nan,
        }
    )  # fmt: skip
    return pd.DataFrame(rows)


def quantiles(values: Floats) -> tuple[float, float]:
    """The 2.5% and 97.5% quantiles of the finite values; NaN if there are none."""
    known = values[np.isfinite(values)]
    if known.size == 0:
        return math.nan, math.nan
    return float(np.quantile(known, 0.025)), float(np.quantile(known, 0.975))
