"""Running experiments: the same files whichever process runs them, errors, resuming, what is in NAME.nc."""

import json
import re
import time
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numba
import pytest
import xarray as xr
from matplotlib.text import Text

import opportune as op
from opportune.errors import WriteError
from opportune.experiments import (
    NAMES,
    beside,
    decomposition,
    kept,
    opens,
    partial,
    recommenders,
    record,
    regret,
    regret_unknown,
    reveal,
    runner,
    running,
    table,
)
from opportune.experiments.base import Config
from opportune.experiments.beside import Beside
from opportune.experiments.course import chains
from opportune.experiments.found import combine

SMALL: dict[Any, Config] = {
    table: {"instances": 2, "sequences": 2, "horizon": 20, "budgets": [2, 4]},
    decomposition: {"instances": 2, "replications": 2, "horizons": [20, 40], "budgets": [2, 3], "scale": "adaptive"},
    regret: {"instances": 3, "replications": 2, "horizon": 20, "budgets": [2, 4], "known": True},
    regret_unknown: {
        "instances": 3, "replications": 2, "horizon": 20, "budgets": [2, 4], "known": False, "optimistic_instances": 2,
        "optimistic_replications": 2,
    },
    recommenders: {"instances": 3, "replications": 2, "horizon": 20, "budgets": [2, 4], "inflations": [1, 3]},
    reveal: {"instances": 3, "replications": 2, "horizon": 20, "budgets": [2, 4], "known": True},
    partial: {"instances": 2, "replications": 2, "horizon": 20, "budget": 4, "actions": 5, "reported": [0, 3]},
    opens: {"instances": 2, "replications": 2, "horizon": 20, "budget": 4, "open_rates": [0.0, 0.5]},
}  # fmt: skip
NAMES_OF = {module: module.EXPERIMENT.name for module in SMALL}


@pytest.fixture(autouse=True)
def _small(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Experiments made small; and as many threads afterwards as before."""
    for module, config in SMALL.items():
        small = {**config}
        monkeypatch.setattr(module, "EXPERIMENT", replace(module.EXPERIMENT, config=lambda _, small=small: small))
    threads = numba.get_num_threads()
    yield
    numba.set_num_threads(threads)


def files(folder: Path) -> dict[str, bytes]:
    """All files but the report, without times."""
    found = {}
    for path in folder.iterdir():
        content = path.read_bytes()
        if path.suffix == ".json":
            result = json.loads(content)
            content = json.dumps(
                {k: v for k, v in result.items() if k not in {"seconds", "finished", "checksum"}}
            ).encode()
        if path.suffix in {".json", ".png", ".svg"}:
            found[path.name] = content
    return found


def wait_until(so: Callable[[], bool]) -> None:
    end = time.monotonic() + 60
    while not so():
        assert time.monotonic() < end
        time.sleep(0.01)


def test_a_second_process_leaves_the_same_files(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Figures and results are the same, byte for byte, whether one process runs and writes them or two."""
    numba.set_num_threads(2)
    names = ["table", "decomposition", "opens"]
    runner.reproduce(names, out=tmp_path / "two")
    told = capsys.readouterr().err
    assert all(f"{name}: done in" in told for name in names)
    runner.reproduce(names, out=tmp_path / "one", jobs=1)
    assert numba.get_num_threads() == 2  # as before
    assert len(files(tmp_path / "one")) == 9
    assert files(tmp_path / "two") == files(tmp_path / "one")
    assert not (tmp_path / "two" / ".parts").exists()


@pytest.mark.parametrize("wrong", ["table", "decomposition"])
def test_errors_of_either_process_surface(wrong: str, tmp_path: Path) -> None:
    """What goes wrong while an experiment is written ends the run, and it does not count as finished."""
    numba.set_num_threads(2)
    (tmp_path / f"{wrong}.nc").mkdir()
    with pytest.raises(WriteError, match=rf"{wrong}\.nc cannot be written: Is a directory$"):
        runner.reproduce(["table", "decomposition"], out=tmp_path)
    assert not (tmp_path / f"{wrong}.json").exists()


@pytest.mark.parametrize("calls", [0, 1, 3])
def test_what_a_lost_process_had_not_written_is_run_here(
    calls: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Killed before its first task, between two tasks or after what it wrote: all is there in the end."""
    numba.set_num_threads(2)
    begun: list[str] = []

    class Lost(Beside):
        """Killed after so many calls."""

        def call(self, argument: Any) -> Any:
            begun.append(argument.name)
            if len(begun) > calls:
                self.end()
            return super().call(argument)

    whole = runner.reproduce(["table", "decomposition", "opens"], out=tmp_path / "whole", jobs=1).parent
    monkeypatch.setattr(beside, "Beside", Lost)
    out = runner.reproduce(["table", "decomposition", "opens"], out=tmp_path / "out").parent
    assert begun[0] == "opens"  # the first was this process's
    assert files(out) == files(whole)


def test_what_the_second_process_runs_again_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A task whose results were damaged is named, whichever process runs it."""
    numba.set_num_threads(2)
    planned = {module: {**SMALL[module], "quick": False, "seed": 1} for module in (table, decomposition)}
    for module, task in ((table, "B2"), (decomposition, "T20")):
        folder = kept.parts_folder(module.EXPERIMENT, planned[module], tmp_path)
        folder.mkdir(parents=True)
        (folder / f"{task}.nc").write_bytes(b"damaged")
    runner.reproduce(["table", "decomposition"], out=tmp_path)
    told = capsys.readouterr().err
    assert "table: B2 is run again (" in told
    assert "decomposition: T20 is run again (" in told


def test_what_takes_longest_runs_first(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """However experiments are named, the longest is run before the others; the report keeps its order."""
    page = runner.reproduce(["decomposition", "opens", "table"], out=tmp_path, jobs=1).read_text(encoding="utf-8")
    told = capsys.readouterr().err
    assert told.index("table: done in") < told.index("opens: done in") < told.index("decomposition: done in")
    titles = [module.EXPERIMENT.title for module in (table, opens, decomposition)]
    assert sorted(titles, key=page.index) == titles


def test_experiments_that_share_runs_stay_together() -> None:
    """One process has them one after the other, each after the one whose runs it takes over, if that is run at all."""
    named = {module: (module.EXPERIMENT, SMALL[module]) for module in (reveal, regret, partial, regret_unknown)}
    together = [[e.name for e, _ in chain] for chain in chains(list(named.values()))]
    assert together == [["regret-unknown", "regret", "reveal"], ["partial"]]
    assert chains([named[reveal], named[regret_unknown]]) == [[named[regret_unknown]], [named[reveal]]]


def test_an_interrupted_run_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After Ctrl-C, finished experiments and tasks are kept; the rest is run, with the same result."""
    monkeypatch.setattr(running, "WORTH_KEEPING", 0.0)
    numba.set_num_threads(2)
    names = ["table", "decomposition"]
    whole = runner.reproduce(names, out=tmp_path / "whole").parent
    begun: list[str] = []
    out = tmp_path / "broken"

    def run_task(config: Config, task: str, seed: int) -> xr.Dataset:
        begun.append(task)
        if begun == ["B2", "B4"]:
            wait_until((out / "decomposition.json").is_file)  # by the second process
            raise KeyboardInterrupt
        return table.run_task(config, task, seed)

    monkeypatch.setattr(table, "EXPERIMENT", replace(table.EXPERIMENT, run_task=run_task))
    with pytest.raises(KeyboardInterrupt):
        runner.reproduce(names, out=out)
    assert [path.name for path in out.glob(".parts/table-*/*")] == ["B2.nc"]
    assert (out / "decomposition.json").is_file()
    runner.reproduce(names, out=out)
    assert begun == ["B2", "B4", "B4"]
    assert files(out) == files(whole)
    assert not (out / ".parts").exists()


def test_short_tasks_are_not_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A task that is quicker run again than written leaves no file behind."""
    monkeypatch.setattr(running, "WORTH_KEEPING", 1e9)
    monkeypatch.setattr(running.Running, "ran", lambda _: pytest.fail("stop here"))
    with pytest.raises(pytest.fail.Exception):
        runner.reproduce(["table"], out=tmp_path)
    assert not list(tmp_path.rglob("*.nc"))


def test_tasks_share_axes_that_are_alike(tmp_path: Path) -> None:
    """In NAME.nc an axis has its own name where all tasks agree on it, else that of the first task which has it."""
    runner.reproduce(["opens"], out=tmp_path)
    data = op.load(tmp_path / "opens.nc")
    assert dict(data.sizes) == {"policy": 3, "world": 2, "replicate": 2}
    assert list(data["policy"].values) == ["naive", "PD1", "PD2"]
    parts = {name: xr.Dataset({"x": ("t", range(n))}) for name, n in {"a": 2, "b": 3, "c": 2}.items()}
    combined = combine("opens", {"seed": 1}, parts)
    assert dict(combined.sizes) == {"a.t": 2, "b.t": 3}
    assert {str(name): x.dims for name, x in combined.items()} == {"a.x": ("a.t",), "b.x": ("b.t",), "c.x": ("a.t",)}
    moved = parts["c"].assign_coords(t=[5, 6])
    assert combine("opens", {"seed": 1}, {**parts, "c": moved})["c.x"].dims == ("c.t",)


@pytest.mark.parametrize("module", SMALL)
def test_results_read_back_are_those_that_were_run(
    module: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also in how it lies in memory, on which depends how sums are rounded."""
    monkeypatch.setattr(running, "WORTH_KEEPING", 0.0)
    config = {**SMALL[module], "seed": 1}
    for task in module.EXPERIMENT.tasks(config):
        found = []
        for _ in range(2):
            one = running.Running(module.EXPERIMENT, config, tmp_path, force=False, tell=pytest.fail)
            one.run(task)
            found.append(one.parts[task])
        run, read = found
        xr.testing.assert_equal(run, read)
        for data in (run, read):
            assert all(values.values.flags["C_CONTIGUOUS"] for values in data.data_vars.values())


def test_results_of_another_shape_are_run_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A result file that an earlier version left does not count as finished, even if its checksum fits."""
    runner.reproduce(["table"], out=tmp_path)
    path = tmp_path / "table.json"
    result = json.loads(path.read_text())
    del result["claims"][0]["verdict"]
    path.write_text(json.dumps(result | {"checksum": record._checksum(result)}))
    runner.reproduce(["table"], out=tmp_path)
    assert "table.json is of another version" in capsys.readouterr().err
    assert "verdict" in json.loads(path.read_text())["claims"][0]


def test_a_plain_run_comes_from_one_go(tmp_path: Path) -> None:
    """Experiments that ran together, or one by one with the same settings, are one origin on the page."""
    runner.reproduce(["table"], out=tmp_path)
    page = runner.reproduce(["table", "decomposition", "opens"], out=tmp_path).read_text(encoding="utf-8")
    assert page.count('class="origin"') == 1
    assert "not all run in one go" not in page
    assert "opportune reproduce table opens decomposition --seed 1" in page
    seeded = runner.reproduce(["opens"], out=tmp_path, seed=2).read_text(encoding="utf-8")
    assert "not all run in one go" in seeded


def test_texts_are_for_readers(tmp_path: Path) -> None:
    """No backtick stands on the page, and every panel of a figure has a title."""
    page = runner.reproduce(list(NAMES_OF.values()), out=tmp_path).read_text(encoding="utf-8")
    assert "`" not in re.sub(r'src="data:[^"]*"', "", page)
    for module, name in NAMES_OF.items():
        experiment = module.EXPERIMENT
        config = {**experiment.config(True), "seed": 1}
        parts = {task: experiment.run_task(config, task, 1) for task in experiment.tasks(config)}
        for picture in experiment.findings(config, parts).pictures:
            assert all(axes.get_title() for axes in picture.figure.axes), (name, picture.name)
            assert not any("`" in text.get_text() for text in picture.figure.findobj(Text)), (name, picture.name)


def test_the_documentation_keeps_the_order() -> None:
    """Experiments are described in the order in which the report shows them."""
    text = (Path(__file__).parents[2] / "docs" / "reproduce.md").read_text(encoding="utf-8")
    named = [line.removeprefix("### ") for line in text.splitlines() if line.startswith("### ")]
    assert [name for name in named if name in NAMES] == list(NAMES)
