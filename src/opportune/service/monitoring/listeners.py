"""Listeners for a participant's events: one query of the record every half second serves all of them.

A listener costs an `asyncio.Event`, but no thread and no connection. All servers share the record, so a client can
listen at any of them and resume anywhere from the number of its last event.
"""

import asyncio
import contextlib
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import TypeVar

from sqlalchemy import select

from opportune.service.monitoring.logs import described, log_sparingly
from opportune.service.record import events, tables
from opportune.service.record.database import Database

LOOK_SECONDS = 0.5
AT_ONCE = 4
"""How many listeners read at the same time; after a restart all of them reconnect at once."""
_EVENTS = tables.events.c
Found = TypeVar("Found")


class Listeners:
    """Wakes the listeners in this process's event loop."""

    def __init__(self, database: Database, stopping: Callable[[], bool]) -> None:
        self._database, self._stopping = database, stopping
        self._waiting: dict[str | None, set[asyncio.Event]] = defaultdict(set)
        self._task: asyncio.Task[None] | None = None
        self._reading: asyncio.Semaphore | None = None

    def __len__(self) -> int:
        return sum(map(len, self._waiting.values()))

    @contextlib.contextmanager
    def listening(self, participant: str) -> Iterator[asyncio.Event]:
        """An event that is set when something happens to a participant or to the study, or when the server stops.

        A listener that reads the record inside this context and then waits misses nothing.
        """
        mine = asyncio.Event()
        self._waiting[participant].add(mine)
        if self._task is None or self._task.done():
            self._task = asyncio.get_running_loop().create_task(self._look())
        try:
            yield mine
        finally:
            self._waiting[participant].discard(mine)
            if not self._waiting[participant]:
                del self._waiting[participant]

    async def read(self, function: Callable[[], Found]) -> Found:
        """Read from the database for a listener, in a thread and only a few at a time."""
        if self._reading is None:
            self._reading = asyncio.Semaphore(AT_ONCE)
        async with self._reading:
            return await asyncio.to_thread(function)

    async def _look(self) -> None:
        """While anybody listens, look for new events and wake the listeners they concern."""
        known: int | None = None
        while self._waiting and not self._stopping():
            try:
                known, about = await asyncio.to_thread(self._since, known)
            except Exception as error:  # the database may be unavailable for a while
                log_sparingly("new events could not be read", **described(error))
                about = set()
            for name in self._waiting if None in about else about & self._waiting.keys():
                for mine in self._waiting[name]:
                    mine.set()
            await asyncio.sleep(LOOK_SECONDS)
        for waiting in self._waiting.values():
            for mine in waiting:
                mine.set()

    def _since(self, known: int | None) -> tuple[int, set[str | None]]:
        """The last event, and the participants that newer events concern; None among them stands for everybody.

        Everybody is woken at the first look, and when a restored backup has made the record shorter.
        """
        with self._database.reading.connect() as connection:
            last = connection.execute(select(tables.study.c.seq)).scalar() or 0
            if known is None or last < known:
                return last, {None}
            if last == known:
                return last, set()
            heard = _EVENTS.participant.is_not(None) | _EVENTS.kind.in_(events.ABOUT_ALL)
            query = select(_EVENTS.participant).where(_EVENTS.seq > known, heard).distinct()
            return last, set(connection.execute(query).scalars())
