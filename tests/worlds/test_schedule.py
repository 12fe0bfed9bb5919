"""Schedules in finite worlds: what the clock knows comes in its order, the rest by chance within it."""

import json
from typing import Any

import numpy as np
import pytest
import xarray as xr
from numpy.typing import NDArray
from scipy import stats

import opportune as op
from opportune.worlds.finite import within

Floats = NDArray[np.float64]
STRESS = ("low", "fair", "high")
PROBS = np.array([0.05, 0.1, 0.25, 0.3, 0.1, 0.2])  # mornings are rarer than evenings, were they drawn


def world_of(variables: dict[str, Any], probs: Any, *, seed: int = 1, **settings: Any) -> op.LinearWorld:
    contexts = len(probs)
    rng = np.random.default_rng(seed)
    problem = op.Problem(
        rng.normal(size=(contexts, 2, 3)), probs, noise_sd=0.1, variables=variables, **settings
    )  # fmt: skip
    return op.LinearWorld(problem, theta=rng.normal(size=3))


def two_times(probs: Any = PROBS, **settings: Any) -> op.LinearWorld:
    variables = {"tod": op.TimeOfDay(["morning", "evening"]), "stress": STRESS}
    return world_of(variables, probs, **settings)


def run(worlds: Any, policy: op.Policy | None = None, **changes: Any) -> xr.Dataset:
    settings: dict[str, Any] = {"horizon": 60, "replicates": 40, "seed": 1, "progress": False} | changes
    return op.simulate(worlds, policy or op.pd2_ucb(10), **settings)


def test_mornings_and_evenings_alternate() -> None:
    """At odd steps it is morning, at even ones evening, in every run."""
    context = run(two_times())["context"].isel(policy=0, world=0)
    assert (context.isel(step=slice(0, None, 2)) < 3).all()
    assert (context.isel(step=slice(1, None, 2)) >= 3).all()


@pytest.mark.parametrize("known", [True, False])
def test_the_rest_follows_conditional_probabilities(known: bool) -> None:
    """Within a time of day contexts arrive with their probabilities given that time, known to the agents or not."""
    world = two_times()
    if not known:
        world = world.replace(problem=world.problem.replace(context_probs=None))
    context = run(world, replicates=400)["context"].isel(policy=0, world=0).values
    for slot, members in enumerate([slice(0, 3), slice(3, 6)]):
        seen = np.bincount(context[:, slot::2].ravel() - 3 * slot, minlength=3)
        expected = PROBS[members] / PROBS[members].sum() * seen.sum()
        assert stats.chisquare(seen, expected).pvalue > 0.001
        wrong = PROBS[members][::-1] / PROBS[members].sum() * seen.sum()
        assert stats.chisquare(seen, wrong).pvalue < 1e-9  # the control


def test_without_a_schedule_mornings_come_at_random() -> None:
    """The same variable as plain levels is drawn with its probability: so the tests above can fail."""
    world = world_of({"tod": ("morning", "evening"), "stress": STRESS}, PROBS)
    morning = (run(world, replicates=200)["context"] < 3).mean()
    assert float(morning) == pytest.approx(0.4, abs=0.03)


def test_weekdays_come_round_every_week() -> None:
    """With a weekday and two times of day everything repeats after 14 steps; the study begins on its first day."""
    variables = {"day": op.Weekday(first="Friday"), "tod": op.TimeOfDay(["am", "pm"]), "mood": (0, 1)}
    world = world_of(variables, np.full(28, 1 / 28))
    context = run(world, horizon=42, replicates=5)["context"].isel(policy=0, world=0).values
    days = (4 + np.arange(42) // 2) % 7
    np.testing.assert_array_equal(context // 4, np.broadcast_to(days, context.shape))
    np.testing.assert_array_equal(context // 2 % 2, np.broadcast_to(np.arange(42) % 2, context.shape))
    assert len(np.unique(context % 2)) == 2


def test_weekends_without_times_of_day() -> None:
    """One decision per day unless told otherwise; with three, a day has three."""
    for per_day in (1, 3):
        world = world_of(
            {"when": op.Weekend(first="Saturday"), "mood": (0, 1)}, [0.1, 0.4, 0.2, 0.3], decisions_per_day=per_day
        )
        context = run(world, horizon=21, replicates=2)["context"].isel(policy=0, world=0).values
        weekend = np.array([day % 7 < 2 for day in np.arange(21) // per_day])
        np.testing.assert_array_equal(context // 2 == 1, np.broadcast_to(weekend, context.shape))


@pytest.mark.parametrize("period", [1, 2, 14])
def test_counts_of_contexts_are_those_of_the_trace(period: int) -> None:
    """`context_count`, worked out without any policy, counts what arrived, in each world by its own probabilities."""
    variables: dict[str, Any] = {"a": op.Weekday() if period == 14 else range(7)}
    variables["b"] = ("am", "pm") if period == 1 else op.TimeOfDay(["am", "pm"])
    rng = np.random.default_rng(3)
    worlds = [world_of(variables, rng.dirichlet(np.ones(14)), seed=5) for _ in range(2)]
    assert worlds[0].problem.schedule.period == period
    data = run(worlds, horizon=33, replicates=6)
    for w in range(2):
        for r in range(6):
            context = data["context"].isel(policy=0, world=w, replicate=r)
            counted = np.bincount(context, minlength=14)
            np.testing.assert_array_equal(data["context_count"].isel(world=w, replicate=r), counted)
    bare = run(worlds, horizon=33, replicates=6, trace=False)
    np.testing.assert_array_equal(bare["context_count"], data["context_count"])
    np.testing.assert_allclose(op.regret(bare), op.regret(data).isel(step=-1), atol=1e-9)


def test_a_time_that_never_comes_by_chance_still_comes() -> None:
    """Where all contexts of a time have probability 0 they are equally likely when it is that time."""
    probs = np.array([0.0, 0.0, 0.0, 0.5, 0.5, 0.0])
    np.testing.assert_allclose(within(probs, np.arange(6) < 3), [1 / 3, 1 / 3, 1 / 3, 0, 0, 0])
    context = run(two_times(probs), replicates=200)["context"].isel(policy=0, world=0)
    mornings = np.bincount(context.values[:, ::2].ravel(), minlength=6)
    assert stats.chisquare(mornings[:3]).pvalue > 0.001
    assert not mornings[3:].any()
    assert (context.isel(step=slice(1, None, 2)) < 5).all()


def test_the_time_is_public() -> None:
    """Without reveals the recommender goes by the time of day, and its regret counts against the best blind action."""
    world = two_times()
    assert world.problem.visibility == {"tod": "public", "stress": "sensed"}
    assert (world.problem.strata, world.problem.senses) == (2, 6)
    data = run(world, op.Policy(revealer=op.Never()))
    assert (data["stale_action"].isel(step=slice(0, None, 2)) == data["stale_action"].isel(step=0)).all()
    opened = run(world.replace(open_rate=1.0), op.Policy(revealer=op.Never()), horizon=400, replicates=5)
    best_blind = world.blind_values.argmax(axis=1)
    last = opened["fresh_action"].isel(policy=0, world=0, step=slice(-20, None)).values
    np.testing.assert_array_equal(last, np.broadcast_to(np.tile(best_blind, 10), last.shape))


def test_schedules_are_kept() -> None:
    """A problem with a schedule is the same when it is saved and loaded, and when other settings are replaced."""
    problem = two_times().problem
    again = op.Problem.from_dict(json.loads(json.dumps(problem.to_dict())))
    for same in (again, problem.replace(noise_sd=0.2)):
        assert same.schedule == problem.schedule
        assert same.schedule.period == 2
        assert same.variables == problem.variables
    other = problem.replace(variables={"tod": ("morning", "evening"), "stress": STRESS})
    assert other.schedule.variables == {}
    with pytest.raises(op.InputError, match=r"^visibility of 'tod' is 'sensed'; expected 'public', as its schedule"):
        problem.replace(visibility={"tod": "sensed"})
