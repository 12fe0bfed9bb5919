"""Alerts: red (someone or the data may be harmed), yellow (handled, look at it), green (for the record)."""

import threading
from collections.abc import Callable

import structlog
from sqlalchemy import and_, insert, select, update

from opportune.service.monitoring import checks
from opportune.service.monitoring.logs import described
from opportune.service.monitoring.viewed import ViewedNudges
from opportune.service.record import outbox, tables
from opportune.service.record.database import Database
from opportune.service.state import clock
from opportune.service.state.study import StudyInForce

RED, YELLOW, GREEN = "red", "yellow", "green"
CODES = {
    "fallback": (RED, "A decision was made by the study's fallback, because the learned policy could not be used."),
    "undecided": (RED, "A requested decision could not be made."),
    "unrecorded": (RED, "An answer, a reward or something that staff did could not be recorded."),
    "rebuilt": (YELLOW, "A stored state could not be read; all states were rebuilt from the record."),
    "verify": (RED, "The record does not verify."),
    "silent": (YELLOW, "A participant's app has been silent for longer than the study expects."),
    "rewards": (YELLOW, "Overdue results were given up."),
    "clock": (RED, "The clock of the server may be wrong: nothing is recorded until an administrator confirms it."),
    "overspent": (RED, "More than the budget was spent."),
    "unshown": (RED, "A nudge was decided and nobody has looked at it."),
    "escalation": (RED, "A participant needs attention: look at the page Today."),
    "redcap": (YELLOW, "Participants could not be enrolled from REDCap."),
    "pacing": (YELLOW, "Nudges are spent faster or slower than planned."),
}
LOOK_EVERY = 60 * clock.MICROSECONDS
log = structlog.get_logger()


class Alerts:
    """Raises alerts and runs the checks that raise them. An open alert is not raised again."""

    def __init__(self, database: Database, *, now: Callable[[], int] = clock.now) -> None:
        self._database, self._now = database, now
        self._lock = threading.Lock()
        self._looked = 0
        self.viewed = ViewedNudges(database)

    def raise_alert(self, level: str, code: str, participant: str | None, text: str) -> bool:
        """Raise an alert unless the same one is open; returns whether it was raised."""
        table = tables.alerts
        same = and_(
            table.c.code == code, table.c.participant.is_not_distinct_from(participant), table.c.cleared.is_(None)
        )
        row = {"level": level, "code": code, "participant": participant, "text": text[:1000], "raised": self._now()}
        with self._lock, self._database.writing.begin() as connection:
            connection.execute(select(tables.study.c.id).with_for_update())  # other processes look, too
            if connection.execute(update(table).where(same).values(raised=row["raised"])).rowcount:
                return False  # still open, unless another process has just cleared it
            connection.execute(insert(table), row)
            running = self._running()
            if running is not None:
                message = {
                    "level": level,
                    "code": code,
                    "text": CODES.get(code, ("", text))[1],
                }  # without the participant
                outbox.put(connection, running, [(outbox.ALERT, message)], clock.now())
        log.warning("alert", level=level, code=code)  # the table names the participant, the log does not
        return True

    def clear(self, code: str, participant: str | None = None) -> None:
        """Clear an alert whose cause is over."""
        table = tables.alerts
        same = and_(
            table.c.code == code, table.c.participant.is_not_distinct_from(participant), table.c.cleared.is_(None)
        )
        with self._lock, self._database.writing.begin() as connection:
            connection.execute(update(table).where(same).values(cleared=self._now()))

    def look(self, now: int) -> None:
        """Run all checks: raise alerts and clear those whose cause is over; at most once a minute."""
        if 0 <= now - self._looked < LOOK_EVERY:
            return
        self._looked = now
        running = self._running()
        if running is None:
            return
        self.viewed.write()
        for code, find in checks.CHECKS.items():
            try:
                self._look_for(code, find, running, now)
            except Exception as error:  # the other checks still run
                log.error("a check for alerts failed", code=code, **described(error))

    def _look_for(self, code: str, find: checks.Check, running: StudyInForce, now: int) -> None:
        """Run one check: raise the alerts that are missing and clear those whose cause is over."""
        table = tables.alerts
        with self._database.reading.connect() as connection:
            standing = select(table.c.id, table.c.participant, table.c.raised, table.c.text).where(
                table.c.code == code, table.c.cleared.is_(None)
            )
            there = connection.execute(standing).all()  # read first, so that alerts raised meanwhile are not cleared
            wanted = find(connection, running, now)
        for participant, text in wanted.items():
            if participant not in {alert.participant for alert in there}:
                self.raise_alert(CODES[code][0], code, participant, text)
        over = [alert for alert in there if alert.participant not in wanted]
        others = [alert for alert in there if wanted.get(alert.participant, alert.text) != alert.text]
        reworded = others if code in checks.AS_THINGS_STAND else []
        if over or reworded:
            with self._lock, self._database.writing.begin() as connection:
                for alert in reworded:
                    text = wanted[alert.participant]
                    connection.execute(update(table).where(table.c.id == alert.id).values(text=text))
                for alert in over:  # unless it was raised again
                    same = and_(table.c.id == alert.id, table.c.raised == alert.raised)
                    connection.execute(update(table).where(same).values(cleared=self._now()))

    def _running(self) -> StudyInForce | None:
        with self._database.reading.connect() as connection:
            text = connection.execute(select(tables.study.c.file)).scalar()
        return None if text is None else StudyInForce.from_text(text)
