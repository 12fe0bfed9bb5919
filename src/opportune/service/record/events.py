"""Events: what happened, in order, each with a hash of itself and the event before."""

import hashlib
import secrets
from collections.abc import Mapping
from typing import Any

import msgspec

from opportune.errors import DataError
from opportune.service.record.study_file import published

START = "0" * 64
"""What the first event has in place of a hash before it."""

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
"""Who may do what, who took what, and what was seen to: nothing about participants follows from them."""
COMMON = (LAUNCHED, ENROLLED, AMENDED, CLOSED, CLOCK, POOLED, *ADMINISTRATION)
"""Those that concern all, or a new participant."""
ABOUT_ALL = (AMENDED, CLOSED)
"""Those that every participant's app should know of."""
FOR_APPS = {
    PROPOSED: "decision", SETTLED: "advice", OPENED: "opening", ANSWERED_LATE: "opening", STATUS: "status",
    REINSTATED: "status", ZONE_CORRECTED: "timezone", CALENDAR_CORRECTED: "timezone", AMENDED: "content",
    CLOSED: "closed",
}  # fmt: skip
"""What apps are told of, and what they call it."""


class Head(msgspec.Struct, frozen=True, kw_only=True):
    """What every event begins with: which it is, about whom, who did it, when, and by what."""

    seq: int
    kind: str
    before: str
    """The hash of the event before."""
    participant: str | None
    step: int | None
    decision: str | None
    who: str
    received: str
    """When the service had it, in UTC."""
    happened: str
    """When it took place, in UTC; as received unless the caller said otherwise."""
    timezone: str | None
    """The participant's time zone then."""
    version: str
    algorithm: int = 0
    """The version of the algorithm; records of old that do not name one have 0."""
    study: str
    """The hash of the study file that was in force."""
    salt: str = ""
    """Random: whoever sees the hash of an event, and all of it but a name, cannot find the name by trying."""


class Event(Head, frozen=True, kw_only=True):
    """One thing that happened: what came in (`given`), and what the algorithm answered (`answer`)."""

    given: dict[str, Any]
    answer: dict[str, Any]


_ENCODER = msgspec.json.Encoder()
_DECODER = msgspec.json.Decoder(Event)


def encode(event: Event) -> bytes:
    """The event as it is stored and hashed."""
    return _ENCODER.encode(event)


def decode(body: str | bytes) -> Event:
    """The event that was stored."""
    try:
        return _DECODER.decode(body)
    except msgspec.MsgspecError as error:
        raise DataError(f"an event cannot be read: {error}") from None


def new_salt() -> str:
    """What makes an event's hash of no use to whoever does not have all of it."""
    return secrets.token_urlsafe(16)


def hash_of(body: bytes) -> str:
    """SHA-256 of a stored event; it names the event before by its own, so one change breaks all that follow."""
    return hashlib.sha256(body).hexdigest()


_NUMBERS = {
    "probability", "coin", "gap", "price", "disagreement", "tolerance", "fresh", "before", "left", "notes", "why",
    "because", "common",
}  # fmt: skip


_ARMS = {"arm", "ineligible"}
"""What tells to which arm someone belongs: with the arms of others, the end of a block could be foreseen."""


def blinded(answer: dict[str, Any]) -> dict[str, Any]:
    """What an event answers as staff see it: without arms, and without the numbers that a decision was made by."""
    shown = {name: value for name, value in answer.items() if name not in _NUMBERS | _ARMS}
    if "settled" in shown:
        shown["settled"] = blinded(shown["settled"])
    return shown


def for_staff(event: dict[str, Any], *, blind: bool) -> dict[str, Any]:
    """An event as staff see it."""
    given = exported(event["kind"], event["given"])
    if not blind:
        return {**event, "given": given}
    told = {name: value for name, value in given.items() if name != "slot"}
    return {**event, "given": told, "answer": blinded(event["answer"]), "salt": ""}


_ORIGIN = {"from", "system_user"}
"""From where someone did something: the system's name for a user is often that of a person."""


def exported(kind: str, given: Mapping[str, Any]) -> dict[str, Any]:
    """What came in with an event as exports show it: without private lines of the study file, and from where."""
    left_out = _ORIGIN if kind in COMMON else ()  # elsewhere `from` is a date
    shown = {name: value for name, value in given.items() if name not in left_out}
    return {**shown, "file": published(given["file"])} if "file" in given else shown
