"""Accounts that were there before a test begins, with keys that are the same every time."""

from sqlalchemy import Connection, Table, insert

from opportune.service.accounts import people
from opportune.service.accounts.changes import change_account, launching
from opportune.service.accounts.keys import key_hash
from opportune.service.record import tables
from opportune.service.record.database import Database
from opportune.service.state import clock


def key_by_hand(database: Database, name: str, role: str) -> str:
    """A key."""
    key = f"opp_{name} for {role}".replace(" ", "-")
    _add(database, tables.keys, "key added", name, role, key_hash(key))
    return key


def person_by_hand(database: Database, name: str, role: str, password: str) -> None:
    """Someone who signs in with a password."""
    _add(database, tables.people, "person added", name, role, people._HASHER.hash(password))


def _add(database: Database, table: Table, what: str, name: str, role: str, hashed: str) -> None:
    row = {"name": name, "role": role, "hash": hashed, "created": clock.now()}

    def insert_row(connection: Connection) -> None:
        connection.execute(insert(table), row)

    change_account(database, launching(), what, name, insert_row, role=role)
