"""How a rehearsal reaches a study: over HTTP, several requests at once."""

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
"""Requests at a time."""


class Write(NamedTuple):
    """Something that participants, apps or staff do, about a participant or a decision."""

    kind: str
    about: str
    body: dict[str, Any]
    key: str
    """Does not change when the write is tried again, also after an interruption, so that it happens once."""


class Access(Protocol):
    """What a rehearsal needs of a study."""

    def write(self, writes: Sequence[Write], at: dt.datetime) -> "list[dict[str, Any] | ServiceError]":
        """Have things done at a time; each is answered or refused."""

    def set_time(self, at: dt.datetime) -> None:
        """Say what time it is."""

    def participants(self) -> Iterable[dict[str, Any]]:
        """Everyone who takes part."""

    def decisions(self, participant: str) -> Iterable[dict[str, Any]]:
        """A participant's decisions, in their order."""

    def decision(self, decision: str) -> dict[str, Any]:
        """One decision."""

    def calls(self) -> Iterable[dict[str, Any]]:
        """The decisions that wait for someone to reach the participant, the most urgent first."""


class HttpAccess:
    """A service that runs in rehearsal. With `in_order` one request at a time, in the order given."""

    def __init__(self, client: Client, *, in_order: bool) -> None:
        self.client = client
        self.seconds: list[float] = []
        """How long each decision took, from here."""
        self._lock = threading.Lock()
        self._pool = ThreadPoolExecutor(1 if in_order else AT_ONCE, thread_name_prefix="rehearsal")

    def __enter__(self) -> Self:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        self._pool.shutdown(wait=kind is None, cancel_futures=True)

    def write(self, writes: Sequence[Write], at: dt.datetime) -> "list[dict[str, Any] | ServiceError]":
        """Have things done, those that wait for each other least first."""
        self.client.rehearsal_time = at
        if writes and writes[0].kind == ENROL:  # numbers follow from the order
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
        """Any request says it."""
        self.client.rehearsal_time = at
        self.client.get("study")

    def participants(self) -> Iterable[dict[str, Any]]:
        """Page by page."""
        return self.client.pages("participants")

    def decisions(self, participant: str) -> Iterable[dict[str, Any]]:
        """Page by page."""
        return self.client.pages(f"participants/{participant}/decisions")

    def decision(self, decision: str) -> dict[str, Any]:
        """As it stands."""
        return self.client.get(f"decisions/{decision}")

    def calls(self) -> Iterable[dict[str, Any]]:
        """Page by page."""
        return self.client.pages("calls")
