"""The commands around planning: plan, calibrate and new, what they print and write, and what they refuse."""

import errno
import os
from pathlib import Path

import numpy as np
import pytest
import typer

from opportune.cli import main as cli
from opportune.cli import new as new_command
from opportune.study import load_study, parse_study
from opportune.study.needs import needs
from opportune.study.questions import QUESTIONS, answers
from opportune.study.starter import starter

QUICK = ["--replicates", "4", "--participants", "6"]


@pytest.fixture
def in_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    return tmp_path


def write_study(folder: Path) -> Path:
    path = folder / "my.toml"
    path.write_text(starter(answers({"days": "10", "budget": "4"})), encoding="utf-8")
    return path


def test_plan_ends_with_a_report_and_a_sentence(in_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The last lines are the report's path and the answer; parts are gone once it is there."""
    write_study(in_folder)
    assert cli.run(["plan", "my.toml", "--budgets", "0,3,6", "--target", "0.5", *QUICK]) == 0
    *_, report, said = capsys.readouterr().out.strip().splitlines()
    assert report == str(Path("out/my-study-plan.html"))
    assert "call" in said
    text = Path(report).read_text(encoding="utf-8")
    assert "opportune plan my.toml --out out --target 0.5 --replicates 4 --budgets 0,3,6 --participants 6" in text
    assert not (in_folder / "out" / ".parts").exists()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--budgets", "a,b"], "--budgets is 'a,b'; expected numbers separated by commas"),
        (["--budgets", "0,99"], "budgets is 99"),
        (["--target", "2"], "target is 2.0"),
        (["--device", "tpu"], "device is 'tpu'"),
        (["--jobs", "0"], "--jobs is 0"),
    ],
)
def test_plan_refuses_before_it_begins(
    in_folder: Path, capsys: pytest.CaptureFixture[str], options: list[str], message: str
) -> None:
    """Wrong use ends with code 2 and a sentence, and leaves nothing behind."""
    write_study(in_folder)
    assert cli.run(["plan", "my.toml", *options]) == 2
    assert message in capsys.readouterr().err
    assert not list(in_folder.rglob("*.html"))


def test_calibrate_writes_a_study_file(in_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The new file's path is the output; a file that is there is not written over; bad rows are named."""
    study = load_study(write_study(in_folder))
    rng = np.random.default_rng(1)
    lines = ["participant,step,stress,action,reward"]
    for i in range(300):
        stress, action = ["low", "high"][rng.integers(2)], ["rest", "walk"][rng.integers(2)]
        lines.append(f"P{i % 10},{i // 10 + 1},{stress},{action},{rng.normal():.4f}")
    (in_folder / "pilot.csv").write_text("\n".join(lines) + "\n")
    assert cli.run(["calibrate", "my.toml", "pilot.csv"]) == 0
    assert capsys.readouterr().out.strip() == "my-calibrated.toml"
    after = load_study("my-calibrated.toml")
    assert after.settings.reward.noise_sd == pytest.approx(1.0, abs=0.15)
    assert after.settings.serve == study.settings.serve
    assert cli.run(["calibrate", "my.toml", "pilot.csv"]) == 2
    assert "exists; expected another name with --out, or --force" in capsys.readouterr().err
    (in_folder / "pilot.csv").write_text("\n".join([*lines, "P1,99,medium,rest,1"]) + "\n")
    assert cli.run(["calibrate", "my.toml", "pilot.csv", "--force"]) == 2
    assert "pilot.csv, line 302: stress is 'medium'; expected one of low, high" in capsys.readouterr().err
    assert cli.run(["calibrate", "my.toml", "pilot.csv", "--force", "--skip-bad-rows"]) == 0
    assert "line 302: left out: stress is 'medium'" in capsys.readouterr().err


def test_new_writes_a_file_that_is_ready(in_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Without questions: what is given is in the file, the rest as proposed, and every command is ready."""
    options = ["--actions", "rest, walk, call a friend", "--reported", "mood", "--nudge", "text", "--days", "30"]
    assert cli.run(["new", "my.toml", "--yes", *options]) == 0
    assert capsys.readouterr().out.strip() == "my.toml"
    study = load_study("my.toml")
    assert study.settings.study.actions == ["rest", "walk", "call a friend"]
    assert (study.settings.study.horizon, study.settings.nudge.name) == (60, "text")
    assert all(not one.lacks for one in needs(study))
    assert cli.run(["new", "my.toml", "--yes"]) == 2
    assert "my.toml exists" in capsys.readouterr().err


def test_new_asks(in_folder: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    """At a terminal each question has a proposal, and the answers end up in the file."""
    said = {
        QUESTIONS["per_day"].text: ["0", "three", "3"],  # asked again until it is right
        QUESTIONS["times"].text: ["09:00, 12:00", "09:00, 12:00, 18:00"],
        QUESTIONS["sensed"].text: ["stress", "sleep", ""],
        QUESTIONS["reported"].text: ["mood", ""],
        QUESTIONS["hours"].text: ["9 to 5", "09:00-17:00"],
        QUESTIONS["quiet"].text: ["20:00-08:00"],
        QUESTIONS["forbidden"].text: ["rest", "walk"],
    }
    asked: list[str] = []

    def answer(question: str, *, default: object, **_: object) -> object:
        asked.append(question)
        return said[question].pop(0) if said.get(question) else default

    monkeypatch.setattr(new_command, "_asking", lambda: True)
    monkeypatch.setattr(typer, "prompt", answer)
    assert cli.run(["new", "asked.toml", "--days", "20"]) == 0
    study = load_study("asked.toml")
    settings = study.settings
    assert (settings.study.horizon, settings.variables["mood"].question) == (60, "How is your mood?")
    assert list(settings.variables) == ["stress", "sleep", "mood"]
    assert settings.schedule.times == ["09:00", "12:00", "18:00"]
    assert settings.staff.hours is not None
    assert settings.staff.hours.weekdays == ["09:00", "17:00"]
    assert settings.nudge.quiet == ["20:00", "08:00"]
    assert settings.actions["walk"].never_if == 'stress == "high"'
    assert (settings.probabilities.actions, settings.serve.fallback) == (0.1, "rest")
    assert QUESTIONS["days"].text not in asked  # it was given
    assert asked.count(QUESTIONS["per_day"].text) == 3
    assert "per_day is 'three'; expected a whole number from 1 to 96" in capsys.readouterr().err
    assert all(not one.lacks for one in needs(study))


@pytest.mark.usefixtures("in_folder")
def test_new_without_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    """A dash answers that nothing is sensed, where Enter takes the proposal; no condition is then asked for."""
    said = {QUESTIONS["sensed"].text: "-"}
    asked: list[str] = []

    def answer(question: str, *, default: object, **_: object) -> object:
        asked.append(question)
        return said.get(question, default)

    monkeypatch.setattr(new_command, "_asking", lambda: True)
    monkeypatch.setattr(typer, "prompt", answer)
    assert cli.run(["new", "asked.toml"]) == 0
    assert QUESTIONS["forbidden"].text not in asked
    study = load_study("asked.toml")
    assert list(study.settings.variables) == ["time"]
    assert all(not one.lacks for one in needs(study))


def test_new_without_a_terminal(
    in_folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where nobody can answer, it says how to do without questions; wrong answers are refused."""
    monkeypatch.setattr(new_command, "_asking", lambda: False)
    assert cli.run(["new", "my.toml"]) == 2
    assert "there is no terminal to ask questions in; expected --yes" in capsys.readouterr().err
    for wrong in (
        ["--actions", "rest"],
        ["--budget", "9999"],
        ["--sensed", "two words"],
        ["--nudge", "a\n[study]"],
        ["--timezone", "Mars/Base"],
        ["--times", "09:00"],
        ["--hours", "17:00-09:00"],
        ["--forbidden", "rest"],
        ["--floor", "0.6"],
        ["--sensed-levels", "a, b", "--sensed-levels", "c, d"],
    ):
        assert cli.run(["new", "my.toml", "--yes", *wrong]) == 2, wrong
        assert not (in_folder / "my.toml").exists()


@pytest.mark.parametrize("word", ['quo"te', "ba\\ck", "ümlaut"])
def test_starters_quote_what_people_write(word: str) -> None:
    """Any word that a person may type for a unit or an action's name is kept as it is."""
    study = parse_study(starter(answers({"unit": word})))
    assert study.settings.reward.unit == word


def test_a_file_that_cannot_be_written_is_named_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """A disk that is full leaves no half study file behind; with room, the control, it is whole."""
    target = tmp_path / "study.toml"

    def full(_: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        assert cli.run(["new", str(target), "--yes"]) == 1
    said = capsys.readouterr().err
    assert str(target) in said
    assert "Traceback" not in said
    assert list(tmp_path.iterdir()) == []
    assert cli.run(["new", str(target), "--yes"]) == 0
    assert target.read_text(encoding="utf-8").endswith("\n")


@pytest.mark.cluster
def test_workers_elsewhere_give_the_same_plan(in_folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The same command with the worker processes of a Dask cluster gives the same tables, byte for byte."""
    distributed = pytest.importorskip("distributed")
    write_study(in_folder)
    command = ["plan", "my.toml", "--budgets", "0,3,6", "--target", "0.5", *QUICK]
    assert cli.run([*command, "--out", "here"]) == 0
    with distributed.LocalCluster(
        n_workers=2, threads_per_worker=1, memory_limit="1GiB", dashboard_address=":0", silence_logs=50
    ) as servers:
        address = servers.scheduler_address.replace("tcp://", "dask://")
        assert cli.run([*command, "--out", "there", "--cluster", address]) == 0
    said = [line for line in capsys.readouterr().out.splitlines() if "call" in line and ".html" not in line]
    assert len(said) == 2
    assert len(set(said)) == 1
    tables = sorted((in_folder / "here").glob("*.csv"))
    assert len(tables) > 10
    for table in tables:
        assert (in_folder / "there" / table.name).read_bytes() == table.read_bytes(), table.name
