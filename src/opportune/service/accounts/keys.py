"""Keys for programs, roles, and who is calling; keys are stored as hashes and shown once."""

import hashlib
import secrets
import threading
import time
from typing import Any, NamedTuple

from sqlalchemy import Connection, insert, select, update

from opportune import checks
from opportune.errors import InputError
from opportune.service.accounts.changes import Actor, change_account, launching
from opportune.service.accounts.names import PARTICIPANT, check_free, check_name
from opportune.service.record import tables
from opportune.service.record.database import Database
from opportune.service.state import clock

APP, STAFF, ANALYST, ADMIN = "app", "staff", "analyst", "admin"
ROLES = (APP, STAFF, ANALYST, ADMIN)
PREFIX, ACCESS_PREFIX, REFRESH_PREFIX = "opp_", "opt_", "opr_"
"""How keys, participants' access tokens, and their refresh tokens begin."""
PHONE = "participant"
"""The role of an access token, for one participant; no key or person has it."""
FRESH_SECONDS = 2.0
"""How long a key stays valid after it was looked up; a revoked key is refused after that at the latest."""
_MOST_NAMES = 10_000


class Caller(NamedTuple):
    """Who makes a request: the name of the key, person or token, and its role."""

    name: str
    role: str

    @property
    def participant(self) -> str | None:
        """The participant to whom the caller is restricted; None without a restriction."""
        return self.name.removeprefix(PARTICIPANT) if self.role == PHONE else None


def key_hash(key: str) -> str:
    """The hash stored for a key: keys are long and random, so a plain hash cannot be reversed."""
    return hashlib.sha256(key.encode()).hexdigest()


def add_key(database: Database, name: str, role: str, by: Actor | None = None) -> str:
    """Add a key; it is returned here and stored only as a hash."""
    check_name(name)
    checks.choice("role", role, ROLES)
    key = PREFIX + secrets.token_urlsafe(32)

    def change(connection: Connection) -> None:
        check_free(connection, name)
        row = {"name": name, "role": role, "hash": key_hash(key), "created": clock.now()}
        connection.execute(insert(tables.keys), row)

    change_account(database, by or launching(), "key added", name, change, role=role)
    return key


def revoke_key(database: Database, name: str, by: Actor | None = None) -> None:
    """Revoke a key."""
    _change(database, name, by, "key revoked", revoked=clock.now())


def resume_key(database: Database, name: str, by: Actor | None = None) -> None:
    """Readmit a key that a restored backup had suspended."""
    _change(database, name, by, "key resumed", suspended=None)


def _change(database: Database, name: str, by: Actor | None, what: str, **values: int | None) -> None:
    check_name(name)
    table = tables.keys

    def change(connection: Connection) -> None:
        changed = update(table).where(table.c.name == name, table.c.revoked.is_(None)).values(values)
        if connection.execute(changed).rowcount == 0:
            raise InputError(f"no active key is called {name!r}; see opportune keys list")

    change_account(database, by or launching(), what, name, change)


def list_keys(database: Database) -> list[dict[str, Any]]:
    """All keys, without their hashes."""
    columns = [c for c in tables.keys.c if c.name != "hash"]
    with database.reading.connect() as connection:
        return [dict(row) for row in connection.execute(select(*columns).order_by(tables.keys.c.name)).mappings()]


class Keys:
    """Looks up keys, with a cache of `FRESH_SECONDS`."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._known: dict[str, tuple[float, Caller]] = {}
        self._lock = threading.Lock()
        self._used: dict[str, int] = {}

    def remembered(self, key: str) -> Caller | None:
        """The owner of a key that was looked up recently, without querying the database; else None."""
        until, caller = self._known.get(key_hash(key), (0.0, None))
        if caller is None or until < time.monotonic():
            return None
        self._note(caller)
        return caller

    def find(self, key: str) -> Caller | None:
        """The owner of a key; None if it is unknown, revoked or suspended."""
        if (caller := self.remembered(key)) is not None:
            return caller
        hashed = key_hash(key)
        caller = self._read(key, hashed)
        if caller is not None:
            if len(self._known) > _MOST_NAMES:
                self._known.clear()
            self._known[hashed] = time.monotonic() + FRESH_SECONDS, caller
            self._note(caller)
        return caller

    def _note(self, caller: Caller) -> None:
        if caller.role in ROLES:
            self._used[caller.name] = clock.now()

    def _read(self, key: str, hashed: str) -> Caller | None:
        if key.startswith(ACCESS_PREFIX):
            return self._token(hashed)
        table = tables.keys
        query = select(table.c.name, table.c.role).where(table.c.hash == hashed)
        query = query.where(table.c.revoked.is_(None), table.c.suspended.is_(None))
        with self._database.reading.connect() as connection:
            row = connection.execute(query).first()
        return None if row is None else Caller(row.name, row.role)

    def _token(self, hashed: str) -> Caller | None:
        table, now = tables.tokens, clock.now()
        good = (
            table.c.hash == hashed, ~table.c.refreshes, table.c.revoked.is_(None), table.c.expires > now,
            table.c.created <= now + clock.SLACK,  # not a token made while the clock was ahead
        )  # fmt: skip
        with self._database.reading.connect() as connection:
            participant = connection.execute(select(table.c.participant).where(*good)).scalar()
        return None if participant is None else Caller(f"{PARTICIPANT}{participant}", PHONE)

    def note_use(self) -> None:
        """Write to the database when keys were last used."""
        with self._lock:
            used, self._used = self._used, {}
        if used:
            table = tables.keys
            with self._database.writing.begin() as connection:
                for name, moment in used.items():
                    connection.execute(update(table).where(table.c.name == name).values(used=moment))
