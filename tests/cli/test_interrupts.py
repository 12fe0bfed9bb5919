"""Ctrl-C, for real: commands end soon and leave nothing behind; what is partial is never taken for whole."""

import json
import os
import signal
import sys
import time
from pathlib import Path

import pytest

from opportune.analysis.results import load
from opportune.cli import interrupts
from opportune.files import LOCK, held
from processes import COMMAND, STUDY, Started, needs_linux

SOON = 4.0  # seconds, on a busy machine
AT_ONCE = 1.5
EXPERIMENTS = ("reproduce", "opens", "pace", "--quick", "--out", "out")
KEPT = "opportune: interrupted: finished parts are kept in out; the same command resumes there"

LONG = (
    STUDY.replace('name = "tiny"', 'name = "long"')
    .replace("horizon = 100", "horizon = 1000\ntrace = false")
    .replace("budgets = [4]", "budgets = [40]")
)
"""A study that goes on for as long as it has replicates."""


def long_study(replicates: int) -> str:
    return LONG.replace("replicates = 40", f"replicates = {replicates}")


pytestmark = needs_linux


def started(folder: Path, *arguments: str, hearing: bool = True, **environment: str) -> Started:
    return Started(COMMAND, *arguments, cwd=folder, hearing=hearing, **environment)


def result(path: Path) -> dict[str, object]:
    """What an experiment's file says, without times."""
    content: dict[str, object] = json.loads(path.read_text(encoding="utf-8"))
    return {key: content[key] for key in ("config", "numbers", "claims", "tables")}


@pytest.fixture(scope="module")
def control(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The results of a run that nobody interrupted."""
    folder = tmp_path_factory.mktemp("control")
    with started(folder, *EXPERIMENTS) as command:
        assert command.ended(120) == 0, command.said()
    return folder / "out"


@pytest.mark.parametrize("when", ["in a task", "while results are written"])
def test_an_interrupted_reproduction_ends_soon_and_goes_on(when: str, tmp_path: Path, control: Path) -> None:
    """Code 130, one line that says what is kept, no process left; the next run has the results of one that was not."""
    out = tmp_path / "out"
    with started(tmp_path, *EXPERIMENTS) as command:
        command.until((out / LOCK).exists)
        if when == "while results are written":
            command.until(lambda: any(out.glob("opens.*")))
        command.interrupt()
        assert command.ended(SOON) == 130
        assert command.said()[-1] == KEPT
        assert not any("Traceback" in line for line in command.said())
    finished = {path.stem for path in out.glob("*.json")}
    assert "pace" not in finished
    assert not list(out.rglob("*.part"))
    with started(tmp_path, *EXPERIMENTS) as again:
        assert again.ended(120) == 0
        assert {line.split(":")[0] for line in again.said() if "finished before, kept" in line} == finished
    for name in ("opens.json", "pace.json"):
        assert result(out / name) == result(control / name)


@pytest.mark.parametrize(("when", "pause"), [("task", 0.0), ("task", 0.05), ("task", 0.3), ("writing", 0.05)])
def test_the_second_ctrl_c_ends_everything_at_once(when: str, pause: float, tmp_path: Path) -> None:
    """Whatever the first one was waiting for, the process ends."""
    out = tmp_path / "out"
    with started(tmp_path, *EXPERIMENTS) as command:
        command.until((out / LOCK).exists)
        if when == "writing":
            command.until(lambda: any(out.glob("opens.*")))
        command.interrupt()
        time.sleep(pause)
        command.interrupt()
        assert command.ended(AT_ONCE) == 130
        assert command.said()[-1] == KEPT
    assert not (out / "pace.json").exists()


def test_a_lock_does_not_outlive_a_killed_reproduction(tmp_path: Path) -> None:
    """The folder is free as soon as the process that held it is gone."""
    out = tmp_path / "out"
    with started(tmp_path, *EXPERIMENTS) as command:
        command.until((out / LOCK).exists)
        os.kill(command.process.pid, signal.SIGKILL)
        assert command.ended(SOON) == -signal.SIGKILL
    with held(out):
        pass


def test_an_interrupted_study_keeps_what_is_finished_under_another_name(tmp_path: Path) -> None:
    """Code 130; the finished replicates are in NAME.interrupted.nc, and the files of before are left alone."""
    study = tmp_path / "long.toml"
    study.write_text(long_study(20), encoding="utf-8")
    with started(tmp_path, "simulate", "long.toml") as control:
        assert control.process.wait(timeout=120) == 0
    before = {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()}
    assert "long.nc" in before
    study.write_text(long_study(3_000_000), encoding="utf-8")
    with started(tmp_path, "simulate", "long.toml") as command:
        command.until((tmp_path / "out" / LOCK).exists)
        time.sleep(2.0)
        command.interrupt()
        assert command.ended(2 * SOON) == 130
        assert "replicates were finished and are kept in out/long.interrupted.nc" in command.said()[-1]
    kept = load(tmp_path / "out" / "long.interrupted.nc")
    assert kept.attrs["interrupted"] == 1
    assert 0 < kept.sizes["replicate"] < 3_000_000
    (tmp_path / "out" / "long.interrupted.nc").unlink()
    assert {path.name: path.read_bytes() for path in (tmp_path / "out").iterdir()} == before


@pytest.mark.parametrize("times", [1, 2])
def test_processes_of_a_local_cluster_end_too(times: int, tmp_path: Path) -> None:
    """With --cluster local, Ctrl-C once or twice ends the command and all of its workers."""
    pytest.importorskip("joblib")
    (tmp_path / "long.toml").write_text(long_study(3_000_000), encoding="utf-8")
    with started(tmp_path, "simulate", "long.toml", "--cluster", "local") as command:
        command.until(lambda: len(command.alive()) >= 4)  # workers, and what looks after them
        time.sleep(1.0)
        for _ in range(times):
            command.interrupt()
            time.sleep(0.05)
        assert command.ended(2 * SOON) == 130
        assert command.said()[-1].startswith("opportune: interrupted: ")


def test_ctrl_c_is_heard_during_the_first_compilation(tmp_path: Path) -> None:
    """With nothing compiled yet, the command ends as soon, not when all is compiled."""
    (tmp_path / "long.toml").write_text(long_study(20), encoding="utf-8")
    with started(tmp_path, "simulate", "long.toml", OPPORTUNE_CACHE_DIR=str(tmp_path / "cache")) as command:
        command.until((tmp_path / "out" / LOCK).exists)
        time.sleep(2.0)
        command.interrupt()
        assert command.ended(SOON) == 130
        assert command.said()[-1] == "opportune: interrupted: no replicate was finished, and nothing was written"


def test_a_command_that_was_told_to_ignore_ctrl_c_does(tmp_path: Path) -> None:
    """Started with SIGINT ignored, as by nohup, a command goes on to its end."""
    (tmp_path / "long.toml").write_text(long_study(20), encoding="utf-8")
    ignoring = "import signal; signal.signal(signal.SIGINT, signal.SIG_IGN)\n"
    with Started(ignoring + COMMAND, "simulate", "long.toml", cwd=tmp_path, hearing=False) as command:
        command.until((tmp_path / "out" / LOCK).exists)
        command.interrupt()
        assert command.ended(120) == 0
    assert (tmp_path / "out" / "long.nc").is_file()


def test_ctrl_c_is_not_lost_where_llvm_calls_python(monkeypatch: pytest.MonkeyPatch) -> None:
    """What is raised there would be printed and forgotten: it is tried again a moment later; elsewhere it is raised."""
    sent: list[tuple[int, int]] = []
    monkeypatch.setattr(os, "kill", lambda *given: sent.append(given))
    listener, there = interrupts._Listener(), {"__name__": interrupts.LLVM}
    exec("import sys\ndef called_back(hear): hear(2, sys._getframe())", there)
    there["called_back"](listener.hear)  # type: ignore[operator]
    end = time.monotonic() + 10.0
    while not sent and time.monotonic() < end:
        time.sleep(0.01)
    assert sent == [(os.getpid(), signal.SIGINT)]
    with pytest.raises(KeyboardInterrupt):
        listener.hear(2, sys._getframe())
    listener.answered()
