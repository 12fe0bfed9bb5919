"""What staff do for participants' safety: report adverse events, acknowledge escalations, stop calls."""

from typing import Any, ClassVar

from sqlalchemy import select

from opportune import checks
from opportune.service.commands.base import Answered, Command, open_study
from opportune.service.commands.decisions import settle_open
from opportune.service.problems import Refused
from opportune.service.record import events, tables
from opportune.service.record.transaction import Transaction
from opportune.service.state.participant import COMPLETED, WITHDRAWN

SEVERITIES = ("mild", "moderate", "severe", "life-threatening", "fatal")
MOST_TEXT = 2000
_ESCALATIONS = tables.escalations


class ReportAdverse(Command, kw_only=True):
    """Report an adverse event of a participant, whether or not the study may have caused it."""

    participant: str
    text: str
    severity: str
    serious: bool
    began: str
    """When it began: a date, or words."""
    related: str = ""
    """Whether the study may have caused it, in the reporter's own words."""

    def about(self) -> tuple[str | None, str | None]:
        return self.participant, None

    def run(self, transaction: Transaction) -> Answered:
        person = transaction.person(self.participant)
        checks.choice("severity", self.severity, SEVERITIES)
        given: dict[str, Any] = {
            "text": checks.text("what happened", self.text.strip(), lines=True), "severity": self.severity,
            "serious": self.serious, "began": self.began.strip(), "related": self.related.strip(),
        }  # fmt: skip
        event = transaction.happen(events.ADVERSE, person, given, who=self.who, received=self.received)
        return 201, {"participant": person.name, "event": event.seq}


class Acknowledge(Command, kw_only=True):
    """Acknowledge an escalation, and earlier ones of the same participant, variable and value."""

    escalation: str
    note: str

    def run(self, transaction: Transaction) -> Answered:
        table = _ESCALATIONS
        row = transaction.connection.execute(select(table).where(table.c.id == self.escalation)).mappings().first()
        if row is None:
            raise Refused("not_found", "no escalation has this id")
        if row["acknowledged"] is not None:
            return 200, {"escalation": self.escalation, "acknowledged_by": row["acknowledged_by"]}
        alike = [table.c[name].is_not_distinct_from(row[name]) for name in ("participant", "kind", "variable", "value")]
        same = select(table.c.id).where(*alike, table.c.acknowledged.is_(None), table.c.raised <= row["raised"])
        if row["variable"] is None:  # an adverse event is acknowledged by itself
            same = same.where(table.c.id == self.escalation)
        ids = list(transaction.connection.execute(same.order_by(table.c.raised, table.c.id)).scalars())
        given = {"escalations": ids, "note": checks.text("what was done", self.note.strip(), lines=True)}
        transaction.happen(
            events.ACKNOWLEDGED, transaction.person(row["participant"]), given, who=self.who, received=self.received
        )
        return 200, {"escalation": self.escalation, "acknowledged_by": self.who}


class WantCalls(Command, kw_only=True):
    """Note that a participant wants no more calls, or wants them again; the rest of the study continues."""

    settles: ClassVar[bool] = True

    participant: str
    wanted: bool
    reason: str

    def about(self) -> tuple[str | None, str | None]:
        return self.participant, None

    def run(self, transaction: Transaction) -> Answered:
        open_study(transaction)
        person = transaction.person(self.participant)
        if person.status in {WITHDRAWN, COMPLETED}:
            raise Refused("not_active", f"{person.name!r} is {person.status}; expected an active or paused participant")
        answer = {"participant": person.name, "calls": self.wanted}
        if person.calls == self.wanted:
            return 200, answer
        reason = checks.text("reason", self.reason.strip(), lines=True)
        if not self.wanted:
            settle_open(transaction, person, cause="no calls", command=self)
        given = {"wanted": self.wanted, "reason": reason}
        transaction.happen(events.CALLS, person, given, who=self.who, received=self.received)
        return 200, answer
