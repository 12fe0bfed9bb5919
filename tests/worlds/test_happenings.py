"""What the world does to decision points: patients who are unavailable, rewards that come late or never."""

from typing import Any

import numpy as np
import pytest
import xarray as xr
from numpy.typing import NDArray

import opportune as op
from by_hand import Knowledge, gap
from opportune.algorithm.rng import AVAILABLE, DELAY, LOST, draw
from opportune.worlds.common import Happenings

HORIZON = 40
SEED = 3


def run(worlds: Any, policies: Any = None, **changes: Any) -> xr.Dataset:
    settings: dict[str, Any] = {"horizon": HORIZON, "replicates": 4, "seed": SEED, "progress": False} | changes
    chosen = [op.pd2_ucb(8, scale="range"), op.naive_ucb(8)] if policies is None else policies
    return op.simulate(worlds, chosen, **settings)


def draws(purpose: int, replicate: int, world: int = 0) -> NDArray[np.float64]:
    """A run's uniforms for some purpose, one per step."""
    stream = np.uint64((world << 32) | replicate)
    return np.array([draw(np.uint64(SEED), stream, step, purpose) for step in range(1, HORIZON + 1)])


def world_with(**happenings: Any) -> op.LinearWorld:
    return op.synthetic_worlds(1, seed=6)[0].replace(**happenings)


def with_other_truth(world: op.LinearWorld) -> op.LinearWorld:
    """The same problem and arrivals, with other rewards."""
    return world.replace(theta=world.theta[::-1])


def expected_gaps(world: op.LinearWorld, one: xr.Dataset, arrives: NDArray[np.int64]) -> list[float]:
    """Each step's gap from what had arrived by then; arrives[t]: the end of which step, -1 never."""
    problem = world.problem
    blind = problem.means(problem.stratum_of, problem.strata, world.context_probs)
    assert problem.value_range is not None
    scale = problem.value_range[1] - problem.value_range[0]
    context, action, reward = (one[name].values for name in ("context", "action", "reward"))
    gaps = []
    for t in range(HORIZON):
        here = [s for s in range(t) if 0 <= arrives[s] < t]
        known = Knowledge(problem, [problem.features[context[s], action[s]] for s in here], [reward[s] for s in here])
        gaps.append(gap(known, problem.features[context[t]], blind[problem.stratum_of[context[t]]], scale))
    return gaps


# Unavailable patients


def test_unavailable_steps_are_those_of_the_draws() -> None:
    """A step is unavailable where its draw says so, for every policy alike."""
    data = run(world_with(available_rate=0.7))
    for replicate in range(4):
        expected = draws(AVAILABLE, replicate) < 0.7
        for policy in range(2):
            found = data["available"].isel(policy=policy, world=0, replicate=replicate)
            np.testing.assert_array_equal(found, expected)


def test_unavailable_steps_charge_nothing() -> None:
    """No nudge, no opening, no reveal, no reward to learn from; the price stands and the stale action is taken."""
    data = run(world_with(available_rate=0.6, open_rate=0.3))
    away = ~data["available"]
    assert away.any()
    for name in ("probability", "nudged", "revealed", "opened", "gap", "disagreement", "tolerance"):
        assert not data[name].where(away, 0).any(), name
    assert data["reward"].isnull().where(away, True).all()
    assert (data["action"] == data["stale_action"]).where(away, True).all()
    following = data["price"].shift(step=-1)
    stays = (following == data["price"]) | following.isnull()
    assert stays.where(away, True).all()
    assert not stays.where(~away, True).all()  # elsewhere it moves
    here = data["probability"].where(data["available"], 0.0).sum("step")
    np.testing.assert_allclose(data["spent"], here, rtol=1e-12)
    assert (data["opened"] & ~away).any()


def test_unavailable_steps_teach_nothing() -> None:
    """Gaps follow from the rewards of available steps alone."""
    world = world_with(available_rate=0.6)
    data = run(world)
    for replicate in range(4):
        one = data.isel(policy=0, world=0, replicate=replicate)
        steps = np.arange(HORIZON)
        available = one["available"].values
        gaps = np.array(expected_gaps(world, one, np.where(available, steps, -1)))
        np.testing.assert_allclose(one["gap"].values[available], gaps[available], rtol=1e-8, atol=1e-10)
        outcome = world.values[one["context"].values, one["action"].values]
        np.testing.assert_allclose(one["outcome"], outcome)  # something came of it all the same


def test_nobody_there() -> None:
    """Patients who are never available get the action of the first moment, and cost nothing."""
    data = run(world_with(available_rate=0.0, open_rate=1.0))
    assert not data["available"].any()
    assert not data["spent"].any()
    assert not data["total_reward"].any()
    assert (data["action"] == data["action"].isel(step=0)).all()
    np.testing.assert_array_equal(data["action"], run(with_other_truth(world_with(available_rate=0.0)))["action"])


# Rewards that never come


def test_totals_skip_lost_rewards() -> None:
    """A lost reward is NaN in the trace and nothing in the total; the others are those of a run that loses none."""
    data = run(world_with(reward_rate=0.5), op.Policy(recommender=op.FixedAction(action=2), revealer=op.Never()))
    whole = run(world_with(), op.Policy(recommender=op.FixedAction(action=2), revealer=op.Never()))
    for replicate in range(4):
        kept = draws(LOST, replicate) < 0.5
        reward = data["reward"].isel(policy=0, world=0, replicate=replicate).values
        every = whole["reward"].isel(policy=0, world=0, replicate=replicate).values
        np.testing.assert_array_equal(np.isnan(reward), ~kept)
        np.testing.assert_array_equal(reward[kept], every[kept])
        total = data["total_reward"].isel(policy=0, world=0, replicate=replicate)
        assert float(total) == pytest.approx(every[kept].sum(), rel=1e-12)
    assert not data["outcome"].isnull().any()
    np.testing.assert_array_equal(data["total_outcome"], whole["total_outcome"])


def test_lost_rewards_teach_nothing() -> None:
    """Gaps follow from the rewards that came."""
    world = world_with(reward_rate=0.5)
    one = run(world).isel(policy=0, world=0, replicate=1)
    arrives = np.where(one["reward"].isnull().values, -1, np.arange(HORIZON))
    np.testing.assert_allclose(one["gap"], expected_gaps(world, one, arrives), rtol=1e-8, atol=1e-10)


def test_without_rewards_the_truth_does_not_matter() -> None:
    """Where no reward ever comes, decisions are the same whatever the truth; with rewards they are not."""
    for rate, same in ((0.0, True), (1.0, False)):
        world = world_with(reward_rate=rate)
        one, other = run(world), run(with_other_truth(world))
        assert np.array_equal(one["probability"], other["probability"]) == same


# Rewards that come late


@pytest.mark.parametrize("delay", [1, 3, 10])
@pytest.mark.parametrize("rate", [1.0, 0.7])
def test_a_late_reward_counts_from_when_it_arrived(delay: int, rate: float) -> None:
    """Each step's gap is what the rewards that had arrived by then say, and no others."""
    world = world_with(reward_delay=delay, reward_rate=rate)
    data = run(world)
    for replicate in range(4):
        one = data.isel(policy=0, world=0, replicate=replicate)
        late = (draws(DELAY, replicate) * (delay + 1)).astype(np.int64)
        arrives = np.where(one["reward"].isnull().values, -1, np.arange(HORIZON) + late)
        np.testing.assert_allclose(one["gap"], expected_gaps(world, one, arrives), rtol=1e-8, atol=1e-10)
        if rate == 1.0 and late.any():
            at_once = expected_gaps(world, one, np.arange(HORIZON))
            assert not np.allclose(one["gap"], at_once, rtol=1e-8)


def test_decisions_differ_only_after_the_first_reward_arrived() -> None:
    """Two truths cannot be told apart before a reward has come, and can right after."""
    world = world_with(reward_delay=6)
    one, other = run(world), run(with_other_truth(world))
    for replicate in range(4):
        late = (draws(DELAY, replicate) * 7).astype(np.int64)
        first = int((np.arange(HORIZON) + late).min())  # at the end of this step, counted from 0
        a, b = (data["gap"].isel(policy=0, world=0, replicate=replicate).values for data in (one, other))
        np.testing.assert_array_equal(a[: first + 1], b[: first + 1])
        assert a[first + 1] != b[first + 1]


def test_delays_are_equally_likely() -> None:
    """Every delay up to the largest happens, about equally often."""
    late = np.concatenate([(draws(DELAY, replicate) * 4).astype(np.int64) for replicate in range(100)])
    np.testing.assert_allclose(np.bincount(late) / late.size, 0.25, atol=0.03)


def test_rewards_arrive_also_while_the_patient_is_away() -> None:
    """An unavailable step delivers what arrives at it."""
    world = world_with(reward_delay=5, available_rate=0.5)
    data = run(world)
    for replicate in range(4):
        one = data.isel(policy=0, world=0, replicate=replicate)
        available = one["available"].values
        late = (draws(DELAY, replicate) * 6).astype(np.int64)
        gaps = np.array(expected_gaps(world, one, np.where(available, np.arange(HORIZON) + late, -1)))
        np.testing.assert_allclose(one["gap"].values[available], gaps[available], rtol=1e-8, atol=1e-10)


def test_worlds_with_different_delays_run_together() -> None:
    """In one call each world has its own delay, and does what it does alone."""
    slow, quick = world_with(reward_delay=9), world_with()
    both = run([slow, quick])
    for name in ("gap", "action", "reward"):
        np.testing.assert_array_equal(both[name].isel(world=0), run(slow)[name].isel(world=0))
    changed = run([quick, slow])  # another stream for each
    assert (changed["gap"] != both["gap"]).any()


def test_agents_live_meet_the_same_happenings() -> None:
    """A live agent told of the same absences, late and lost rewards makes the same decisions, bit for bit."""
    world = world_with(available_rate=0.8, reward_rate=0.8, reward_delay=4, open_rate=0.1, response_rate=0.7)
    policy = op.pd2_ucb(8, scale="range")
    one = run(world, policy).isel(policy=0, world=0, replicate=2)
    agent = op.Agent(world.informed_problem(), policy, horizon=HORIZON, seed=SEED, stream=2)
    late = (draws(DELAY, 2) * 5).astype(np.int64)
    for t in range(HORIZON):
        now = one.isel(step=t)
        made = agent.propose(int(now["context"]), opened=bool(now["opened"]), available=bool(now["available"]))
        answered = bool(now["revealed"]) if made.nudged and not made.opened else None
        decision = agent.settle(answered)
        assert made.nudged == bool(now["nudged"])
        assert (made.probability, made.price) == (float(now["probability"]), float(now["price"]))
        assert int(decision.action) == int(now["action"])
        for s in range(max(0, t - 4), t + 1):
            if s + late[s] == t and not np.isnan(one["reward"].values[s]):
                agent.learn(float(one["reward"].values[s]), step=s + 1)


# What is refused


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"available_rate": 1.5}, "available_rate is 1.5; expected a finite number >= 0 and <= 1"),
        ({"reward_rate": -0.1}, "reward_rate is -0.1; expected a finite number >= 0 and <= 1"),
        ({"reward_delay": -1}, "reward_delay is -1; expected a whole number from 0 to 10000"),
        ({"reward_delay": 1.5}, "reward_delay is 1.5; expected a whole number from 0 to 10000"),
        ({"opn_rate": 0.5}, "a world's setting is 'opn_rate'; expected one of .*did you mean 'open_rate'"),
    ],
)
def test_wrong_settings(settings: dict[str, Any], message: str) -> None:
    """Rates beyond [0, 1], delays that are no counts and names that are none are refused."""
    with pytest.raises(op.InputError, match=message):
        world_with(**settings)


def test_settings_are_kept() -> None:
    """`replace` changes what is named and keeps the other happenings."""
    given: dict[str, Any] = {"open_rate": 0.1, "response_rate": 0.9, "available_rate": 0.8, "reward_rate": 0.7,
                             "reward_delay": 3, "response_spread": 0.2, "habituation": 0.9, "family": "count",
                             "spells": {"rate": 0.1, "days": 7, "silent": False}, "bounds": (0.0, 4.0)}  # fmt: skip
    world = world_with(**given)
    assert world.happenings.settings() == given
    assert world.replace(reward_delay=5).happenings.settings() == {**given, "reward_delay": 5}
    assert set(given) == set(Happenings.NAMES)
