"""Who is signed in: sessions in the database, so that any worker knows them and a restart does not end them.

The browser holds a random token; only its hash is stored. Every form brings along a second one, which another site
cannot know. A session ends after some time without use, after a working day, when it is signed out, and when the
person is revoked or the password changes. Links and invitations are kept here, too: each is good once.
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
"""How long after someone has proved who they are they need not do so again for what matters most."""
SESSION, SIGN_IN_LINK, INVITATION = "session", "link", "invitation"
CODE, SET_UP = "code", "set up"
"""A session that waits for the second factor, or for it to be set up: good for nothing else."""
WATCHED = 45 * clock.MICROSECONDS
"""How long after the browser was last heard from a page still counts as open: it is heard from every 20 seconds."""
ATTENTIVE = 15 * clock.MINUTE
"""How long after somebody last did something they count as being there."""
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
        """Whether the person has proved just now who they are."""
        return abs(clock.now() - self.confirmed) <= FRESH


def make_link(database: Database, person: str, *, language: str = "", timezone: str | None = None) -> str:
    """Something to sign in with once, within some minutes, in place of a password; the session takes them over."""
    with database.reading.connect() as connection:
        known = connection.execute(_active(person)).first()
    if known is None:
        raise InputError(f"nobody who can sign in is called {person!r}; see opportune people list")
    return new(database, person, SIGN_IN_LINK, language=language, timezone=timezone)


def use_link(database: Database, token: str) -> str | None:
    """Begin a session by a link; None if it is not good, or no more."""
    row = _take(database, token, SIGN_IN_LINK)
    return None if row is None else new(database, row.person, SESSION, language=row.language, timezone=row.timezone)


def use(database: Database, token: str, purpose: str) -> str | None:
    """Use up something that is good once; whose it was."""
    row = _take(database, token, purpose)
    return None if row is None else str(row.person)


def holder(database: Database, token: str, purpose: str) -> str | None:
    """Whose something is that is good once, without using it up."""
    with database.reading.connect() as connection:
        row = connection.execute(select(_SESSIONS).where(*_good(token, purpose))).first()
        return None if row is None or connection.execute(_active(row.person)).first() is None else str(row.person)


def _good(token: str, *purposes: str) -> tuple[Any, ...]:
    """What is good now; nothing that was made while the clock was ahead, which would last until then."""
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
    """Begin a session, or make something that is good once; what is to be held is handed back here and nowhere else."""
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
        if chosen is not None:  # what someone has chosen goes before what the browser says
            row["language"], row["timezone"] = chosen.language or language, chosen.timezone or timezone
        connection.execute(insert(_SESSIONS), row)
    return token


def find(
    database: Database, token: str, *, used: bool = True, purposes: tuple[str, ...] = (SESSION,)
) -> Session | None:
    """Whose session it is; None if there is none, or no more. Using it keeps it going, unless a script does."""
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
    """The list of calls is open in this session's browser."""
    with database.writing.begin() as connection:
        mine = _SESSIONS.c.hash == key_hash(token)
        connection.execute(update(_SESSIONS).where(mine).values(watched=clock.now()))


def watching(database: Database) -> list[str]:
    """Who has a page open that tells of calls, and has done something there lately."""
    now = clock.now()
    lately = (_SESSIONS.c.watched > now - WATCHED) & (_SESSIONS.c.used > now - ATTENTIVE) & (_SESSIONS.c.expires > now)
    with database.reading.connect() as connection:
        query = select(_SESSIONS.c.person).where(_SESSIONS.c.purpose == SESSION, lately).distinct()
        return list(connection.execute(query.order_by(_SESSIONS.c.person)).scalars())


def prefer(database: Database, token: str, *, language: str, timezone: str | None) -> None:
    """The language and the time zone of a session, and of those to come."""
    with database.writing.begin() as connection:
        mine = _SESSIONS.c.hash == key_hash(token)
        person = connection.execute(select(_SESSIONS.c.person).where(mine)).scalar()
        connection.execute(update(_SESSIONS).where(mine).values(language=language, timezone=timezone))
        connection.execute(update(_PEOPLE).where(_PEOPLE.c.name == person).values(language=language, timezone=timezone))


def confirm(database: Database, token: str) -> None:
    """The person has proved once more who they are."""
    with database.writing.begin() as connection:
        connection.execute(update(_SESSIONS).where(_SESSIONS.c.hash == key_hash(token)).values(confirmed=clock.now()))


def end(database: Database, token: str) -> None:
    """Sign out."""
    with database.writing.begin() as connection:
        connection.execute(delete(_SESSIONS).where(_SESSIONS.c.hash == key_hash(token)))
