"""The nudges that staff have seen: on the call list, one by one, or by taking the call.

This is stored outside the record, because no decision depends on it. Requests note what they show; a write every few
seconds stores it.
"""

import threading
from collections.abc import Iterable, Mapping
from typing import Any

from sqlalchemy import select

from opportune.service.record import tables
from opportune.service.record.database import Database, insert_if_missing
from opportune.service.state import clock

_MOST_KNOWN = 100_000


class ViewedNudges:
    """Notes nudges that are shown to people who can act on them."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lock = threading.Lock()
        self._known: set[str] = set()
        self._waiting: dict[str, int] = {}

    def note(self, rows: Iterable[Mapping[str, Any]]) -> None:
        """Note that these rows of `decisions` are shown now; rows without an open nudge are ignored."""
        now = clock.now()
        with self._lock:
            for row in rows:
                if row["status"] == "nudge" and row["id"] not in self._known:
                    self._waiting.setdefault(row["id"], now)

    def write(self) -> None:
        """Store what was noted."""
        with self._lock:
            waiting, self._waiting = self._waiting, {}
            if len(self._known) > _MOST_KNOWN:
                self._known.clear()
        if not waiting:
            return
        table = tables.viewed
        with self._database.writing.begin() as connection:
            there = set(connection.execute(select(table.c.decision).where(table.c.decision.in_(waiting))).scalars())
            rows = [{"decision": name, "at": at} for name, at in waiting.items() if name not in there]
            if rows:
                connection.execute(insert_if_missing(connection, table), rows)
        with self._lock:
            self._known.update(waiting)
