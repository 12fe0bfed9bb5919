"""What earlier runs left: which finished experiments and tasks still count, and why the others do not."""

import functools
import hashlib
import json
from pathlib import Path
from typing import Any, NamedTuple

import xarray as xr

from opportune._version import __version__
from opportune.analysis.results import FORMAT, load, save
from opportune.engine.compiled import PACKAGE
from opportune.errors import DataError
from opportune.experiments.base import Experiment
from opportune.experiments.record import Record, read_record
from opportune.files import digest_of

PARTS = ".parts"

# What numbers, verdicts and figures do not depend on.
_ASIDE = {"cli", "live", "report", "study", "testing", "service", "planning", "__pycache__"}


class Kept(NamedTuple):
    """The record of a finished experiment that still counts; if there is none, why not (nothing if none was there)."""

    record: Record | None
    why: str = ""


@functools.cache
def source_hash() -> str:
    """A hash of all that results depend on in this package: the algorithms, the analysis, the experiments, their data.

    The compiled sources (`engine.compiled.code_hash`) are among them.
    """
    found = hashlib.sha256()
    for path in sorted(PACKAGE.rglob("*")):
        place = path.relative_to(PACKAGE)
        if path.is_file() and not _ASIDE & set(place.parts) and path.suffix != ".pyc":
            found.update(place.as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return found.hexdigest()[:16]


def find_finished(experiment: Experiment, config: dict[str, Any], out: Path) -> Kept:
    """What an earlier run with this configuration and this code left of an experiment, if all of it is undamaged."""
    path = out / f"{experiment.name}.json"
    if not path.is_file():
        return Kept(None)
    try:
        record = read_record(path)
    except DataError as error:
        return Kept(None, str(error))
    if record.config != json.loads(json.dumps(config)):
        return Kept(None, "there with another configuration")
    if (record.versions.get("opportune"), record.code) != (__version__, source_hash()):
        return Kept(None, "there from another version of the code")
    damage = _damage(record, out)
    return Kept(None, damage) if damage else Kept(record)


def _damage(record: Record, out: Path) -> str:
    """The first of an experiment's files that is missing or damaged, in words."""
    expected = {f"{record.experiment}.nc", *(name for figure in record.figures for name in (figure.png, figure.svg))}
    for path in (out / name for name in sorted(expected | set(record.files))):
        if not path.is_file():
            return f"{path} is missing"
        if digest_of(path) != record.files.get(path.name):
            return f"{path} is damaged: it does not fit its checksum"
    return ""


def parts_folder(experiment: Experiment, config: dict[str, Any], out: Path) -> Path:
    """The folder of an unfinished experiment's tasks; another configuration, version or code has another."""
    text = json.dumps([experiment.name, config, __version__, source_hash(), FORMAT], sort_keys=True)
    return out / PARTS / f"{experiment.name}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"


def load_part(folder: Path, task: str) -> xr.Dataset | None:
    """A task's results that an interrupted run left, None if it left none; raises `DataError` if they are damaged."""
    path = folder / f"{task}.nc"
    if not path.is_file():
        return None
    data = load(path)
    if data.attrs.pop("part", None) != _label(folder, task):
        raise DataError(f"{path} holds the results of another task; expected those of {task}")
    return data


def save_part(data: xr.Dataset, folder: Path, task: str) -> None:
    """Keep a task's results until its experiment is finished."""
    attrs = {"opportune_version": __version__, "opportune_format": FORMAT, "part": _label(folder, task)}
    save(data.assign_attrs(attrs), folder / f"{task}.nc")


def _label(folder: Path, task: str) -> str:
    return f"{folder.name}/{task}"
