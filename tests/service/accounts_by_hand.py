"""Accounts that were there before a test begins: no events, so that the record holds what the test is about."""

from argon2 import PasswordHasher
from sqlalchemy import insert

from opportune.service.accounts.keys import key_hash
from opportune.service.record import tables
from opportune.service.record.database import Database
from opportune.service.state import clock


def key_by_hand(database: Database, name: str, role: str) -> str:
    """A key."""
    key = f"opp_{name} for {role}".replace(" ", "-")
    with database.writing.begin() as connection:
        row = {"name": name, "role": role, "hash": key_hash(key), "created": clock.now()}
        connection.execute(insert(tables.keys), row)
    return key


def person_by_hand(database: Database, name: str, role: str, password: str) -> None:
    """Someone who signs in with a password."""
    with database.writing.begin() as connection:
        row = {"name": name, "role": role, "hash": PasswordHasher().hash(password), "created": clock.now()}
        connection.execute(insert(tables.people), row)
