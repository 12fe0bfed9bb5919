"""Signed messages of the service: how they are signed, and how receivers verify them."""

import hashlib
import hmac
import json
import time
from collections.abc import Mapping
from typing import Any

from opportune.errors import InputError

OLDEST_SECONDS = 300


def signature(key: str, moment: str, body: bytes) -> str:
    """The proof that a message is from this service, and of its age: HMAC-SHA256 over time and body."""
    return "sha256=" + hmac.digest(key.encode(), f"{moment}.".encode() + body, hashlib.sha256).hex()


def verified(key: str, headers: Mapping[str, str], body: bytes, *, now: float | None = None) -> dict[str, Any]:
    """A received message, after a check of its signature and age; raises `InputError` otherwise.

    Messages are delivered at least once: ignore those with an Opportune-Id header that you have seen before.

    Args:
        key: the service's OPPORTUNE_WEBHOOK_KEY.
        headers: the request's headers, with names in any case.
        body: the request's body, unchanged.
        now: seconds since 1970; by default the clock's.

    """
    if not key:
        raise InputError("key is empty; expected the service's OPPORTUNE_WEBHOOK_KEY")
    found = {name.lower(): value for name, value in headers.items()}
    moment = found.get("opportune-time", "")
    if not (moment.isascii() and moment.isdecimal() and len(moment) < 16):
        raise InputError(f"Opportune-Time is {moment[:40]!r}; expected seconds since 1970")
    expected = signature(key, moment, body)
    if not hmac.compare_digest(expected.encode(), found.get("opportune-signature", "").encode()):
        raise InputError("Opportune-Signature is not that of this body; expected a message signed with the same key")
    age = (time.time() if now is None else now) - int(moment)
    if abs(age) > OLDEST_SECONDS:
        raise InputError(f"the message is {age:.0f} seconds old; expected at most {OLDEST_SECONDS}")
    message: dict[str, Any] = json.loads(body)
    return message
