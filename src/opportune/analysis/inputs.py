"""Checks that a Dataset comes from `simulate`, whole or as a selection, on which metrics and figures rely."""

from typing import Any

import numpy as np
import xarray as xr

from opportune import checks
from opportune.analysis.results import config
from opportune.errors import InputError

RUN_AXES = ("policy", "world", "replicate")
TOTALS = ("total_value", "total_outcome", "total_best", "spent", "budget")
TRACED = ("value", "outcome", "best", "probability")
TRUTH = ("true_gap", "true_best", "true_blind", "context_probs", "context_count", "value_range")
AXES = {
    **dict.fromkeys(("total_value", "total_outcome", "total_best", "spent"), RUN_AXES),
    **dict.fromkeys(("true_gap", "true_best", "true_blind", "context_probs"), ("world", "contexts")),
    "budget": ("policy",), "context_count": ("world", "replicate", "contexts"), "value_range": ("world", "bound"),
}  # fmt: skip
"""The axes of each variable; variables with a value per step have `RUN_AXES` and "step"."""
MAY_BE_NAN = ("budget", "value_range", "best", "total_best")
"""Variables that are NaN if a policy has no budget, or a world does not report its truth."""
_EXPECTED = "expected results of simulate"


def check_results(data: Any, what: str, *, truth: bool = False) -> xr.Dataset:
    """A Dataset of `simulate` with its axes in order; with `truth`, it must contain the true gaps and values."""
    if not isinstance(data, xr.Dataset):
        raise InputError(f"{what} needs results of simulate; got {checks.brief(data)}, expected a Dataset")
    _check_axes(data, what)
    if truth and "true_gap" not in data:
        raise InputError(f"{what} needs the truth of a linear world; this Dataset has none")
    traced = "step" in data.dims
    names = [*TOTALS, *(TRACED if traced else ()), *(TRUTH if truth else ())]
    if truth and traced:
        names.append("context")
    for name in names:
        _check_variable(data, name, what)
    met = data.variables["context"].values if truth and traced else np.zeros(0)
    if met.size and not 0 <= int(met.min()) <= int(met.max()) < data.sizes["contexts"]:
        raise InputError(
            f"{what} needs contexts from 0 to {data.sizes['contexts'] - 1}; the Dataset has others, {_EXPECTED}"
        )
    settings = config(data)
    if not isinstance(settings.get("policies"), list) or not isinstance(settings.get("horizon"), int):
        raise InputError(f"{what} needs the configuration in the attribute 'config'; {_EXPECTED}")
    return data.transpose(*RUN_AXES, "step", ..., missing_dims="ignore")


def _check_variable(data: xr.Dataset, name: str, what: str) -> None:
    """Reject a variable that is missing, has other axes than expected, or is not finite."""
    if name not in data:
        raise InputError(f"{what} needs {name!r}, which the Dataset lacks; {_EXPECTED}")
    found, axes = data.variables[name], AXES.get(name, (*RUN_AXES, "step"))
    if found.dtype.kind not in "buif":
        raise InputError(f"{what} needs numbers in {name!r}; got {found.dtype}, {_EXPECTED}")
    if set(found.dims) != set(axes):
        given = ", ".join(map(str, found.dims)) or "none"
        raise InputError(f"{what} needs {name!r} with the axes {', '.join(axes)}; got {given}, {_EXPECTED}")
    if name not in MAY_BE_NAN and not np.isfinite(found.values.sum()):  # faster than checking each number
        raise InputError(f"{what} needs finite numbers in {name!r}; the Dataset has others, {_EXPECTED}")


def _check_axes(data: xr.Dataset, what: str) -> None:
    for axis in RUN_AXES:
        if axis not in data.dims:
            raise InputError(
                f"{what} needs the axes {', '.join(RUN_AXES)}; the Dataset lacks {axis!r}, {_EXPECTED}, "
                f"or a selection by lists such as data.isel({axis}=[0])"
            )
    if "step" in data.coords and "step" not in data.dims:
        raise InputError(f"{what} needs all steps or none; the Dataset has one, {_EXPECTED}")
    for axis in RUN_AXES:
        if axis not in data.coords:
            raise InputError(f"{what} needs the names of each {axis}; the Dataset lacks them, {_EXPECTED}")
    if "step" in data.dims and ("step" not in data.coords or data["step"].dtype.kind not in "iu"):
        raise InputError(f"{what} needs the number of each step; the Dataset lacks it, {_EXPECTED}")
    for axis in (*RUN_AXES, "step"):
        if axis in data.dims and data.sizes[axis] == 0 and axis != "step":
            raise InputError(f"{what} needs at least one entry on axis {axis!r}; the Dataset has none")
        if axis in data.coords and axis in data.dims and np.unique(data[axis].values).size < data.sizes[axis]:
            raise InputError(f"{what} needs each {axis} once; the Dataset has one of them twice, {_EXPECTED}")
