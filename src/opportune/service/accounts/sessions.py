"""Who is signed in: sessions in the database, so that all workers see them and a restart does not end them.

The browser holds a random token; only its hash is stored. Every form sends a second token, which other sites cannot
know. A session ends when it is idle for `IDLE` or older than `LONGEST`, when the person signs out or is revoked, and
when the password changes. Sign-in links and invitations are stored here too; each works once.
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
INVITED = 3 * 24 * clock.HOUR
FRESH = 10 * clock.MINUTE
"""How long sensitive actions need no new proof of identity after the last one."""
SESSION, SIGN_IN_LINK, INVITATION = "session", "link", "invitation"
CODE, SET_UP = "code", "set up"
"""A session that waits for the second factor, or for its setup, and allows nothing else."""
WATCHED = 45 * clock.MICROSECONDS
"""How long a page counts as open after the browser's last sign of life, which comes every 20 seconds."""
ATTENTIVE = 15 * clock.MINUTE
"""How long a person counts as present after their last action."""
_LASTS = {SESSION: IDLE, SIGN_IN_LINK: LINK, INVITATION: INVITED, CODE: LINK, SET_UP: LINK}
_TOUCH = clock.MINUTE
_SESSIONS, _PEOPLE = tables.sessions, tables.people


class Session(NamedTuple):
    """Someone who is signed in, or about to be."""

    caller: Caller
    form: str
    language: str
    timezone: str | None
    purpose: str
    confirmed: int

    @property
    def fresh(self) -> bool:
        """Whether the person has proved their identity recently."""
        return abs(clock.now() - self.confirmed) <= FRESH


def make_link(database: Database, person: str, *, language: str = "", timezone: str | None = None) -> str:
    """The token of a link that signs a person in once, within `LINK`; its session gets this language and time zone."""
    with database.reading.connect() as connection:
        known = connection.execute(_active(person)).first()
    if known is None:
        raise InputError(f"no active person is called {person!r}; see opportune people list")
    return new(database, person, SIGN_IN_LINK, language=language, timezone=timezone)


def use_link(database: Database, token: str) -> str | None:
    """Begin a session by a sign-in link; returns its token, or None if the link is invalid or expired."""
    row = _take(database, token, SIGN_IN_LINK)
    return None if row is None else new(database, row.person, SESSION, language=row.language, timezone=row.timezone)


def use(database: Database, token: str, purpose: str) -> str | None:
    """Use up a one-time token; returns its holder's name, or None if it is invalid or expired."""
    row = _take(database, token, purpose)
    return None if row is None else str(row.person)


def holder(database: Database, token: str, purpose: str) -> str | None:
    """The holder of a one-time token, without using it up; None if it is invalid or expired."""
    with database.reading.connect() as connection:
        row = connection.execute(select(_SESSIONS).where(*_good(token, purpose))).first()
        return None if row is None or connection.execute(_active(row.person)).first() is None else str(row.person)


def _good(token: str, *purposes: str) -> tuple[Any, ...]:
    """Conditions for a valid token; one made while the clock was ahead is invalid, as it would last too long."""
    now = clock.now()
    mine = (_SESSIONS.c.hash == key_hash(token), _SESSIONS.c.purpose.in_(purposes))
    return *mine, _SESSIONS.c.expires > now, _SESSIONS.c.created <= now + clock.SLACK


def _take(database: Database, token: str, purpose: str) -> Any:
    good = _good(token, purpose)
    with database.writing.begin() as connection:
        row = connection.execute(select(_SESSIONS).where(*good)).first()
        if row is None or connection.execute(delete(_SESSIONS).where(*good)).rowcount != 1:
            return None
        return None if connection.execute(_active(row.person)).first() is None else row


def _active(person: str) -> Any:
    mine = _PEOPLE.c.name == person
    return select(_PEOPLE.c.role).where(mine, _PEOPLE.c.revoked.is_(None), _PEOPLE.c.suspended.is_(None))


def new(
    database: Database, person: str, purpose: str = SESSION, *, language: str = "", timezone: str | None = None
) -> str:
    """Begin a session, or make a one-time token; the token is returned here and stored only as a hash."""
    token, now = secrets.token_urlsafe(32), clock.now()
    row: dict[str, Any] = {
        "hash": key_hash(token), "person": person, "purpose": purpose, "form": secrets.token_urlsafe(16),
        "language": language, "timezone": timezone, "created": now, "used": now, "expires": now + _LASTS[purpose],
        "confirmed": now,
    }  # fmt: skip
    with database.writing.begin() as connection:
        over = (_SESSIONS.c.expires <= now) | (_SESSIONS.c.created > now + clock.SLACK)
        connection.execute(delete(_SESSIONS).where(over))
        chosen = connection.execute(
            select(_PEOPLE.c.language, _PEOPLE.c.timezone).where(_PEOPLE.c.name == person)
        ).first()
        if chosen is not None:  # a person's own choice takes precedence over the browser's settings
            row["language"], row["timezone"] = chosen.language or language, chosen.timezone or timezone
        connection.execute(insert(_SESSIONS), row)
    return token


def find(
    database: Database, token: str, *, used: bool = True, purposes: tuple[str, ...] = (SESSION,)
) -> Session | None:
    """The session of a token; None if it is invalid or expired. Use prolongs it, unless `used` is false (scripts)."""
    now, hashed = clock.now(), key_hash(token)
    query = (
        select(_SESSIONS, _PEOPLE.c.role)
        .join(_PEOPLE, _PEOPLE.c.name == _SESSIONS.c.person)
        .where(*_good(token, *purposes))
        .where(_PEOPLE.c.revoked.is_(None), _PEOPLE.c.suspended.is_(None))
    )
    with database.reading.connect() as connection:
        row = connection.execute(query).mappings().first()
    if row is None:
        return None
    if used and row["purpose"] == SESSION and now - row["used"] > _TOUCH:
        expires = min(now + IDLE, row["created"] + LONGEST)
        with database.writing.begin() as connection:
            connection.execute(update(_SESSIONS).where(_SESSIONS.c.hash == hashed).values(used=now, expires=expires))
    caller = Caller(row["person"], row["role"])
    return Session(caller, row["form"], row["language"], row["timezone"], row["purpose"], row["confirmed"])


def watch(database: Database, token: str) -> None:
    """Note that the list of calls is open in this session's browser."""
    with database.writing.begin() as connection:
        mine = _SESSIONS.c.hash == key_hash(token)
        connection.execute(update(_SESSIONS).where(mine).values(watched=clock.now()))


def watching(database: Database) -> list[str]:
    """The people who have a page open that shows calls, and have been active recently."""
    now = clock.now()
    lately = (_SESSIONS.c.watched > now - WATCHED) & (_SESSIONS.c.used > now - ATTENTIVE) & (_SESSIONS.c.expires > now)
    with database.reading.connect() as connection:
        query = select(_SESSIONS.c.person).where(_SESSIONS.c.purpose == SESSION, lately).distinct()
        return list(connection.execute(query.order_by(_SESSIONS.c.person)).scalars())


def prefer(database: Database, token: str, *, language: str, timezone: str | None) -> None:
    """Set the language and the time zone of a session, and of the person's future sessions."""
    with database.writing.begin() as connection:
        mine = _SESSIONS.c.hash == key_hash(token)
        person = connection.execute(select(_SESSIONS.c.person).where(mine)).scalar()
        connection.execute(update(_SESSIONS).where(mine).values(language=language, timezone=timezone))
        connection.execute(update(_PEOPLE).where(_PEOPLE.c.name == person).values(language=language, timezone=timezone))


def confirm(database: Database, token: str) -> None:
    """Note that the person has proved their identity again."""
    with database.writing.begin() as connection:
        connection.execute(update(_SESSIONS).where(_SESSIONS.c.hash == key_hash(token)).values(confirmed=clock.now()))


def end(database: Database, token: str) -> None:
    """Sign out."""
    with database.writing.begin() as connection:
        connection.execute(delete(_SESSIONS).where(_SESSIONS.c.hash == key_hash(token)))
