"""Backup and restore: the whole database as one SQLite file, whichever database it comes from or goes to."""

import contextlib
import errno
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

from sqlalchemy import Connection, func, insert, select
from sqlalchemy.exc import DBAPIError

from opportune.errors import DataError, InputError, WriteError
from opportune.service.record import tables
from opportune.service.record.database import Database, file_url

CHUNK = 1000
Progress = Callable[[int, int], None]


def backup(database: Database, path: Path, progress: Progress | None = None) -> int:
    """Copy everything into a new SQLite file, as of one moment, while the service goes on; how many rows."""
    if path.exists():
        raise InputError(f"{path} exists; expected a new file for the backup")
    if not path.parent.is_dir():
        raise InputError(f"{path.parent} is not a folder; expected one for the backup")
    part = path.with_name(path.name + ".part")
    for leftover in _files(part):
        leftover.unlink(missing_ok=True)
    target = Database(file_url(part))
    try:
        with _writing(path):
            target.migrate()
        with database.moment() as source, _writing(path), target.writing.begin() as into:
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
    """Copy a backup, also of an earlier version, into a database that has no study yet; how many rows.

    The backup itself stays as it is, to the last byte: a copy of it is brought to this version's tables.
    """
    if not path.is_file():
        raise InputError(f"{path} is not a file; expected what opportune backup wrote")
    beside = database.path.parent if database.sqlite else None  # where there must be room for it anyway
    with tempfile.TemporaryDirectory(prefix="opportune-restore-", dir=beside) as folder:
        source = Database(file_url(Path(folder) / "backup"))
        source.name = str(path)
        try:
            _copy_backup(path, source)
            database.migrate()
            with source.reading.connect() as stored, database.writing.begin() as into:
                if into.execute(select(func.count()).select_from(tables.events)).scalar_one():
                    raise DataError(f"{database.name} has a study already; expected an empty database")
                return _copy(stored, into, progress)
        finally:
            source.close()


def _copy_backup(path: Path, copy: Database) -> None:
    """A copy of a backup, with this version's tables; refused if it is none."""
    try:
        for ending in ("", "-wal"):  # there is a second file if someone has opened it
            file = path.with_name(path.name + ending)
            if file.exists():
                shutil.copyfile(file, copy.path.with_name(copy.path.name + ending))
        with copy.reading.connect() as connection:
            found = copy.revision(connection)
        if found is None:
            raise DataError(f"{path} has no tables of a study; expected what opportune backup wrote")
        copy.migrate()
    except OSError as error:
        if error.errno in {errno.ENOSPC, errno.EDQUOT}:
            raise WriteError(f"there is no room in {copy.path.parent.parent} for a copy of {path}") from None
        raise InputError(f"{path} cannot be read ({error.strerror}); expected what opportune backup wrote") from None
    except DBAPIError as error:
        raise InputError(f"{path} cannot be read ({error.orig}); expected what opportune backup wrote") from None


@contextlib.contextmanager
def _writing(path: Path) -> Iterator[None]:
    """Say that the backup cannot be written, not that the database cannot be read."""
    try:
        yield
    except OSError as error:
        raise WriteError(f"{path} cannot be written ({error.strerror})") from error
    except DBAPIError as error:
        if (error.statement or "").startswith("SELECT"):  # what it is made from cannot be read
            raise
        raise WriteError(f"{path} cannot be written ({error.orig})") from error


def _copy(source: Connection, into: Connection, progress: Progress | None) -> int:
    sizes = {table: source.execute(select(func.count()).select_from(table)).scalar_one() for table in _TABLES}
    done, total = 0, sum(sizes.values())
    for table in _TABLES:
        columns = [column for column in table.c if column not in _NUMBERED]
        query = select(*columns)  # in the order in which rows lie there: verify reads them along with the record
        found = source.execute(query.order_by(table.c.id) if table is tables.alerts else query).mappings()
        while chunk := [dict(row) for row in found.fetchmany(CHUNK)]:
            into.execute(insert(table), chunk)
            done += len(chunk)
            if progress is not None:
                progress(done, total)
    return done


def _files(path: Path) -> list[Path]:
    return [path.with_name(path.name + ending) for ending in ("", "-wal", "-shm", "-journal")]


_TABLES = tuple(tables.metadata.sorted_tables)
_NUMBERED = {tables.alerts.c.id}
"""What a database numbers itself: one that was told the numbers would give the next row one that is taken."""
