"""People who sign in: passwords of their own choice, stored as Argon2 hashes; invitations; locks after failures."""

import secrets
import threading
from typing import Any

from argon2 import PasswordHasher
from argon2.exceptions import VerificationError
from sqlalchemy import Connection, delete, insert, select, update

from opportune import checks
from opportune.errors import InputError
from opportune.service.accounts import lockouts, sessions
from opportune.service.accounts.changes import Actor, change_account, launching, note_access
from opportune.service.accounts.keys import ADMIN, ROLES, Caller
from opportune.service.accounts.names import check_free, check_name
from opportune.service.commands.base import SYSTEM
from opportune.service.record import tables
from opportune.service.record.database import Database
from opportune.service.state import clock

LEAST_LENGTH, MOST_LENGTH = 12, 256
AT_THE_MACHINE = "the server itself"
_HASHER = PasswordHasher()
_NOBODY = _HASHER.hash(secrets.token_urlsafe(16))
"""Checked when no person has the name given, so that the answer takes as long."""
_AT_ONCE = threading.Semaphore(2)
"""Each check takes 64 MiB and a core for a while: guessing must not use up all of them."""
_PEOPLE = tables.people


def add_person(database: Database, name: str, role: str, password: str | None = None, by: Actor | None = None) -> None:
    """Add a person, who signs in with this password or with one that they choose by an invitation."""
    check_name(name)
    checks.choice("role", role, [r for r in ROLES if r != "app"])
    if password is not None:
        check_password(password)
    hashed = _HASHER.hash(secrets.token_urlsafe(32) if password is None else password)

    def change(connection: Connection) -> None:
        check_free(connection, name)
        connection.execute(insert(_PEOPLE), {"name": name, "role": role, "hash": hashed, "created": clock.now()})

    change_account(database, by or launching(), "person added", name, change, role=role)


def invite(database: Database, name: str, by: Actor | None = None) -> str:
    """Make a one-time token with which a person chooses a new password; until then, they cannot sign in.

    The token is returned here and stored only as a hash. The person is signed out, and must set up a second factor
    again.
    """
    hashed = _HASHER.hash(secrets.token_urlsafe(32))
    values = {"hash": hashed, "totp": None, "totp_since": None, "recovery": None}
    _change(database, name, by, "person invited to choose a password", values, signs_out=True)
    return sessions.new(database, name, sessions.INVITATION)


def choose_password(database: Database, token: str, password: str, origin: dict[str, str]) -> str | None:
    """Choose a password by an invitation; returns the person's name, or None if it is invalid or expired."""
    check_password(password)
    name = sessions.use(database, token, sessions.INVITATION)
    if name is None:
        return None
    change_password(database, name, password, by=Actor(name, origin))
    return name


def check_password(password: str) -> None:
    """Refuse a password that is too short to be safe, or too long."""
    if not isinstance(password, str) or not LEAST_LENGTH <= len(password) <= MOST_LENGTH:
        raise InputError(f"the password is too short or too long; expected {LEAST_LENGTH} to {MOST_LENGTH} characters")


def change_password(database: Database, name: str, password: str, by: Actor | None = None) -> None:
    """Change a password; this also releases locks and signs the person out everywhere."""
    check_password(password)
    _change(database, name, by, "password changed", {"hash": _HASHER.hash(password)}, signs_out=True)


def revoke_person(database: Database, name: str, by: Actor | None = None) -> None:
    """Revoke a person's account, so that they can no longer sign in."""
    _change(database, name, by, "person revoked", {"revoked": clock.now()}, signs_out=True)


def resume_person(database: Database, name: str, by: Actor | None = None) -> None:
    """Readmit a person whom a restored backup had suspended."""
    _change(database, name, by, "person resumed", {"suspended": None})


def release_person(database: Database, name: str, by: Actor | None = None) -> None:
    """Release the locks of an account."""
    _change(database, name, by, "lock taken back", {}, signs_out=False)


def _change(
    database: Database, name: str, by: Actor | None, what: str, values: dict[str, Any], *, signs_out: bool = False
) -> None:
    check_name(name)

    def change(connection: Connection) -> None:
        known = select(_PEOPLE.c.name).where(_PEOPLE.c.name == name, _PEOPLE.c.revoked.is_(None))
        if connection.execute(known).first() is None:
            raise InputError(f"no active person is called {name!r}; see opportune people list")
        if values:
            connection.execute(update(_PEOPLE).where(_PEOPLE.c.name == name).values(values))
        lockouts.release(connection, name)
        if signs_out:
            connection.execute(delete(tables.sessions).where(tables.sessions.c.person == name))

    change_account(database, by or launching(), what, name, change)


def list_people(database: Database) -> list[dict[str, Any]]:
    """All people with an account, including revoked ones."""
    hidden = {"hash", "totp", "totp_step", "recovery"}
    columns = [c for c in _PEOPLE.c if c.name not in hidden]
    with database.reading.connect() as connection:
        return [dict(row) for row in connection.execute(select(*columns).order_by(_PEOPLE.c.name)).mappings()]


def sign_in(
    database: Database, name: str, password: str, *, address: str = AT_THE_MACHINE, browser: str | None = None
) -> Caller | None:
    """Check a name and a password; returns None if they are wrong, or if the account is locked at this place.

    Args:
        database: of the study.
        name: of the account.
        password: as it was typed.
        address: where the attempt comes from.
        browser: the token of a browser in which someone has signed in before.

    """
    with database.reading.connect() as connection:
        row = connection.execute(select(_PEOPLE).where(_PEOPLE.c.name == name)).mappings().first()
    right = _matches(_NOBODY if row is None else row["hash"], password)
    if row is None or row["revoked"] is not None or row["suspended"] is not None:
        return None
    where = open_places(database, name, address, browser)
    if where is None:
        return None
    if not right:
        failed(database, name, row["role"], where, {"from": address})
        return None
    return Caller(name, row["role"])


def open_places(database: Database, name: str, address: str, browser: str | None) -> list[str] | None:
    """The places where a failure would count; None if the account is locked at one of them."""
    now = clock.now()
    where = lockouts.places(database, name, address, None if browser is None else lockouts.browser(browser), now)
    return None if lockouts.locked(database, name, where, now) else where


def failed(database: Database, name: str, role: str, where: list[str], origin: dict[str, str]) -> None:
    """Count a wrong password or code at its places; for an admin's account it is also recorded."""
    with database.writing.begin() as connection:
        many = lockouts.fail(connection, name, where, clock.now())
    if role == ADMIN:
        what = "sign-in failed, and locked there" if many else "sign-in failed"
        note_access(database, Actor(SYSTEM, origin), what, account=name)  # the real author is unknown


def succeeded(database: Database, caller: Caller, address: str, browser: str | None, origin: dict[str, str]) -> None:
    """Note that a person has signed in: the place becomes their own, and an admin's sign-in is recorded."""
    now = clock.now()
    where = [f"address {address}", *([] if browser is None else [lockouts.browser(browser)])]
    with database.writing.begin() as connection:
        lockouts.succeed(connection, caller.name, where, now)
        connection.execute(update(_PEOPLE).where(_PEOPLE.c.name == caller.name).values(used=now))
    if caller.role == ADMIN:
        note_access(database, Actor(caller.name, origin), "signed in", account=caller.name)


def _matches(hashed: str, password: str) -> bool:
    try:
        with _AT_ONCE:
            return _HASHER.verify(hashed, password)
    except VerificationError:
        return False
