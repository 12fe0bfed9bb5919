"""What the service does by itself, as time passes: commands that nobody has asked for."""

from typing import ClassVar

from opportune.live.point import WAITING
from opportune.service.commands.base import Answered, Command, decision_answer, reward_answer
from opportune.service.commands.decisions import settle_unanswered
from opportune.service.commands.rewards import Reward
from opportune.service.record import events
from opportune.service.record.transaction import Transaction


class Touch(Command, kw_only=True):
    """Find out whether something can be stored: what is there is stored once more."""

    records: ClassVar[bool] = False

    def run(self, transaction: Transaction) -> Answered:
        transaction.touch()
        return 200, {}


class Expire(Command, kw_only=True):
    """The window for an answer has ended."""

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
    """A reward that never came is no longer waited for; the study's default takes its place if there is one."""

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
