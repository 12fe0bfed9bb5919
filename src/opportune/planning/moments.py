"""The values of the variables at simulated moments, for finite contexts and for numeric ones.

A run keeps the number of a finite context. Values that may be any number it does not keep; as every draw is a pure
function of (seed, stream, step), they are drawn again here, and are the same.
"""

import math
from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from opportune.planning.settings import Settings
from opportune.problems.history import History
from opportune.simulation.pack import streams_of
from opportune.simulation.visit import visit
from opportune.study.arrivals import sizes_of, visibility_of
from opportune.study.naming import value_name, variable_name

Floats = NDArray[np.float64]
CLASSES = 4
"""A variable that may be any number is shown in this many classes, as near to equally frequent as its values allow."""


class Seen(NamedTuple):
    """A variable that the revealer sees: its level or class at each moment, and what these are called."""

    name: str
    label: str
    """What people call it."""
    place: NDArray[np.int64]
    labels: list[str]


class Moments:
    """The moments of a plan's runs: contexts by number, as the run kept them, or values, drawn once."""

    def __init__(self, settings: Settings, worlds: Sequence[Any], replicates: int) -> None:
        self.settings, self.worlds, self.replicates = settings, worlds, replicates

    @cached_property
    def values(self) -> Floats:
        """Values of numeric contexts: [participant, replicate, step, variable]."""
        return drawn_values(self.settings, self.worlds, self.replicates)

    def of(self, data: xr.Dataset) -> Any:
        """The moments of these runs one after the other, as `seen_variables` takes them."""
        if not self.settings.study.continuous:
            return data["context"].values.ravel()
        return self.values.reshape(-1, self.values.shape[-1])


def drawn_values(settings: Settings, worlds: Sequence[Any], replicates: int) -> Floats:
    """The values of all variables where contexts are not finite: [participant, replicate, step, variable]."""
    streams = streams_of(0, replicates, len(worlds))
    actions = np.zeros(settings.horizon, dtype=np.int64)
    return np.array(
        [
            [visit(world, actions, seed=settings.seed, stream=int(streams[r, w])).values for r in range(replicates)]
            for w, world in enumerate(worlds)
        ]
    )


def seen_variables(settings: Settings, moments: Any) -> list[Seen]:
    """Levels or classes of every variable that is public or sensed, in the study's words.

    Variables of the person's own past are left out: these moments were drawn without decisions.

    Args:
        settings: the plan's.
        moments: numbers of contexts where these are finite, [...]; else values as `drawn_values` has them, [..., V].

    """
    study, found = settings.study, []
    places = () if study.continuous else np.unravel_index(moments, tuple(sizes_of(study.variables).values()))
    visibility = visibility_of(study.settings)
    for v, (name, variable) in enumerate(study.variables.items()):
        if visibility.get(name) == "reported" or isinstance(variable, History):
            continue  # what is computed from the past depends on what was decided
        levels, label = settings.levels(name), variable_name(study.settings, name)
        if levels is None:
            found.append(Seen(name, label, *classes(moments[..., v])))
        else:
            place = moments[..., v] if study.continuous else places[v]
            labels = [value_name(study.settings, name, level) for level in levels]
            found.append(Seen(name, label, place.astype(np.int64), labels))
    return found


def classes(values: Floats) -> tuple[NDArray[np.int64], list[str]]:
    """The quartile class of each number (fewer classes where many are equal), and a label with each class's range."""
    distinct, number, counts = np.unique(values, return_inverse=True, return_counts=True)
    rank = (np.cumsum(counts) - counts / 2.0) / values.size  # equal numbers have their middle rank, and one class
    _, of_number = np.unique((CLASSES * rank).astype(np.int64), return_inverse=True)
    place = of_number[number.reshape(values.shape)]
    ends = [(distinct[of_number == c].min(), distinct[of_number == c].max()) for c in range(of_number.max() + 1)]
    step = max(float(distinct[-1] - distinct[0]) / 100.0, 1e-12)  # what is told apart: a hundredth of all there is
    whole = bool(np.all(distinct == np.round(distinct)))
    places = 0 if whole else max(0, -math.floor(math.log10(step)))
    texts = [[f"{end:,.{places}f}" for end in pair] for pair in ends]
    return place, [low if low == high else f"{low} to {high}" for low, high in texts]
