"""Moving a study to another database: what it leaves behind is marked, so that nobody goes on there by mistake."""

import contextlib
import sqlite3
from collections.abc import Iterator
from pathlib import Path

from sqlalchemy import select, update

from opportune.errors import DataError, InputError
from opportune.service.record import events, tables
from opportune.service.record.database import Database


@contextlib.contextmanager
def leaving(url: str | None, backup: Path, new: Database) -> Iterator[None]:
    """While a study is restored that leaves another database for good; that is marked once it is.

    Args:
        url: of the database that it leaves; None for a copy, which leaves the study where it is.
        backup: what is restored. It must be all that the database has on record.
        new: where the study goes.

    """
    if url is None:
        yield
        return
    old = Database(url)
    try:
        old.require_current()
        old.require_here()
        if old.url == new.url:
            raise InputError(f"--moved-from is {old.name}, which is where the study goes; expected where it comes from")
        with old.held():
            _require_whole(old, backup)
            yield
            _require_whole(old, backup)
            with old.writing.begin() as connection:
                connection.execute(update(tables.study).values(moved=new.name))
    finally:
        old.close()


def _require_whole(old: Database, backup: Path) -> None:
    """Refuse a backup that lacks something of the record."""
    try:
        with contextlib.closing(sqlite3.connect(f"file:{backup}?mode=ro", uri=True)) as connection:
            saved = connection.execute("SELECT seq, head FROM study").fetchone()
    except sqlite3.Error as error:
        raise InputError(f"{backup} cannot be read ({error}); expected what opportune backup wrote") from None
    seq, head = saved or (0, "")
    table = tables.events.c
    with old.reading.connect() as connection:
        there = connection.execute(select(table.hash).where(table.seq == seq)).scalar()
        since = connection.execute(select(table.kind).where(table.seq > seq)).scalars()
        lacking = any(kind not in events.ADMINISTRATION for kind in since)  # as is, that the backup was made
    if there != head or lacking:
        text = f"{old.name} has not the record that is in {backup}"
        raise DataError(f"{text}; expected a backup made after its service was stopped, so that nothing is lost")
