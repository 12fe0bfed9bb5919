"""The numbers of the experiment on PACE: means over instances with their 95% intervals."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from opportune.analysis.intervals import interval, interval_of_runs, observations
from opportune.experiments.base import Config
from opportune.experiments.pace.grid import ALWAYS_SEND, BRUSHING, brushing_task, setting_budgets, setting_task
from opportune.experiments.pace.growth import PRICE
from opportune.experiments.pace.policies import ADAPTIVE, PACE, REVEALED, SPLIT
from opportune.experiments.studies import summary

Numbers = dict[str, Any]
Parts = Mapping[str, xr.Dataset]
Floats = NDArray[np.float64]


def all_numbers(config: Config, parts: Parts) -> Numbers:
    """Everything that tables and figures show."""
    return {
        **{kind: {str(b): _study(parts[f"{kind}-B{b}"]) for b in config["budgets"]} for kind in ("known", "unknown")},
        "floor": {str(b): _totals(parts[f"floor-B{b}"]) for b in config["budgets"]},
        "growth": {str(t): _growth(parts[f"T{t}"]) for t in config["horizons"]},
        "settings": {
            name: {str(b): _totals(parts[setting_task(name, b)]) for b in setting_budgets(config, name)}
            for name in config["settings"]
        },
        "brushing": {
            study: {str(c): _brushing(parts[brushing_task(study, c)]) for c in config["costs"]}
            for study in config["studies"]
        },
    }


def _totals(data: xr.Dataset) -> Numbers:
    return {
        "regret": summary(data), "realised_regret": summary(data, "final_realised"), "spent": summary(data, "spent")
    }  # fmt: skip


def _study(data: xr.Dataset) -> Numbers:
    found = _totals(data)
    if "information_reveal_loss" in data:
        found["information_reveal_loss"] = {
            p: interval_of_runs(data["information_reveal_loss"].sel(policy=p))._asdict() for p in SPLIT
        }
    return found


def _growth(data: xr.Dataset) -> Numbers:
    return {
        "lost": {rule: interval(data["lost"].sel(rule=rule).values)._asdict() for rule in (PACE, PRICE)},
        "regret": {p: interval(data["final_regret"].sel(policy=p).values)._asdict() for p in (PACE, ADAPTIVE)},
        "floor": interval(data["final_realised"].sel(policy=REVEALED).values)._asdict(),
    }


def _brushing(data: xr.Dataset) -> Numbers:
    return {p: interval_of_runs(data["net"].sel(policy=p))._asdict() for p in (*BRUSHING, ALWAYS_SEND)}


def ahead(data: xr.Dataset, first: str, second: str) -> Floats:
    """The lead of `first` over `second` in seconds per session, user by user on the same draws."""
    return observations(data["net"].sel(policy=first, drop=True) - data["net"].sel(policy=second, drop=True))
