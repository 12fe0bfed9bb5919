"""Delivery of the outbox: at least once, signed, retried with growing pauses until accepted or given up."""

import os
import smtplib
import threading
import time
from collections.abc import Sequence
from email.message import EmailMessage
from typing import Any
from urllib.parse import unquote, urlsplit

import httpx
import msgspec
import structlog
from sqlalchemy import delete, select, update

from opportune.errors import InputError, OpportuneError
from opportune.service.monitoring import redcap
from opportune.service.monitoring.logs import described, log_sparingly
from opportune.service.record import outbox, tables
from opportune.service.record.database import Database
from opportune.service.state import clock
from opportune.service.state.study import StudyInForce
from opportune.webhooks import signature

KEY, SMTP = "OPPORTUNE_WEBHOOK_KEY", "OPPORTUNE_SMTP"
LEASE = 2 * clock.MINUTE
"""How long a process holds a message before another may try; longer than any attempt takes."""
FIRST_PAUSE, LONGEST_PAUSE = 10 * clock.MICROSECONDS, 6 * clock.HOUR
ATTEMPTS = 20
"""After this many attempts (more than two days) a message is given up and listed on the study page."""
KEPT = 30 * 24 * clock.HOUR
"""How long delivered messages are kept."""
TIMEOUT_SECONDS = 10.0
AT_ONCE = 50
log = structlog.get_logger()
Message = Any


def pause(attempts: int) -> int:
    """The pause after a number of attempts, in microseconds."""
    return int(min(LONGEST_PAUSE, FIRST_PAUSE * 2 ** min(attempts - 1, 20)))


class Delivery:
    """Sends due messages in a thread of its own, so that a slow receiver delays nothing else."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def start(self) -> None:
        """Start the thread."""
        self._thread = threading.Thread(target=self._run, name="delivery", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Stop after the message that is being sent."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join(timeout=TIMEOUT_SECONDS + 1)

    def _run(self) -> None:
        while not self._stop.wait(1.0):
            try:
                self.deliver(clock.now())
            except Exception as error:
                log_sparingly("messages could not be delivered", **described(error))

    def deliver(self, now: int) -> int:
        """Send due messages; returns how many were accepted."""
        table, taken = tables.outbox, 0
        with self._database.reading.connect() as connection:
            ahead = table.c.due > now + LONGEST_PAUSE + clock.SLACK  # written while the clock was wrong
            due = select(table).where((table.c.due <= now) | ahead).order_by(table.c.due, table.c.id).limit(AT_ONCE)
            waiting = connection.execute(due).mappings().all()
            text = connection.execute(select(tables.study.c.file)).scalar() if waiting else None
        running = None if text is None else StudyInForce.from_text(text)
        for row in waiting:
            if self._stop.is_set() or running is None:
                break
            if row["channel"] != outbox.REDCAP and self._claim(row, now):
                taken += self._send(row, running)
        together = [row for row in waiting if row["channel"] == outbox.REDCAP and not self._stop.is_set()]
        if running is not None and (claimed := [row for row in together if self._claim(row, now)]):
            taken += self._push(claimed, running)
        if waiting:
            with self._database.writing.begin() as connection:
                connection.execute(delete(table).where(table.c.delivered < now - KEPT))
        return taken

    def _claim(self, row: Message, now: int) -> bool:
        """Claim a message for a while; False if another process was quicker."""
        table = tables.outbox
        mine = update(table).where(table.c.id == row["id"], table.c.due == row["due"])
        with self._database.writing.begin() as connection:
            found = connection.execute(mine.values(due=now + LEASE, attempts=row["attempts"] + 1))
        return bool(found.rowcount)

    def _send(self, row: Message, running: StudyInForce) -> bool:
        """Send one message and record whether it was accepted."""
        serve = running.study.settings.serve
        try:
            if row["channel"] in {outbox.WEBHOOK, outbox.APP}:
                address = serve.webhook if row["channel"] == outbox.WEBHOOK else serve.app_webhook
                if address is None:
                    raise InputError("the study file has no such webhook any more")
                _post(address, row)
            else:
                _mail(serve.mail, row)
        except (httpx.HTTPError, smtplib.SMTPException, OSError, InputError) as error:
            self._failed(row, _why(error))
            return False
        self._delivered([row])
        return True

    def _push(self, rows: Sequence[Message], running: StudyInForce) -> int:
        """Write the records that messages name to REDCap in one request; returns how many were accepted."""
        try:
            redcap.push(self._database, running, [msgspec.json.decode(row["body"]) for row in rows])
        except (httpx.HTTPError, OSError, OpportuneError) as error:
            for row in rows:
                self._failed(row, _why(error))
            return 0
        self._delivered(rows)
        return len(rows)

    def _delivered(self, rows: Sequence[Message]) -> None:
        table, done = tables.outbox, {"delivered": clock.now(), "due": None, "failure": None}
        with self._database.writing.begin() as connection:
            connection.execute(update(table).where(table.c.id.in_([row["id"] for row in rows])).values(done))

    def _failed(self, row: Message, failure: str) -> None:
        attempts, table = row["attempts"] + 1, tables.outbox
        due = None if attempts >= ATTEMPTS else clock.now() + pause(attempts)
        log.warning(
            "a message was not taken", channel=row["channel"], kind=row["kind"], attempts=attempts, error=failure
        )
        with self._database.writing.begin() as connection:
            connection.execute(update(table).where(table.c.id == row["id"]).values(due=due, failure=failure))


def _why(error: Exception) -> str:
    """Why a message was not accepted; of foreign errors only the kind, since their text may contain what was sent."""
    if isinstance(error, httpx.HTTPStatusError):
        return f"{type(error).__name__}: {error.response.status_code}"
    return f"{type(error).__name__}: {error}" if isinstance(error, OpportuneError) else type(error).__name__


def dead(database: Database) -> list[dict[str, Any]]:
    """Messages that were given up."""
    table = tables.outbox.c
    query = (
        select(tables.outbox).where(table.due.is_(None), table.delivered.is_(None)).order_by(table.id.desc()).limit(100)
    )
    with database.reading.connect() as connection:
        return [dict(row) for row in connection.execute(query).mappings()]


def _post(address: str, row: Message) -> None:
    """Post a message; `Opportune-Id` is the same for every attempt, so that receivers can ignore duplicates."""
    body, moment, key = row["body"].encode(), str(int(time.time())), os.environ.get(KEY, "")
    headers = {"Content-Type": "application/json", "Opportune-Id": str(row["id"]), "Opportune-Time": moment}
    if key:
        headers["Opportune-Signature"] = signature(key, moment, body)
    httpx.post(address, content=body, headers=headers, timeout=TIMEOUT_SECONDS).raise_for_status()


def _mail(receivers: list[str], row: Message) -> None:
    """Send a message by the mail server of OPPORTUNE_SMTP: smtp://user:password@host:port, or smtps://."""
    parts = urlsplit(os.environ.get(SMTP, ""))
    if parts.scheme not in {"smtp", "smtps"} or not parts.hostname:
        raise InputError(f"{SMTP} names no mail server; expected smtp://host:port or smtps://user:password@host")
    content = msgspec.json.decode(row["body"])
    mail = EmailMessage()
    mail["Subject"] = f"{content['study']}: {content.get('level', '')} {row['kind']}".replace("  ", " ")
    mail["From"] = (
        unquote(parts.username or "") if "@" in unquote(parts.username or "") else f"opportune@{parts.hostname}"
    )
    mail["To"] = ", ".join(receivers)
    mail["Message-ID"] = f"<{row['id']}.{row['created']}@opportune>"
    mail.set_content("\n".join(f"{name}: {value}" for name, value in content.items() if value is not None))
    kind = smtplib.SMTP_SSL if parts.scheme == "smtps" else smtplib.SMTP
    with kind(parts.hostname, parts.port or 0, timeout=TIMEOUT_SECONDS) as server:
        if parts.scheme == "smtp" and server.ehlo() and server.has_extn("starttls"):
            server.starttls()
        if parts.username and parts.password:
            server.login(unquote(parts.username), unquote(parts.password))
        server.send_message(mail)
