"""Who looked at what: every read by a person or a key. Writes and downloads are in the record instead."""

import threading
from collections import deque
from collections.abc import Iterable
from typing import Any, NamedTuple

from sqlalchemy import insert, select

from opportune.service.accounts.keys import Caller
from opportune.service.record import tables
from opportune.service.record.database import Database

MOST_WAITING = 100_000
"""How many entries are kept while the database cannot be written; beyond that, the oldest are dropped."""
_ACCESS = tables.access


class Look(NamedTuple):
    """An entry: someone looked at something."""

    at: int
    who: str
    role: str
    address: str
    what: str
    participant: str | None
    number: int | None
    """The participant's number, if a page about one participant was opened."""


class AccessLog:
    """Notes who looks at what, and writes it to the database every few seconds."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lock = threading.Lock()
        self._waiting: deque[Look] = deque(maxlen=MOST_WAITING)

    def note(self, caller: Caller, *, at: int, address: str, what: str, about: dict[str, Any]) -> None:
        """Note a read of an address; `about` holds the parameters in its path."""
        participant, number = about.get("participant"), about.get("number")
        look = Look(at, caller.name, caller.role, address, what[:200], participant and str(participant)[:64], number)
        with self._lock:
            self._waiting.append(look)

    def write(self) -> None:
        """Write the noted entries to the database."""
        with self._lock:
            noted, self._waiting = self._waiting, deque(maxlen=MOST_WAITING)
        if not noted:
            return
        try:
            self._insert(noted)
        except Exception:
            with self._lock:
                self._waiting.extendleft(reversed(noted))
            raise

    def _insert(self, noted: Iterable[Look]) -> None:
        table = tables.participants.c
        with self._database.writing.begin() as connection:
            numbers = {look.number for look in noted if look.number is not None}
            known = select(table.number, table.name).where(table.number.in_(numbers))
            names = {row.number: row.name for row in connection.execute(known)} if numbers else {}
            rows = [look._asdict() for look in noted]
            for row in rows:
                number = row.pop("number")
                row["participant"] = row["participant"] or names.get(number)
            connection.execute(insert(_ACCESS), rows)

    def read(
        self, *, before: int | None = None, who: str = "", participant: str = "", limit: int = 100
    ) -> list[dict[str, Any]]:
        """Entries, the latest first, optionally only those by `who` or about `participant`."""
        query = select(_ACCESS)
        if before is not None:
            query = query.where(_ACCESS.c.id < before)
        if who:
            query = query.where(_ACCESS.c.who == who)
        if participant:
            query = query.where(_ACCESS.c.participant == participant)
        with self._database.reading.connect() as connection:
            found = connection.execute(query.order_by(_ACCESS.c.id.desc()).limit(limit)).mappings()
            return [dict(row) for row in found]
