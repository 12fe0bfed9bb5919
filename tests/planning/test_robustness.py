"""Robustness: each assumption changes the world it should, and nothing that agents believe."""

import math
from pathlib import Path

import numpy as np
import pytest
from plan_studies import simulations, small

import opportune as op
from opportune.planning.budget import find_least, find_values
from opportune.planning.robustness import assumptions, find_robustness
from opportune.planning.simulated import stay_means
from opportune.planning.worlds import participants_of, shifted, survival
from opportune.worlds.distributions import Choice, LogNormal, Normal, Uniform


def test_each_assumption_changes_the_world_and_not_the_beliefs() -> None:
    """Rates, effects of actions, noise and contexts change; problem and what agents know stay as they were."""
    settings = small()
    base = participants_of(settings)[0]
    changed = {a.name: participants_of(settings, a)[0] for a in assumptions(settings)}
    assert changed["answers rarer"].happenings.response_rate == pytest.approx(0.54)
    assert changed["openings more frequent"].happenings.open_rate == pytest.approx(0.1)
    assert changed["noise doubled"].noise_sd == pytest.approx(0.6)
    halves = changed["effects half as large"].theta / np.where(base.theta == 0.0, 1.0, base.theta)
    acts = ["action" in term for term in settings.study.terms]
    assert halves[acts] == pytest.approx(0.5)
    assert not np.allclose(changed["contexts misstated"].context_probs, base.context_probs)
    for world in changed.values():
        assert world.informed_problem().noise_sd == base.informed_problem().noise_sd
        assert np.array_equal(world.problem.context_probs, base.problem.context_probs)
    assert np.array_equal(changed["as in the file"].theta, base.theta)


def test_dropout_is_what_leaving_at_a_random_moment_gives(tmp_path: Path) -> None:
    """Weighting steps by the probability of still being there equals letting each participant leave, on average."""
    settings = small(participants=6)
    worlds, policy = participants_of(settings), op.pace_ucb(6)
    staying = survival(settings, 0.4)
    found = stay_means(settings, worlds, [policy], 20, staying)
    data = op.simulate(worlds, policy, horizon=24, replicates=20, seed=settings.seed, progress=False)
    rng = np.random.default_rng(3)
    hazard = -math.log(0.6) / 24
    nudges = data["nudged"].values[0]
    seen = []
    for _ in range(4000):
        last = rng.exponential(1.0 / hazard)
        there = np.arange(24) < last
        seen.append((nudges * there).sum(axis=2).mean())
    assert float(found["nudges"].mean()) == pytest.approx(np.mean(seen), rel=0.02)


def test_the_table_says_what_moves_the_answer(tmp_path: Path) -> None:
    """The file as it is comes first; rarer answers bring less with the same budget."""
    settings = small(replicates=40, target=0.6, budgets=[4, 8, 16])
    keep = simulations(tmp_path)
    values = find_values(settings, keep)
    table = find_robustness(settings, keep, find_least(settings, values, keep)).set_index("assumption")
    assert table.index[0] == "as in the file"
    assert table.loc["as in the file", "moves"] == 0.0
    assert table.loc["answers rarer", "gain"] < table.loc["as in the file", "gain"]
    assert table.loc["effects half as large", "gain"] < table.loc["as in the file", "gain"]
    assert (table["share_low"] <= table["share"] + 1e-9).all()


def test_numbers_are_shifted_by_one_sd() -> None:
    """Distributions of numbers move up, levels become more alike."""
    assert shifted(Normal(1.0, 2.0)) == Normal(3.0, 2.0)
    assert shifted(LogNormal(4.0, 0.5)).median == pytest.approx(4.0 * math.exp(0.5))  # type: ignore[union-attr]
    assert shifted(Uniform(0.0, 4.0)) == Uniform(2.0, 4.0)
    assert shifted(Choice({"a": 0.9, "b": 0.1})) == Choice({"a": 0.7, "b": 0.3})
