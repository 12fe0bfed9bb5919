"""Running experiments: the same files on any number of cores, errors, resuming, what is in NAME.nc."""

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numba
import pytest
import xarray as xr
from matplotlib.text import Text

import opportune as op
from opportune.analysis.parts import Parts
from opportune.errors import WriteError
from opportune.experiments import (
    NAMES,
    decomposition,
    opens,
    partial,
    recommenders,
    record,
    regret,
    regret_unknown,
    reveal,
    runner,
    table,
)
from opportune.experiments.base import Config
from opportune.experiments.writing import combine

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


def test_the_number_of_cores_does_not_matter(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Figures and results are the same, byte for byte, on one core and on two; what is done is said in order."""
    names = ["table", "opens", "decomposition"]
    for jobs in (1, 2):
        runner.reproduce(names, out=tmp_path / str(jobs), jobs=jobs)
        said = capsys.readouterr().err
        places = [said.index(f"{name}: done in") for name in names]
        assert places == sorted(places)
    assert len(files(tmp_path / "1")) == 9
    assert files(tmp_path / "1") == files(tmp_path / "2")
    assert not (tmp_path / "1" / ".parts").exists()


def test_an_error_while_writing_surfaces(tmp_path: Path) -> None:
    """What goes wrong while an experiment is written ends the run, and it does not count as finished."""
    (tmp_path / "table.nc").mkdir()
    with pytest.raises(WriteError, match=r"table\.nc cannot be written: Is a directory$"):
        runner.reproduce(["table", "decomposition"], out=tmp_path)
    assert not (tmp_path / "table.json").exists()


def test_an_interrupted_run_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """After Ctrl-C, finished experiments and tasks are kept; the rest is run, with the same result."""
    names = ["decomposition", "table"]
    whole = runner.reproduce(names, out=tmp_path / "whole").parent
    begun: list[str] = []
    out = tmp_path / "broken"

    def run_task(config: Config, task: str, seed: int) -> xr.Dataset:
        begun.append(task)
        if begun == ["B2", "B4"]:
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
def test_results_read_back_are_those_that_were_run(module: Any, tmp_path: Path) -> None:
    """Results from disk equal those that were run, also in how they lie in memory, which decides how sums round."""
    config = {**SMALL[module], "seed": 1}
    parts = Parts(tmp_path, module.EXPERIMENT.name, config)
    for task in module.EXPERIMENT.tasks(config):
        run = parts.save(task, module.EXPERIMENT.run_task(config, task, 1))
        read = parts.load(task)
        assert read is not None
        xr.testing.assert_equal(run, read)
        for data in (run, read):
            assert all(values.values.flags["C_CONTIGUOUS"] for values in data.data_vars.values())


def test_results_of_another_shape_are_run_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """A result file that an earlier version left does not count as finished, even if its checksum fits."""
    runner.reproduce(["table"], out=tmp_path)
    path = tmp_path / "table.json"
    result = json.loads(path.read_text())
    del result["claims"][0]["verdict"]
    path.write_text(json.dumps(result | {"checksum": record.checksum_of(result)}))
    runner.reproduce(["table"], out=tmp_path)
    assert "table.json is of another version" in capsys.readouterr().err
    assert "verdict" in json.loads(path.read_text())["claims"][0]


def test_a_plain_run_comes_from_one_go(tmp_path: Path) -> None:
    """Experiments that ran together, or one by one with the same settings, are one origin on the page."""
    runner.reproduce(["table"], out=tmp_path)
    page = runner.reproduce(["table", "decomposition", "opens"], out=tmp_path).read_text(encoding="utf-8")
    assert page.count('class="origin"') == 1
    assert "not all run together" not in page
    assert "opportune reproduce table opens decomposition --seed 1" in page
    seeded = runner.reproduce(["opens"], out=tmp_path, seed=2).read_text(encoding="utf-8")
    assert "not all run together" in seeded


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
