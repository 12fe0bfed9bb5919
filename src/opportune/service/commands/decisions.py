"""Decision points and the outcomes of their nudges."""

from collections.abc import Mapping
from typing import Any, ClassVar

from sqlalchemy import update

from opportune import checks
from opportune.errors import InputError, StateError
from opportune.live import corrections, point
from opportune.live.agent import Agent
from opportune.service.commands.base import NOT_ASKED, SYSTEM, Answered, Command, decision_answer, open_study
from opportune.service.commands.corrections import change_zone_if_due
from opportune.service.commands.pooling import pool_if_due
from opportune.service.problems import Refused
from opportune.service.record import events, tables
from opportune.service.record.transaction import Transaction
from opportune.service.state import clock, schedule, trial
from opportune.service.state.participant import COMPLETED, FALLBACK_MODE, PAUSED, WITHDRAWN, Participant


class Propose(Command, kw_only=True):
    """Decide at a decision point whether to nudge now, and which action is valid meanwhile."""

    settles: ClassVar[bool] = True

    participant: str
    given: dict[str, Any]
    at: int | None = None
    fallback: bool = False
    """Use the study's fallback, as the learned policy failed."""

    def about(self) -> tuple[str | None, str | None]:
        return self.participant, None

    def run(self, transaction: Transaction) -> Answered:
        open_study(transaction)
        person = transaction.person(self.participant)
        happened = self.received if self.at is None else self.at
        if self.at is not None:
            schedule.check_time(self.at, self.received, person)
        if person.status in {WITHDRAWN, COMPLETED}:
            raise Refused("not_active", f"{person.name!r} is {person.status} and makes no more decisions")
        step = self._step(transaction, person, happened)
        if step > transaction.running.horizon:
            raise Refused("over", f"all {transaction.running.horizon} decisions of {person.name!r} have been made")
        given = self._checked(transaction, person, step, happened)
        slot = trial.slot_given(transaction.running, person, happened=happened, step=step)
        if slot is not None:
            given["slot"] = slot
        until = (slot or {}).get("until", happened + transaction.running.answer_window)
        over = until <= self.received and "closed" not in (slot or {})
        if ("shown" in given or over) and given.get("available", True) and not given.get("opened"):
            given["past"] = True  # it is too late for a nudge
        change_zone_if_due(transaction, person, happened, received=self.received)  # nothing is refused from here on
        if not self.fallback:
            pool_if_due(transaction, self.received)
        settle_open(transaction, person, cause="next", command=self)
        while person.agent.step + 1 < step:  # decision points for which no request came
            missed = {"sensed": _public(person, given["sensed"]), "available": False, "reason": NOT_ASKED}
            if self.fallback:
                missed["mode"] = FALLBACK_MODE
            due = schedule.time_for(transaction.running, person.agent.step + 1, person)
            transaction.happen(
                events.PROPOSED,
                person,
                missed,
                who=SYSTEM,
                received=self.received,
                happened=min(max(due, person.enrolled), happened),
            )
        event = transaction.happen(
            events.PROPOSED, person, given, who=self.who, received=self.received, happened=happened
        )
        return 201, decision_answer(transaction.decision(str(event.decision)), blind=self.blind)

    def _step(self, transaction: Transaction, person: Participant, happened: int) -> int:
        """The decision point of the request: by the clock if the study has decision times, else the next one."""
        running, following, zone = transaction.running, person.agent.step + 1, person.zone_at(happened)
        if not running.times:
            return following
        step = schedule.step_at(running, happened, person.began, zone)
        if step >= following:
            return step
        there = clock.local(schedule.time_for(running, following, person), zone)
        comes = f"comes at {there:%H:%M} on {there:%Y-%m-%d} in {zone}"
        if step < 1:
            raise Refused("invalid", f"at is {clock.iso(happened)}; the first decision point {comes}")
        then = f"; the next {comes}" if following <= running.horizon else ""
        raise Refused("decided_already", f"decision point {step} of {person.name!r} has a decision already{then}")

    def _checked(self, transaction: Transaction, person: Participant, step: int, happened: int) -> dict[str, Any]:
        """The event's input, without defaults; whatever is invalid is refused here, before anything happens."""
        running = transaction.running
        sensed = trial.with_known(running, person, self.given["sensed"], step=step, happened=happened)
        given: dict[str, Any] = {"sensed": sensed}
        if self.given.get("opened"):
            given["opened"] = True
        for name in ("reported", "earlier", "shown"):
            if self.given.get(name) is not None:
                given[name] = self.given[name]
        if not self.given.get("available", True) or person.status == PAUSED:
            paused = f"paused: {person.reason}" if person.reason else "paused"
            given["available"] = False
            given["reason"] = paused if person.status == PAUSED else self.given.get("reason")
            checks.text("reason", given["reason"] or "", empty=True)
        elif self.given.get("reason") is not None:
            raise Refused("invalid", "reason is given, but available is true; expected no reason, or available: false")
        agent = person.agent
        entry = transaction.fold.step(agent, step, given["sensed"], given.get("reported"))
        available = given.get("available", True) and not entry.place.missing
        if "earlier" in given:
            if not given.get("opened"):
                raise Refused("invalid", "earlier is given, but the app is not open; expected opened: true")
            _check_earlier(agent, step, given["earlier"])
        if given.get("opened") and not available:
            del given["opened"]  # an unavailable participant reveals nothing
            given.pop("earlier", None)
        if "shown" in given:
            if given.get("opened"):
                raise Refused("invalid", "shown is given, but the app is open; expected only one of them")
            point.standing_action(agent.problem.action_names, agent.problem.action_names[0], given["shown"], False)
        if self.fallback:
            given["mode"] = FALLBACK_MODE
            given.pop("reported", None)
            given.pop("earlier", None)
            if entry.place.missing and not given.get("reason"):
                given["available"], given["reason"] = False, point.absence(None, entry.place.missing)
        return given


class Answer(Command, kw_only=True):
    """Record the outcome of a nudge."""

    decision: str
    answered: bool
    opened: bool = False
    reported: dict[str, Any] | None = None
    earlier: dict[str, dict[str, Any]] | None = None
    shown: str | None = None
    cause: str = "answer"

    def about(self) -> tuple[str | None, str | None]:
        return None, self.decision

    def run(self, transaction: Transaction) -> Answered:
        row = transaction.decision(self.decision)
        person = transaction.person(row["participant"])
        if row["status"] == "nudge" and row["expires"] <= self.received and (self.answered or self.opened):
            settle_unanswered(transaction, self.decision, cause="window", who=SYSTEM, command=self)
        if row["status"] == "settled":
            return self._late(transaction, person, row)
        given = {"answered": self.answered, "cause": self.cause}
        if self.opened:
            given["opened"] = True
        for name in ("reported", "earlier", "shown"):
            if getattr(self, name) is not None:
                given[name] = getattr(self, name)
        if self.let_stand:
            given["mode"] = FALLBACK_MODE
        else:
            self._check(person, row)
        transaction.happen(
            events.SETTLED, person, given, who=self.who, received=self.received, step=row["step"], decision=row["id"]
        )
        return 200, decision_answer(row, blind=self.blind)

    def _check(self, person: Participant, row: Mapping[str, Any]) -> None:
        """Refuse what `settle` would refuse, before anything happens."""
        try:
            self._try(person, row)
        except StateError as error:
            raise Refused("invalid", str(error)) from None

    def _try(self, person: Participant, row: Mapping[str, Any]) -> None:
        agent, entry = person.agent, person.agent.steps[row["step"]]
        revealed = self.answered or self.opened
        if (self.reported is not None or self.earlier is not None) and not revealed:
            raise Refused("invalid", "reported values are given, but nothing was revealed; expected answered: true")
        if self.shown is not None:
            names = agent.problem.action_names
            point.standing_action(names, names[0], self.shown, revealed)
        if self.reported is not None:
            point.with_reported(agent.problem, agent.reported_names, entry, self.reported)
        _check_earlier(agent, row["step"], self.earlier or {})

    def _late(self, transaction: Transaction, person: Participant, row: dict[str, Any]) -> Answered:
        """Record an answer that came after the nudge was settled; it counts as an opening at the next decision point.

        It keeps the values reported for this decision point, but not `earlier`, which requires a reveal.
        """
        late = row["nudge"] and row["outcome"] == "unanswered" and row["answered_late"] is None
        if not late or not (self.answered or self.opened):
            raise Refused("settled_already", f"decision {row['id']!r} is settled already ({row['outcome']})")
        open_study(transaction)
        if person.status in {WITHDRAWN, COMPLETED}:
            raise Refused("not_active", f"{person.name!r} is {person.status}: a late answer no longer counts")
        given: dict[str, Any] = {}
        if self.reported is not None:
            agent = person.agent
            point.with_reported(agent.problem, agent.reported_names, agent.steps[row["step"]], self.reported)
            given["reported"] = self.reported
        transaction.happen(
            events.ANSWERED_LATE, person, given, who=self.who, received=self.received, step=row["step"],
            decision=row["id"],
        )  # fmt: skip
        return 200, decision_answer(row, blind=self.blind)


def _check_earlier(agent: Agent, step: int, earlier: Mapping[str, Any]) -> None:
    """Refuse values reported for what is no earlier step, or for one that a reveal has uncovered."""
    settled = {}
    for number, values in earlier.items():
        if not number.isdecimal() or int(number) >= step:
            raise InputError(f"earlier contains step {number!r}; expected the number of an earlier step")
        if agent.open_proposal is not None and int(number) == agent.step:  # the next decision will settle it
            point.with_reported(agent.problem, agent.reported_names, agent.steps[agent.step], values)
        else:
            settled[int(number)] = values
    try:
        corrections.reported_earlier(agent, settled)
    except StateError as error:
        raise Refused("invalid", str(error)) from None


def _public(person: Participant, sensed: Mapping[str, Any]) -> dict[str, Any]:
    """Public values for a missed decision point, copied from the present one.

    They stand in for values that nobody knows any more; exports leave them out.
    """
    problem = person.agent.problem
    shown = [name for name, seen in problem.visibility.items() if seen == "public"]
    return {name: sensed[name] for name in shown if name in sensed and name not in problem.schedule.variables}


def settle_open(transaction: Transaction, person: Participant, *, cause: str, command: Command) -> None:
    """Settle the participant's open nudge, if there is one, as unanswered."""
    if person.open_decision is not None:
        settle_unanswered(transaction, person.open_decision, cause=cause, who=command.who, command=command)


def settle_unanswered(transaction: Transaction, decision: str, *, cause: str, who: str, command: Command) -> None:
    """Settle a nudge as unanswered; an outcome that staff have entered and could still undo becomes the cause."""
    said = transaction.said.pop(decision, None)
    if said is not None:
        cause, who = said
        table = tables.calls
        transaction.connection.execute(update(table).where(table.c.decision == decision).values(due=None))
    Answer(
        who=who, received=command.received, decision=decision, answered=False, cause=cause, let_stand=command.let_stand
    ).run(transaction)
