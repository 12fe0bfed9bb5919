"""The short way for decisions, answers and rewards: what it answers is what the long way would have."""

import json
import time
from pathlib import Path
from typing import Any

import httpx
import pytest
from site_over_http import SENSED, Site, site_on

from opportune.service import auth
from opportune.service.api import quick, watching
from opportune.service.auth import Keys, add_key, revoke_key
from opportune.service.database import Database

NOON = "2026-03-29T12:00:00Z"
DECIDE = "participants/P001/decisions"
Asked = tuple[str, str | None, dict[str, str], Any]
"""An address, the role of the key, more headers, and a body: bytes as they are, the rest as JSON."""

IN_ORDER: dict[str, Asked] = {
    "a decision": (DECIDE, "app", {}, {"sensed": SENSED}),
    "a retry of it": (DECIDE, "app", {"idempotency-key": "1"}, {"sensed": SENSED}),
    "its key with other content": (DECIDE, "app", {"idempotency-key": "1"}, {"sensed": {**SENSED, "stress": 1}}),
    "opened": (DECIDE, "app", {}, {"sensed": SENSED, "opened": True, "reported": {"mood": "low"}}),
    "not available": (DECIDE, "app", {}, {"sensed": SENSED, "available": False, "reason": "asleep"}),
    "a sensor was silent": (DECIDE, "app", {}, {"sensed": {**SENSED, "stress": None}}),
    "an unknown level": (DECIDE, "app", {}, {"sensed": {**SENSED, "sleep": "none"}}),
    "an unknown variable": (DECIDE, "app", {}, {"sensed": {**SENSED, "weight": 3}}),
    "nobody enrolled": ("participants/P999/decisions", "app", {}, {"sensed": SENSED}),
    "a time long ago": (DECIDE, "app", {}, {"sensed": SENSED, "at": "2001-01-01T00:00:00Z"}),
    "a reward": ("decisions/d3/reward", "app", {}, {"reward": 0.5}),
    "a reward by staff": ("decisions/d3/reward", "staff", {}, {"reward": 0.5}),
    "another reward": ("decisions/d3/reward", "app", {}, {"reward": 0.7}),
    "a correction": ("decisions/d3/reward", "app", {}, {"reward": 0.7, "corrects": True, "reason": "misread"}),
    "a reward of nothing": ("decisions/d999/reward", "app", {}, {"reward": 0.5}),
    "a reward out of bounds": ("decisions/d3/reward", "app", {}, {"reward": 1e300}),
    "an answer to no nudge": ("decisions/d3/answer", "app", {}, {"answered": True}),
}  # fmt: skip
OUT_OF_ORDER: dict[str, Asked] = {
    "no key": (DECIDE, None, {}, {"sensed": SENSED}),
    "a wrong key": (DECIDE, None, {"authorization": "Bearer opp_wrong"}, {"sensed": SENSED}),
    "another scheme": (DECIDE, None, {"authorization": "Basic YTpi"}, {"sensed": SENSED}),
    "another role": (DECIDE, "analyst", {}, {"sensed": SENSED}),
    "no idempotency key": (DECIDE, "app", {"idempotency-key": ""}, {"sensed": SENSED}),
    "a long one": (DECIDE, "app", {"idempotency-key": "k" * 201}, {"sensed": SENSED}),
    "one with a space": (DECIDE, "app", {"idempotency-key": "a b"}, {"sensed": SENSED}),
    "an unknown field": (DECIDE, "app", {}, {"sensed": SENSED, "sense": 1}),
    "text for yes": (DECIDE, "app", {}, {"sensed": SENSED, "opened": "true"}),
    "a number for yes": (DECIDE, "app", {}, {"sensed": SENSED, "opened": 1}),
    "a time without a zone": (DECIDE, "app", {}, {"sensed": SENSED, "at": "2026-03-29T12:00:00"}),
    "nothing sensed": (DECIDE, "app", {}, {}),
    "no object": (DECIDE, "app", {}, [1]),
    "no JSON": (DECIDE, "app", {}, b"{"),
    "nothing": (DECIDE, "app", {}, b""),
    "not UTF-8": (DECIDE, "app", {}, b'{"sensed":{"sleep":"\xff"}}'),
    "not a number": (DECIDE, "app", {}, b'{"sensed":{"stress":NaN}}'),
    "deep": (DECIDE, "app", {}, b'{"sensed":' + b"[" * 100_000),
    "another type": (DECIDE, "app", {"content-type": "text/plain"}, {"sensed": SENSED}),
    "a name that cannot be": ("participants/P%20001/decisions", "app", {}, {"sensed": SENSED}),
    "an address that is not there": ("participants/P001/decision", "app", {}, {"sensed": SENSED}),
    "a decision that cannot be": ("decisions/d0/reward", "app", {}, {"reward": 0.5}),
    "an infinite reward": ("decisions/d3/reward", "app", {}, b'{"reward": 1e999}'),
    "a reward in text": ("decisions/d3/reward", "app", {}, {"reward": "0.5"}),
    "a time that is none": (DECIDE, "app", {"rehearsal-time": "noon"}, {"sensed": SENSED}),
}  # fmt: skip


def ask(site: Site, asked: Asked, number: int) -> httpx.Response:
    """Ask for something, at the same moment wherever it is asked."""
    path, role, more, body = asked
    given = {name.lower(): value for name, value in site.headers(role, str(number)).items()}
    headers = {"content-type": "application/json", "rehearsal-time": NOON, **given, **more}
    content = body if isinstance(body, bytes) else json.dumps(body).encode()
    found: httpx.Response = site.client.post(f"/api/v1/{path}", headers=headers, content=content)
    return found


def answers(database: Database) -> dict[str, tuple[int, dict[str, str], bytes]]:
    """What everything is answered with, one after the other: status, headers and body."""
    found = {}
    with site_on(database, rehearsal=True) as site:
        site.enrol()
        assert ask(site, (DECIDE, "app", {}, {"sensed": SENSED}), 0).status_code == 201  # keys are known now
        assert ask(site, ("decisions/d3/answer", "staff", {}, {"answered": True}), 0).status_code in {200, 409}
        for number, (name, asked) in enumerate([*IN_ORDER.items(), *OUT_OF_ORDER.items()], start=1):
            answer = ask(site, asked, number)
            found[name] = answer.status_code, dict(answer.headers), answer.content
    return found


def test_both_ways_answer_the_same(sqlite: Database, folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Status, headers and body, of what is in order and of what is not; and what is not takes the long way."""
    quickly: list[str] = []
    carried_out = quick._carried_out

    async def noted(service: Any, command: Any) -> Any:
        quickly.append(command.key)
        return await carried_out(service, command)

    monkeypatch.setattr(quick, "_carried_out", noted)
    short = answers(sqlite)
    assert len(quickly) == len(IN_ORDER) + 1, "the others took the long way"
    monkeypatch.setattr(quick, "_asked", lambda scope, service: None)
    other = Database(f"sqlite:///{folder / 'long.db'}")
    long = answers(other)
    other.close()
    assert len(quickly) == len(IN_ORDER) + 1, "all of them took the long way"
    for name, answer in long.items():
        assert short[name] == answer, name
    assert {status for status, _, _ in short.values()} >= {200, 201, 400, 401, 403, 404, 409, 422}


def test_the_body_may_come_in_pieces(sqlite: Database) -> None:
    """What is not all here takes the long way, whole."""
    with site_on(sqlite) as site:
        site.enrol()
        content = json.dumps({"sensed": SENSED}).encode()
        headers = {**site.headers("app"), "content-type": "application/json"}
        pieces = (content[i : i + 7] for i in range(0, len(content), 7))
        assert site.client.post(f"/api/v1/{DECIDE}", headers=headers, content=pieces).status_code == 201


def test_both_ways_are_counted(sqlite: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """A decision is a decision in the metrics, whichever way it took."""

    def count() -> float:
        name, labels = "opportune_request_seconds_count", {"operation": "decide", "status": "201"}
        return watching.REGISTRY.get_sample_value(name, labels) or 0.0

    with site_on(sqlite) as site:
        site.enrol()
        before = count()
        site.decide()
        site.decide()
        assert count() == before + 2
        monkeypatch.setattr(quick, "_asked", lambda scope, service: None)
        site.decide()
        assert count() == before + 3


def test_a_key_is_asked_about_again_before_it_is_forgotten(sqlite: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever asks all the time is never kept waiting for that, and a key that is revoked is refused all the same."""
    monkeypatch.setattr(auth, "FRESH_SECONDS", 0.4)
    key = add_key(sqlite, "phone", "app")
    keys = Keys(sqlite)
    assert keys.find(key)
    end = time.monotonic() + 1.2
    while time.monotonic() < end:
        assert keys.remembered(key), "renewed"
        time.sleep(0.02)
    revoke_key(sqlite, "phone")
    end = time.monotonic() + 5.0
    while keys.remembered(key) and time.monotonic() < end:
        time.sleep(0.02)
    assert keys.find(key) is None
