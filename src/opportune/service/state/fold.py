"""What each event does: the state of a study is what folding its events gives.

The writer and `verify` call the same function, `Fold.apply`: the one with what has just come in, the other with what
the record says came in. It hands back what the algorithm answered; sentences only for the writer (`words`), as making
them takes longer than deciding.
"""

import math
from collections.abc import Callable, Mapping
from typing import Any

import msgspec

from opportune.algorithm.rng import COIN, draw
from opportune.errors import DataError
from opportune.live import point
from opportune.live.agent import Agent
from opportune.live.cohort import Cohort
from opportune.live.decision import Proposal, outcome_in_words
from opportune.live.point import LEARNED, NOTHING, Step
from opportune.problems.finite import Problem
from opportune.problems.settings import Located
from opportune.service.record import events
from opportune.service.state import fallback
from opportune.service.state.participant import COMPLETED, FALLBACK_MODE, WITHDRAWN, Participant
from opportune.service.state.study import StudyInForce

MOST_PLACES = 10_000
"""Different values whose place is remembered: rather more than most studies have contexts."""
WAS_PAST = "No nudge: the moment was past when it became known."
_ENCODE = msgspec.json.Encoder().encode
_NOTHING = _ENCODE(None)
Answer = dict[str, Any]


class Fold:
    """A study's agents, and what an event does to a participant."""

    def __init__(self, running: StudyInForce, *, words: bool = True) -> None:
        self.running = running
        self.words = words
        self.cohort: Cohort = running.cohort()
        problem = self.cohort.problem
        self._period = problem.schedule.period if isinstance(problem, Problem) else None
        self._places: dict[tuple[bytes, bytes, int], tuple[Any, Any, Located]] = {}
        self._kinds: dict[str, Callable[[Participant, Mapping[str, Any], int | None], Answer]] = {
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

    def apply(self, kind: str, person: Participant, given: Mapping[str, Any], step: int | None) -> Answer:
        """Let an event happen to a participant; `step` is the decision point that it is about."""
        handler = self._kinds.get(kind)
        if handler is None:
            raise DataError(f"an event about a participant is {kind!r}; expected one of {', '.join(self._kinds)}")
        return handler(person, given, step)

    def spending(self) -> tuple[float, int]:
        """What of a shared budget is spent: probabilities, and nudges."""
        budget = self.cohort.common.budget
        return float(budget.spent[0]), int(budget.nudges[0])

    def amend(self, running: StudyInForce) -> None:
        """Go on by an amended study file, which decides as before."""
        self.running = running

    def _propose(self, person: Participant, given: Mapping[str, Any], step: int | None) -> Answer:
        if given.get("mode") == FALLBACK_MODE:
            return self._stand_in(person, given)
        agent, shown = person.agent, given.get("shown")
        before = agent.budget_left
        agent.refuse_more()
        entry = self.step(agent, agent.step + 1, given["sensed"], given.get("reported"))
        if len(given) == 1:  # as most are: nothing but what was sensed
            made = agent.propose_at(entry, opened=False, available=True, reason=None)
        else:
            opened, available = given.get("opened", False), given.get("available", True)
            past = given.get("past", False)
            made = agent.propose_at(entry, opened=opened, available=available, reason=given.get("reason"), past=past)
        answer = self._proposed(made, before)
        if self.words and given.get("past") and made.available:
            answer["why"] = WAS_PAST
        if not made.nudged or shown is not None:
            why = answer.get("why", "")
            answer["settled"] = self._settled(agent, False if made.nudged else None, shown=shown, why=why)
        return answer

    def step(self, agent: Agent, number: int, sensed: Any, reported: Any) -> Step:
        """A new step of an agent, checked; where contexts are finite, the same values are not looked up again."""
        problem, period = agent.problem, self._period
        if period is None:
            return point.new_step(problem, agent.reported_names, number, sensed, reported)
        key = (_ENCODE(sensed), _NOTHING if reported is None else _ENCODE(reported), number % period)
        known = self._places.get(key)
        if known is not None:
            return Step(number, *known)  # one copy of the values for all who had them
        made = point.new_step(problem, agent.reported_names, number, sensed, reported)
        if len(self._places) < MOST_PLACES:
            self._places[key] = made.given, made.reported, made.place
        return made

    def _stand_in(self, person: Participant, given: Mapping[str, Any]) -> Answer:
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
        if given.get("opened", False) or given.get("past", False) or given.get("shown") is not None:
            probability = 0.0
        coin = float(draw(*agent.key, agent.step + 1, COIN))
        action = given.get("shown") or running.fallback
        fallback.stand_in(agent, given["sensed"], action=action, probability=probability, coin=coin)
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

    def _settle(self, person: Participant, given: Mapping[str, Any], step: int | None) -> Answer:
        opened, answered = given.get("opened", False), given.get("answered")
        if person.agent.open_proposal is None:  # a nudge by the fallback
            outcome = "opened" if opened else "answered" if answered else "unanswered"
            action = given.get("shown") or person.agent.problem.action_names[person.agent.steps[_known(step)].action]
            return {"action": action, "outcome": outcome, "revealed": False, "why": "The study's fallback stands."}
        if given.get("mode") == FALLBACK_MODE:
            why = "Unanswered; what stood stays, as no learned policy could be used."
            return {"action": fallback.let_stand(person.agent), "outcome": "unanswered", "revealed": False, "why": why}
        earlier = given.get("earlier")
        return self._settled(
            person.agent,
            answered,
            opened=opened,
            reported=given.get("reported"),
            earlier=None if earlier is None else {int(number): told for number, told in earlier.items()},
            shown=given.get("shown"),
        )

    def _proposed(self, made: Proposal, before: float) -> Answer:
        answer = {
            "nudged": made.nudged, "probability": made.probability, "coin": made.coin, "gap": made.gap,
            "price": made.price, "disagreement": made.disagreement, "tolerance": made.tolerance,
            "fresh": made.fresh_action, "stale": made.action, "before": _finite(before),
            "left": _finite(made.budget_left), "available": made.available, "reason": made.reason,
        }  # fmt: skip
        if self.words:
            answer["why"] = made.why
        if made.notes is not None:
            answer["notes"] = list(made.notes)
        return answer

    def _settled(
        self, agent: Agent, answered: bool | None, opened: bool = False, reported: Any = None, earlier: Any = None,
        shown: str | None = None, why: str | None = None,
    ) -> Answer:  # fmt: skip
        """What became of the agent's proposal; `why` is the proposal's, if that was put into words just now."""
        made, entry, opened, revealed = agent.conclude(answered, opened, reported, earlier, shown)
        action = agent.problem.action_names[entry.action]
        answer: Answer = {"action": action, "outcome": _outcome(made, opened, answered), "revealed": revealed}
        if self.words:
            answer["why"] = outcome_in_words(made, made.why if why is None else why, opened, answered, action)
        return answer

    def _answer_late(self, person: Participant, given: Mapping[str, Any], step: int | None) -> Answer:
        entry = person.agent.steps[_known(step)]
        if entry.unanswered:  # else the nudge was the fallback's
            person.agent.answer_late(entry.step, given.get("reported"))
        return {}

    def _reward(self, person: Participant, given: Mapping[str, Any], step: int | None) -> Answer:
        entry = person.agent.steps[_known(step)]
        if entry.status == NOTHING:  # on record for the analysis; nothing is learned from such a step
            return {"learned": False}
        person.agent.learn(given["reward"], entry.step)
        return {"learned": True}

    def _correct(self, person: Participant, given: Mapping[str, Any], step: int | None) -> Answer:
        entry = person.agent.steps[_known(step)]
        if entry.status != LEARNED:
            return {"learned": False}
        person.agent.correct(given["reward"], entry.step)
        return {"learned": True}

    def _skip(self, person: Participant, given: Mapping[str, Any], step: int | None) -> Answer:
        person.agent.skip(_known(step))
        return {}

    def _status(self, person: Participant, given: Mapping[str, Any], step: int | None) -> Answer:
        person.status, person.reason = given["status"], given.get("reason")
        if person.status in {WITHDRAWN, COMPLETED}:
            person.agent.withdraw()
        return {}

    def _note(self, person: Participant, given: Mapping[str, Any], step: int | None) -> Answer:
        return {}


def _known(step: int | None) -> int:
    if step is None:
        raise DataError("an event about a decision has no step")
    return step


def _finite(number: float) -> float | None:
    return None if math.isinf(number) else number


def _outcome(made: Proposal, opened: bool, answered: bool | None) -> str:
    return "opened" if opened else "none" if not made.nudged else "answered" if answered else "unanswered"
