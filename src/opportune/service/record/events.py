"""Events: what happened, in order, each with a hash of itself and the event before."""

import hashlib
from typing import Any

import msgspec

from opportune.errors import DataError

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
STATUS = "status"
NOTED = "noted"
TRIED = "tried"
AMENDED = "amended"
CLOSED = "closed"
KINDS = (
    LAUNCHED, ENROLLED, PROPOSED, SETTLED, ANSWERED_LATE, REWARDED, CORRECTED, SKIPPED, STATUS, NOTED, TRIED, AMENDED,
    CLOSED,
)  # fmt: skip
COMMON = (LAUNCHED, ENROLLED, AMENDED, CLOSED)
"""Those that concern all, or a new participant."""


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
    study: str
    """The hash of the study file that was in force."""


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


def hash_of(body: bytes) -> str:
    """SHA-256 of a stored event; it names the event before by its own, so one change breaks all that follow."""
    return hashlib.sha256(body).hexdigest()
