"""The shipped call-centre trial, rehearsed from its first day to its last: what its file promises holds everywhere."""

import csv
import datetime as dt
import itertools
from collections import Counter, defaultdict
from pathlib import Path
from zoneinfo import ZoneInfo

import pytest
from typer.testing import CliRunner

from opportune.cli.main import app
from opportune.study.examples import example

BERLIN = ZoneInfo("Europe/Berlin")
HOLIDAYS = {dt.date(2026, 12, 25), dt.date(2026, 12, 26), dt.date(2027, 1, 1)}
HOURS = {**dict.fromkeys(range(5), (9, 17)), 5: (10, 13)}
Rows = list[dict[str, str]]


def rehearse(text: str, folder: Path) -> str:
    """Rehearse a study file from beginning to end; its exports lie in the folder `out`. What the command said."""
    file = folder / "study.toml"
    file.write_text(text, encoding="utf-8")
    result = CliRunner().invoke(app, ["rehearse", str(file), "--export", str(folder / "out")])
    assert result.exit_code == 0, result.output
    assert "the record verifies" in result.output
    return result.output


def rows_of(folder: Path, name: str) -> Rows:
    """An exported table."""
    with (folder / "out" / name).open(encoding="utf-8") as opened:
        return list(csv.DictReader(opened))


def local(text: str) -> dt.datetime:
    """A moment by the clock of staff, which is that of all participants here."""
    return dt.datetime.fromisoformat(text).astimezone(BERLIN)


def broken(decisions: Rows, calls: Rows, people: Rows) -> Counter[str]:
    """How often each promise of the file is broken in the exports: an empty counter if none ever is."""
    found: Counter[str] = Counter()
    nudged = [row for row in decisions if row["nudge"] == "1"]
    per_day: Counter[dt.date] = Counter()
    by_person: dict[str, list[dt.datetime]] = defaultdict(list)
    for row in nudged:
        at = local(row["time_utc"])
        begin, end = HOURS.get(at.weekday(), (24, 0))
        found["outside hours"] += not begin <= at.hour < end
        found["holiday"] += at.date() in HOLIDAYS
        found["quiet"] += not 8 <= at.hour < 20
        found["run-in"] += float(row["day_of_study"]) <= 7
        found["control arm"] += row["arm"] != "calls"
        found["not eligible"] += row["eligible"] != "1"
        per_day[at.date()] += 1
        by_person[row["participant"]].append(at)
    for call in calls:
        until = local(call["expires_utc"])
        closes = HOURS[until.weekday()][1]
        found["window beyond hours"] += (until.hour, until.minute) > (closes, 0)
    found["days above the cap"] += sum(count > 10 for count in per_day.values())
    for times in by_person.values():
        week, rest = dt.timedelta(days=7), dt.timedelta(hours=48)
        found["people above their cap"] += any(b - a < week for a, b in zip(times, times[2:], strict=False))
        found["too soon"] += any(b - a < rest for a, b in itertools.pairwise(times))
    for row in decisions:
        at = local(row["time_utc"])
        found["weekend"] += row["weekend"] != ("weekend" if at.weekday() >= 5 else "weekday")
        unsafe = row["pain"] == "strong" or float(row["day_of_study"]) < 3 or row["revealed"] != "1"
        found["forbidden action"] += row["action"] == "exercise" and unsafe
    for site in {row["site"] for row in people}:
        arms = [row["arm"] for row in sorted(people, key=lambda row: int(row["number"])) if row["site"] == site]
        blocks = [arms[i : i + 6] for i in range(0, len(arms) - 5, 6)]
        found["block out of balance"] += sum(Counter(block) != {"calls": 4, "control": 2} for block in blocks)
    return +found


@pytest.mark.slow
def test_the_trial_keeps_its_promises_for_84_days(tmp_path: Path) -> None:
    """No call outside hours, quiet hours or holidays, no day and nobody above a cap, no forbidden action, the weekend
    is the calendar's, arms are balanced within their blocks; each promise is one that the exports could break.
    """
    rehearse(example("cardiac-calls"), tmp_path)
    decisions, calls, people = (rows_of(tmp_path, f"{name}.csv") for name in ("decisions", "calls", "participants"))
    assert len(decisions) == 60 * 168
    assert not broken(decisions, calls, people)
    nudged = [row for row in decisions if row["nudge"] == "1"]
    assert len(nudged) > 100
    assert {row["action"] for row in decisions} == {"rest", "walk", "exercise"}
    assert any(row["pain"] == "strong" and row["revealed"] == "1" for row in decisions)
    assert {row["ineligible_reason"] for row in decisions} >= {"hours", "cap", "run-in", "arm"}

    # the controls: one row changed, and it is found
    night = [{**nudged[0], "time_utc": "2026-12-27T23:00:00Z"}, *nudged[1:]]
    assert broken(night, calls, people)["outside hours"] == 1
    assert broken([*decisions, *nudged], calls, people)["too soon"] > 0
    assert broken([{**row, "weekend": "weekday"} for row in decisions], calls, people)["weekend"] > 1_000
    assert broken([{**row, "action": "exercise"} for row in decisions], calls, people)["forbidden action"] > 1_000
    swapped = [{**row, "arm": "calls"} for row in people]
    assert broken(decisions, calls, swapped)["block out of balance"] > 5
    late = [{**call, "expires_utc": "2026-12-14T18:00:00Z"} for call in calls[:1]]
    assert broken(decisions, late, people)["window beyond hours"] == 1


@pytest.mark.slow
def test_the_trial_decides_live_as_it_is_simulated(tmp_path: Path) -> None:
    """Where nothing couples participants, no daily cap and nothing learned together, every decision is simulate's."""
    text = example("cardiac-calls").replace("planned = 60", "planned = 6")
    for coupled, alone in (("per_day = 10 ", "# per_day = 10 "), ('pooled = "partial"', "pooled = false")):
        assert text.count(coupled) == 1
        text = text.replace(coupled, alone)
    assert "1,008 decisions equal those of simulate" in rehearse(text, tmp_path)
