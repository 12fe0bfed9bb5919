"""The short way over the line: HTTP as others speak it, and connections as they really are."""

import ast
import contextlib
import inspect
import json
import logging
import os
import pickle
import textwrap
import threading
import time
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest
import uvicorn
from line import DECIDE, Line, request, served
from site_over_http import SENSED
from sqlalchemy import func, select
from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from opportune.service import server, tables
from opportune.service.api import quick
from opportune.service.api.protocol import Exchange, Protocol
from opportune.service.database import Database
from opportune.service.writer import Reply, Writer

SIZE = 200_000
"""The length of a long answer."""
BODY = json.dumps({"sensed": SENSED}).encode()


class Held:
    """Writers that write, and keep the answers to themselves until they are let go."""

    def __init__(self) -> None:
        self.go, self.short = threading.Event(), 0

    def until(self, short: int) -> None:
        """Wait until so many have taken the short way."""
        end = time.monotonic() + 10
        while self.short < short and time.monotonic() < end:
            time.sleep(0.005)
        assert self.short == short


@pytest.fixture
def held(monkeypatch: pytest.MonkeyPatch) -> Iterator[Held]:
    """Writers can be held up, and the short way is counted; they are not held up unless `go` is cleared."""
    found = Held()
    found.go.set()
    write, command_of = Writer.write, quick.command_of

    def waiting(writer: Writer, commands: Any) -> Any:
        replies = write(writer, commands)
        assert found.go.wait(20)
        return replies

    def counted(*arguments: Any) -> Any:
        made = command_of(*arguments)
        found.short += made is not None
        return made

    monkeypatch.setattr(Writer, "write", waiting)
    monkeypatch.setattr(quick, "command_of", counted)
    yield found
    found.go.set()


def decisions(database: Database) -> int:
    """How many are on record."""
    with database.reading.connect() as connection:
        return int(connection.execute(select(func.count()).select_from(tables.decisions)).scalar_one())


def step(answer: tuple[bytes, bytes]) -> int:
    """The step of a decision that was made."""
    head, body = answer
    assert head.startswith(b"HTTP/1.1 201 Created\r\n"), (head, body)
    found: int = json.loads(body)["step"]
    return found


def test_a_request_may_come_in_pieces(sqlite: Database, held: Held) -> None:
    """Wherever it is cut, also in the middle of a name, it is one request, and it takes the short way."""
    with served(sqlite) as site, site.line() as line:
        whole = site.decide("a")
        line.send(*(whole[i : i + 23] for i in range(0, len(whole), 23)))
        assert step(line.answer()) == 1
        line.send(whole[:-1])
        assert line.silent(), "the last byte is missing"
        line.send(whole[-1:])
        assert step(line.answer()) == 1, "the same key"
        assert held.short == 2


def test_many_requests_on_one_connection(sqlite: Database, held: Held) -> None:
    """Short and long in turn: each gets its own answer, and uvicorn counts them all."""
    with served(sqlite) as site, site.line() as line:
        before = site.server.server_state.total_requests
        for number in range(1, 6):
            line.send(site.decide(str(number)))
            assert step(line.answer()) == number
            line.send(request("/healthz", {}, method="GET"))
            assert line.answer()[1] == b'{"status":"alive"}'
            line.send(request(f"/api/v1/{DECIDE}", site.headers(f"bad {number}"), BODY))
            assert line.answer()[0].startswith(b"HTTP/1.1 400"), "its key has a space"
            line.send(request(f"/api/v1/{DECIDE}", site.headers("x"), b'{"sensed":'))
            assert line.answer()[0].startswith(b"HTTP/1.1 400"), "half of a body"
        assert held.short == 5
        line.send(request("/healthz", {}, method="GET"))  # those before it are counted when it is answered
        line.answer()
        assert site.server.server_state.total_requests - before in {20, 21}


def test_requests_in_a_row_are_answered_in_order(sqlite: Database, held: Held) -> None:
    """What comes behind an unanswered request waits for its turn, though it could be answered at once."""
    with served(sqlite) as site, site.line() as line:
        health = request("/healthz", {}, method="GET")
        held.go.clear()
        line.send(site.decide("1") + health + site.decide("2") + site.decide("3") + health)
        held.until(1)
        assert line.silent(), "nothing overtakes the first"
        held.go.set()
        assert step(line.answer()) == 1
        assert line.answer()[1] == b'{"status":"alive"}'
        assert [step(line.answer()), step(line.answer())] == [2, 3]
        assert line.answer()[1] == b'{"status":"alive"}'
        line.send(site.decide("4"))
        assert step(line.answer()) == 4
        assert held.short == 2, "the first and the last had nobody before them"
        held.go.clear()
        line.send(request(f"/api/v1/{DECIDE}", {**site.headers("5"), "x-a": "1\r\nx-a: 2"}, BODY), site.decide("6"))
        assert line.silent()
        held.go.set()
        assert [step(line.answer()), step(line.answer())] == [5, 6]
        assert held.short == 2, "behind one that goes the long way"


def test_chunks_and_those_who_ask_first_take_the_long_way(sqlite: Database, held: Held) -> None:
    """A body in chunks, with or without what follows it; a client that waits to be told to go on; HTTP/1.0."""
    with served(sqlite) as site, site.line() as line:
        address = f"/api/v1/{DECIDE}"
        chunks = b"%x\r\n%b\r\n%x\r\n%b\r\n0\r\n" % (9, BODY[:9], len(BODY) - 9, BODY[9:])
        for number, trailer in enumerate((b"", b"x-later: 1\r\n"), start=1):
            headers = {**site.headers(str(number)), "transfer-encoding": "chunked"}
            line.send(request(address, headers), chunks[:7], chunks[7:] + trailer + b"\r\n")
            assert step(line.answer()) == number
        head = request(address, {**site.headers("3"), "expect": "100-continue", "content-length": str(len(BODY))})
        line.send(head)
        assert line.answer() == (b"HTTP/1.1 100 Continue", b"")
        line.send(BODY)
        assert step(line.answer()) == 3
        line.send(request(address, site.headers("4"), BODY, version="1.0"))
        assert step(line.answer()) == 4
        assert line.ended()
    assert held.short == 0


def test_a_connection_is_closed_when_the_client_says_so(sqlite: Database, held: Held) -> None:
    """`Connection: close` is heeded and said back; `keep-alive` is what happens anyway."""
    with served(sqlite) as site:
        with site.line() as line:
            line.send(request(f"/api/v1/{DECIDE}", {**site.headers("1"), "connection": "close"}, BODY))
            answer = line.answer()
            assert step(answer) == 1
            assert b"\r\nconnection: close" in answer[0]
            assert line.ended()
        with site.line() as line:
            for number in (2, 3):
                line.send(request(f"/api/v1/{DECIDE}", {**site.headers(str(number)), "Connection": "Keep-Alive"}, BODY))
                answer = line.answer()
                assert step(answer) == number
                assert b"connection" not in answer[0]
    assert held.short == 2


def test_other_methods_and_addresses_take_the_long_way(sqlite: Database, held: Held) -> None:
    """Also with everything else in order; the same answers as from uvicorn alone."""
    with served(sqlite) as site, site.line() as line:
        for method, status in (("GET", b"403"), ("PUT", b"405"), ("HEAD", b"405")):
            line.send(request(f"/api/v1/{DECIDE}", site.headers("1"), BODY, method=method))
            assert line.answer(bodiless=method == "HEAD")[0].startswith(b"HTTP/1.1 %b" % status)
        for path in (
            f"/api/v1/{DECIDE}?x=1",
            f"http://here/api/v1/{DECIDE}",
            "/api/v1/participants/P%30%301/decisions",
        ):
            line.send(request(path, site.headers(path), BODY))
            step(line.answer())
    assert held.short == 0
    assert decisions(sqlite) == 3


def test_a_large_body_takes_the_long_way(sqlite: Database, held: Held) -> None:
    """What is larger than is kept here is read by uvicorn; what is too large for anybody is refused."""
    with served(sqlite) as site, site.line() as line:
        for number, spaces in enumerate((60_000, 70_000), start=1):
            line.send(request(f"/api/v1/{DECIDE}", site.headers(str(number)), BODY + b" " * spaces))
            assert step(line.answer()) == number
        assert held.short == 1
        line.send(request(f"/api/v1/{DECIDE}", site.headers("3"), BODY + b" " * 3_000_000))
        assert line.answer()[0].startswith(b"HTTP/1.1 413")


@pytest.mark.parametrize("settings", [{"limit_concurrency": 100}, {"access_log": True}, {"root_path": "/study"}])
def test_what_uvicorn_is_told_to_do_is_done(
    sqlite: Database, held: Held, settings: dict[str, Any], caplog: pytest.LogCaptureFixture
) -> None:
    """With settings that the short way knows nothing of, it is not taken."""
    caplog.set_level(logging.INFO)
    with served(sqlite, **settings) as site, site.line() as line:
        line.send(site.decide("1"))
        line.answer()
    assert held.short == 0
    assert any(DECIDE in record.getMessage() for record in caplog.records) == ("access_log" in settings)


def test_a_key_is_forgotten_with_its_request(sqlite: Database, held: Held) -> None:
    """No connection keeps the key of the request that it waits for or has answered."""
    with served(sqlite) as site, site.line() as line:
        held.go.clear()
        line.send(site.decide("1"))
        held.until(1)
        for waiting in (True, False):
            connections: list[Any] = [*site.server.server_state.connections]
            connections = [one for one in connections if isinstance(one.cycle, Exchange)]
            kept = [vars(one) | {name: getattr(one.cycle, name) for name in Exchange.__slots__} for one in connections]
            assert len(kept) == 1
            assert kept[0]["response_complete"] is not waiting
            assert site.keys["app"] not in repr(kept)
            held.go.set()
            if waiting:
                step(line.answer())


def test_a_client_that_has_gone_is_not_missed(
    sqlite: Database, held: Held, caplog: pytest.LogCaptureFixture, capsys: pytest.CaptureFixture[str]
) -> None:
    """What it asked for is written all the same, nothing is logged, and others are answered."""
    with served(sqlite) as site:
        caplog.clear()
        held.go.clear()
        for number, rudely in enumerate((False, True, True)):
            line = Line(site.port)
            line.send(site.decide(str(number)))
            held.until(number + 1)
            line.close(rudely=rudely)
        with site.line() as half:
            half.send(site.decide("half")[:-5])
            time.sleep(0.1)
        with site.line() as line:
            time.sleep(0.1)
            assert len(site.server.server_state.connections) == 1, "the others are known to have gone"
            held.go.set()
            line.send(site.decide("4"))
            assert step(line.answer()) == 4
    assert decisions(sqlite) == 4
    assert [record for record in caplog.records if record.levelno >= logging.WARNING] == []
    assert "error" not in capsys.readouterr().out


def test_a_server_that_ends_answers_what_it_has_taken(sqlite: Database, held: Held) -> None:
    """Also what is not all here yet; it says that it closes, and does; idle connections are closed at once."""
    with served(sqlite, timeout_keep_alive=60) as site, contextlib.ExitStack() as stack:
        lines = [stack.enter_context(site.line()) for _ in range(20)]
        idle, fresh, late, bad = lines[16:]
        idle.send(site.decide("idle"))
        step(idle.answer())
        held.go.clear()
        for number, line in enumerate(lines[:16]):
            line.send(site.decide(str(number)))
        late.send(site.decide("late")[:-1])
        bad.send(site.decide("bad")[:-1])
        held.until(17)
        site.end()
        assert idle.ended()
        assert fresh.ended()
        assert site.thread.is_alive(), "it waits for the others"
        late.send(b"}")
        bad.send(b"]")
        held.until(18)
        held.go.set()
        answers = [line.answer() for line in (*lines[:16], late)]
        assert sorted(step(answer) for answer in answers) == list(range(2, 19))
        refused = bad.answer()
        assert refused[0].startswith(b"HTTP/1.1 400")
        assert all(b"\r\nconnection: close" in head for head, _ in answers)
        assert all(line.ended() for line in (*lines[:16], late, bad))
        site.thread.join(10)
        assert not site.thread.is_alive()
    assert decisions(sqlite) == 18


def test_idle_connections_are_closed_after_a_while(sqlite: Database, held: Held) -> None:
    """Counted from the last answer, not from before it."""
    with served(sqlite, timeout_keep_alive=1) as site, site.line() as line:
        line.send(site.decide("1"))
        step(line.answer())
        held.go.clear()
        line.send(site.decide("2"))
        assert line.silent(1.3), "a client that waits for its answer is not idle"
        held.go.set()
        assert step(line.answer()) == 2
        answered = time.monotonic()
        assert line.ended()
        assert time.monotonic() - answered > 0.8


def test_a_client_that_does_not_read_is_not_answered_for_ever(
    sqlite: Database, held: Held, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Once its answers pile up here, the next request waits until it reads; then all arrive, in order."""

    def padded(_writer: Writer, commands: Any) -> list[Reply]:
        return [Reply(201, command.key.encode().ljust(SIZE)) for command in commands]

    with served(sqlite) as site, site.line() as line:
        monkeypatch.setattr(Writer, "write", padded)
        state, most = site.server.server_state, 0
        before = state.total_requests
        for number in range(1, 1000):
            line.send(site.decide(f"{number:04d}"))
            end = time.monotonic() + (10.0 if number == 1 else 1.0)
            while state.total_requests < before + number and time.monotonic() < end:
                time.sleep(0.001)
            most = max(most, *(one.transport.get_write_buffer_size() for one in [*state.connections]))
            if state.total_requests < before + number:
                break
        assert 1 < number < 999, "it was held up at last"
        assert most < 64 * 1024 + 2 * SIZE, "and little is kept here"
        assert held.short == number - 1
        for asked in range(1, number + 1):
            assert line.answer()[1].startswith(b"app one:%04d " % asked)
        line.send(site.decide("more"))
        assert line.answer()[1].startswith(b"app one:more ")
        assert held.short == number, "the short way again"


def test_what_uvicorn_looks_at_in_a_request_is_there() -> None:
    """An exchange stands in for uvicorn's account of a request: it must have all that uvicorn's protocol asks of it."""
    tree = ast.parse(textwrap.dedent(inspect.getsource(HttpToolsProtocol)))
    names = {"self.cycle", "existing_cycle"}
    looked_at = {
        node.attr for node in ast.walk(tree) if isinstance(node, ast.Attribute) and ast.unparse(node.value) in names
    }
    assert "response_complete" in looked_at, "the control: uvicorn's class still keeps account so"
    handed_over = {"body", "more_body", "run_asgi"}  # of uvicorn's own alone
    missing = sorted(name for name in looked_at - handed_over if not hasattr(Exchange, name))
    version = uvicorn.__version__
    assert not missing, (
        f"uvicorn {version} looks at {missing} of a request: see opportune.service.api.protocol.Exchange"
    )
    called = {"on_message_begin", "on_url", "on_header", "on_headers_complete", "on_body", "on_message_complete"}
    gone = sorted(name for name in {*called, "on_response_complete"} if not hasattr(HttpToolsProtocol, name))
    assert not gone, f"uvicorn {version} has no {gone} any more: see opportune.service.api.protocol.Protocol"
    known = set(inspect.signature(HttpToolsProtocol).parameters)
    assert {"config", "server_state", "app_state"} <= known, f"uvicorn {version} makes protocols from {sorted(known)}"


@pytest.mark.parametrize("workers", [1, 2])
def test_servers_take_the_short_way(monkeypatch: pytest.MonkeyPatch, workers: int) -> None:
    """`opportune serve` with one worker and with several, which get their settings from another process."""
    settings: dict[str, Any] = {}
    nothing = contextlib.nullcontext
    database = SimpleNamespace(sqlite=workers == 1, held=nothing, close=nothing)
    monkeypatch.setattr(uvicorn, "run", lambda _app, **given: settings.update(given))
    monkeypatch.setattr(server, "Database", lambda _url: database)
    for name in ("running_of", "app_from_environment"):
        monkeypatch.setattr(server, name, nothing)
    monkeypatch.setattr(server, "work_out_beside", lambda _url, _running: None)
    monkeypatch.setattr(os, "environ", {})
    server.serve("", host="127.0.0.1", port=1, workers=workers)
    assert settings["http"] is Protocol
    assert pickle.loads(pickle.dumps(settings["http"])) is Protocol
