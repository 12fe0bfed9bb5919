"""Copies of agents and cohorts, by `copy`, `pickle` or another process: each decides as the original would, alone."""

import copy
import multiprocessing
import pickle
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from typing import Any

import pytest

import opportune as op
from live_examples import mixed_problem, moment_problem
from opportune.errors import StateError

COPIES: dict[str, Callable[[Any], Any]] = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    "in a list": lambda it: copy.deepcopy([it, {"again": it}])[0],
    "pickle": lambda it: pickle.loads(pickle.dumps(it)),
}
PROBLEMS: dict[str, Any] = {
    "mixed": mixed_problem(known=True),
    "mixed, p unknown": mixed_problem(known=False),
    "moments": moment_problem(reported=True),
}
POLICIES = [
    op.pd2_ucb(6),
    op.Policy(revealer=op.Pace(guard=0.5), recommender=op.LinUCB(rotate=True), budget=op.Budget(6)),
    op.Policy(recommender=op.Thompson(), budget=op.Budget(6)),
]
SHARING: dict[str, dict[str, Any]] = {
    "nothing": {}, "budget": {"shared": True}, "model": {"pooled": True}, "both": {"shared": True, "pooled": True},
}  # fmt: skip


def told(problem: Any, i: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """What is sensed and what is reported at some step."""
    if isinstance(problem, op.Problem):
        return {"hour": ("am", "pm")[i % 2], "place": i // 2 % 2}, {"mood": "abc"[i % 3]}
    sensed = {"ward": "ab"[i % 2], "dose": 0.1 * (i % 7), "steps": 0.3 * (i % 5), "place": ("home", "out")[i % 3 // 2]}
    return sensed, {"mood": 0.2 * (i % 4), "pain": ("no", "yes")[i % 2]}


def go_on(agent: op.Agent, begin: int, end: int) -> list[Any]:
    """Some steps of a life, with answers, openings, late answers and corrections; every number of every decision."""
    made: list[Any] = []
    for i in range(begin, end):
        sensed, reported = told(agent.problem, i)
        proposal = agent.propose(sensed, opened=i % 7 == 0, reported=reported if i % 3 else None)
        answered = i % 4 > 0 if proposal.nudged else None
        told_now = reported if (answered or proposal.opened) and i % 3 == 0 else None
        made += [proposal, agent.settle(answered, reported=told_now)]
        agent.learn(0.1 * (i % 5) - 0.2)
        if i % 6 == 5:
            agent.correct(0.3, step=i - 2)
        if answered is False and i % 2:
            agent.answer_late(agent.step)
    return made


def agent_at_work(problem: Any, policy: op.Policy) -> op.Agent:
    """Nine steps behind it and a proposal open."""
    agent = op.Agent(problem, policy, horizon=60, seed=2**63 + 1, stream=5)
    go_on(agent, 1, 10)
    agent.propose(*told(problem, 10)[:1])
    return agent


def finish(agent: op.Agent) -> list[Any]:
    """The open proposal and ten steps more."""
    made: list[Any] = [agent.settle(False if agent.open_proposal and agent.open_proposal.nudged else None)]
    agent.learn(0.4)
    return made + go_on(agent, 11, 21)


@pytest.mark.parametrize("make", COPIES.values(), ids=COPIES)
@pytest.mark.parametrize("problem", PROBLEMS.values(), ids=PROBLEMS)
@pytest.mark.parametrize("policy", POLICIES, ids=["PD2", "PACE", "Thompson"])
def test_a_copied_agent_goes_on_alone(make: Callable[[Any], Any], problem: Any, policy: op.Policy) -> None:
    """It decides as the original would; what either learns stays its own."""
    agent = agent_at_work(problem, policy)
    before = agent.to_dict()
    copied = make(agent)
    assert copied is not agent
    assert copied.to_dict() == before
    found = finish(copied)
    assert agent.to_dict() == before, "what the copy did changed the original"
    after = copied.to_dict()
    assert after != before, "the control: something was learned"
    assert finish(agent) == found
    assert agent.to_dict() == after == copied.to_dict()


def cohort_at_work(sharing: dict[str, Any]) -> op.Cohort:
    """Two participants of three, each with some steps behind it; one has a problem of its own where it may."""
    budget = op.Budget(12, shared=sharing.get("shared", False))
    policy = op.Policy(revealer=op.Pace(), budget=budget, pooled=sharing.get("pooled", False))
    cohort = op.Cohort(mixed_problem(known=True), policy, horizon=60, seed=3, participants=3)
    cohort.enrol("ann")
    cohort.enrol("bob", problem=None if policy.together else mixed_problem(known=True, seed=2), stream=77)
    live(cohort, 1, 9)
    return cohort


def live(cohort: op.Cohort, begin: int, end: int) -> list[Any]:
    """Steps of both, in turns."""
    made = []
    for i in range(begin, end):
        for name in ("ann", "bob"):
            made += go_on(cohort[name], i, i + 1)
    return made


@pytest.mark.parametrize("make", COPIES.values(), ids=COPIES)
@pytest.mark.parametrize("sharing", SHARING.values(), ids=SHARING)
def test_a_copied_cohort_goes_on_alone(make: Callable[[Any], Any], sharing: dict[str, Any]) -> None:
    """With what its participants share; newcomers get the next number in both."""
    cohort = cohort_at_work(sharing)
    before = cohort.to_dict()
    copied = make(cohort)
    assert copied.to_dict() == before
    found = live(copied, 9, 20)
    newcomer = go_on(copied.enrol("eve"), 1, 5)
    assert cohort.to_dict() == before, "what the copy did changed the original"
    assert live(cohort, 9, 20) == found
    assert go_on(cohort.enrol("eve"), 1, 5) == newcomer
    assert cohort.to_dict() == copied.to_dict() != before


@pytest.mark.parametrize("sharing", SHARING.values(), ids=SHARING)
def test_an_agent_that_shares_something_is_not_copied_without_it(sharing: dict[str, Any]) -> None:
    """A copy of one participant would share with nobody; the control is one that shares nothing."""
    agent = cohort_at_work(sharing)["ann"]
    for make in COPIES.values():
        if not sharing:
            assert make(agent).to_dict()["stream"] == agent.stream
            continue
        message = "^the agent shares a budget or a model with others; copy its Cohort instead$"
        with pytest.raises(StateError, match=message):
            make(agent)


def elsewhere(agent: op.Agent) -> tuple[list[Any], op.Agent]:
    """What another process does with an agent, and the agent afterwards."""
    return finish(agent), agent


def both_elsewhere(cohort: op.Cohort) -> tuple[list[Any], op.Cohort]:
    """What another process does with a cohort, and the cohort afterwards."""
    return live(cohort, 9, 20), cohort


@pytest.mark.slow
def test_other_processes_get_copies() -> None:
    """A process of its own, which shares no memory, decides the same; what comes back goes on."""
    agents = [agent_at_work(problem, POLICIES[1]) for problem in PROBLEMS.values()]
    cohort = cohort_at_work(SHARING["both"])
    before = [agent.to_dict() for agent in agents]
    with ProcessPoolExecutor(1, mp_context=multiprocessing.get_context("spawn")) as other:
        results = list(other.map(elsewhere, agents))
        decided, returned = other.submit(both_elsewhere, cohort).result()
    assert [agent.to_dict() for agent in agents] == before
    for agent, (found, back) in zip(agents, results, strict=True):
        assert finish(agent) == found
        assert go_on(agent, 21, 25) == go_on(back, 21, 25)
    assert live(cohort, 9, 20) == decided
    assert live(cohort, 20, 24) == live(returned, 20, 24)
