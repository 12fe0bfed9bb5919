"""Signed messages of the service: how they are signed, and how whoever receives them checks that."""

import hashlib
import hmac
import json
import time
from collections.abc import Mapping
from typing import Any

from opportune.errors import InputError

OLDEST_SECONDS = 300


def signature(key: str, moment: str, body: bytes) -> str:
    """What proves that a message is from this service and how old it is: HMAC-SHA256 over time and body."""
    return "sha256=" + hmac.digest(key.encode(), f"{moment}.".encode() + body, hashlib.sha256).hex()


def verified(key: str, headers: Mapping[str, str], body: bytes, *, now: float | None = None) -> dict[str, Any]:
    """A message that was received, once its signature and its age were checked; raises `InputError` otherwise.

    Messages are delivered at least once: leave out those whose header Opportune-Id you have had.

    Args:
        key: what the service has in OPPORTUNE_WEBHOOK_KEY.
        headers: of the request, with names in any case.
        body: of the request, as it came.
        now: seconds since 1970; the clock's unless given.

    """
    if not key:
        raise InputError("key is empty; expected what the service has in OPPORTUNE_WEBHOOK_KEY")
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
