"""Calls made many at a time leave what an agent leaves that makes them one by one."""

import numpy as np
import pytest
from live_examples import POLICIES, mixed_problem

from opportune.live import replay
from opportune.live.agent import Agent
from opportune.policy import Policy
from opportune.problems.finite import Problem

STEPS = 25
RULES = [policy for policy in POLICIES if not policy.name.endswith("gap")]  # which needs to know the truth


def agent_of(policy: Policy) -> Agent:
    """An agent at its beginning."""
    return Agent(mixed_problem(known=True), policy, horizon=STEPS, seed=3, stream=7)


def lived(agent: Agent) -> tuple[list[list[float]], list[list[float]], list[int]]:
    """Decisions of an agent, each with its reward: the calls, what it found at each proposal, and its actions."""
    calls: list[list[float]] = []
    found: list[list[float]] = []
    actions = []
    rng, problem = np.random.default_rng(1), agent.problem
    assert isinstance(problem, Problem)
    for step in range(1, STEPS + 1):
        context = int(rng.integers(problem.contexts))
        away, opened, reward = bool(rng.random() < 0.2), bool(rng.random() < 0.2), float(rng.normal())
        place = problem.locate(context, step)
        where = [step, place.stratum, place.sense, place.context]
        spent, nudges = float(agent._spent.spent[0]), float(agent._spent.nudges[0])
        sensed = problem.levels(context)
        told = {"mood": sensed.pop("mood")}
        made = agent.propose(sensed, reported=told, available=not away, opened=opened and not away)
        calls.append([replay.STAND_BY if away else replay.PROPOSE, 0, *where, 0, made.opened, 0.0, step])
        names = problem.action_names
        found.append([
            made.gap, made.price, made.probability, made.tolerance, made.disagreement, names.index(made.fresh_action),
            names.index(made.action), made.nudged, made.coin, spent, nudges, agent._spent.spent[0],
            agent._spent.nudges[0],
        ])  # fmt: skip
        revealed = made.nudged or made.opened
        for pending in sorted(agent._pending.sealed) if revealed else []:
            other = agent._steps[pending]
            calls.append([replay.HOLD, 0, *other.where, other.action, False, 0.0, step])
        for pending in [number for number in agent._pending.order() if revealed and number in agent._pending.sealed]:
            other = agent._steps[pending]
            calls.append([replay.LEARN_HELD, 0, *other.where, other.action, False, other.reward, step])
        decision = agent.settle(answered=True if made.nudged else None)
        if away:
            continue
        unseen = where if revealed else [*where[:3], -1]
        calls.append([replay.SETTLE, 0, *unseen, names.index(made.action), revealed, 0.0, step])
        actions.append(names.index(decision.action))
        agent.learn(reward)
        if revealed:
            calls.append([replay.LEARN, 0, *where, actions[-1], True, reward, step])
    agent.withdraw()
    calls.append([replay.WITHDRAW, 0, 0, 0, 0, 0, 0, False, agent.horizon - agent.step, STEPS])
    return calls, found, actions


@pytest.mark.parametrize("policy", RULES, ids=lambda policy: policy.name)
def test_the_same_calls_leave_the_same_numbers(policy: Policy) -> None:
    """Every rule: what each proposal finds, each action, and the whole state afterwards, to the last bit."""
    agent, again = agent_of(policy), agent_of(policy)
    calls, found, actions = lived(agent)
    proposed, settled = np.zeros((len(found), len(replay.FOUND))), np.zeros(len(actions))
    replay.replay(
        np.stack([again._handle]), np.zeros((1, replay.JUDGED)), again._key[0], np.array([again._key[1]]),
        np.array(calls, dtype=np.float64), np.zeros((len(calls), 0)), proposed, settled,
    )  # fmt: skip
    assert np.array_equal(proposed, np.array(found))
    assert np.array_equal(settled, np.array(actions, dtype=np.float64))
    for name, group in agent._groups.items():
        assert group.tobytes() == again._groups[name].tobytes(), name
