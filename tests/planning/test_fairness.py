"""Who gets the nudges: against counting by hand."""

import numpy as np
import pytest
from plan_studies import numeric, small

import opportune as op
from opportune.planning.fairness import find_fairness
from opportune.planning.moments import classes, drawn_values
from opportune.planning.worlds import participants_of


def test_by_hand() -> None:
    """Tenths, levels and thirds are what counting gives."""
    rng = np.random.default_rng(1)
    context = rng.integers(6, size=(20, 3, 24))  # stress (3 levels) x weekend (2), the last fastest
    stress = context // 2
    nudged = stress == 2
    nudged[:, :, 12:] = False
    found = find_fairness(small(participants=20), nudged.astype(float), context, nudged.astype(float))
    counts = np.sort(nudged.sum(axis=2), axis=0)
    table = found.participants[found.participants["budget"] == "own"].set_index("participants")
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
    table = find_fairness(small(participants=10), own, context, together).participants
    highest = table[table["participants"] == "highest tenth"].set_index("budget")
    assert (highest.loc["own", "nudges"], highest.loc["shared", "nudges"]) == (2.0, 20.0)
    assert highest.loc["shared", "share"] == 1.0


def test_reported_variables_are_left_out() -> None:
    """Nobody knows a reported variable when the moment is picked, so that it says nothing about fairness."""
    settings = small(("probabilities = [0.5, 0.3, 0.2]", "visibility = 'reported'"))
    context = np.zeros((12, 2, 24), dtype=int)
    assert set(find_fairness(settings, np.ones(context.shape), context, np.ones(context.shape)).levels["variable"]) == {
        "weekend"
    }


def test_numbers_are_shown_in_quarters_beside_the_levels_of_others() -> None:
    """A variable that may be any number has four classes, equally frequent; other variables keep their levels."""
    settings = numeric(participants=8)
    values = drawn_values(settings, participants_of(settings), 5)
    names = list(settings.study.variables)
    stress = values[..., names.index("stress")]
    nudged = (stress > np.quantile(stress, 0.75)).astype(float)
    levels = find_fairness(settings, nudged, values, nudged).levels.set_index("variable")
    assert list(levels.loc["stress", "decisions"]) == pytest.approx([0.25] * 4, abs=0.01)
    assert list(levels.loc["stress", "rate"]) == pytest.approx([0.0, 0.0, 0.0, 1.0], abs=0.02)
    assert levels.loc["stress", "level"].iloc[0].startswith("0.0")
    assert list(levels.loc["weekend", "level"]) == ["weekday", "weekend"]
    assert "mood" not in levels.index  # reported


def test_values_drawn_again_are_those_of_the_run() -> None:
    """What the simulation met, drawn once more: the outcome of every step follows from it."""
    settings = numeric(participants=3)
    worlds = participants_of(settings)
    data = op.simulate(worlds, op.pace_ucb(4), horizon=24, replicates=2, seed=settings.seed, progress=False)
    values = drawn_values(settings, worlds, 2)
    for w, world in enumerate(worlds):
        for r in range(2):
            here = data.isel(policy=0, world=w, replicate=r)
            chosen = world.problem.features(values[w, r])[np.arange(24), here["action"].values]
            assert chosen @ world.theta == pytest.approx(here["outcome"].values)


def test_classes_where_many_numbers_are_equal() -> None:
    """A number that is mostly the same value makes fewer classes, none of them empty."""
    place, labels = classes(np.array([0.0] * 8 + [1.0, 2.5]))
    assert labels == ["0.00", "1.00 to 2.50"]
    assert place.tolist() == [0] * 8 + [1, 1]
    assert classes(np.array([0.0, 1.0] + [5.0] * 8))[1] == ["0 to 1", "5"]
    assert classes(np.zeros(5))[1] == ["0"]


def test_classes_of_large_numbers_are_written_out() -> None:
    """Steps of a day in whole numbers, with commas, as many digits as tell classes apart."""
    labels = classes(np.arange(0.0, 20_000.0, 50.0))[1]
    assert labels == ["0 to 4,950", "5,000 to 9,950", "10,000 to 14,950", "15,000 to 19,950"]
