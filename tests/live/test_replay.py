"""Calls made many at a time leave what an agent leaves that makes them one by one."""

import math

import numpy as np
import pytest
from live_examples import POLICIES, mixed_problem

from opportune.engine.layout import NOTES
from opportune.live import replay
from opportune.live.agent import Agent
from opportune.policy import Policy
from opportune.problems.finite import Problem

STEPS = 25
RULES = [policy for policy in POLICIES if not policy.name.endswith("gap")]  # which needs to know the truth


def agent_of(policy: Policy) -> Agent:
    """An agent at its beginning."""
    return Agent(mixed_problem(known=True), policy, horizon=STEPS, seed=3, stream=7)


Lived = tuple[list[list[float]], list[list[float]], list[tuple[float, ...]], list[int]]
SILENT = (math.nan,) * NOTES


def lived(agent: Agent) -> Lived:
    """Decisions of an agent, each with its reward: the calls; what it found and went by at proposals; its actions."""
    calls: list[list[float]] = []
    found: list[list[float]] = []
    notes: list[tuple[float, ...]] = []
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
        notes.append(made.notes or SILENT)
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
    return calls, found, notes, actions


def at_once(calls: list[list[float]]) -> list[list[float]]:
    """The same calls, with one where something is proposed and settled with nothing in between."""
    made: list[list[float]] = []
    for call in calls:
        if call[0] == replay.SETTLE and made[-1][0] == replay.PROPOSE and made[-1][7] == call[7]:
            made[-1] = [replay.DECIDE, *made[-1][1:6], *call[6:8], call[5], call[9]]
        else:
            made.append(call)
    return made


@pytest.mark.parametrize("together", [False, True], ids=["one by one", "at once"])
@pytest.mark.parametrize("policy", RULES, ids=lambda policy: policy.name)
def test_the_same_calls_leave_the_same_numbers(policy: Policy, together: bool) -> None:
    """Every rule: what each proposal finds, each action, and the whole state afterwards, to the last bit."""
    agent, again = agent_of(policy), agent_of(policy)
    calls, found, notes, actions = lived(agent)
    if together:
        some = len(calls)
        calls = at_once(calls)
        assert len(calls) < some, "the control: some are proposed and settled at once"
    noted = np.full((len(notes) if again._at.sizes.ranked else 0, NOTES), math.nan)
    proposed, settled = np.zeros((len(found), len(replay.FOUND))), np.zeros(len(actions))
    replay.replay(
        np.stack([again._handle]), np.zeros((1, replay.JUDGED)), again._key[0], np.array([again._key[1]]),
        np.array(calls, dtype=np.float64), np.zeros((len(calls), 0)), proposed, noted, settled,
    )  # fmt: skip
    assert np.array_equal(proposed, np.array(found))
    if len(noted):
        assert np.array_equal(noted, np.array(notes), equal_nan=True)
    assert np.array_equal(settled, np.array(actions, dtype=np.float64))
    for name, group in agent._groups.items():
        assert group.tobytes() == again._groups[name].tobytes(), name
