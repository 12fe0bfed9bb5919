"""The database: SQLite in a file of its own, or PostgreSQL; opened, checked and brought to this version's tables."""

import contextlib
import copy
import fcntl
import os
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple, cast

from alembic import command
from alembic.config import Config
from alembic.migration import MigrationContext
from alembic.script import ScriptDirectory
from sqlalchemy import Connection, Engine, Table, Update, bindparam, create_engine, event, inspect, text, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from opportune.algorithm.version import ALGORITHM
from opportune.errors import DataError, InputError, WriteError
from opportune.service.record import events

BUSY_MILLISECONDS = 10_000
PRAGMAS = ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON", "cache_size=-65536", "wal_autocheckpoint=64000")
"""`checkpoint` copies the log into the file every second, beside the writer.

The log restarts only once all of it is copied, which under constant writing only the writer itself can do. It does so
when the log reaches 250 MB (64,000 pages); decisions wait meanwhile, and fewer than one in a hundred should.
"""
MIGRATIONS = Path(__file__).parent / "migrations"
_VERSION = text("SELECT version_num FROM alembic_version")
MIGRATION_LOCK, BEGINNING_LOCK = 748291, 748292  # PostgreSQL identifies advisory locks by number


def normal_url(url: str) -> str:
    """A database's address in SQLAlchemy's form."""
    expected = "sqlite:///FILE or postgresql://USER@HOST/DATABASE"
    try:
        make_url(url)
    except (ArgumentError, ValueError):  # such as a port that is not a number
        raise InputError(f"the database is {_without_password(url)!r}; expected {expected}") from None
    if url.startswith(("postgresql://", "postgres://")):
        return "postgresql+psycopg://" + url.split("://", 1)[1]
    if url.startswith("postgresql+psycopg://") or (url.startswith("sqlite:///") and len(url) > len("sqlite:///")):
        return url
    raise InputError(f"the database is {_without_password(url)!r}; expected {expected}")


def file_url(path: Path) -> str:
    """The address of a SQLite file, whatever characters its name contains."""
    return URL.create("sqlite", database=str(path)).render_as_string()


def _without_password(url: str) -> str:
    try:
        return make_url(url).render_as_string(hide_password=True)
    except (ArgumentError, ValueError):
        return url.rsplit("@", maxsplit=1)[-1]


class Elsewhere(DataError):  # noqa: N818  (nothing went wrong here)
    """The study continues elsewhere: with another version of Opportune, or in another database."""


class Database:
    """Connections to one database: `writing` for the writer's transactions, `reading` for all others."""

    def __init__(self, url: str) -> None:
        self.url = normal_url(url)
        self.sqlite = self.url.startswith("sqlite")
        self.name = _without_password(url)
        if self.sqlite:
            self.path = Path(make_url(self.url).database or "")
            self.name = f"sqlite:///{self.path}"  # without the escapes of a URL
            if not self.path.parent.is_dir():
                raise InputError(f"{self.path.parent} is not a folder; expected one for the database file")
        self._file: tuple[int, int] | None = None  # device and inode of the file, once a service writes to it
        self.writing = self._engine("BEGIN IMMEDIATE")
        self.reading = self._engine("BEGIN")

    def _engine(self, begin: str) -> Engine:
        if not self.sqlite:
            return create_engine(self.url, hide_parameters=True, pool_size=4, max_overflow=8, pool_pre_ping=True)
        engine = create_engine(
            self.url,
            hide_parameters=True,
            connect_args={"timeout": BUSY_MILLISECONDS / 1000, "check_same_thread": False},
        )

        @event.listens_for(engine, "connect")
        def _connect(connection: Any, _record: Any) -> None:
            connection.isolation_level = None  # `_begin` starts transactions, not the driver
            for pragma in PRAGMAS:
                connection.execute(f"PRAGMA {pragma}").close()

        @event.listens_for(engine, "begin")
        def _begin(connection: Connection) -> None:
            connection.exec_driver_sql(begin)

        return engine

    @contextlib.contextmanager
    def moment(self) -> Iterator[Connection]:
        """A transaction that sees the database as it is now, whatever is written meanwhile."""
        engine = self.reading if self.sqlite else self.reading.execution_options(isolation_level="REPEATABLE READ")
        with engine.begin() as connection:
            yield connection

    @contextlib.contextmanager
    def still(self) -> Iterator["Database"]:
        """A view of the database as it is now, for a single thread to read."""
        with self.moment() as connection:
            view = copy.copy(self)
            view.reading = cast("Engine", _Still(connection))
            yield view

    def check_durable(self) -> None:
        """Refuse a database whose settings let it report a commit before it is durable."""
        with self.writing.connect() as connection:
            if self.sqlite:
                level = connection.exec_driver_sql("PRAGMA synchronous").scalar_one()
                mode = connection.exec_driver_sql("PRAGMA journal_mode").scalar_one()
                if (level, mode) != (2, "wal"):
                    raise DataError(f"{self.name} has synchronous={level}, journal_mode={mode}; expected 2 and wal")
                return
            for setting in ("fsync", "synchronous_commit", "full_page_writes"):
                value = connection.execute(text(f"SHOW {setting}")).scalar_one()
                if value in {"off", "local"}:
                    raise DataError(f"{self.name} has {setting} = {value}; expected on, or a decision could be lost")

    def standby(self) -> str | None:
        """A warning about a standby that may lack the last answers; None if there is nothing to warn of."""
        if self.sqlite:
            return None
        with self.reading.connect() as connection:
            standbys = connection.execute(text("SELECT count(*) FROM pg_stat_replication")).scalar_one()
            waited_for = connection.execute(text("SHOW synchronous_standby_names")).scalar_one()
        if not standbys or waited_for:
            return None
        return (
            f"{self.name} has a standby that nothing waits for (synchronous_standby_names is empty): after a failover "
            "the last answers may not be on record"
        )

    def revision(self, connection: Connection) -> str | None:
        """The version of the database's tables; None if there are none."""
        return MigrationContext.configure(connection).get_current_revision()

    def migrate(self, to: str = "head") -> tuple[str | None, str]:
        """Upgrade the tables to this version, or to an earlier one; returns the version before and after.

        All steps run in one transaction. A newer database is refused, as is a study on another algorithm version.
        """
        scripts = _scripts()
        with self.writing.begin() as connection:
            if not self.sqlite:
                connection.execute(text(f"SELECT pg_advisory_xact_lock({MIGRATION_LOCK})"))
            found, newest = self.revision(connection), scripts.get_current_head() if to == "head" else to
            assert newest is not None
            self._refuse_newer(found, scripts)
            if found is not None:
                self.require_algorithm(connection)
                if not self.sqlite:  # a running write finishes first; the next one sees the new tables
                    connection.execute(text("SELECT id FROM study FOR UPDATE"))
            if found is None and (others := inspect(connection).get_table_names()):
                raise InputError(
                    f"{self.name} contains tables of another program ({', '.join(sorted(others)[:3])}); expected an "
                    "empty database, or that of a study"
                )
            if found != newest:
                config = Config()
                config.set_main_option("script_location", str(MIGRATIONS))
                config.attributes["connection"] = connection
                command.upgrade(config, newest)
        return found, newest

    def _refuse_newer(self, found: str | None, scripts: ScriptDirectory) -> None:
        known = {script.revision for script in scripts.walk_revisions()}
        if found is not None and found not in known:
            raise DataError(
                f"{self.name} has tables of version {found}; this version of Opportune reads versions up to "
                f"{scripts.get_current_head()}: use the version of Opportune that wrote them, or a newer one"
            )

    def is_empty(self) -> bool:
        """Whether there are no tables yet."""
        with self.writing.connect() as connection:
            return self.revision(connection) is None

    def require_current(self) -> None:
        """Refuse a database without tables, or with tables of another version."""
        if self.sqlite and not self.path.exists():
            raise InputError(f"{self.path} does not exist; expected the database of a study (see opportune serve)")
        scripts = _scripts()
        newest = scripts.get_current_head()
        with self.reading.connect() as connection:
            found = self.revision(connection)
            self._refuse_newer(found, scripts)
            if found is None:
                raise DataError(
                    f"{self.name} has no tables of a study; expected version {newest} (see opportune serve)"
                )
            self.require_algorithm(connection)
        if found != newest:
            what = f"{self.name} has tables of version {found}; expected version {newest}"
            raise DataError(f"{what}: stop the service, then run opportune upgrade")

    def require_here(self) -> None:
        """Refuse a study that was moved: changes made here would have no effect where it is now."""
        with self.reading.connect() as connection:
            moved = connection.execute(text("SELECT moved FROM study")).scalar()
        if moved is not None:
            raise DataError(f"the study was moved from {self.name} to {moved}; expected --db with its new database")

    def require_algorithm(self, connection: Connection) -> None:
        """Refuse a record decided by another version of the algorithm: a study keeps one version to the end."""
        body = connection.execute(text("SELECT body FROM events ORDER BY seq DESC LIMIT 1")).scalar()
        if body is None:
            return
        last = events.decode(body)
        if last.algorithm != ALGORITHM:
            here = f"the study in {self.name} uses algorithm {last.algorithm}, and this Opportune {ALGORITHM}"
            raise DataError(f"{here}: a study keeps its algorithm to the end; continue with Opportune {last.version}")

    @contextlib.contextmanager
    def beginning(self) -> Iterator[None]:
        """Hold a lock while a server finds or launches the study, as several servers may start at once."""
        if self.sqlite:
            with self.held():
                pass  # raises now if another service holds the file
            yield
            return
        with self.reading.connect() as connection:
            connection.execute(text(f"SELECT pg_advisory_lock({BEGINNING_LOCK})"))
            try:
                yield
            finally:
                connection.execute(text(f"SELECT pg_advisory_unlock({BEGINNING_LOCK})"))

    @contextlib.contextmanager
    def held(self) -> Iterator[None]:
        """Hold a SQLite file for one process at a time; the lock file contains its number."""
        if not self.sqlite:
            yield
            return
        file = self.path.resolve()  # the same lock for every path to the file
        path = file.with_name(file.name + ".lock")
        with path.open("ab+", buffering=0) as lock:
            try:
                fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except OSError:
                lock.seek(0)
                holder = lock.read().decode().strip() or "unknown"
                raise DataError(
                    f"{self.path} is in use by process {holder}; expected one service for a SQLite file: stop the "
                    "other, or use PostgreSQL for several"
                ) from None
            try:
                lock.truncate(0)
                lock.write(str(os.getpid()).encode())
            except OSError as error:
                raise WriteError(f"{path} cannot be written ({error.strerror})") from None
            try:
                yield
            finally:
                lock.truncate(0)

    def keep_to_file(self) -> None:
        """Remember the SQLite file, so that `require_file` notices when it is removed or replaced."""
        self._file = self._file_there() if self.sqlite else None

    def require_file(self) -> None:
        """Raise `Elsewhere` if the file was removed or replaced: anything written now would be lost."""
        if self._file is not None and self._file_there() != self._file:
            raise Elsewhere(f"{self.path} was removed or replaced: put it back, and start the service again")

    def _file_there(self) -> tuple[int, int]:
        try:
            found = self.path.stat()
        except FileNotFoundError:
            return 0, 0
        return found.st_dev, found.st_ino

    def checkpoint(self) -> bool:
        """Copy as much of SQLite's log into the file as readers and writers allow; returns whether all was copied."""
        with contextlib.closing(self.writing.raw_connection()) as connection:
            driver: Any = connection.driver_connection
            _busy, length, copied = driver.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        return bool(length == copied)

    def close(self) -> None:
        """Close all connections."""
        self.writing.dispose()
        self.reading.dispose()


class _Still(NamedTuple):
    """Stands in for an engine: every `connect` gives the same open connection."""

    connection: Connection

    def connect(self) -> contextlib.AbstractContextManager[Connection]:
        """The connection, which stays open."""
        return contextlib.nullcontext(self.connection)


def insert_if_missing(connection: Connection, table: Table) -> Any:
    """A statement that inserts rows, except those whose key exists already."""
    maker = sqlite.insert if connection.dialect.name == "sqlite" else postgresql.insert
    return maker(table).on_conflict_do_nothing()


def update_rows(
    connection: Connection, table: Table, key: str, columns: Iterable[str], rows: Sequence[Mapping[str, Any]]
) -> None:
    """Set some columns of rows that are found by their key."""
    names = tuple(name for name in columns if name != key)
    found = [{"found_by": row[key], **{f"new_{name}": row[name] for name in names}} for row in rows]
    connection.execute(_update(table, key, names), found)


@cache
def _update(table: Table, key: str, names: tuple[str, ...]) -> Update:
    """Build the statement that sets these columns, once."""
    return (
        update(table)
        .where(table.c[key] == bindparam("found_by"))
        .values({name: bindparam(f"new_{name}") for name in names})
    )


def check_schema(connection: Connection) -> None:
    """Raise `Elsewhere` if the tables are of another version: they were upgraded while this process ran."""
    found = connection.execute(_VERSION).scalar()
    if found != newest():
        raise Elsewhere(f"the tables are of version {found}, and this process expects {newest()}: restart it")


@cache
def newest() -> str | None:
    """The version of the tables that this version of Opportune uses."""
    return _scripts().get_current_head()


def is_away(error: BaseException) -> bool:
    """Whether an error means that the database cannot be reached for now, or that no connection is free."""
    if isinstance(error, DBAPIError):
        return error.connection_invalidated or isinstance(error, OperationalError | InterfaceError)
    return isinstance(error, PoolTimeout)


def reachable(database: Database) -> bool:
    """Whether the database answers."""
    try:
        with database.reading.connect() as connection:
            connection.execute(text("SELECT 1"))
    except (OperationalError, InterfaceError, PoolTimeout):
        return False
    return True


def _scripts() -> ScriptDirectory:
    config = Config()
    config.set_main_option("script_location", str(MIGRATIONS))
    return ScriptDirectory.from_config(config)
