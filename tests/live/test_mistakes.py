"""Corrections of an agent: exact where nothing was learned yet; a mistaken withdrawal leaves no trace."""

import pytest

import opportune as op
from opportune.errors import StateError


def problem() -> op.Problem:
    """What is sensed, and a mood that only the patient knows."""
    return op.Problem.from_formula(
        "action * (steps + mood)",
        contexts={"steps": range(3), "mood": range(2)},
        actions=["rest", "walk"],
        visibility={"mood": "reported"},
        noise_sd=0.5,
        theta_bound=2.0,
    )


def course(agent: op.Agent, steps: int) -> list[tuple[float, str]]:
    """Some decisions: their probabilities and actions."""
    made = []
    for number in range(steps):
        proposal = agent.propose({"steps": number % 3})
        decision = agent.settle(answered=True if proposal.nudged else None, reported=_told(proposal, number))
        agent.learn(0.1 * (number % 5))
        made.append((proposal.probability, decision.action))
    return made


def _told(proposal: op.Proposal, number: int) -> dict[str, int] | None:
    return {"mood": number % 2} if proposal.nudged else None


def test_whoever_rejoins_goes_on_as_if_never_gone() -> None:
    """Also for those who share the budget: what is expected of them is as before."""
    policy = op.Policy(revealer=op.Pace(), budget=op.Budget(20, shared=True))
    found = []
    for leaves in (False, True):
        cohort = op.Cohort(problem(), policy, horizon=30, seed=3, participants=2)
        one, two = cohort.enrol("P1"), cohort.enrol("P2")
        begun = course(one, 5) + course(two, 5)
        if leaves:
            one.withdraw()
            one.rejoin()
        found.append(begun + course(one, 10) + course(two, 10))
    assert found[0] == found[1]


def test_only_who_has_withdrawn_rejoins() -> None:
    """Anything else is a wrong call; decisions while withdrawn are refused, the control."""
    agent = op.Agent(problem(), op.pace_ucb(budget=5), horizon=20, seed=1, stream=1)
    with pytest.raises(StateError, match="has not withdrawn"):
        agent.rejoin()
    agent.withdraw()
    with pytest.raises(StateError, match="has withdrawn"):
        agent.propose({"steps": 1})
    agent.rejoin()
    assert agent.propose({"steps": 1}).step == 1


@pytest.mark.parametrize("rewarded", [False, True])
def test_a_value_is_as_if_said_at_once_until_it_is_learned_from(rewarded: bool) -> None:
    """Before the reward: the same state as with the right value. After it: what was learned stays, and is said."""
    states = []
    for told in (0, 1):
        agent = op.Agent(problem(), op.pace_ucb(budget=20), horizon=20, seed=1, stream=1)
        proposal = agent.propose({"steps": 1}, reported={"mood": told})
        agent.settle(answered=False if proposal.nudged else None)
        agent.learn(0.5)
        if told == 0:
            assert agent.correct_reported({"mood": 1}, 1) is False, "sealed: no reveal has uncovered it"
        proposal = agent.propose({"steps": 2}, opened=True, reported={"mood": 1})
        agent.settle()
        states.append(agent.to_dict()["state"])
        if rewarded and told == 0:
            assert agent.correct_reported({"mood": 0}, 1) is True
            assert agent.to_dict()["state"] == states[0]
    assert states[0] == states[1]
