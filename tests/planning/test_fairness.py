"""Who gets the nudges: against counting by hand."""

import numpy as np
import pytest
import xarray as xr
from plan_studies import small

from opportune.planning.fairness import find_fairness


def steps(nudged: np.ndarray, context: np.ndarray) -> xr.Dataset:
    axes = ("world", "replicate", "step")
    return xr.Dataset({"nudged": (axes, nudged.astype(bool)), "context": (axes, context)})


def test_by_hand() -> None:
    """Tenths, levels and thirds are what counting gives."""
    rng = np.random.default_rng(1)
    context = rng.integers(6, size=(20, 3, 24))  # stress (3 levels) x weekend (2), the last fastest
    stress = context // 2
    nudged = stress == 2
    nudged[:, :, 12:] = False
    found = find_fairness(small(participants=20), steps(nudged, context), None)
    counts = np.sort(nudged.sum(axis=2), axis=0)
    table = found.participants.set_index("participants")
    assert table.loc["lowest tenth", "nudges"] == pytest.approx(counts[:2].mean())
    assert table.loc["highest tenth", "nudges"] == pytest.approx(counts[-2:].mean())
    assert table.loc["all", "nudges"] == pytest.approx(counts.mean())
    levels = found.levels.set_index(["variable", "level"])
    each = [(nudged & (stress == 2))[w].sum() / (stress == 2)[w].sum() for w in range(20)]
    assert levels.loc[("stress", "2"), "rate"] == pytest.approx(np.mean(each))
    assert levels.loc[("stress", "0"), "rate"] == 0.0
    assert set(found.levels["variable"]) == {"stress", "weekend"}
    assert found.times.set_index("time").loc["last third", "share"] == 0.0


def test_shared_budgets_are_shown_beside() -> None:
    """Where participants share a budget, some may get far more than others; the table has both."""
    context = np.zeros((10, 2, 24), dtype=int)
    own, together = np.zeros((10, 2, 24)), np.zeros((10, 2, 24))
    own[:, :, :2] = 1.0
    together[0, :, :20] = 1.0
    table = find_fairness(small(participants=10), steps(own, context), together).participants
    highest = table[table["participants"] == "highest tenth"].set_index("budget")
    assert (highest.loc["own", "nudges"], highest.loc["shared", "nudges"]) == (2.0, 20.0)
    assert highest.loc["shared", "share"] == 1.0


def test_reported_variables_are_left_out() -> None:
    """Nobody knows a reported variable when the moment is picked, so that it says nothing about fairness."""
    settings = small(("probabilities = [0.5, 0.3, 0.2]", "visibility = 'reported'"))
    context = np.zeros((12, 2, 24), dtype=int)
    assert set(find_fairness(settings, steps(context == 0, context), None).levels["variable"]) == {"weekend"}
