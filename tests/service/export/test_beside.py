"""What an export has besides the record's own tables: calls, the budget, scripts that read it, and files for REDCap."""

import csv
import io
import re
import shutil
import subprocess
from pathlib import Path

import pandas as pd
import pytest
from course import BEGIN, answer_of, launch, run_course
from signed import sign
from study_text import study_text

from opportune.cli.main import run
from opportune.service.commands.decisions import Propose
from opportune.service.commands.participants import Enrol
from opportune.service.export.beside import beside
from opportune.service.export.exports import NAMES, dictionary, export
from opportune.service.export.redcap import HEADER, files
from opportune.service.record.database import Database
from opportune.service.record.study_file import published
from opportune.service.record.writer import Writer
from opportune.study import parse_study
from opportune.trial.export import read_export
from opportune.trial.run import analyse


@pytest.fixture
def played(sqlite: Database) -> Database:
    writer = Writer(sqlite)
    launch(writer, study_text())
    run_course(writer.write, people=4, steps=15)
    return sqlite


def table(database: Database, name: str) -> pd.DataFrame:
    """An export, as a program reads it."""
    return pd.read_csv(io.StringIO("".join(export(database, name))), dtype={"participant": str})


def test_every_nudge_is_a_call(played: Database) -> None:
    """calls.csv has the nudges of nudges.csv, each with what became of it, and no name of a person."""
    calls, nudges = table(played, "calls"), table(played, "nudges")
    assert sorted(calls["decision"]) == sorted(nudges["decision"])
    waiting = calls["outcome"] == "waiting"
    assert (calls.loc[~waiting, "minutes_until_done"] >= 0.0).all()
    assert set(calls["outcome"]) <= {"reached", "unreachable", "declined", "opened", "answered", "nothing", "waiting"}
    answered = nudges.set_index("decision")["answered"] == 1
    said = calls.set_index("decision")["outcome"].isin({"reached", "answered"})
    assert said[answered[answered].index].all()


def test_the_budget_adds_up(played: Database) -> None:
    """budget.csv counts every decision and nudge once, and what was planned grows with the decisions."""
    days, decisions = table(played, "budget"), table(played, "decisions")
    assert days["decisions"].sum() == len(decisions)
    assert days["nudges"].sum() == decisions["nudge"].sum()
    assert days["nudges_so_far"].tolist() == days["nudges"].cumsum().tolist()
    assert days["planned_so_far"].is_monotonic_increasing


def test_the_budget_of_arms_without_nudges_is_not_planned(sqlite: Database) -> None:
    """Where half of the participants are never nudged, half as much is planned as where all may be."""
    writer = Writer(sqlite)
    arms = "\n[arms]\ncalls = { share = 1 }\nusual = { share = 1, policy = 'never' }\nblock = 2\n"
    launch(writer, study_text() + arms)
    run_course(writer.write, people=4, steps=15)
    days, decisions = table(sqlite, "budget"), table(sqlite, "decisions")
    assert decisions["arm"].value_counts().to_dict() == {"calls": 30, "usual": 30}
    assert days["planned_so_far"].iloc[-1] == pytest.approx(30 * 20 / 200)  # a budget of 20 over 200 decisions


def test_scripts_name_every_column(played: Database) -> None:
    """The scripts for R and Stata read every file and label every column; the study file goes along."""
    made = beside(played)
    for name, columns in dictionary(played)["files"].items():
        assert f"labelled('{name}'" in made["read.R"]
        assert f'import delimited using "{name}"' in made["read.do"]
        for column in columns:
            assert f"'{column['column']}' = " in made["read.R"]
            assert re.search(rf"label variable {re.escape(column['column'][:32])} ", made["read.do"])
    assert made["read.R"].count("(") == made["read.R"].count(")") or "(" in "".join(
        column["meaning"] for columns in dictionary(played)["files"].values() for column in columns
    )
    assert parse_study(made["study.toml"]).name == parse_study(study_text()).name


@pytest.mark.skipif(shutil.which("Rscript") is None, reason="R is not installed")
def test_r_reads_every_file_with_labels(played: Database, tmp_path: Path) -> None:
    """The script runs in R: every table has all its rows, every column its label, and times are times."""
    for name, text in beside(played).items():
        (tmp_path / name).write_text(text, encoding="utf-8")
    for name in NAMES:
        (tmp_path / f"{name}.csv").write_bytes("".join(export(played, name)).encode())
    names = ", ".join(f"'{name}'" for name in NAMES)
    asked = f"""source("read.R")
for (name in c({names})) {{
  d <- get(name)
  bare <- sum(sapply(d, function(x) is.null(attr(x, "label"))))
  cat(name, nrow(d), ncol(d), bare, fill = TRUE)
}}
cat(class(decisions$time_utc)[1], class(decisions$nudge), fill = TRUE)
"""
    (tmp_path / "ask.R").write_text(asked, encoding="utf-8")
    said = subprocess.run(["Rscript", "ask.R"], cwd=tmp_path, capture_output=True, text=True, check=True).stdout
    *tables, types = said.splitlines()
    for name, line in zip(NAMES, tables, strict=True):
        rows = list(csv.reader(io.StringIO("".join(export(played, name)))))
        assert line.split() == [name, str(len(rows) - 1), str(len(rows[0])), "0"]
    assert types.split() == ["POSIXct", "integer"]


def test_a_webhook_is_not_exported() -> None:
    """Whoever has the address could send what looks like an alert."""
    text = '[serve]\nsilent_hours = 24\nwebhook = "https://hooks.example/secret"\n'
    assert "secret" not in published(text)
    assert "silent_hours = 24" in published(text)


def test_redcap_can_import_it(played: Database) -> None:
    """Names are REDCap's and occur once; every field of the files is in the dictionary; decisions repeat by step."""
    found = {name: list(csv.reader(io.StringIO("".join(texts), newline=""))) for name, texts in files(played)}
    fields = found["dictionary.csv"]
    assert tuple(fields[0]) == HEADER
    names = [row[0] for row in fields[1:]]
    assert len(set(names)) == len(names)
    assert all(re.fullmatch(r"[a-z][a-z0-9_]*", name) for name in names)
    assert names[0] == "record_id"
    for form in ("participants", "decisions"):
        header, *rows = found[f"{form}.csv"]
        assert set(header) - {"redcap_repeat_instrument", "redcap_repeat_instance"} <= set(names)
        assert all(len(row) == len(header) for row in rows)
    decisions = found["decisions.csv"]
    assert len({(row[0], row[2]) for row in decisions[1:]}) == len(decisions) - 1
    at = decisions[0].index("d_time_utc")
    assert all(re.fullmatch(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d", row[at]) for row in decisions[1:])


def test_an_export_can_be_analysed(played: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The folder that `opportune export` writes is what `opportune analyse` reads; nothing was randomised."""
    sign(played, monkeypatch)
    assert run(["export", str(tmp_path / "export"), "--db", played.url, "--redcap"]) == 0
    assert (tmp_path / "export" / "redcap" / "dictionary.csv").is_file()
    record = read_export(tmp_path / "export")
    assert record.study is not None
    assert record.participants.shape[0] == 4
    found = analyse(record, policies=False)
    assert found.primary.estimates is None
    assert "never left to chance" in found.primary.why


def test_a_board_gets_its_report_and_unblinding_goes_on_record(
    played: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An analyst makes the blinded report, but not the unblinded one; an admin does, and the record says who."""
    sign(played, monkeypatch, name="statistician", role="analyst")
    assert run(["monitor", "--db", played.url, "--out", str(tmp_path)]) == 0
    assert len(list(tmp_path.glob("*-monitoring-*.html"))) == 1
    assert run(["monitor", "--db", played.url, "--out", str(tmp_path), "--unblinded"]) == 2
    assert not list(tmp_path.glob("*-unblinded.html"))
    sign(played, monkeypatch)
    assert run(["monitor", "--db", played.url, "--out", str(tmp_path), "--unblinded"]) == 0
    assert len(list(tmp_path.glob("*-unblinded.html"))) == 1
    said = table(played, "events")["given"].str.extract(r'"what":"([^"]+)"')[0].dropna().tolist()
    assert [text for text in said if "monitoring" in text] == ["monitoring", "unblinded monitoring"]


def test_a_database_is_analysed(played: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Straight from the database, by an account that may read it; the control: nobody in particular may not."""
    monkeypatch.delenv("OPPORTUNE_KEY", raising=False)
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    assert run(["analyse", "--db", played.url, "--out", str(tmp_path), "--no-policies"]) == 2
    sign(played, monkeypatch, name="statistician", role="analyst")
    assert run(["analyse", "--db", played.url, "--out", str(tmp_path), "--no-policies"]) == 0
    assert list(tmp_path.glob("*-analysis.html"))


def test_arms_baseline_and_eligibility_are_columns(sqlite: Database) -> None:
    """Arm and baseline are in participants.csv, the arm in every decision too, and why no nudge was possible."""
    arms = "[arms]\nnudges = { share = 1 }\ncontrol = { share = 1, policy = 'never' }\nblock = 2\n"
    baseline = '[participants]\nbaseline = { site = ["A", "B"], age = [18, 90] }\n'
    writer = Writer(sqlite)
    launch(writer, study_text(extra=arms).replace("[participants]\n", baseline))
    for number in range(4):
        known = {"site": "AB"[number % 2], "age": 40 + number}
        writer.do(Enrol(who="staff", received=BEGIN, participant=f"P{number}", baseline=known))
        sensed = {"time_of_day": "morning", "stress": 1, "sleep": "good"}
        answer_of(writer.do(Propose(who="app", received=BEGIN, participant=f"P{number}", given={"sensed": sensed})))
    people, decisions = table(sqlite, "participants"), table(sqlite, "decisions")
    assert sorted(people["arm"]) == ["control", "control", "nudges", "nudges"]
    assert people["site"].tolist() == ["A", "B", "A", "B"]
    assert people["age"].tolist() == [40, 41, 42, 43]
    assert decisions.set_index("participant")["arm"].to_dict() == people.set_index("participant")["arm"].to_dict()
    control = decisions[decisions["arm"] == "control"]
    assert (control["eligible"] == 0).all()
    assert (control["ineligible_reason"] == "arm").all()
    assert (decisions.loc[decisions["arm"] == "nudges", "eligible"] == 1).all()
