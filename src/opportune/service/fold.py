"""What each event does: the state of a study is what folding its events gives.

The writer and `verify` call the same function, `Fold.apply`: the one with what has just come in, the other with what
the record says came in. It hands back what the algorithm answered.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any

from opportune.core.rng import COIN, draw
from opportune.errors import DataError
from opportune.live import standin
from opportune.live.agent import Agent
from opportune.live.cohort import Cohort
from opportune.live.decision import Decision, Proposal
from opportune.live.packing import own_groups
from opportune.live.point import LEARNED, NOTHING
from opportune.service import events
from opportune.service.person import COMPLETED, WITHDRAWN, Person
from opportune.service.running import Running

LEARNED_MODE, FALLBACK_MODE = "learned", "fallback"
Answer = dict[str, Any]


class Fold:
    """A study's agents, and what an event does to a participant."""

    def __init__(self, running: Running) -> None:
        self.running = running
        self.cohort: Cohort = running.cohort()
        self.own = own_groups(self.cohort)
        self._kinds: dict[str, Callable[[Person, Mapping[str, Any], int | None], Answer]] = {
            events.PROPOSED: self._propose,
            events.SETTLED: self._settle,
            events.ANSWERED_LATE: self._answer_late,
            events.REWARDED: self._reward,
            events.CORRECTED: self._correct,
            events.SKIPPED: self._skip,
            events.STATUS: self._status,
            events.NOTED: self._note,
            events.TRIED: self._note,
        }

    def agent(self, number: int, stream: int) -> Agent:
        """An agent for participant `number`, at its beginning."""
        return self.cohort.seat(number, stream=stream)

    def apply(self, kind: str, person: Person, given: Mapping[str, Any], step: int | None) -> Answer:
        """Let an event happen to a participant; `step` is the decision point that it is about."""
        handler = self._kinds.get(kind)
        if handler is None:
            raise DataError(f"an event about a participant is {kind!r}; expected one of {', '.join(self._kinds)}")
        return handler(person, given, step)

    def amend(self, running: Running) -> None:
        """Go on by an amended study file, which decides as before."""
        self.running = running

    def _propose(self, person: Person, given: Mapping[str, Any], step: int | None) -> Answer:
        if given.get("mode") == FALLBACK_MODE:
            return self._stand_in(person, given)
        agent, shown = person.agent, given.get("shown")
        before = agent.budget_left
        made = agent.propose(
            given["sensed"],
            opened=given.get("opened", False),
            reported=given.get("reported"),
            available=given.get("available", True),
            reason=given.get("reason"),
        )
        answer = _proposed(made, before)
        if not made.nudged or shown is not None:
            answer["settled"] = _settled(agent.settle(False if made.nudged else None, shown=shown))
        return answer

    def _stand_in(self, person: Person, given: Mapping[str, Any]) -> Answer:
        """A decision by the study's fallback, where the agent cannot make one: nothing is learned from it."""
        agent, running = person.agent, self.running
        before = agent.budget_left
        rate = 0.0
        if running.amount is not None:
            decisions = running.horizon * (running.participants if running.policy.shared else 1)
            rate = min(1.0, running.amount / decisions)
        probability = min(rate, max(0.0, before)) if given.get("available", True) else 0.0
        if running.hard and before < 1.0:
            probability = 0.0
        if given.get("opened", False) or given.get("shown") is not None:
            probability = 0.0
        coin = float(draw(*agent._key, agent.step + 1, COIN))
        action = given.get("shown") or running.fallback
        standin.stand_in(agent, given["sensed"], action=action, probability=probability, coin=coin)
        nudged = coin < probability
        why = f"The study's fallback, as no learned policy could be used: {action}."
        answer: Answer = {
            "nudged": nudged, "probability": probability, "coin": coin, "gap": 0.0, "price": 0.0, "disagreement": 0.0,
            "tolerance": 0.0, "fresh": action, "stale": action, "before": _finite(before),
            "left": _finite(agent.budget_left), "available": given.get("available", True),
            "reason": given.get("reason"), "why": why,
        }  # fmt: skip
        if not nudged:
            outcome = "opened" if given.get("opened", False) else "none"
            answer["settled"] = {"action": action, "outcome": outcome, "revealed": False, "why": why}
        return answer

    def _settle(self, person: Person, given: Mapping[str, Any], step: int | None) -> Answer:
        opened, answered = given.get("opened", False), given.get("answered")
        if person.agent._proposal is None:  # a nudge by the fallback
            outcome = "opened" if opened else "answered" if answered else "unanswered"
            action = given.get("shown") or person.agent.problem.action_names[person.agent._steps[_known(step)].action]
            return {"action": action, "outcome": outcome, "revealed": False, "why": "The study's fallback stands."}
        earlier = given.get("earlier")
        decision = person.agent.settle(
            answered,
            opened=opened,
            reported=given.get("reported"),
            earlier=None if earlier is None else {int(number): told for number, told in earlier.items()},
            shown=given.get("shown"),
        )
        return _settled(decision)

    def _answer_late(self, person: Person, given: Mapping[str, Any], step: int | None) -> Answer:
        entry = person.agent._steps[_known(step)]
        if entry.unanswered:  # else the nudge was the fallback's
            person.agent.answer_late(entry.step, given.get("reported"))
        return {}

    def _reward(self, person: Person, given: Mapping[str, Any], step: int | None) -> Answer:
        entry = person.agent._steps[_known(step)]
        if entry.status == NOTHING:  # on record for the analysis; nothing is learned from such a step
            return {"learned": False}
        person.agent.learn(given["reward"], entry.step)
        return {"learned": True}

    def _correct(self, person: Person, given: Mapping[str, Any], step: int | None) -> Answer:
        entry = person.agent._steps[_known(step)]
        if entry.status != LEARNED:
            return {"learned": False}
        person.agent.correct(given["reward"], entry.step)
        return {"learned": True}

    def _skip(self, person: Person, given: Mapping[str, Any], step: int | None) -> Answer:
        person.agent.skip(_known(step))
        return {}

    def _status(self, person: Person, given: Mapping[str, Any], step: int | None) -> Answer:
        person.status, person.reason = given["status"], given.get("reason")
        if person.status in {WITHDRAWN, COMPLETED}:
            person.agent.withdraw()
        return {}

    def _note(self, person: Person, given: Mapping[str, Any], step: int | None) -> Answer:
        return {}


def _known(step: int | None) -> int:
    if step is None:
        raise DataError("an event about a decision has no step")
    return step


def _finite(number: float) -> float | None:
    return None if math.isinf(number) else number


def _proposed(made: Proposal, before: float) -> Answer:
    answer = {
        "nudged": made.nudged, "probability": made.probability, "coin": made.coin, "gap": made.gap,
        "price": made.price, "disagreement": made.disagreement, "tolerance": made.tolerance,
        "fresh": made.fresh_action, "stale": made.action, "before": _finite(before),
        "left": _finite(made.budget_left), "available": made.available, "reason": made.reason, "why": made.why,
    }  # fmt: skip
    if made.notes is not None:
        answer["notes"] = list(made.notes)
    return answer


def _settled(made: Decision) -> Answer:
    outcome = "opened" if made.opened else "none" if not made.nudged else "answered" if made.answered else "unanswered"
    return {"action": made.action, "outcome": outcome, "revealed": made.revealed, "why": made.why}
