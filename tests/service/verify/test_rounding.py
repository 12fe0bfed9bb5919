"""Numbers and states that are the same but for rounding, and those that are not."""

import math
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import opportune as op
from live_examples import mixed_problem
from opportune.errors import StateError
from opportune.service.state.packing import pack, pack_shared
from opportune.service.verify.rounding import CLOSE, is_shared_state_of, is_state_of


def agent_at_work() -> op.Agent:
    """One that has learned, waits for a reveal, and has a nudge open."""
    policy = op.Policy(revealer=op.Pace(guard=0.5), recommender=op.LinUCB(rotate=True), budget=op.Budget(8))
    agent = op.Agent(mixed_problem(known=True), policy, horizon=80, seed=1, stream=7)
    for i in range(60):
        proposal = agent.propose({"hour": "am", "place": i % 2}, reported={"mood": "abc"[i % 3]})
        if proposal.nudged and i > 3:
            return agent
        agent.settle(True if proposal.nudged else None)
        agent.learn(math.sin(i))
    raise AssertionError("nobody was nudged")


def own_parts(agent: op.Agent) -> dict[str, Any]:
    """The parts of the agent's own state, by name."""
    return agent.numbers.parts(agent.numbers.own)


def with_number(agent: op.Agent, name: str, place: int, number: float) -> bytes:
    """The agent's state, but for one number of one part."""
    part = own_parts(agent)[name]
    where = np.unravel_index(place, part.shape)
    before, part[where] = part[where], number
    data = pack(agent)
    part[where] = before
    return data


def test_a_state_is_an_agents_but_for_rounding() -> None:
    """Every number may differ by less than a billionth of the largest of its kind, and by no more."""
    agent = agent_at_work()
    assert is_state_of(agent, pack(agent))
    for name, part in own_parts(agent).items():
        size = float(np.abs(part).max(initial=0.0))
        for place in {0, part.size // 2, part.size - 1}:
            number = part[np.unravel_index(place, part.shape)]
            apart = (number + CLOSE * size / 4, number + CLOSE * max(size, 1.0) * 4)
            one, other = (is_state_of(agent, with_number(agent, name, place, value)) for value in apart)
            assert one, (name, place)
            assert not other, (name, place)


def test_small_variances_are_held_to_their_own_size() -> None:
    """Where all are far below one, a billionth of one would be anything."""
    problem = mixed_problem(known=True).replace(theta_bound=1e-6)
    agent = op.Agent(problem, op.pd2_ucb(8), horizon=80, seed=1, stream=7)
    largest = float(own_parts(agent)["model.cov"][0, 0])
    assert 0.0 < largest < 1e-9, "the control: these are variances"
    assert is_state_of(agent, with_number(agent, "model.cov", 0, largest * (1.0 + 1e-12)))
    assert not is_state_of(agent, with_number(agent, "model.cov", 0, largest * 1.01))


def test_numbers_that_are_none_are_near_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A stored state with a number that is not finite is wrong; only a hand in the database can put it there."""
    agent = agent_at_work()
    monkeypatch.setattr("opportune.service.state.packing.is_sound", lambda *_: True)
    for odd in (math.nan, math.inf):
        assert not is_state_of(agent, with_number(agent, "model.theta", 0, odd))


def test_an_open_proposal_is_compared_too() -> None:
    """Its numbers but for rounding, all else exactly."""
    agent = agent_at_work()
    proposal, packed = agent.open_proposal, pack(agent)
    assert proposal is not None
    changes: dict[str, tuple[Any, bool]] = {
        "gap": (proposal.gap * (1.0 + 1e-13), True), "price": (proposal.price + 1e-6, False), "nudged": (False, False),
        "fresh_action": ("nobody", False), "notes": (tuple(n + 1e-12 for n in proposal.notes or ()), True),
        "step": (proposal.step + 1, False),
    }  # fmt: skip
    for name, (value, alike) in changes.items():
        agent.open_proposal = replace(proposal, **{name: value})
        assert pack(agent) != packed
        assert is_state_of(agent, packed) is alike, name
    agent.open_proposal = None
    assert not is_state_of(agent, packed)


def test_other_steps_or_rewards_that_wait_are_another_state() -> None:
    """What a state has besides its numbers is compared exactly."""
    agent = agent_at_work()
    packed = pack(agent)
    agent.opened_since = {}
    assert not is_state_of(agent, packed)
    agent.opened_since = None
    assert is_state_of(agent, packed)
    with pytest.raises(StateError, match="checksum"):
        is_state_of(agent, packed[:-1] + bytes([packed[-1] ^ 1]))


@pytest.mark.parametrize("sharing", [{"shared": True}, {"pooled": True}, {"shared": True, "pooled": True}])
def test_what_is_shared_is_compared_likewise(sharing: dict[str, bool]) -> None:
    """The model, the budget or both."""
    budget = op.Budget(8, shared=sharing.get("shared", False))
    policy = op.Policy(revealer=op.Pace(), budget=budget, pooled=sharing.get("pooled", False))
    cohort = op.Cohort(mixed_problem(known=True), policy, horizon=60, seed=1, participants=2)
    cohort.enrol("P1").decide({"hour": "am", "place": 1, "mood": "a"}, answered=True)
    packed = pack_shared({"": cohort})
    part = next(iter(cohort.common.parts(cohort.common.shared).values())).reshape(-1)
    was = part[0]
    part[0] = was + 1e-13
    assert pack_shared({"": cohort}) != packed
    assert is_shared_state_of({"": cohort}, packed)
    part[0] = was + 1e-6
    assert not is_shared_state_of({"": cohort}, packed)
