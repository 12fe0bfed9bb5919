"""What a plan keeps of a simulation: each participant's means, or every step of a few replications."""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import xarray as xr

from opportune.planning.settings import Settings
from opportune.policy import Policy
from opportune.simulation import simulate


def means(settings: Settings, worlds: Sequence[Any], policies: Sequence[Policy], replicates: int) -> xr.Dataset:
    """Each participant's means over replications, policies in order: outcome per day, nudges and reveals in all."""
    named = [replace(policy, name=f"{i}") for i, policy in enumerate(policies)]
    data = _simulate(settings, worlds, named, replicates, trace=False)
    return _numbered(
        {
            "outcome": data["total_outcome"].mean("replicate") / settings.days,
            "nudges": data["nudges"].astype(float).mean("replicate"),
            "reveals": data["reveals"].astype(float).mean("replicate"),
        }
    )


def stay_means(
    settings: Settings, worlds: Sequence[Any], policies: Sequence[Policy], replicates: int, staying: Any
) -> xr.Dataset:
    """The same where participants may leave: `staying` is how probable it is that one is there at each decision.

    Until one leaves, a run with a budget of its own goes as if one stayed, so what leavers lose can be counted from
    runs that go on to the end. The outcome is per day that participants are in the study.
    """
    days = float(np.sum(staying)) / settings.per_day
    there = xr.DataArray(staying, dims="step")
    parts = []
    for policy in policies:  # one at a time: every step is kept meanwhile
        data = _simulate(settings, worlds, [policy], replicates, trace=True)
        parts.append(
            _numbered(
                {
                    "outcome": (data["outcome"] * there).sum("step").mean("replicate") / days,
                    "nudges": (data["nudged"] * there).sum("step").mean("replicate"),
                    "reveals": (data["revealed"] * there).sum("step").mean("replicate"),
                }
            )
        )
    return xr.concat(parts, "policy")


def _numbered(values: dict[str, xr.DataArray]) -> xr.Dataset:
    """Policies and participants by their numbers, and nothing else beside the values."""
    return xr.Dataset({name: (("policy", "world"), one.values) for name, one in values.items()})


def steps(settings: Settings, worlds: Sequence[Any], policy: Policy, replicates: int) -> xr.Dataset:
    """Every step, as `simulate` gives it, without the axis of policies."""
    return _simulate(settings, worlds, [policy], replicates, trace=True).isel(policy=0, drop=True)


def _simulate(
    settings: Settings, worlds: Sequence[Any], policies: Sequence[Policy], replicates: int, *, trace: bool
) -> xr.Dataset:
    return simulate(
        worlds,
        policies,
        horizon=settings.horizon,
        replicates=replicates,
        seed=settings.seed,
        trace=trace,
        progress=False,
        device=settings.device,
    )
