"""The gain from fresh advice by level of the variables seen beforehand: why the rule prefers some moments to others.

The plan's recommender runs through the study twice, with a reveal at every decision and with none, without caps and
with the same arrivals and noise. The difference in outcome at revealed moments is the gain from a nudge there.
"""

from dataclasses import replace

import numpy as np
import pandas as pd
import xarray as xr

from opportune.analysis.intervals import interval
from opportune.planning.moments import Moments, seen_variables
from opportune.planning.settings import Settings
from opportune.planning.simulated import Simulations, steps
from opportune.planning.worlds import participants_of

COLUMNS = ["variable", "level", "worth", "worth_low", "worth_high"]


def find_worth(settings: Settings, simulations: Simulations) -> pd.DataFrame:
    """The gain from fresh advice at each level of each variable that the revealer sees."""
    runs = settings.fewest_traced
    data = simulations.run(
        "worth",
        "what fresh advice is worth",
        2.0 * settings.horizon * settings.participants * runs,
        lambda: _gains(settings, runs),
    )
    gain = data["gain"].values
    person = np.repeat(np.arange(gain.shape[0]), gain[0].size)
    flat, there = gain.ravel(), np.isfinite(gain).ravel()
    rows = []
    for seen in seen_variables(settings, Moments(settings, participants_of(settings), runs).of(data)):
        for i, label in enumerate(seen.labels):
            here = there & (seen.place.ravel() == i)
            counts = np.bincount(person[here], minlength=gain.shape[0])
            sums = np.bincount(person[here], weights=flat[here], minlength=gain.shape[0])
            if counts.any():
                mean = interval(sums[counts > 0] / counts[counts > 0])
                rows.append([seen.label, label, mean.mean, mean.low, mean.high])
    return pd.DataFrame(rows, columns=COLUMNS)


def _gains(settings: Settings, runs: int) -> xr.Dataset:
    """The gain in outcome at each revealed moment, [world, replicate, step]; NaN at all others."""
    ends = (settings.always(settings.main), settings.never(settings.main))
    free = [replace(policy, limits=None) for policy in ends]
    always, never = steps(settings, participants_of(settings), free, runs)
    revealed = always["revealed"].values.astype(bool) & ~never["revealed"].values.astype(bool)
    gain = np.where(revealed, always["outcome"].values - never["outcome"].values, np.nan)
    axes = always["outcome"].dims
    found = {"gain": (axes, gain.astype(np.float32))}
    if not settings.study.continuous:
        found["context"] = (axes, always["context"].values)
    return xr.Dataset(found)
