"""Anchors: once a day the end of the record goes to the log, to the webhook and to the study page.

Somebody who truncates or rewrites the record can adjust the database, but not the anchors that were already sent.
"""

from typing import Any

import structlog
from sqlalchemy import Connection, func, select

from opportune.service.record import outbox, tables
from opportune.service.record.database import Database, insert_if_missing
from opportune.service.state import clock
from opportune.service.state.study import StudyInForce

DAY = 24 * clock.HOUR
log = structlog.get_logger()


def anchor(database: Database, now: int | None = None) -> bool:
    """Anchor the end of the record once per day (UTC); returns whether this call did so."""
    moment = clock.now() if now is None else now
    day, table = moment // DAY, tables.anchors
    with database.reading.connect() as connection:
        if (connection.execute(select(func.max(table.c.day))).scalar() or 0) >= day:
            return False
    with database.writing.begin() as connection:
        columns = (tables.study.c.seq, tables.study.c.head, tables.study.c.file)
        study = connection.execute(select(*columns).with_for_update()).one_or_none()
        if study is None:
            return False
        row = {"day": day, "seq": study.seq, "head": study.head}
        if not connection.execute(insert_if_missing(connection, table), row).rowcount:
            return False  # another process was quicker
        content = {"seq": study.seq, "head": study.head}
        outbox.put(connection, StudyInForce.from_text(study.file), [(outbox.HEAD, content)], moment)
    log.info("anchor", seq=study.seq, head=study.head)
    return True


def latest(connection: Connection) -> Any:
    """The day, the event and the hash of the latest anchor; None before the first."""
    return connection.execute(select(tables.anchors).order_by(tables.anchors.c.day.desc()).limit(1)).one_or_none()
