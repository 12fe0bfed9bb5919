"""Monitoring: what a board may see while a study runs, and what it must not see unless it is unblinded."""

import datetime as dt
from pathlib import Path

import pandas as pd
import pytest
from exports import frame, write

from opportune.report.monitor import write_monitoring
from opportune.trial.export import Export, read_export
from opportune.trial.monitor import Monitored, monitor

TODAY = dt.date(2027, 3, 1)
EFFECTS = ("effects", "course", "policies")


@pytest.fixture(scope="module")
def record(tmp_path_factory: pytest.TempPathFactory) -> Export:
    folder = write(tmp_path_factory.mktemp("monitor") / "export", frame(), arms=True)
    people = pd.read_csv(folder / "participants.csv")
    people.loc[:2, "status"] = "withdrawn"
    people["reason"] = people["status"].map({"withdrawn": "moved away"})
    people.to_csv(folder / "participants.csv", index=False)
    events = pd.DataFrame({"seq": range(1, 6), "kind": ["launched", "noted", "noted", "adverse event", "closed"]})
    events.to_csv(folder / "events.csv", index=False)
    shown = pd.DataFrame({"participant": ["P001", "P002"], "acknowledged_utc": ["2027-02-01T08:00:00Z", None]})
    shown.to_csv(folder / "escalations.csv", index=False)
    return read_export(folder)


def made(record: Export, out: Path, *, unblinded: bool) -> tuple[Monitored, str]:
    """A report, and all that its files say."""
    alerts = [{"level": "yellow", "code": "pacing", "text": "spent faster than planned"}]
    found = monitor(record, date=TODAY, unblinded=unblinded, alerts=alerts)
    out.mkdir()
    page = write_monitoring(found, out, "opportune monitor")
    assert page.name == f"walks-monitoring-2027-03-01{'-unblinded' if unblinded else ''}.html"
    return found, "".join(file.read_text(encoding="utf-8") for file in out.iterdir())


def test_a_blinded_report_shows_no_effect_and_names_no_arm(record: Export, tmp_path: Path) -> None:
    """Nothing in it tells one arm from the other; the control: the unblinded one names arms and shows effects."""
    blind, texts = made(record, tmp_path / "blind", unblinded=False)
    assert not set(EFFECTS) & set(blind.tables)
    assert blind.findings == []
    assert "usual care" not in texts
    assert "with calls" not in texts
    assert "Effect of" not in texts
    flow = blind.tables["flow"].set_index("stage")
    assert flow.loc["nudged", ["arm A", "arm B"]].isna().all()
    open_, told = made(record, tmp_path / "open", unblinded=True)
    assert "usual care" in told
    assert [finding.kind for finding in open_.findings][:1] == ["primary"]
    assert "effects" in open_.tables


def test_safety_is_counted(record: Export) -> None:
    """Adverse events, escalations, notes and withdrawals with their reasons, and open alerts."""
    found = monitor(record, date=TODAY, alerts=[{"level": "red", "code": "silent", "text": "a phone is silent"}])
    safety = found.tables["safety"].set_index("what")["number"]
    assert safety["adverse events"] == 1
    assert safety["escalations shown to staff"] == 2
    assert safety["escalations not yet acknowledged"] == 1
    assert safety["notes by staff"] == 2
    assert safety["participants withdrawn"] == 3
    assert found.tables["withdrawals"].to_dict("records") == [{"reason": "moved away", "participants": 3}]
    assert found.tables["alerts"]["alert"].tolist() == ["a phone is silent"]


def test_pacing_adds_up(record: Export) -> None:
    """The quarters of the study have all nudges between them, and an even course of the whole budget."""
    pacing = monitor(record, date=TODAY).tables["pacing"]
    assert pacing["nudges"].sum() == record.decisions["nudge"].sum()
    assert pacing["even course"].sum() == pytest.approx(len(record.decisions) * 12 / 40, abs=0.3)
