"""How often each context arrives in each run: from a trace, or by the world's own rule without running any policy."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from opportune.core.compiled import compiled
from opportune.core.layout import Layout
from opportune.core.pointers import flat
from opportune.core.protocol import Draws
from opportune.core.registry import arrive, start_world
from opportune.core.rng import ARRIVAL, draw_pair
from opportune.core.threads import parts_of, share
from opportune.core.views import participant
from opportune.simulation.cpu import make_room
from opportune.simulation.loop import Batch

COUNTED = 1_000_000  # steps of a trace that are counted at a time


def count_type(horizon: int) -> type[np.integer[Any]]:
    """The type of counts up to the horizon: the smaller it is, the less there is to keep and to copy."""
    return np.int32 if horizon < 2**31 else np.int64


def count_traced(context: NDArray[np.int16], contexts: int) -> NDArray[Any]:
    """How often each context arrived, from the trace of any policy: [R, W, T] -> [W, R, K]."""
    replicates, worlds, steps = context.shape
    counts = np.empty((worlds, replicates, contexts), dtype=count_type(steps))
    some = max(1, COUNTED // steps)  # so that little is copied at a time
    for w in range(worlds):
        for first in range(0, replicates, some):
            part = context[first : first + some, w]
            numbered = contexts * np.arange(len(part))[:, None] + part
            found = np.bincount(numbered.ravel(), minlength=len(part) * contexts)
            counts[w, first : first + some] = found.reshape(-1, contexts)
    return counts


@compiled(nogil=True)
def count_arrivals(batch, at, seed, streams, horizon, first, last, room, counts, stop):  # type: ignore[no-untyped-def]
    """Count the contexts that arrive in the runs first..last of all, by the world's own rule: counts[W, R, K]."""
    for i in range(first, last):
        w, r = i // streams.shape[0], i % streams.shape[0]
        p = participant(
            flat(at), flat(batch.constants[w]), flat(batch.rules[0, w]), flat(room.model[0]), flat(room.counts[0]),
            flat(room.snapshot[0]), flat(room.trail[0]), flat(room.budget[0]), flat(room.scratch),
        )  # fmt: skip
        world, history, draws = flat(batch.worlds[w]), flat(room.history[0]), Draws(seed, streams[r, w])
        start_world(batch.kind, world, history)
        for t in range(horizon):
            if stop[0] != 0:
                return
            arrival, _ = draw_pair(seed, draws.stream, t + 1, ARRIVAL)
            counts[w, r, arrive(batch.kind, world, history, p, draws, t + 1, arrival).context] += 1


def count_contexts(batch: Batch, at: Layout, seed: int, streams: NDArray[np.uint64], horizon: int,
                   threads: int) -> NDArray[np.integer[Any]]:  # fmt: skip
    """How often each context arrives in each run, without running any policy: streams[R, W] -> [W, R, K]."""
    counts = np.zeros((*streams.shape[::-1], at.sizes.contexts), dtype=count_type(horizon))
    places = at.numbers()

    def work(bound: tuple[int, int], stop: NDArray[np.int64]) -> None:
        count_arrivals(batch, places, np.uint64(seed), streams, horizon, *bound, make_room(at, batch, 1), counts, stop)

    share(work, parts_of(streams.size, threads), threads)
    return counts
