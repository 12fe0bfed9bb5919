"""What staff correct, with a reason: reported values, outcomes of calls, time zones, mistaken withdrawals.

The first value stays on record, and past decisions do not change. `rewards` corrects rewards.
"""

import datetime as dt
from typing import Any

import msgspec
from sqlalchemy import select

from opportune import checks
from opportune.live import point
from opportune.service.commands.base import SYSTEM, Answered, Command, decision_answer, open_study, participant_answer
from opportune.service.problems import Refused
from opportune.service.record import events, tables
from opportune.service.record.transaction import Transaction
from opportune.service.state import clock, trial
from opportune.service.state.participant import COMPLETED, WITHDRAWN, Participant

MOST_AHEAD = dt.timedelta(days=366)
OUTCOMES = ("opened", "answered", "unanswered")
"""The possible outcomes of a nudge."""


class _Correction(Command, kw_only=True):
    """A correction of the record, with a reason."""

    reason: str

    def why(self) -> str:
        """The reason, which must not be empty."""
        return checks.text("reason", self.reason.strip(), lines=True)


class CorrectReported(_Correction, kw_only=True):
    """Correct the values reported at a decision point."""

    decision: str
    reported: dict[str, Any]

    def about(self) -> tuple[str | None, str | None]:
        return None, self.decision

    def run(self, transaction: Transaction) -> Answered:
        row = transaction.decision(self.decision)
        if row["status"] != "settled":
            raise Refused(
                "not_settled", f"decision {row['id']!r} waits for an answer; expected corrections once it is settled"
            )
        person = transaction.person(row["participant"])
        stands = row["reported_corrected"] or row["reported"]
        was: dict[str, Any] = {} if stands is None else msgspec.json.decode(stands)
        agent = person.agent
        changed = point.check_reported(self.reported, agent.reported_names)
        if not changed or (missing := [name for name in changed if name not in was]):
            what = f"{', '.join(missing)} was not reported" if changed else "reported has no values"
            raise Refused("invalid", f"{what}; expected values of variables that were reported at this decision point")
        corrected = {**was, **changed}
        point.with_reported(agent.problem, agent.reported_names, agent.steps[row["step"]], corrected)
        if corrected == was:
            return 200, decision_answer(row)
        first = was if row["reported_first"] is None else msgspec.json.decode(row["reported_first"])
        given = {"reported": corrected, "was": was, "first": first, "reason": self.why()}
        transaction.happen(
            events.REPORTED_CORRECTED, person, given, who=self.who, received=self.received, step=row["step"],
            decision=row["id"],
        )  # fmt: skip
        return 200, decision_answer(row)


class CorrectOutcome(_Correction, kw_only=True):
    """Correct the recorded outcome of a call."""

    decision: str
    outcome: str

    def about(self) -> tuple[str | None, str | None]:
        return None, self.decision

    def run(self, transaction: Transaction) -> Answered:
        row = transaction.decision(self.decision)
        checks.choice("outcome", self.outcome, OUTCOMES)
        if row["status"] != "settled" or not row["nudge"]:
            raise Refused("not_settled", f"decision {row['id']!r} has no settled nudge; expected a decision with one")
        was = row["outcome_corrected"] or row["outcome"]
        if was == self.outcome:
            return 200, decision_answer(row)
        given = {"outcome": self.outcome, "was": was, "reason": self.why()}
        transaction.happen(
            events.OUTCOME_CORRECTED, transaction.person(row["participant"]), given, who=self.who,
            received=self.received, step=row["step"], decision=row["id"],
        )  # fmt: skip
        return 200, decision_answer(row)


class CorrectZone(_Correction, kw_only=True):
    """Change a participant's time zone for future decision points, now or from a date on."""

    participant: str
    timezone: str
    from_date: dt.date | None = None
    """From this local date on; None: from now on. Either replaces a change planned earlier."""

    def about(self) -> tuple[str | None, str | None]:
        return self.participant, None

    def run(self, transaction: Transaction) -> Answered:
        open_study(transaction)
        person = transaction.person(self.participant)
        clock.check_zone(self.timezone)
        wanted = (self.timezone, self.from_date)
        stands = (person.timezone, None) if person.next_timezone is None else (person.next_timezone, person.next_from)
        if wanted != stands:
            given = {"timezone": self.timezone, "was": person.timezone, "reason": self.why()}
            if self.from_date is not None:
                given["from"] = self._checked(self.from_date).isoformat()
            transaction.happen(events.ZONE_CORRECTED, person, given, who=self.who, received=self.received)
        return 200, participant_answer(person, blind=self.blind)

    def _checked(self, date: dt.date) -> dt.date:
        """The date of the change; refuse one that is not within the next year."""
        today = clock.local(self.received, self.timezone).date()
        if not today < date <= today + MOST_AHEAD:
            expected = f"expected a date after {today}, within a year, or no date for a change from now on"
            raise Refused("invalid", f"from_date is {date}; {expected}")
        return date


def change_zone_if_due(transaction: Transaction, person: Participant, moment: int, *, received: int) -> None:
    """Record a planned change of time zone, if midnight of its date in the new time zone has passed."""
    zone, date = person.next_timezone, person.next_from
    if zone is None or date is None or clock.local(moment, zone).date() < date:
        return
    given = {"timezone": zone, "was": person.timezone, "reason": f"planned from {date} on"}
    transaction.happen(events.ZONE_CORRECTED, person, given, who=SYSTEM, received=received)


def correct_calendars(transaction: Transaction, command: Command, reason: str) -> None:
    """Repair dates in the future, which a wrong clock wrote, so that no participant waits until then.

    Day 1 moves back so that the next decision point comes today; by whole weeks if a variable is the weekday.
    """
    table, now = tables.participants.c, command.received
    ahead = (table.enrolled > now + clock.SLACK) | (table.last_decided > now + clock.SLACK)
    names = transaction.connection.execute(select(table.name).where(ahead).order_by(table.number)).scalars().all()
    transaction.read(names=names)
    for person in map(transaction.person, names):
        running, problem = transaction.running, person.agent.problem
        days = person.agent.step // running.per_day if running.times else 0
        first = clock.local(now, person.timezone).date() - dt.timedelta(days=days)
        moved = max(0, (person.began - first).days)
        if trial.problem_from(problem, first) is not problem:
            moved = -(-moved // 7) * 7
        began = person.began - dt.timedelta(days=moved)
        given = {"began": str(began), "was": str(person.began), "until": clock.iso(now), "reason": reason}
        transaction.happen(events.CALENDAR_CORRECTED, person, given, who=command.who, received=now)


class Reinstate(_Correction, kw_only=True):
    """Readmit a participant who was marked as withdrawn or completed by mistake."""

    participant: str

    def about(self) -> tuple[str | None, str | None]:
        return self.participant, None

    def run(self, transaction: Transaction) -> Answered:
        open_study(transaction)
        person = transaction.person(self.participant)
        if person.status not in {WITHDRAWN, COMPLETED}:
            raise Refused("invalid", f"{person.name!r} is {person.status}; expected someone withdrawn or completed")
        given = {"was": person.status, "reason": self.why()}
        transaction.happen(events.REINSTATED, person, given, who=self.who, received=self.received)
        return 200, participant_answer(person, blind=self.blind)
