"""Access straight to a study's database, at any time, for demonstrations and rehearsals without a service."""

import datetime as dt
import itertools
from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from opportune.client import ServiceError
from opportune.rehearsal.access import ANSWER, DECIDE, ENROL, NOTE, REWARD, STATUS, Write
from opportune.service.api.reads import decision_details, participant_details
from opportune.service.commands import calls
from opportune.service.commands.base import SYSTEM, Command
from opportune.service.commands.decisions import Propose
from opportune.service.commands.expiry import Expire, GiveUp, completions
from opportune.service.commands.participants import Enrol, Note, SetStatus
from opportune.service.commands.rewards import Reward
from opportune.service.problems import Refused
from opportune.service.record import queries
from opportune.service.record.database import Database
from opportune.service.record.writer import Reply, Writer
from opportune.service.state import clock

COMMANDS: dict[str, type[Command]] = {ENROL: Enrol, STATUS: SetStatus, NOTE: Note, REWARD: Reward}
MOST = 100_000
CALLS_TAKE = 3 * clock.MINUTE
"""The time from one call to the next."""
DECLINES = 4
"""One in this many participants who do not answer declines; the others cannot be reached."""


class DirectAccess:
    """A study in a database on which no service runs.

    Args:
        database: of the study.
        staff: the names under which calls are made, in turn.
        app: the name under which phones ask.
        calls_take: the time from one call to the next, in microseconds.

    """

    def __init__(
        self, database: Database, *, staff: Sequence[str], app: str = "phone", calls_take: int = CALLS_TAKE
    ) -> None:
        self.writer, self._app, self._calls_take = Writer(database), app, calls_take
        self._staff = itertools.cycle(staff)
        self._unanswered = itertools.count(1)
        self._expired = 0

    def write(self, writes: Sequence[Write], at: dt.datetime) -> "list[dict[str, Any] | ServiceError]":
        """Carry out writes at this time, in one transaction, after expiring what is overdue by then."""
        now = clock.from_datetime(at)
        if now > self._expired:  # many writes come at one moment
            self.expire(now)
        spell = self._calls_take if writes and writes[0].kind == ANSWER else 0
        replies = self.writer.write([self._command(write, now + i * spell) for i, write in enumerate(writes)])
        unanswered = [
            i for i, write in enumerate(writes) if write.kind == ANSWER and not write.body["answered"]
        ]  # these outcomes are recorded a minute later
        conclusions = [
            calls.Conclude(who=SYSTEM, received=now + i * spell + calls.UNDO, decision=writes[i].about)
            for i in unanswered
        ]
        if conclusions:
            for i, reply in zip(unanswered, self.writer.write(conclusions), strict=True):
                replies[i] = reply
        return [_read(reply) for reply in replies]

    def _command(self, write: Write, now: int) -> Command:
        body, about = write.body, write.about
        who = self._app if write.kind in {DECIDE, REWARD} else next(self._staff)
        done: dict[str, Any] = {"who": who, "received": now}
        if write.kind == DECIDE:
            given = {name: value for name, value in body.items() if name != "at"}
            moment = clock.from_datetime(dt.datetime.fromisoformat(body["at"]))
            return Propose(participant=about, given=given, at=moment, **done)
        if write.kind == ANSWER:
            return self._answer(about, body, done)
        named = {"decision": about} if write.kind == REWARD else {"participant": about}
        return COMMANDS[write.kind](**{**body, **named}, **done)

    def _answer(self, decision: str, body: dict[str, Any], done: dict[str, Any]) -> Command:
        if body["answered"]:
            return calls.Reach(decision=decision, reported=body.get("reported"), earlier=body.get("earlier"), **done)
        declined = next(self._unanswered) % DECLINES == 0
        return calls.GiveUpCall(decision=decision, outcome=calls.DECLINED if declined else calls.UNREACHABLE, **done)

    def try_call(self, decision: str, at: dt.datetime) -> None:
        """Let staff make a call that nobody answers."""
        self.writer.do(calls.Try(who=next(self._staff), received=clock.from_datetime(at), decision=decision))

    def expire(self, now: int) -> None:
        """Settle nudges whose window has ended, give up overdue rewards, and complete those who have finished."""
        late, unrewarded = queries.overdue(self.writer.database, now)
        commands: list[Command] = [Expire(who=SYSTEM, received=now, decision=decision) for decision in late]
        commands += [GiveUp(who=SYSTEM, received=now, decision=decision) for decision in unrewarded]
        commands += completions(self.writer.database, now)
        if commands:
            self.writer.write(commands)
        self._expired = now

    def set_time(self, at: dt.datetime) -> None:
        """Do nothing: each write brings its own time."""

    def participants(self) -> Iterable[dict[str, Any]]:
        """All participants."""
        database = self.writer.database
        study = queries.study_row(database)
        assert study is not None
        return [participant_details(row, study) for row in queries.participant_rows(database, limit=MOST)]

    def decisions(self, participant: str) -> Iterable[dict[str, Any]]:
        """A participant's decisions, by step."""
        found = queries.decision_rows(self.writer.database, participant, limit=MOST)
        return [decision_details(row) for row in found]

    def decision(self, decision: str) -> dict[str, Any]:
        """One decision."""
        row = queries.decision_row(self.writer.database, decision)
        assert row is not None
        return decision_details(row)

    def calls(self) -> Iterable[dict[str, Any]]:
        """The decisions that wait for someone to reach the participant, the most urgent first."""
        return [decision_details(row) for row in queries.open_nudges(self.writer.database, limit=MOST)]


def _read(reply: "Reply | Exception") -> "dict[str, Any] | ServiceError":
    if isinstance(reply, Refused):
        return ServiceError(reply.status, reply.code, str(reply))
    if isinstance(reply, Exception):
        raise reply
    found: dict[str, Any] = msgspec.json.decode(reply.body)
    return found
