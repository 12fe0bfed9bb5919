"""The short way over the line: what is plainly in order goes from the connection to the writer and back at once.

uvicorn reads HTTP and hands each request to the application as a task of its own, with queues of messages to and fro;
that took half of a decision's time. Here a decision, answer or reward that is whole and plainly in order
(`service.api.quick`) becomes a command as soon as its last byte is read, and its answer is written in one piece by the
call that brings the reply. Everything else is handed to uvicorn as if it had just been read: other requests, HTTP/1.0,
bodies in chunks, connections that are to be closed, requests behind one that is not answered yet, clients that do not
read what they are sent.

An `Exchange` takes the place of uvicorn's own account of a request, so that what uvicorn does about connections stays
uvicorn's: requests in a row are answered in order, idle connections are closed after a while, and a server that ends
waits for what it has taken.
"""

import time
from functools import lru_cache, partial
from http import HTTPStatus
from typing import Any

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

from opportune.service.api import quick
from opportune.service.api.quick import Asked
from opportune.service.api.shared import SERVICE
from opportune.service.api.watching import note
from opportune.service.service import Service
from opportune.service.writer import Reply

MOST_BYTES = 64 * 1024
"""A longer body goes the long way, which reads no faster than it is taken."""
_HELD_UP = frozenset((b"expect", b"transfer-encoding", b"upgrade"))


class Exchange:
    """A request that goes the short way, until it is answered; uvicorn looks at it as at one of its own."""

    __slots__ = ("asked", "began", "body", "disconnected", "keep_alive", "response_complete")

    def __init__(self, asked: Asked) -> None:
        self.asked = asked
        self.began = time.perf_counter()
        self.body = bytearray()
        self.disconnected = False
        self.keep_alive = True
        self.response_complete = False

    @property
    def message_event(self) -> "Exchange":
        """What is to be told when the client has gone."""
        return self

    def set(self) -> None:
        """Nobody waits for that."""


class Protocol(HttpToolsProtocol):
    """uvicorn's HTTP, with a short way for what comes most."""

    def __init__(self, *arguments: Any, **settings: Any) -> None:
        super().__init__(*arguments, **settings)
        plain = self.limit_concurrency is None and not self.access_log and not self.root_path
        self._service: Service | None = self.app_state.get(SERVICE) if plain else None
        self._address = b""
        self._heads: list[tuple[bytes, bytes]] | None = None
        self._exchange: Exchange | None = None

    def on_message_begin(self) -> None:
        """A request begins: it is kept until its headers are all here."""
        self._address, self._heads, self._exchange = b"", [], None

    def on_url(self, url: bytes) -> None:
        """A piece of its address."""
        self._address += url

    def on_header(self, name: bytes, value: bytes) -> None:
        """One of its headers, or of what follows its body."""
        if self._heads is None:
            super().on_header(name, value)
        else:
            self._heads.append((name, value))

    def on_headers_complete(self) -> None:
        """Its body follows: the short way or the long one?"""
        asked = None if self._service is None else self._asked(self._service)
        if asked is None:
            self._hand_over()
        else:
            self.cycle = self._exchange = Exchange(asked)  # type: ignore[assignment]  # it has what is looked at

    def on_body(self, body: bytes) -> None:
        """A piece of its body."""
        if self._exchange is None:
            super().on_body(body)
        else:
            self._exchange.body += body

    def on_message_complete(self) -> None:
        """It is all here."""
        exchange, service = self._exchange, self._service
        if exchange is None or service is None:
            super().on_message_complete()
            return
        command = quick.command_of(service, exchange.asked, exchange.body)
        if command is not None:
            self._heads = None  # a key is not kept longer than it is needed
            service.writer.submit_then(command, partial(self._answer, exchange), self.loop)
            return
        self._exchange, exchange.response_complete = None, True
        self._hand_over()
        self.cycle.keep_alive = self.cycle.keep_alive and exchange.keep_alive  # the server may be about to end
        if exchange.body:
            super().on_body(bytes(exchange.body))
        super().on_message_complete()

    def _asked(self, service: Service) -> Asked | None:
        """What is asked for, if it may go the short way."""
        before: Any = self.cycle
        if (before is not None and not before.response_complete) or self.flow.write_paused:
            return None
        if self.parser.get_method() != b"POST" or self.parser.get_http_version() != "1.1":
            return None
        heads = self._heads or []
        headers = {name.lower(): value for name, value in heads}
        if len(headers) < len(heads) or not _HELD_UP.isdisjoint(headers):
            return None
        if headers.get(b"connection", b"keep-alive").lower() != b"keep-alive":
            return None
        if int(headers.get(b"content-length", b"0")) > MOST_BYTES:
            return None
        return quick.asked_of(service, self._address, headers)

    def _hand_over(self) -> None:
        """Tell uvicorn what was read so far; what follows it reads itself."""
        heads, self._heads = self._heads or [], None
        super().on_message_begin()
        super().on_url(self._address)
        for name, value in heads:
            super().on_header(name, value)
        super().on_headers_complete()

    def _answer(self, exchange: Exchange, reply: Reply | Exception) -> None:
        """Answer, if anybody is still there."""
        status, headers, body = quick.answer_of(reply)
        note(exchange.asked.kind.operation, status, time.perf_counter() - exchange.began)
        exchange.response_complete = True
        if exchange.disconnected or self.transport.is_closing():
            return
        head = _head(status, (*self.server_state.default_headers, *headers))
        if exchange.keep_alive:
            self.transport.write(b"%b%d\r\n\r\n%b" % (head, len(body), body))
        else:
            self.transport.write(b"%b%d\r\nconnection: close\r\n\r\n%b" % (head, len(body), body))
            self.transport.close()
        self.on_response_complete()


@lru_cache(maxsize=64)
def _head(status: int, headers: tuple[tuple[bytes, bytes], ...]) -> bytes:
    """An answer up to the length of its body."""
    lines = b"".join(b"%b: %b\r\n" % header for header in headers)
    return b"HTTP/1.1 %d %b\r\n%bcontent-length: " % (status, HTTPStatus(status).phrase.encode(), lines)
