"""What staff do about nudges: take one, try it, say what became of it, and take that back within a minute.

Taking one is a matter of minutes and no part of the record. That someone tried is on record at once, and so is that
the participant was reached, since the advice follows from it. That the participant could not be reached, or declined,
goes on record a minute later, and can be undone until then: whether it does or not, the old advice stands meanwhile.
"""

from typing import Any, ClassVar

from sqlalchemy import Connection, func, or_, select, update

from opportune.service.commands.base import Answered, Command, decision_answer
from opportune.service.commands.decisions import Answer, settle_unanswered
from opportune.service.problems import Refused
from opportune.service.record import events, tables
from opportune.service.record.database import Database, insert_if_missing
from opportune.service.record.transaction import Transaction
from opportune.service.state import clock

TAKEN = 15 * clock.MINUTE
"""How long an entry stays with whoever took it, unless something is done about it."""
UNDO = 60 * clock.MICROSECONDS
REACHED, UNREACHABLE, DECLINED, WRONG_PERSON = "reached", "unreachable", "declined", "wrong person"
GIVEN_UP = (UNREACHABLE, DECLINED, WRONG_PERSON)
"""Outcomes with which the old advice stands."""
_CALLS, _DECISIONS, _EVENTS = tables.calls, tables.decisions, tables.events


def take(database: Database, decision: str, participant: str, who: str, now: int) -> str:
    """Take an entry of the list, if nobody else has it; who has it now."""
    over = or_(_CALLS.c.taken_until <= now, _CALLS.c.taken_until > now + TAKEN + clock.SLACK)  # or the clock was wrong
    free = or_(_CALLS.c.taken_by.is_(None), _CALLS.c.taken_by == who, over)
    with database.writing.begin() as connection:
        _ensure(connection, decision, participant, now)
        change = update(_CALLS).where(_CALLS.c.decision == decision, _CALLS.c.due.is_(None), free)
        values = {"taken_by": who, "taken_until": now + TAKEN, "changed": _stamp(connection, now)}
        if connection.execute(change.values(values)).rowcount == 1:
            return who
        query = select(func.coalesce(_CALLS.c.taken_by, _CALLS.c.done_by)).where(_CALLS.c.decision == decision)
        return str(connection.execute(query).scalar_one() or "someone else")


def release(database: Database, decision: str, who: str, now: int) -> None:
    """Give an entry back that one has taken."""
    with database.writing.begin() as connection:
        mine = update(_CALLS).where(_CALLS.c.decision == decision, _CALLS.c.taken_by == who)
        connection.execute(mine.values(taken_by=None, taken_until=None, changed=_stamp(connection, now)))


def undo(database: Database, decision: str, who: str, now: int) -> bool:
    """Take back what was to go on record; whether there was still time."""
    with database.writing.begin() as connection:
        waiting = select(_DECISIONS.c.id).where(_DECISIONS.c.id == decision, _DECISIONS.c.status == "nudge").exists()
        mine = update(_CALLS).where(_CALLS.c.decision == decision, _CALLS.c.done_by == who, _CALLS.c.due > now, waiting)
        values = {
            "outcome": None, "done_by": None, "done": None, "due": None, "taken_by": who, "taken_until": now + TAKEN,
            "changed": _stamp(connection, now),
        }  # fmt: skip
        return connection.execute(mine.values(values)).rowcount == 1


def due(database: Database, now: int) -> list[str]:
    """Decisions whose outcome is to go on record now."""
    with database.reading.connect() as connection:
        query = select(_CALLS.c.decision).where(_CALLS.c.due <= now).order_by(_CALLS.c.due)
        return list(connection.execute(query).scalars())


def version(database: Database) -> str:
    """Something that differs whenever a list of calls may."""
    with database.reading.connect() as connection:
        seq = connection.execute(select(tables.study.c.seq)).scalar()
        changed = connection.execute(select(func.max(_CALLS.c.changed))).scalar()
    return f"{seq or 0}.{changed or 0}"


def _ensure(connection: Connection, decision: str, participant: str, now: int) -> None:
    row = {"decision": decision, "participant": participant, "tries": 0, "changed": now}
    connection.execute(insert_if_missing(connection, _CALLS), row)


def _stamp(connection: Connection, now: int) -> int:
    """The time of a change: later than all before, so that whoever looks for changes does not miss it."""
    latest = connection.execute(select(func.max(_CALLS.c.changed))).scalar()
    return max(now, (latest or 0) + 1)


class _Call(Command, kw_only=True):
    """Something that staff do about a nudge that they have taken, or that nobody has."""

    anyone: ClassVar[bool] = False
    """Whether it counts also if someone else has the entry."""
    decision: str
    note: str | None = None

    def about(self) -> tuple[str | None, str | None]:
        return None, self.decision

    def opened(self, transaction: Transaction) -> tuple[dict[str, Any], dict[str, Any]]:
        """The decision and the entry of the list; refused if someone else has it, or its outcome was said."""
        row = transaction.decision(self.decision)
        _ensure(transaction.connection, self.decision, row["participant"], self.received)
        found = (
            transaction.connection.execute(select(_CALLS).where(_CALLS.c.decision == self.decision)).mappings().one()
        )
        held = found["taken_until"] is not None and found["taken_until"] > self.received
        if not self.anyone and held and found["taken_by"] not in {None, self.who}:
            raise Refused("taken", f"{found['taken_by']} has taken this call")
        if not self.anyone and found["due"] is not None:
            raise Refused("taken", f"{found['done_by']} has said what became of this call")
        return row, dict(found)

    def write(self, transaction: Transaction, **values: Any) -> None:
        """Change the entry of the list."""
        change = update(_CALLS).where(_CALLS.c.decision == self.decision)
        changed = _stamp(transaction.connection, self.received)
        transaction.connection.execute(change.values(changed=changed, **values))
        transaction.calls_changed()

    def noted(self, transaction: Transaction, participant: str) -> None:
        """The note, if there is one."""
        if self.note:
            person = transaction.person(participant)
            transaction.happen(events.NOTED, person, {"text": self.note}, who=self.who, received=self.received)


class Reach(_Call, kw_only=True):
    """The participant was reached: what was reported, and what is advised now.

    What someone was told on the telephone must not be lost, whoever has the entry by then.
    """

    anyone = True
    reported: dict[str, Any] | None = None

    def run(self, transaction: Transaction) -> Answered:
        row, _ = self.opened(transaction)
        answer = Answer(
            who=self.who, received=self.received, decision=self.decision, answered=True, reported=self.reported,
            cause=REACHED,
        ).run(transaction)  # fmt: skip
        self.noted(transaction, row["participant"])
        self.write(
            transaction,
            outcome=REACHED,
            done_by=self.who,
            done=self.received,
            due=None,
            taken_by=None,
            taken_until=None,
        )
        return answer


class Try(_Call, kw_only=True):
    """Not reached this time; to be tried again. `undone` takes the last one back."""

    undone: bool = False

    def run(self, transaction: Transaction) -> Answered:
        row, call = self.opened(transaction)
        if row["status"] != "nudge":
            raise Refused("settled_already", f"decision {self.decision!r} is settled ({row['outcome']})")
        tried: int | None = self.received
        tries = call["tries"] + 1
        if self.undone:
            tried, tries = self._before(transaction), call["tries"] - 1
        given: dict[str, Any] = {"tries": tries}
        if self.undone:
            given["undone"] = True
        transaction.happen(
            events.TRIED, transaction.person(row["participant"]), given, who=self.who, received=self.received,
            step=row["step"], decision=self.decision,
        )  # fmt: skip
        self.noted(transaction, row["participant"])
        kept = {"taken_by": self.who, "taken_until": self.received + TAKEN} if self.undone else {}
        values = {"taken_by": None, "taken_until": None, "tries": tries, "tried": tried, **kept}
        self.write(transaction, **values)
        return 200, {"decision": self.decision, "tries": tries}

    def _before(self, transaction: Transaction) -> int | None:
        """When the last try but one was; refused unless the last was this person's, within the last minute."""
        query = select(_EVENTS.c.body, _EVENTS.c.received).where(_EVENTS.c.decision == self.decision)
        query = query.where(_EVENTS.c.kind == events.TRIED)
        made: list[tuple[str, int]] = []
        for body, received in transaction.connection.execute(query.order_by(_EVENTS.c.seq)):
            event = events.decode(body)
            if event.given.get("undone"):
                made.pop()
            else:
                made.append((event.who, received))
        if not made or made[-1][0] != self.who or made[-1][1] + UNDO < self.received:
            raise Refused("settled_already", "there is no try of yours in the last minute to take back")
        return made[-2][1] if len(made) > 1 else None


class GiveUpCall(_Call, kw_only=True):
    """Could not be reached, declined, or another person answered: goes on record in a minute, unless undone."""

    outcome: str

    def run(self, transaction: Transaction) -> Answered:
        row, _ = self.opened(transaction)
        if row["status"] != "nudge":
            raise Refused("settled_already", f"decision {self.decision!r} is settled ({row['outcome']})")
        self.noted(transaction, row["participant"])
        self.write(
            transaction, outcome=self.outcome, done_by=self.who, done=self.received, due=self.received + UNDO,
            taken_by=None, taken_until=None,
        )  # fmt: skip
        return 200, {"decision": self.decision, "outcome": self.outcome}


class Conclude(_Call, kw_only=True):
    """What was to go on record does."""

    settles: ClassVar[bool] = True

    def run(self, transaction: Transaction) -> Answered:
        query = select(_CALLS).where(_CALLS.c.decision == self.decision)
        call = transaction.connection.execute(query).mappings().one()
        row = transaction.decision(self.decision)
        if call["due"] is None or call["due"] > self.received:
            return 200, decision_answer(row)
        if row["status"] == "nudge":
            settle_unanswered(transaction, self.decision, cause=call["outcome"], who=call["done_by"], command=self)
        self.write(transaction, due=None)  # also if the participant has opened the app meanwhile
        return 200, decision_answer(row)
