"""The batch loop on the CPU: runs in parallel, each run's state in cache for its whole horizon."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numba import njit
from numpy.typing import NDArray

from opportune.core.compiled import step_function
from opportune.core.layout import PRICE, PURSE_SIZE, SIZE
from opportune.core.pointers import aligned, flat
from opportune.core.protocol import begin
from opportune.simulation.loop import FINAL_PRICE, MARKS, NUMBERS, RECORD, Batch, add_up, run_step, write_down
from opportune.worlds.step import start


@step_function
def run_alone(  # type: ignore[no-untyped-def]
    kind, world, at, facts, rule, s, history, purse, seed, stream, horizon, out, totals, traced, numbers, marks
):
    """One participant with a budget of its own, from the first step to the last."""
    begin(at, facts, s, purse)
    start(kind, world, history)
    for t in range(horizon):
        run_step(kind, world, at, facts, rule, s, history, purse, seed, stream, t + 1, out)
        add_up(out, totals)
        write_down(out, t, traced, numbers, marks)
    totals[FINAL_PRICE] = purse[PRICE]


@step_function
def run_together(  # type: ignore[no-untyped-def]
    batch, at, policy, states, histories, purse, seed, streams, horizon, out, totals, traced, numbers, marks
):
    """All worlds as participants of one study with one purse: at each step, decisions in participant order."""
    participants = streams.shape[0]
    for w in range(participants):
        begin(at, flat(batch.facts[w]), flat(states[w]), purse)
        start(batch.kind, flat(batch.worlds[w]), flat(histories[w]))
    for t in range(horizon):
        for w in range(participants):
            run_step(
                batch.kind, flat(batch.worlds[w]), at, flat(batch.facts[w]), flat(batch.rules[policy, w]),
                flat(states[w]), flat(histories[w]), purse, seed, streams[w], t + 1, out,
            )  # fmt: skip
            add_up(out, flat(totals[w]))
            write_down(out, t, traced, flat(numbers[w]), flat(marks[w]))
    for w in range(participants):
        totals[w, FINAL_PRICE] = purse[PRICE]


@njit(cache=True, nogil=True)
def run_some(  # type: ignore[no-untyped-def]
    batch, at, policies, shared, seed, streams, horizon, begin_at, end_at, states, histories, purse, out,
    totals, traced, numbers, marks,
):  # fmt: skip
    """Runs begin_at..end_at of all: every policy of `policies` in every world for every replicate.

    streams[R, W]; outputs [R, Q, W, ...]. A run is one participant; with `shared`, one study whose participants are
    the worlds. Holds no lock, so that threads can share the work.
    """
    worlds = streams.shape[1]
    chosen = policies.shape[0]
    for i in range(begin_at, end_at):
        if shared:
            r, q = i // chosen, i % chosen
            run_together(
                batch, flat(at), policies[q], states, histories, flat(purse), seed, streams[r], horizon, flat(out),
                totals[r, q], traced, numbers[r, q], marks[r, q],
            )  # fmt: skip
        else:
            r, q, w = i // (chosen * worlds), i // worlds % chosen, i % worlds
            run_alone(
                batch.kind, flat(batch.worlds[w]), flat(at), flat(batch.facts[w]), flat(batch.rules[policies[q], w]),
                flat(states[0]), flat(histories[0]), flat(purse), seed, streams[r, w], horizon, flat(out),
                flat(totals[r, q, w]), traced, flat(numbers[r, q, w]), flat(marks[r, q, w]),
            )  # fmt: skip


def run_batch(batch: Batch, at: NDArray[np.int64], policies: NDArray[np.int64], shared: bool, seed: int,
              streams: NDArray[np.uint64], horizon: int, totals: NDArray[np.float64],
              numbers: NDArray[np.float64], marks: NDArray[np.int16], threads: int) -> None:  # fmt: skip
    """All runs, by `threads` threads that take pieces of the work as they get free.

    Outputs are contiguous: totals[R, Q, W, 8], numbers[R, Q, W, 8, T] and marks[R, Q, W, 7, T], T = 0 without trace.
    """
    participants = streams.shape[1] if shared else 1
    runs = streams.shape[0] * policies.size * (1 if shared else streams.shape[1])
    piece = max(1, -(-runs // (8 * threads)))
    bounds = [(first, min(first + piece, runs)) for first in range(0, runs, piece)]
    traced = numbers.shape[-1]
    numbers = numbers.reshape(*totals.shape[:3], len(NUMBERS) * traced)
    marks = marks.reshape(*totals.shape[:3], len(MARKS) * traced)

    def work(bound: tuple[int, int]) -> None:
        run_some(
            batch, at, policies, shared, np.uint64(seed), streams, horizon, *bound,
            aligned(participants, at[SIZE]), aligned(participants, batch.history), aligned(PURSE_SIZE),
            aligned(RECORD), totals, traced, numbers, marks,
        )  # fmt: skip

    if threads == 1 or len(bounds) == 1:
        for bound in bounds:
            work(bound)
        return
    with ThreadPoolExecutor(threads) as pool:
        for _ in pool.map(work, bounds):
            pass
