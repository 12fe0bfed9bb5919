"""Participants: enrolment, status, notes, and the bundle for their phones."""

from typing import Any, ClassVar

from sqlalchemy import select, union

from opportune import checks
from opportune.service.commands.base import Answered, Command, open_study, participant_answer
from opportune.service.commands.decisions import settle_open
from opportune.service.problems import Refused
from opportune.service.record import events, tables
from opportune.service.record.transaction import Transaction
from opportune.service.state import clock, trial
from opportune.service.state.bundle import bundle_of
from opportune.service.state.participant import COMPLETED, PAUSED, WITHDRAWN


class Enrol(Command, kw_only=True):
    """Enrol a participant."""

    participant: str
    timezone: str | None = None
    baseline: dict[str, Any] | None = None

    def about(self) -> tuple[str | None, str | None]:
        return self.participant, None

    def run(self, transaction: Transaction) -> Answered:
        study = open_study(transaction)
        if not study["rehearsal"] and transaction.running.study.settings.arms is not None:
            self._refuse_foresight(transaction)
        timezone = transaction.running.timezone if self.timezone is None else self.timezone
        clock.check_zone(timezone)
        if transaction.participants.get(self.participant) is not None:
            raise Refused("exists", f"{self.participant!r} is enrolled already")
        if study["enrolled"] >= transaction.running.participants:
            raise Refused("full", f"all {transaction.running.participants} planned participants are enrolled")
        baseline = trial.check_baseline(transaction.running, self.baseline)
        given = {"timezone": timezone, **({"baseline": baseline} if baseline else {})}
        person = transaction.enrol(self.participant, given, who=self.who, received=self.received)
        return 201, participant_answer(person, blind=self.blind)

    def _refuse_foresight(self, transaction: Transaction) -> None:
        """Refuse a caller who sees arms: the arms of others and the block size let them foresee the next one."""
        roles = (select(table.c.role).where(table.c.name == self.who) for table in (tables.keys, tables.people))
        sees = "admin" in transaction.connection.execute(union(*roles)).scalars()
        if sees or self.who in transaction.running.unblinded:
            raise Refused("forbidden", "people who see arms cannot enrol participants; expected blinded staff")


class SetStatus(Command, kw_only=True):
    """Pause a participant, continue, or mark them as withdrawn or completed."""

    settles: ClassVar[bool] = True

    participant: str
    status: str
    reason: str | None = None

    def about(self) -> tuple[str | None, str | None]:
        return self.participant, None

    def run(self, transaction: Transaction) -> Answered:
        open_study(transaction)
        person = transaction.person(self.participant)
        checks.text("reason", f"paused: {self.reason or ''}")  # as decisions will show it
        if person.status in {WITHDRAWN, COMPLETED}:
            raise Refused("not_active", f"{person.name!r} is {person.status}, which only a correction can undo")
        if self.status == person.status and self.reason in {None, person.reason}:
            return 200, participant_answer(person, blind=self.blind)
        if self.status in {PAUSED, WITHDRAWN, COMPLETED}:
            settle_open(transaction, person, cause=self.status, command=self)
        given = {"status": self.status, "reason": self.reason}
        transaction.happen(events.STATUS, person, given, who=self.who, received=self.received)
        return 200, participant_answer(person, blind=self.blind)


class Note(Command, kw_only=True):
    """Record a note by staff about a participant."""

    participant: str
    text: str

    def about(self) -> tuple[str | None, str | None]:
        return self.participant, None

    def run(self, transaction: Transaction) -> Answered:
        person = transaction.person(self.participant)
        event = transaction.happen(events.NOTED, person, {"text": self.text}, who=self.who, received=self.received)
        return 201, {"participant": person.name, "event": event.seq}


class FetchBundle(Command, kw_only=True):
    """Make a participant's bundle; writes nothing."""

    records: ClassVar[bool] = False

    participant: str

    def about(self) -> tuple[str | None, str | None]:
        """The participant."""
        return self.participant, None

    def run(self, transaction: Transaction) -> Answered:
        """The advice for the coming decision points, as it is now."""
        person = transaction.person(self.participant)
        action = transaction.decision(person.decisions[-1])["action"] if person.decisions else None
        return 200, bundle_of(transaction.running, person, self.received, standing=action)
