"""When rewards are learned from, and what is done in a run-in: live as simulated, saved, late and corrected."""

import dataclasses
import json
from typing import Any

import numpy as np
import pytest

import opportune as op
from opportune.live.saving import checksum
from opportune.testing.cases import cases_for, simulated
from opportune.testing.live import check_live

ROTATING = op.LinUCB(rotate=True)
POLICIES = [
    op.Policy(revealer=op.Pace(), recommender=ROTATING, budget=op.Budget(6), update=4, name="four"),
    op.Policy(recommender=op.LinUCB(floor=0.1), budget=op.Budget(6), update=7, name="seven, floor"),
    op.Policy(recommender=op.Thompson(points=16), budget=op.Budget(6), limits=op.Limits(run_in=5), name="run-in"),
    op.Policy(budget=op.Budget(6), limits=op.Limits(run_in=5, run_in_actions="fixed", run_in_action=1), name="fixed"),
]
POOLED = op.Policy(revealer=op.Periodic(every=5), pooled=True, update=3, name="pooled")


@pytest.mark.parametrize("resumed", [False, True])
def test_live_as_simulated(resumed: bool) -> None:
    """Agents and cohorts decide as simulate does, in every kind of problem, also if restored while rewards wait."""
    for case in cases_for("", POLICIES):
        runs = simulated(case, POLICIES)
        for i, policy in enumerate(POLICIES):
            check_live("ours", case, policy, runs.isel(policy=i), resumed=resumed)
        check_live("ours", case, POOLED, simulated(case, [POOLED]).isel(policy=0), resumed=resumed)


def test_nothing_is_learned_before_the_first_update() -> None:
    """Where the model is never updated gaps stay those of the beginning; with update=1 they do not."""
    worlds = [w.replace(open_rate=0.2) for w in op.synthetic_worlds(2, seed=1, contexts=4, actions=3)]
    both = [dataclasses.replace(op.pd2_ucb(8), update=update, name=str(update)) for update in (1, 40)]
    data = op.simulate(worlds, both, horizon=40, replicates=2, seed=1, progress=False)
    changed = (data["fresh_action"] != data["fresh_action"].isel(step=0)).any(("world", "replicate", "step"))
    assert changed.values.tolist() == [True, False]


WORLD = op.synthetic_worlds(1, seed=3, contexts=4, actions=3)[0]


def agent_with(update: int) -> op.Agent:
    """An agent whose model is updated every so many decisions."""
    policy = op.Policy(revealer=op.Pace(), recommender=ROTATING, budget=op.Budget(6), update=update)
    return op.Agent(WORLD.problem, policy, horizon=40, seed=1, stream=2)


def theta(agent: op.Agent) -> Any:
    """What was learned by now."""
    return agent.numbers.parts(("model",))["model.theta"].copy()


def test_rewards_wait_for_the_update() -> None:
    """Nothing is learned before decision point k + 1; there, the rewards that have come are, and the others later."""
    agent = agent_with(5)
    for step in range(1, 6):
        agent.decide(step % 4)
        if step != 3:
            agent.learn(float(step))
        assert not theta(agent).any()
    agent.decide(0)
    first = theta(agent)
    assert first.any()
    agent.learn(7.0, step=3)  # late
    agent.learn(8.0)
    for step in range(7, 11):
        agent.decide(step % 4)
        np.testing.assert_array_equal(theta(agent), first)
    agent.decide(1)
    assert (theta(agent) != first).any()


def test_corrections() -> None:
    """A reward that still waits is replaced; one that was learned from is corrected at once."""
    right, wrong = agent_with(3), agent_with(3)
    for step in range(1, 4):
        for agent, reward in ((right, 0.5 * step), (wrong, 9.0)):
            agent.decide(step)
            agent.learn(reward)
    for step in range(1, 4):
        wrong.correct(0.5 * step, step)
    wrong = op.Agent.from_dict(json.loads(json.dumps(wrong.to_dict())))
    for agent in (right, wrong):
        agent.decide(0)
    np.testing.assert_array_equal(theta(wrong), theta(right))
    wrong.correct(0.9, 2)
    assert (theta(wrong) != theta(right)).any()
    right.correct(0.9, 2)
    np.testing.assert_array_equal(theta(wrong), theta(right))


def test_a_changed_state_is_refused() -> None:
    """Rewards that wait must be those of steps whose rewards have come."""
    agent = agent_with(5)
    agent.decide(0)
    agent.learn(1.0)
    agent.decide(1)
    saved = agent.to_dict()
    assert saved["waiting"] == [1]
    for waiting in ([2], [1, 1], ["1"], None):
        changed = {**saved, "waiting": waiting}
        changed["checksum"] = checksum({name: value for name, value in changed.items() if name != "checksum"})
        with pytest.raises(op.StateError, match="waiting is"):
            op.Agent.from_dict(changed)


def test_actions_of_a_run_in() -> None:
    """Equal coins over what is allowed, or always the same action, and no nudges; then the recommender begins."""
    problem = WORLD.problem.replace(allowed=[[1, 1, 1], [1, 1, 0], [1, 1, 1], [1, 1, 1]])
    world = WORLD.replace(problem=problem, open_rate=0.2)
    chosen = [
        op.Policy(revealer=op.Always(), limits=op.Limits(run_in=30), name="equal"),
        op.Policy(
            revealer=op.Always(), limits=op.Limits(run_in=30, run_in_actions="fixed", run_in_action=1), name="fixed"
        ),
    ]
    data = op.simulate(world, chosen, horizon=50, replicates=40, seed=1, progress=False)
    p, early = data["action_probability"].values, slice(30)
    assert not data["nudged"].values[..., early].any()
    revealed = data["revealed"].values[0][..., early]
    allowed = np.where(revealed, 3 - problem.masks.whole[data["context"].values[0][..., early]].sum(-1), 2)
    assert (p[0][..., early, :].max(axis=-1) == 1.0 / allowed).all()
    assert (data["action"].values[1][..., early] == 1).all()
    assert (p[1] == np.eye(3)[data["action"].values[1]]).all()
    assert (p[0][..., 30:, :].max(axis=-1) == 1.0).all()
    counts = np.bincount(data["action"].values[0][..., early][~revealed], minlength=3)
    assert counts[2] == 0
    assert abs(counts[0] - counts[1]) < 4.0 * np.sqrt(counts.sum())


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: op.Limits(run_in_actions="fixed"), "run_in_actions is 'fixed' and run_in_action is None; expected"),
        (lambda: op.Limits(run_in_action=1), "run_in_actions is 'equal' and run_in_action is 1; expected the number"),
        (lambda: op.Limits(run_in_actions="fixed", run_in_action=-1), "run_in_action is -1; expected a whole number"),
        (lambda: op.Policy(budget=op.Budget(3), update=0), "update is 0; expected a whole number from 1 to 10000"),
    ],
)
def test_wrong_settings(make: Any, message: str) -> None:
    """A fixed action goes with "fixed"; updates are at least a decision apart."""
    with pytest.raises(op.InputError) as caught:
        make()
    assert str(caught.value).startswith(message)


def test_a_forbidden_action_is_none_for_a_run_in() -> None:
    """The fixed action of a run-in must be allowed in every moment."""
    problem = WORLD.problem.replace(allowed=[[1, 1, 1], [1, 1, 0], [1, 1, 1], [1, 1, 1]])
    policy = op.Policy(budget=op.Budget(3), limits=op.Limits(run_in=3, run_in_actions="fixed", run_in_action=2))
    with pytest.raises(op.InputError, match=r"^run_in_action is 2, '2', which some moments forbid"):
        op.Agent(problem, policy, horizon=9, seed=1, stream=1)
