"""The clock guard: a server whose clock looks wrong records nothing until an administrator confirms the clock.

Decision points, windows and rewards expire by the clock. With a wrong clock the server would record future decision
points as missed, and no correction could undo that.
"""

import threading
import time
from collections.abc import Callable

from sqlalchemy import func, select

from opportune.service.record import events, tables
from opportune.service.record.database import Database
from opportune.service.state import clock

MOST = clock.SLACK
"""How far the clock may differ from the steady one and the database's, or be behind the last event."""
DAY = 24 * clock.HOUR
LONG = 7 * DAY
"""A service that starts later than this after the last event needs its clock confirmed."""


def steady() -> int:
    """Microseconds by the monotonic clock, which nobody sets."""
    return time.monotonic_ns() // 1000


class ClockGuard:
    """Compares the clock with the record, the database and the monotonic clock; `doubt` says what is wrong."""

    def __init__(
        self, database: Database, *, wall: Callable[[], int] = clock.now, steady: Callable[[], int] = steady
    ) -> None:
        self.doubt: str | None = None
        self._database, self._wall, self._steady = database, wall, steady
        self._lock = threading.Lock()
        self._base = wall() - steady()
        self._apart = 0  # the difference from the database's clock that was confirmed
        self._confirmed: int | None = None  # the latest confirmation on record; None before the first look

    def jumped(self) -> bool:
        """Whether the clock was set since the last good check; does not query the database."""
        moved = self._wall() - self._steady() - self._base
        if abs(moved) > MOST and self.doubt is None:
            self.doubt = f"the clock of the server is {_span(moved)} where it was when the service started"
        return self.doubt is not None

    def look(self) -> str | None:
        """Compare the clock with the record and the database; returns what is wrong, if anything."""
        with self._lock:
            starting, wall = self._confirmed is None, self._wall()
            event = tables.events.c
            with self._database.reading.connect() as connection:
                status = connection.execute(select(tables.study.c.status)).scalar()
                last = connection.execute(select(event.received).order_by(event.seq.desc()).limit(1)).scalar()
                latest = select(func.max(event.seq)).where(event.kind == events.CLOCK)
                confirmed = connection.execute(latest).scalar() or 0
                theirs = None if self._database.sqlite else connection.execute(select(func.clock_timestamp())).scalar()
            apart = 0 if theirs is None else wall - clock.from_datetime(theirs)
            if not starting and confirmed > (self._confirmed or 0):  # fewer: the record was truncated
                self._base, self._apart, self.doubt = wall - self._steady(), apart, None
            self._confirmed = confirmed
            if self.doubt is None and not self.jumped() and last is not None:
                if wall < last - MOST:
                    self.doubt = f"the clock of the server is {_span(wall - last)} the last event on record"
                elif abs(apart - self._apart) > MOST:
                    self.doubt = f"the clock of the server is {_span(apart)} that of the database"
                elif starting and status == "open" and wall > last + LONG:
                    self.doubt = f"the service starts {(wall - last) / DAY:.0f} days after the last event"
            return self.doubt


def _span(microseconds: int) -> str:
    """How far ahead or behind, in words."""
    size, unit = abs(microseconds) / clock.MINUTE, "minutes"
    for many, longer in ((120, "hours"), (48, "days")):
        if size >= many:
            size, unit = size / (60 if longer == "hours" else 24), longer
    return f"{size:.0f} {unit} {'ahead of' if microseconds > 0 else 'behind'}"
