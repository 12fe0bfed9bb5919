"""An agent's numbers as bytes: exactly what they were, or refused."""

from dataclasses import replace

import numpy as np
import pytest
from live_examples import mixed_problem

import opportune as op
from opportune.errors import StateError
from opportune.live.packing import healthy, pack, pack_shared, unpack, unpack_shared


def cohort(**sharing: bool) -> op.Cohort:
    """Two places."""
    budget = op.Budget(8, shared=sharing.get("shared", False))
    policy = op.Policy(revealer=op.Pace(), budget=budget, pooled=sharing.get("pooled", False))
    return op.Cohort(mixed_problem(known=True), policy, horizon=60, seed=1, participants=2)


def steps(agent: op.Agent, number: int) -> list[op.Decision]:
    """Some decisions, each with its reward."""
    made = []
    for i in range(number):
        proposal = agent.propose({"hour": "am", "place": i % 2}, reported={"mood": "abc"[i % 3]})
        made.append(agent.settle(True if proposal.nudged else None))
        agent.learn(0.1 * i)
    return made


@pytest.mark.parametrize("sharing", [{}, {"shared": True}, {"pooled": True}, {"shared": True, "pooled": True}])
def test_unpacked_agents_go_on_as_if_they_had_never_stopped(sharing: dict[str, bool]) -> None:
    """Own and shared parts, between proposal and settlement too."""
    one, other = cohort(**sharing), cohort(**sharing)
    agent = one.seat(1, stream=7)
    steps(agent, 9)
    agent.propose({"hour": "pm", "place": 1}, opened=True, reported={"mood": "a"})
    copy = other.seat(1, stream=7)
    unpack_shared(other, pack_shared(one))
    unpack(copy, pack(agent), [replace(step) for step in agent._steps.values()])
    assert copy.settle() == agent.settle()
    copy.learn(0.5)
    agent.learn(0.5)
    assert steps(copy, 5) == steps(agent, 5)
    assert pack(copy) == pack(agent)


@pytest.mark.parametrize("damage", ["cut", "changed", "empty", "other"])
def test_bytes_that_were_damaged_are_refused(damage: str) -> None:
    """None of it is taken over for whole."""
    agent = cohort().seat(0, stream=1)
    steps(agent, 3)
    data = pack(agent)
    at = len(data) // 2
    changed = data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
    bad = {"cut": data[:-8], "changed": changed, "empty": b"", "other": b"JSON" + data[4:]}[damage]
    with pytest.raises(StateError, match="cannot be resumed"):
        unpack(cohort().seat(0, stream=1), bad, agent._steps.values())
    with pytest.raises(StateError, match="3 steps, and 0 are stored"):
        unpack(cohort().seat(0, stream=1), data, ())


@pytest.mark.parametrize("group", ["model", "snapshot", "budget", "trail"])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_health(group: str, value: float) -> None:
    """Numbers that are none are found wherever they are."""
    agent = cohort().seat(0, stream=1)
    steps(agent, 3)
    assert healthy(agent)
    agent._groups[group][-1] = value
    assert not healthy(agent)


def test_variances_must_be_positive() -> None:
    """A covariance that has lost its meaning is found."""
    agent = cohort().seat(0, stream=1)
    steps(agent, 3)
    from opportune.core.layout import Model

    agent._at.views(Model, agent._groups["model"]).cov[0] = -1e-3
    assert not healthy(agent)
