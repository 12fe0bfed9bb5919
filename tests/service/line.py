"""A server in this process, and connections to it byte by byte."""

import contextlib
import re
import socket
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any
from unittest import mock

import uvicorn
from servers import free_port
from site_over_http import SENSED
from study_text import study_text

from opportune.service import auth
from opportune.service.api.app import create_app
from opportune.service.api.protocol import Protocol
from opportune.service.auth import ROLES, add_key
from opportune.service.database import Database
from opportune.service.problems import as_json
from opportune.service.running import Running
from opportune.service.server import launch
from opportune.service.service import Service

DECIDE = "participants/P001/decisions"
NOON = "2026-03-29T12:00:00Z"
JSON = {"content-type": "application/json"}


def request(
    path: str, headers: dict[str, str], body: bytes | None = None, *, method: str = "POST", version: str = "1.1"
) -> bytes:
    """A request as it goes over the line; without a body its length is not told."""
    length = {} if body is None else {"content-length": str(len(body))}
    lines = [f"{method} {path} HTTP/{version}", "Host: here", *(f"{k}: {v}" for k, v in {**headers, **length}.items())]
    return "\r\n".join([*lines, "", ""]).encode() + (body or b"")


class Line:
    """A connection."""

    def __init__(self, port: int) -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=20)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._read = b""

    def send(self, *pieces: bytes, pause: float = 0.002) -> None:
        """Send, each piece by itself."""
        for number, piece in enumerate(pieces):
            if number:
                time.sleep(pause)
            self.socket.sendall(piece)

    def answer(self, *, bodiless: bool = False) -> tuple[bytes, bytes]:
        """The next answer: its head and its body; some have none, whatever length they tell."""
        while b"\r\n\r\n" not in self._read:
            self._more()
        head, _, self._read = self._read.partition(b"\r\n\r\n")
        length = re.search(rb"content-length: (\d+)", head)
        wanted = 0 if length is None or bodiless else int(length.group(1))
        while len(self._read) < wanted:
            self._more()
        body, self._read = self._read[:wanted], self._read[wanted:]
        return head, body

    def _more(self) -> None:
        got = self.socket.recv(1 << 20)
        if not got:
            raise ConnectionError(f"closed after {self._read!r}")
        self._read += got

    def silent(self, seconds: float = 0.2) -> bool:
        """Whether nothing comes for a while: no answer, and no end."""
        self.socket.settimeout(seconds)
        try:
            self._more()
        except TimeoutError:
            return not self._read
        finally:
            self.socket.settimeout(20)
        return False

    def ended(self) -> bool:
        """Whether the server closes the connection, with nothing left to read."""
        return not self._read and self.socket.recv(1) == b""

    def close(self, *, rudely: bool = False) -> None:
        """Close; rudely: without saying goodbye."""
        if rudely:
            self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        self.socket.close()


@dataclass
class Served:
    """A server that runs, with a key for each role."""

    port: int
    keys: dict[str, str]
    service: Service
    server: uvicorn.Server
    thread: threading.Thread

    def headers(self, key: str, role: str = "app") -> dict[str, str]:
        """What a plain request carries."""
        return {"authorization": f"Bearer {self.keys[role]}", "idempotency-key": key, **JSON}

    def decide(self, key: str, **body: Any) -> bytes:
        """A request for a decision, plainly in order."""
        return request(f"/api/v1/{DECIDE}", self.headers(key), as_json({"sensed": SENSED, **body}))

    @contextlib.contextmanager
    def line(self) -> Iterator[Line]:
        """A connection, while this lasts."""
        found = Line(self.port)
        try:
            yield found
        finally:
            found.close()

    def end(self) -> None:
        """Have the server end, as a signal would."""
        self.server.should_exit = True


@contextlib.contextmanager
def served(database: Database, *, http: Any = Protocol, rehearsal: bool = False, **settings: Any) -> Iterator[Served]:
    """A server with the example study and P001; keys are known, and stay so however slow the machine is."""
    launch(database, Running.from_text(study_text()))
    keys = {role: add_key(database, f"{role} one", role) for role in ROLES}
    service, port = Service(database, rehearsal=rehearsal), free_port()
    options = {"log_config": None, "access_log": False, "http": http, **settings}
    server = uvicorn.Server(uvicorn.Config(create_app(service), port=port, **options))
    thread = threading.Thread(target=server.run, daemon=True)
    thread.start()
    end = time.monotonic() + 20
    while not server.started and time.monotonic() < end:
        time.sleep(0.01)
    found = Served(port, keys, service, server, thread)
    try:
        with mock.patch.object(auth, "FRESH_SECONDS", 3600.0), found.line() as line:
            for role in ROLES:
                assert service.keys.find(keys[role])
            line.send(request("/api/v1/participants", found.headers("e", "staff"), as_json({"participant": "P001"})))
            assert line.answer()[0].startswith(b"HTTP/1.1 201")
            line.close()
            yield found
    finally:
        found.end()
        thread.join(20)
    assert not thread.is_alive(), "the server has ended"
