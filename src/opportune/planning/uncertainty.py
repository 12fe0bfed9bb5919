"""How far the answer moves with what pilot data leave uncertain: the means of effects, which all participants share.

`sd` in [effects] is how participants differ, and shows in every interval over participants. `se` is the standard error
of the mean itself. It is the same for all participants, and more of them do not help: hence a table of its own. Means
are drawn anew, for all participants alike, and the plan's policy runs in each of these studies, which the pilot cannot
tell from the file's.
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
"""Studies with other means."""
ENDS = (0.05, 0.95)
"""The quantiles between which nine in ten of them lie."""


def is_uncertain(settings: Settings) -> bool:
    """Whether the file has a standard error (`se`) for the mean of any effect."""
    return any(effect.se for effect in settings.study.effects.values())


def shifts(settings: Settings) -> Floats:
    """What is added to the effects of all participants in each draw: [draw, term]."""
    se = np.array([effect.se or 0.0 for effect in settings.study.effects.values()])
    return np.asarray(se * np.random.default_rng([settings.seed, DRAWS]).normal(size=(DRAWS, se.size)))


def count_steps(settings: Settings) -> float:
    """How many steps it takes."""
    if not is_uncertain(settings):
        return 0.0
    runs = DRAWS * (len(settings.budgets) + 3) * _replicates(settings)
    return float(runs * settings.horizon * settings.participants)


def find_uncertainty(settings: Settings, simulations: Simulations, least: Least) -> pd.DataFrame:
    """The answer under other means of effects: the middle of all draws, and where nine in ten of them lie.

    Empty where the file has no `se`. A draw in which nudges bring nothing has no share: it counts as -inf.
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
    """One study with other means, under the policy that the plan is for."""
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
