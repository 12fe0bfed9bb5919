"""Events: what happened, in order, each with the hash of the event before it."""

import hashlib
import secrets
from collections.abc import Mapping
from typing import Any

import msgspec

from opportune.errors import DataError
from opportune.service.record.study_file import published

START = "0" * 64
"""The `before` of the first event, which follows no other."""

LAUNCHED = "launched"
ENROLLED = "enrolled"
PROPOSED = "proposed"
SETTLED = "settled"
ANSWERED_LATE = "answered late"
REWARDED = "rewarded"
CORRECTED = "corrected"
SKIPPED = "skipped"
REPORTED_CORRECTED = "reported values corrected"
OUTCOME_CORRECTED = "outcome corrected"
ZONE_CORRECTED = "time zone corrected"
CALENDAR_CORRECTED = "calendar corrected"
REINSTATED = "reinstated"
OPENED = "opened"
CALLS = "calls"
ADVERSE = "adverse event"
ACKNOWLEDGED = "acknowledged"
CHECKED = "checked"
STATUS = "status"
NOTED = "noted"
TRIED = "tried"
AMENDED = "amended"
CLOSED = "closed"
CLOCK = "clock confirmed"
POOLED = "pooled"
ACCOUNT = "account"
ACCESS = "access"
KINDS = (
    LAUNCHED, ENROLLED, PROPOSED, SETTLED, ANSWERED_LATE, REWARDED, CORRECTED, SKIPPED, STATUS, NOTED, TRIED, AMENDED,
    CLOSED, CLOCK, REPORTED_CORRECTED, OUTCOME_CORRECTED, ZONE_CORRECTED, REINSTATED, OPENED, CALLS, ADVERSE,
    ACKNOWLEDGED, CHECKED, POOLED, ACCOUNT, ACCESS, CALENDAR_CORRECTED,
)  # fmt: skip
ADMINISTRATION = (ACCOUNT, ACCESS, CHECKED)
"""Accounts, downloads and completed checks: these change nothing about participants."""
COMMON = (LAUNCHED, ENROLLED, AMENDED, CLOSED, CLOCK, POOLED, *ADMINISTRATION)
"""Kinds that concern the whole study, or a new participant."""
ABOUT_ALL = (AMENDED, CLOSED)
"""Kinds that every participant's app is informed of."""
FOR_APPS = {
    PROPOSED: "decision", SETTLED: "advice", OPENED: "opening", ANSWERED_LATE: "opening", STATUS: "status",
    REINSTATED: "status", ZONE_CORRECTED: "timezone", CALENDAR_CORRECTED: "timezone", AMENDED: "content",
    CLOSED: "closed",
}  # fmt: skip
"""Kinds that a participant's app is informed of, with the names that apps use."""


class Head(msgspec.Struct, frozen=True, kw_only=True):
    """The fields common to all events: number, kind, participant, author, times, and versions."""

    seq: int
    kind: str
    before: str
    """The hash of the event before."""
    participant: str | None
    step: int | None
    decision: str | None
    who: str
    received: str
    """When the service received it, in UTC."""
    happened: str
    """When it took place, in UTC; the time of receipt unless the caller gave another."""
    timezone: str | None
    """The participant's time zone at that time."""
    version: str
    algorithm: int = 0
    """The version of the algorithm; 0 in old records, which do not name one."""
    study: str
    """The hash of the study file that was in force."""
    salt: str = ""
    """Random, so that a name removed from an event cannot be guessed by trying names against the event's hash."""


class Event(Head, frozen=True, kw_only=True):
    """One thing that happened: the input (`given`), and the algorithm's answer (`answer`)."""

    given: dict[str, Any]
    answer: dict[str, Any]


_ENCODER = msgspec.json.Encoder()
_DECODER = msgspec.json.Decoder(Event)


def encode(event: Event) -> bytes:
    """The event as it is stored and hashed."""
    return _ENCODER.encode(event)


def decode(body: str | bytes) -> Event:
    """A stored event."""
    try:
        return _DECODER.decode(body)
    except msgspec.MsgspecError as error:
        raise DataError(f"an event cannot be read: {error}") from None


def new_salt() -> str:
    """A new random salt for an event."""
    return secrets.token_urlsafe(16)


def hash_of(body: bytes) -> str:
    """SHA-256 of a stored event; each event contains the hash before it, so one change breaks all that follow."""
    return hashlib.sha256(body).hexdigest()


_NUMBERS = {
    "probability", "coin", "gap", "price", "disagreement", "tolerance", "fresh", "before", "left", "notes", "why",
    "because", "common",
}  # fmt: skip


_ARMS = {"arm", "ineligible"}
"""What reveals a participant's arm: the arms of others would let staff foresee the end of a block."""


def blinded(answer: dict[str, Any]) -> dict[str, Any]:
    """An event's answer as blinded staff see it: without arms, and without the numbers behind the decision."""
    shown = {name: value for name, value in answer.items() if name not in _NUMBERS | _ARMS}
    if "settled" in shown:
        shown["settled"] = blinded(shown["settled"])
    return shown


def for_staff(event: dict[str, Any], *, blind: bool) -> dict[str, Any]:
    """An event as staff see it; `blind` for those who are not unblinded."""
    given = exported(event["kind"], event["given"])
    if not blind:
        return {**event, "given": given}
    without_slot = {name: value for name, value in given.items() if name != "slot"}
    return {**event, "given": without_slot, "answer": blinded(event["answer"]), "salt": ""}


_ORIGIN = {"from", "system_user"}
"""The origin of an administrative event: a system user's name is often a person's."""


def exported(kind: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """An event's input as exports show it: without its origin and without the private lines of a study file."""
    left_out = _ORIGIN if kind in COMMON else ()  # elsewhere `from` is a date
    shown = {name: value for name, value in given.items() if name not in left_out}
    return {**shown, "file": published(given["file"])} if "file" in given else shown
