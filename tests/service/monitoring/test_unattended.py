"""Calls that wait while nobody looks: whoever is on call is written to, once, at the right times, and not otherwise."""

from collections.abc import Iterator
from typing import Any

import msgspec
import pytest
from accounts_by_hand import person_by_hand
from site_over_http import Site, good, site_on
from sqlalchemy import select, update
from study_text import study_text

from opportune.service.accounts import sessions
from opportune.service.monitoring import unattended
from opportune.service.record import outbox, tables
from opportune.service.record.database import Database
from opportune.service.state import clock
from opportune.service.state.study import StudyInForce

MAIL = 'mail = ["nurses@clinic.example"]\n'
LATER = 3 * clock.MINUTE


@pytest.fixture
def site(sqlite: Database) -> Iterator[Site]:
    """A study whose nurses are written to, with somebody to call."""
    with site_on(sqlite, text=study_text(policy="always").replace("[serve]\n", f"[serve]\n{MAIL}")) as found:
        found.enrol()
        found.decide()
        yield found


def told(database: Database) -> list[dict[str, Any]]:
    """The messages about calls that nobody looks at."""
    table = tables.outbox.c
    with database.reading.connect() as connection:
        bodies = connection.execute(select(table.body).where(table.kind == outbox.UNATTENDED)).scalars()
        return [msgspec.json.decode(body) for body in bodies]


def test_a_message_goes_out_once(site: Site, sqlite: Database) -> None:
    """Not at once, then once for all that wait; another call that comes later is told again. No names are in it."""
    now = clock.now()
    assert unattended.tell(sqlite, now) == 0
    assert unattended.tell(sqlite, now + LATER) == 1
    assert unattended.tell(sqlite, now + LATER + clock.MINUTE) == 0
    (message,) = told(sqlite)
    assert (message["kind"], message["calls"], message["path"]) == ("unattended", 1, "/today")
    assert "P001" not in str(message)
    site.enrol("P002")
    site.decide("P002")
    with sqlite.writing.begin() as connection:
        mine = tables.decisions.c.participant == "P002"
        connection.execute(update(tables.decisions).where(mine).values(received=now + 2 * LATER))
    assert unattended.tell(sqlite, now + 4 * LATER) == 2
    assert len(told(sqlite)) == 2


def test_nobody_is_written_to_while_somebody_looks(site: Site, sqlite: Database) -> None:
    """An open page of somebody who was there lately is enough; one that nobody has touched for long is not."""
    person_by_hand(sqlite, "anna", "staff", "correct horse battery")
    token = sessions.new(sqlite, "anna")
    sessions.watch(sqlite, token)
    assert sessions.watching(sqlite) == ["anna"]
    assert unattended.tell(sqlite, clock.now() + LATER) == 0
    with sqlite.writing.begin() as connection:
        connection.execute(update(tables.sessions).values(used=clock.now() - sessions.ATTENTIVE - clock.MINUTE))
    assert sessions.watching(sqlite) == []
    assert unattended.tell(sqlite, clock.now() + LATER) == 1


def test_what_is_urgent_is_told_too(site: Site, sqlite: Database) -> None:
    """Also if nobody is to be called."""
    (call,) = good(site.get("calls"))["items"]
    good(site.post(f"decisions/{call['decision']}/answer", {"answered": False, "opened": True}))
    assert unattended.tell(sqlite, clock.now() + LATER) == 0
    row = {"id": "1.0", "seq": 1, "participant": "P001", "kind": "adverse event", "text": "", "raised": clock.now()}
    with sqlite.writing.begin() as connection:
        connection.execute(tables.escalations.insert(), row)
    assert unattended.tell(sqlite, clock.now() + LATER) == 1
    assert told(sqlite)[0]["escalations"] == 1


@pytest.mark.parametrize(
    ("lines", "at", "expected"),
    [
        ("", "2026-03-02T03:00:00Z", True),
        ('on_call = { weekdays = ["09:00", "17:00"] }', "2026-03-02T10:00:00Z", True),
        ('on_call = { weekdays = ["09:00", "17:00"] }', "2026-03-02T03:00:00Z", False),
        ('on_call = { weekdays = ["09:00", "17:00"] }', "2026-03-01T10:00:00Z", False),
    ],
)
def test_on_call_times(lines: str, at: str, expected: bool) -> None:
    """By the clock of staff: at all times unless the file says which."""
    running = StudyInForce.from_text(study_text().replace("[serve]\n", f"[serve]\n{lines}\n"))
    assert unattended.on_call(running, clock.from_iso(at)) is expected


def test_staff_hours_are_on_call_times() -> None:
    """Unless the file says otherwise; on a holiday nobody is written to."""
    hours = '\n[staff]\ntimezone = "UTC"\nhours = { weekdays = ["09:00", "17:00"] }\nholidays = [2026-03-03]\n'
    running = StudyInForce.from_text(study_text(extra=hours))
    at = {day: clock.from_iso(f"2026-03-{day}T10:00:00Z") for day in ("01", "02", "03")}
    assert [unattended.on_call(running, moment) for moment in at.values()] == [False, True, False]
    assert not unattended.on_call(running, clock.from_iso("2026-03-02T20:00:00Z"))
