"""Statements over many rows in the driver's own SQL: what a batch writes is most of what a decision costs.

They go to the driver itself, inside SQLAlchemy's transaction: its own machinery takes as long for a statement as a
dozen rows do. What a driver raises is raised as SQLAlchemy's error, as everywhere else.
"""

from collections.abc import Callable, Generator, Iterable, Sequence
from functools import cache
from itertools import count
from operator import itemgetter
from typing import Any

from sqlalchemy import Connection, Table
from sqlalchemy.dialects import postgresql, sqlite
from sqlalchemy.exc import DBAPIError

Rows = Sequence[dict[str, Any]]
Values = Callable[[dict[str, Any]], tuple[Any, ...]]
"""What takes a row's values in the order of a statement."""


def insert_all(connection: Connection, table: Table, rows: Rows) -> None:
    """Insert rows that have every column."""
    statement, values = _insert(table, connection.dialect.paramstyle)
    _many(connection, statement, list(map(values, rows)))


def insert_values(connection: Connection, table: Table, rows: list[tuple[Any, ...]]) -> None:
    """Insert rows that are told by their values, in the order of the columns."""
    _many(connection, _insert(table, connection.dialect.paramstyle)[0], rows)


def insert_new(connection: Connection, table: Table) -> Any:
    """A statement that inserts rows, except where another process has just done so."""
    maker = sqlite.insert if connection.dialect.name == "sqlite" else postgresql.insert
    return maker(table).on_conflict_do_nothing()


def update_all(connection: Connection, table: Table, key: Sequence[str], columns: Sequence[str], rows: Rows) -> None:
    """Set some columns of rows that are found by their key."""
    statement, values = _update(table, tuple(key), tuple(columns), connection.dialect.paramstyle)
    _many(connection, statement, list(map(values, rows)))


def update_values(
    connection: Connection, table: Table, columns: tuple[str, ...], key: str, rows: list[tuple[Any, ...]]
) -> None:
    """Likewise, of rows that are told by their values: the columns', and the key."""
    _many(connection, _update(table, (key,), columns, connection.dialect.paramstyle)[0], rows)


def find_all(connection: Connection, table: Table, key: str, values: Iterable[str | int]) -> list[dict[str, Any]]:
    """The rows whose key is one of some values; of tables without yes and no, which drivers tell differently."""
    wanted = list(values)
    if not wanted:
        return []
    columns = tuple(column.name for column in table.columns)
    names = ", ".join(columns)
    if connection.dialect.name == "sqlite":
        marks = ", ".join("?" * len(wanted))
        found = find(connection, f"SELECT {names} FROM {table.name} WHERE {key} IN ({marks})", tuple(wanted))
    else:
        found = find(connection, f"SELECT {names} FROM {table.name} WHERE {key} = ANY(%s)", (wanted,))
    return [dict(zip(columns, row, strict=True)) for row in found]


def find_one(connection: Connection, table: Table, columns: tuple[str, ...], *, lock: bool) -> dict[str, Any] | None:
    """Some columns of the one row of a table, if it is there; with `lock` nobody else may change it until the end."""
    statement = f"SELECT {', '.join(columns)} FROM {table.name}{' FOR UPDATE' if lock else ''}"
    rows = find(connection, statement)
    return dict(zip(columns, rows[0], strict=True)) if rows else None


def find(connection: Connection, statement: str, values: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """What a statement in the driver's own SQL finds."""
    cursor = _cursor(connection)
    try:
        found: list[tuple[Any, ...]] = cursor.execute(statement, *([values] if values else [])).fetchall()
    except connection.dialect.loaded_dbapi.Error as error:
        raise _as_sqlalchemy(connection, statement, error) from error
    finally:
        cursor.close()
    return found


def _many(connection: Connection, statement: str, rows: list[tuple[Any, ...]]) -> None:
    cursor = _cursor(connection)
    try:
        cursor.executemany(statement, rows)
    except connection.dialect.loaded_dbapi.Error as error:
        raise _as_sqlalchemy(connection, statement, error) from error
    finally:
        cursor.close()


def _cursor(connection: Connection) -> Any:
    """A cursor of the driver's, in the transaction that is under way."""
    driver: Any = connection.connection.driver_connection
    return driver.cursor()


def _as_sqlalchemy(connection: Connection, statement: str, error: Exception) -> BaseException:
    dialect = connection.dialect
    return DBAPIError.instance(
        statement, None, error, dialect.loaded_dbapi.Error, hide_parameters=True, dialect=dialect
    )


@cache
def _insert(table: Table, style: str) -> tuple[str, Values]:
    columns = tuple(column.name for column in table.columns)
    marks = ", ".join([_mark(style)] * len(columns))
    return f"INSERT INTO {table.name} ({', '.join(columns)}) VALUES ({marks})", itemgetter(*columns)


@cache
def _update(table: Table, key: tuple[str, ...], columns: tuple[str, ...], style: str) -> tuple[str, Values]:
    mark = _mark(style)
    changes = ", ".join(f"{name} = {mark}" for name in columns)
    found = " AND ".join(f"{name} = {mark}" for name in key)
    return f"UPDATE {table.name} SET {changes} WHERE {found}", itemgetter(*columns, *key)


def _mark(style: str) -> str:
    """Where a value goes, as the driver writes it."""
    return "?" if style == "qmark" else "%s"


_STREAMS = count()


def stream(connection: Connection, query: str) -> Generator[list[tuple[Any, ...]], None, None]:
    """The rows of a query as the driver gives them, some at a time; yes and no may come as 1 and 0.

    From a file few at a time, as more would not stay near the processor; from a server many, as each time is a way.
    """
    driver: Any = connection.connection.driver_connection
    here = connection.dialect.name == "sqlite"
    cursor = driver.cursor() if here else driver.cursor(name=f"stream {next(_STREAMS)}")
    size = 64 if here else 1000
    try:
        cursor.execute(query)
        while rows := cursor.fetchmany(size):
            yield rows
    except connection.dialect.loaded_dbapi.Error as error:
        raise _as_sqlalchemy(connection, query, error) from error
    finally:
        cursor.close()
