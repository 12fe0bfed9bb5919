"""What is known later than it should be, or turns out to have been wrong: answers, reported values, a withdrawal.

Decisions that were made stay.
"""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from opportune import checks
from opportune.errors import InputError, StateError
from opportune.live import point
from opportune.live.point import LEARNED
from opportune.problems.finite import Problem
from opportune.problems.settings import Located

if TYPE_CHECKING:
    from opportune.live.agent import Agent
    from opportune.live.point import Step


def correct_reported(agent: "Agent", entry: "Step", reported: Mapping[str, Any]) -> bool:
    """Other reported values for a settled step; whether something was learned from the first ones, which stays.

    A reveal that is still to come counts the new values, and a reward that is still to come is learned with them. A
    step that was learned from keeps its values in the model, so that its reward can be corrected exactly.
    """
    known = point.with_reported(agent.problem, agent.reported_names, entry, reported)
    if entry.seen and entry.status == LEARNED and entry.step not in agent.pending.waiting:
        return True
    entry.reported, entry.place = known
    agent.pending.note(entry)
    return False


def rejoin(agent: "Agent") -> None:
    """A withdrawal was a mistake: decisions are made again, and expected by those who share the budget."""
    if not agent.withdrawn:
        raise StateError("the participant has not withdrawn; expected one who has")
    agent.numbers.budget.foregone[0] -= agent.horizon - agent.step
    agent.withdrawn = False


def answer_late(agent: "Agent", entry: "Step", reported: Mapping[str, Any] | None) -> None:
    """A nudge that was settled as unanswered was answered after all."""
    if not entry.unanswered:
        raise StateError(f"step {entry.step} has no unanswered nudge")
    if reported is not None:
        known = point.with_reported(agent.problem, agent.reported_names, entry, reported)
        if not entry.seen:  # else an earlier reveal has uncovered the step, and what it told stands
            entry.reported, entry.place = known
            agent.pending.note(entry)
    entry.unanswered = False
    agent.opened_since = agent.opened_since or {}


def open_between(agent: "Agent", reported: Mapping[str, Any] | None) -> None:
    """The app was opened between decision points; what was told is that of the next one, unless it is told anew."""
    agent.opened_since = {**(agent.opened_since or {}), **(reported_between(agent, reported or {}) or {})}


def reported_between(agent: "Agent", told: Any) -> dict[str, Any] | None:
    """What was told when the app was opened between decision points, checked; None where it was not opened."""
    if told is None:
        return None
    problem, given = agent.problem, checks.mapping("opened_since", told, "{variable: value} or None")
    found = point.check_reported(given, agent.reported_names) if given else {}
    problem.locate({**(problem.levels(0) if isinstance(problem, Problem) else problem.middle_values()), **found}, 1)
    return found


def tell_opened(agent: "Agent", entry: "Step") -> None:
    """The app counts as opened at a step: what was told before it is what is known there."""
    told, agent.opened_since = agent.opened_since or {}, None
    if told:
        told = {**told, **(entry.reported or {})}
        entry.reported, entry.place = point.with_reported(agent.problem, agent.reported_names, entry, told)


def reported_earlier(agent: "Agent", earlier: Any) -> dict[int, tuple[dict[str, Any], Located]]:
    """Earlier steps whose reported values are told now, checked."""
    if not isinstance(earlier, Mapping | None):
        raise InputError(f"earlier is {checks.brief(earlier)}; expected {{step: {{variable: value}}}}")
    found = {}
    for number, reported in (earlier or {}).items():
        entry = agent.known_step(number)
        if entry.seen:
            raise StateError(f"step {number} is not pending; expected a step that no reveal has uncovered")
        found[entry.step] = point.with_reported(agent.problem, agent.reported_names, entry, reported)
    return found
