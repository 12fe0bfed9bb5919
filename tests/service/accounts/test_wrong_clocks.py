"""A clock that was ahead for a while: once it is right again, nothing that it dated lasts until then."""

from collections.abc import Iterator

import pytest
from course import BEGIN
from desk import PASSWORD, desks
from site_over_http import Site, good, site_on
from sqlalchemy import insert, select

from opportune.service.accounts import sessions
from opportune.service.accounts.keys import Keys
from opportune.service.accounts.lockouts import MOST_FAILURES
from opportune.service.accounts.people import sign_in
from opportune.service.commands import calls
from opportune.service.monitoring.delivery import Delivery
from opportune.service.record import tables
from opportune.service.record.database import Database
from opportune.service.state import clock

MONTH = 30 * 24 * clock.HOUR


class Wrong:
    """A clock that can be set."""

    def __init__(self) -> None:
        self.ahead, self._real = 0, clock.now

    def now(self) -> int:
        """The time by it."""
        return self._real() + self.ahead


@pytest.fixture
def hands(monkeypatch: pytest.MonkeyPatch) -> Wrong:
    """The clock by which accounts go."""
    found = Wrong()
    monkeypatch.setattr(clock, "now", found.now)
    return found


@pytest.fixture
def site(sqlite: Database, hands: Wrong) -> Iterator[Site]:
    """A service with somebody who signs in."""
    with site_on(sqlite, policy="always") as found:
        found.enrol()
        yield found


@pytest.mark.parametrize("ahead", [MONTH, 20 * clock.HOUR, 365 * 24 * clock.HOUR])
def test_a_lock_does_not_last_until_then(site: Site, hands: Wrong, ahead: int) -> None:
    """Nor do failures count that were dated then."""
    desks(site, ada="staff")
    database = site.service.database
    hands.ahead = ahead
    for _ in range(MOST_FAILURES):
        assert sign_in(database, "ada", "a wrong guess", address="6.6.6.6") is None
    assert sign_in(database, "ada", PASSWORD, address="6.6.6.6") is None, "the control: it is locked"
    hands.ahead = 0
    assert sign_in(database, "ada", PASSWORD, address="6.6.6.6") is not None
    hands.ahead = ahead
    for _ in range(MOST_FAILURES - 1):
        sign_in(database, "ada", "a wrong guess", address="7.7.7.7")
    hands.ahead = 0
    sign_in(database, "ada", "a wrong guess", address="7.7.7.7")
    assert sign_in(database, "ada", PASSWORD, address="7.7.7.7") is not None


@pytest.mark.parametrize("purpose", [sessions.SESSION, sessions.INVITATION, sessions.SIGN_IN_LINK, sessions.CODE])
def test_sessions_and_invitations_made_then_are_void(site: Site, hands: Wrong, purpose: str) -> None:
    """They would be good for a month and an hour."""
    desks(site, ada="staff")
    database = site.service.database
    hands.ahead = MONTH
    token = sessions.new(database, "ada", purpose)
    assert sessions.find(database, token, purposes=(purpose,)) is not None, "the control"
    hands.ahead = 0
    assert sessions.find(database, token, purposes=(purpose,)) is None
    assert sessions.holder(database, token, purpose) is None
    sessions.new(database, "ada")
    with database.reading.connect() as connection:
        made = connection.execute(select(tables.sessions.c.created)).scalars().all()
    assert max(made) <= clock.now(), "and they are cleared away"


def test_who_proved_themselves_then_is_asked_again(site: Site, hands: Wrong) -> None:
    """A confirmation from the future is none."""
    desks(site, ada="staff")
    database = site.service.database
    token = sessions.new(database, "ada")
    hands.ahead = 11 * clock.HOUR
    sessions.confirm(database, token)
    hands.ahead = 0
    found = sessions.find(database, token)
    assert found is not None
    assert not found.fresh


def test_an_access_token_made_then_is_void(site: Site, hands: Wrong) -> None:
    """The refresh token makes another one."""
    hands.ahead = MONTH
    issued = good(site.post("participants/P001/tokens", None, "staff"), 201)
    keys = Keys(site.service.database)
    assert keys.find(issued["token"]) is not None, "the control"
    hands.ahead = 0
    assert Keys(site.service.database).find(issued["token"]) is None
    assert site.client.post("/api/v1/tokens", json={"refresh": issued["refresh"]}).status_code == 201


def test_a_call_taken_then_is_free(site: Site) -> None:
    """Else nobody could take it for a month."""
    made = site.decide()
    database = site.service.database
    assert calls.take(database, made["decision"], "P001", "ada", clock.now() + MONTH) == "ada"
    assert calls.take(database, made["decision"], "P001", "ben", clock.now()) == "ben"
    assert calls.take(database, made["decision"], "P001", "ada", clock.now()) == "ben", "the control"


def test_a_message_put_off_then_is_sent(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """One that was to be tried again an hour later, by that clock."""
    database, sent = site.service.database, list[int]()

    def send(_self: Delivery, row: dict[str, int], _running: object) -> bool:
        sent.append(row["id"])
        return True

    monkeypatch.setattr(Delivery, "_send", send)
    row = {"channel": "webhook", "kind": "alert", "body": "{}", "created": BEGIN, "attempts": 3}
    with database.writing.begin() as connection:
        connection.execute(insert(tables.outbox), [{**row, "due": clock.now() + MONTH}])
        connection.execute(insert(tables.outbox), [{**row, "due": clock.now() + clock.HOUR}])
    assert Delivery(database).deliver(clock.now()) == 1, "the other one waits: the control"
    assert len(sent) == 1


def test_alerts_are_looked_for_and_the_record_is_not_anchored(site: Site, hands: Wrong) -> None:
    """The watch goes on at once; a day that has not come is not anchored by a clock in doubt."""
    service = site.service
    service.alerts.look(clock.now() + MONTH)
    looked: list[object] = []
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(service.alerts, "_look_for", lambda *given: looked.append(given))
        service.alerts.look(clock.now())
        assert looked
    with service.database.reading.connect() as connection:
        before = connection.execute(select(tables.anchors.c.day)).scalars().all()
    hands.ahead, service.guard.doubt = MONTH, "the clock is ahead"
    service._anchor()
    with service.database.reading.connect() as connection:
        assert connection.execute(select(tables.anchors.c.day)).scalars().all() == before
    service.guard.doubt = None
    service._anchor()
    with service.database.reading.connect() as connection:
        assert len(connection.execute(select(tables.anchors.c.day)).scalars().all()) == len(before) + 1, "the control"
