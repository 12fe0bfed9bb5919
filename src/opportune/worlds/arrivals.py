"""Who arrives when, without running any policy: arrivals depend on the draws alone."""

from collections.abc import Sequence
from typing import Any

import numba
import numpy as np
from numpy.typing import NDArray

from opportune.core.compiled import compiled, step_function
from opportune.core.rng import ARRIVAL, categorical, draw
from opportune.core.threads import parts_of, share
from opportune.worlds.linear import LinearWorld


def count_contexts(worlds: Sequence[LinearWorld], streams: NDArray[np.uint64], horizon: int, seed: int) -> Any:
    """How often each context arrives in each run: streams[W, R] -> [W, R, K]."""
    cumulative = np.stack([world.cumulative for world in worlds])
    stay = np.array([world.stay for world in worlds])
    counts = np.zeros((*streams.shape, cumulative.shape[2]), dtype=np.int64)

    def work(bound: tuple[int, int], stop: NDArray[np.int64]) -> None:
        context_counts(np.uint64(seed), streams, worlds[0].slot_of, cumulative, stay, horizon, *bound, counts, stop)

    threads = numba.get_num_threads()
    share(work, parts_of(streams.size, threads), threads)
    return counts


@compiled(nogil=True)
def context_counts(seed, streams, slot_of, cumulative, stay, horizon, first, last, counts, stop):  # type: ignore[no-untyped-def]
    """The counting, for the runs first..last of all: cumulative[W, slots, K], stay[W], counts[W, R, K]."""
    for i in range(first, last):
        w, r = i // streams.shape[1], i % streams.shape[1]
        count_run(seed, streams[w, r], slot_of, cumulative[w], stay[w], horizon, counts[w, r], stop)


@step_function
def count_run(seed, stream, slot_of, cumulative, stay, horizon, counts, stop):  # type: ignore[no-untyped-def]
    """The contexts of one run."""
    context = -1
    for t in range(horizon):
        if stop[0] != 0:
            return
        u = draw(seed, stream, t + 1, ARRIVAL)
        if context < 0 or u >= stay:
            rest = u if context < 0 else (u - stay) / (1.0 - stay)
            context = categorical(rest, cumulative[slot_of[t % slot_of.shape[0]]])
        counts[context] += 1
