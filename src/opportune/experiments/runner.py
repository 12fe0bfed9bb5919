"""Running experiments: tasks in order, finished ones kept, then findings, files and the report."""

import hashlib
import json
import os
import platform
import time
from collections.abc import Sequence
from contextlib import suppress
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numba
import numpy as np
import xarray as xr
from rich.console import Console

from opportune import checks
from opportune._version import __version__
from opportune.analysis.results import FORMAT, load, save
from opportune.errors import DataError
from opportune.experiments import NAMES, find
from opportune.experiments.base import Experiment
from opportune.experiments.record import FigureFiles, Record, command
from opportune.experiments.writer import Found, Writer, score
from opportune.progress import bar
from opportune.report.page import write_report

PARTS = ".parts"
WORTH_KEEPING = 0.5  # seconds


def reproduce(
    names: Sequence[str],
    *,
    out: Path,
    quick: bool = False,
    seed: int = 1,
    jobs: int | None = None,
    force: bool = False,
    cluster: str | None = None,
) -> Path:
    """Run experiments (or "all"), write their files and the report; returns the report's path.

    A finished experiment with the same configuration is not run again unless `force`; an interrupted one goes on
    with its first unfinished task.
    """
    chosen = [find(name) for name in (NAMES if "all" in names else names)]
    seed = checks.whole("seed", seed, least=0, most=2**64 - 1)
    if jobs is not None:
        numba.set_num_threads(checks.whole("jobs", jobs, least=1, most=os.cpu_count()))
    out.mkdir(parents=True, exist_ok=True)
    plan = [(e, {**e.config(quick), "quick": quick, "seed": seed}) for e in chosen]
    console = Console(stderr=True)
    if cluster is not None:
        from opportune.simulation.cluster import connect  # noqa: PLC0415  (needs the extra `cluster`)

        with connect(cluster):
            _run_all(plan, out, force, console)
    else:
        _run_all(plan, out, force, console)
    return write_report(out)


def _run_all(plan: list[tuple[Experiment, dict[str, Any]]], out: Path, force: bool, console: Console) -> None:
    total = sum(len(e.tasks(config)) for e, config in plan)
    with bar(console) as progress:
        whole = progress.add_task("reproducing", total=total)
        todo = []
        for experiment, config in plan:
            done = None if force else _finished(experiment, config, out)
            if done is None:
                todo.append((experiment, config))
            else:
                progress.advance(whole, len(experiment.tasks(config)))
                progress.console.print(f"{experiment.name}: finished before, kept ({score(done)})")
        with Writer(progress.console, aside=len(todo) > 1 and numba.get_num_threads() > 1) as writer:
            for experiment, config in todo:
                began = time.perf_counter()
                parts = {}
                for task in experiment.tasks(config):
                    progress.update(whole, description=f"{experiment.name}: {task}")
                    parts[task] = _results(experiment, config, task, out, force)
                    progress.advance(whole)
                    writer.poll()
                seconds = time.perf_counter() - began
                writer.write(_found(experiment, config, parts, out, seconds))
            progress.update(whole, description="writing")
    with suppress(OSError):  # unless tasks of another configuration are in it
        (out / PARTS).rmdir()


def _results(experiment: Experiment, config: dict[str, Any], task: str, out: Path, force: bool) -> xr.Dataset:
    """A task's results: from disk if an interrupted run with this configuration left them, else run now.

    What took less than `WORTH_KEEPING` is not left on disk: writing it would take about as long as running it again.
    """
    path = _parts(experiment, config, out) / f"{task}.nc"
    if path.is_file() and not force:
        try:
            return load(path)
        except DataError:
            path.unlink()
    began = time.perf_counter()
    data = _in_order(experiment.run_task(config, task, config["seed"]))
    if time.perf_counter() - began >= WORTH_KEEPING:
        save(data.assign_attrs(opportune_version=__version__, opportune_format=FORMAT), path)
    return data


def _in_order(data: xr.Dataset) -> xr.Dataset:
    """The same, laid out in memory as a file gives it back: else sums in a resumed run would be rounded differently."""
    return data.copy(data={name: np.ascontiguousarray(values) for name, values in data.data_vars.items()})


def _parts(experiment: Experiment, config: dict[str, Any], out: Path) -> Path:
    """The folder of an unfinished experiment's tasks; another configuration or version has another."""
    text = json.dumps([experiment.name, config, __version__], sort_keys=True)
    return out / PARTS / f"{experiment.name}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"


def _finished(experiment: Experiment, config: dict[str, Any], out: Path) -> Record | None:
    """The record of a finished run with this configuration and version, if it and its files are there."""
    try:
        record = Record.model_validate_json((out / f"{experiment.name}.json").read_text(encoding="utf-8"))
    except (OSError, ValueError):  # not there, or of another shape
        return None
    same = record.config == json.loads(json.dumps(config)) and record.versions.get("opportune") == __version__
    files = [name for figure in record.figures for name in (figure.png, figure.svg)]
    complete = all((out / name).is_file() for name in [*files, f"{experiment.name}.nc"])
    return record if same and complete else None


def _found(
    experiment: Experiment, config: dict[str, Any], parts: dict[str, xr.Dataset], out: Path, seconds: float
) -> Found:
    """What an experiment found, ready to be written."""
    findings = experiment.findings(config, parts)
    record = Record(
        experiment=experiment.name,
        title=experiment.title,
        about=experiment.about,
        config=config,
        numbers=findings.numbers,
        claims=findings.claims,
        figures=[
            FigureFiles(name=p.name, caption=p.caption, alt=p.alt, png=f"{p.name}.png", svg=f"{p.name}.svg")
            for p in findings.pictures
        ],
        tables=findings.tables,
        seconds=round(seconds, 2),
        finished=datetime.now(UTC).replace(microsecond=0),
        versions={
            "opportune": __version__,
            "python": platform.python_version(),
            **{name: version(name) for name in ("numpy", "numba", "scipy", "xarray")},
        },
        machine=f"{os.cpu_count()} cores, {platform.machine()}, {platform.system()}",
        command=command([experiment.name], seed=config["seed"], quick=config["quick"]),
    )
    return Found(
        record=record,
        pictures=findings.pictures,
        data=_combine(experiment, config, parts),
        out=out,
        parts=_parts(experiment, config, out),
    )


def _combine(experiment: Experiment, config: dict[str, Any], parts: dict[str, xr.Dataset]) -> xr.Dataset:
    """All tasks in one file: each task's variables under its name, as are axes that differ between tasks."""
    axes = {str(axis) for data in parts.values() for axis in data.dims}
    own = {axis for axis in axes if not _alike(axis, parts)}
    merged: dict[str, xr.DataArray] = {}
    for task, data in parts.items():
        renamed = data.rename({axis: f"{task}.{axis}" for axis in own if axis in data.dims})
        for name, values in renamed.data_vars.items():
            merged[f"{task}.{name}"] = values.reset_coords(drop=True)
    combined = xr.Dataset(merged)
    combined.attrs = {
        "opportune_version": __version__, "opportune_format": FORMAT, "seed": str(config["seed"]),
        "experiment": experiment.name, "config": json.dumps(config),
    }  # fmt: skip
    return combined


def _alike(axis: str, parts: dict[str, xr.Dataset]) -> bool:
    """Whether an axis is the same in every task that has it."""
    first, *others = (data.get_index(axis) for data in parts.values() if axis in data.dims)
    return all(first.equals(other) for other in others)
