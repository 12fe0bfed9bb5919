"""What staff do about nudges: take one, try to call, enter the outcome, and undo that within a minute.

Taking a nudge lasts minutes and is not recorded. A try is recorded at once, and so is reaching the participant, as the
new advice depends on it. That the participant could not be reached, or declined, is recorded a minute later and can be
undone until then; the old advice stays valid in either case.
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
"""How long a nudge stays taken, unless its holder acts on it."""
UNDO = 60 * clock.MICROSECONDS
REACHED, UNREACHABLE, DECLINED, WRONG_PERSON = "reached", "unreachable", "declined", "wrong person"
GIVEN_UP = (UNREACHABLE, DECLINED, WRONG_PERSON)
"""Outcomes that leave the old advice valid."""
_CALLS, _DECISIONS, _EVENTS = tables.calls, tables.decisions, tables.events


def take(database: Database, decision: str, participant: str, who: str, now: int) -> str:
    """Take a nudge, if nobody else has; returns who has it now."""
    over = or_(_CALLS.c.taken_until <= now, _CALLS.c.taken_until > now + TAKEN + clock.SLACK)  # a clock was wrong
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
    """Release a nudge that this person has taken."""
    with database.writing.begin() as connection:
        mine = update(_CALLS).where(_CALLS.c.decision == decision, _CALLS.c.taken_by == who)
        connection.execute(mine.values(taken_by=None, taken_until=None, changed=_stamp(connection, now)))


def undo(database: Database, decision: str, who: str, now: int) -> bool:
    """Undo an outcome that is not recorded yet; returns whether that was still possible."""
    with database.writing.begin() as connection:
        waiting = select(_DECISIONS.c.id).where(_DECISIONS.c.id == decision, _DECISIONS.c.status == "nudge").exists()
        mine = update(_CALLS).where(_CALLS.c.decision == decision, _CALLS.c.done_by == who, _CALLS.c.due > now, waiting)
        values = {
            "outcome": None, "done_by": None, "done": None, "due": None, "taken_by": who, "taken_until": now + TAKEN,
            "changed": _stamp(connection, now),
        }  # fmt: skip
        return connection.execute(mine.values(values)).rowcount == 1


def due(database: Database, now: int) -> list[str]:
    """Decisions whose outcome is due to be recorded."""
    with database.reading.connect() as connection:
        query = select(_CALLS.c.decision).where(_CALLS.c.due <= now).order_by(_CALLS.c.due)
        return list(connection.execute(query).scalars())


def version(database: Database) -> str:
    """A text that changes whenever a list of calls may have changed."""
    with database.reading.connect() as connection:
        seq = connection.execute(select(tables.study.c.seq)).scalar()
        changed = connection.execute(select(func.max(_CALLS.c.changed))).scalar()
    return f"{seq or 0}.{changed or 0}"


def _ensure(connection: Connection, decision: str, participant: str, now: int) -> None:
    row = {"decision": decision, "participant": participant, "tries": 0, "changed": now}
    connection.execute(insert_if_missing(connection, _CALLS), row)


def _stamp(connection: Connection, now: int) -> int:
    """The time of a change, made later than all before, so that `version` changes."""
    latest = connection.execute(select(func.max(_CALLS.c.changed))).scalar()
    return max(now, (latest or 0) + 1)


class _Call(Command, kw_only=True):
    """An action of staff on a nudge that they have taken, or that nobody has."""

    anyone: ClassVar[bool] = False
    """Whether the action is allowed even if someone else has taken the nudge."""
    decision: str
    note: str | None = None

    def about(self) -> tuple[str | None, str | None]:
        return None, self.decision

    def opened(self, transaction: Transaction) -> tuple[dict[str, Any], dict[str, Any]]:
        """The rows of the decision and of its call; refused if someone else has it, or its outcome was entered."""
        row = transaction.decision(self.decision)
        _ensure(transaction.connection, self.decision, row["participant"], self.received)
        found = (
            transaction.connection.execute(select(_CALLS).where(_CALLS.c.decision == self.decision)).mappings().one()
        )
        held = found["taken_until"] is not None and found["taken_until"] > self.received
        if not self.anyone and held and found["taken_by"] not in {None, self.who}:
            raise Refused("taken", f"{found['taken_by']} has taken this call")
        if not self.anyone and found["due"] is not None:
            raise Refused("taken", f"{found['done_by']} has entered the outcome of this call")
        return row, dict(found)

    def write(self, transaction: Transaction, **values: Any) -> None:
        """Change the row of the call."""
        change = update(_CALLS).where(_CALLS.c.decision == self.decision)
        changed = _stamp(transaction.connection, self.received)
        transaction.connection.execute(change.values(changed=changed, **values))
        transaction.calls_changed()

    def record_note(self, transaction: Transaction, participant: str) -> None:
        """Record the note, if there is one."""
        if self.note:
            person = transaction.person(participant)
            transaction.happen(events.NOTED, person, {"text": self.note}, who=self.who, received=self.received)


class Reach(_Call, kw_only=True):
    """The participant was reached: record the reported values, and answer with the new advice.

    Values reported on the telephone must not be lost, so this is allowed whoever has taken the nudge.
    """

    anyone = True
    reported: dict[str, Any] | None = None
    earlier: dict[str, dict[str, Any]] | None = None

    def run(self, transaction: Transaction) -> Answered:
        row, _ = self.opened(transaction)
        answer = Answer(
            who=self.who, received=self.received, decision=self.decision, answered=True, reported=self.reported,
            earlier=self.earlier, cause=REACHED,
        ).run(transaction)  # fmt: skip
        self.record_note(transaction, row["participant"])
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
    """The participant was not reached and will be called again; `undone` takes the last try back."""

    undone: bool = False

    def run(self, transaction: Transaction) -> Answered:
        row, call = self.opened(transaction)
        if row["status"] != "nudge":
            raise Refused("settled_already", f"decision {self.decision!r} is settled already ({row['outcome']})")
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
        self.record_note(transaction, row["participant"])
        kept = {"taken_by": self.who, "taken_until": self.received + TAKEN} if self.undone else {}
        values = {"taken_by": None, "taken_until": None, "tries": tries, "tried": tried, **kept}
        self.write(transaction, **values)
        return 200, {"decision": self.decision, "tries": tries}

    def _before(self, transaction: Transaction) -> int | None:
        """The time of the last try but one; refused unless the last was this person's, within the last minute."""
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
            raise Refused("settled_already", "you made no try within the last minute that could be taken back")
        return made[-2][1] if len(made) > 1 else None


class GiveUpCall(_Call, kw_only=True):
    """The participant could not be reached, declined, or someone else answered: recorded in a minute, unless undone."""

    outcome: str

    def run(self, transaction: Transaction) -> Answered:
        row, _ = self.opened(transaction)
        if row["status"] != "nudge":
            raise Refused("settled_already", f"decision {self.decision!r} is settled already ({row['outcome']})")
        self.record_note(transaction, row["participant"])
        self.write(
            transaction, outcome=self.outcome, done_by=self.who, done=self.received, due=self.received + UNDO,
            taken_by=None, taken_until=None,
        )  # fmt: skip
        return 200, {"decision": self.decision, "outcome": self.outcome}


class Conclude(_Call, kw_only=True):
    """Record the outcome of a call once it can no longer be undone."""

    settles: ClassVar[bool] = True

    def run(self, transaction: Transaction) -> Answered:
        query = select(_CALLS).where(_CALLS.c.decision == self.decision)
        call = transaction.connection.execute(query).mappings().one()
        row = transaction.decision(self.decision)
        if call["due"] is None or call["due"] > self.received:
            return 200, decision_answer(row)
        if row["status"] == "nudge":
            settle_unanswered(transaction, self.decision, cause=call["outcome"], who=call["done_by"], command=self)
        self.write(transaction, due=None)  # even if the participant has opened the app meanwhile
        return 200, decision_answer(row)
