"""Who may do what: keys for programs, passwords for people; both stored as hashes and shown once."""

import hashlib
import secrets
import threading
import time
from typing import Any, NamedTuple

from sqlalchemy import insert, select, update

from opportune import checks
from opportune.errors import InputError
from opportune.service.record import tables
from opportune.service.record.database import Database
from opportune.service.state import clock

APP, STAFF, ANALYST, ADMIN = "app", "staff", "analyst", "admin"
ROLES = (APP, STAFF, ANALYST, ADMIN)
PREFIX = "opp_"
FRESH_SECONDS = 2.0
"""How long a key that was looked up is taken to be valid: a revoked one is refused after that."""
_MOST_NAMES = 10_000


class Caller(NamedTuple):
    """Who asks, by the key's name, and what role the key has."""

    name: str
    role: str


def key_hash(key: str) -> str:
    """What is stored of a key: keys are long and random, so that a plain hash cannot be reversed."""
    return hashlib.sha256(key.encode()).hexdigest()


def check_name(name: str) -> str:
    """The name of a key or a person, which the record shows for what they do."""
    good = isinstance(name, str) and 0 < len(name) <= 64 and name.isprintable() and name == name.strip()
    if not good or name == "service":
        raise InputError(f"name is {name!r}; expected 1 to 64 printable characters, and not 'service'")
    return name


def add_key(database: Database, name: str, role: str) -> str:
    """A new key, which is handed back here and nowhere else."""
    check_name(name)
    checks.choice("role", role, ROLES)
    key = PREFIX + secrets.token_urlsafe(32)
    with database.writing.begin() as connection:
        for table in (tables.keys, tables.people):  # the record must tell them apart
            if connection.execute(select(table.c.name).where(table.c.name == name)).first():
                text = f"a key or a person is called {name!r} already"
                raise InputError(f"{text}; expected another name (revoked ones keep theirs)")
        row = {"name": name, "role": role, "hash": key_hash(key), "created": clock.now()}
        connection.execute(insert(tables.keys), row)
    return key


def revoke_key(database: Database, name: str) -> None:
    """A key is of no use from now on."""
    check_name(name)
    table = tables.keys
    with database.writing.begin() as connection:
        change = update(table).where(table.c.name == name, table.c.revoked.is_(None)).values(revoked=clock.now())
        if connection.execute(change).rowcount == 0:
            raise InputError(f"no key in use is called {name!r}; see opportune keys list")


def list_keys(database: Database) -> list[dict[str, Any]]:
    """All keys, without what could be used."""
    columns = [c for c in tables.keys.c if c.name != "hash"]
    with database.reading.connect() as connection:
        return [dict(row) for row in connection.execute(select(*columns).order_by(tables.keys.c.name)).mappings()]


class Keys:
    """Looks up keys, and remembers for a moment what it found."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._known: dict[str, tuple[float, Caller]] = {}
        self._lock = threading.Lock()
        self._used: dict[str, int] = {}

    def remembered(self, key: str) -> Caller | None:
        """Who has this key, if it was looked up within the last seconds; asks no database."""
        until, caller = self._known.get(key_hash(key), (0.0, None))
        if caller is None or until < time.monotonic():
            return None
        self._used[caller.name] = clock.now()
        return caller

    def find(self, key: str) -> Caller | None:
        """Who has this key; None if nobody does, or if it was revoked."""
        if (caller := self.remembered(key)) is not None:
            return caller
        hashed = key_hash(key)
        caller = self._read(hashed)
        if caller is not None:
            if len(self._known) > _MOST_NAMES:
                self._known.clear()
            self._known[hashed] = time.monotonic() + FRESH_SECONDS, caller
            self._used[caller.name] = clock.now()
        return caller

    def _read(self, hashed: str) -> Caller | None:
        table = tables.keys
        query = select(table.c.name, table.c.role).where(table.c.hash == hashed, table.c.revoked.is_(None))
        with self._database.reading.connect() as connection:
            row = connection.execute(query).first()
        return None if row is None else Caller(row.name, row.role)

    def note_use(self) -> None:
        """Write down when keys were last used."""
        with self._lock:
            used, self._used = self._used, {}
        if used:
            table = tables.keys
            with self._database.writing.begin() as connection:
                for name, moment in used.items():
                    connection.execute(update(table).where(table.c.name == name).values(used=moment))
