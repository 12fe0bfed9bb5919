"""What an experiment found, put together from its tasks' results: what is written of it."""

import json
import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any

import pandas as pd
import xarray as xr

from opportune._version import __version__
from opportune.analysis.results import FORMAT
from opportune.errors import StateError
from opportune.experiments import find
from opportune.experiments.base import Picture
from opportune.experiments.record import FigureFiles, Record, command


@dataclass(frozen=True, kw_only=True)
class Ran:
    """An experiment whose tasks are done: their results, a hash of the code that they are of, and where files go."""

    name: str
    config: dict[str, Any]
    parts: dict[str, xr.Dataset]
    seconds: float
    code: str
    out: Path
    kept: Path  # where its tasks' results are kept until it is written


@dataclass(frozen=True, kw_only=True)
class Found:
    """What is to be written of an experiment."""

    record: Record
    pictures: list[Picture]
    data: xr.Dataset


def put_together(ran: Ran) -> Found:
    """What an experiment found, ready to be written; refuses results of which a part is missing."""
    if any(data.attrs.get("interrupted") for data in ran.parts.values()):
        raise StateError(f"{ran.name} was interrupted; expected a complete result")
    experiment = find(ran.name)
    findings = experiment.findings(ran.config, ran.parts)
    record = Record(
        experiment=experiment.name,
        title=experiment.title,
        about=experiment.about,
        found=findings.found,
        config=ran.config,
        numbers=findings.numbers,
        claims=findings.claims,
        figures=[
            FigureFiles(name=p.name, caption=p.caption, alt=p.alt, png=f"{p.name}.png", svg=f"{p.name}.svg")
            for p in findings.pictures
        ],
        tables=findings.tables,
        seconds=ran.seconds,
        finished=datetime.now(UTC).replace(microsecond=0),
        versions={
            "opportune": __version__,
            "python": platform.python_version(),
            **{name: version(name) for name in ("numpy", "numba", "scipy", "xarray")},
        },
        machine=f"{os.cpu_count()} cores, {platform.machine()}, {platform.system()}",
        command=command([experiment.name], seed=ran.config["seed"], quick=ran.config["quick"]),
        code=ran.code,
    )
    return Found(record=record, pictures=findings.pictures, data=combine(ran.name, ran.config, ran.parts))


def combine(name: str, config: Mapping[str, Any], parts: Mapping[str, xr.Dataset]) -> xr.Dataset:
    """All tasks in one file: each task's variables under its name, as are axes that not all tasks have in common.

    Tasks that agree on such an axis share it, under the name of the first of them.
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
    """What each axis of each task is called in a file of all."""
    kinds: dict[str, list[tuple[str, pd.Index]]] = {}  # of each axis: the first task with it, and its entries
    alike: dict[tuple[str, str], str] = {}
    for task, data in parts.items():
        for axis in map(str, data.dims):
            index, known = data.get_index(axis), kinds.setdefault(axis, [])
            first = next((other for other, entries in known if entries.equals(index)), None)
            if first is None:
                known.append((first := task, index))
            alike[task, axis] = first
    return {(task, axis): f"{first}.{axis}" if len(kinds[axis]) > 1 else axis for (task, axis), first in alike.items()}
