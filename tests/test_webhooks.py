"""Whoever receives a signed message can tell that it is the service's, and new."""

import json

import pytest

from opportune.errors import InputError
from opportune.webhooks import signature, verified

KEY, BODY = "a key that both sides know", json.dumps({"kind": "advice", "participant": "P001"}).encode()
HEADERS = {"opportune-time": "1000", "Opportune-Signature": signature(KEY, "1000", BODY)}


def test_a_message_of_the_service_is_taken() -> None:
    """Whatever the case of the headers' names."""
    assert verified(KEY, HEADERS, BODY, now=1200.0) == {"kind": "advice", "participant": "P001"}


@pytest.mark.parametrize(
    ("key", "headers", "body", "now", "said"),
    [
        (KEY, HEADERS, BODY.replace(b"P001", b"P002"), 1000.0, "is not that of this body"),
        ("another key", HEADERS, BODY, 1000.0, "is not that of this body"),
        (KEY, {**HEADERS, "opportune-time": "1001"}, BODY, 1000.0, "is not that of this body"),
        (KEY, HEADERS, BODY, 1301.0, "the message is 301 seconds old; expected at most 300"),
        (KEY, HEADERS, BODY, 600.0, "the message is -400 seconds old"),
        (KEY, {}, BODY, 1000.0, "Opportune-Time is ''; expected seconds since 1970"),
        (KEY, {"Opportune-Time": "1000"}, BODY, 1000.0, "is not that of this body"),
        ("", HEADERS, BODY, 1000.0, "key is empty"),
    ],
)
def test_a_message_that_is_not_is_refused(
    key: str, headers: dict[str, str], body: bytes, now: float, said: str
) -> None:
    """Altered, signed by somebody else, old, or not signed at all."""
    with pytest.raises(InputError) as caught:
        verified(key, headers, body, now=now)
    assert said in str(caught.value)
