"""How far the answer moves with the uncertainty of pilot data in the means of effects, which all participants share.

In [effects], `sd` is the spread of participants, which every interval over participants includes. `se` is the standard
error of the mean. It is the same for all participants and does not shrink with their number, so it has its own table.
New means are drawn for all participants together, and the plan's policy runs in each of these studies, all of which
fit the pilot data as well as the file does.
"""

import math
from typing import Any

import numpy as np
import pandas as pd

from opportune.planning.budget import Floats, Least, crossing, most, shares
from opportune.planning.settings import Settings
from opportune.planning.simulated import Simulations, means
from opportune.planning.worlds import Assumption, participants_of

DRAWS = 20
"""The number of studies with other means."""
ENDS = (0.05, 0.95)
"""The quantiles that enclose nine in ten of them."""


def is_uncertain(settings: Settings) -> bool:
    """Whether the file has a standard error (`se`) for the mean of any effect."""
    return any(effect.se for effect in settings.study.effects.values())


def shifts(settings: Settings) -> Floats:
    """The shift of all participants' effects in each draw: [draw, term]."""
    se = np.array([effect.se or 0.0 for effect in settings.study.effects.values()])
    return np.asarray(se * np.random.default_rng([settings.seed, DRAWS]).normal(size=(DRAWS, se.size)))


def count_steps(settings: Settings) -> float:
    """The number of steps to simulate."""
    if not is_uncertain(settings):
        return 0.0
    runs = DRAWS * (len(settings.budgets) + 3) * _replicates(settings)
    return float(runs * settings.horizon * settings.participants)


def find_uncertainty(settings: Settings, simulations: Simulations, least: Least) -> pd.DataFrame:
    """The answer under other means of effects: the median of all draws, and the range of nine in ten of them.

    Empty if the file has no `se`. In a draw where nudges bring nothing, the share is undefined and counts as -inf.
    """
    columns = ["measure", "middle", "low", "high"]
    if not is_uncertain(settings):
        return pd.DataFrame(columns=columns)
    found = pd.DataFrame([_draw(settings, simulations, least, k, shift) for k, shift in enumerate(shifts(settings))])
    ranked = found.fillna({"share": -math.inf})
    rows = [
        [name, *(float(np.quantile(ranked[name], q, method="nearest")) for q in (0.5, *ENDS))]
        for name in ranked.columns
    ]
    return pd.DataFrame(rows, columns=columns)


def _draw(settings: Settings, simulations: Simulations, least: Least, number: int, shift: Floats) -> dict[str, Any]:
    """One study with other means, under the plan's policy."""
    worlds = participants_of(settings, Assumption(name="pilot", text="", shift=tuple(shift.tolist())))
    policies = settings.curve(least.budget)
    chosen = list(policies.values())
    replicates = _replicates(settings)
    data = simulations.run(
        f"unsure-{number}-{least.budget}",
        f"other means, {number + 1} of {DRAWS}",
        float(settings.horizon * settings.participants * replicates * len(chosen)),
        lambda: means(settings, worlds, chosen, replicates),
    )
    found = dict(zip(policies, data["outcome"].values, strict=True))
    always = found.pop(math.inf)
    end = float(most(found[0.0], always, found[float(settings.horizon)]).mean())
    outcome = {budget: float(values.mean()) for budget, values in found.items()}
    budgets = np.array(sorted(outcome))
    reached = shares(np.array([outcome[b] for b in budgets]), outcome[0.0], end)
    return {
        "never": outcome[0.0],
        "planned": outcome[float(least.budget)],
        "always": float(always.mean()),
        "share": float(reached[budgets == least.budget][0]),
        "least": crossing(budgets, np.nan_to_num(reached, nan=-math.inf), least.share),
    }


def _replicates(settings: Settings) -> int:
    return max(2, settings.fewest // 2)
