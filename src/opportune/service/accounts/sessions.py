"""Who is signed in: sessions in the database, so that any worker knows them and a restart does not end them.

The browser holds a random token; only its hash is stored. Every form brings along a second one, which another site
cannot know. A session ends after some time without use, after a working day, when it is signed out, and when the
person is revoked or the password changes.
"""

import secrets
from typing import Any, NamedTuple

from sqlalchemy import delete, insert, select, update

from opportune.errors import InputError
from opportune.service.accounts.keys import Caller, key_hash
from opportune.service.record import tables
from opportune.service.record.database import Database
from opportune.service.state import clock

IDLE = 60 * clock.MINUTE
LONGEST = 12 * clock.HOUR
LINK = 10 * clock.MINUTE
_TOUCH = clock.MINUTE
_SESSIONS, _PEOPLE = tables.sessions, tables.people


class Session(NamedTuple):
    """Someone who is signed in."""

    caller: Caller
    form: str
    language: str
    timezone: str | None


def start(database: Database, person: str, *, language: str = "", timezone: str | None = None) -> str:
    """Begin a session; what the browser is to hold is handed back here and nowhere else."""
    return _new(database, person, link=False, lasts=IDLE, language=language, timezone=timezone)


def make_link(database: Database, person: str, *, language: str = "", timezone: str | None = None) -> str:
    """Something to sign in with once, within some minutes, in place of a password; the session takes them over."""
    with database.reading.connect() as connection:
        known = connection.execute(_active(person)).first()
    if known is None:
        raise InputError(f"nobody who can sign in is called {person!r}; see opportune people list")
    return _new(database, person, link=True, lasts=LINK, language=language, timezone=timezone)


def use_link(database: Database, token: str) -> str | None:
    """Begin a session by a link; None if it is not good, or no more."""
    with database.writing.begin() as connection:
        good = (_SESSIONS.c.hash == key_hash(token), _SESSIONS.c.link, _SESSIONS.c.expires > clock.now())
        row = connection.execute(select(_SESSIONS).where(*good)).first()
        if row is None or connection.execute(delete(_SESSIONS).where(*good)).rowcount != 1:
            return None
        if connection.execute(_active(row.person)).first() is None:
            return None
    return start(database, row.person, language=row.language, timezone=row.timezone)


def _active(person: str) -> Any:
    return select(_PEOPLE.c.role).where(_PEOPLE.c.name == person, _PEOPLE.c.revoked.is_(None))


def _new(database: Database, person: str, *, link: bool, lasts: int, language: str, timezone: str | None) -> str:
    token, now = secrets.token_urlsafe(32), clock.now()
    row: dict[str, Any] = {
        "hash": key_hash(token), "person": person, "link": link, "form": secrets.token_urlsafe(16),
        "language": language, "timezone": timezone, "created": now, "used": now, "expires": now + lasts,
    }  # fmt: skip
    with database.writing.begin() as connection:
        connection.execute(delete(_SESSIONS).where(_SESSIONS.c.expires <= now))
        chosen = connection.execute(
            select(_PEOPLE.c.language, _PEOPLE.c.timezone).where(_PEOPLE.c.name == person)
        ).first()
        if chosen is not None:  # what someone has chosen goes before what the browser says
            row["language"], row["timezone"] = chosen.language or language, chosen.timezone or timezone
        connection.execute(insert(_SESSIONS), row)
    return token


def find(database: Database, token: str, *, used: bool = True) -> Session | None:
    """Whose session it is; None if there is none, or no more. Using it keeps it going, unless a script does."""
    now, hashed = clock.now(), key_hash(token)
    query = (
        select(_SESSIONS, _PEOPLE.c.role)
        .join(_PEOPLE, _PEOPLE.c.name == _SESSIONS.c.person)
        .where(_SESSIONS.c.hash == hashed, _SESSIONS.c.link.is_(False), _SESSIONS.c.expires > now)
        .where(_PEOPLE.c.revoked.is_(None))
    )
    with database.reading.connect() as connection:
        row = connection.execute(query).mappings().first()
    if row is None:
        return None
    if used and now - row["used"] > _TOUCH:
        expires = min(now + IDLE, row["created"] + LONGEST)
        with database.writing.begin() as connection:
            connection.execute(update(_SESSIONS).where(_SESSIONS.c.hash == hashed).values(used=now, expires=expires))
    return Session(Caller(row["person"], row["role"]), row["form"], row["language"], row["timezone"])


def prefer(database: Database, token: str, *, language: str, timezone: str | None) -> None:
    """The language and the time zone of a session, and of those to come."""
    with database.writing.begin() as connection:
        mine = _SESSIONS.c.hash == key_hash(token)
        person = connection.execute(select(_SESSIONS.c.person).where(mine)).scalar()
        connection.execute(update(_SESSIONS).where(mine).values(language=language, timezone=timezone))
        connection.execute(update(_PEOPLE).where(_PEOPLE.c.name == person).values(language=language, timezone=timezone))


def end(database: Database, token: str) -> None:
    """Sign out."""
    with database.writing.begin() as connection:
        connection.execute(delete(_SESSIONS).where(_SESSIONS.c.hash == key_hash(token)))


def end_all(database: Database, person: str) -> None:
    """Sign someone out everywhere."""
    with database.writing.begin() as connection:
        connection.execute(delete(_SESSIONS).where(_SESSIONS.c.person == person))
