"""A lock after repeated failures, by account and place: who guesses elsewhere cannot keep the right person out.

A browser in which someone has signed in before counts for itself, and so does an address from which they have. All
other places together have a limit of their own, so that many addresses do not help to guess.
"""

from sqlalchemy import Connection, case, select, update

from opportune.service.accounts.keys import key_hash
from opportune.service.record import tables
from opportune.service.record.database import Database, insert_if_missing
from opportune.service.state import clock

MOST_FAILURES = 5
MOST_ELSEWHERE = 50
"""Failures at all places together where someone has not signed in before."""
WINDOW = clock.HOUR
"""Failures further apart than this are not added up."""
LOCKED = 15 * clock.MINUTE
KNOWN = 90 * 24 * clock.HOUR
"""How long a place at which someone has signed in is taken for theirs."""
ELSEWHERE = "elsewhere"
_TABLE = tables.attempts


def browser(token: str) -> str:
    """The place that a browser is in which someone has signed in before."""
    return f"browser {key_hash(token)}"


def places(database: Database, person: str, address: str, browser: str | None, now: int) -> list[str]:
    """Where an attempt counts: the browser if it is known, else the address; if that is not known, elsewhere too."""
    address = f"address {address}"
    query = select(_TABLE.c.place).where(_TABLE.c.person == person, _TABLE.c.succeeded > now - KNOWN)
    with database.reading.connect() as connection:
        known = set(connection.execute(query.where(_TABLE.c.place.in_([address, browser or ""]))).scalars())
    if browser in known:
        return [str(browser)]
    return [address] if address in known else [address, ELSEWHERE]


def locked(database: Database, person: str, where: list[str], now: int) -> bool:
    """Whether an account is locked at one of these places."""
    query = select(_TABLE.c.place).where(_TABLE.c.person == person, _TABLE.c.place.in_(where))
    with database.reading.connect() as connection:
        # One that stands for longer was made by a clock that was wrong.
        return connection.execute(query.where(_TABLE.c.locked_until.between(now + 1, now + LOCKED))).first() is not None


def fail(connection: Connection, person: str, where: list[str], now: int) -> bool:
    """One more failure, and the lock if that is too many: in one statement, as others may guess at the same time.

    Hands back whether the account is locked there from now on.
    """
    many = False
    for place in where:
        most = MOST_ELSEWHERE if place == ELSEWHERE else MOST_FAILURES
        row = {"person": person, "place": place, "failures": 0, "since": now}
        connection.execute(insert_if_missing(connection, _TABLE), row)
        old = (_TABLE.c.since <= now - WINDOW) | (_TABLE.c.since > now + clock.SLACK)
        counted = case((old, 1), else_=_TABLE.c.failures + 1)
        values = {
            "failures": case((counted >= most, 0), else_=counted),
            "since": case((old, now), else_=_TABLE.c.since),
            "locked_until": case((counted >= most, now + LOCKED), else_=_TABLE.c.locked_until),
        }
        mine = (_TABLE.c.person == person, _TABLE.c.place == place)
        connection.execute(update(_TABLE).where(*mine).values(values))
        stored = connection.execute(select(_TABLE.c.failures, _TABLE.c.locked_until).where(*mine)).one()
        many = many or (stored.failures == 0 and stored.locked_until == now + LOCKED)
    return many


def succeed(connection: Connection, person: str, where: list[str], now: int) -> None:
    """Someone has signed in: these places are theirs, and nothing counts against them there."""
    for place in where:
        if place == ELSEWHERE:
            continue
        row = {"person": person, "place": place, "failures": 0, "since": now}
        connection.execute(insert_if_missing(connection, _TABLE), row)
        change = update(_TABLE).where(_TABLE.c.person == person, _TABLE.c.place == place)
        connection.execute(change.values(failures=0, since=now, locked_until=None, succeeded=now))


def release(connection: Connection, person: str) -> None:
    """Nothing counts against someone any more, anywhere."""
    change = update(_TABLE).where(_TABLE.c.person == person)
    connection.execute(change.values(failures=0, locked_until=None))
