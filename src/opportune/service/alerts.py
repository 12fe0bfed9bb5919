"""Alerts: red (someone or the data may be harmed), yellow (handled, look at it), green (for the record)."""

import threading

import httpx
import structlog
from sqlalchemy import and_, insert, select, update

from opportune.service import clock, events, tables
from opportune.service.database import Database
from opportune.service.running import Running

RED, YELLOW, GREEN = "red", "yellow", "green"
CODES = {
    "fallback": (RED, "A decision was made by the study's fallback, as the learned policy could not be used."),
    "undecided": (RED, "A decision was asked for and could not be made."),
    "rebuilt": (YELLOW, "A stored state could not be read; all states were made again from the record."),
    "verify": (RED, "The record does not verify."),
    "silent": (YELLOW, "A participant has asked for no decision for longer than the study expects."),
    "rewards": (YELLOW, "Rewards are overdue and were given up."),
}
DAY = 24 * clock.HOUR
LOOK_EVERY = 60 * clock.MICROSECONDS
log = structlog.get_logger()


class Alerts:
    """Raises alerts, and looks for what should raise one. One that is open is not raised again."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._lock = threading.Lock()
        self._looked = 0

    def raise_alert(self, level: str, code: str, participant: str | None, text: str) -> bool:
        """Raise an alert, unless the same is open; whether it was raised."""
        table = tables.alerts
        same = and_(
            table.c.code == code, table.c.participant.is_not_distinct_from(participant), table.c.cleared.is_(None)
        )
        row = {"level": level, "code": code, "participant": participant, "text": text[:1000], "raised": clock.now()}
        with self._lock, self._database.writing.begin() as connection:
            if connection.execute(select(table.c.id).where(same)).first():
                return False
            connection.execute(insert(table), row)
        log.warning("alert", level=level, code=code)  # whom it is about is in the table, not in the log
        self._send(level, code, text)
        return True

    def clear(self, code: str, participant: str | None = None) -> None:
        """What raised an alert is over."""
        table = tables.alerts
        same = and_(
            table.c.code == code, table.c.participant.is_not_distinct_from(participant), table.c.cleared.is_(None)
        )
        with self._lock, self._database.writing.begin() as connection:
            connection.execute(update(table).where(same).values(cleared=clock.now()))

    def look(self, now: int) -> None:
        """Look for participants who have fallen silent; once a minute is enough."""
        if now - self._looked < LOOK_EVERY:
            return
        self._looked = now
        running = self._running()
        if running is None:
            return
        people = tables.participants
        with self._database.reading.connect() as connection:
            active = connection.execute(
                select(people.c.name, people.c.enrolled, people.c.last_decided, people.c.step).where(
                    people.c.status == "active"
                )
            ).all()
            opened = tables.alerts
            silent = set(
                connection.execute(
                    select(opened.c.participant).where(opened.c.code == "silent", opened.c.cleared.is_(None))
                ).scalars()
            )
        self._look_for_rewards(now)
        for row in active:
            quiet = now - (row.last_decided or row.enrolled) > running.silence and row.step < running.horizon
            if quiet and row.name not in silent:
                self.raise_alert(*_of("silent"), row.name, CODES["silent"][1])
            elif not quiet and row.name in silent:
                self.clear("silent", row.name)

    def _look_for_rewards(self, now: int) -> None:
        """Rewards that were given up within the last day."""
        table = tables.events
        with self._database.reading.connect() as connection:
            latest = connection.execute(
                select(table.c.received).where(table.c.kind == events.SKIPPED).order_by(table.c.seq.desc()).limit(1)
            ).scalar()
        if latest is not None and latest > now - DAY:
            self.raise_alert(*_of("rewards"), None, CODES["rewards"][1])
        else:
            self.clear("rewards")

    def _running(self) -> Running | None:
        with self._database.reading.connect() as connection:
            text = connection.execute(select(tables.study.c.file)).scalar()
        return None if text is None else Running.from_text(text)

    def _send(self, level: str, code: str, text: str) -> None:
        """Tell the study's webhook, if it has one; the participant is not named."""
        running = self._running()
        if running is None or running.webhook is None:
            return
        body = {"study": running.study.name, "level": level, "code": code, "text": CODES.get(code, ("", text))[1]}
        threading.Thread(target=_post, args=(running.webhook, body), daemon=True).start()


def _of(code: str) -> tuple[str, str]:
    return CODES[code][0], code


def _post(address: str, body: dict[str, str]) -> None:
    try:
        httpx.post(address, json=body, timeout=10.0).raise_for_status()
    except httpx.HTTPError as error:
        log.warning("the webhook did not take an alert", error=type(error).__name__)
