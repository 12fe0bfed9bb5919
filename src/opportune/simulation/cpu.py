"""The batch loop on the CPU: runs in parallel, each run's state in cache for its whole horizon."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from opportune.algorithm.protocol import Draws
from opportune.engine.compiled import compiled
from opportune.engine.layout import Budget, Counts, Layout, Model, Scratch, Snapshot, Trail
from opportune.engine.pointers import aligned, flat
from opportune.engine.threads import parts_of, share
from opportune.engine.views import participant
from opportune.simulation.loop import Batch, mail_size, run_step, start_run
from opportune.simulation.record import FINAL_PRICE, MARKS, NUMBERS, add_up, write_down


class Room(NamedTuple):
    """Where one thread keeps the state of a run: one row per participant, or per shared budget or model."""

    model: NDArray[np.float64]
    counts: NDArray[np.float64]
    snapshot: NDArray[np.float64]
    trail: NDArray[np.float64]
    budget: NDArray[np.float64]
    scratch: NDArray[np.float64]
    history: NDArray[np.float64]
    mail: NDArray[np.float64]


def make_room(at: Layout, batch: Batch, participants: int) -> Room:
    """Room for a run of so many participants."""
    return Room(
        model=aligned(participants, at.length(Model)),
        counts=aligned(participants, at.length(Counts)),
        snapshot=aligned(participants, at.length(Snapshot)),
        trail=aligned(participants, at.length(Trail)),
        budget=aligned(participants, at.length(Budget)),
        scratch=aligned(at.length(Scratch)),
        history=aligned(participants, max(1, batch.history)),
        mail=aligned(participants, mail_size(at.sizes)),
    )


@compiled(nogil=True)
def run_alone(  # type: ignore[no-untyped-def]
    batch, at, policies, seed, streams, horizon, first, last, room, totals, traced, numbers, marks, stop
):
    """Runs first..last of all: participants who share nothing, every policy in every world for every replicate.

    streams[R, W]; outputs [R, Q, W, ...]. Holds no lock, so that threads can share the work; ends when told to stop.
    """
    worlds = streams.shape[1]
    chosen = policies.shape[0]
    for i in range(first, last):
        r, q, w = i // (chosen * worlds), i // worlds % chosen, i % worlds
        p = participant(
            flat(at), flat(batch.constants[w]), flat(batch.rules[policies[q], w]), flat(room.model[0]),
            flat(room.counts[0]), flat(room.snapshot[0]), flat(room.trail[0]), flat(room.budget[0]), flat(room.scratch),
        )  # fmt: skip
        world, history, mail = flat(batch.worlds[w]), flat(room.history[0]), flat(room.mail[0])
        draws, sums = Draws(seed, streams[r, w]), flat(totals[r, q, w])
        trace, ticks = flat(numbers[r, q, w]), flat(marks[r, q, w])
        start_run(batch.kind, world, history, p, mail, True, True)
        for t in range(horizon):
            if stop[0] != 0:
                return
            record = run_step(batch.kind, world, history, p, mail, draws, t + 1)
            add_up(record, sums)
            write_down(record, t, traced, trace, ticks)
        sums[FINAL_PRICE] = p.budget.price[0]


@compiled(nogil=True)
def run_together(  # type: ignore[no-untyped-def]
    batch,
    at,
    policies,
    shared,
    pooled,
    seed,
    streams,
    horizon,
    first,
    last,
    room,
    totals,
    traced,
    numbers,
    marks,
    stop,
):
    """Runs first..last of all: studies whose participants, the worlds, share a budget, a model or both.

    At each step participants decide in their order.
    """
    chosen = policies.shape[0]
    for i in range(first, last):
        r, q = i // chosen, i % chosen
        for t in range(-1, horizon):
            if stop[0] != 0:
                return
            for w in range(streams.shape[1]):
                model, budget = 0 if pooled else w, 0 if shared else w
                p = participant(
                    flat(at), flat(batch.constants[w]), flat(batch.rules[policies[q], w]), flat(room.model[model]),
                    flat(room.counts[w]), flat(room.snapshot[w]), flat(room.trail[w]), flat(room.budget[budget]),
                    flat(room.scratch),
                )  # fmt: skip
                world, history, mail = flat(batch.worlds[w]), flat(room.history[w]), flat(room.mail[w])
                if t < 0:
                    start_run(batch.kind, world, history, p, mail, model == w, budget == w)
                else:
                    record = run_step(batch.kind, world, history, p, mail, Draws(seed, streams[r, w]), t + 1)
                    add_up(record, flat(totals[r, q, w]))
                    write_down(record, t, traced, flat(numbers[r, q, w]), flat(marks[r, q, w]))
                totals[r, q, w, FINAL_PRICE] = p.budget.price[0]


def run_batch(batch: Batch, at: Layout, policies: NDArray[np.int64], shared: bool, pooled: bool, seed: int,
              streams: NDArray[np.uint64], horizon: int, totals: NDArray[np.float64],
              numbers: NDArray[np.float64], marks: NDArray[np.int16], threads: int) -> None:  # fmt: skip
    """All runs, by `threads` threads; Ctrl-C is heard while they work.

    Outputs are contiguous: totals[R, Q, W, ...], numbers[R, Q, W, ..., T] and marks[R, Q, W, ..., T], T = 0 without
    trace.
    """
    together = shared or pooled
    participants = streams.shape[1] if together else 1
    runs = streams.shape[0] * policies.size * (1 if together else streams.shape[1])
    traced = numbers.shape[-1]
    numbers = numbers.reshape(*totals.shape[:3], len(NUMBERS) * traced)
    marks = marks.reshape(*totals.shape[:3], len(MARKS) * traced)
    places = at.numbers()

    def work(bound: tuple[int, int], stop: NDArray[np.int64]) -> None:
        room = make_room(at, batch, participants)
        rest = (np.uint64(seed), streams, horizon, *bound, room, totals, traced, numbers, marks, stop)
        if together:
            run_together(batch, places, policies, shared, pooled, *rest)
        else:
            run_alone(batch, places, policies, *rest)

    share(work, parts_of(runs, threads), threads)
