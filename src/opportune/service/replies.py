"""Participants, decisions and rewards as the API answers with them."""

import math
from collections.abc import Mapping
from typing import Any

from opportune.live.point import LEARNED, SKIPPED
from opportune.service import clock
from opportune.service.person import Person


def participant_answer(person: Person) -> dict[str, Any]:
    """A participant as the API shows it."""
    left = person.agent.budget_left
    return {
        "participant": person.name, "status": person.status, "reason": person.reason, "timezone": person.timezone,
        "number": person.number, "stream": person.stream, "enrolled": clock.iso(person.enrolled),
        "step": person.agent.step, "budget_left": None if math.isinf(left) else left,
        "open_decision": person.open_decision,
    }  # fmt: skip


def decision_answer(row: Mapping[str, Any]) -> dict[str, Any]:
    """A decision as the API shows it."""
    expires = row["expires"] if row["status"] == "nudge" else None
    return {
        "decision": row["id"], "participant": row["participant"], "step": row["step"], "status": row["status"],
        "nudge": row["nudge"], "action": row["action"], "probability": row["probability"],
        "budget_left": row["budget_left"], "expires": None if expires is None else clock.iso(expires),
        "outcome": row["outcome"], "revealed": bool(row["revealed"]), "why": row["why"], "mode": row["mode"],
        "late": row["answered_late"] is not None,
    }  # fmt: skip


def reward_answer(row: Mapping[str, Any]) -> dict[str, Any]:
    """A decision's reward as the API shows it."""
    return {
        "decision": row["id"], "participant": row["participant"], "step": row["step"], "reward": row["reward"],
        "learned": row["reward_status"] == LEARNED, "skipped": row["reward_status"] == SKIPPED,
        "changes": row["reward_changes"],
    }  # fmt: skip
