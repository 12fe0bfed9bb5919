"""Backup and restore: the whole database as one SQLite file, whichever database it comes from or goes to."""

import contextlib
import errno
import os
import shutil
import sqlite3
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from sqlalchemy import Connection, MetaData, Table, delete, func, insert, select, update
from sqlalchemy.exc import DBAPIError

from opportune.errors import DataError, InputError, WriteError
from opportune.service.accounts.changes import Actor, note_access
from opportune.service.record import tables
from opportune.service.record.database import Database, file_url
from opportune.service.state import clock

CHUNK = 1000
Progress = Callable[[int, int], None]


class Restored(NamedTuple):
    """The result of restoring: rows copied, who did it, and the accounts suspended until an admin readmits them."""

    rows: int
    by: Actor
    suspended: list[str]


def backup(database: Database, path: Path, progress: Progress | None = None, *, for_auditor: bool = False) -> int:
    """Copy the database, as it is at one moment, into a new SQLite file; the service may run. Returns the rows copied.

    An auditor's copy contains the record and the tables derived from it: no secret seed, no accounts, no keys.
    """
    if path.exists():
        raise InputError(f"{path} exists; expected a new file for the backup")
    if not path.parent.is_dir():
        raise InputError(f"{path.parent} is not a folder; expected one for the backup")
    part = path.with_name(path.name + ".part")
    for leftover in _files(part):
        leftover.unlink(missing_ok=True)
    target = Database(file_url(part))
    try:
        with database.moment() as source, _writing(path):
            target.migrate(database.revision(source) or "head")  # the same tables, even when an upgrade is due
            there = MetaData()
            with target.reading.connect() as made:
                there.reflect(made)
            wanted = [
                table for table in there.sorted_tables if table.name in (_AUDITED if for_auditor else there.tables)
            ]
            with target.writing.begin() as into:
                copied = _copy(source, into, progress, [table for table in wanted if table.name != "alembic_version"])
        target.close()
        with contextlib.closing(sqlite3.connect(part)) as connection:
            connection.execute("PRAGMA journal_mode=DELETE")  # a single file, without a log beside it
        with part.open("rb") as file:
            os.fsync(file.fileno())
        part.replace(path)
    finally:
        target.close()
        for leftover in _files(part):
            leftover.unlink(missing_ok=True)
    return copied


def restore(
    path: Path, database: Database, sign_in: Callable[[Database], Actor], progress: Progress | None = None
) -> Restored:
    """Copy a backup, possibly of an earlier version, into a database without a study.

    An admin with an account in the backup must sign in. All other accounts are suspended until an admin readmits
    them: a key revoked since the backup was made must not work again. Sessions and invitations are left out.

    The backup file is not changed: a copy of it is upgraded to this version's tables.
    """
    if not path.is_file():
        raise InputError(f"{path} is not a file; expected what opportune backup wrote")
    beside = database.path.parent if database.sqlite else None  # the restored file needs room there anyway
    with tempfile.TemporaryDirectory(prefix="opportune-restore-", dir=beside) as folder:
        source = Database(file_url(Path(folder) / "backup"))
        source.name = str(path)
        try:
            _copy_backup(path, source)
            database.migrate()
            with source.reading.connect() as stored, database.writing.begin() as into:
                if into.execute(select(func.count()).select_from(tables.events)).scalar_one():
                    raise DataError(f"{database.name} has a study already; expected an empty database")
                head = stored.execute(select(tables.study.c.head)).scalar()
                by = sign_in(source)
                rows = _copy(stored, into, progress, _TABLES)
                suspended = _suspend(into, by.name)
        finally:
            source.close()
    note_access(database, by, "restored", file=path.name, head=head, suspended=suspended)
    return Restored(rows, by, suspended)


def _suspend(into: Connection, but: str) -> list[str]:
    """Suspend all accounts but one; returns their names."""
    found: list[str] = []
    for table in (tables.people, tables.keys):
        active = (table.c.revoked.is_(None), table.c.name != but)
        found += into.execute(select(table.c.name).where(*active).order_by(table.c.name)).scalars()
        into.execute(update(table).where(*active).values(suspended=clock.now()))
    into.execute(update(tables.tokens).where(tables.tokens.c.revoked.is_(None)).values(revoked=clock.now()))
    into.execute(delete(tables.sessions))
    return found


def _copy_backup(path: Path, copy: Database) -> None:
    """Copy a backup and upgrade the copy to this version's tables; refuse a file that is not a backup."""
    try:
        for ending in ("", "-wal"):  # the log exists if someone has opened the backup
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
    """Report errors as a backup that cannot be written, unless the database cannot be read."""
    try:
        yield
    except OSError as error:
        raise WriteError(f"{path} cannot be written ({error.strerror})") from error
    except DBAPIError as error:
        if (error.statement or "").startswith("SELECT"):  # the source cannot be read
            raise
        raise WriteError(f"{path} cannot be written ({error.orig})") from error


def _copy(source: Connection, into: Connection, progress: Progress | None, wanted: Sequence[Table]) -> int:
    sizes = {table: source.execute(select(func.count()).select_from(table)).scalar_one() for table in wanted}
    done, total = 0, sum(sizes.values())
    for table in wanted:
        columns = [column for column in table.c if column.name != _NUMBERED.get(table.name)]
        query = select(*columns)  # in stored order: verify reads the rows along with the record
        found = source.execute(query.order_by(table.c.id) if table.name in _NUMBERED else query).mappings()
        while chunk := [dict(row) for row in found.fetchmany(CHUNK)]:
            into.execute(insert(table), chunk)
            done += len(chunk)
            if progress is not None:
                progress(done, total)
    return done


def _files(path: Path) -> list[Path]:
    return [path.with_name(path.name + ending) for ending in ("", "-wal", "-shm", "-journal")]


_TABLES = tuple(table for table in tables.metadata.sorted_tables if table is not tables.outbox)
"""The tables that are restored: all but messages, which may have been sent since and must not be sent again."""
_AUDITED = {"study", "events", "participants", "decisions"}
"""The tables in an auditor's copy: the record and what is derived from it."""
_NUMBERED = {"alerts": "id"}
"""Columns that the database numbers: with copied numbers, PostgreSQL would give the next row a number in use."""
