"""Writing an experiment's findings: its data, its figures and, last, the record that marks it as finished."""

import json
import os
import platform
from collections.abc import Mapping
from datetime import UTC, datetime
from pathlib import Path

import pandas as pd
import xarray as xr

from opportune._version import __version__
from opportune.analysis.parts import source_hash
from opportune.analysis.plots import save_figure
from opportune.analysis.results import FORMAT, save
from opportune.experiments.base import Config, Experiment
from opportune.experiments.record import FigureFiles, Record, command, versions, write_record
from opportune.files import digest_of


def write(
    experiment: Experiment, config: Config, parts: Mapping[str, xr.Dataset], *, out: Path, seconds: float
) -> Record:
    """Write NAME.nc, the figures and, last, NAME.json, whose content is returned."""
    name = experiment.name
    findings = experiment.findings(config, parts)
    files = [save(combine(name, config, parts), out / f"{name}.nc").name]
    for picture in findings.pictures:
        files += save_figure(picture.figure, out, picture.name)
    record = Record(
        experiment=name,
        title=experiment.title,
        about=experiment.about,
        found=findings.found,
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
        versions=versions(),
        machine=f"{os.cpu_count()} cores, {platform.machine()}, {platform.system()}",
        command=command([name], seed=config["seed"], quick=config["quick"]),
        code=source_hash(),
        files={file: digest_of(out / file) for file in files},
    )
    write_record(record, out / f"{name}.json")
    return record


def combine(name: str, config: Config, parts: Mapping[str, xr.Dataset]) -> xr.Dataset:
    """All tasks in one file: variables carry their task's name, and so do axes that not all tasks share.

    Tasks with equal axes share them under the name of the first such task.
    """
    merged: dict[str, xr.Variable] = {}
    coords: dict[str, xr.Variable] = {}
    axes = _name_axes(parts)
    for task, data in parts.items():
        renamed = data.rename({axis: axes[task, str(axis)] for axis in data.dims if axes[task, str(axis)] != axis})
        coords.update((str(axis), renamed.variables[axis]) for axis in renamed.dims if axis in renamed.coords)
        merged.update((f"{task}.{variable}", renamed.variables[variable]) for variable in renamed.data_vars)
    combined = xr.Dataset(merged, coords=coords)
    combined.attrs = {
        "opportune_version": __version__, "opportune_format": FORMAT, "seed": str(config["seed"]),
        "experiment": name, "config": json.dumps(config),
    }  # fmt: skip
    return combined


def _name_axes(parts: Mapping[str, xr.Dataset]) -> dict[tuple[str, str], str]:
    """The name of each axis of each task in the combined file."""
    kinds: dict[str, list[tuple[str, pd.Index]]] = {}  # per axis: the first task with it, and its entries
    alike: dict[tuple[str, str], str] = {}
    for task, data in parts.items():
        for axis in map(str, data.dims):
            index, known = data.get_index(axis), kinds.setdefault(axis, [])
            first = next((other for other, entries in known if entries.equals(index)), None)
            if first is None:
                known.append((first := task, index))
            alike[task, axis] = first
    return {(task, axis): f"{first}.{axis}" if len(kinds[axis]) > 1 else axis for (task, axis), first in alike.items()}
