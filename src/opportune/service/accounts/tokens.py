"""Participants' tokens: each gives access to one participant, so that a lost phone exposes only one.

A phone keeps its refresh token, which can only make access tokens; these are valid for an hour. Both are stored as
hashes, and a participant's tokens are revoked together.
"""

import secrets
from typing import NamedTuple

from sqlalchemy import Connection, delete, func, insert, select, update

from opportune.errors import InputError
from opportune.service.accounts.changes import Actor, change_account
from opportune.service.accounts.keys import ACCESS_PREFIX, REFRESH_PREFIX, key_hash
from opportune.service.accounts.names import PARTICIPANT
from opportune.service.record import tables
from opportune.service.record.database import Database
from opportune.service.state import clock

LASTS = clock.HOUR
REFRESHES = 400 * 24 * clock.HOUR
_TOKENS = tables.tokens


class Access(NamedTuple):
    """An access token, when it expires, and its participant."""

    token: str
    expires: int
    participant: str


class Issued(NamedTuple):
    """The tokens that a phone gets, once."""

    refresh: str
    access: Access


def issue(database: Database, participant: str, by: Actor) -> Issued:
    """Issue tokens for a participant's phone; they are returned here and stored only as hashes."""
    refresh, now = REFRESH_PREFIX + secrets.token_urlsafe(32), clock.now()

    def change(connection: Connection) -> None:
        people = tables.participants
        if connection.execute(select(people.c.name).where(people.c.name == participant)).first() is None:
            raise InputError(f"no participant is called {participant!r}")
        row = {
            "hash": key_hash(refresh), "participant": participant, "refreshes": True, "parent": None, "created": now,
            "expires": now + REFRESHES, "revoked": None,
        }  # fmt: skip
        connection.execute(insert(_TOKENS), row)

    change_account(database, by, "token issued", f"{PARTICIPANT}{participant}", change)
    access = renew(database, refresh)
    assert access is not None
    return Issued(refresh, access)


def renew(database: Database, refresh: str) -> Access | None:
    """Issue a new access token; returns None if the refresh token is invalid, expired or revoked."""
    token, now, hashed = ACCESS_PREFIX + secrets.token_urlsafe(32), clock.now(), key_hash(refresh)
    good = (_TOKENS.c.hash == hashed, _TOKENS.c.refreshes, _TOKENS.c.revoked.is_(None), _TOKENS.c.expires > now)
    with database.writing.begin() as connection:
        participant = connection.execute(select(_TOKENS.c.participant).where(*good)).scalar()
        if participant is None:
            return None
        connection.execute(delete(_TOKENS).where(_TOKENS.c.expires <= now))
        row = {
            "hash": key_hash(token), "participant": participant, "refreshes": False, "parent": hashed, "created": now,
            "expires": now + LASTS, "revoked": None,
        }  # fmt: skip
        connection.execute(insert(_TOKENS), row)
    return Access(token, now + LASTS, participant)


def phones(database: Database, participant: str) -> int:
    """The number of phones that hold a participant's token."""
    good = (_TOKENS.c.participant == participant, _TOKENS.c.revoked.is_(None), _TOKENS.c.expires > clock.now())
    with database.reading.connect() as connection:
        query = select(func.count()).select_from(_TOKENS).where(*good, _TOKENS.c.refreshes)
        return int(connection.execute(query).scalar_one())


def revoke(database: Database, participant: str, by: Actor) -> int:
    """Revoke all tokens of a participant; returns how many phones had one."""
    mine, connected = (_TOKENS.c.participant == participant, _TOKENS.c.revoked.is_(None)), phones(database, participant)

    def change(connection: Connection) -> None:
        connection.execute(update(_TOKENS).where(*mine).values(revoked=clock.now()))

    change_account(database, by, "tokens revoked", f"{PARTICIPANT}{participant}", change)
    return connected
