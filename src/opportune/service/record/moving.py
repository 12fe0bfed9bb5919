"""Moving a study to another database: the old one is marked as moved, so that nobody continues there by mistake."""

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
    """Hold the old database while the study is restored elsewhere, then mark the old one as moved.

    Args:
        url: of the old database; None for a copy, which does not move the study.
        backup: the file that is restored. It must contain the old database's whole record.
        new: the database that the study moves to.

    """
    if url is None:
        yield
        return
    old = Database(url)
    try:
        old.require_current()
        old.require_here()
        if old.url == new.url:
            raise InputError(f"--moved-from is {old.name}, the new database; expected the database that it comes from")
        with old.held():
            _require_whole(old, backup)
            yield
            _require_whole(old, backup)
            with old.writing.begin() as connection:
                connection.execute(update(tables.study).values(moved=new.name))
    finally:
        old.close()


def _require_whole(old: Database, backup: Path) -> None:
    """Refuse a backup that lacks part of the record."""
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
        lacking = any(kind not in events.ADMINISTRATION for kind in since)  # making the backup is such an event
    if there != head or lacking:
        text = f"{backup} does not contain the whole record of {old.name}"
        raise DataError(f"{text}; expected a backup made after its service was stopped, so that nothing is lost")
