"""Stored answers to requests, by caller and idempotency key, so that a retry gets the same bytes."""

from collections.abc import Iterable
from typing import NamedTuple

from sqlalchemy import Connection, bindparam, insert, select

from opportune.service.record import tables

Key = tuple[str, str]
"""The caller's name, and the idempotency key that the caller chose."""


_REQUESTS = tables.requests
_KNOWN = select(*_REQUESTS.c).where(
    _REQUESTS.c.caller == bindparam("name"), _REQUESTS.c.key.in_(bindparam("names", expanding=True))
)
_ADD = insert(_REQUESTS)


class Answer(NamedTuple):
    """A stored answer, and the fingerprint of its request."""

    fingerprint: str
    status: int
    body: bytes


class Answers:
    """The answers that one transaction looks up and adds."""

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._known: dict[Key, Answer] = {}
        self._new: list[Key] = []

    def read(self, keys: Iterable[Key]) -> None:
        """Look up the answers to these requests, one query per caller: SQLite uses no index for `IN` over pairs."""
        wanted: dict[str, list[str]] = {}
        for caller, key in keys:
            wanted.setdefault(caller, []).append(key)
        for caller, names in wanted.items():
            for _, key, *answer in self._connection.execute(_KNOWN, {"name": caller, "names": names}):
                self._known[caller, key] = Answer(*answer)

    def find(self, key: Key) -> Answer | None:
        """The stored answer to a request that was looked up; None if the request is new."""
        return self._known.get(key)

    def add(self, key: Key, answer: Answer) -> None:
        """Store an answer with this transaction."""
        self._known[key] = answer
        self._new.append(key)

    def write(self) -> None:
        """Insert the new answers."""
        if self._new:
            rows = [{"caller": key[0], "key": key[1], **_row(self._known[key])} for key in self._new]
            self._connection.execute(_ADD, rows)


def _row(answer: Answer) -> dict[str, object]:
    return {"fingerprint": answer.fingerprint, "status": answer.status, "answer": answer.body}
