"""Who arrives when, without running any policy: arrivals depend on the draws alone."""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numba import prange
from numpy.typing import NDArray

from opportune.core.compiled import compiled
from opportune.core.rng import ARRIVAL, categorical, draw
from opportune.worlds.linear import LinearWorld


def count_contexts(worlds: Sequence[LinearWorld], streams: NDArray[np.uint64], horizon: int, seed: int) -> Any:
    """How often each context arrives in each run: streams[W, R] -> [W, R, K]."""
    return context_counts(np.uint64(seed), streams, *_schedule(worlds), horizon)


def _schedule(worlds: Sequence[LinearWorld]) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """The slot of each step of the schedule's period, and each world's cumulative probabilities in each slot."""
    return worlds[0].problem.slots()[0], np.stack([world.cumulative for world in worlds])


@compiled(parallel=True, nogil=True)
def context_counts(seed, streams, slot_of, cumulative, horizon):  # type: ignore[no-untyped-def]
    """The counting, in parallel over runs: cumulative[W, slots, K]."""
    worlds, replicates = streams.shape
    counts = np.zeros((worlds, replicates, cumulative.shape[2]), dtype=np.int64)
    for i in prange(worlds * replicates):
        w = i // replicates
        r = i % replicates
        for t in range(horizon):
            probabilities = cumulative[w, slot_of[t % slot_of.shape[0]]]
            counts[w, r, categorical(draw(seed, streams[w, r], t + 1, ARRIVAL), probabilities)] += 1
    return counts
