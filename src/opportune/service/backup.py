"""Backup and restore: the whole database as one SQLite file, whichever database it comes from or goes to."""

import contextlib
import os
import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

from sqlalchemy import Connection, func, insert, select

from opportune.errors import DataError, InputError
from opportune.service import tables
from opportune.service.database import Database

CHUNK = 1000
Progress = Callable[[int, int], None]


def backup(database: Database, path: Path, progress: Progress | None = None) -> int:
    """Copy everything into a new SQLite file, as of one moment, while the service goes on; how many rows."""
    if path.exists():
        raise InputError(f"{path} exists; expected a new file for the backup")
    part = path.with_name(path.name + ".part")
    for leftover in _files(part):
        leftover.unlink(missing_ok=True)
    target = Database(f"sqlite:///{part}")
    try:
        target.migrate()
        with _one_moment(database) as source, target.writing.begin() as into:
            copied = _copy(source, into, progress)
        target.close()
        with contextlib.closing(sqlite3.connect(part)) as connection:
            connection.execute("PRAGMA journal_mode=DELETE")  # one file, without a second one beside it
        with part.open("rb") as file:
            os.fsync(file.fileno())
        part.replace(path)
    finally:
        target.close()
        for leftover in _files(part):
            leftover.unlink(missing_ok=True)
    return copied


def restore(path: Path, database: Database, progress: Progress | None = None) -> int:
    """Copy a backup into a database that has no study yet; how many rows."""
    if not path.exists():
        raise InputError(f"{path} does not exist; expected a backup")
    source = Database(f"sqlite:///{path}")
    try:
        source.require_current()
        database.migrate()
        with source.reading.connect() as stored, database.writing.begin() as into:
            if into.execute(select(func.count()).select_from(tables.events)).scalar_one():
                raise DataError(f"{database.name} has a study already; expected an empty database")
            return _copy(stored, into, progress)
    finally:
        source.close()


def _one_moment(database: Database) -> Any:
    """A connection that sees the database as it is now, whatever is written meanwhile."""
    if database.sqlite:
        return database.reading.begin()
    return database.reading.execution_options(isolation_level="REPEATABLE READ").begin()


def _copy(source: Connection, into: Connection, progress: Progress | None) -> int:
    sizes = {table: source.execute(select(func.count()).select_from(table)).scalar_one() for table in _TABLES}
    done, total = 0, sum(sizes.values())
    for table in _TABLES:
        columns = table.c if table is not tables.recent else tables.recent.c["key", "fingerprint", "status", "answer"]
        target = table if table is not tables.recent else tables.requests  # all answers are filed
        found = source.execute(select(*columns)).mappings()
        while chunk := [dict(row) for row in found.fetchmany(CHUNK)]:
            into.execute(insert(target), chunk)
            done += len(chunk)
            if progress is not None:
                progress(done, total)
    return done


def _files(path: Path) -> list[Path]:
    return [path.with_name(path.name + ending) for ending in ("", "-wal", "-shm", "-journal")]


_TABLES = tuple(tables.metadata.sorted_tables)
