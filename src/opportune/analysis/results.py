"""Results as labelled arrays: building the Dataset of a simulation, saving it, loading it."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from opportune._version import __version__
from opportune.errors import DataError, InputError

FORMAT = 1


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
    """Write results to a NetCDF file; it appears under its name only once it is complete."""
    target = Path(path)
    if target.suffix != ".nc":
        raise InputError(f"path is {str(target)!r}; expected a name that ends in .nc")
    target.parent.mkdir(parents=True, exist_ok=True)
    part = target.with_name(target.name + ".part")
    encoding = {str(name): {"zlib": True, "complevel": 1} for name, v in data.data_vars.items() if v.size > 10_000}
    try:
        _storable(data).to_netcdf(part, engine="h5netcdf", encoding=encoding)
        part.replace(target)
    finally:
        part.unlink(missing_ok=True)
    return target


def load(path: str | Path) -> xr.Dataset:
    """Read results that `save` wrote."""
    source = Path(path)
    if not source.is_file():
        raise DataError(f"{source} does not exist; expected a results file")
    try:
        with xr.open_dataset(source, engine="h5netcdf") as opened:
            data = opened.load()
    except (OSError, ValueError) as error:
        raise DataError(f"{source} cannot be read as NetCDF: {error}") from None
    if "opportune_format" not in data.attrs:
        raise DataError(f"{source} was not written by opportune: it has no attribute opportune_format")
    if int(data.attrs["opportune_format"]) != FORMAT:
        raise DataError(
            f"{source} has results format {data.attrs['opportune_format']}; this version reads format {FORMAT}"
        )
    for name in data.data_vars:
        if data[name].attrs.pop("was_bool", 0):
            attrs = data[name].attrs
            data[name] = data[name].astype(bool)
            data[name].attrs.update(attrs)
    data.attrs = {key: v.item() if isinstance(v, np.generic) else v for key, v in data.attrs.items()}
    return data


def config(data: xr.Dataset) -> dict[str, Any]:
    """The configuration a Dataset was made with."""
    settings: dict[str, Any] = json.loads(data.attrs["config"])
    return settings


def _storable(data: xr.Dataset) -> xr.Dataset:
    """NetCDF has no booleans: store them as bytes and remember."""
    data = data.copy()
    for name, variable in data.data_vars.items():
        if variable.dtype == bool:
            data[name] = variable.astype(np.int8).assign_attrs(was_bool=1, **variable.attrs)
    return data
