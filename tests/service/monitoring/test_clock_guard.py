"""The clock guard: by a clock that cannot be right nothing is recorded, and nothing expires."""

from collections.abc import Callable

import pytest
from course import BEGIN, launch
from site_over_http import SENSED, Site, good, problem, site_on
from sqlalchemy import func, select
from study_text import study_text

from opportune.service.commands.administration import Close, ConfirmClock
from opportune.service.monitoring.clock_guard import LONG, MOST, ClockGuard
from opportune.service.record import tables
from opportune.service.record.database import Database
from opportune.service.record.queries import alert_rows
from opportune.service.record.writer import Writer
from opportune.service.state import clock
from opportune.service.verify.check import verify


class Hands:
    """Clocks that tests set: one that shows the time, and one that nobody can set."""

    def __init__(self, now: int) -> None:
        self.now = now
        self.passed = 0

    def go_on(self, span: int) -> None:
        """Time passes."""
        self.now += span
        self.passed += span

    def guard(self, database: Database) -> ClockGuard:
        """A guard that goes by these clocks."""
        return ClockGuard(database, wall=lambda: self.now, steady=lambda: self.passed)


@pytest.fixture
def hands(sqlite: Database) -> Hands:
    """Clocks, a minute after a study with people was launched."""
    launch(Writer(sqlite), study_text(), rehearsal=False)
    return Hands(BEGIN + clock.MINUTE)


def test_a_clock_that_goes_as_clocks_go_is_not_doubted(sqlite: Database, hands: Hands) -> None:
    """Also weeks later, and where it is set by a little."""
    guard = hands.guard(sqlite)
    for _ in range(5):
        assert guard.look() is None
        hands.go_on(8 * 24 * clock.HOUR)
    hands.now += MOST - clock.MINUTE
    assert guard.look() is None


@pytest.mark.parametrize("moved", [-30 * 24 * clock.HOUR, -2 * MOST, 2 * MOST, 30 * 24 * clock.HOUR])
def test_a_clock_that_was_set_is_doubted_at_once(sqlite: Database, hands: Hands, moved: int) -> None:
    """Before anything asks the database, and until it is confirmed."""
    guard = hands.guard(sqlite)
    assert guard.look() is None
    hands.now += moved
    assert guard.jumped()
    hands.now -= moved
    assert guard.look() is not None, "it does not come right by itself"
    Writer(sqlite).do(ConfirmClock(who="boss", received=hands.now, reason="looked at my watch"))
    assert guard.look() is None
    assert not guard.jumped()
    assert verify(sqlite).findings == []


@pytest.mark.parametrize(
    ("moment", "said"),
    [
        (BEGIN - 31 * 24 * clock.HOUR, "31 days behind the last event"),
        (BEGIN - 2 * MOST, "10 minutes behind the last event"),
        (BEGIN + LONG + clock.HOUR, "7 days after the last event"),
        (BEGIN - MOST, None),
        (BEGIN + LONG, None),
    ],
)
def test_a_server_starts_near_the_last_event(sqlite: Database, hands: Hands, moment: int, said: str | None) -> None:
    """Or asks whether its clock is right."""
    hands.now = moment
    doubt = hands.guard(sqlite).look()
    assert doubt is None if said is None else said in str(doubt)


def test_a_closed_study_may_be_looked_at_whenever(sqlite: Database, hands: Hands) -> None:
    """Months later nothing is missing: nobody asks for decisions."""
    Writer(sqlite).do(Close(who="boss", received=BEGIN, reason="over"))
    hands.now += 100 * LONG
    assert hands.guard(sqlite).look() is None


def test_the_databases_clock_is_another_witness(new_postgres: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A server that differs from it from the start is doubted; a difference that was confirmed is not."""
    database = Database(new_postgres)
    database.migrate()
    now = clock.now()
    launch(Writer(database), study_text(), now, rehearsal=False)
    hands = Hands(now + 3 * clock.HOUR)
    guard = hands.guard(database)
    assert "3 hours ahead of that of the database" in str(guard.look())
    Writer(database).do(ConfirmClock(who="boss", received=hands.now, reason="the database's clock is wrong"))
    assert guard.look() is None
    hands.go_on(clock.MINUTE)
    assert guard.look() is None
    database.close()


def test_a_service_in_doubt_records_nothing(sqlite: Database) -> None:
    """503 for every write, an alert, no expiry, until an administrator confirms the clock; reading goes on."""
    with site_on(sqlite, policy="always") as site:
        site.enrol()
        made = site.decide()
        assert made["status"] == "nudge"
        events = _events(sqlite)
        forward = 30 * 24 * clock.HOUR
        _set_clock(site, lambda: clock.now() + forward)
        said = problem(site.post("participants/P001/decisions", {"sensed": SENSED}), 503, "unavailable")
        assert "30 days ahead" in said
        site.service.look_after()
        assert _events(sqlite) == events, "the nudge's window did not end"
        assert [alert["code"] for alert in alert_rows(sqlite)] == ["clock"]
        assert site.client.get("/readyz").status_code == 503
        assert good(site.get("participants/P001"))["step"] == 1
        _set_clock(site, clock.now)
        site.service.look_after()
        problem(site.post("participants/P001/decisions", {"sensed": SENSED}), 503, "unavailable")
        Writer(sqlite).do(ConfirmClock(who="boss", received=clock.now(), reason="set right"))
        site.service.look_after()
        site.decide()
        assert alert_rows(sqlite) == []
    assert verify(sqlite).findings == []


def _set_clock(site: Site, wall: Callable[[], int]) -> None:
    site.service.guard._wall = wall


def _events(database: Database) -> int:
    with database.reading.connect() as connection:
        return connection.execute(select(func.count()).select_from(tables.events)).scalar_one()
