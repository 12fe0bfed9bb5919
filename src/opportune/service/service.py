"""The service behind the API and the pages: database, writer, accounts, and the jobs that run every few seconds."""

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
from opportune.service.record.queries import study_in_force
from opportune.service.record.writer import Reply, Writer
from opportune.service.state import clock
from opportune.service.state.study import StudyInForce

SWEEP_SECONDS = 5
_LAST_REHEARSED = clock.from_iso("9000-01-01T00:00:00Z")
log = structlog.get_logger()


@dataclass
class Service:
    """Everything that handling a request needs."""

    database: Database
    writer: Writer = field(init=False)
    keys: Keys = field(init=False)
    access: AccessLog = field(init=False)
    institution: Institution | None = field(default_factory=from_environment)
    """The institution's sign-in, if one is configured."""
    alerts: Alerts = field(init=False)
    rehearsed: int = 0
    """The latest time that a rehearsal has set; 0 until then."""
    ready: bool = False
    stopping: bool = False
    """Whether the process was asked to stop: long-lived requests must end."""

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
        self._copied = 0  # the writer's `written` when SQLite's log was last copied

    def start(self) -> None:
        """Start writing, sending messages and running the regular jobs."""
        self.database.check_durable()
        self.database.keep_to_file()
        self._try_out()
        self._check_clock()
        self.writer.start()
        self.delivery.start()
        self.enrolments.start()
        self.look_after()  # handle what became due while the service was down, and load the code for it
        self._sweeper = threading.Thread(target=self._sweep, name="sweeper", daemon=True)
        self._sweeper.start()
        gc.collect()
        gc.freeze()  # objects made so far live as long as the process: the collector need not visit them again
        gc.set_threshold(20_000, 20, 100)
        self._watch_signals()
        self.ready = True

    def _try_out(self) -> None:
        """Load what decisions need, so that the first one does not wait for it."""
        try:
            study_in_force(self.database).try_out()
        except Exception as error:  # decisions will report the same error, or use the fallback
            log.error("the trial decision at startup failed", **described(error))

    def _watch_signals(self) -> None:
        """Notice a stop signal before the server acts on it: connections that stay open would delay the stop."""
        if threading.current_thread() is not threading.main_thread():
            return
        for number in (signal.SIGTERM, signal.SIGINT):
            before = signal.getsignal(number)
            if callable(before):
                signal.signal(number, partial(self._on_signal, before))

    def _on_signal(self, before: Callable[[int, FrameType | None], Any], number: int, frame: FrameType | None) -> None:
        self.stopping = True
        before(number, frame)

    def stop(self) -> None:
        """Write what is still waiting, then stop; a SQLite file is whole afterwards, without a log beside it."""
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
        self.database.close()

    @property
    def rehearsal(self) -> bool:
        """Whether this is the record of a rehearsal; its first event fixes that."""
        if self._rehearsal is None:
            with self.database.reading.connect() as connection:
                self._rehearsal = connection.execute(select(tables.study.c.rehearsal)).scalar()
        return bool(self._rehearsal)

    def blind(self, caller: Caller) -> bool:
        """Whether the caller must not see probabilities, prices and coins: a phone, or staff who are not unblinded."""
        if caller.role == STAFF:
            return caller.name not in study_in_force(self.database).unblinded
        return caller.role == PHONE

    def now(self) -> int:
        """The current time: the rehearsal's if it has set one, else the clock's."""
        return self.rehearsed or clock.now()

    def set_time(self, given: str) -> None:
        """Set the time of a rehearsal; an earlier time than before has no effect."""
        try:
            moment = clock.from_iso(given)
        except (ValueError, InputError):
            text = f"Rehearsal-Time is {given!r}; expected a time such as 2026-03-29T09:00:00Z"
            raise Refused("invalid", text) from None
        if moment > _LAST_REHEARSED:
            raise Refused("invalid", f"Rehearsal-Time is {given!r}; expected a time before the year 9000")
        self.rehearsed = max(self.rehearsed, moment)

    @property
    def running(self) -> StudyInForce:
        """The study file in force."""
        return study_in_force(self.database)

    async def carry_out(self, command: Command) -> Reply:
        """Have the writer carry out a command; returns the reply once it is durable."""
        if not self.rehearsal and self.guard.jumped():
            raise Refused("unavailable", f"{self.guard.doubt}; nothing is recorded until an administrator confirms it")
        return await self.writer.submit_async(command)

    def healthy(self) -> str | None:
        """Why the service cannot make decisions; None if it can."""
        if not self.ready:
            return "starting or stopping"
        if not self.writer.alive:
            return "the writer's thread has ended"
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
        """Run the regular jobs; a job that fails is logged and does not stop the others."""
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
        """Alert when the clock cannot be right; a rehearsal is exempt, as its requests set the time."""
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
        """Log that the database file was removed or replaced: no alert can be stored in a file that is gone."""
        try:
            self.database.require_file()
        except Elsewhere as error:
            log_sparingly("the study continues elsewhere", reason=str(error))

    def _expire(self) -> None:
        """Expire what is overdue, unless the clock is in doubt."""
        if self.guard.doubt is None:
            expire_all(self.writer, self.now())

    def _may_enrol(self) -> bool:
        """Whether REDCap may enrol participants: not in a rehearsal, nor while the clock is in doubt."""
        return not self.rehearsal and not self.guard.jumped()

    def _anchor(self) -> None:
        """Publish the end of the record once a day, unless the clock is in doubt."""
        if self.guard.doubt is None:
            anchor(self.database)

    def _try_again(self) -> None:
        """Check whether the database can be written again: requests may stay away while `/readyz` says it cannot."""
        if self.writer.failing is not None:
            with contextlib.suppress(Refused):
                self.writer.submit(Touch(who=SYSTEM, received=self.now())).result()

    def copy_log(self) -> None:
        """Copy SQLite's log into the file, so that the writer need not do so once it is long."""
        written = self.writer.written
        if self.database.sqlite and written != self._copied:
            try:
                if self.database.checkpoint():
                    self._copied = written
            except Exception as error:
                log_sparingly("SQLite's log could not be copied", **described(error))

    def _sweep(self) -> None:
        for second in itertools.count(1):
            if self._stop.wait(1.0):
                return
            self.copy_log()
            if second % SWEEP_SECONDS == 0:
                self.look_after()
