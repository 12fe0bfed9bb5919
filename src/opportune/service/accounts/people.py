"""People who sign in: passwords as Argon2 hashes, a lock after repeated failures."""

import secrets
import threading
from typing import Any

from argon2 import PasswordHasher
from argon2.exceptions import VerificationError
from sqlalchemy import case, insert, select, update

from opportune import checks
from opportune.errors import InputError
from opportune.service.accounts import sessions
from opportune.service.accounts.keys import ROLES, Caller, check_name
from opportune.service.record import tables
from opportune.service.record.database import Database
from opportune.service.state import clock

LEAST_LENGTH = 12
MOST_FAILURES = 5
LOCKED = 15 * clock.MINUTE
_HASHER = PasswordHasher()
_NOBODY = _HASHER.hash(secrets.token_urlsafe(16))
"""Checked where there is no such person, so that the answer takes as long."""
_AT_ONCE = threading.Semaphore(2)
"""Each check takes 64 MiB and a core for a while: whoever guesses must not take all of them."""


def add_person(database: Database, name: str, role: str, password: str | None = None) -> str:
    """Someone who can sign in; the password is handed back here and nowhere else."""
    check_name(name)
    checks.choice("role", role, [r for r in ROLES if r != "app"])
    chosen = new_password() if password is None else password
    check_password(chosen)
    with database.writing.begin() as connection:
        for table in (tables.people, tables.keys):  # the record must tell them apart
            if connection.execute(select(table.c.name).where(table.c.name == name)).first():
                raise InputError(f"someone or something is called {name!r} already; expected another name")
        row = {"name": name, "role": role, "hash": _HASHER.hash(chosen), "created": clock.now(), "failures": 0}
        connection.execute(insert(tables.people), row)
    return chosen


def new_password() -> str:
    """A password that nobody guesses."""
    return secrets.token_urlsafe(12)


def check_password(password: str) -> None:
    """Refuse a password that is too easy to guess."""
    if not isinstance(password, str) or not LEAST_LENGTH <= len(password) <= 256:
        raise InputError(f"the password is too short or too long; expected {LEAST_LENGTH} to 256 characters")


def change_password(database: Database, name: str, password: str) -> None:
    """Another password, which also takes back a lock and signs out wherever someone is signed in by that name."""
    check_password(password)
    values = {"hash": _HASHER.hash(password), "failures": 0, "locked_until": None}
    _change(database, name, values)
    sessions.end_all(database, name)


def revoke_person(database: Database, name: str) -> None:
    """Someone can no longer sign in."""
    _change(database, name, {"revoked": clock.now()})


def _change(database: Database, name: str, values: dict[str, Any]) -> None:
    check_name(name)
    table = tables.people
    with database.writing.begin() as connection:
        change = update(table).where(table.c.name == name, table.c.revoked.is_(None)).values(values)
        if connection.execute(change).rowcount == 0:
            raise InputError(f"nobody who can sign in is called {name!r}; see opportune people list")


def list_people(database: Database) -> list[dict[str, Any]]:
    """All who can sign in, or could."""
    columns = [c for c in tables.people.c if c.name != "hash"]
    with database.reading.connect() as connection:
        return [dict(row) for row in connection.execute(select(*columns).order_by(tables.people.c.name)).mappings()]


def sign_in(database: Database, name: str, password: str) -> Caller | None:
    """Who it is; None if name or password are wrong, or the name is locked after repeated failures."""
    table, now = tables.people, clock.now()
    with database.reading.connect() as connection:
        row = connection.execute(select(table).where(table.c.name == name)).mappings().first()
    right = _matches(_NOBODY if row is None else row["hash"], password)
    if row is None or row["revoked"] is not None:
        return None
    if row["locked_until"] is not None and row["locked_until"] > now:
        return None
    if not right:
        _count_failure(database, name, now)
        return None
    with database.writing.begin() as connection:
        change = update(table).where(table.c.name == name)
        connection.execute(change.values(failures=0, locked_until=None, used=now))
    return Caller(name, row["role"])


def _count_failure(database: Database, name: str, now: int) -> None:
    """One more, and the lock if that is too many: in one statement, as others may guess at the same time."""
    table = tables.people
    many = table.c.failures + 1 >= MOST_FAILURES
    values = {
        "failures": case((many, 0), else_=table.c.failures + 1),
        "locked_until": case((many, now + LOCKED), else_=table.c.locked_until),
    }
    with database.writing.begin() as connection:
        connection.execute(update(table).where(table.c.name == name).values(values))


def _matches(hashed: str, password: str) -> bool:
    try:
        with _AT_ONCE:
            return _HASHER.verify(hashed, password)
    except VerificationError:
        return False
