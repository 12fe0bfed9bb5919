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
from sqlalchemy import Connection, Engine, Table, bindparam, create_engine, event, inspect, text, update
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, DBAPIError, InterfaceError, OperationalError
from sqlalchemy.exc import TimeoutError as PoolTimeout

from opportune.algorithm.version import ALGORITHM
from opportune.errors import DataError, InputError, WriteError
from opportune.service.record import events

BUSY_MILLISECONDS = 10_000
PRAGMAS = ("journal_mode=WAL", "synchronous=FULL", "foreign_keys=ON", "cache_size=-65536", "wal_autocheckpoint=64000")
"""The log is copied into the file as soon as nobody writes, or beside the writer (`checkpoint`).

It begins anew once all of it is copied, which while others write succeeds to the writer alone. That takes care of what
is left when the log has 250 MB; decisions wait meanwhile, so that should happen to fewer than one in a hundred.
"""
MIGRATIONS = Path(__file__).parent / "migrations"
MIGRATION_LOCK, BEGINNING_LOCK = 748291, 748292  # numbers that PostgreSQL knows locks by


def normal_url(url: str) -> str:
    """A database's address as SQLAlchemy takes it."""
    expected = "sqlite:///FILE or postgresql://USER@HOST/DATABASE"
    try:
        make_url(url)
    except (ArgumentError, ValueError):  # such as a port that is none
        raise InputError(f"the database is {_without_password(url)!r}; expected {expected}") from None
    if url.startswith(("postgresql://", "postgres://")):
        return "postgresql+psycopg://" + url.split("://", 1)[1]
    if url.startswith("postgresql+psycopg://") or (url.startswith("sqlite:///") and len(url) > len("sqlite:///")):
        return url
    raise InputError(f"the database is {_without_password(url)!r}; expected {expected}")


def file_url(path: Path) -> str:
    """The address of a SQLite file, whatever characters its name has."""
    return URL.create("sqlite", database=str(path)).render_as_string()


def _without_password(url: str) -> str:
    try:
        return make_url(url).render_as_string(hide_password=True)
    except (ArgumentError, ValueError):
        return url.rsplit("@", maxsplit=1)[-1]


class Elsewhere(DataError):  # noqa: N818  (nothing went wrong here)
    """The study goes on elsewhere: with another version of Opportune, or in another database."""


class Database:
    """Connections to one database: one that writes, and as many as need be that read."""

    def __init__(self, url: str) -> None:
        self.url = normal_url(url)
        self.sqlite = self.url.startswith("sqlite")
        self.name = _without_password(url)
        if self.sqlite:
            self.path = Path(make_url(self.url).database or "")
            self.name = f"sqlite:///{self.path}"  # as people read it
            if not self.path.parent.is_dir():
                raise InputError(f"{self.path.parent} is not a folder; expected one for the database file")
        self._file: tuple[int, int] | None = None  # the one that a service writes to, once it has begun
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
            connection.isolation_level = None  # transactions begin where we say so, and as we say
            for pragma in PRAGMAS:
                connection.execute(f"PRAGMA {pragma}").close()

        @event.listens_for(engine, "begin")
        def _begin(connection: Connection) -> None:
            connection.exec_driver_sql(begin)

        return engine

    @contextlib.contextmanager
    def moment(self) -> Iterator[Connection]:
        """A transaction that sees everything as it is now, whatever is written meanwhile."""
        engine = self.reading if self.sqlite else self.reading.execution_options(isolation_level="REPEATABLE READ")
        with engine.begin() as connection:
            yield connection

    @contextlib.contextmanager
    def still(self) -> Iterator["Database"]:
        """The database as it is now, for one thread to read from."""
        with self.moment() as connection:
            view = copy.copy(self)
            view.reading = cast("Engine", _Still(connection))
            yield view

    def check_durable(self) -> None:
        """Refuse a database that would say that something is stored before it is."""
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
        """What to say of a standby that may lack what was answered last; None where there is nothing to say."""
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
        """The version of the tables that are there; None for none."""
        return MigrationContext.configure(connection).get_current_revision()

    def migrate(self, to: str = "head") -> tuple[str | None, str]:
        """Bring the tables to this version's, or to an earlier one's; from which version, and to which.

        All in one transaction. A newer database is refused, and so is one that another algorithm decides in.
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
                if not self.sqlite:  # who writes at this moment finishes first, and sees the new tables the next time
                    connection.execute(text("SELECT id FROM study FOR UPDATE"))
            if found is None and (others := inspect(connection).get_table_names()):
                raise InputError(
                    f"{self.name} has tables of something else ({', '.join(sorted(others)[:3])}); expected an empty "
                    "database, or that of a study"
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
                f"{self.name} has tables of version {found}; this version of Opportune knows them up to "
                f"{scripts.get_current_head()}: go on with the version that made them, or a newer one"
            )

    def is_empty(self) -> bool:
        """Whether there are no tables yet."""
        with self.writing.connect() as connection:
            return self.revision(connection) is None

    def require_current(self) -> None:
        """Refuse a database whose tables are not this version's, or that has none."""
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
        """Refuse a study that was moved: what is done to what it left behind has no effect where it is now."""
        with self.reading.connect() as connection:
            moved = connection.execute(text("SELECT moved FROM study")).scalar()
        if moved is not None:
            raise DataError(f"the study was moved from {self.name} to {moved}; expected --db with where it is now")

    def require_algorithm(self, connection: Connection) -> None:
        """Refuse a record whose decisions another version of the algorithm has made: it would not go on as it began."""
        body = connection.execute(text("SELECT body FROM events ORDER BY seq DESC LIMIT 1")).scalar()
        if body is None:
            return
        last = events.decode(body)
        if last.algorithm != ALGORITHM:
            here = f"the study in {self.name} goes by algorithm {last.algorithm}, and this Opportune by {ALGORITHM}"
            raise DataError(f"{here}: a study stays on its own to the end; go on with Opportune {last.version}")

    @contextlib.contextmanager
    def beginning(self) -> Iterator[None]:
        """While a server looks for the study, and launches it: one after the other, as several may start at once."""
        if self.sqlite:
            with self.held():
                pass  # or say now that another service has it
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
        """Hold a SQLite file while a service runs on it: one process at a time, and the lock says which."""
        if not self.sqlite:
            yield
            return
        file = self.path.resolve()  # by whichever name someone calls it
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
        """From now on notice where another SQLite file takes the place of the one that is there, or none does."""
        self._file = self._file_there() if self.sqlite else None

    def require_file(self) -> None:
        """Raise `Elsewhere` where the file was removed or replaced: what is written would be lost with it."""
        if self._file is not None and self._file_there() != self._file:
            raise Elsewhere(f"{self.path} was removed or replaced: put it back, and start the service again")

    def _file_there(self) -> tuple[int, int]:
        try:
            found = self.path.stat()
        except FileNotFoundError:
            return 0, 0
        return found.st_dev, found.st_ino

    def checkpoint(self) -> bool:
        """Have SQLite copy its log into the file as far as nobody is in the way; whether all of it was."""
        with contextlib.closing(self.writing.raw_connection()) as connection:
            driver: Any = connection.driver_connection
            _busy, length, copied = driver.execute("PRAGMA wal_checkpoint(PASSIVE)").fetchone()
        return bool(length == copied)

    def close(self) -> None:
        """Close all connections."""
        self.writing.dispose()
        self.reading.dispose()


class _Still(NamedTuple):
    """In place of an engine: whoever connects gets the connection that is there."""

    connection: Connection

    def connect(self) -> contextlib.AbstractContextManager[Connection]:
        """The connection, which stays open."""
        return contextlib.nullcontext(self.connection)


def insert_if_missing(connection: Connection, table: Table) -> Any:
    """A statement that inserts rows, but for those whose key is there already."""
    maker = sqlite.insert if connection.dialect.name == "sqlite" else postgresql.insert
    return maker(table).on_conflict_do_nothing()


def update_rows(
    connection: Connection, table: Table, key: str, columns: Iterable[str], rows: Sequence[Mapping[str, Any]]
) -> None:
    """Set some columns of rows that are found by their key."""
    values: dict[str, Any] = {name: bindparam(f"new_{name}") for name in columns if name != key}
    change = update(table).where(table.c[key] == bindparam("found_by")).values(values)
    connection.execute(
        change, [{"found_by": row[key], **{f"new_{name}": row[name] for name in values}} for row in rows]
    )


def check_schema(connection: Connection) -> None:
    """Raise `Elsewhere` where the tables are not this version's: another version may be at work on them."""
    found = connection.execute(text("SELECT version_num FROM alembic_version")).scalar()
    if found != newest():
        raise Elsewhere(f"the tables are of version {found}, and this process knows {newest()}: start it again")


@cache
def newest() -> str | None:
    """The version of the tables that this version of Opportune has."""
    return _scripts().get_current_head()


def is_away(error: BaseException) -> bool:
    """Whether an error says that the database cannot be reached for now, or that none of its connections is free."""
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
