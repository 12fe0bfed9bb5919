"""The clock guard: by a clock that cannot be right nothing is recorded, and nothing expires."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from course import BEGIN, launch
from site_over_http import SENSED, Site, good, problem, site_on
from sqlalchemy import func, select
from study_text import study_text

from opportune.service.commands.administration import Close, ConfirmClock
from opportune.service.commands.decisions import Propose
from opportune.service.commands.participants import Enrol
from opportune.service.monitoring.clock_guard import DAY, LONG, MOST, ClockGuard
from opportune.service.problems import Refused
from opportune.service.record import tables
from opportune.service.record.database import Database
from opportune.service.record.queries import alert_rows, participant_row
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


WEEKDAY = """
[variables.weekend]
schedule = "weekend"
"""


@pytest.mark.parametrize("ahead", [6, 30])
@pytest.mark.parametrize("weekend", [False, True])
def test_a_confirmed_clock_lets_decisions_go_on(sqlite: Database, ahead: int, weekend: bool) -> None:
    """Whoever was enrolled, or decided for, by a clock that was ahead need not wait until then; verify follows."""
    writer = Writer(sqlite)
    text = study_text(times=True, pooled="partial", horizon=400)
    launch(writer, text.replace("[variables.stress]", f"{WEEKDAY}\n[variables.stress]") if weekend else text)
    wrong = BEGIN + ahead * DAY

    def decide(name: str, now: int) -> dict[str, Any]:
        command = Propose(who="app", received=now, at=now, participant=name, given={"sensed": SENSED})
        found: dict[str, Any] = json.loads(writer.do(command).body)
        return found

    writer.do(Enrol(who="staff", received=BEGIN, participant="before", timezone="Europe/Berlin"))
    decide("before", BEGIN)
    writer.do(Enrol(who="staff", received=wrong, participant="wrong", timezone="Europe/Berlin"))
    for name in ("before", "wrong"):
        decide(name, wrong)
    now = BEGIN + clock.HOUR
    for name in ("before", "wrong"):
        with pytest.raises(Refused):
            decide(name, now)
    writer.do(ConfirmClock(who="boss", received=now, reason="set right"))
    steps = {name: [decide(name, now + days * DAY)["step"] for days in (1, 2, 9)] for name in ("before", "wrong")}
    for first, second, third in steps.values():
        assert (second - first, third - second) == (2, 14), steps
    assert steps["wrong"][0] <= (3 if not weekend else 3 + 14), steps
    row = participant_row(sqlite, "wrong")
    assert row is not None
    assert row["enrolled"] == now
    if weekend:
        assert row["began"].weekday() == clock.local(wrong, row["timezone"]).weekday()
    assert verify(sqlite).findings == []
    decide_again = Writer(sqlite)  # which has to read what is stored
    decide_again.do(Propose(who="app", received=now + 10 * DAY, participant="wrong", given={"sensed": SENSED}))
    assert verify(sqlite).findings == []


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
        Writer(sqlite).do(ConfirmClock(who="admin one", received=clock.now(), reason="set right"))
        site.service.look_after()
        site.decide()
        assert alert_rows(sqlite) == []
    assert verify(sqlite).findings == []


def _set_clock(site: Site, wall: Callable[[], int]) -> None:
    site.service.guard._wall = wall


def _events(database: Database) -> int:
    with database.reading.connect() as connection:
        return connection.execute(select(func.count()).select_from(tables.events)).scalar_one()
