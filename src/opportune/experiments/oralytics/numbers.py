"""The numbers of the brushing experiment: means over users and trials, and differences between policies."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from opportune.analysis.intervals import interval_of_runs, observations
from opportune.experiments.oralytics.grid import REFERENCES, THREE

Numbers = dict[str, Any]
Floats = NDArray[np.float64]


def all_numbers(parts: Mapping[str, xr.Dataset]) -> Numbers:
    """The numbers of every task, and the curves of the paper's experiment."""
    return {task: _task_numbers(data) for task, data in parts.items()} | {"curves": _curves(parts["base"])}


def summarise(values: xr.DataArray) -> Numbers:
    """Mean over users and trials, half its 95% interval over users, and the paper's standard error.

    `se_paper` is sum_i sd_i / (N sqrt(n)), which adds up the standard errors of N users in n trials as if their errors
    were perfectly correlated.
    """
    every: Floats = values.transpose("world", "replicate").values
    users, trials = every.shape
    found = interval_of_runs(values)
    return {
        "mean": float(every.mean()),
        "half_width": found.half_width,
        "se_paper": float(every.std(axis=1, ddof=1).sum() / (users * np.sqrt(trials))),
    }


def whole_course(data: xr.Dataset, name: str = "net") -> xr.DataArray:
    """Mean over the whole course, in seconds per session, net of the cost by default."""
    return data[name].isel(time=-1, drop=True)


def lead(data: xr.Dataset, first: str, second: str) -> Floats:
    """The lead of `first` over `second`, user by user on the same draws, in seconds per session."""
    values = whole_course(data)
    return observations(values.sel(policy=first, drop=True) - values.sel(policy=second, drop=True))


def lead_by_trial(data: xr.Dataset, first: str, second: str) -> Floats:
    """The lead of `first` over `second`, trial by trial: the errors of users who learn together are correlated."""
    values = whole_course(data)
    difference = values.sel(policy=first, drop=True) - values.sel(policy=second, drop=True)
    by_trial: Floats = difference.mean("world").values
    return by_trial


def _task_numbers(data: xr.Dataset) -> Numbers:
    net, brushed = whole_course(data), whole_course(data, "outcome").values
    totals = {name: data[name].values for name in ("sent", "sent_late", "spent", "reveals", "early_reveals")}
    numbers: Numbers = {}
    for i, policy in enumerate(data["policy"].values):
        one = {name: values[i] for name, values in totals.items()}
        numbers[str(policy)] = {
            **summarise(net[i]),
            "brushed": float(brushed[i].mean()),
            "sent": float(one["sent"].mean()),
            "late_always": float((one["sent_late"] == 1.0).mean()),
            "late_never": float((one["sent_late"] == 0.0).mean()),
            "spent": float(one["spent"].mean()),
            "reveals": float(one["reveals"].mean()),
            "early_reveals": float(one["early_reveals"].mean()),
        }
    return numbers


def _curves(data: xr.Dataset) -> Numbers:
    curves: Numbers = {"times": [int(t) for t in data["time"].values]}
    for policy in (*reversed(THREE), *REFERENCES):
        points = [summarise(data["outcome"].sel(policy=policy, time=t)) for t in data["time"].values]
        curves[policy] = {key: [p[key] for p in points] for key in ("mean", "half_width", "se_paper")}
    return curves
