"""The batch loop on the CPU: runs in parallel, each run's state in the cache for its whole horizon."""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from opportune.algorithm.protocol import Draws
from opportune.algorithm.random_effects import add_mean, add_spread, begin_update, end_mean, end_spread, take_prior
from opportune.algorithm.snapshot import take_over
from opportune.engine.compiled import compiled, inner_function
from opportune.engine.layout import Layout
from opportune.engine.pointers import aligned, flat
from opportune.engine.threads import parts_of, share
from opportune.engine.views import participant
from opportune.simulation.loop import Batch, Results, run_step, start_run
from opportune.simulation.record import FINAL_PRICE, add_up, write_chances, write_down


class Room(NamedTuple):
    """The arrays of a run's state in one thread: one row per participant, or per shared budget or model."""

    model: NDArray[np.float64]
    counts: NDArray[np.float64]
    snapshot: NDArray[np.float64]
    memory: NDArray[np.float64]
    budget: NDArray[np.float64]
    staff: NDArray[np.float64]
    history: NDArray[np.float64]
    scratch: NDArray[np.float64]


class Task(NamedTuple):
    """The policies to run, and where their results go: rows of the outputs' second axis."""

    policies: NDArray[np.int64]
    rows: NDArray[np.int64]
    shared: bool
    pooled: bool
    capped: bool
    seed: np.uint64
    horizon: int
    slots: int  # slots from the first decision point of any participant to the last one


def make_room(at: Layout, participants: int) -> Room:
    """The arrays for a run with this number of participants."""
    rows = {name: 1 if name == "scratch" else participants for name in Room._fields}
    return Room(**{name: aligned(number, at.length(name)) for name, number in rows.items()})


@inner_function
def seat(batch, at, room, policy, w, model, row, budget, staff):  # type: ignore[no-untyped-def]
    """Participant w under a policy, with its state in these rows of the room."""
    return participant(
        flat(at), flat(batch.constants[w]), flat(batch.rules[policy, w]), flat(room.model[model]),
        flat(room.counts[row]), flat(room.snapshot[row]), flat(room.memory[row]), flat(room.budget[budget]),
        flat(room.staff[staff]), flat(room.scratch[0]), flat(batch.worlds[w]), flat(room.history[row]),
    )  # fmt: skip


@compiled(nogil=True)
def run_alone(batch, at, task, streams, first, last, room, results, stop):  # type: ignore[no-untyped-def]
    """Execute runs first..last: participants who share nothing, every policy in every world for every replicate.

    streams[R, W]. Holds no lock, so that threads can share the work; ends when `stop` is set.
    """
    worlds = streams.shape[1]
    chosen = task.policies.shape[0]
    for i in range(first, last):
        r, q, w = i // (chosen * worlds), i // worlds % chosen, i % worlds
        row = task.rows[q]
        p = seat(batch, at, room, task.policies[q], w, 0, 0, 0, 0)
        draws, sums = Draws(task.seed, streams[r, w]), flat(results.totals[r, row, w])
        trace, ticks = flat(results.numbers[r, row, w]), flat(results.marks[r, row, w])
        chances = flat(results.chances[r, row, w])
        counted = task.policies[q] == 0 and p.sizes.contexts > 0
        start_run(p, True, True, True)
        for t in range(task.horizon):
            if stop[0] != 0:
                return
            record = run_step(p, draws, t + 1)
            add_up(record, sums)
            write_down(record, t, results.traced, trace, ticks)
            write_chances(p, t, results.traced, chances)
            if counted:
                results.counts[r, w, record.context] += 1
        sums[FINAL_PRICE] = p.budget.price[0]


@compiled(nogil=True)
def run_together(batch, at, task, streams, first, last, room, results, stop):  # type: ignore[no-untyped-def]
    """Execute runs first..last: studies whose participants, the worlds, share a budget, a model, its prior or staff.

    In each slot of the calendar participants decide in their order.
    """
    chosen = task.policies.shape[0]
    for i in range(first, last):
        r, q = i // chosen, i % chosen
        row = task.rows[q]
        for slot in range(-1, task.slots):
            if stop[0] != 0:
                return
            if task.pooled and slot > 0:
                greet(batch, at, room, task, task.policies[q], streams.shape[1], slot)
            for w in range(streams.shape[1]):
                model, budget, staff = 0 if task.pooled else w, 0 if task.shared else w, 0 if task.capped else w
                p = seat(batch, at, room, task.policies[q], w, model, w, budget, staff)
                t = slot - int(p.calendar.start[0])
                if slot < 0:
                    start_run(p, model == w, budget == w, staff == w)
                elif 0 <= t < task.horizon:
                    record = run_step(p, Draws(task.seed, streams[r, w]), t + 1)
                    add_up(record, flat(results.totals[r, row, w]))
                    write_down(
                        record, t, results.traced, flat(results.numbers[r, row, w]), flat(results.marks[r, row, w])
                    )
                    write_chances(p, t, results.traced, flat(results.chances[r, row, w]))
                    if task.policies[q] == 0 and p.sizes.contexts > 0:
                        results.counts[r, w, record.context] += 1
                results.totals[r, row, w, FINAL_PRICE] = p.budget.price[0]
            if p.sizes.random > 0 and slot >= 0 and (slot + 1) % int(p.rule.prior_every[0]) == 0:
                move_prior(batch, at, room, task, task.policies[q], streams.shape[1], slot)


@inner_function
def greet(batch, at, room, task, policy, participants, slot):  # type: ignore[no-untyped-def]
    """Give the pooled model's present knowledge to participants whose first decision point is in this slot."""
    for w in range(participants):
        p = seat(batch, at, room, policy, w, 0, w, 0 if task.shared else w, 0 if task.capped else w)
        if int(p.calendar.start[0]) == slot:
            take_over(p)


@inner_function
def move_prior(batch, at, room, task, policy, participants, slot):  # type: ignore[no-untyped-def]
    """Update the shared prior from those who have begun, for all participants.

    All participants use the same scratch, where sums are kept.
    """
    for stage in range(3):
        begun = 0
        for w in range(participants):
            p = seat(batch, at, room, policy, w, w, w, 0 if task.shared else w, 0 if task.capped else w)
            if stage == 0 and w == 0:
                begin_update(p.sizes, p.scratch)
            if int(p.calendar.start[0]) <= slot:
                begun += 1
                if stage == 0:
                    add_mean(p, p.scratch)
                elif stage == 1:
                    add_spread(p, p.scratch)
            if stage == 2:
                take_prior(p, p.scratch.centre, p.scratch.spread)
        if begun == 0:
            return
        if stage == 0:
            end_mean(p.sizes, p.scratch, begun)
        elif stage == 1:
            end_spread(p, p.scratch, begun)


def run_batch(
    batch: Batch, at: Layout, task: Task, streams: NDArray[np.uint64], results: Results, threads: int
) -> None:
    """Execute all runs in `threads` threads; Ctrl-C works meanwhile."""
    together = task.shared or task.pooled or task.capped or at.sizes.random > 0
    participants = streams.shape[1] if together else 1
    runs = streams.shape[0] * task.policies.size * (1 if together else streams.shape[1])
    places = at.numbers()
    run = run_together if together else run_alone

    def work(bound: tuple[int, int], stop: NDArray[np.int64]) -> None:
        run(batch, places, task, streams, *bound, make_room(at, participants), results, stop)

    share(work, parts_of(runs, threads), threads)
