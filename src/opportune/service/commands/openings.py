"""Openings of the app between decision points: they are recorded at once, and used as soon as possible."""

from typing import Any, ClassVar

from opportune.live import corrections
from opportune.service.commands.base import SYSTEM, Answered, Command, decision_answer, open_study
from opportune.service.commands.decisions import Answer, settle_unanswered
from opportune.service.problems import Refused
from opportune.service.record import events
from opportune.service.record.transaction import Transaction
from opportune.service.state import schedule
from opportune.service.state.escalations import escalations
from opportune.service.state.participant import COMPLETED, WITHDRAWN, Participant

NOW, NEXT = "now", "next"
"""Whether an opening counts as a reveal at the decision point whose nudge is open, or at the next one."""


class Open(Command, kw_only=True):
    """The participant opened the app unasked.

    This settles a nudge that waits for an answer, so nobody need call any more. Without an open nudge, the next
    decision point that is not offline counts as opened, with the reported values.
    """

    settles: ClassVar[bool] = True

    participant: str
    reported: dict[str, Any] | None = None
    at: int | None = None

    def about(self) -> tuple[str | None, str | None]:
        return self.participant, None

    def run(self, transaction: Transaction) -> Answered:
        open_study(transaction)
        person = transaction.person(self.participant)
        happened = self.received if self.at is None else self.at
        if self.at is not None:
            schedule.check_opening(self.at, self.received, person)
        if person.status in {WITHDRAWN, COMPLETED}:
            raise Refused("not_active", f"{person.name!r} is {person.status}: openings are no longer recorded")
        corrections.reported_between(person.agent, self.reported or {})  # refuses invalid values
        due = escalations(transaction.running, self.reported or {})
        shown = {"participant": person.name, "escalations": due}
        row = self._open_nudge(transaction, person, happened)
        if row is not None:
            Answer(
                who=self.who, received=self.received, decision=row["id"], answered=False, opened=True,
                reported=self.reported,
            ).run(transaction)  # fmt: skip
            return 201, {**shown, "counts": NOW, "decision": decision_answer(row, blind=self.blind)}
        given = {"reported": self.reported} if self.reported else {}
        transaction.happen(events.OPENED, person, given, who=self.who, received=self.received, happened=happened)
        return 201, {**shown, "counts": NEXT, "decision": None}

    def _open_nudge(self, transaction: Transaction, person: Participant, happened: int) -> dict[str, Any] | None:
        """The decision whose open nudge this answers; a nudge whose window has ended is settled as unanswered."""
        if person.open_decision is None:
            return None
        row = transaction.decision(person.open_decision)
        over = row["expires"] <= self.received
        if over or self.let_stand:
            settle_unanswered(transaction, row["id"], cause="window" if over else "next", who=SYSTEM, command=self)
            return None
        return row if happened >= row["happened"] else None
