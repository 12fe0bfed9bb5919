"""Examples of all bodies and answers, by the name of their schema, from the course of one participant."""

from typing import Any

from opportune.service.problems import TITLES

_MORNING, _SIGNED = "2026-03-29T07:00:04.120000Z", "3f2a" * 16
_TOKEN, _REFRESH = "opt_4bY0cJrJ0u2oQYc2tFh1x9nT0Pz5qk8w", "opr_Zk3m7d8V1sTq0yH2bNf6gLr9cXw4eUaJ"
_SENSED = {"time_of_day": "morning", "stress": 3, "sleep": "poor"}

DECISION: dict[str, Any] = {
    "decision": "d123", "participant": "P001", "step": 14, "status": "nudge", "nudge": True, "action": "walk",
    "probability": 0.31, "budget_left": 7.2, "expires": "2026-03-29T09:00:04.120000Z", "outcome": None,
    "revealed": False, "why": "Best for what was known at the last contact.", "mode": "learned", "late": False,
}  # fmt: skip
SETTLED: dict[str, Any] = {
    **DECISION, "status": "settled", "action": "breathe", "expires": None, "outcome": "answered", "revealed": True,
    "why": "Best for what is known now.",
}  # fmt: skip
_BLIND = {**SETTLED, "outcome": "opened", "probability": None, "budget_left": None, "why": None}
_REWARD = {"decision": "d123", "participant": "P001", "step": 14, "reward": 0.7, "learned": True, "skipped": False}
_DETAILS = {
    **SETTLED, "day": 7, "happened": _MORNING, "received": _MORNING, "available": True, "reason": None,
    "sensed": _SENSED, "reported": {"mood": "low"}, "reward": 0.7, "learned": True, "skipped": False, "changes": 0,
}  # fmt: skip
_PARTICIPANT = {
    "participant": "P001", "status": "active", "reason": None, "timezone": "Europe/Berlin", "number": 0, "arm": None,
    "next_timezone": None, "next_from": None,
    "baseline": None, "enrolled": "2026-03-23T08:12:00.000000Z", "step": 14, "budget_left": 7.2,
    "open_decision": "d123",
}  # fmt: skip
_PERSON = {**_PARTICIPANT, "last_decided": _MORNING, "last_reveal": "2026-03-27T16:20:31.000000Z", "nudges": 3}
_POINT = {
    "step": 15, "at": "2026-03-29T18:00:00+02:00", "until": "2026-03-30T09:00:00+02:00",
    "values": {"time_of_day": "evening"}, "action": "rest",
}  # fmt: skip
_EVENT = {
    "id": "131", "kind": "advice", "at": "2026-03-29T07:41:10.002000Z", "participant": "P001", "status": "active",
    "timezone": "Europe/Berlin", "decision": _BLIND,
}  # fmt: skip
_RECORDED = {
    "seq": 131, "kind": "rewarded", "before": _SIGNED, "participant": "P001", "step": 14, "decision": "d123",
    "who": "participant P001", "received": _MORNING, "happened": _MORNING, "timezone": "Europe/Berlin",
    "version": "0.1.0", "algorithm": 1, "study": _SIGNED, "salt": "bTqK0m2Jw9Zr1xYc", "given": {"reward": 0.7},
    "answer": {"learned": True},
}  # fmt: skip

EXAMPLES: dict[str, Any] = {
    "AccessPage": {
        "items": [{"id": 9, "at": _MORNING, "who": "anna", "role": "staff", "address": "203.0.113.7", "what": "/today",
                   "participant": None}],
        "next": None,
    },
    "Bundle": {
        "participant": "P001", "version": "0.1.0", "made": _MORNING, "timezone": "Europe/Berlin", "after_step": 14,
        "content": "5b1d0c7e92aa", "until": _POINT["until"],
        "now": {**_POINT, "step": 14, "at": "2026-03-29T09:00:00+02:00", "until": _POINT["at"], "values": {},
                "action": "walk"},
        "points": [_POINT], "strata": [],
    },
    "Decision": DECISION,
    "DecisionCorrection": {"reported": {"mood": "good"}, "reason": "Misheard on the telephone."},
    "DecisionDetails": _DETAILS,
    "DecisionPage": {"items": [_DETAILS], "next": "14"},
    "Health": {"status": "ready"},
    "Issued": {"token": _TOKEN, "expires": "2026-03-29T08:00:04.120000Z", "participant": "P001", "refresh": _REFRESH},
    "Moment": {"sensed": _SENSED, "at": "2026-03-29T09:00:00+02:00"},
    "NewNote": {"text": "On holiday from Friday on."},
    "NewOpening": {"reported": {"mood": "low"}},
    "NewParticipant": {"participant": "P001", "timezone": "Europe/Berlin"},
    "NewReward": {"reward": 0.7},
    "NoteAnswer": {"participant": "P001", "event": 132},
    "NudgeAnswer": {"answered": True, "reported": {"mood": "low"}},
    "Opening": {
        "participant": "P001", "counts": "now", "decision": _BLIND,
        "escalations": [{"variable": "mood", "value": "low", "text": "Ask how the weekend was."}],
    },
    "Participant": _PARTICIPANT,
    "ParticipantCorrection": {"timezone": "Europe/Lisbon", "reason": "Moved house."},
    "ParticipantDetails": _PERSON,
    "ParticipantEvents": {"items": [_EVENT], "next": "131"},
    "ParticipantPage": {"items": [_PERSON], "next": None},
    "RecordPage": {"items": [{"hash": _SIGNED, "event": _RECORDED}], "next": "131"},
    "Refresh": {"refresh": _REFRESH},
    "Renewed": {"token": _TOKEN, "expires": "2026-03-29T08:00:04.120000Z", "participant": "P001"},
    "RewardAnswer": {**_REWARD, "changes": 0},
    "StatusChange": {"status": "paused", "reason": "In hospital."},
    "StudyContent": {
        "study": "stress-messages", "version": "5b1d0c7e92aa", "language": "en", "languages": ["en"],
        "timezone": "Europe/Berlin", "times": ["09:00", "18:00"], "horizon": 140,
        "actions": [{"action": "walk", "label": "Go for a walk", "description": "Ten minutes are enough."}],
        "variables": [
            {"variable": "time_of_day", "label": "Time of day", "visibility": "public", "knows": True,
             "levels": [{"value": "morning", "label": "morning"}], "low": None, "high": None},
            {"variable": "steps", "label": "Steps", "visibility": "sensed", "knows": False, "levels": [],
             "low": 0.0, "high": 20000.0},
        ],
        "questions": [
            {"variable": "mood", "text": "How do you feel?", "answers": [{"value": "low", "label": "Low"}],
             "low": None, "high": None, "step": None},
        ],
        "nudge": {"name": "call", "plural": "calls", "by": "staff", "answer_minutes": 120.0},
        "reward": {"unit": "minutes", "low": 0.0, "high": 240.0, "wait_hours": 72.0},
    },
    "StudyState": {
        "study": "stress-messages", "status": "open", "hash": _SIGNED, "actions": {"walk": {"label": "Go for a walk"}},
        "rehearsal": False, "now": _MORNING, "role": "staff", "launched": "2026-03-20T12:00:00.000000Z", "enrolled": 8,
        "amendments": 0, "events": 131, "head": _SIGNED, "shared_budget": None, "spent": 6.4, "nudges": 7,
        "alerts": [{"level": "yellow", "code": "silent", "participant": "P004", "text": "No decisions for a day.",
                    "raised": _MORNING}],
    },
    "TokensRevoked": {"participant": "P001", "phones": 1},
}  # fmt: skip
"""The example of each schema, by its name."""
LISTS: dict[str, Any] = {
    "MomentOf": [{"participant": "P001", "key": "P001-14", "sensed": _SENSED}],
    "BatchItem": [{"key": "P001-14", "status": 201, "answer": DECISION}],
}
"""Examples of lists, by the schema of their items."""
PLAIN = {
    "text/csv": "participant,step,action\nP001,14,breathe\n",
    "text/plain": "# TYPE opportune_decisions gauge\nopportune_decisions 131.0\n",
}
"""Examples that are not JSON, by media type."""
_CODES = {409: "settled_already", 422: "invalid"}


def problem(status: int) -> dict[str, Any]:
    """An example of a problem with this status."""
    code = _CODES.get(status) or next(code for code, (known, _) in TITLES.items() if known == status)
    title = TITLES[code][1]
    detail = "decision 'd123' is settled already (answered)" if code == "settled_already" else title.lower()
    return {"type": f"urn:opportune:{code}", "title": title, "status": status, "code": code, "detail": detail}
