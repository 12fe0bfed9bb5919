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
from sqlalchemy import select

from opportune.errors import InputError
from opportune.service.accounts.access_log import AccessLog
from opportune.service.accounts.institution import Institution, from_environment
from opportune.service.accounts.keys import PHONE, STAFF, Caller, Keys
from opportune.service.accounts.limits import Limits
from opportune.service.commands.base import SYSTEM, Command
from opportune.service.commands.expiry import Touch, expire_all
from opportune.service.export.exports import study_in_force
from opportune.service.monitoring import unattended
from opportune.service.monitoring.alerts import Alerts
from opportune.service.monitoring.anchors import anchor
from opportune.service.monitoring.clock_guard import ClockGuard
from opportune.service.monitoring.delivery import Delivery
from opportune.service.monitoring.listeners import Listeners
from opportune.service.monitoring.logs import described, log_sparingly
from opportune.service.monitoring.redcap import Enrolments
from opportune.service.problems import Refused
from opportune.service.record import tables
from opportune.service.record.database import Database, Elsewhere, reachable
from opportune.service.record.writer import Reply, Writer
from opportune.service.state import clock
from opportune.service.state.study import StudyInForce

SWEEP_SECONDS = 5
_LAST_REHEARSED = clock.from_iso("9000-01-01T00:00:00Z")
log = structlog.get_logger()


@dataclass
class Service:
    """What requests are carried out with."""

    database: Database
    writer: Writer = field(init=False)
    keys: Keys = field(init=False)
    access: AccessLog = field(init=False)
    institution: Institution | None = field(default_factory=from_environment)
    """Where people may sign in besides."""
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
        self.access = AccessLog(self.database)
        self.limits = Limits()
        self.guard = ClockGuard(self.database)
        self.delivery = Delivery(self.database)
        self.listeners = Listeners(self.database, lambda: self.stopping)
        self.enrolments = Enrolments(self.database, self.writer, self.alerts, self._may_enrol)
        self._clock_warned = False
        self._stop = threading.Event()
        self._rehearsal: bool | None = None  # not known yet
        self._sweeper: threading.Thread | None = None
        self._copied = 0  # commands that were written when SQLite's log was last copied

    def start(self) -> None:
        """Begin to write, and to look after what is overdue."""
        self.database.check_durable()
        self.database.keep_to_file()
        self._try_out()
        self._check_clock()
        self.writer.start()
        self.delivery.start()
        self.enrolments.start()
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
        self.delivery.stop()
        self.enrolments.stop()
        with contextlib.suppress(Exception):
            self.keys.note_use()
            self.access.write()
            self.alerts.viewed.write()

    @property
    def rehearsal(self) -> bool:
        """Whether the record is that of a rehearsal, which its first event says once and for all."""
        if self._rehearsal is None:
            with self.database.reading.connect() as connection:
                self._rehearsal = connection.execute(select(tables.study.c.rehearsal)).scalar()
        return bool(self._rehearsal)

    def blind(self, caller: Caller) -> bool:
        """Whether someone is not to see probabilities, prices and coins: phones, and staff whom nobody unblinded."""
        if caller.role == STAFF:
            return caller.name not in study_in_force(self.database).unblinded
        return caller.role == PHONE

    def now(self) -> int:
        """The time: what a rehearsal has told, or the clock's."""
        return self.rehearsed or clock.now()

    def set_time(self, told: str) -> None:
        """A rehearsal says what time it is; time does not go back."""
        try:
            told_at = clock.from_iso(told)
        except (ValueError, InputError):
            text = f"Rehearsal-Time is {told!r}; expected a time such as 2026-03-29T09:00:00Z"
            raise Refused("invalid", text) from None
        if told_at > _LAST_REHEARSED:
            raise Refused("invalid", f"Rehearsal-Time is {told!r}; expected a time before the year 9000")
        self.rehearsed = max(self.rehearsed, told_at)

    @property
    def running(self) -> StudyInForce:
        """The study file in force."""
        return study_in_force(self.database)

    async def carry_out(self, command: Command) -> Reply:
        """Have a command written; hands back the answer once it is durable."""
        if not self.rehearsal and self.guard.jumped():
            raise Refused("unavailable", f"{self.guard.doubt}; nothing is recorded until an administrator confirms it")
        return await self.writer.submit_async(command)

    def healthy(self) -> str | None:
        """What keeps the service from deciding, if anything does."""
        if not self.ready:
            return "starting or stopping"
        if not self.writer.alive:
            return "the thread that writes has ended"
        if self.writer.failing is not None:
            return f"nothing could be stored: {self.writer.failing}"
        try:
            self.database.require_file()
        except Elsewhere as error:
            return str(error)
        if self.guard.doubt is not None:
            return f"{self.guard.doubt}; if it is right, confirm it with opportune confirm-clock"
        return None if reachable(self.database) else "the database does not answer"

    def look_after(self) -> None:
        """Do what is to be done every few seconds."""
        for job in (
            self._check_file,
            self._check_clock,
            self._expire,
            self._try_again,
            self.keys.note_use,
            self.access.write,
            self.alerts.viewed.write,
            partial(self.alerts.look, self.now()),
            self._anchor,
            partial(unattended.tell, self.database, self.now()),
        ):
            try:
                job()
            except Exception as error:
                log_sparingly("a regular job failed", **described(error))

    def _check_clock(self) -> None:
        """See whether the clock can be right; in a rehearsal requests say what time it is."""
        if self.rehearsal:
            return
        doubt = self.guard.look()
        if doubt is not None and not self._clock_warned:
            log.error("the clock is in doubt", reason=doubt)
            self.alerts.raise_alert("red", "clock", None, f"{doubt[0].upper()}{doubt[1:]}.")
        elif doubt is None and self._clock_warned:
            self.alerts.clear("clock")
        self._clock_warned = doubt is not None

    def _check_file(self) -> None:
        """Say so where the database's file is not there any more; nothing can be alerted of in a file that is gone."""
        try:
            self.database.require_file()
        except Elsewhere as error:
            log_sparingly("the study goes on elsewhere", reason=str(error))

    def _expire(self) -> None:
        """Let expire what is overdue, by a clock that nobody doubts."""
        if self.guard.doubt is None:
            expire_all(self.writer, self.now())

    def _may_enrol(self) -> bool:
        """Whether people are taken in from elsewhere: not in a rehearsal, nor by a clock in doubt."""
        return not self.rehearsal and not self.guard.jumped()

    def _anchor(self) -> None:
        """Tell the end of the record once a day, by a clock that nobody doubts."""
        if self.guard.doubt is None:
            anchor(self.database)

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
                log_sparingly("the log could not be copied", **described(error))

    def _look_after(self) -> None:
        for second in itertools.count(1):
            if self._stop.wait(1.0):
                return
            self.copy_log()
            if second % SWEEP_SECONDS == 0:
                self.look_after()
