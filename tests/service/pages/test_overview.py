"""The coordinator: is the trial all right today, the launch checklist, arms as they are blinded, the week ahead."""

import datetime as dt
import re
from collections.abc import Iterator
from importlib.resources import files
from typing import Any

import numpy as np
import pytest
from desk import desks, went
from site_over_http import Site, good, site_on
from study_text import study_text

from opportune.service.accounts.changes import Actor, note_access
from opportune.service.commands.corrections import CorrectZone
from opportune.service.commands.participants import Enrol
from opportune.service.monitoring import forecast
from opportune.service.monitoring.week import week
from opportune.service.pages.checklist import ITEMS
from opportune.service.record import tables
from opportune.service.record.database import Database
from opportune.service.state import clock
from opportune.service.verify.check import verify

CARDIAC = files("opportune.study.examples").joinpath("cardiac-calls.toml").read_text(encoding="utf-8")
ARMS = """
[arms]
block = 2
nudges = { share = 1 }
control = { share = 1, policy = "never", recommender = "random" }
"""


@pytest.fixture
def site(sqlite: Database) -> Iterator[Site]:
    """A study with people, newly launched."""
    with site_on(sqlite) as found:
        yield found
    assert verify(sqlite).findings == []


def first_line(page: str) -> str:
    """What the study page says first."""
    (found,) = re.findall(r'<p class="said verdict[^>]*>(.*?)</p>', page)
    return str(found)


def test_the_checklist_goes_on_record(site: Site) -> None:
    """Until all of it is done the study page says what is missing; each item has a name, a note, and can be undone."""
    found = desks(site, ada="admin", cora="analyst")
    ada, cora = found["ada"], found["cora"]
    assert "missing from the launch checklist: Hours, Safety" in first_line(cora.page("/study"))
    assert cora.request("GET", "/checklist").status_code == 403
    for item in ITEMS:
        page = ada.page("/checklist")
        (form,) = re.findall(rf'<section class="card" id="{item}".*?</section>', page, flags=re.DOTALL)
        fields = ada.form(form, "/checklist", note=f"{item} seen to")
        assert fields["item"] == item
        went(ada.request("POST", "/checklist", fields))
    assert "Everything is done." in ada.page("/checklist")
    assert "missing from the launch checklist" not in first_line(cora.page("/study"))
    kinds = [item["event"]["kind"] for item in good(site.get("events"))["items"]]
    assert kinds.count("checked") == len(ITEMS)
    (form,) = re.findall(r'<section class="card" id="hours".*?</section>', ada.page("/checklist"), flags=re.DOTALL)
    went(ada.request("POST", "/checklist", ada.form(form, "/checklist")))
    assert "missing from the launch checklist: Hours" in first_line(cora.page("/study"))


def test_a_test_alert_is_sent(sqlite: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """By every way that the file names, and the checklist says what became of it; without a way there is no button."""
    sent: list[dict[str, Any]] = []
    monkeypatch.setattr("opportune.service.monitoring.delivery._mail", lambda _to, row: sent.append(dict(row)))
    text = study_text().replace("[serve]\n", '[serve]\nmail = ["duty@example.org"]\n')
    with site_on(sqlite, text=text) as site:
        site.service.delivery.stop()
        ada = desks(site, ada="admin")["ada"]
        went(ada.send("/checklist", "/checklist/alert"))
        assert "is not sent yet." in ada.page("/checklist")
        site.service.delivery._stop.clear()
        assert site.service.delivery.deliver(clock.now() + clock.MINUTE) == 1
        assert "was sent; ask whether it was read." in ada.page("/checklist")
    assert [row["kind"] for row in sent] == ["alert"]
    assert "This is a test" in sent[0]["body"]


def test_no_test_alert_without_a_way(site: Site) -> None:
    """Where alerts stand on the pages only, there is nothing to try."""
    assert "/checklist/alert" not in desks(site, ada="admin")["ada"].page("/checklist")


def test_the_first_line_answers(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    """No while something is red or must be seen to; look at it while something is yellow or old; else yes."""
    ada = desks(site, ada="admin")["ada"]
    monkeypatch.setattr("opportune.service.pages.study.KEPT_SECONDS", -1.0)
    monkeypatch.setattr("opportune.service.pages.checklist.missing", lambda view: [])
    assert "last backup: never" in first_line(ada.page("/study"))
    note_access(site.service.database, Actor("ada", {"from": "test"}), "backed up", file="a.backup")
    assert first_line(ada.page("/study")) == "Yes, the trial is all right today."
    site.service.alerts.raise_alert("yellow", "silent", None, "silent")
    assert first_line(ada.page("/study")).startswith("Nothing urgent, but look at this today: 1 yellow alert")
    site.service.alerts.raise_alert("red", "verify", None, "wrong")
    assert first_line(ada.page("/study")).startswith("No: act now. 1 red alert")
    site.service.alerts.clear("verify")
    site.enrol()
    fell = {"text": "Fell.", "severity": "mild", "began": "today"}
    went(ada.send("/participants/0/adverse", "/participants/0/adverse", **fell))
    assert first_line(ada.page("/study")).startswith("No: act now. 1 urgent item")


def test_arms_are_blinded(sqlite: Database) -> None:
    """Staff see no arms; coordinators see who is in them, and only analysts what came of it."""
    with site_on(sqlite, text=study_text(policy="always", extra=ARMS)) as site:
        for number in range(4):
            site.enrol(f"P{number}")
            site.decide(f"P{number}")
        found = desks(site, anna="staff", ada="admin", cora="analyst")
        assert "control" not in found["anna"].page("/study")
        assert '<th scope="row">control</th>' in found["ada"].page("/study")
        assert "mean result" not in found["ada"].page("/study")
        assert "mean result" in found["cora"].page("/study")


def test_the_week_ahead(sqlite: Database) -> None:
    """Days add up to what the simulation has for the coming steps; nothing for those who want no calls or are away."""
    text = study_text(times=True, horizon=200, budget=20, planned=8)
    with site_on(sqlite, text=text) as site:
        running, now = site.service.running, clock.now()
        site.service.writer.do(Enrol(who="s", received=now, participant="P001", timezone="Europe/Berlin"))
        mean = np.cumsum(np.linspace(0.2, 0.0, 200)).tolist()
        grid = [0, 200]
        known = forecast.Forecast(mean=mean, sd=[0.0] * 200, grid=grid, spread=[[0.0, 0.0], [0.0, 0.0]])
        forecast.keep(sqlite, running, known)
        with sqlite.reading.connect() as connection:
            days = week(connection, running, now, "Europe/Berlin")
        assert len(days) == 7
        steps = sum(len(day.hours) for day in days)
        total = sum(day.expected for day in days)
        assert 7 * running.per_day - running.per_day <= steps <= 7 * running.per_day
        first = running.per_day  # decision points of today that are over by now are not expected any more
        most = mean[steps + first] * running.amount / mean[-1]
        assert 0.5 * most < total <= most + 1e-9
        assert all(day.low <= day.expected <= day.high for day in days)
        with sqlite.writing.begin() as connection:
            connection.execute(tables.participants.update().values(calls=False))
        with sqlite.reading.connect() as connection:
            assert sum(day.expected for day in week(connection, running, now, "Europe/Berlin")) == 0.0
            connection.rollback()
        with sqlite.writing.begin() as connection:
            connection.execute(tables.participants.update().values(calls=True))
        page = desks(site, anna="staff")["anna"].page("/week")
        assert re.search(r"About \d+ calls in the next seven days\.", page)


def test_the_week_follows_a_planned_change_of_time_zone(sqlite: Database) -> None:
    """From the date of the change on, calls are expected at the decision times of the new clock."""
    here, there = "Europe/Berlin", "America/New_York"
    with site_on(sqlite, text=study_text(times=True, budget=20)) as site:
        running, now = site.service.running, clock.now()
        today = clock.local(now, here).date()
        site.service.writer.do(Enrol(who="s", received=now, participant="P001", timezone=here))
        changed = today + dt.timedelta(days=3)
        move = CorrectZone(who="s", received=now, participant="P001", timezone=there, from_date=changed, reason="trip")
        site.service.writer.do(move)
        with sqlite.reading.connect() as connection:
            days = {day.date: sorted(day.hours) for day in week(connection, running, now, here)}

    def hours(date: dt.date, timezone: str) -> list[int]:
        moments = [dt.datetime.combine(date, dt.time(at // 60), clock.zone(timezone)) for at in running.times]
        return sorted(moment.astimezone(clock.zone(here)).hour for moment in moments)

    assert days[today + dt.timedelta(days=1)] == hours(today + dt.timedelta(days=1), here)
    assert days[today + dt.timedelta(days=5)] == hours(today + dt.timedelta(days=5), there) != hours(today, here)


def test_calls_to_come_are_those_of_the_simulation(sqlite: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the calendar is closed at some points, the open ones have all calls; an arm without calls has none."""
    with site_on(sqlite, text=CARDIAC) as site:
        running, now = site.service.running, clock.now()
        assert running.amount is not None
        for number in range(6):
            site.enrol(f"P{number}", baseline={"site": "Bern", "age": 60})

        def expected(days: int) -> float:
            monkeypatch.setattr("opportune.service.monitoring.week.DAYS", days)
            with sqlite.reading.connect() as connection:
                found = week(connection, running, now, "Europe/Berlin")
            return sum(day.expected for day in found)

        assert expected(90) == pytest.approx(4 * running.amount)
        assert expected(7) == 0.0, "the run-in"
        anna = desks(site, anna="staff")["anna"]
        page = anna.page("/week")
        assert "No calls are expected in the next seven days." in page
        assert "spread evenly" in page
        known = forecast.simulated(running)
        assert known is not None
        forecast.keep(sqlite, running, known)
        assert expected(90) == pytest.approx(4 * known.mean[-1])
        assert expected(7) == 0.0
        assert "the simulation of the study" in anna.page("/week")
