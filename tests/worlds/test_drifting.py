"""Drifting worlds: contexts arrive as the step's row says, stay as often as told, and metrics count them."""

from typing import Any

import numpy as np
import pytest
import xarray as xr
from numpy.typing import NDArray
from scipy import stats

import opportune as op

Floats = NDArray[np.float64]
EVEN = np.full(10, 0.1)


def base(*, known: bool = True) -> op.LinearWorld:
    return op.synthetic_worlds(1, seed=3, known=known)[0]


def run(worlds: Any, policy: op.Policy | list[op.Policy] | None = None, **changes: Any) -> xr.Dataset:
    settings: dict[str, Any] = {"horizon": 60, "replicates": 200, "seed": 1, "progress": False} | changes
    return op.simulate(worlds, policy or op.pace_ucb(10), **settings)


def test_each_step_follows_its_row() -> None:
    """Step t has the contexts of row t, and after the last row the first comes again."""
    rng = np.random.default_rng(1)
    course = rng.dirichlet(np.ones(10), size=3)
    context = run(op.DriftingWorld.drift(base(), course=course), replicates=400)["context"].isel(policy=0, world=0)
    for row in range(3):
        seen = np.bincount(context.values[:, row::3].ravel(), minlength=10)
        assert stats.chisquare(seen, course[row] * seen.sum()).pvalue > 0.001
        wrong = course[(row + 1) % 3] * seen.sum()
        assert stats.chisquare(seen, wrong).pvalue < 1e-9  # the control


def test_contexts_stay_as_often_as_told() -> None:
    """With probability `stay` the last context stays; when it does not, it is drawn as if nothing had been."""
    probs = np.random.default_rng(2).dirichlet(np.ones(10))
    world = op.DriftingWorld.drift(base(), course=probs[None], stay=0.8)
    context = run(world, horizon=400)["context"].isel(policy=0, world=0).values
    same = (context[:, 1:] == context[:, :-1]).mean()
    assert same == pytest.approx(0.8 + 0.2 * (probs**2).sum(), abs=0.01)
    np.testing.assert_allclose(np.bincount(context.ravel(), minlength=10) / context.size, probs, atol=0.02)
    left = context[:, 1:][context[:, 1:] != context[:, :-1]]
    assert len(np.unique(left)) == 10


def test_one_row_that_never_stays_is_the_linear_world() -> None:
    """Without drift every number is that of the linear world with the same probabilities."""
    world = base()
    drifting = op.DriftingWorld.drift(world, course=world.context_probs[None])
    policies = [op.pace_ucb(10), op.pd2_ucb(10)]
    plain, drifted = (run(w, policies, replicates=5) for w in (world, drifting))
    for name in ("context", "action", "probability", "value", "outcome"):
        np.testing.assert_array_equal(plain[name], drifted[name])


@pytest.mark.parametrize("stay", [0.0, 0.6])
def test_counts_of_contexts_are_those_of_the_trace(stay: float) -> None:
    """`context_count`, worked out without any policy, counts what arrived, so that regret needs no trace."""
    rng = np.random.default_rng(4)
    worlds = [
        op.DriftingWorld.drift(world, course=rng.dirichlet(np.ones(10), size=7), stay=stay)
        for world in op.synthetic_worlds(2, seed=3)
    ]
    data = run(worlds, replicates=6)
    for w in range(2):
        for r in range(6):
            counted = np.bincount(data["context"].isel(policy=0, world=w, replicate=r), minlength=10)
            np.testing.assert_array_equal(data["context_count"].isel(world=w, replicate=r), counted)
    bare = run(worlds, replicates=6, trace=False)
    np.testing.assert_array_equal(bare["context_count"], data["context_count"])
    np.testing.assert_allclose(op.regret(bare), op.regret(data).isel(step=-1), atol=1e-9)


def test_agents_are_told_the_long_run() -> None:
    """What agents know, and what the truth compares with, is the mean of the rows; who knew nothing knows nothing."""
    course = np.stack([np.eye(10)[0], EVEN, EVEN])
    world = op.DriftingWorld.drift(base(), course=course, stay=0.5)
    assert world.problem.context_probs is not None
    np.testing.assert_allclose(world.problem.context_probs, course.mean(axis=0))
    np.testing.assert_allclose(world.context_probs, course.mean(axis=0))
    np.testing.assert_allclose(world.blind_values[0], course.mean(axis=0) @ world.values)
    assert op.DriftingWorld.drift(base(known=False), course=course).problem.context_probs is None


def test_settings_can_be_replaced() -> None:
    """A changed setting leaves the others, the course and the probability of staying among them."""
    world = op.DriftingWorld.drift(base().replace(open_rate=0.25), course=EVEN[None], stay=0.5)
    other = world.replace(response_rate=0.5)
    assert (other.stay, other.happenings.open_rate, other.happenings.response_rate) == (0.5, 0.25, 0.5)
    np.testing.assert_array_equal(other.course, world.course)
    assert "DriftingWorld(instance 0" in repr(other)


def test_what_does_not_fit_is_refused() -> None:
    """A course must be probabilities for each step, staying less than sure, and a schedule has no place beside it."""
    world = base()
    with pytest.raises(op.InputError, match=r"^course at step 2 sums to 2; expected 1"):
        op.DriftingWorld.drift(world, course=[EVEN, 2 * EVEN])
    with pytest.raises(op.InputError, match=r"^course is empty on axis 0"):
        op.DriftingWorld.drift(world, course=np.empty((0, 10)))
    with pytest.raises(op.InputError, match=r"^stay is 1; expected a finite number >= 0 and < 1$"):
        op.DriftingWorld.drift(world, course=[EVEN], stay=1)
    with pytest.raises(op.InputError, match=r"^problem is 'problem'; expected a Problem$"):
        op.DriftingWorld("problem", theta=world.theta, course=[EVEN])  # type: ignore[arg-type]
    variables = {"when": op.TimeOfDay(["am", "pm"]), "mood": range(5)}
    problem = world.problem.replace(variables=variables, visibility=None, decisions_per_day=2)
    with pytest.raises(op.InputError, match=r"^the problem has a schedule"):
        op.DriftingWorld(problem, theta=world.theta, course=[EVEN])
    pair = [op.DriftingWorld.drift(world, course=[EVEN] * n) for n in (1, 2)]
    with pytest.raises(op.InputError, match=r"^worlds differ in kind, sizes"):
        run(pair, replicates=1)
