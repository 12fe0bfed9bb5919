"""Statements over many rows in the driver's own SQL: what a batch writes is most of what a decision costs."""

from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import cache
from operator import itemgetter
from typing import Any

from sqlalchemy import Connection, Table
from sqlalchemy.dialects import postgresql, sqlite

Rows = Sequence[dict[str, Any]]
Values = Callable[[dict[str, Any]], tuple[Any, ...]]
"""What takes a row's values in the order of a statement."""


def insert_all(connection: Connection, table: Table, rows: Rows) -> None:
    """Insert rows that have every column."""
    statement, values = _insert(table, connection.dialect.paramstyle)
    connection.exec_driver_sql(statement, list(map(values, rows)))


def insert_new(connection: Connection, table: Table) -> Any:
    """A statement that inserts rows, except where another process has just done so."""
    maker = sqlite.insert if connection.dialect.name == "sqlite" else postgresql.insert
    return maker(table).on_conflict_do_nothing()


def update_all(connection: Connection, table: Table, key: Sequence[str], columns: Sequence[str], rows: Rows) -> None:
    """Set some columns of rows that are found by their key."""
    statement, values = _update(table, tuple(key), tuple(columns), connection.dialect.paramstyle)
    connection.exec_driver_sql(statement, list(map(values, rows)))


def find_all(connection: Connection, table: Table, key: str, values: Iterable[str]) -> list[dict[str, Any]]:
    """The rows whose key is one of some texts; of tables without yes and no, which drivers tell differently."""
    wanted = list(values)
    if not wanted:
        return []
    columns = [column.name for column in table.columns]
    names = ", ".join(columns)
    if connection.dialect.name == "sqlite":
        marks = ", ".join("?" * len(wanted))
        found = connection.exec_driver_sql(f"SELECT {names} FROM {table.name} WHERE {key} IN ({marks})", tuple(wanted))
    else:
        found = connection.exec_driver_sql(f"SELECT {names} FROM {table.name} WHERE {key} = ANY(%s)", (wanted,))
    return [dict(zip(columns, row, strict=True)) for row in found.fetchall()]


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


def stream(connection: Connection, query: str, size: int = 1000) -> Iterator[list[tuple[Any, ...]]]:
    """The rows of a query as the driver gives them, a thousand at a time: more would not stay near the processor.

    Yes and no may come as 1 and 0.
    """
    driver: Any = connection.connection.driver_connection
    cursor = driver.cursor() if connection.dialect.name == "sqlite" else driver.cursor(name="stream")
    try:
        cursor.execute(query)
        while rows := cursor.fetchmany(size):
            yield rows
    finally:
        cursor.close()
