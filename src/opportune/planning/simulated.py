"""What a plan keeps of a simulation: each participant's means, or every step of a few replications."""

from collections.abc import Iterator, Sequence
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
    named = [replace(policy, name=f"{i}") for i, policy in enumerate(policies)]
    some = settings.traced_at_once
    parts = []
    for i in range(0, len(named), some):  # every step is kept meanwhile
        data = _simulate(settings, worlds, named[i : i + some], replicates, trace=True)
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


def steps(
    settings: Settings, worlds: Sequence[Any], policies: Sequence[Policy], replicates: int
) -> Iterator[xr.Dataset]:
    """Every step under each policy, as `simulate` gives it."""
    named = [replace(policy, name=f"{i}") for i, policy in enumerate(policies)]
    some = max(1, settings.traced_at_once * settings.fewest_traced // replicates)
    for i in range(0, len(named), some):
        data = _simulate(settings, worlds, named[i : i + some], replicates, trace=True)
        for place in range(data.sizes["policy"]):
            yield data.isel(policy=place, drop=True)


def _simulate(
    settings: Settings, worlds: Sequence[Any], policies: Sequence[Policy], replicates: int, *, trace: bool
) -> xr.Dataset:
    # Steps are kept of no more runs than find room, which the CPU has done before a GPU's kernel for them is built.
    device = "cpu" if trace else settings.device
    return simulate(
        worlds,
        policies,
        horizon=settings.horizon,
        replicates=replicates,
        seed=settings.seed,
        trace=trace,
        progress=False,
        device=device,
    )
