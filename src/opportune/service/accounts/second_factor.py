"""The second factor: codes of an authenticator (TOTP, RFC 6238), each valid once, and recovery codes if it is lost."""

import base64
import json
import secrets

import pyotp.utils
from pyotp.totp import TOTP
from sqlalchemy import Connection, select, update

from opportune.errors import InputError
from opportune.service.accounts.changes import Actor, change_account
from opportune.service.accounts.keys import ADMIN, key_hash
from opportune.service.record import tables
from opportune.service.record.database import Database
from opportune.service.state import clock

SECONDS = 30
RECOVERY_CODES = 10
ADMINS, EVERYONE = "admins", "everyone"
"""From whom a study may require it."""
_PEOPLE = tables.people


def required(of: str, role: str) -> bool:
    """Whether someone with this role must have a second factor."""
    return of == EVERYONE or (of == ADMINS and role == ADMIN)


def confirmed(database: Database, person: str) -> bool:
    """Whether a person has set up a second factor."""
    with database.reading.connect() as connection:
        query = select(_PEOPLE.c.totp_since).where(_PEOPLE.c.name == person)
        return connection.execute(query).scalar() is not None


def begin(database: Database, person: str) -> str:
    """The secret for an authenticator, in letters and digits: a new one, unless setup has begun already."""
    with database.writing.begin() as connection:
        mine = (_PEOPLE.c.name == person, _PEOPLE.c.totp_since.is_(None))
        known = connection.execute(select(_PEOPLE.c.totp).where(*mine)).scalar()
        secret = known or pyotp.random_base32()
        connection.execute(update(_PEOPLE).where(*mine).values(totp=secret))
    return secret


def address(secret: str, person: str, study: str) -> str:
    """The address that opens an authenticator on the same device."""
    return TOTP(secret).provisioning_uri(name=person, issuer_name=f"Opportune {study}")


def set_up(database: Database, person: str, code: str, by: Actor) -> list[str] | None:
    """Confirm the secret by a first code; returns the recovery codes, shown only once, or None if it is wrong."""
    codes = [base64.b32encode(secrets.token_bytes(10)).decode().lower() for _ in range(RECOVERY_CODES)]
    with database.reading.connect() as connection:
        row = connection.execute(select(_PEOPLE.c.totp, _PEOPLE.c.totp_since).where(_PEOPLE.c.name == person)).one()
    step = None if row.totp is None or row.totp_since is not None else _step_of(row.totp, code)
    if step is None:
        return None

    def change(connection: Connection) -> None:
        hashes = json.dumps([key_hash(code) for code in codes])
        values = {"totp_since": clock.now(), "totp_step": step, "recovery": hashes}
        connection.execute(update(_PEOPLE).where(_PEOPLE.c.name == person).values(values))

    change_account(database, by, "second factor set up", person, change)
    return codes


def check(database: Database, person: str, code: str, by: Actor) -> bool:
    """Use up an authenticator's code or a recovery code; returns whether it was valid and not used before."""
    given = "".join(code.split()).lower()
    with database.writing.begin() as connection:
        query = select(_PEOPLE.c.totp, _PEOPLE.c.totp_step, _PEOPLE.c.recovery)
        row = connection.execute(query.where(_PEOPLE.c.name == person, _PEOPLE.c.totp_since.is_not(None))).first()
        if row is None:
            return False
        step = _step_of(row.totp, given)
        if step is not None:
            later = (_PEOPLE.c.name == person, _PEOPLE.c.totp_step < step)
            return connection.execute(update(_PEOPLE).where(*later).values(totp_step=step)).rowcount == 1
    hashed = key_hash(given)
    if hashed not in json.loads(row.recovery or "[]"):
        return False

    def change(connection: Connection) -> None:
        mine = _PEOPLE.c.name == person
        left = json.loads(connection.execute(select(_PEOPLE.c.recovery).where(mine)).scalar() or "[]")
        if hashed not in left:  # another request has used it since
            raise InputError("the recovery code is used already; expected another one")
        left.remove(hashed)
        connection.execute(update(_PEOPLE).where(mine).values(recovery=json.dumps(left)))

    try:
        change_account(database, by, "recovery code used", person, change)
    except InputError:
        return False
    return True


def _step_of(secret: str, code: str) -> int | None:
    """The number of the half minute that a code belongs to: the present one, the one before or after; else None."""
    totp, now = TOTP(secret, interval=SECONDS), clock.now() // clock.MICROSECONDS
    steps = (now // SECONDS + offset for offset in (0, -1, 1))
    return next((step for step in steps if pyotp.utils.strings_equal(code, totp.at(step * SECONDS))), None)
