"""Finished parts of a long computation, kept on disk until it is complete, so that the same command resumes."""

import functools
import hashlib
import json
import shutil
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from opportune._version import __version__
from opportune.analysis.results import FORMAT, load, save
from opportune.engine.compiled import PACKAGE
from opportune.errors import DataError, StateError

FOLDER = ".parts"

# Code that numbers, verdicts and figures do not depend on.
_ASIDE = {"cli", "report", "service", "rehearsal", "testing", "__pycache__"}


@functools.cache
def source_hash() -> str:
    """A hash of everything in this package that results depend on: its code and its data."""
    found = hashlib.sha256()
    for path in sorted(PACKAGE.rglob("*")):
        place = path.relative_to(PACKAGE)
        if path.is_file() and not _ASIDE & set(place.parts) and path.suffix != ".pyc":
            found.update(place.as_posix().encode() + b"\0" + path.read_bytes() + b"\0")
    return found.hexdigest()[:16]


class Parts:
    """The finished parts of one computation.

    Each combination of settings (plain JSON values), version and source code has its own folder, so that a part of
    another computation is never mistaken for one of this.
    """

    def __init__(self, out: Path, name: str, settings: Any) -> None:
        text = json.dumps([name, settings, __version__, source_hash(), FORMAT], sort_keys=True)
        self.folder = out / FOLDER / f"{name}-{hashlib.sha256(text.encode()).hexdigest()[:12]}"

    def load(self, part: str) -> xr.Dataset | None:
        """A part's results, None if there are none; raises `DataError` if they are damaged or of another part."""
        path = self.folder / f"{part}.nc"
        if not path.is_file():
            return None
        data = load(path)
        if data.attrs.pop("part", None) != self._label(part):
            raise DataError(f"{path} holds the results of another task; expected those of {part}")
        return data

    def save(self, part: str, data: xr.Dataset) -> xr.Dataset:
        """Save a part's results; returns them with the memory layout that `load` gives, so that sums round alike."""
        if data.attrs.get("interrupted"):
            raise StateError(f"{part} was interrupted; expected a complete result")
        attrs = {"opportune_version": __version__, "opportune_format": FORMAT, "part": self._label(part)}
        save(data.assign_attrs(attrs), self.folder / f"{part}.nc")
        return data.copy(data={name: np.ascontiguousarray(values) for name, values in data.data_vars.items()})

    def discard(self) -> None:
        """Remove all parts after the computation is complete."""
        shutil.rmtree(self.folder, ignore_errors=True)
        with suppress(OSError):  # the folder may contain parts of another computation
            self.folder.parent.rmdir()

    def _label(self, part: str) -> str:
        return f"{self.folder.name}/{part}"
