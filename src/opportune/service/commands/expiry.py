"""What the service does by itself as time passes: commands that no request asked for."""

import contextlib
from typing import ClassVar

from opportune.errors import OpportuneError
from opportune.live.point import WAITING
from opportune.service.commands import calls
from opportune.service.commands.base import (
    SYSTEM,
    Answered,
    Command,
    decision_answer,
    participant_answer,
    reward_answer,
)
from opportune.service.commands.corrections import change_zone_if_due
from opportune.service.commands.decisions import settle_unanswered
from opportune.service.commands.participants import SetStatus
from opportune.service.commands.rewards import Reward
from opportune.service.record import events, queries
from opportune.service.record.database import Database
from opportune.service.record.transaction import Transaction
from opportune.service.record.writer import Writer
from opportune.service.state.participant import ACTIVE, COMPLETED, PAUSED


class Touch(Command, kw_only=True):
    """Write the study's row unchanged, to find out whether the database accepts writes."""

    records: ClassVar[bool] = False

    def run(self, transaction: Transaction) -> Answered:
        transaction.touch()
        return 200, {}


class Expire(Command, kw_only=True):
    """Settle a nudge whose answer window has ended."""

    settles: ClassVar[bool] = True

    decision: str

    def about(self) -> tuple[str | None, str | None]:
        return None, self.decision

    def run(self, transaction: Transaction) -> Answered:
        row = transaction.decision(self.decision)
        if row["status"] == "nudge" and row["expires"] <= self.received:
            settle_unanswered(transaction, self.decision, cause="window", who=self.who, command=self)
        return 200, decision_answer(row)


class GiveUp(Command, kw_only=True):
    """Stop waiting for an overdue reward; the study's default takes its place if there is one."""

    decision: str

    def about(self) -> tuple[str | None, str | None]:
        return None, self.decision

    def run(self, transaction: Transaction) -> Answered:
        row = transaction.decision(self.decision)
        due, default = row["reward_due"], transaction.running.reward_default
        if due is None or due > self.received or row["status"] != "settled" or row["reward_status"] != WAITING:
            return 200, reward_answer(row)
        if default is not None:
            return Reward(
                who=self.who, received=self.received, decision=self.decision, reward=default, cause="default"
            ).run(transaction)
        transaction.happen(
            events.SKIPPED, transaction.person(row["participant"]), {"cause": "overdue"}, who=self.who,
            received=self.received, step=row["step"], decision=row["id"],
        )  # fmt: skip
        return 200, reward_answer(row)


class ChangeZone(Command, kw_only=True):
    """Put a planned change of a participant's time zone into effect, if its date has come."""

    participant: str

    def about(self) -> tuple[str | None, str | None]:
        return self.participant, None

    def run(self, transaction: Transaction) -> Answered:
        person = transaction.person(self.participant)
        change_zone_if_due(transaction, person, self.received, received=self.received)
        return 200, participant_answer(person)


class Complete(Command, kw_only=True):
    """Mark a participant as completed who has made all decisions; `queries.finished` names them."""

    participant: str

    def about(self) -> tuple[str | None, str | None]:
        return self.participant, None

    def run(self, transaction: Transaction) -> Answered:
        person = transaction.person(self.participant)
        done = person.agent.step >= transaction.running.horizon and person.open_decision is None
        if not done or person.status not in {ACTIVE, PAUSED}:
            return 200, participant_answer(person)
        return SetStatus(who=self.who, received=self.received, participant=self.participant, status=COMPLETED).run(
            transaction
        )


def completions(database: Database, now: int) -> list[Command]:
    """The commands that mark those as completed of whom nothing is expected any more."""
    found = queries.finished(database, queries.study_in_force(database).horizon)
    return [Complete(who=SYSTEM, received=now, participant=name) for name in found]


def expire_all(writer: Writer, now: int) -> int:
    """Record outcomes of calls, settle nudges whose window has ended, change time zones, give up overdue rewards.

    Participants who have made all decisions are marked as completed. Returns the number of commands that this took.
    """
    late, unrewarded = queries.overdue(writer.database, now)
    commands: list[Command] = [
        calls.Conclude(who=SYSTEM, received=now, decision=decision) for decision in calls.due(writer.database, now)
    ]
    commands += [Expire(who=SYSTEM, received=now, decision=decision) for decision in late]
    commands += [
        ChangeZone(who=SYSTEM, received=now, participant=name) for name in queries.due_zones(writer.database, now)
    ]
    commands += [GiveUp(who=SYSTEM, received=now, decision=decision) for decision in unrewarded]
    commands += completions(writer.database, now)
    for future in [writer.submit(command) for command in commands]:
        with contextlib.suppress(OpportuneError):
            future.result()
    return len(commands)
