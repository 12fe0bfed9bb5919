"""One model for all participants: what is learned together, and what stays each one's own."""

from typing import Any

import numba
import numpy as np
import pytest
import xarray as xr

import opportune as op
from by_hand import Knowledge, gap
from opportune.simulation import run as api

HORIZON, PARTICIPANTS, REPLICATES = 30, 4, 5


def alike(n: int = PARTICIPANTS, **settings: Any) -> list[op.LinearWorld]:
    """Participants with one problem and one truth."""
    world = op.synthetic_worlds(1, seed=8, **settings)[0]
    return [world] * n


def pooled(policy: op.Policy, **changes: Any) -> op.Policy:
    settings = {"recommender": policy.recommender, "revealer": policy.revealer, "budget": policy.budget}
    return op.Policy(**settings, pooled=True, **{"name": f"{policy.name} pooled", **changes})  # type: ignore[arg-type]


def run(worlds: Any, policies: Any, **changes: Any) -> xr.Dataset:
    settings: dict[str, Any] = {"horizon": HORIZON, "replicates": REPLICATES, "seed": 2, "progress": False} | changes
    return op.simulate(worlds, policies, **settings)


def assert_equal(a: xr.Dataset, b: xr.Dataset) -> None:
    for name in a.data_vars:
        np.testing.assert_array_equal(a[name].values, b[name].values, err_msg=str(name))


POLICIES = [op.pd2_ucb(6, scale="range"), op.pd1_ucb(6), op.naive_ucb(6)]


@pytest.mark.parametrize("known", [True, False])
def test_one_participant_pools_with_nobody(known: bool) -> None:
    """With one participant a pooled model is its own, to the last bit."""
    worlds = alike(1, known=known)
    assert_equal(run(worlds, [pooled(p) for p in POLICIES]), run(worlds, POLICIES))


def test_different_problems_are_refused() -> None:
    """Participants who pool must have one problem; each with its own model they need not."""
    different = op.synthetic_worlds(2, seed=8)
    with pytest.raises(op.InputError, match=r"^worlds have different problems; expected the same problem in all for"):
        run(different, pooled(op.pd2_ucb(6)))
    run(different, op.pd2_ucb(6))
    other = different[0].replace(problem=different[0].problem.replace(noise_sd=0.2))
    with pytest.raises(op.InputError, match="different problems"):
        run([different[0], other], [op.pd2_ucb(6), pooled(op.pd2_ucb(6))])


def test_truths_may_differ() -> None:
    """What is pooled is what agents know; the participants' truths may differ."""
    world = alike(1)[0]
    data = run([world, world.replace(theta=world.theta[::-1])], pooled(op.pd2_ucb(6)))
    assert (data["outcome"].isel(world=0) != data["outcome"].isel(world=1)).any()


def test_everything_learned_is_learned_by_all() -> None:
    """Each gap follows from the rewards of all participants so far, taken in their order."""
    worlds = alike()
    problem = worlds[0].problem
    assert problem.value_range is not None
    scale = problem.value_range[1] - problem.value_range[0]
    blind = problem.means(problem.stratum_of, 1, problem.context_probs)[0]
    data = run(worlds, pooled(op.pd2_ucb(6, scale="range"))).isel(policy=0, replicate=3)
    context, action, reward = (data[name].values for name in ("context", "action", "reward"))
    x: list[Any] = []
    rewards: list[float] = []
    for t in range(HORIZON):
        for w in range(PARTICIPANTS):
            full = problem.features[context[w, t]]
            expected = gap(Knowledge(problem, x, rewards), full, blind, scale)
            assert float(data["gap"][w, t]) == pytest.approx(expected, rel=1e-7, abs=1e-9)
            x.append(full[action[w, t]])
            rewards.append(float(reward[w, t]))


def test_the_first_decides_as_if_alone_and_the_second_does_not() -> None:
    """At the first step the first participant knows nothing, the second what the first has just taught."""
    worlds = alike()
    own, together = run(worlds, op.pd2_ucb(6)), run(worlds, pooled(op.pd2_ucb(6)))
    alone, taught = (data["gap"].isel(step=0, policy=0).values for data in (own, together))
    np.testing.assert_array_equal(alone[0], taught[0])
    assert (alone[1] != taught[1]).all()


def test_what_was_revealed_to_whom_stays_ones_own() -> None:
    """A participant without reveals goes on with what it knew at first, however much others have taught the model."""
    world = alike(1)[0]
    never = pooled(op.Policy(revealer=op.Never()))
    data = run([world.replace(open_rate=1.0), world], never)
    quiet = data.isel(policy=0, world=1)
    assert not quiet["revealed"].any()
    assert (quiet["stale_action"] == quiet["stale_action"].isel(step=0)).all()
    assert (quiet["fresh_action"] != quiet["stale_action"]).any()
    assert data["revealed"].isel(world=0).all()


def test_contexts_are_counted_by_each_for_itself() -> None:
    """Where probabilities are unknown, blind features are means of a participant's own contexts."""
    world = alike(1, known=False)[0]
    lopsided = np.zeros(10)
    lopsided[0] = 1.0
    base = run([world, world], pooled(op.pd2_ucb(6)))
    other = run([world.replace(context_probs=lopsided, reward_rate=0.0), world.replace(reward_rate=0.0)],
                pooled(op.pd2_ucb(6)))  # fmt: skip
    alone = run([world.replace(reward_rate=0.0), world.replace(reward_rate=0.0)], op.pd2_ucb(6))
    np.testing.assert_array_equal(other["gap"].values[:, 1], alone["gap"].values[:, 1])
    assert (base["gap"].values[:, 1] != alone["gap"].values[:, 1]).any()  # with rewards they do feel each other


def test_a_budget_can_be_shared_too() -> None:
    """Model and budget shared: no more than the budget is spent by all together."""
    both = pooled(op.pd2_ucb(op.Budget(10, shared=True)))
    data = run(alike(), [both, op.pd2_ucb(op.Budget(10, shared=True))])
    assert (data["spent"].sum("world") <= 10 + 1e-9).all()
    assert (data["gap"].values[0] != data["gap"].values[1]).any()


def test_pooling_helps_those_who_are_alike() -> None:
    """Ten participants with one truth lose less by learning together than each for itself."""
    data = run(alike(10), [op.pd2_ucb(10), pooled(op.pd2_ucb(10))], horizon=60, replicates=10, trace=False)
    own, together = op.regret(data).mean(("world", "replicate")).values
    assert together < 0.7 * own


def test_the_same_numbers_every_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """Threads, chunks, other policies beside it and whether there is a trace change nothing."""
    worlds, policy = alike(), pooled(op.pd2_ucb(6))
    data = run(worlds, policy)
    threads = numba.get_num_threads()
    try:
        numba.set_num_threads(1)
        assert_equal(data, run(worlds, policy))
    finally:
        numba.set_num_threads(threads)
    monkeypatch.setattr(api, "CHUNK_STEPS", HORIZON * PARTICIPANTS * 2)
    assert_equal(data, run(worlds, policy))
    beside = run(worlds, [op.naive_ucb(6), policy])
    np.testing.assert_array_equal(beside["action"].values[1], data["action"].values[0])
    bare = run(worlds, policy, trace=False)
    np.testing.assert_array_equal(bare["total_reward"], data["total_reward"])
