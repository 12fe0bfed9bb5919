"""What was answered to requests, by their keys, so that a retry gets the same bytes.

It is filed in `requests` by key. Keys come in no order, so each costs a page of their index that must be written, which
in SQLite is a good part of what a decision costs. There, where one process writes, recent answers stand in `recent`
in the order in which they came, with their keys in memory, and are filed while nobody writes; a few with each batch
once there are many.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

from sqlalchemy import Connection

from opportune.service import tables
from opportune.service.statements import find, find_all, insert_values

MOST_RECENT = 250_000
"""Keys that are held in memory: some 36 MB, and a minute of as many decisions as a service can make."""
AT_ONCE = 500
"""Answers that are filed in one transaction, while nobody writes."""
_COLUMNS = "key, fingerprint, status, answer"
Row = tuple[str, str, int, bytes]
"""Key, fingerprint, status, answer."""


class Recent:
    """Where recent answers stand, as of the transactions that are committed.

    The latest always stays, so that numbers only grow: as long as the last is the same, nothing was added.
    """

    def __init__(self) -> None:
        self.places: dict[str, int] = {}
        """By key; an answer that was filed meanwhile need not be there any more."""
        self.last = 0

    def catch_up(self, connection: Connection) -> None:
        """Take in what was added since, such as by the process before this one."""
        last = find(connection, "SELECT max(id) FROM recent")[0][0] or 0
        if last != self.last:
            found = find(connection, "SELECT key, id FROM recent WHERE id > ?", (self.last,))
            self.places.update(found)
            self.last = last

    def look_up(self, connection: Connection, keys: Sequence[str]) -> list[dict[str, Any]]:
        """The rows of some keys, wherever they stand."""
        places = [place for key in keys if (place := self.places.get(key)) is not None]
        found = find_all(connection, tables.recent, "id", places)
        known = {row["key"] for row in found}
        return found + find_all(connection, tables.requests, "key", [key for key in keys if key not in known])

    def add(self, connection: Connection, rows: Sequence[Row]) -> None:
        """Store answers; they count as here once that is `committed`."""
        insert_values(connection, tables.recent, [(place, *row) for place, row in enumerate(rows, self.last + 1)])

    def committed(self, rows: Sequence[Row], filed: Sequence[str]) -> None:
        """What was added, and what was filed, is durable."""
        self.places.update((row[0], place) for place, row in enumerate(rows, self.last + 1))
        self.last += len(rows)
        for key in filed:
            self.places.pop(key, None)

    def file(self, connection: Connection, most: int) -> list[str]:
        """File the earliest answers by their keys; which."""
        wanted = "SELECT id, key FROM recent WHERE id < (SELECT max(id) FROM recent) ORDER BY id LIMIT ?"
        found = find(connection, wanted, (most,))
        if found:
            up_to = (found[-1][0],)
            filing = f"INSERT INTO requests ({_COLUMNS}) SELECT {_COLUMNS} FROM recent WHERE id <= ? ORDER BY key"
            connection.exec_driver_sql(filing, up_to)
            connection.exec_driver_sql("DELETE FROM recent WHERE id <= ?", up_to)
        return [key for _, key in found]


class Answer(NamedTuple):
    """What was answered, and a fingerprint of what it was answered to."""

    fingerprint: str
    status: int
    body: bytes


class Answers:
    """What one transaction answers, and what was answered before under the keys that it is about."""

    def __init__(self, connection: Connection, recent: Recent | None) -> None:
        self.connection = connection
        self._recent = recent
        self._known: dict[str, Answer] = {}
        self._new: list[Row] = []
        self._filed: list[str] = []
        if recent is not None:
            recent.catch_up(connection)

    def read(self, keys: Sequence[str]) -> None:
        """Look up some keys at once."""
        if self._recent is None:
            found = find_all(self.connection, tables.requests, "key", keys)
        else:
            found = self._recent.look_up(self.connection, keys)
        for row in found:
            self._known[row["key"]] = Answer(row["fingerprint"], row["status"], row["answer"])

    def before(self, key: str) -> Answer | None:
        """What was answered under a key that was looked up, if anything was."""
        return self._known.get(key)

    def keep(self, key: str, answer: Answer) -> None:
        """Keep an answer under its key."""
        self._known[key] = answer
        self._new.append((key, *answer))

    def file(self, most: int) -> int:
        """File what was answered lately by its keys; how many."""
        if self._recent is not None:
            self._filed += self._recent.file(self.connection, most)
        return len(self._filed)

    def write(self) -> None:
        """Store what is new."""
        if self._new and self._recent is None:
            insert_values(self.connection, tables.requests, self._new)
        elif self._new and self._recent is not None:
            self._recent.add(self.connection, self._new)
            if len(self._recent.places) > MOST_RECENT:
                self.file(2 * len(self._new))

    def committed(self) -> None:
        """What was written is durable."""
        if self._recent is not None:
            self._recent.committed(self._new, self._filed)
