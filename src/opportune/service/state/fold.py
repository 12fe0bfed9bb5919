"""What each event does: the state of a study is the result of folding its events.

The writer and `verify` both call `Fold.apply`: the writer with new input, `verify` with the recorded input. It returns
the algorithm's answer, with sentences only for the writer (`words`), as making them takes longer than deciding.
"""

import datetime as dt
import math
from collections.abc import Callable, Iterable, Mapping
from typing import Any

import msgspec
import structlog

from opportune.algorithm.reasons import ELIGIBLE, FALLBACK, WORDS
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
from opportune.service.state import clock, fallback, trial
from opportune.service.state.escalations import escalations
from opportune.service.state.occasion import occasion_of
from opportune.service.state.participant import ACTIVE, COMPLETED, FALLBACK_MODE, WITHDRAWN, Participant
from opportune.service.state.streams import Streams
from opportune.service.state.study import StudyInForce
from opportune.service.state.trial import Enrolled

EPOCH = dt.date(1970, 1, 1)
MOST_PLACES = 10_000
"""How many different contexts are cached with their place; most studies have fewer."""
WAS_PAST = "No nudge: the moment was past when it became known."
_ENCODE = msgspec.json.Encoder().encode
_NOTHING = _ENCODE(None)
Answer = dict[str, Any]
log = structlog.get_logger()


class Fold:
    """A study's agents, and the effect of each kind of event on a participant."""

    def __init__(self, running: StudyInForce, streams: Streams, *, words: bool = True, explains: bool = False) -> None:
        self.running, self.streams = running, streams
        self.coin: float | None = None
        """The next decision's coin, from the record, if the secret seed is unknown."""
        self.words, self.explains = words, explains
        self.cohorts: dict[str, Cohort] = running.cohorts()
        """The cohort of each arm."""
        problem = next(iter(self.cohorts.values())).problem
        self._period = problem.schedule.period if isinstance(problem, Problem) else None
        self._places: dict[tuple[bytes, bytes, int, int], tuple[Any, Any, Located]] = {}
        self._kinds: dict[str, Callable[[Participant, Mapping[str, Any], int | None], Answer]] = {
            events.PROPOSED: self._propose_and_tell,
            events.SETTLED: self._settle_and_tell,
            events.ANSWERED_LATE: self._answer_late,
            events.REWARDED: self._reward,
            events.CORRECTED: self._correct,
            events.SKIPPED: self._skip,
            events.REPORTED_CORRECTED: self._correct_reported,
            events.OUTCOME_CORRECTED: self._note,
            events.ZONE_CORRECTED: self._correct_zone,
            events.CALENDAR_CORRECTED: self._correct_calendar,
            events.REINSTATED: self._reinstate,
            events.STATUS: self._status,
            events.NOTED: self._note,
            events.TRIED: self._note,
            events.OPENED: self._open,
            events.CALLS: self._calls,
            events.ADVERSE: self._note,
            events.ACKNOWLEDGED: self._note,
        }

    def agent(self, number: int, *, arm: str = "", member: int | None = None, began: dt.date = EPOCH) -> Agent:
        """A new agent for participant `number`, who is number `member` of an arm."""
        seed, stream = self.streams.of(number)
        cohort = self.cohorts[arm]
        problem = trial.problem_from(cohort.problem, began)
        agent = cohort.seat(number if member is None else member, stream=stream, seed=seed, problem=problem)
        agent.explains = self.explains
        return agent

    def explain(self, people: Iterable[Participant]) -> None:
        """From now on explain nudges, also those of these people, who are enrolled already."""
        self.explains = True
        for person in people:
            person.agent.explains = True

    def enrol(
        self, name: str, number: int, given: Mapping[str, Any], enrolled: Enrolled, *, received: int,
        arm: str | None = None,
    ) -> tuple[Participant, Answer]:  # fmt: skip
        """A new participant and the answer; if the secret seed is unknown, `arm` must be the arm on record."""
        baseline, timezone = given.get("baseline") or {}, given["timezone"]
        seed = self.streams.allocation if self.streams.known else None
        seat = enrolled.next(self.running, baseline, seed=seed, arm=arm)
        began = clock.local(received, timezone).date()
        agent = self.agent(number, arm=seat.arm, member=seat.member, began=began)
        person = Participant(
            name=name, number=number, timezone=timezone, status=ACTIVE, reason=None, enrolled=received, began=began,
            seq=0, agent=agent, baseline=_ENCODE(baseline).decode() if baseline else None, **seat._asdict(),
        )  # fmt: skip
        return person, {"number": number, **({"arm": seat.arm} if seat.arm else {})}

    def apply(self, kind: str, person: Participant, given: Mapping[str, Any], step: int | None) -> Answer:
        """Apply an event to a participant; `step` is the decision point that it concerns. Returns the answer."""
        handler = self._kinds.get(kind)
        if handler is None:
            raise DataError(f"an event about a participant is {kind!r}; expected one of {', '.join(self._kinds)}")
        return handler(person, given, step)

    def spending(self) -> tuple[float, int]:
        """Probabilities and nudges spent from shared budgets, summed over the arms."""
        budgets = [cohort.common.budget for cohort in self.cohorts.values() if cohort.policy.shared]
        return sum(float(each.spent[0]) for each in budgets), sum(int(each.nudges[0]) for each in budgets)

    def pool(self, people: Iterable[Participant]) -> Answer:
        """Update the pooled part of the models, in each arm with partial pooling.

        Returns the number of participants of each such arm, and the means and standard deviations of their effects.
        """
        found: Answer = {"participants": {}, "common": {}}
        known = sorted(people, key=lambda person: person.number)
        for arm, cohort in self.cohorts.items():
            if cohort.policy.partial:
                agents = [person.agent for person in known if person.arm == arm]
                cohort.bring_together(agents)
                mean, sd = cohort.prior
                found["participants"][arm] = len(agents)
                found["common"][arm] = {"mean": mean.tolist(), "sd": sd.tolist()}
        return found

    def amend(self, running: StudyInForce) -> None:
        """Switch to an amended study file, which decides as before."""
        self.running = running

    def _propose_and_tell(self, person: Participant, given: Mapping[str, Any], step: int | None) -> Answer:
        return {**self._propose(person, given, step), **self._due(given["sensed"], given.get("reported"))}

    def _settle_and_tell(self, person: Participant, given: Mapping[str, Any], step: int | None) -> Answer:
        return {**self._settle(person, given, step), **self._due(given.get("reported"))}

    def _propose(self, person: Participant, given: Mapping[str, Any], step: int | None) -> Answer:
        if given.get("mode") == FALLBACK_MODE:
            return self._stand_in(person, given)
        agent, shown = person.agent, given.get("shown")
        before = agent.budget_left
        agent.refuse_more()
        entry = self.step(agent, agent.step + 1, given["sensed"], given.get("reported"))
        opened, available, past = given.get("opened", False), given.get("available", True), given.get("past", False)
        made = agent.propose_at(
            entry, opened=opened, available=available, reason=given.get("reason"), coin=self.coin, past=past,
            slot=trial.slot_of(given),
        )  # fmt: skip
        answer = self._proposed(made, before)
        if self.words and given.get("past") and made.available:
            answer["why"] = WAS_PAST
        if self.explains and made.nudged and shown is None:
            answer |= _because(agent, made, entry)
        if not made.nudged or shown is not None:
            why = answer.get("why", "")
            earlier = _by_step(given.get("earlier"))
            answer["settled"] = self._settled(
                agent, False if made.nudged else None, earlier=earlier, shown=shown, why=why
            )
        return answer

    def step(self, agent: Agent, number: int, sensed: Any, reported: Any) -> Step:
        """A new, checked step of an agent; if contexts are finite, a context's place is looked up only once."""
        problem, period = agent.problem, self._period
        if period is None:
            point.refuse_history(problem, sensed)
            return point.new_step(problem, agent.reported_names, number, sensed, reported)
        told = _NOTHING if reported is None else _ENCODE(reported)
        key = (_ENCODE(sensed), told, number % period, id(agent.problem))
        known = self._places.get(key)
        if known is not None:
            return Step(number, *known)  # equal values are kept in memory once
        made = point.new_step(problem, agent.reported_names, number, sensed, reported)
        if len(self._places) < MOST_PLACES:
            self._places[key] = made.given, made.reported, made.place
        return made

    def _due(self, *told: Mapping[str, Any] | None) -> Answer:
        """The part of an answer that lists escalations raised by reported or sensed values."""
        due = escalations(self.running, {name: value for values in told for name, value in (values or {}).items()})
        return {"escalations": due} if due else {}

    def _stand_in(self, person: Participant, given: Mapping[str, Any]) -> Answer:
        """Decide by the study's fallback, as the agent cannot; nothing is learned from the decision."""
        agent, running, budget = person.agent, self.running, person.agent.policy.budget
        before = agent.budget_left
        rate = 0.0
        if budget is not None:
            decisions = running.horizon * (running.sizes[person.arm] if budget.shared else 1)
            rate = min(1.0, budget.amount / decisions)
        probability = min(rate, max(0.0, before)) if given.get("available", True) else 0.0
        if (budget is not None and budget.hard and before < 1.0) or trial.slot_of(given).closed != ELIGIBLE:
            probability = 0.0
        if getattr(person.agent.policy.revealer, "by_candidates", False):
            probability = 0.0  # only the learned rule can find the moments at which nudges are randomised
        if given.get("opened", False) or given.get("past", False) or given.get("shown") is not None:
            probability = 0.0
        coin = float(draw(*agent.key, agent.step + 1, COIN)) if self.coin is None else self.coin
        action = given.get("shown") or running.fallback
        fallback.stand_in(agent, given["sensed"], action=action, probability=probability, coin=coin)
        nudged = coin < probability
        why = f"The study's fallback, as no learned policy could be used: {action}."
        answer: Answer = {
            "nudged": nudged, "probability": probability, "coin": coin, "gap": 0.0, "price": 0.0, "disagreement": 0.0,
            "tolerance": 0.0, "fresh": action, "stale": action, "before": _finite(before),
            "left": _finite(agent.budget_left), "available": given.get("available", True),
            "reason": given.get("reason"), "why": why, "ineligible": WORDS[FALLBACK],
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
        return self._settled(
            person.agent,
            answered,
            opened=opened,
            reported=given.get("reported"),
            earlier=_by_step(given.get("earlier")),
            shown=given.get("shown"),
        )

    def _proposed(self, made: Proposal, before: float) -> Answer:
        answer = {
            "nudged": made.nudged, "probability": made.probability, "coin": made.coin, "gap": made.gap,
            "price": made.price, "disagreement": made.disagreement, "tolerance": made.tolerance,
            "fresh": made.fresh_action, "stale": made.stale_action, "before": _finite(before),
            "left": _finite(made.budget_left), "available": made.available, "reason": made.reason,
        }  # fmt: skip
        if made.action != made.stale_action:
            answer["standing"] = made.action
        if not made.eligible:
            answer["ineligible"] = made.ineligible_reason
        if self.words:
            answer["why"] = made.why
        if made.notes is not None:
            answer["notes"] = list(made.notes)
        return answer

    def _settled(
        self, agent: Agent, answered: bool | None, opened: bool = False, reported: Any = None, earlier: Any = None,
        shown: str | None = None, why: str | None = None,
    ) -> Answer:  # fmt: skip
        """Settle the agent's proposal; `why` is the proposal's sentence, if it was just made."""
        made, entry, opened, revealed = agent.conclude(answered, opened, reported, earlier, shown)
        action = agent.problem.action_names[entry.action]
        answer: Answer = {"action": action, "outcome": _outcome(made, opened, answered), "revealed": revealed}
        if agent.drawn is not None:
            answer["drawn"] = list(agent.drawn)
        if self.words:
            answer["why"] = outcome_in_words(made, made.why if why is None else why, opened, answered, action)
        return answer

    def _answer_late(self, person: Participant, given: Mapping[str, Any], step: int | None) -> Answer:
        entry = person.agent.steps[_known(step)]
        if entry.unanswered:  # else the nudge was the fallback's
            person.agent.answer_late(entry.step, given.get("reported"))
        return self._due(given.get("reported"))

    def _open(self, person: Participant, given: Mapping[str, Any], step: int | None) -> Answer:
        told = given.get("reported") or {}
        person.agent.open_between(told)
        return self._due(told)

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

    def _correct_reported(self, person: Participant, given: Mapping[str, Any], step: int | None) -> Answer:
        return {"learned": person.agent.correct_reported(given["reported"], _known(step))}

    def _correct_zone(self, person: Participant, given: Mapping[str, Any], step: int | None) -> Answer:
        """Change the time zone now or from a date on; either replaces a change planned earlier."""
        person.next_timezone = person.next_from = None
        if "from" in given:
            person.next_timezone, person.next_from = given["timezone"], dt.date.fromisoformat(given["from"])
        else:
            person.timezone = given["timezone"]
        return {}

    def _correct_calendar(self, person: Participant, given: Mapping[str, Any], step: int | None) -> Answer:
        """Repair dates written while the clock was ahead: day 1 moves back, and no date stays in the future."""
        until = clock.from_iso(given["until"])
        person.began, person.enrolled = dt.date.fromisoformat(given["began"]), min(person.enrolled, until)
        if person.last_decided is not None:
            person.last_decided = min(person.last_decided, until)
        return {}

    def _reinstate(self, person: Participant, given: Mapping[str, Any], step: int | None) -> Answer:
        person.agent.rejoin()
        person.status, person.reason = ACTIVE, None
        return {}

    def _skip(self, person: Participant, given: Mapping[str, Any], step: int | None) -> Answer:
        person.agent.skip(_known(step))
        return {}

    def _status(self, person: Participant, given: Mapping[str, Any], step: int | None) -> Answer:
        person.status, person.reason = given["status"], given.get("reason")
        if person.status in {WITHDRAWN, COMPLETED}:
            person.agent.withdraw()
        return {}

    def _calls(self, person: Participant, given: Mapping[str, Any], step: int | None) -> Answer:
        person.calls = given["wanted"]
        return {}

    def _note(self, person: Participant, given: Mapping[str, Any], step: int | None) -> Answer:
        return {}


def _because(agent: Agent, made: Proposal, entry: Step) -> Answer:
    """Why the nudge was made, for people to read. A failure here must not undo the decision, so it is only logged."""
    try:
        return {"because": msgspec.to_builtins(occasion_of(agent, made, entry))}
    except Exception as error:
        log.error("the reason of a nudge could not be computed", error=type(error).__name__)
        return {}


def _by_step(earlier: Mapping[str, Any] | None) -> dict[int, Any] | None:
    """Values reported for earlier steps, by their number; an event has it as text."""
    return None if earlier is None else {int(number): told for number, told in earlier.items()}


def _known(step: int | None) -> int:
    if step is None:
        raise DataError("an event about a decision has no step")
    return step


def _finite(number: float) -> float | None:
    return None if math.isinf(number) else number


def _outcome(made: Proposal, opened: bool, answered: bool | None) -> str:
    return "opened" if opened else "none" if not made.nudged else "answered" if answered else "unanswered"
