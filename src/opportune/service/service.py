"""The service behind the addresses: the database, the writer, the keys, and what is done every few seconds."""

import contextlib
import gc
import itertools
import signal
import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial
from types import FrameType
from typing import Any

import structlog

from opportune.errors import InputError
from opportune.service.accounts.keys import Keys
from opportune.service.accounts.limits import Limits
from opportune.service.commands.base import SYSTEM, Command
from opportune.service.commands.expiry import Touch, expire_all
from opportune.service.export.exports import study_in_force
from opportune.service.monitoring.alerts import Alerts
from opportune.service.monitoring.logs import described
from opportune.service.problems import Refused
from opportune.service.record.database import Database, reachable
from opportune.service.record.writer import Reply, Writer
from opportune.service.state import clock

SWEEP_SECONDS = 5
_LAST_REHEARSED = clock.from_iso("9000-01-01T00:00:00Z")
log = structlog.get_logger()


@dataclass
class Service:
    """What requests are carried out with."""

    database: Database
    rehearsal: bool = False
    writer: Writer = field(init=False)
    keys: Keys = field(init=False)
    alerts: Alerts = field(init=False)
    rehearsed: int = 0
    """The latest time that a rehearsal has told."""
    ready: bool = False
    stopping: bool = False
    """Whether the process was told to end: what goes on for long should."""

    def __post_init__(self) -> None:
        self.alerts = Alerts(self.database, now=self.now)
        self.writer = Writer(self.database, on_alert=self.alerts.raise_alert)
        self.keys = Keys(self.database)
        self.limits = Limits()
        self._stop = threading.Event()
        self._sweeper: threading.Thread | None = None
        self._copied = 0  # commands that were written when SQLite's log was last copied

    def start(self) -> None:
        """Begin to write, and to look after what is overdue."""
        self.database.check_durable()
        self._try_out()
        self.writer.start()
        self.look_after()  # what became due while nobody looked; and what that needs is loaded
        self._sweeper = threading.Thread(target=self._look_after, name="sweeper", daemon=True)
        self._sweeper.start()
        gc.collect()
        gc.freeze()  # what was made so far stays: the collector need not look at it again and again
        gc.set_threshold(20_000, 20, 100)
        self._hear_the_end()
        self.ready = True

    def _try_out(self) -> None:
        """Load what decisions need, before the first one waits for it."""
        try:
            study_in_force(self.database).try_out()
        except Exception as error:  # whatever it is, decisions say so, or are made by the fallback
            log.error("no decision could be tried out", **described(error))

    def _hear_the_end(self) -> None:
        """Notice a signal that ends the server before it does: connections that stay open would hold it up."""
        if threading.current_thread() is not threading.main_thread():
            return
        for number in (signal.SIGTERM, signal.SIGINT):
            before = signal.getsignal(number)
            if callable(before):
                signal.signal(number, partial(self._ending, before))

    def _ending(self, before: Callable[[int, FrameType | None], Any], number: int, frame: FrameType | None) -> None:
        self.stopping = True
        before(number, frame)

    def stop(self) -> None:
        """Write what still waits, and end."""
        self.ready, self.stopping = False, True
        self._stop.set()
        if self._sweeper is not None:
            self._sweeper.join()
        self.writer.stop()
        with contextlib.suppress(Exception):
            self.keys.note_use()
            self.alerts.viewed.write()

    def now(self) -> int:
        """The time: what a rehearsal has told, or the clock's."""
        return self.rehearsed if self.rehearsal and self.rehearsed else clock.now()

    def set_time(self, told: str | None) -> None:
        """A rehearsal says what time it is; time does not go back."""
        if told is None:
            return
        try:
            told_at = clock.from_iso(told)
        except (ValueError, InputError):
            text = f"Rehearsal-Time is {told!r}; expected a time such as 2026-03-29T09:00:00Z"
            raise Refused("invalid", text) from None
        if told_at > _LAST_REHEARSED:
            raise Refused("invalid", f"Rehearsal-Time is {told!r}; expected a time before the year 9000")
        self.rehearsed = max(self.rehearsed, told_at)

    async def carry_out(self, command: Command) -> Reply:
        """Have a command written; hands back the answer once it is durable."""
        return await self.writer.submit_async(command)

    def healthy(self) -> str | None:
        """What keeps the service from deciding, if anything does."""
        if not self.ready:
            return "starting or stopping"
        if not self.writer.alive:
            return "the thread that writes has ended"
        if self.writer.failing is not None:
            return f"nothing could be stored: {self.writer.failing}"
        return None if reachable(self.database) else "the database does not answer"

    def look_after(self) -> None:
        """Do what is to be done every few seconds."""
        for job in (
            partial(expire_all, self.writer, self.now()),
            self._try_again,
            self.keys.note_use,
            self.alerts.viewed.write,
            partial(self.alerts.look, self.now()),
        ):
            try:
                job()
            except Exception as error:
                log.error("a regular job failed", **described(error))

    def _try_again(self) -> None:
        """See whether something can be stored again: nobody may ask while `/readyz` says that nothing can."""
        if self.writer.failing is not None:
            with contextlib.suppress(Refused):
                self.writer.submit(Touch(who=SYSTEM, received=self.now())).result()

    def copy_log(self) -> None:
        """Bring SQLite's log into the file, beside the writer, which would have to do so once it is long."""
        written = self.writer.written
        if self.database.sqlite and written != self._copied:
            try:
                if self.database.checkpoint():
                    self._copied = written
            except Exception as error:
                log.error("the log could not be copied", **described(error))

    def _look_after(self) -> None:
        for second in itertools.count(1):
            if self._stop.wait(1.0):
                return
            self.copy_log()
            if second % SWEEP_SECONDS == 0:
                self.look_after()
