"""What all commands share. A command is a write that a request asks for; it runs inside the writer's transaction."""

import math
from collections.abc import Mapping
from typing import Any, ClassVar

import msgspec

from opportune.live.point import LEARNED, SKIPPED
from opportune.service.problems import Refused
from opportune.service.record.transaction import Transaction
from opportune.service.state import clock
from opportune.service.state.participant import Participant

Answered = tuple[int, dict[str, Any]]
"""The HTTP status and the answer."""
NOT_ASKED = "no decision was asked for"
SYSTEM = "service"


class Command(msgspec.Struct, kw_only=True):
    """A write that someone asked for."""

    records: ClassVar[bool] = True
    """Whether the command is meant to append to the record."""

    settles: ClassVar[bool] = False
    """Whether the command may settle a nudge that is still open as unanswered."""

    who: str
    received: int
    key: str = ""
    fingerprint: str = ""
    blind: bool = False
    """Whether the caller must not see the numbers behind decisions."""
    let_stand: bool = False
    """Settle an open nudge without the learned policy, which has failed; the earlier advice stays valid."""

    def about(self) -> tuple[str | None, str | None]:
        """The participant and the decision that the command names, so that a batch reads them at once."""
        return None, None

    def run(self, transaction: Transaction) -> Answered:
        """Carry out the command; returns the status and the answer."""
        raise NotImplementedError


def open_study(transaction: Transaction) -> dict[str, Any]:
    """The study, if it is launched and not closed."""
    if transaction.study is None:
        raise Refused("not_found", "no study is launched in this database")
    if transaction.study["status"] != "open":
        raise Refused("closed", "the study is closed: nobody can enrol, and no more decisions are made")
    return transaction.study


def participant_answer(person: Participant, *, blind: bool = False) -> dict[str, Any]:
    """A participant as the API shows it; a blind caller sees neither the arm nor the remaining budget."""
    left = person.agent.budget_left
    return {
        "participant": person.name, "status": person.status, "reason": person.reason, "timezone": person.timezone,
        "next_timezone": person.next_timezone,
        "next_from": None if person.next_from is None else person.next_from.isoformat(),
        "number": person.number, "arm": None if blind else person.arm or None,
        "baseline": None if person.baseline is None else msgspec.json.decode(person.baseline),
        "enrolled": clock.iso(person.enrolled),
        "step": person.agent.step, "budget_left": None if blind or math.isinf(left) else left,
        "open_decision": person.open_decision,
    }  # fmt: skip


def decision_answer(row: Mapping[str, Any], *, blind: bool = False) -> dict[str, Any]:
    """A decision as the API shows it; a blind caller does not see the numbers behind it."""
    expires = row["expires"] if row["status"] == "nudge" else None
    return {
        "decision": row["id"], "participant": row["participant"], "step": row["step"], "status": row["status"],
        "nudge": row["nudge"], "action": row["action"], "probability": None if blind else row["probability"],
        "budget_left": None if blind else row["budget_left"],
        "expires": None if expires is None else clock.iso(expires),
        "outcome": row["outcome"], "revealed": bool(row["revealed"]), "why": None if blind else row["why"],
        "mode": row["mode"], "late": row["answered_late"] is not None,
    }  # fmt: skip


def reward_answer(row: Mapping[str, Any]) -> dict[str, Any]:
    """A decision's reward as the API shows it."""
    return {
        "decision": row["id"], "participant": row["participant"], "step": row["step"], "reward": row["reward"],
        "learned": row["reward_status"] == LEARNED, "skipped": row["reward_status"] == SKIPPED,
        "changes": row["reward_changes"],
    }  # fmt: skip
