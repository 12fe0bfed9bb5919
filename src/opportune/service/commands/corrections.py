"""What staff correct, with a reason: reported values, outcomes of calls, time zones, withdrawals made in error.

The first value stays on record. Decisions that were made stay as they were; a corrected reward is in `rewards`.
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
"""What may have become of a nudge."""


class _Correction(Command, kw_only=True):
    """Something on record was wrong."""

    reason: str

    def why(self) -> str:
        """The reason, which must be there."""
        return checks.text("reason", self.reason.strip(), lines=True)


class CorrectReported(_Correction, kw_only=True):
    """What was reported of a decision point was wrong."""

    decision: str
    reported: dict[str, Any]

    def about(self) -> tuple[str | None, str | None]:
        return None, self.decision

    def run(self, transaction: Transaction) -> Answered:
        row = transaction.decision(self.decision)
        if row["status"] != "settled":
            raise Refused(
                "not_settled", f"decision {row['id']!r} waits for an answer; expected a correction after that"
            )
        person = transaction.person(row["participant"])
        stands = row["reported_corrected"] or row["reported"]
        was: dict[str, Any] = {} if stands is None else msgspec.json.decode(stands)
        agent = person.agent
        told = point.check_reported(self.reported, agent.reported_names)
        if not told or (missing := [name for name in told if name not in was]):
            what = f"{', '.join(missing)} was not reported" if told else "reported has no values"
            raise Refused("invalid", f"{what}; expected what was reported of this decision point")
        point.with_reported(agent.problem, agent.reported_names, agent.steps[row["step"]], {**was, **told})
        if {**was, **told} == was:
            return 200, decision_answer(row)
        first = was if row["reported_first"] is None else msgspec.json.decode(row["reported_first"])
        given = {"reported": {**was, **told}, "was": was, "first": first, "reason": self.why()}
        transaction.happen(
            events.REPORTED_CORRECTED, person, given, who=self.who, received=self.received, step=row["step"],
            decision=row["id"],
        )  # fmt: skip
        return 200, decision_answer(row)


class CorrectOutcome(_Correction, kw_only=True):
    """What became of a call was another thing than what is on record."""

    decision: str
    outcome: str

    def about(self) -> tuple[str | None, str | None]:
        return None, self.decision

    def run(self, transaction: Transaction) -> Answered:
        row = transaction.decision(self.decision)
        checks.choice("outcome", self.outcome, OUTCOMES)
        if row["status"] != "settled" or not row["nudge"]:
            raise Refused("not_settled", f"decision {row['id']!r} has no nudge that is settled; expected one that has")
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
    """A participant's clock is in another time zone: decision points to come are by that, or those from a date on."""

    participant: str
    timezone: str
    from_date: dt.date | None = None
    """From this local date on; None: from now on, and a change that was to come no longer is."""

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
        """The date from which on, which must be to come."""
        today = clock.local(self.received, self.timezone).date()
        if not today < date <= today + MOST_AHEAD:
            expected = f"expected a date after {today}, within a year, or none where the change holds from now on"
            raise Refused("invalid", f"from_date is {date}; {expected}")
        return date


def change_zone_if_due(transaction: Transaction, person: Participant, moment: int, *, received: int) -> None:
    """At or after midnight of its date, by the new clock, the time zone that was to come holds, on record."""
    zone, date = person.next_timezone, person.next_from
    if zone is None or date is None or clock.local(moment, zone).date() < date:
        return
    given = {"timezone": zone, "was": person.timezone, "reason": f"planned from {date} on"}
    transaction.happen(events.ZONE_CORRECTED, person, given, who=SYSTEM, received=received)


def correct_calendars(transaction: Transaction, command: Command, reason: str) -> None:
    """What is dated ahead of the time was dated by a clock that was wrong: have nobody wait until then.

    Day 1 moves back, so that the next decision point comes today; by whole weeks where a variable is the weekday.
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
    """A participant was withdrawn, or said to have completed, by mistake."""

    participant: str

    def about(self) -> tuple[str | None, str | None]:
        return self.participant, None

    def run(self, transaction: Transaction) -> Answered:
        open_study(transaction)
        person = transaction.person(self.participant)
        if person.status not in {WITHDRAWN, COMPLETED}:
            raise Refused("invalid", f"{person.name!r} is {person.status}; expected someone who has left")
        given = {"was": person.status, "reason": self.why()}
        transaction.happen(events.REINSTATED, person, given, who=self.who, received=self.received)
        return 200, participant_answer(person, blind=self.blind)
