"""The batch loop on the CPU: runs in parallel, each run's state in cache for its whole horizon."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
from numba import njit
from numba.extending import intrinsic
from numpy.typing import NDArray

from opportune.core.compiled import step_function
from opportune.core.state import PRICE, PURSE_SIZE, SIZE
from opportune.core.step import begin
from opportune.simulation.loop import FINAL_PRICE, RECORD, Batch, add_up, run_step, write_down
from opportune.worlds.step import start


@intrinsic
def borrow(typing_context, array):  # type: ignore[no-untyped-def]
    """The same array without its reference count, which every function call would otherwise move up and down.

    Counting is atomic and costs more than a step's arithmetic. Whoever holds the array must keep it for as long as
    the borrowed one is used.
    """

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        view = context.make_array(signature.args[0])(context, builder, arguments[0])
        view.meminfo = view.meminfo.type(None)
        view.parent = view.parent.type(None)
        return view._getvalue()

    return array(array), generate


@step_function
def run_alone(batch, at, policy, w, seed, stream, horizon, s, history, purse, out, totals, numbers, marks):  # type: ignore[no-untyped-def]
    """One participant with a budget of its own, from the first step to the last."""
    facts = borrow(batch.facts[w])
    world = borrow(batch.worlds[w])
    rule = borrow(batch.rules[policy, w])
    begin(at, facts, s, purse)
    start(batch.kind, world, history)
    for t in range(horizon):
        run_step(batch.kind, world, at, facts, rule, s, history, purse, seed, stream, t + 1, out)
        add_up(out, totals)
        write_down(out, t, numbers, marks)
    totals[FINAL_PRICE] = purse[PRICE]


@step_function
def run_together(batch, at, policy, seed, streams, horizon, states, histories, purse, out, totals, numbers, marks):  # type: ignore[no-untyped-def]
    """All worlds as participants of one study with one purse: at each step, decisions in participant order."""
    participants = streams.shape[0]
    for w in range(participants):
        begin(at, borrow(batch.facts[w]), borrow(states[w]), purse)
        start(batch.kind, borrow(batch.worlds[w]), borrow(histories[w]))
    for t in range(horizon):
        for w in range(participants):
            run_step(
                batch.kind, borrow(batch.worlds[w]), at, borrow(batch.facts[w]), borrow(batch.rules[policy, w]),
                borrow(states[w]), borrow(histories[w]), purse, seed, streams[w], t + 1, out,
            )  # fmt: skip
            add_up(out, borrow(totals[w]))
            write_down(out, t, borrow(numbers[w]), borrow(marks[w]))
    for w in range(participants):
        totals[w, FINAL_PRICE] = purse[PRICE]


@njit(cache=True, nogil=True)
def run_some(batch, at, policies, shared, seed, streams, horizon, begin_at, end_at, totals, numbers, marks):  # type: ignore[no-untyped-def]
    """Runs begin_at..end_at of all: every policy of `policies` in every world for every replicate.

    streams[R, W]; outputs [R, Q, W, ...]. A run is one participant; with `shared`, one study whose participants are
    the worlds. Holds no lock, so that threads can share the work.
    """
    worlds = streams.shape[1]
    chosen = policies.shape[0]
    participants = worlds if shared else 1
    states = np.empty((participants, at[SIZE]))
    histories = np.empty((participants, batch.history))
    purse = np.empty(PURSE_SIZE)
    out = np.empty(RECORD)
    for i in range(begin_at, end_at):
        if shared:
            r, q = i // chosen, i % chosen
            run_together(
                batch, borrow(at), policies[q], seed, streams[r], horizon, states, histories, borrow(purse),
                borrow(out), totals[r, q], numbers[r, q], marks[r, q],
            )  # fmt: skip
        else:
            r, q, w = i // (chosen * worlds), i // worlds % chosen, i % worlds
            run_alone(
                batch, borrow(at), policies[q], w, seed, streams[r, w], horizon, borrow(states[0]),
                borrow(histories[0]), borrow(purse), borrow(out), borrow(totals[r, q, w]), borrow(numbers[r, q, w]),
                borrow(marks[r, q, w]),
            )  # fmt: skip
    states[0, 0] = purse[0] = out[0] = 0.0  # what was borrowed must live until here
    if batch.history > 0:
        histories[0, 0] = 0.0


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
