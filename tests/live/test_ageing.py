"""A decision costs the same at any age: nothing goes through all steps that a participant ever had."""

from array import array
from collections.abc import Iterator
from typing import Any

import pytest

import opportune as op
from live_examples import mixed_problem
from opportune.live.pending import Pending

STEPS = 1500


class Watched(dict[int, Any]):
    """The steps of an agent, which count how many of them were looked at."""

    looked = 0

    def __getitem__(self, number: int) -> Any:
        self.looked += 1
        return super().__getitem__(number)

    def __iter__(self) -> Iterator[int]:
        self.looked += len(self)
        return super().__iter__()

    def values(self) -> Any:
        """All of them."""
        self.looked += len(self)
        return super().values()

    def items(self) -> Any:
        """Likewise."""
        self.looked += len(self)
        return super().items()


def looked_at(agent: op.Agent, steps: Watched, *, opened: bool) -> int:
    """Steps looked at during one decision point with its reward; the patient never tells a mood that nobody asks."""
    before = steps.looked
    agent.propose({"hour": "am", "place": agent.step % 2}, opened=opened)
    agent.settle(answered=False if agent.open_proposal is not None and agent.open_proposal.nudged else None)
    agent.learn(0.5)
    return steps.looked - before


@pytest.mark.parametrize("revealing", [True, False])
def test_a_decision_looks_at_as_few_steps_late_as_early(revealing: bool) -> None:
    """With thousands of steps that wait for values that nobody tells, with a reveal and without."""
    policy = op.Policy(revealer=op.Pace(), budget=op.Budget(20.0))
    agent = op.Agent(mixed_problem(known=True), policy, horizon=STEPS, seed=1, stream=1)
    agent.steps = steps = Watched()
    early = max(looked_at(agent, steps, opened=revealing and i % 2 == 0) for i in range(20))
    while agent.step < STEPS - 20:
        looked_at(agent, steps, opened=False)
    late = max(looked_at(agent, steps, opened=revealing and i % 2 == 0) for i in range(20))
    assert len(agent.pending.order()) >= 0.9 * STEPS, "the control: these wait for a reveal that tells their values"
    assert 0 < late <= early


def test_a_reveal_takes_sealed_steps_in_order_and_rewards_as_they_came() -> None:
    """Whatever else waits stays as it is."""
    agent = op.Agent(
        mixed_problem(known=True), op.Policy(revealer=op.Never(), budget=op.Budget(20.0)), horizon=60, seed=1, stream=1
    )
    for number in range(1, 7):
        agent.propose({"hour": "am", "place": 1}, reported={"mood": "a"} if number in {2, 3, 5} else None)
        agent.settle()
    for number in (5, 4, 1, 2):
        agent.learn(0.5, number)
    pending: Pending = agent.pending
    assert (sorted(pending.sealed), pending.order()) == ([2, 3, 5], [5, 4, 1, 2])
    assert array("q", pending.order_bytes()).tolist() == [5, 4, 1, 2]
    uncovered, with_rewards = pending.open(agent.steps)
    assert ([s.step for s in uncovered], [s.step for s in with_rewards]) == ([2, 3, 5], [5, 2])
    assert (pending.sealed, pending.order()) == (set(), [4, 1])
    pending.rewarded(6)
    assert array("q", pending.order_bytes()).tolist() == [4, 1, 6]
    pending.set_order([6, 1])
    assert array("q", pending.order_bytes()).tolist() == pending.order() == [6, 1]
