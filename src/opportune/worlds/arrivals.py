"""Arrivals by table, which a GPU counts beside the runs: those of linear and drifting worlds, not of others' rules."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from opportune.core.compiled import step_function
from opportune.core.rng import ARRIVAL, categorical, draw
from opportune.worlds.drifting import DriftingWorld
from opportune.worlds.linear import LinearWorld


class Arrivals(NamedTuple):
    """What contexts arrive by, in worlds of one schedule."""

    slot_of: NDArray[np.int64]  # [L]
    cumulative: NDArray[np.float64]  # [W, slots, K]
    stay: NDArray[np.float64]  # [W]


def by_table(world: LinearWorld) -> bool:
    """Whether contexts arrive by the rules of this package: a subclass may have one of its own."""
    return type(world).arrive in {LinearWorld.arrive, DriftingWorld.arrive}


def arrivals_of(worlds: Sequence[LinearWorld]) -> Arrivals:
    """The tables of several worlds, stacked."""
    cumulative = np.stack([world.cumulative for world in worlds])
    return Arrivals(worlds[0].slot_of, cumulative, np.array([world.stay for world in worlds]))


@step_function
def count_run(seed, stream, slot_of, cumulative, stay, first, last, counts, context):  # type: ignore[no-untyped-def]
    """Count the contexts of the steps first..last of a run, after `context` (-1: at its start); gives the last one."""
    for t in range(first, last):
        u = draw(seed, stream, t + 1, ARRIVAL)
        if context < 0 or u >= stay:
            rest = u if context < 0 else (u - stay) / (1.0 - stay)
            context = categorical(rest, cumulative[slot_of[t % slot_of.shape[0]]])
        counts[context] += 1
    return context
