"""A rehearsal on a database of its own: the whole study, with calendars and arms, and the decisions of simulate."""

import csv
import datetime as dt
import itertools
import re
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from study_text import study_text
from typer.testing import CliRunner

from opportune.cli.main import app

TRIAL = """
[staff]
timezone = "Europe/Berlin"
hours = { weekdays = ["08:00", "17:00"] }
holidays = ["2026-12-25"]
"""
CAPS = """
per_week = 2
least_hours_between = 20
"""
ARMS = '[arms]\nnudges = { share = 1 }\ncontrol = { share = 1, policy = "never" }\nblock = 4\nstrata = ["site"]\n'


def cardiac(*, arms: bool = True, per_day: bool = False) -> str:
    """The example with hours, caps, arms and an enrolment that takes days."""
    extra = TRIAL + ("per_day = 1\n" if per_day else "") + (ARMS if arms else "")
    text = study_text(times=True, planned=8, horizon=40, extra=extra)
    text = re.sub(r"(?m)^(enrolment_days|first) = .*\n", "", text)
    begin = 'first_day = 2026-12-17\nenrolment_days = 4\nbaseline = { site = ["A", "B"] }\n'
    text = text.replace("[participants]\n", "[participants]\n" + begin)
    return text.replace("[nudge]\n", "[nudge]\n" + CAPS)


def test_reports_are_urgent_at_contacts_only(tmp_path: Path) -> None:
    """What participants would say counts once they say it; the decisions are those of simulate all the same."""
    file = tmp_path / "study.toml"
    text = study_text(planned=4, horizon=60)
    assert text.count('visibility = "reported"\n') == 1
    text = text.replace('visibility = "reported"\n', 'visibility = "reported"\nescalate = { low = "Ask why." }\n')
    file.write_text(text.replace("open_rate = 0.02", "open_rate = 0.1"), encoding="utf-8")
    result = CliRunner().invoke(app, ["rehearse", str(file), "--export", str(tmp_path / "out")])
    assert "decisions equal those of simulate" in result.output
    tables = {}
    for name in ("decisions", "escalations"):
        with (tmp_path / "out" / f"{name}.csv").open(encoding="utf-8") as opened:
            tables[name] = list(csv.DictReader(opened))
    low = [row for row in tables["decisions"] if row["mood"] == "low"]
    told = [row for row in low if row["revealed"] == "1"]
    assert len(low) > len(told) > 5, "the control: reveals uncover earlier steps too"
    assert len(tables["escalations"]) == len(told)


@pytest.mark.parametrize("case", [{"arms": True}, {"arms": False, "per_day": True}])
def test_the_whole_study_is_rehearsed(tmp_path: Path, case: dict[str, bool]) -> None:
    """One command launches, decides, calls, verifies, exports, and compares with simulate; hours and caps hold."""
    file = tmp_path / "study.toml"
    file.write_text(cardiac(**case), encoding="utf-8")
    result = CliRunner().invoke(
        app, ["rehearse", str(file), "--export", str(tmp_path / "out"), "--keep", str(tmp_path / "db")]
    )
    assert result.exit_code == 0, result.output
    assert "the record verifies" in result.output
    assert "decisions equal those of simulate" in result.output
    with (tmp_path / "out" / "decisions.csv").open(encoding="utf-8") as opened:
        rows = list(csv.DictReader(opened))
    assert len(rows) == 8 * 40
    nudged = [row for row in rows if row["nudge"] == "1"]
    assert nudged
    zone = ZoneInfo("Europe/Berlin")
    by_person: dict[str, list[dt.datetime]] = {}
    days: dict[dt.date, int] = {}
    for row in nudged:
        at = dt.datetime.fromisoformat(row["time_utc"]).astimezone(zone)
        assert at.weekday() < 5
        assert 8 <= at.hour < 17
        assert at.date() != dt.date(2026, 12, 25)
        assert row["eligible"] == "1"
        by_person.setdefault(row["participant"], []).append(at)
        days[at.date()] = days.get(at.date(), 0) + 1
    for times in by_person.values():
        assert all(later - one >= dt.timedelta(hours=20) for one, later in itertools.pairwise(times))
        assert all(later - one >= dt.timedelta(days=7) for one, later in zip(times, times[2:], strict=False))
    if case.get("per_day"):
        assert max(days.values()) == 1
    assert {row["ineligible_reason"] for row in rows if row["eligible"] == "0"} >= {"hours"}
    with (tmp_path / "out" / "participants.csv").open(encoding="utf-8") as opened:
        people = list(csv.DictReader(opened))
    assert {row["site"] for row in people} == {"A", "B"}
    assert {row["status"] for row in people} == {"completed"}
    if case["arms"]:
        assert {row["arm"] for row in people} == {"nudges", "control"}
        control = {row["participant"] for row in people if row["arm"] == "control"}
        assert not control & set(by_person)


def staggered(*, pooled: bool = False) -> str:
    """Six people who begin over ten days, each with an age that is known at enrolment."""
    text = study_text(times=True, planned=6, horizon=60, pooled=pooled)
    begin = "first_day = 2026-12-17\nenrolment_days = 10\nbaseline = { age = [18, 90] }\n"
    text = re.sub(r"(?m)^(enrolment_days|first) = .*\n", "", text).replace(
        "[participants]\n", "[participants]\n" + begin
    )
    return text.replace("[nudge]\n", '[nudge]\nplural = "calls to people"\n')


def test_a_baseline_range_is_what_was_said_at_enrolment(tmp_path: Path) -> None:
    """A number that is known from enrolment on, and used in the formula, is the same number at every decision."""
    text = (
        staggered().replace('formula = "', 'formula = "age + ').replace("\n[effects]\n", '\n[effects]\n"age" = 0.01\n')
    )
    assert text.count("age") > 3
    (tmp_path / "study.toml").write_text(text, encoding="utf-8")
    result = CliRunner().invoke(app, ["rehearse", str(tmp_path / "study.toml"), "--participants", "2"])
    assert result.exit_code == 0, result.output
    assert "All 120 decisions equal those of simulate" in result.output


def test_days_before_all_have_begun(tmp_path: Path) -> None:
    """Whoever begins on a later day is planned for: those who have begun make simulate's decisions nevertheless."""
    (tmp_path / "study.toml").write_text(staggered(), encoding="utf-8")
    result = CliRunner().invoke(app, ["rehearse", str(tmp_path / "study.toml"), "--days", "6"])
    assert result.exit_code == 0, result.output
    assert "participants 4 of 6; the others begin later" in " ".join(result.output.split())
    assert "calls to people" in result.output, "the study's own word"
    assert "decisions equal those of simulate" in result.output


def test_a_pooled_model_with_people_who_begin_later(tmp_path: Path) -> None:
    """Whoever begins later begins with what was learned from the others, live and in simulate."""
    (tmp_path / "study.toml").write_text(staggered(pooled=True), encoding="utf-8")
    result = CliRunner().invoke(app, ["rehearse", str(tmp_path / "study.toml")])
    assert result.exit_code == 0, result.output
    assert "All 360 decisions equal those of simulate" in result.output
