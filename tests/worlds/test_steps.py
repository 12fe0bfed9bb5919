"""The step-count world follows the published equations, and tells agents how far to trust what is inferred."""

from statistics import NormalDist
from typing import Any

import numpy as np
import pytest

import opportune as op
from opportune.simulation.visit import visit


def by_the_equations(contexts: list[int], actions: list[int]) -> list[float]:
    """Mean step counts by the equations of arXiv:2411.00336, deterministic dynamics, its constants."""
    h, d, found = 0.1, 0.1, []
    for c, a in zip(contexts, actions, strict=True):
        if d >= 0.99:
            found.append(0.0)
            continue
        h = (1 - 0.1) * h if a == 0 else min(1.0, h + 0.05)
        if a in (1, c + 2):
            d = (1 - 0.1) * d
        elif a != 0:
            d = min(1.0, d + 0.4)
        steps = 0.1 + {0: 0.0, 1: (1 - h) * 50.0, c + 2: (1 - h) * 200.0}.get(a, 0.0)
        found.append(0.0 if d >= 0.99 else steps)
    return found


@pytest.mark.parametrize("plan", ["any", "fitting"])
def test_step_counts_follow_the_equations(plan: str) -> None:
    """Means are those of the equations to the last step, also once the participant has gone; noise is around them."""
    world = op.StepCountWorld(uncertainty=0.8, noise_sd=15.0)
    rng = np.random.default_rng(2)
    actions = rng.choice(4, size=400, p=[0.6, 0.34, 0.03, 0.03])
    if plan == "fitting":  # nobody goes away, and habituation comes and goes
        contexts = visit(world, actions, seed=3, stream=1).moments[:, 3] % 2
        actions = np.where(np.arange(400) % 3 > 0, 0, 2 + contexts)
    walk = visit(world, actions, seed=3, stream=1)
    expected = by_the_equations((walk.moments[:, 3] % 2).tolist(), actions.tolist())
    np.testing.assert_allclose(walk.results[:, 1], expected, rtol=1e-12)
    assert (expected[-1] == 0.0) == (plan == "any")
    there = np.array(expected) > 0
    assert abs((walk.results[:, 0] - expected)[there].std() - 15.0) < 4 * 15.0 / np.sqrt(2 * there.sum())
    assert (walk.results[:, 0][~there] == 0.0).all()
    assert (walk.results[:, 1] <= walk.results[:, 2] + 1e-9).all()


@pytest.mark.parametrize("uncertainty", [0.05, 0.4, 2.0])
def test_inference_errs_as_often_as_the_sensor_says(uncertainty: float) -> None:
    """The inferred context is wrong with probability Phi(-1 / (2 sigma)), and agents know how often."""
    world = op.StepCountWorld(uncertainty=uncertainty)
    wrong = NormalDist().cdf(-0.5 / uncertainty)
    assert world.error_rate == pytest.approx(wrong, abs=1e-15)
    context = visit(world, np.zeros(20_000, dtype=np.int64), seed=1, stream=0).moments[:, 3]
    share = float((context // 2 != context % 2).mean())
    assert abs(share - wrong) <= 4 * np.sqrt(wrong * (1 - wrong) / 20_000) + 1e-4
    probs: Any = world.problem.context_probs
    assert probs[[1, 2]].sum() == pytest.approx(wrong)


def test_a_call_is_worth_more_where_the_sensor_is_worse() -> None:
    """With a good sensor reveals add little; with a bad one PACE's calls let messages fit."""
    never = op.Policy(recommender=op.LinUCB(radius="pointwise"), revealer=op.Never(), name="never")
    gains = []
    for uncertainty in (0.4, 2.0):
        world = op.StepCountWorld(uncertainty=uncertainty)
        data = op.simulate(world, [never, op.pace_ucb(25)], horizon=50, replicates=200, seed=1, progress=False)
        total = data["total_outcome"].isel(world=0)
        gains.append((total.isel(policy=1) - total.isel(policy=0)).values)
    for gain in gains:
        assert gain.mean() > 4 * gain.std() / np.sqrt(200)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"uncertainty": 0.0}, "uncertainty"),
        ({"noise_sd": -1.0}, "noise_sd"),
        ({"constants": {"rho": 3.0}}, "constant is 'rho'"),
        ({"constants": {"": 1.0}}, "constant is ''"),
        ({"constants": {5: 1.0}}, "constant is 5"),
        ({"constants": {"delta_h": 2.0}}, "delta_h"),
        ({"rate": 0.5}, "world's setting"),
    ],
)
def test_bad_settings_are_refused(wrong: dict[str, Any], said: str) -> None:
    """Bad settings are refused by name."""
    with pytest.raises(op.InputError, match=said):
        op.StepCountWorld(**wrong)
