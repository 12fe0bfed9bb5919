"""Participants: enrolment, status, notes, and what their phones show offline."""

import datetime as dt
from typing import ClassVar

from opportune import checks
from opportune.service.commands.base import Answered, Command, open_study, participant_answer
from opportune.service.commands.decisions import settle_open
from opportune.service.problems import Refused
from opportune.service.record import events
from opportune.service.record.transaction import Transaction
from opportune.service.state import clock
from opportune.service.state.participant import COMPLETED, PAUSED, WITHDRAWN


class Enrol(Command, kw_only=True):
    """A new participant."""

    participant: str
    timezone: str | None = None

    def about(self) -> tuple[str | None, str | None]:
        return self.participant, None

    def run(self, transaction: Transaction) -> Answered:
        study = open_study(transaction)
        timezone = transaction.running.timezone if self.timezone is None else self.timezone
        clock.check_zone(timezone)
        if transaction.participants.get(self.participant) is not None:
            raise Refused("exists", f"{self.participant!r} is enrolled already")
        if study["enrolled"] >= transaction.running.participants:
            raise Refused("full", f"all {transaction.running.participants} planned participants are enrolled")
        person = transaction.enrol(self.participant, timezone, who=self.who, received=self.received)
        return 201, participant_answer(person)


class SetStatus(Command, kw_only=True):
    """A participant is paused, goes on, withdraws or has finished."""

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
            raise Refused("not_active", f"{person.name!r} is {person.status}, which cannot be taken back")
        if self.status == person.status and self.reason in {None, person.reason}:
            return 200, participant_answer(person)
        if self.status in {PAUSED, WITHDRAWN, COMPLETED}:
            settle_open(transaction, person, cause=self.status, command=self)
        given = {"status": self.status, "reason": self.reason}
        transaction.happen(events.STATUS, person, given, who=self.who, received=self.received)
        return 200, participant_answer(person)


class Note(Command, kw_only=True):
    """A remark of staff about a participant."""

    participant: str
    text: str

    def about(self) -> tuple[str | None, str | None]:
        return self.participant, None

    def run(self, transaction: Transaction) -> Answered:
        person = transaction.person(self.participant)
        event = transaction.happen(events.NOTED, person, {"text": self.text}, who=self.who, received=self.received)
        return 201, {"participant": person.name, "event": event.seq}


class FetchBundle(Command, kw_only=True):
    """A participant's bundle; nothing is written."""

    records: ClassVar[bool] = False

    participant: str

    def about(self) -> tuple[str | None, str | None]:
        """The participant."""
        return self.participant, None

    def run(self, transaction: Transaction) -> Answered:
        """What to show at the coming decision points, as of now."""
        person = transaction.person(self.participant)
        made = dt.datetime.fromtimestamp(self.received / 1e6, dt.UTC)
        return 200, {"participant": person.name, **person.agent.bundle(made)}
