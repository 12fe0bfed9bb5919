"""A plan's simulations: each is run once and kept on disk until the plan is complete.

A part holds each participant's means, or every step of a few replications.
"""

import hashlib
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from opportune.analysis.parts import Parts
from opportune.errors import DataError
from opportune.planning.settings import Settings
from opportune.policy import Policy
from opportune.simulation import simulate

Progress = Callable[[str, float], None]
"""Takes the name of the current simulation and the number of steps simulated so far."""


class Simulations:
    """Runs a plan's simulations, or reads results that an interrupted call left on disk."""

    def __init__(self, parts: Parts, progress: Progress) -> None:
        self.parts = parts
        self.progress = progress
        self.steps = 0.0

    def run(self, name: str, what: str, steps: float, compute: Callable[[], xr.Dataset]) -> xr.Dataset:
        """The results of one part: read from disk if present and undamaged, else computed and kept."""
        self.progress(what, self.steps)
        try:
            data = self.parts.load(name)
        except DataError:
            data = None
        if data is None:
            data = self.parts.save(name, compute())
        self.steps += steps
        self.progress(what, self.steps)
        return data


def parts_of(settings: Settings, out: Path) -> Parts:
    """The parts of this plan; a plan with another study or other settings uses another folder."""
    study = settings.study
    rows = b"" if study.table is None else repr(sorted(study.table.columns.items())).encode()
    return Parts(
        out, f"plan-{study.name}",
        [study.settings.model_dump(mode="json"), settings.budgets, settings.target, settings.participants,
         settings.replicates, hashlib.sha256(rows).hexdigest()],
    )  # fmt: skip


def means(settings: Settings, worlds: Sequence[Any], policies: Sequence[Policy], replicates: int) -> xr.Dataset:
    """Each participant's means over replications, policies in order: outcome per day, total nudges, total reveals."""
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
    """Each participant's means if some leave early; `staying` is the probability of still being there at each decision.

    With a budget of their own, participants' runs do not depend on whether they leave later, so these means are
    computed from runs to the end. The outcome is per day that participants are in the study.
    """
    days = float(np.sum(staying)) / settings.per_day
    there = xr.DataArray(staying, dims="step")
    named = [replace(policy, name=f"{i}") for i, policy in enumerate(policies)]
    some = settings.traced_at_once
    parts = []
    for i in range(0, len(named), some):  # limits memory, as every step is kept
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
    """The values with policies and participants numbered, without other coordinates."""
    return xr.Dataset({name: (("policy", "world"), one.values) for name, one in values.items()})


def steps(
    settings: Settings, worlds: Sequence[Any], policies: Sequence[Policy], replicates: int
) -> Iterator[xr.Dataset]:
    """Every step under each policy, as `simulate` returns it."""
    named = [replace(policy, name=f"{i}") for i, policy in enumerate(policies)]
    some = max(1, settings.traced_at_once * settings.fewest_traced // replicates)
    for i in range(0, len(named), some):
        data = _simulate(settings, worlds, named[i : i + some], replicates, trace=True)
        for place in range(data.sizes["policy"]):
            yield data.isel(policy=place, drop=True)


def _simulate(
    settings: Settings, worlds: Sequence[Any], policies: Sequence[Policy], replicates: int, *, trace: bool
) -> xr.Dataset:
    # Few traced runs fit into memory, and the CPU has finished them before a GPU's kernel for them is built.
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
        timetable=settings.study.timetable(len(worlds)),
    )
