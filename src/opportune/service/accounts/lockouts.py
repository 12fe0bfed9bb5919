"""Locks after repeated failures, by account and place: guesses made elsewhere cannot lock the right person out.

Failures are counted separately for each browser and each address from which the person has signed in before. All other
places also share one limit, so that an attacker gains nothing by using many addresses.
"""

from sqlalchemy import Connection, case, select, update

from opportune.service.accounts.keys import key_hash
from opportune.service.record import tables
from opportune.service.record.database import Database, insert_if_missing
from opportune.service.state import clock

MOST_FAILURES = 5
MOST_ELSEWHERE = 50
"""The limit on failures from all places together where the person has not signed in before."""
WINDOW = clock.HOUR
"""Failures count together within this time."""
LOCKED = 15 * clock.MINUTE
KNOWN = 90 * 24 * clock.HOUR
"""How long a place counts as the person's own after signing in there."""
ELSEWHERE = "elsewhere"
_TABLE = tables.attempts


def browser(token: str) -> str:
    """The place of a browser in which someone has signed in before."""
    return f"browser {key_hash(token)}"


def places(database: Database, person: str, address: str, browser: str | None, now: int) -> list[str]:
    """The places where an attempt counts: the known browser, else the address, and `ELSEWHERE` if that is unknown."""
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
        # A lock that ends later than LOCKED from now was made by a wrong clock.
        return connection.execute(query.where(_TABLE.c.locked_until.between(now + 1, now + LOCKED))).first() is not None


def fail(connection: Connection, person: str, where: list[str], now: int) -> bool:
    """Count a failure, and lock if that makes too many: in one statement, as other guesses may come at the same time.

    Returns whether the account is now locked at one of these places.
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
    """Note that the person has signed in: these places become their own, and failures there are cleared."""
    for place in where:
        if place == ELSEWHERE:
            continue
        row = {"person": person, "place": place, "failures": 0, "since": now}
        connection.execute(insert_if_missing(connection, _TABLE), row)
        change = update(_TABLE).where(_TABLE.c.person == person, _TABLE.c.place == place)
        connection.execute(change.values(failures=0, since=now, locked_until=None, succeeded=now))


def release(connection: Connection, person: str) -> None:
    """Clear a person's failures and locks everywhere."""
    change = update(_TABLE).where(_TABLE.c.person == person)
    connection.execute(change.values(failures=0, locked_until=None))
