"""Rewards and their corrections."""

import math
from collections.abc import Mapping
from typing import Any

from opportune.service.commands.base import Answered, Command, reward_answer
from opportune.service.problems import Refused
from opportune.service.record import events
from opportune.service.record.transaction import Transaction
from opportune.service.state.participant import Participant


class Reward(Command, kw_only=True):
    """Record the reward of a decision, or correct it."""

    decision: str
    reward: float
    corrects: bool = False
    reason: str | None = None
    cause: str | None = None

    def about(self) -> tuple[str | None, str | None]:
        return None, self.decision

    def run(self, transaction: Transaction) -> Answered:
        row = transaction.decision(self.decision)
        person = transaction.person(row["participant"])
        low, high = transaction.running.reward_bounds
        if not math.isfinite(self.reward) or not low <= self.reward <= high:
            raise Refused("invalid", f"reward is {self.reward:g}; expected a number from {low:g} to {high:g}")
        if row["status"] != "settled":
            raise Refused("not_settled", f"decision {row['id']!r} waits for an answer; expected its reward afterwards")
        if row["reward"] is None:
            given: dict[str, Any] = {"reward": self.reward}
            if self.cause is not None:
                given["cause"] = self.cause
            self._happen(transaction, events.REWARDED, person, row, given)
        elif row["reward"] != self.reward:
            if not self.corrects or not self.reason:
                text = f"decision {row['id']!r} has reward {row['reward']:g}, not {self.reward:g}"
                raise Refused("reward_differs", f"{text}; a correction needs corrects: true and a reason")
            changes = row["reward_changes"] + 1
            given = {"reward": self.reward, "was": row["reward"], "reason": self.reason, "changes": changes}
            self._happen(transaction, events.CORRECTED, person, row, given)
        return 200, reward_answer(row)

    def _happen(
        self, transaction: Transaction, kind: str, person: Participant, row: Mapping[str, Any], given: dict[str, Any]
    ) -> None:
        transaction.happen(
            kind, person, given, who=self.who, received=self.received, step=row["step"], decision=row["id"]
        )
