"""Results as labelled arrays: building the Dataset of a simulation, saving it, loading it."""

import hashlib
import io
import json
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from opportune import checks
from opportune._version import __version__
from opportune.errors import DataError, InputError
from opportune.files import digest, write_whole

FORMAT = 3  # 2: the file ends in a checksum; 3: booleans as xarray writes them

# After the NetCDF content comes a line with the format and the checksum of everything before; NetCDF ignores it.
_LAST_LINE = "\nopportune results {} sha256 {}\n"
_LAST_LENGTH = len(_LAST_LINE.format(FORMAT, "0" * 64))
_LAST_PATTERN = re.compile(rb"\nopportune results (\d+) sha256 ([0-9a-f]{64})\n")


def label_dataset(
    variables: Mapping[str, tuple[tuple[str, ...], NDArray[Any]]],
    coords: Mapping[str, Any],
    attrs: Mapping[str, Any],
    descriptions: Mapping[str, str],
) -> xr.Dataset:
    """A Dataset with a description of each variable, and the package's version among the attributes."""
    described = {name: {"long_name": text} for name, text in descriptions.items()}
    return xr.Dataset(
        {name: (axes, values, described.get(name, {})) for name, (axes, values) in variables.items()},
        coords=dict(coords),
        attrs={"opportune_version": __version__, "opportune_format": FORMAT, **attrs},
    )


def save(data: xr.Dataset, path: str | Path) -> Path:
    """Write results to a NetCDF file with a checksum; it appears under its name only once it is complete."""
    if not isinstance(data, xr.Dataset):
        raise InputError(f"data is {checks.brief(data)}; expected a Dataset, results of simulate")
    target = checks.path("path", path)
    if target.suffix != ".nc":
        raise InputError(f"path is {str(target)!r}; expected a name that ends in .nc")
    try:
        content = _encode(data)
    except (TypeError, ValueError) as error:
        reason = " ".join(str(error).split())[: checks.MOST_SHOWN]
        raise InputError(f"data cannot be written as NetCDF ({reason}); expected results of simulate") from None
    write_whole(target, content + _LAST_LINE.format(FORMAT, digest(content)).encode())
    return target


def _encode(data: xr.Dataset) -> bytes:
    """The NetCDF file of a Dataset, built in memory because HDF5 crashes on a full disk."""
    import h5netcdf  # noqa: PLC0415  (slow to import)
    from xarray.backends import H5NetCDFStore  # noqa: PLC0415

    large = [str(name) for name in data.data_vars if data.variables[name].size > 10_000]
    buffer = io.BytesIO()
    with h5netcdf.File(buffer, "w") as file:
        data.dump_to_store(H5NetCDFStore(file), encoding={name: {"zlib": True, "complevel": 1} for name in large})
    return buffer.getvalue()


def load(path: str | Path) -> xr.Dataset:
    """Read results that `save` wrote; a file that is damaged, truncated or changed is rejected."""
    source = checks.path("path", path)
    try:
        if not source.is_file():
            wrong = "is a folder" if source.is_dir() else "does not exist"
            raise DataError(f"{source} {wrong}; expected a results file")
    except OSError as error:  # such as a name that is too long
        raise DataError(f"{checks.brief(str(source))} cannot be read: {error.strerror}") from None
    _check(source)
    try:
        data = xr.load_dataset(source, engine="h5netcdf")
    except Exception as error:  # HDF5, NetCDF and xarray raise many types for invalid files
        said = "".join(c for c in " ".join(str(error).split()) if c.isprintable())[:300] or type(error).__name__
        raise DataError(f"{source} cannot be read as NetCDF: {said}; expected it as `save` wrote it") from None
    data.attrs = {key: v.item() if isinstance(v, np.generic) else v for key, v in data.attrs.items()}
    return data


def _check(source: Path) -> None:
    """Reject a file that `save` did not write, before reading anything from it."""
    try:
        with source.open("rb") as file:
            left = max(0, file.seek(0, os.SEEK_END) - _LAST_LENGTH)
            file.seek(left)
            last = _LAST_PATTERN.fullmatch(file.read())
            if last is None:
                said = "it was not written by `save`, or it was truncated or changed since"
                raise DataError(f"{source} does not end in a checksum: {said}; expected results of simulate")
            if int(last[1]) != FORMAT:
                said = f"has results format {int(last[1])}; this version reads format {FORMAT}"
                raise DataError(f"{source} {said}: load it with the version that wrote it, or run it again")
            file.seek(0)
            found = hashlib.sha256()
            while left:
                found.update(block := file.read(min(left, 2**20)))
                left -= len(block)
    except OSError as error:
        raise DataError(f"{source} cannot be read: {error.strerror}") from None
    if found.hexdigest() != last[2].decode():
        raise DataError(f"{source} is damaged: its content does not match its checksum; expected it as `save` wrote it")


def config(data: xr.Dataset) -> dict[str, Any]:
    """The configuration a Dataset was made with."""
    try:
        settings = json.loads(data.attrs["config"])
    except (KeyError, TypeError, ValueError, RecursionError):
        settings = None
    if not isinstance(settings, dict):
        raise InputError("the Dataset has no configuration in its attribute 'config'; expected results of simulate")
    return settings
