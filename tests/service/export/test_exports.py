"""Exports: one row per decision point, and what analysts do with them."""

import csv
import errno
import io
import random
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from course import BEGIN, answer_of, launch, run_course
from site_over_http import SENSED
from study_text import study_text

from opportune.service.commands.administration import Amend, Launch
from opportune.service.commands.decisions import Answer, Propose
from opportune.service.commands.expiry import expire_all
from opportune.service.commands.participants import Enrol
from opportune.service.commands.rewards import Reward
from opportune.service.commands.safety import ReportAdverse
from opportune.service.export import download, exports
from opportune.service.export.download import whole_file
from opportune.service.export.exports import NAMES, cell, dictionary, export
from opportune.service.monitoring.alerts import Alerts
from opportune.service.problems import Refused
from opportune.service.record.database import Database
from opportune.service.record.writer import Writer
from opportune.service.state import clock
from opportune.service.state.packing import pack, unpack
from opportune.service.verify.check import verify

EFFECT = 0.5


def table(database: Database, name: str) -> list[dict[str, str]]:
    """An export, as a program reads it."""
    text = "".join(export(database, name))
    return list(csv.DictReader(io.StringIO(text, newline="")))


def test_every_decision_point_has_a_row(database: Database) -> None:
    """Unavailable ones included; what was not revealed is empty; times are UTC and local; pseudonyms only."""
    writer = Writer(database)
    launch(writer, study_text())
    run_course(writer.write, people=3, steps=15)
    rows = table(database, "decisions")
    assert len(rows) == 45
    assert {row["available"] for row in rows} == {"0", "1"}
    for row in rows:
        assert (row["unavailable_reason"] == "") == (row["available"] == "1")
        assert (row["nudge"] == "1") == (float(row["coin"]) < float(row["nudge_probability"]))
        assert float(row["budget_before"]) >= float(row["budget_after"])
        if row["revealed"] == "0" and row["mood"] != "":
            assert row["answered_late_utc"] or any(other["revealed"] == "1" for other in rows)
        local = pd.Timestamp(row["time_utc"]).tz_convert("Europe/Berlin").strftime("%Y-%m-%dT%H:%M:%S")
        assert row["time_local"] == local
        assert row["action_probability"] == "1.0"
    nudges = table(database, "nudges")
    assert nudges == [row for row in rows if row["nudge"] == "1"]
    assert len(table(database, "participants")) == 3
    assert [row["seq"] for row in table(database, "events")] == [
        str(i + 1) for i in range(len(table(database, "events")))
    ]
    corrected = [row for row in table(database, "rewards") if row["kind"] == "corrected"]
    assert corrected
    assert all(row["reason"] == "read wrongly" and row["was"] != "" for row in corrected)


def test_texts_are_no_formulas(sqlite: Database) -> None:
    """A reason that a spreadsheet would calculate is told apart; commas within stay within."""
    assert cell("=1+1") == "'=1+1"
    assert cell(-1.5) == "-1.5"
    writer = Writer(sqlite)
    launch(writer, study_text())
    writer.do(Enrol(who="staff", received=BEGIN, participant="P1"))
    reason = '=HYPERLINK("x"), and more'
    given = {"sensed": {"time_of_day": "morning", "stress": 1, "sleep": "good"}, "available": False, "reason": reason}
    writer.do(Propose(who="app", received=BEGIN, participant="P1", given=given))
    assert table(sqlite, "decisions")[0]["unavailable_reason"] == "'" + reason


def test_an_empty_study_has_headers(sqlite: Database) -> None:
    """Every file is there from the beginning."""
    launch(Writer(sqlite), study_text())
    assert all(len("".join(export(sqlite, name)).splitlines()) >= 1 for name in NAMES)
    assert table(sqlite, "decisions") == []


def rehearse(database: Database, *, people: int, steps: int) -> None:
    """A study in which every nudge is answered, and helps by EFFECT."""
    rnd = random.Random(4)
    writer = Writer(database)
    launch(writer, study_text(policy="naive", planned=people, horizon=steps, budget=steps * 0.3))
    names = [f"P{i:02d}" for i in range(people)]
    writer.write([Enrol(who="staff", received=BEGIN, participant=name) for name in names])
    for step in range(steps):
        now = BEGIN + step * clock.HOUR
        moments: list[dict[str, Any]] = [
            {"time_of_day": rnd.choice(["morning", "evening"]), "stress": rnd.randrange(4), "sleep": "good"}
            for _ in names
        ]
        asked = [
            Propose(
                who="app", received=now, participant=name, given={"sensed": moment, "available": rnd.random() < 0.9}
            )
            for name, moment in zip(names, moments, strict=True)
        ]
        made = [answer_of(reply) for reply in writer.write(asked)]
        nudged = [decision["decision"] for decision in made if decision["status"] == "nudge"]
        told = {"mood": "good"}
        writer.write([Answer(who="staff", received=now, decision=d, answered=True, reported=told) for d in nudged])
        rewards = []
        for number, (decision, moment) in enumerate(zip(made, moments, strict=True)):
            base = 1.0 - 0.4 * moment["stress"] + 0.3 * (number % 5)
            reward = base + EFFECT * decision["nudge"] + rnd.gauss(0.0, 0.5)
            rewards.append(Reward(who="app", received=now, decision=decision["decision"], reward=reward))
        writer.write(rewards)


@pytest.mark.slow
def test_analysts_find_the_effect_of_nudges(sqlite: Database) -> None:
    """Weighted and centred least squares, clustered by participant, on decisions.csv: the simulated effect."""
    import statsmodels.api as sm

    rehearse(sqlite, people=30, steps=40)
    data = pd.read_csv(io.StringIO("".join(export(sqlite, "decisions"))))
    data = data[data["available"] == 1]
    assert data["nudge_probability"].between(0.0, 1.0, inclusive="neither").mean() > 0.9
    data = data[data["nudge_probability"].between(0.0, 1.0, inclusive="neither")]
    share = data["nudge"].mean()
    p = data["nudge_probability"]
    weights = np.where(data["nudge"] == 1, share / p, (1 - share) / (1 - p))
    design = pd.DataFrame({"one": 1.0, "stress": data["stress"], "nudge": data["nudge"] - share})
    fit = sm.GEE(data["reward"], design, groups=data["participant"], weights=weights).fit()
    low, high = fit.conf_int(alpha=0.01).loc["nudge"]
    assert low < EFFECT < high
    assert high - low < 0.4, "the control: it says something"
    assert low > 0.0


COLUMNS = """
participant decision step day time_utc time_local timezone available unavailable_reason past time_of_day stress sleep
mood features_version action action_probability action_probability_rest action_probability_walk
action_probability_breathe action_intended action_draw eligible ineligible_reason nudge_class opened_before nudge
nudge_probability nudge_probability_before coin gap price budget_before budget_after
answered revealed reward reward_received_utc reward_first reward_changes mode policy_version software_version
"""


def test_every_column_is_there_and_explained(sqlite: Database) -> None:
    """What micro-randomised trials need, one row per decision point; the dictionary has a sentence for each column."""
    launch(Writer(sqlite), study_text())
    header = "".join(export(sqlite, "decisions")).splitlines()[0].split(",")
    assert set(COLUMNS.split()) <= set(header)
    explained = dictionary(sqlite)["files"]
    for name in NAMES:
        header = "".join(export(sqlite, name)).splitlines()[0].split(",")
        assert [entry["column"] for entry in explained[f"{name}.csv"]] == header
        assert all(len(entry["meaning"]) > 3 and entry["type"] for entry in explained[f"{name}.csv"])


@pytest.mark.parametrize("share", [None, 0.3, 1.0, '"candidates"'])
def test_probabilities_before_and_after_randomising(sqlite: Database, share: float | str | None) -> None:
    """Before is what the rule without its coin would do in the very same state; after is what was used."""
    text = study_text(budget=25, planned=4, horizon=100)
    if share is not None:
        text = text.replace('kind = "PACE"\n', f'kind = "PACE"\nrandomise = {share}\n', 1)
    writer = Writer(sqlite)
    launch(writer, text)
    expected: list[float] = []
    writer.write([Enrol(who="staff", received=BEGIN, participant="P1")])
    rnd = random.Random(2)
    for number in range(60):
        sensed = {"time_of_day": "morning", "stress": rnd.randrange(4), "sleep": rnd.choice(["good", "poor"])}
        opened = rnd.random() < 0.1
        expected.append(alone(writer, sensed, opened))
        given = {"sensed": sensed, "opened": opened}
        made = answer_of(writer.do(Propose(who="app", received=BEGIN + number, participant="P1", given=given)))
        if made["status"] == "nudge":
            told = {"mood": "low"}
            answer = Answer(who="s", received=BEGIN, decision=made["decision"], answered=number % 3 > 0)
            answer.reported = told if answer.answered else None
            answer_of(writer.do(answer))
        writer.do(Reward(who="app", received=BEGIN, decision=made["decision"], reward=rnd.random()))
    rows = table(sqlite, "decisions")
    before = [float(row["nudge_probability_before"]) for row in rows]
    after = [float(row["nudge_probability"]) for row in rows]
    np.testing.assert_allclose(before, expected, atol=1e-9)
    assert 0.0 < np.mean(before) < 1.0, "the control: not always the same"
    assert (before == after) == (share is None)


def test_chance_is_on_record(sqlite: Database) -> None:
    """Eligible points have probability 1 - eps or eps and a class; others have 0 and a reason. Actions are their draw.

    The control: an opening after the coin leaves its point eligible, one before it does not.
    """
    text = study_text(budget=15, planned=3, horizon=80, hard=True)
    text += "[probabilities]\nactions = 0.1\nnudge = 0.25\n"
    writer = Writer(sqlite)
    launch(writer, text)
    names = ["P1", "P2", "P3"]
    writer.write([Enrol(who="staff", received=BEGIN, participant=name) for name in names])
    rnd, later = random.Random(5), 0
    for number in range(80 * 3):
        stress = rnd.randrange(4)
        sensed = {"time_of_day": "morning", "stress": stress, "sleep": rnd.choice(["good", "poor"])}
        given = {"sensed": sensed, "opened": rnd.random() < 0.05, "available": rnd.random() < 0.9}
        ask = Propose(who="app", received=BEGIN + number, participant=names[number % 3], given=given)
        made = answer_of(writer.do(ask))
        if made["status"] == "nudge":
            answered, opened = rnd.random() < 0.6, rnd.random() < 0.3
            later += opened
            told = {"mood": "low"} if answered or opened else None
            answer = Answer(who="s", received=BEGIN, decision=made["decision"], answered=answered and not opened)
            answer.opened, answer.reported = opened, told
            made = answer_of(writer.do(answer))
        reward = (stress - 1.0) * (made["action"] == "breathe") + rnd.gauss(0.0, 0.3)
        writer.do(Reward(who="app", received=BEGIN, decision=made["decision"], reward=reward))
    rows = pd.read_csv(io.StringIO("".join(export(sqlite, "decisions"))), keep_default_na=False, na_values=[""])
    eligible, others = rows[rows["eligible"] == 1], rows[rows["eligible"] == 0]
    expected = eligible["nudge_class"].map({"rank": 0.75, "grid": 0.75, "candidate": 0.25})
    np.testing.assert_allclose(eligible["nudge_probability"], expected, atol=1e-12)
    assert set(eligible["nudge_class"]) == {"rank", "grid", "candidate"}
    assert (others["nudge_probability"] == 0.0).all()
    assert others["nudge_class"].isna().all()
    assert {"opened", "unavailable", "not a candidate"} <= set(others["ineligible_reason"])
    assert (rows["opened_before"] == (rows["ineligible_reason"] == "opened")).all()
    assert rows["opened"].sum() == rows["opened_before"].sum() + later
    assert later > 0
    assert eligible["opened"].sum() == later
    actions = ["walk", "breathe", "rest"]
    p = rows[[f"action_probability_{name}" for name in actions]].to_numpy()
    np.testing.assert_allclose(p.sum(axis=1), 1.0)
    assert p.min() == pytest.approx(0.1)
    drawn = [actions[int(np.searchsorted(np.cumsum(each), u, side="right"))]
             for each, u in zip(p, rows["action_draw"], strict=True)]  # fmt: skip
    assert drawn == rows["action"].tolist()
    most = [actions[int(np.argmax(each))] for each in p]
    assert most == rows["action_intended"].tolist()
    assert most != drawn, "the control: the draw often falls on another"


def alone(writer: Writer, sensed: dict[str, Any], opened: bool) -> float:
    """The probability of the rule without its coin, in the participant's present state."""
    fold, participants = writer.memory.fold, writer.memory.participants
    assert fold is not None
    agent = participants["P1"].agent
    copy = fold.agent(0)
    unpack(copy, pack(agent), [replace(step) for step in agent.steps.values()])
    settings = copy.numbers.at.views("revealer.settings", copy.numbers.rule)
    settings.randomise[0] = min(settings.randomise[0], 1e-14)
    settings.least[0] = 0.0
    return copy.propose(sensed, opened=opened).probability


def test_variables_may_have_the_names_of_columns(sqlite: Database) -> None:
    """Then theirs are told apart; every column has a name of its own."""
    text = study_text().replace("time_of_day", "day").replace('"stress"', '"nudge"')
    text = re.sub(r"\bstress\b", "nudge", text)
    writer = Writer(sqlite)
    launch(writer, text)
    writer.do(Enrol(who="staff", received=BEGIN, participant="P1"))
    given = {"sensed": {"day": "evening", "nudge": 2, "sleep": "poor"}}
    writer.do(Propose(who="app", received=BEGIN, participant="P1", given=given))
    header = "".join(export(sqlite, "decisions")).split("\r\n", maxsplit=1)[0].split(",")
    assert len(header) == len({*header})
    (row,) = table(sqlite, "decisions")
    assert (row["day"], row["variable_day"], row["variable_nudge"], row["sleep"]) == ("1", "evening", "2", "poor")
    told = {column["column"]: column["meaning"] for column in dictionary(sqlite)["files"]["decisions.csv"]}
    assert [*told] == header
    assert "'day'" in told["variable_day"]


def test_nothing_is_made_up(sqlite: Database) -> None:
    """Of points that nobody asked about, of nudges that wait, of rewards that never came, and where files lay."""
    writer = Writer(sqlite)
    text = study_text(times=True, policy="always").replace("[reward]\n", "[reward]\ndefault = 0.0\n")
    file = "/home/somebody/study.toml"
    writer.do(Launch(who="admin", received=BEGIN, file=text, source=file))
    changed = text.replace('label = "Take a rest"', 'label = "Rest"')
    writer.do(Amend(who="admin", received=BEGIN, file=changed, source=file, reason="shorter"))
    writer.do(Enrol(who="staff", received=BEGIN, participant="P1"))
    given = {"sensed": {"time_of_day": "evening", "stress": 1, "sleep": "poor"}, "reported": {"mood": "low"}}
    for day in range(2):
        moment = BEGIN + (24 * day + 11) * clock.HOUR
        made = answer_of(writer.do(Propose(who="app", received=moment, participant="P1", given=given)))
    rows = table(sqlite, "decisions")
    assert [row["time_of_day"] for row in rows] == ["", "evening", "", "evening"]
    assert [row["status"] for row in rows] == ["settled", "settled", "settled", "nudge"]
    assert [row["opened"] for row in rows] == [row["revealed"] for row in rows] == ["0", "0", "0", ""]
    assert rows[3]["mood"] == "", "sealed until it is answered"
    writer.do(Answer(who="staff", received=moment, decision=made["decision"], answered=True))
    assert table(sqlite, "decisions")[3]["mood"] == "low"
    writer.do(Reward(who="app", received=moment, decision=made["decision"], reward=0.0))
    writer.start()
    assert expire_all(writer, moment + 60 * 24 * clock.HOUR) == 1
    writer.stop()
    assert [row["reward_imputed"] for row in table(sqlite, "decisions")] == ["0", "1", "0", "0"]
    assert "somebody" not in "".join(export(sqlite, "events"))


def test_files_of_one_export_are_of_one_moment(database: Database) -> None:
    """Whatever is written while they are made, they fit together."""
    writer = Writer(database)
    launch(writer, study_text())
    run_course(writer.write, people=2, steps=3)
    with database.still() as now:
        before = {name: table(now, name) for name in NAMES}
        ask = Propose(who="app", received=BEGIN + clock.HOUR, participant="P001", given={"sensed": SENSED})
        writer.do(ask)
        assert {name: table(now, name) for name in NAMES} == before
    assert len(table(database, "decisions")) == len(before["decisions"]) + 1, "the control"


@pytest.mark.parametrize("name", NAMES)
def test_a_file_that_is_sent_is_of_one_moment(database: Database, name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """It is made before the first of it is sent: what is written later is not in it, and who reads slowly may."""
    writer = Writer(database)
    launch(writer, study_text())
    run_course(writer.write, people=3, steps=4)
    monkeypatch.setattr(download, "IN_MEMORY", 100)  # the rest lies on disk
    expected = "".join(export(database, name)).encode()
    sent = whole_file(database, name)
    first = next(sent)
    for _ in range(20):
        ask = Propose(who="app", received=BEGIN + clock.HOUR, participant="P001", given={"sensed": SENSED})
        made = answer_of(writer.do(ask))
        if made["status"] == "settled":
            writer.do(Reward(who="app", received=BEGIN + clock.HOUR, decision=made["decision"], reward=0.5))
    fell: dict[str, Any] = {"text": "fell", "severity": "mild", "serious": False, "began": "today"}
    writer.do(ReportAdverse(who="staff", received=BEGIN + clock.HOUR, participant="P001", **fell))
    Alerts(database).raise_alert("yellow", "pacing", None, "spent faster than planned")
    assert first + b"".join(sent) == expected
    assert "".join(export(database, name)).encode() != expected, "the control"


def test_a_file_that_cannot_be_made_is_refused(sqlite: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before anything was sent: half a file that looks whole is worse than none."""
    writer = Writer(sqlite)
    launch(writer, study_text())

    def full(*_: Any) -> Any:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(exports, "cell", full)
    run_course(writer.write, people=1, steps=1)
    with pytest.raises(Refused, match="No space left on device") as refused:
        whole_file(sqlite, "decisions")
    assert refused.value.code == "unavailable"


def test_moments_that_were_past_are_told_apart(sqlite: Database) -> None:
    """A probability of 0 is there not the rule's: analysts leave them out."""
    writer = Writer(sqlite)
    launch(writer, study_text(policy="always", budget=60))
    writer.do(Enrol(who="staff", received=BEGIN, participant="P1"))
    later = (0, 1, 10 * clock.HOUR, 20 * clock.HOUR)
    kinds: tuple[dict[str, Any], ...] = ({}, {}, {}, {"shown": "walk"})
    for number, (late, kind) in enumerate(zip(later, kinds, strict=True)):
        moment, given = BEGIN + number * clock.HOUR, {"sensed": SENSED, **kind}
        writer.do(Propose(who="app", received=moment + late, at=moment, participant="P1", given=given))
    rows = table(sqlite, "decisions")
    assert [row["past"] for row in rows] == ["0", "0", "1", "1"]
    assert [row["nudge"] for row in rows] == ["1", "1", "0", "0"]


def test_probabilities_of_drawn_actions(sqlite: Database) -> None:
    """With a floor every row says how probable each action was, as it was put on record; the record verifies."""
    writer = Writer(sqlite)
    launch(writer, study_text().replace('kind = "PACE"\n', 'kind = "PACE"\nfloor = 0.1\n', 1))
    run_course(writer.write, people=3, steps=15)
    rows = [row for row in table(sqlite, "decisions") if row["action"] != ""]
    names = [name for name in rows[0] if name.startswith("action_probability_")]
    other = 0
    for row in rows:
        chances = [float(row[name]) for name in names]
        assert sum(chances) == pytest.approx(1.0)
        assert min(chances) == pytest.approx(0.1)
        assert row["action_probability"] == row[f"action_probability_{row['action']}"]
        other += row["action_probability"] != str(max(chances))
    assert other > 0
    assert verify(sqlite).findings == []
