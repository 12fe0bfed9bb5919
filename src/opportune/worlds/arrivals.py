"""Who arrives when, without running any policy: arrivals depend on the draws alone."""

import numpy as np
from numba import prange

from opportune.core.compiled import compiled
from opportune.core.rng import ARRIVAL, categorical, draw


@compiled(parallel=True, nogil=True)
def context_counts(seed, streams, cumulative, horizon):  # type: ignore[no-untyped-def]
    """How often each context arrives in `horizon` steps: streams[W, R], cumulative[W, K] -> counts[W, R, K]."""
    worlds, replicates = streams.shape
    counts = np.zeros((worlds, replicates, cumulative.shape[1]), dtype=np.int64)
    for i in prange(worlds * replicates):
        w = i // replicates
        r = i % replicates
        for t in range(horizon):
            counts[w, r, categorical(draw(seed, streams[w, r], t + 1, ARRIVAL), cumulative[w])] += 1
    return counts


@compiled(parallel=True, nogil=True)
def context_sequences(seed, streams, cumulative, horizon):  # type: ignore[no-untyped-def]
    """The contexts that arrive: streams[W, R], cumulative[W, K] -> int16[W, R, T]."""
    worlds, replicates = streams.shape
    contexts = np.empty((worlds, replicates, horizon), dtype=np.int16)
    for i in prange(worlds * replicates):
        w = i // replicates
        r = i % replicates
        for t in range(horizon):
            contexts[w, r, t] = categorical(draw(seed, streams[w, r], t + 1, ARRIVAL), cumulative[w])
    return contexts
