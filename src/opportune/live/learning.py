"""What a live agent learns from rewards, and when: at once, at the model's next update, or once a reveal uncovers them.

A step's reward is learned from when it is known, the step's context has been seen and the model is updated. With
reported variables it waits for a reveal; with `Policy(update=k)` for decision point k + 1, 2k + 1, and so on.
"""

from typing import TYPE_CHECKING, Any

from opportune import checks
from opportune.errors import StateError
from opportune.live import steps
from opportune.live.point import LEARNED, NOTHING, SKIPPED, Step

if TYPE_CHECKING:
    from opportune.live.agent import Agent


def waiting_for_reward(agent: "Agent", step: int | None, call: str) -> Step:
    """The step that a reward is for."""
    if step is None and agent.step == 0:
        raise StateError("there is no decision to learn from; call propose(context) or decide(context) first")
    entry = agent.known_step(agent.step if step is None else step)
    if entry.status == LEARNED:
        raise StateError(f"step {entry.step} has its reward; call correct(reward, step={entry.step}) to change it")
    if entry.status == NOTHING:
        raise StateError(f"step {entry.step} was not available: nothing is learned from it")
    if entry.status == SKIPPED and call == "skip":
        raise StateError(f"step {entry.step} was skipped already")
    return entry


def take(agent: "Agent", entry: Step, reward: float) -> None:
    """A step's reward has come."""
    entry.reward, entry.status = reward, LEARNED
    _remember(agent, entry)
    if agent.policy.update > 1:
        agent.pending.waiting.add(entry.step)
    else:
        _learn(agent, entry)


def correct(agent: "Agent", entry: Step, reward: float) -> None:
    """A step's reward was not what it was said to be."""
    difference, entry.reward = reward - entry.reward, reward
    _remember(agent, entry)
    if entry.seen and entry.step not in agent.pending.waiting:
        if agent.continuous:
            steps.write_values(agent.numbers.handle, entry.place.values)
        steps.correct_live(agent.numbers.handle, *entry.where, entry.action, difference)


def update(agent: "Agent") -> None:
    """Learn from the rewards that wait for the model's update, the oldest step first."""
    waiting = agent.pending.waiting
    for number in sorted(waiting):
        _learn(agent, agent.steps[number])
    waiting.clear()


def _remember(agent: "Agent", entry: Step) -> None:
    """Variables of the participant's own history go by a reward from when it is there."""
    if agent.problem.histories:
        steps.record_reward_live(agent.numbers.handle, entry.step, entry.reward)


def _learn(agent: "Agent", entry: Step) -> None:
    if not entry.seen:
        agent.pending.rewarded(entry.step)
        return
    if agent.continuous:
        steps.write_values(agent.numbers.handle, entry.place.values)
    steps.learn_live(agent.numbers.handle, *entry.where, entry.action, True, entry.reward)


def uncover(agent: "Agent") -> None:
    """A reveal uncovers the pending steps whose values are known: those told now, and those that were sealed."""
    uncovered, with_rewards = agent.pending.open(agent.steps)
    for s in uncovered:
        s.seen = True
        if agent.continuous:
            rewarded = s.status == LEARNED and s.step not in agent.pending.waiting
            steps.uncover_live(agent.numbers.handle, s.place.values, s.action, rewarded, s.reward)
        else:
            steps.hold_live(agent.numbers.handle, *s.where, s.action)
    if not agent.continuous:
        for s in with_rewards:
            steps.learn_live(agent.numbers.handle, *s.where, s.action, False, s.reward)


def restore_waiting(agent: "Agent", saved: Any) -> set[int]:
    """The steps whose rewards wait for the model's next update, from a saved state."""
    numbers = saved if isinstance(saved, list) and all(type(n) is int for n in saved) else [0]
    known = [n for n in numbers if n in agent.steps and agent.steps[n].status == LEARNED]
    if known != sorted(set(numbers)) or (known and agent.policy.update == 1):
        given = f"the state cannot be resumed: waiting is {checks.brief(saved)}"
        raise StateError(f"{given}; expected the steps, in order, whose rewards wait for an update of the model")
    return set(known)
