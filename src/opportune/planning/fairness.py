"""Who gets the nudges: their spread over participants, over levels of the variables seen beforehand, and over time."""

import itertools
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from opportune.analysis.intervals import interval
from opportune.planning.cohorts import leaving
from opportune.planning.moments import seen_variables
from opportune.planning.settings import Settings

Floats = NDArray[np.float64]


class Fairness(NamedTuple):
    """Who gets the nudges."""

    participants: pd.DataFrame
    levels: pd.DataFrame
    times: pd.DataFrame
    counts: Floats
    """Nudges of each simulated participant."""


def find_fairness(settings: Settings, nudged: Floats, moments: Any, together: Floats) -> Fairness:
    """Who gets the nudges.

    Args:
        settings: the plan's settings.
        nudged: whether there was a nudge under the plan's policy, [participant, replicate, step].
        moments: the contexts of these steps, as `seen_variables` expects them.
        together: whether there was a nudge when participants share one budget, [participant, cohort, step].

    """
    shared = together.sum(axis=2)
    tables = [_participants("shared", shared)]
    counts = shared
    if not settings.shared:
        counts = _until_leaving(settings, nudged).sum(axis=2)
        tables.insert(0, _participants("own", counts))
    levels = _levels(settings, nudged, moments)
    return Fairness(pd.concat(tables, ignore_index=True), levels, _times(nudged), counts.ravel())


def _until_leaving(settings: Settings, nudged: Floats) -> Floats:
    """The nudges that are made: participants who have left get none."""
    people, replicates, horizon = nudged.shape
    dropout = settings.study.settings.participants.dropout
    lasts = leaving(np.random.default_rng(settings.seed), people * replicates, horizon, dropout)
    return nudged * (np.arange(horizon) < lasts.reshape(people, replicates, 1))


def _participants(kind: str, counts: Floats) -> pd.DataFrame:
    """Nudges of the lowest and highest tenth of participants, of the middle, and of all: [participant, replicate].

    Participants are ranked by their nudges in each simulated cohort.
    """
    ranked = np.sort(counts, axis=0)
    tenth = max(1, round(len(ranked) / 10))
    groups = {
        "lowest tenth": ranked[:tenth],
        "middle": ranked[tenth : len(ranked) - tenth],
        "highest tenth": ranked[-tenth:],
        "all": ranked,
    }
    rows = []
    for name, group in groups.items():
        if len(group):
            mean = interval(group.mean(axis=0))
            share = float(group.sum() / max(ranked.sum(), 1e-12))
            rows.append(
                {
                    "budget": kind,
                    "participants": name,
                    "nudges": mean.mean,
                    "low": mean.low,
                    "high": mean.high,
                    "share": share,
                }
            )
    return pd.DataFrame(rows)


def _levels(settings: Settings, nudged: Floats, moments: Any) -> pd.DataFrame:
    """The probability of a nudge per decision point, at each level of each variable that the revealer sees.

    Continuous variables are shown in classes.
    """
    rows = []
    for seen in seen_variables(settings, moments):
        for i, label in enumerate(seen.labels):
            here = seen.place == i
            each = here.sum(axis=(1, 2))
            rates = (nudged * here).sum(axis=(1, 2))[each > 0] / each[each > 0]
            if rates.size:
                mean = interval(rates)
                rows.append([seen.label, label, float(here.mean()), mean.mean, mean.low, mean.high])
    return pd.DataFrame(rows, columns=["variable", "level", "decisions", "rate", "low", "high"])


def _times(nudged: Floats) -> pd.DataFrame:
    """The share of a participant's nudges in each third of the study."""
    horizon = nudged.shape[2]
    edges = [0, round(horizon / 3), round(2 * horizon / 3), horizon]
    each = nudged.sum(axis=(1, 2))
    rows = []
    for name, (first, last) in zip(
        ("first third", "second third", "last third"), itertools.pairwise(edges), strict=True
    ):
        shares = nudged[:, :, first:last].sum(axis=(1, 2))[each > 0] / each[each > 0]
        mean = interval(shares) if shares.size else None
        rows.append(
            {
                "time": name,
                "share": mean.mean if mean else np.nan,
                "low": mean.low if mean else np.nan,
                "high": mean.high if mean else np.nan,
            }
        )
    return pd.DataFrame(rows)
