"""The values of the variables at simulated moments, for finite and for continuous contexts.

A run records the number of a finite context, but not the values of a continuous one. As every draw is a pure function
of (seed, stream, step), those values are drawn again here, with the same results.
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
"""The number of classes that a continuous variable is shown in, as near to equally frequent as its values allow."""


class Seen(NamedTuple):
    """A variable that the revealer sees: its level or class at each moment, and their labels."""

    name: str
    label: str
    """The variable's name for readers."""
    place: NDArray[np.int64]
    labels: list[str]


class Moments:
    """The moments of a plan's runs: context numbers from the run, or values drawn once."""

    def __init__(self, settings: Settings, worlds: Sequence[Any], replicates: int) -> None:
        self.settings, self.worlds, self.replicates = settings, worlds, replicates

    @cached_property
    def values(self) -> Floats:
        """Values of continuous contexts: [participant, replicate, step, variable]."""
        return drawn_values(self.settings, self.worlds, self.replicates)

    def of(self, data: xr.Dataset) -> Any:
        """The moments of these runs, as `seen_variables` expects them."""
        if not self.settings.study.continuous:
            return data["context"].values.ravel()
        return self.values.reshape(-1, self.values.shape[-1])


def drawn_values(settings: Settings, worlds: Sequence[Any], replicates: int) -> Floats:
    """The values of all variables of continuous contexts: [participant, replicate, step, variable]."""
    streams = streams_of(0, replicates, len(worlds))
    actions = np.zeros(settings.horizon, dtype=np.int64)
    return np.array(
        [
            [visit(world, actions, seed=settings.seed, stream=int(streams[r, w])).values for r in range(replicates)]
            for w, world in enumerate(worlds)
        ]
    )


def seen_variables(settings: Settings, moments: Any) -> list[Seen]:
    """Levels or classes of every public or sensed variable, in the study's words.

    Variables of the participant's own history are left out, because these moments were drawn without decisions.

    Args:
        settings: the plan's settings.
        moments: context numbers if contexts are finite, [...]; else values from `drawn_values`, [..., V].

    """
    study, found = settings.study, []
    places = () if study.continuous else np.unravel_index(moments, tuple(sizes_of(study.variables).values()))
    visibility = visibility_of(study.settings)
    for v, (name, variable) in enumerate(study.variables.items()):
        if visibility.get(name) == "reported" or isinstance(variable, History):
            continue  # values computed from history depend on decisions
        levels, label = settings.levels(name), variable_name(study.settings, name)
        if levels is None:
            found.append(Seen(name, label, *classes(moments[..., v])))
        else:
            place = moments[..., v] if study.continuous else places[v]
            labels = [value_name(study.settings, name, level) for level in levels]
            found.append(Seen(name, label, place.astype(np.int64), labels))
    return found


def classes(values: Floats) -> tuple[NDArray[np.int64], list[str]]:
    """The quartile class of each number (fewer classes if many are equal), and a label with each class's range."""
    distinct, number, counts = np.unique(values, return_inverse=True, return_counts=True)
    rank = (np.cumsum(counts) - counts / 2.0) / values.size  # equal numbers share their middle rank, so one class
    _, of_number = np.unique((CLASSES * rank).astype(np.int64), return_inverse=True)
    place = of_number[number.reshape(values.shape)]
    ends = [(distinct[of_number == c].min(), distinct[of_number == c].max()) for c in range(of_number.max() + 1)]
    step = max(float(distinct[-1] - distinct[0]) / 100.0, 1e-12)  # labels are rounded to a hundredth of the range
    whole = bool(np.all(distinct == np.round(distinct)))
    places = 0 if whole else max(0, -math.floor(math.log10(step)))
    texts = [[f"{end:,.{places}f}" for end in pair] for pair in ends]
    return place, [low if low == high else f"{low} to {high}" for low, high in texts]
