"""The batch loop on the CPU: runs in parallel, each run's state in cache for its whole horizon."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numba import njit
from numpy.typing import NDArray

from opportune.core.compiled import step_function
from opportune.core.state import PRICE, PURSE_SIZE, SIZE
from opportune.core.step import begin
from opportune.simulate.loop import FINAL_PRICE, RECORD, Batch, record, run_step
from opportune.worlds.step import start


@step_function
def run_alone(batch, at, policy, w, seed, stream, horizon, totals, numbers, marks):  # type: ignore[no-untyped-def]
    """One participant with a budget of its own, from the first step to the last."""
    facts = batch.facts[w]
    world = batch.worlds[w]
    rule = batch.rules[policy, w]
    s = np.empty(at[SIZE])
    history = np.empty(batch.history)
    purse = np.empty(PURSE_SIZE)
    begin(at, facts, s, purse)
    start(batch.kind, world, history)
    out = np.empty(RECORD)
    for t in range(horizon):
        run_step(batch.kind, world, at, facts, rule, s, history, purse, seed, stream, t + 1, out)
        record(out, t, totals, numbers, marks)
    totals[FINAL_PRICE] = purse[PRICE]


@step_function
def run_together(batch, at, policy, seed, streams, horizon, totals, numbers, marks):  # type: ignore[no-untyped-def]
    """All worlds as participants of one study with one purse: at each step, decisions in participant order."""
    participants = streams.shape[0]
    states = np.empty((participants, at[SIZE]))
    histories = np.empty((participants, batch.history))
    purse = np.empty(PURSE_SIZE)
    out = np.empty(RECORD)
    for w in range(participants):
        begin(at, batch.facts[w], states[w], purse)
        start(batch.kind, batch.worlds[w], histories[w])
    for t in range(horizon):
        for w in range(participants):
            rule = batch.rules[policy, w]
            run_step(
                batch.kind, batch.worlds[w], at, batch.facts[w], rule, states[w], histories[w], purse,
                seed, streams[w], t + 1, out,
            )  # fmt: skip
            record(out, t, totals[w], numbers[w], marks[w])
    for w in range(participants):
        totals[w, FINAL_PRICE] = purse[PRICE]


@njit(cache=True, nogil=True)
def run_some(batch, at, policies, shared, seed, streams, horizon, begin_at, end_at, totals, numbers, marks):  # type: ignore[no-untyped-def]
    """Runs begin_at..end_at of all: every policy of `policies` in every world for every replicate.

    streams[R, W]; outputs [R, Q, W, ...]. A run is one participant; with `shared`, one study whose participants are
    the worlds. Holds no lock, so that threads can share the work.
    """
    replicates, worlds = streams.shape
    chosen = policies.shape[0]
    for i in range(begin_at, end_at):
        if shared:
            r, q = i // chosen, i % chosen
            run_together(
                batch, at, policies[q], seed, streams[r], horizon, totals[r, q], numbers[r, q], marks[r, q]
            )
        else:
            r, q, w = i // (chosen * worlds), i // worlds % chosen, i % worlds
            run_alone(
                batch, at, policies[q], w, seed, streams[r, w], horizon,
                totals[r, q, w], numbers[r, q, w], marks[r, q, w],
            )  # fmt: skip


def run_batch(batch: Batch, at: NDArray[np.int64], policies: NDArray[np.int64], shared: bool, seed: int,
              streams: NDArray[np.uint64], horizon: int, totals: NDArray[np.float64],
              numbers: NDArray[np.float64], marks: NDArray[np.int16], threads: int) -> None:  # fmt: skip
    """All runs, by `threads` threads that take pieces of the work as they get free."""
    runs = streams.shape[0] * policies.size * (1 if shared else streams.shape[1])
    piece = max(1, -(-runs // (8 * threads)))
    bounds = [(first, min(first + piece, runs)) for first in range(0, runs, piece)]

    def work(bound: tuple[int, int]) -> None:
        run_some(batch, at, policies, shared, np.uint64(seed), streams, horizon, *bound, totals, numbers, marks)

    if threads == 1 or len(bounds) == 1:
        for bound in bounds:
            work(bound)
        return
    with ThreadPoolExecutor(threads) as pool:
        for _ in pool.map(work, bounds):
            pass
