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
    cumulative = np.stack([world.cumulative for world in worlds])
    stay = np.array([world.stay for world in worlds])
    return context_counts(np.uint64(seed), streams, worlds[0].slot_of, cumulative, stay, horizon)


@compiled(parallel=True, nogil=True)
def context_counts(seed, streams, slot_of, cumulative, stay, horizon):  # type: ignore[no-untyped-def]
    """The counting, in parallel over runs: cumulative[W, slots, K], stay[W]."""
    worlds, replicates = streams.shape
    counts = np.zeros((worlds, replicates, cumulative.shape[2]), dtype=np.int64)
    for i in prange(worlds * replicates):
        w = i // replicates
        r = i % replicates
        context = -1
        for t in range(horizon):
            u = draw(seed, streams[w, r], t + 1, ARRIVAL)
            if context < 0 or u >= stay[w]:
                rest = u if context < 0 else (u - stay[w]) / (1.0 - stay[w])
                context = categorical(rest, cumulative[w, slot_of[t % slot_of.shape[0]]])
            counts[w, r, context] += 1
    return counts
