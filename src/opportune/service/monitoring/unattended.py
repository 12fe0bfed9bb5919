"""Calls that wait while nobody has a page open: one message reports all calls since the last message."""

import datetime as dt

from sqlalchemy import func, select

from opportune.service.accounts import sessions
from opportune.service.record import outbox, tables
from opportune.service.record.database import Database
from opportune.service.state import clock
from opportune.service.state.study import StudyInForce

PATIENCE = 2 * clock.MINUTE
"""How long a call waits before a message is sent."""


def on_call(running: StudyInForce, now: int) -> bool:
    """Whether messages are sent at this time: during on-call times, else staff hours, else always."""
    settings = running.study.settings
    zone = settings.staff.timezone or running.timezone
    hours = settings.serve.on_call or settings.staff.hours
    if hours is None:
        return True
    there = clock.local(now, zone)
    if (
        there.date() in {dt.date.fromisoformat(str(day)) for day in settings.staff.holidays}
        and not settings.serve.on_call
    ):
        return False
    minute = there.hour * 60 + there.minute
    return any(start <= minute < end for start, end in hours.weekly.days[there.weekday()])


def tell(database: Database, now: int) -> int:
    """Send a message to the person on call if calls wait and nobody looks; returns the number of calls in it."""
    made, escalations, sent = tables.decisions.c, tables.escalations.c, tables.outbox.c
    with database.reading.connect() as connection:
        text = connection.execute(select(tables.study.c.file)).scalar()
        if text is None:
            return 0
        waiting = select(func.count(), func.max(made.received), func.min(made.expires))
        late = tables.open_nudge & (made.received <= now - PATIENCE)
        calls, latest, expires = connection.execute(waiting.where(late)).one()
        urgent, raised = connection.execute(
            select(func.count(), func.max(escalations.raised)).where(escalations.acknowledged.is_(None))
        ).one()
        last = connection.execute(select(func.max(sent.created)).where(sent.kind == outbox.UNATTENDED)).scalar() or 0
    running = StudyInForce.from_text(text)
    if max(latest or 0, raised or 0) <= last - PATIENCE or not calls + urgent:
        return 0
    if running.nudges_by != "staff" or not on_call(running, now) or sessions.watching(database):
        return 0
    content = {"calls": calls, "escalations": urgent, "until": None if expires is None else clock.iso(expires)}
    with database.writing.begin() as connection:
        connection.execute(select(tables.study.c.id).with_for_update())  # other processes look, too
        again = connection.execute(select(func.max(sent.created)).where(sent.kind == outbox.UNATTENDED)).scalar() or 0
        if again != last:
            return 0
        outbox.put(connection, running, [(outbox.UNATTENDED, {**content, "path": "/today"})], now)
    return int(calls + urgent)
