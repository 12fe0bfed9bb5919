"""The short way for decisions, answers and rewards: what it answers is what the long way would have."""

import json
import re
import time
from pathlib import Path
from typing import Any

import pytest
from line import DECIDE, JSON, NOON, Line, Served, request, served
from site_over_http import SENSED, site_on

from opportune.service import auth
from opportune.service.api import quick, watching
from opportune.service.api.protocol import Protocol
from opportune.service.auth import Keys, add_key, revoke_key
from opportune.service.commands import Command
from opportune.service.database import Database
from opportune.service.problems import Refused
from opportune.service.service import Service
from opportune.service.writer import Writer

Asked = tuple[str, str | None, dict[str, str], Any]
"""An address, the role of the key, more headers, and a body: bytes as they are, the rest as JSON."""

PLAIN: dict[str, str] = {}
TWICE = {"x-twice": "1\r\nx-twice: 2"}
"""What sends a request the long way, and changes nothing else."""
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


@pytest.fixture
def quickly(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The keys of those that take the short way, as they come."""
    keys: list[str] = []
    command_of = quick.command_of

    def noted(service: Service, asked: quick.Asked, body: bytes | bytearray) -> Command | None:
        found = command_of(service, asked, body)
        if found is not None:
            keys.append(asked.key)
        return found

    monkeypatch.setattr(quick, "command_of", noted)
    return keys


def ask(site: Served, line: Line, asked: Asked, number: int) -> tuple[bytes, bytes]:
    """Ask for something, at the same moment wherever it is asked; the date is left out of the answer."""
    path, role, more, body = asked
    given = {"idempotency-key": str(number), **({} if role is None else site.headers(str(number), role))}
    headers = {**JSON, "rehearsal-time": NOON, **given, **more}
    line.send(request(f"/api/v1/{path}", headers, body if isinstance(body, bytes) else json.dumps(body).encode()))
    head, content = line.answer()
    plain, dates = re.subn(rb"\r\ndate: [^\r]+", b"", head)
    assert dates == 1
    return plain, content


def answers(database: Database, http: Any) -> dict[str, tuple[bytes, bytes]]:
    """What everything is answered with, one after the other, byte for byte."""
    found = {}
    with served(database, http=http, rehearsal=True) as site, site.line() as line:
        assert ask(site, line, (DECIDE, "app", {}, {"sensed": SENSED}), 0)[0].startswith(b"HTTP/1.1 201")
        ask(site, line, ("decisions/d3/answer", "staff", {}, {"answered": True}), 0)
        for number, (name, asked) in enumerate([*IN_ORDER.items(), *OUT_OF_ORDER.items()], start=1):
            found[name] = ask(site, line, asked, number)
    return found


def test_both_ways_answer_the_same(sqlite: Database, folder: Path, quickly: list[str]) -> None:
    """Every byte but the date, of what is in order and of what is not; and what is not takes the long way."""
    short = answers(sqlite, Protocol)
    assert len(quickly) == len(IN_ORDER) + 2, "the others took the long way"
    other = Database(f"sqlite:///{folder / 'long.db'}")
    long = answers(other, "httptools")
    other.close()
    assert len(quickly) == len(IN_ORDER) + 2, "all of them took the long way"
    for name, answer in long.items():
        assert short[name] == answer, name
    assert {int(head[9:12]) for head, _ in short.values()} >= {200, 201, 400, 401, 403, 404, 409, 422}


def test_faults_are_answered_the_same_on_both_ways(
    sqlite: Database, quickly: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """What cannot be stored, and what nobody has foreseen: the same bytes, with the header that says when to retry."""
    found: dict[tuple[type, bool], tuple[bytes, bytes]] = {}
    with served(sqlite) as site, site.line() as line:
        for error in (Refused("unavailable", "the disk is full"), ZeroDivisionError("a participant's secret")):
            with monkeypatch.context() as patch:
                patch.setattr(Writer, "write", lambda _writer, commands, error=error: [error for _ in commands])
                for more in (PLAIN, TWICE):
                    line.send(request(f"/api/v1/{DECIDE}", {**site.headers("a"), **more}, b'{"sensed":{}}'))
                    found[type(error), more is PLAIN] = line.answer()
    assert quickly == ["a", "a"]
    for kind in (Refused, ZeroDivisionError):
        short, long = found[kind, True], found[kind, False]
        assert re.sub(rb"date: [^\r]+", b"", short[0]) == re.sub(rb"date: [^\r]+", b"", long[0])
        assert short[1] == long[1]
    assert b"\r\nretry-after: 1" in found[Refused, True][0]
    assert found[ZeroDivisionError, True][0].startswith(b"HTTP/1.1 500 Internal Server Error\r\n")


def test_both_ways_are_counted(sqlite: Database, quickly: list[str]) -> None:
    """A decision is a decision in the metrics, whichever way it took."""

    def count() -> float:
        name, labels = "opportune_request_seconds_count", {"operation": "decide", "status": "201"}
        return watching.REGISTRY.get_sample_value(name, labels) or 0.0

    with served(sqlite) as site, site.line() as line:
        before = count()
        for number, more in enumerate((PLAIN, PLAIN, TWICE)):
            body = json.dumps({"sensed": SENSED}).encode()
            line.send(request(f"/api/v1/{DECIDE}", {**site.headers(str(number)), **more}, body))
            assert line.answer()[0].startswith(b"HTTP/1.1 201")
        assert count() == before + 3
        assert quickly == ["0", "1"]


def test_another_server_takes_the_long_way(sqlite: Database, quickly: list[str]) -> None:
    """The application by itself needs no server of ours."""
    with site_on(sqlite) as site:
        site.enrol()
        assert site.decide()["step"] == 1
    assert not quickly


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
