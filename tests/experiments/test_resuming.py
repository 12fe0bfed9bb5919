"""What earlier runs left: kept while it is undamaged and the code is the same, else named and run again."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import xarray as xr

from opportune.analysis import parts
from opportune.analysis.parts import Parts
from opportune.engine.compiled import PACKAGE
from opportune.errors import DataError, StateError
from opportune.experiments import opens, record, runner, table, writing
from opportune.experiments.base import Config
from opportune.experiments.record import read_record
from opportune.report.page import write_report

SMALL: dict[Any, Config] = {
    table: {"instances": 2, "sequences": 2, "horizon": 20, "budgets": [2, 4]},
    opens: {"instances": 2, "replications": 2, "horizon": 20, "budget": 4, "open_rates": [0.0, 0.5]},
}


@pytest.fixture
def ran(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Experiments made small; notes which tasks are run."""
    tasks: list[str] = []
    for module, config in SMALL.items():

        def run_task(config: Config, task: str, seed: int, module: Any = module) -> xr.Dataset:
            tasks.append(f"{module.EXPERIMENT.name} {task}")
            data: xr.Dataset = module.run_task(config, task, seed)
            return data

        changed = replace(module.EXPERIMENT, config=lambda _, config=config: {**config}, run_task=run_task)
        monkeypatch.setattr(module, "EXPERIMENT", changed)
    return tasks


def reproduce(out: Path) -> None:
    runner.reproduce(["table"], out=out)


def flip(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def empty(path: Path) -> None:
    path.write_bytes(b"")


def another(path: Path) -> None:
    """Another experiment's file, whole and with a checksum that fits."""
    path.write_bytes((path.parent.parent / "other" / path.name.replace("table", "opens")).read_bytes())


def edit(path: Path) -> None:
    """A number changed by hand."""
    content = json.loads(path.read_text(encoding="utf-8"))
    content["numbers"] = {"ratio": 1.0}
    path.write_text(json.dumps(content), encoding="utf-8")


@pytest.mark.parametrize(
    ("name", "damage", "message"),
    [
        ("table.nc", flip, "table.nc is damaged: it does not match its checksum"),
        ("table.nc", cut, "table.nc is damaged: it does not match its checksum"),
        ("table.nc", empty, "table.nc is damaged: it does not match its checksum"),
        ("table.nc", another, "table.nc is damaged: it does not match its checksum"),
        ("table.nc", Path.unlink, "table.nc is missing"),
        ("table.png", flip, "table.png is damaged: it does not match its checksum"),
        ("table.svg", cut, "table.svg is damaged: it does not match its checksum"),
        ("table.svg", Path.unlink, "table.svg is missing"),
        ("table.json", cut, "table.json is damaged: it cannot be read as JSON"),
        ("table.json", empty, "table.json is damaged: it cannot be read as JSON"),
        ("table.json", edit, "table.json is damaged or was changed: it does not match its checksum"),
    ],
)
def test_damaged_results_are_named_and_run_again(
    name: str, damage: Callable[[Path], None], message: str, tmp_path: Path, ran: list[str],
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """Undamaged they are kept, the control; damaged, one line says which file, and the run makes it as it was."""
    out = tmp_path / "out"
    if damage is another:
        runner.reproduce(["opens"], out=tmp_path / "other")
    reproduce(out)
    first = ran.copy()
    reproduce(out)
    assert ran == first
    assert "table: finished before, kept" in capsys.readouterr().err
    before = (out / name).read_bytes()
    damage(out / name)
    reproduce(out)
    told = capsys.readouterr().err
    assert f"table: run again ({out}/{message}" in told
    assert "kept" not in told
    assert len(ran) > len(first)
    assert json.loads((out / "table.json").read_text(encoding="utf-8"))["numbers"] != {"ratio": 1.0}
    if name != "table.json":
        assert (out / name).read_bytes() == before


def test_an_edit_of_the_code_runs_everything_again(
    tmp_path: Path, ran: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Finished experiments and tasks that other sources made do not count; the version need not have changed."""
    reproduce(tmp_path)
    count = len(ran)
    monkeypatch.setattr(runner, "write", lambda *_, **__: pytest.fail("stop here"))
    with pytest.raises(pytest.fail.Exception):
        runner.reproduce(["opens"], out=tmp_path)
    kept = list(tmp_path.glob(".parts/opens-*/*.nc"))
    assert len(ran) - count == len(kept) > 0
    with pytest.raises(pytest.fail.Exception):  # the control: parts of the same code are taken
        runner.reproduce(["opens"], out=tmp_path)
    assert len(ran) - count == len(kept)
    monkeypatch.undo()
    monkeypatch.setattr(table, "EXPERIMENT", replace(table.EXPERIMENT, config=lambda _: SMALL[table]))
    for module in (parts, record, writing):
        monkeypatch.setattr(module, "source_hash", lambda: "another")
    assert not Parts(tmp_path, "opens", {**SMALL[opens], "quick": False, "seed": 1}).folder.exists()
    capsys.readouterr()
    reproduce(tmp_path)
    assert "table: run again (existing results come from another version of the code)" in capsys.readouterr().err
    record_now = read_record(tmp_path / "table.json")
    assert record_now is not None
    assert record_now.code == "another"


@pytest.mark.parametrize(
    ("file", "matters"),
    [
        ("algorithm/reveal.py", True), ("analysis/metrics.py", True), ("experiments/table.py", True),
        ("policy.py", True),
        ("worlds/brushing/users.json", True), ("report/page.py", False), ("cli/main.py", False),
        ("algorithm/__pycache__/x.pyc", False),
    ],
)  # fmt: skip
def test_the_code_is_all_that_results_depend_on(
    file: str, matters: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Algorithms, analysis, experiments and the data in the package; not the report nor the command line."""
    monkeypatch.setattr(parts, "PACKAGE", tmp_path)
    path = tmp_path / file
    path.parent.mkdir(parents=True, exist_ok=True)
    hashes = []
    for content in ("before", "before", "after"):
        path.write_text(content, encoding="utf-8")
        parts.source_hash.cache_clear()
        hashes.append(parts.source_hash())
    parts.source_hash.cache_clear()
    assert hashes[0] == hashes[1]
    assert (hashes[2] != hashes[0]) == matters
    assert tmp_path != PACKAGE


@pytest.mark.parametrize("damage", [flip, cut, empty])
def test_damaged_parts_are_named_and_run_again(
    damage: Callable[[Path], None], tmp_path: Path, ran: list[str], monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:  # fmt: skip
    """Of an interrupted run's tasks, those that are undamaged are kept, and the others run."""
    with monkeypatch.context() as patch:
        patch.setattr(runner, "write", lambda *_, **__: pytest.fail("stop here"))
        with pytest.raises(pytest.fail.Exception):
            reproduce(tmp_path)
    tasks = ran.copy()
    broken, *_ = sorted(tmp_path.glob(".parts/table-*/*.nc"))
    damage(broken)
    reproduce(tmp_path)
    assert ran[len(tasks) :] == [f"table {broken.stem}"]
    assert f"table: {broken.stem} is run again ({broken} " in capsys.readouterr().err


def test_a_part_under_another_name_is_not_taken(tmp_path: Path) -> None:
    """A task's file that holds another task's results, whole as it is, is refused."""
    kept = Parts(tmp_path, "table", SMALL[table])
    data = xr.Dataset({"x": ("t", [1.0])})
    kept.save("B2", data)
    again = kept.load("B2")
    assert again is not None
    xr.testing.assert_equal(again, data)
    (kept.folder / "B2.nc").rename(kept.folder / "B4.nc")
    assert kept.load("B2") is None
    with pytest.raises(DataError, match=r"B4\.nc holds the results of another task; expected those of B4$"):
        kept.load("B4")


def test_nothing_interrupted_is_stored_as_finished(
    tmp_path: Path, ran: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A task that gives only some of its runs ends the command; nothing of it is written."""
    changed = replace(
        table.EXPERIMENT,
        run_task=lambda config, task, seed: table.run_task(config, task, seed).assign_attrs(interrupted=1),
    )
    monkeypatch.setattr(table, "EXPERIMENT", changed)
    with pytest.raises(StateError, match=r"^B2 was interrupted; expected a complete result$"):
        reproduce(tmp_path)
    assert list(tmp_path.iterdir()) == []
    assert ran == []


def test_the_report_does_not_show_damaged_results(tmp_path: Path, ran: list[str]) -> None:
    """A result or figure that does not fit its checksum is named; the undamaged folder, the control, gives a page."""
    reproduce(tmp_path)
    assert ran
    assert write_report(tmp_path).is_file()
    for name in ("table.svg", "table.png"):
        before = (tmp_path / name).read_bytes()
        flip(tmp_path / name)
        with pytest.raises(DataError, match=f"{name} is damaged: it does not match its checksum"):
            write_report(tmp_path)
        (tmp_path / name).write_bytes(before)
    edit(tmp_path / "table.json")
    with pytest.raises(DataError, match=r"table\.json is damaged or was changed"):
        write_report(tmp_path)
