"""The parts of a plan: each is simulated once, kept on disk as soon as it is there, and found there next time."""

import functools
import hashlib
import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import xarray as xr

from opportune._version import __version__
from opportune.analysis.results import FORMAT, load, save
from opportune.engine.compiled import PACKAGE
from opportune.errors import DataError
from opportune.planning.settings import Settings

_ASIDE = {"cli", "experiments", "live", "report", "service", "testing"}
"""What numbers do not depend on."""

Progress = Callable[[str, float], None]
"""Takes what is going on and the steps that have been simulated so far."""


class Tasks:
    """Runs parts of a plan or takes them from disk."""

    def __init__(self, folder: Path, progress: Progress) -> None:
        self.folder = folder
        self.progress = progress
        self.steps = 0.0

    def run(self, name: str, what: str, steps: float, compute: Callable[[], xr.Dataset]) -> xr.Dataset:
        """A part's results: from disk if they were kept there, else computed now and kept."""
        self.progress(what, self.steps)
        path = self.folder / f"{name}.nc"
        data = _kept(path)
        if data is None:
            data = _in_order(compute())
            save(data.assign_attrs(opportune_version=__version__, opportune_format=FORMAT), path)
        self.steps += steps
        self.progress(what, self.steps)
        return data


def folder_of(settings: Settings, out: Path) -> Path:
    """The folder for the parts of this plan; another study, setting or version has another."""
    study = settings.study
    rows = b"" if study.table is None else repr(sorted(study.table.columns.items())).encode()
    text = json.dumps(
        [study.settings.model_dump(mode="json"), settings.budgets, settings.target, settings.participants,
         settings.replicates, hashlib.sha256(rows).hexdigest(), __version__, source_hash()],
        sort_keys=True,
    )  # fmt: skip
    return out / ".parts" / f"plan-{study.name}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"


@functools.cache
def source_hash() -> str:
    """A hash of all sources that a plan's numbers depend on."""
    found = hashlib.sha256()
    for path in sorted(PACKAGE.rglob("*.py")):
        place = path.relative_to(PACKAGE)
        if place.parts[0] not in _ASIDE:
            found.update(place.as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return found.hexdigest()[:16]


def _kept(path: Path) -> xr.Dataset | None:
    if not path.is_file():
        return None
    try:
        return load(path)
    except DataError:
        path.unlink()
        return None


def _in_order(data: xr.Dataset) -> xr.Dataset:
    """The same, laid out in memory as a file gives it back, so that sums are rounded alike in a resumed plan."""
    return data.copy(data={name: np.array(values, order="C") for name, values in data.data_vars.items()})
