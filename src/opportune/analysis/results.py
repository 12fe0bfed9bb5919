"""Results as labelled arrays: building the Dataset of a simulation, saving it, loading it."""

import hashlib
import io
import json
import math
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
from opportune.analysis.heaps import endless_heap
from opportune.errors import DataError, InputError
from opportune.files import digest, write_whole

FORMAT = 2  # 2: the file ends in a checksum
MOST_DEFLATED = 1_032
"""No byte of a file stands for more: as far as zlib goes."""

# After what NetCDF reads stands a line with the format and the checksum of all before it; NetCDF leaves it alone.
_LAST_LINE = "\nopportune results {} sha256 {}\n"
_LAST_LENGTH = len(_LAST_LINE.format(FORMAT, "0" * 64))
_LAST_PATTERN = re.compile(rb"\nopportune results (\d+) sha256 ([0-9a-f]{64})\n")


def label_dataset(
    variables: Mapping[str, tuple[tuple[str, ...], NDArray[Any]]],
    coords: Mapping[str, Any],
    attrs: Mapping[str, Any],
    descriptions: Mapping[str, str],
) -> xr.Dataset:
    """A Dataset whose variables say what they are, with the package's version among the attributes."""
    described = {name: {"long_name": text} for name, text in descriptions.items()}
    return xr.Dataset(
        {name: (axes, values, described.get(name, {})) for name, (axes, values) in variables.items()},
        coords=dict(coords),
        attrs={"opportune_version": __version__, "opportune_format": FORMAT, **attrs},
    )


def save(data: xr.Dataset, path: str | Path) -> Path:
    """Write results to a NetCDF file with a checksum; it appears under its name only once it is complete."""
    if not isinstance(data, xr.Dataset):
        raise InputError(f"data is {checks.shown(data)}; expected a Dataset, results of simulate")
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
    """The NetCDF file of a Dataset, in memory: HDF5 does not survive a disk that is full."""
    import h5netcdf  # noqa: PLC0415  (slow to import)
    from xarray.backends import H5NetCDFStore  # noqa: PLC0415

    large = [str(name) for name in data.data_vars if data.variables[name].size > 10_000]
    encoding = {name: {"zlib": True, "complevel": 1} for name in large}
    buffer = io.BytesIO()
    with _remembering_file(buffer) as remembering, h5netcdf.File(remembering, "w") as file:
        _storable(data).dump_to_store(H5NetCDFStore(file), encoding=encoding)
    return buffer.getvalue()


def _remembering_file(buffer: io.BytesIO) -> Any:
    """An HDF5 file that opens what is in it once.

    h5netcdf asks for a variable and for each of its axes by name some fifty times while it writes them, and has each
    opened anew: half of the time that a file of many variables took.
    """
    import h5py  # noqa: PLC0415  (slow to import)

    class Remembering(h5py.File):  # type: ignore[misc]
        def __getitem__(self, name: Any) -> Any:
            if not isinstance(name, str):
                return super().__getitem__(name)
            if name == "/":  # so that what is deleted is deleted here
                return self
            if name not in known:
                known[name] = super().__getitem__(name)
            return known[name]

        def __delitem__(self, name: str) -> None:
            known.pop(name, None)
            known.pop(f"/{name}", None)
            super().__delitem__(name)

        def close(self) -> None:
            known.clear()
            super().close()

    known: dict[str, Any] = {}
    return Remembering(buffer, "w", track_order=True)


def load(path: str | Path) -> xr.Dataset:
    """Read results that `save` wrote; a file that was damaged, cut or changed since is refused."""
    source = checks.path("path", path)
    try:
        if not source.is_file():
            wrong = "is a folder" if source.is_dir() else "does not exist"
            raise DataError(f"{source} {wrong}; expected a results file")
    except OSError as error:  # a name that is too long, say
        raise DataError(f"{checks.shown(str(source))} cannot be read: {error.strerror}") from None
    _check(source)
    try:
        data = _decode(source)
        for name in data.data_vars:
            if data[name].attrs.pop("was_bool", 0):
                attrs = data[name].attrs
                data[name] = data[name].astype(bool)
                data[name].attrs.update(attrs)
    except Exception as error:  # whatever HDF5, NetCDF and xarray make of a file that is none
        raise DataError(_no_netcdf(source, error)) from None
    data.attrs = {key: v.item() if isinstance(v, np.generic) else v for key, v in data.attrs.items()}
    return data


def _decode(source: Path) -> xr.Dataset:
    """The Dataset of a NetCDF file, unless it says that it holds more than it can."""
    import h5netcdf  # noqa: PLC0415  (slow to import)
    from xarray.backends import H5NetCDFStore  # noqa: PLC0415

    _refuse_heaps(source)
    with h5netcdf.File(source, "r", decode_vlen_strings=True) as file:
        most = MOST_DEFLATED * source.stat().st_size
        held = sum(math.prod(v.shape) * v.dtype.itemsize for v in file.variables.values())
        if held > most:
            raise DataError(f"its variables have {held:,} bytes, where at most {most:,} can be")
        with xr.open_dataset(H5NetCDFStore(file)) as opened:
            return opened.load()


def _refuse_heaps(source: Path) -> None:
    heap = endless_heap(source)
    if heap is not None:
        raise DataError(f"the objects in the heap at byte {heap} do not fit into it")


def _check(source: Path) -> None:
    """Refuse a file that is not what `save` wrote, before anything of it is believed."""
    try:
        with source.open("rb") as file:
            left = max(0, file.seek(0, os.SEEK_END) - _LAST_LENGTH)
            file.seek(left)
            last = _LAST_PATTERN.fullmatch(file.read())
            if last is None:
                raise DataError(_without_checksum(source))
            if int(last[1]) != FORMAT:
                raise DataError(_other_format(source, int(last[1])))
            file.seek(0)
            found = hashlib.sha256()
            while left:
                found.update(block := file.read(min(left, 2**20)))
                left -= len(block)
    except OSError as error:
        raise DataError(f"{source} cannot be read: {error.strerror}") from None
    if found.hexdigest() != last[2].decode():
        raise DataError(f"{source} is damaged: its content does not fit its checksum; expected it as `save` wrote it")


def _without_checksum(source: Path) -> str:
    """What is wrong with a file that does not end in a checksum."""
    import h5netcdf  # noqa: PLC0415  (slow to import)

    try:
        _refuse_heaps(source)
        with h5netcdf.File(source, "r") as file:
            attributes = dict(file.attrs)
    except Exception as error:  # likewise
        return _no_netcdf(source, error)
    if "opportune_format" not in attributes:
        return f"{source} was not written by opportune: it has no attribute opportune_format"
    if attributes["opportune_format"] != FORMAT:
        return _other_format(source, attributes["opportune_format"])
    return f"{source} has lost its checksum: it was cut or changed; expected it as `save` wrote it"


def _no_netcdf(source: Path, error: Exception) -> str:
    said = "".join(c for c in " ".join(str(error).split()) if c.isprintable())
    return f"{source} cannot be read as NetCDF: {said[:300] or type(error).__name__}; expected it as `save` wrote it"


def _other_format(source: Path, given: Any) -> str:
    return (
        f"{source} has results format {given}; this version reads format {FORMAT}: "
        "load it with the version that wrote it, or run it again"
    )


def config(data: xr.Dataset) -> dict[str, Any]:
    """The configuration a Dataset was made with."""
    try:
        settings = json.loads(data.attrs["config"])
    except (KeyError, TypeError, ValueError, RecursionError):
        settings = None
    if not isinstance(settings, dict):
        raise InputError("the Dataset has no configuration in its attribute 'config'; expected results of simulate")
    return settings


def _storable(data: xr.Dataset) -> xr.Dataset:
    """NetCDF has no booleans: store them as bytes and remember.

    Axes come first: one that comes later is attached to all variables anew.
    """
    variables = {name: data.variables[name] for name in data.data_vars}
    data = xr.Dataset(coords=data.coords, attrs=data.attrs).assign(variables)
    for name in [name for name in data.data_vars if data.variables[name].dtype == bool]:
        variable = data[name]
        data[name] = variable.astype(np.int8).assign_attrs(was_bool=1, **variable.attrs)
    return data
