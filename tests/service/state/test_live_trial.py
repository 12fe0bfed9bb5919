"""The skeleton of a trial, live: staff hours, caps, arms in blocks, baseline, weekdays of one's own."""

from importlib.resources import files
from typing import Any

import msgspec
import pytest
from course import answer_of, launch
from sqlalchemy import select, update
from study_text import study_text

from opportune.service.commands.decisions import Propose
from opportune.service.commands.participants import Enrol
from opportune.service.problems import Refused
from opportune.service.record import tables
from opportune.service.record.database import Database
from opportune.service.record.writer import Writer
from opportune.service.state import clock
from opportune.service.state.study import StudyInForce
from opportune.service.verify.check import verify

SENSED = {"time_of_day": "morning", "stress": 3, "sleep": "poor"}
BERLIN = "Europe/Berlin"
TRIAL = """
[staff]
timezone = "Europe/Berlin"
hours = { weekdays = ["08:00", "17:00"], saturday = ["08:00", "09:30"] }
holidays = ["2026-04-06"]
per_day = 3
"""
ARMS = """
[arms]
nudges = { share = 2 }
control = { share = 1, policy = "never" }
block = 6
strata = ["site"]
"""


def at(text: str) -> int:
    return clock.from_iso(text)


def started(database: Database, text: str, *, people: int = 1, zone: str = BERLIN, **given: Any) -> Writer:
    """A study since Monday, 30 March 2026, with people who have just been enrolled."""
    writer = Writer(database)
    launch(writer, text, at("2026-03-30T05:00:00Z"))
    for i in range(people):
        writer.do(Enrol(who="staff", received=at("2026-03-30T06:00:00Z"), participant=f"P{i}", timezone=zone, **given))
    return writer


def ask(writer: Writer, moment: str, person: str = "P0", **sensed: Any) -> dict[str, Any]:
    """A decision as of a moment."""
    given = {"sensed": {**SENSED, **sensed}}
    return answer_of(writer.do(Propose(who="app", received=at(moment), participant=person, given=given)))


def rows(database: Database, table: Any) -> list[Any]:
    with database.reading.connect() as connection:
        return list(connection.execute(select(table)).mappings())


def test_nudges_keep_to_staff_hours(sqlite: Database) -> None:
    """Outside hours, on holidays and where too little time is left no nudge is made, and the record says why."""
    writer = started(sqlite, study_text(policy="always", extra=TRIAL))
    expected = {
        "2026-03-30T07:00:00Z": None,  # Monday, 09:00
        "2026-03-30T14:30:00Z": None,  # 16:30, half an hour before the end
        "2026-03-30T14:50:00Z": "hours",  # ten minutes before the end
        "2026-03-30T18:00:00Z": "hours",  # 20:00
        "2026-04-04T07:00:00Z": None,  # Saturday, 09:00
        "2026-04-04T08:00:00Z": "hours",  # Saturday, 10:00
        "2026-04-05T07:00:00Z": "hours",  # Sunday
        "2026-04-06T07:00:00Z": "hours",  # a holiday
    }
    made = {moment: ask(writer, moment) for moment in expected}
    stored = {row["id"]: row for row in rows(sqlite, tables.decisions)}
    for moment, reason in expected.items():
        row = stored[made[moment]["decision"]]
        assert row["nudge"] == (reason is None), moment
        assert (row["eligible"], row["ineligible_reason"]) == (reason is None, reason), moment
        assert row["probability"] == (1.0 if reason is None else 0.0)
    assert verify(sqlite).findings == []


def test_a_nudge_can_be_answered_as_long_as_staff_work(sqlite: Database) -> None:
    """The answer window ends with the staff's hours, and late requests see that it is over."""
    writer = started(sqlite, study_text(policy="always", extra=TRIAL))
    assert ask(writer, "2026-03-30T14:30:00Z")["expires"] == "2026-03-30T15:00:00.000000Z"
    assert ask(writer, "2026-03-31T07:00:00Z")["expires"] == "2026-03-31T09:00:00.000000Z"


def test_staff_make_so_many_in_a_day_for_all_arms(sqlite: Database) -> None:
    """The cap counts the nudges of all participants, whatever their arm, and begins anew the next day."""
    arms = "[arms]\none = { share = 1 }\nother = { share = 1 }\nblock = 2\n"
    writer = started(sqlite, study_text(policy="always", extra=TRIAL + arms), people=8)
    nudged = [ask(writer, "2026-03-30T08:00:00Z", f"P{i}")["nudge"] for i in range(8)]
    assert nudged == [True] * 3 + [False] * 5
    assert {row["arm"] for row in rows(sqlite, tables.participants)} == {"one", "other"}
    assert {row["ineligible_reason"] for row in rows(sqlite, tables.decisions)[3:]} == {"cap"}
    assert ask(writer, "2026-03-31T08:00:00Z", "P7")["nudge"]
    assert verify(sqlite).findings == []


@pytest.mark.parametrize("rehearsal", [True, False])
def test_arms_are_balanced_in_every_block(sqlite: Database, rehearsal: bool) -> None:
    """Blocks of six have four and two, in each stratum; verify finds an arm that was changed."""
    baseline = '[participants]\nbaseline = { site = ["A", "B"] }\n'
    text = study_text(planned=60, extra=ARMS).replace("[participants]\n", baseline)
    writer = Writer(sqlite)
    launch(writer, text, at("2026-03-30T05:00:00Z"), rehearsal=rehearsal)
    for i in range(36):
        given: dict[str, Any] = {"baseline": {"site": "AB"[i % 2]}}
        writer.do(Enrol(who="staff", received=at("2026-03-30T06:00:00Z"), participant=f"P{i:02}", **given))
    people = sorted(rows(sqlite, tables.participants), key=lambda row: row["number"])
    for site in (0, 1):
        arms = [row["arm"] for row in people if row["stratum"] == site]
        assert len(arms) == 18
        for block in range(3):
            assert sorted(arms[6 * block : 6 * block + 6]) == ["control"] * 2 + ["nudges"] * 4
    orders = {tuple(row["arm"] for row in people if row["stratum"] == site) for site in (0, 1)}
    assert len(orders) == 2, "each stratum has blocks of its own"
    members = [row["member"] for row in people if row["arm"] == "control"]
    assert members == list(range(12))
    control = next(row["name"] for row in people if row["arm"] == "control")
    ask(writer, "2026-03-30T08:00:00Z", control)
    assert rows(sqlite, tables.decisions)[0]["ineligible_reason"] == "arm"
    assert verify(sqlite).findings == []
    with sqlite.writing.begin() as connection:
        connection.execute(
            update(tables.participants).where(tables.participants.c.name == control).values(arm="nudges")
        )
    assert any(control in finding for finding in verify(sqlite).findings)


def test_baseline_is_asked_for_and_kept(sqlite: Database) -> None:
    """Everybody enrols with what the study wants to know; it stands in the record and on the participant."""
    baseline = '[participants]\nbaseline = { site = ["A", "B"], age = [18, 90] }\n'
    writer = Writer(sqlite)
    launch(writer, study_text().replace("[participants]\n", baseline), at("2026-03-30T05:00:00Z"))

    def enrol(**given: Any) -> dict[str, Any]:
        return answer_of(writer.do(Enrol(who="staff", received=at("2026-03-30T06:00:00Z"), participant="P0", **given)))

    good = {"site": "A", "age": 40}
    for wrong in (None, {"site": "A"}, {**good, "site": "C"}, {**good, "age": 17}, {**good, "x": 1}):
        with pytest.raises(Refused, match="baseline"):
            enrol(baseline=wrong)
    assert enrol(baseline=good)["baseline"] == good
    (row,) = rows(sqlite, tables.participants)
    assert msgspec.json.decode(row["baseline"]) == good
    assert verify(sqlite).findings == []


def test_weekdays_are_those_of_the_persons_calendar(sqlite: Database) -> None:
    """Somebody who enrols on a Thursday has a weekend on the third and fourth day; another value is refused."""
    text = study_text(times=True, horizon=40).replace(
        "[variables.sleep]", '[variables.day]\nschedule = "weekend"\n\n[variables.sleep]'
    )
    writer = Writer(sqlite)
    launch(writer, text, at("2026-03-30T05:00:00Z"))
    writer.do(Enrol(who="staff", received=at("2026-04-02T05:00:00Z"), participant="P0", timezone=BERLIN))
    found = []
    for day in range(2, 9):
        given = {"sensed": SENSED}
        moment = at(f"2026-04-0{day}T07:00:00Z")
        decision = answer_of(writer.do(Propose(who="app", received=moment, participant="P0", given=given)))["decision"]
        (row,) = [row for row in rows(sqlite, tables.decisions) if row["id"] == decision]
        found.append(msgspec.json.decode(row["sensed"])["day"])
    assert found == ["weekday", "weekday", "weekend", "weekend", "weekday", "weekday", "weekday"]
    wrong = {"sensed": {**SENSED, "day": "weekend"}}
    with pytest.raises(Refused, match="day is 'weekend'"):
        writer.do(Propose(who="app", received=at("2026-04-09T07:00:00Z"), participant="P0", given=wrong))
    assert verify(sqlite).findings == []


@pytest.mark.parametrize("name", ["cardiac-calls", "heartsteps", "oralytics", "stress-messages"])
def test_a_decision_is_tried_out_before_the_first(name: str) -> None:
    """In every example: also where there are staff's hours, variables of one's own history, or arms."""
    text = files("opportune.study.examples").joinpath(f"{name}.toml").read_text(encoding="utf-8")
    StudyInForce.from_text(text).try_out()
