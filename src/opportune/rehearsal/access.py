"""How a rehearsal reaches a study, and the access over HTTP with several requests at once."""

import datetime as dt
import threading
import time
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from types import TracebackType
from typing import Any, NamedTuple, Protocol, Self

from opportune.client import Client, ServiceError

ENROL, DECIDE, ANSWER, REWARD, STATUS, NOTE = "enrol", "decide", "answer", "reward", "status", "note"
ADDRESSES = {
    ENROL: ("POST", "participants"),
    DECIDE: ("POST", "participants/{}/decisions"),
    ANSWER: ("POST", "decisions/{}/answer"),
    REWARD: ("POST", "decisions/{}/reward"),
    STATUS: ("PATCH", "participants/{}"),
    NOTE: ("POST", "participants/{}/notes"),
}
AT_ONCE = 16
"""The number of requests at a time."""


class Write(NamedTuple):
    """An action of participants, apps or staff, about a participant or a decision."""

    kind: str
    about: str
    body: dict[str, Any]
    key: str
    """The idempotency key: the same when the write is retried, even after an interruption, so that it happens once."""


class Access(Protocol):
    """What a rehearsal needs of a study."""

    def write(self, writes: Sequence[Write], at: dt.datetime) -> "list[dict[str, Any] | ServiceError]":
        """Carry out writes at this time; returns an answer or a refusal for each."""

    def set_time(self, at: dt.datetime) -> None:
        """Set the study's time."""

    def participants(self) -> Iterable[dict[str, Any]]:
        """All participants."""

    def decisions(self, participant: str) -> Iterable[dict[str, Any]]:
        """A participant's decisions, by step."""

    def decision(self, decision: str) -> dict[str, Any]:
        """One decision."""

    def calls(self) -> Iterable[dict[str, Any]]:
        """The decisions that wait for someone to reach the participant, the most urgent first."""


class HttpAccess:
    """Access to a running service in rehearsal; with `in_order`, one request at a time, in the order given."""

    def __init__(self, client: Client, *, in_order: bool) -> None:
        self.client = client
        self.seconds: list[float] = []
        """How long each request for a decision took."""
        self._lock = threading.Lock()
        self._pool = ThreadPoolExecutor(1 if in_order else AT_ONCE, thread_name_prefix="rehearsal")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._pool.shutdown(wait=kind is None, cancel_futures=True)

    def write(self, writes: Sequence[Write], at: dt.datetime) -> "list[dict[str, Any] | ServiceError]":
        """Carry out writes at this time, in parallel unless `in_order`."""
        self.client.rehearsal_time = at
        if writes and writes[0].kind == ENROL:  # the order determines participants' numbers
            return [self._send(write) for write in writes]
        return list(self._pool.map(self._send, writes))

    def _send(self, write: Write) -> "dict[str, Any] | ServiceError":
        method, path = ADDRESSES[write.kind]
        begin = time.perf_counter()
        try:
            return self.client.write(
                method, path.format(write.about), write.body, f"rehearsal.{write.kind}.{write.key}"
            )
        except ServiceError as refused:
            return refused
        finally:
            if write.kind == DECIDE:
                with self._lock:
                    self.seconds.append(time.perf_counter() - begin)

    def set_time(self, at: dt.datetime) -> None:
        """Set the study's time, which any request does."""
        self.client.rehearsal_time = at
        self.client.get("study")

    def participants(self) -> Iterable[dict[str, Any]]:
        """All participants, fetched page by page."""
        return self.client.pages("participants")

    def decisions(self, participant: str) -> Iterable[dict[str, Any]]:
        """A participant's decisions, fetched page by page."""
        return self.client.pages(f"participants/{participant}/decisions")

    def decision(self, decision: str) -> dict[str, Any]:
        """One decision."""
        return self.client.get(f"decisions/{decision}")

    def calls(self) -> Iterable[dict[str, Any]]:
        """Open calls, fetched page by page."""
        return self.client.pages("calls")
