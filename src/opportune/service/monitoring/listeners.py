"""Those who wait for what happens to a participant: one look at the record for all of them, every half second.

A listener costs an `asyncio.Event`: no thread and no connection. The record is the same for all servers, so it does
not matter which of them someone listens at, and where one went on is the number of an event.
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
"""Listeners who read at the same time: when a server starts again all of them come at once."""
_EVENTS = tables.events.c
Found = TypeVar("Found")


class Listeners:
    """Wakes whoever listens, in the event loop of this process."""

    def __init__(self, database: Database, stopping: Callable[[], bool]) -> None:
        self._database, self._stopping = database, stopping
        self._waiting: dict[str | None, set[asyncio.Event]] = defaultdict(set)
        self._task: asyncio.Task[None] | None = None
        self._reading: asyncio.Semaphore | None = None

    def __len__(self) -> int:
        return sum(map(len, self._waiting.values()))

    @contextlib.contextmanager
    def listening(self, participant: str) -> Iterator[asyncio.Event]:
        """An event that is set when something has happened to a participant, or to the study, or the server ends.

        Whoever reads the record after this began, and then waits, misses nothing.
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
        """Read from the database for a listener: in a thread, and few at a time."""
        if self._reading is None:
            self._reading = asyncio.Semaphore(AT_ONCE)
        async with self._reading:
            return await asyncio.to_thread(function)

    async def _look(self) -> None:
        """As long as anyone listens, see what has happened since the last look."""
        known: int | None = None
        while self._waiting and not self._stopping():
            try:
                known, about = await asyncio.to_thread(self._since, known)
            except Exception as error:  # the database may be away for a while
                log_sparingly("what happened could not be read", **described(error))
                about = set()
            for name in self._waiting if None in about else about & self._waiting.keys():
                for mine in self._waiting[name]:
                    mine.set()
            await asyncio.sleep(LOOK_SECONDS)
        for waiting in self._waiting.values():
            for mine in waiting:
                mine.set()

    def _since(self, known: int | None) -> tuple[int, set[str | None]]:
        """The last event, and whom those since then are about; None among them is about all.

        At the first look nobody knows since when, and after a backup was restored the record may be shorter than it
        was: everyone is woken then.
        """
        with self._database.reading.connect() as connection:
            last = connection.execute(select(tables.study.c.seq)).scalar() or 0
            if known is None or last < known:
                return last, {None}
            if last == known:
                return last, set()
            told = _EVENTS.participant.is_not(None) | _EVENTS.kind.in_(events.ABOUT_ALL)
            query = select(_EVENTS.participant).where(_EVENTS.seq > known, told).distinct()
            return last, set(connection.execute(query).scalars())
