"""Who arrives when, without running any policy: arrivals depend on the draws alone."""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numba
import numpy as np
from numpy.typing import NDArray

from opportune.algorithm.rng import ARRIVAL, categorical, draw
from opportune.engine.compiled import compiled, step_function
from opportune.engine.threads import parts_of, share
from opportune.worlds.linear import LinearWorld

STRETCH = 1_000_000  # steps between two looks at whether to stop


class Arrivals(NamedTuple):
    """What contexts arrive by, in worlds of one schedule."""

    slot_of: NDArray[np.int64]  # [L]
    cumulative: NDArray[np.float64]  # [W, slots, K]
    stay: NDArray[np.float64]  # [W]


def arrivals_of(worlds: Sequence[LinearWorld]) -> Arrivals:
    """Them, stacked."""
    cumulative = np.stack([world.cumulative for world in worlds])
    return Arrivals(worlds[0].slot_of, cumulative, np.array([world.stay for world in worlds]))


def count_type(horizon: int) -> type[np.integer[Any]]:
    """The type of counts up to the horizon: the smaller it is, the less there is to keep and to copy."""
    return np.int32 if horizon < 2**31 else np.int64


def count_contexts(worlds: Sequence[LinearWorld], streams: NDArray[np.uint64], horizon: int, seed: int) -> Any:
    """How often each context arrives in each run: streams[R, W] -> [W, R, K]."""
    arrivals = arrivals_of(worlds)
    counts = np.zeros((*streams.shape[::-1], arrivals.cumulative.shape[2]), dtype=count_type(horizon))

    def work(bound: tuple[int, int], stop: NDArray[np.int64]) -> None:
        context_counts(np.uint64(seed), streams, *arrivals, horizon, *bound, counts, stop)

    threads = numba.get_num_threads()
    share(work, parts_of(streams.size, threads), threads)
    return counts


@compiled(nogil=True)
def context_counts(seed, streams, slot_of, cumulative, stay, horizon, first, last, counts, stop):  # type: ignore[no-untyped-def]
    """The counting, for the runs first..last of all: counts[W, R, K]."""
    for i in range(first, last):
        w, r = i // streams.shape[0], i % streams.shape[0]
        context = -1
        for t in range(0, horizon, STRETCH):
            if stop[0] != 0:
                return
            end = min(t + STRETCH, horizon)
            context = count_run(seed, streams[r, w], slot_of, cumulative[w], stay[w], t, end, counts[w, r], context)


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
