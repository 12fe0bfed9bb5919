"""Means and their 95% intervals by Student's t: one rule for tables, figures and claims.

Runs of one world are correlated, so each observation is a world's mean over its replicates or, with a single world,
one of its replicates. With n observations of standard deviation sd the interval is

    mean ± t_{n-1, 0.975} sd / sqrt(n),

which is also valid for few observations. One observation has no known error: its interval is NaN.
"""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import xarray as xr
from numpy.typing import ArrayLike, NDArray
from scipy.special import stdtrit  # much faster to import than scipy.stats

from opportune import checks
from opportune.errors import InputError

RUNS = ("world", "replicate")
"""The axes of runs; the first one present counts as observations."""
AXES = ("policy", *RUNS, "step")
"""The axes of results, some of which may already have been averaged or selected."""


class Interval(NamedTuple):
    """A mean and half the width of its 95% interval, which is NaN if unknown."""

    mean: float
    half_width: float

    @property
    def low(self) -> float:
        """The lower limit."""
        return self.mean - self.half_width

    @property
    def high(self) -> float:
        """The upper limit."""
        return self.mean + self.half_width

    def text(self, digits: int = 1) -> str:
        """The mean and half the interval's width as text, with this many digits after the point."""
        half = "" if np.isnan(self.half_width) else f" ± {self.half_width:.{digits}f}"
        return f"{self.mean:.{digits}f}{half}"

    def __str__(self) -> str:
        return self.text()


def interval(observations: ArrayLike) -> Interval:
    """The mean of independent observations with its 95% interval."""
    values = checks.numbers("observations", observations, "numbers", truths=True).ravel()
    if values.size == 0:
        raise InputError("observations are empty; expected at least one number")
    sd = values.std(ddof=1) if values.size > 1 else np.nan
    return Interval(float(values.mean()), float(sd * _half_widths_per_sd(values.size)))


def interval_of_runs(values: xr.DataArray) -> Interval:
    """The mean over runs with its 95% interval."""
    return interval(observations(values))


def observations(values: xr.DataArray) -> NDArray[np.float64]:
    """The independent observations among runs: the worlds' means, or the replicates of the only world."""
    outer = _outer(values, RUNS)
    means: NDArray[np.float64] = values.mean([d for d in RUNS if d in values.dims and d != outer]).values
    return means


def mean_interval(values: xr.DataArray, over: Sequence[str] = RUNS) -> xr.Dataset:
    """Mean over runs with a 95% interval by Student's t, for each entry of the other axes: mean, low and high.

    Runs of one world are correlated, so with several worlds the interval comes from the spread of the worlds' means;
    with one world, from the spread of its replicates.
    """
    over = [checks.text("an entry of over", axis) for axis in checks.listed("over", over, "names of axes", most=100)]
    outer = _outer(values, over)
    for axis in over:
        checks.choice("an entry of over", axis, list(dict.fromkeys([*map(str, values.dims), *AXES])))
    means = values.mean([d for d in over if d in values.dims and d != outer])
    mean, size = means.mean(outer), means.sizes[outer]
    sd = means.std(outer, ddof=1) if size > 1 else xr.full_like(mean, np.nan)
    half = sd * _half_widths_per_sd(size)
    return xr.Dataset({"mean": mean, "low": mean - half, "high": mean + half})


def _outer(values: xr.DataArray, over: Sequence[str]) -> str:
    """The axis whose entries count as observations: the first with several entries, else the first."""
    if not isinstance(values, xr.DataArray):
        raise InputError(f"values is {checks.brief(values)}; expected a DataArray, such as regret(data)")
    if values.dtype.kind not in "buif":
        raise InputError(f"values holds {values.dtype}; expected numbers")
    dims = [d for d in over if isinstance(d, str) and d in values.dims and values.sizes[d] > 0]
    if not dims:
        raise InputError(
            f"nothing to average over: {checks.brief(list(over))} are not among the axes {list(values.dims)}"
        )
    return next((d for d in dims if values.sizes[d] > 1), dims[0])


def _half_widths_per_sd(size: int) -> float:
    """Half the interval's width for a standard deviation of 1."""
    return float(stdtrit(size - 1, 0.975)) / size**0.5 if size > 1 else np.nan
