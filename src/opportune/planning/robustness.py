"""Robustness: the plan with one assumption changed at a time, and which change moves the answer most."""

import math
from typing import Any

import numpy as np
import pandas as pd
import xarray as xr

from opportune.analysis.intervals import interval
from opportune.planning.budget import Least, crossing, most, quantiles, resampled, shares
from opportune.planning.cohorts import Cohorts
from opportune.planning.settings import Settings
from opportune.planning.simulated import Simulations, means, stay_means
from opportune.planning.worlds import Assumption, participants_of, survival
from opportune.policy import Policy
from opportune.study.naming import article
from opportune.study.rates import changed_rate, rate_in_words


def assumptions(settings: Settings) -> list[Assumption]:
    """The assumptions to change, one at a time; the file as it is comes first."""
    world = settings.study.settings.world
    dropout = settings.study.settings.participants.dropout
    more = min(0.9, max(0.2, 2.0 * dropout))
    found = [
        Assumption(name="as in the file", text="nothing changed", dropout=dropout or None),
        Assumption(
            name="answers rarer",
            text=f"{article(settings.nudge)} is answered with probability "
            f"{rate_in_words(changed_rate(world.response_rate, factor=0.6))} instead of "
            f"{rate_in_words(world.response_rate)}",
            answers=0.6,
        ),
        Assumption(
            name="openings more frequent",
            text=f"participants open the app unasked with probability "
            f"{rate_in_words(changed_rate(world.open_rate, plus=0.1))} at each "
            f"decision instead of {rate_in_words(world.open_rate)}",
            openings=0.1,
        ),
        Assumption(name="effects half as large", text="effects of actions are half as large", effects=0.5),
        Assumption(
            name="contexts misstated",
            text="contexts do not arrive as the agents assume: levels half as unequal, numbers one sd higher",
            contexts=True,
        ),
        Assumption(
            name="more drop out",
            text=f"{more:.0%} of participants leave before the end instead of {dropout:.0%}",
            dropout=more,
        ),
        Assumption(name="noise doubled", text="rewards vary twice as much", noise=2.0),
    ]
    return [a for a in found if _changes(settings, a)]


def _changes(settings: Settings, assumption: Assumption) -> bool:
    """Whether an assumption changes anything; contexts from a data table cannot change."""
    if not assumption.contexts or not settings.study.continuous:
        return True
    return any(
        v.distribution is not None or v.probabilities is not None for v in settings.study.settings.variables.values()
    )


def count_steps(settings: Settings) -> float:
    """The number of steps that the table takes."""
    budgets = len(settings.budgets) + 3
    return float(len(assumptions(settings)) * budgets * settings.horizon * settings.participants * settings.fewest)


def find_robustness(settings: Settings, simulations: Simulations, least: Least) -> pd.DataFrame:
    """For each assumption, the least budget for the plan's share, and the share of the plan's budget."""
    rows: list[dict[str, Any]] = []
    for number, assumption in enumerate(assumptions(settings)):
        rows.append(_row(settings, simulations, least, number, assumption))
    table = pd.DataFrame(rows)
    moved = np.abs(np.minimum(table["least"], settings.horizon) - min(table["least"].iloc[0], settings.horizon))
    return table.assign(moves=moved)


def _row(
    settings: Settings, simulations: Simulations, least: Least, number: int, assumption: Assumption
) -> dict[str, Any]:
    worlds = participants_of(settings, assumption)
    policies = settings.curve(least.budget)
    chosen = list(policies.values())
    data = simulations.run(
        f"assumption-{number}-{least.budget}",
        assumption.name,
        float(settings.horizon * settings.participants * settings.fewest * len(chosen)),
        lambda: _means(settings, worlds, chosen, assumption.dropout),
    )
    found = dict(zip(policies, data["outcome"].values, strict=True))
    end = most(found[0.0], found.pop(math.inf), found[float(settings.horizon)])
    budgets, again = resampled(found, found[0.0], end, settings.seed)
    means_now = shares(np.array([found[b].mean() for b in budgets]), found[0.0].mean(), end.mean())
    drawn = np.array([crossing(budgets, row, least.share) for row in again])
    here = interval(found[float(least.budget)])
    at = int(np.flatnonzero(budgets == least.budget)[0])
    share_low, share_high = quantiles(again[:, at])
    return {
        "assumption": assumption.name,
        "text": assumption.text,
        "least": crossing(budgets, means_now, least.share),
        "least_low": float(np.quantile(drawn, 0.025, method="nearest")),
        "least_high": float(np.quantile(drawn, 0.975, method="nearest")),
        "outcome": here.mean,
        "outcome_low": here.low,
        "outcome_high": here.high,
        "share": float(means_now[at]),
        "share_low": share_low,
        "share_high": share_high,
        "gain": float((found[float(least.budget)] - found[0.0]).mean()),
    }


def _means(settings: Settings, worlds: list[Any], policies: list[Policy], dropout: float | None) -> xr.Dataset:
    """Each participant's outcome per day under each policy, with dropout if there is any."""
    if not dropout:
        return means(settings, worlds, policies, settings.fewest)
    if not settings.shared:
        return stay_means(settings, worlds, policies, settings.fewest_traced, survival(settings, dropout))
    cohorts = Cohorts(settings, worlds, dropout=dropout)  # others can spend what those who leave do not need
    found = [cohorts.run(policy)["outcome"].values for policy in policies]
    return xr.Dataset({"outcome": (("policy", "world"), np.array(found))})
