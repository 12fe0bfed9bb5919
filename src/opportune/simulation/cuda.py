"""The batch loop on a GPU: the step functions of `opportune.algorithm` as CUDA device functions, one thread per run.

A kernel is built for one layout, whose sizes and places are constants in it. Nothing of the algorithm is written here.
A run is one participant, or a study whose participants share a budget or a model: one thread then processes them in
turn.
"""

import functools
import math
import warnings
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
from numba import config, cuda, float64
from numpy.typing import NDArray

from opportune.algorithm.protocol import Draws
from opportune.algorithm.scores import choose_search, score_optimistic
from opportune.engine import simd
from opportune.engine.compiled import inner_function
from opportune.engine.declared import STATE
from opportune.engine.hooks import RECOMMENDERS, REVEALERS, WORLDS
from opportune.engine.layout import Layout
from opportune.engine.views import of_arrays
from opportune.errors import InputError
from opportune.simulation.loop import Batch, run_step, start_run, stream_of
from opportune.simulation.pack import Output
from opportune.simulation.record import FINAL_PRICE, MARKS, NUMBERS, TOTALS, add_up, write_chances, write_down

THREADS = 256


class Used(NamedTuple):
    """The numbers of the revealers, recommenders and worlds that a kernel is built for."""

    revealer: tuple[int, ...]
    recommender: tuple[int, ...]
    world: tuple[int, ...]


MEMORY_SHARE = 0.8  # of the card's free memory that results may use
AT_ONCE = 4  # chunks on the card: one runs, one is fetched, others wait, so that the card never waits
ENOUGH_RUNS = 200_000  # in a chunk, to keep the card busy; no more, since nothing runs while the last one is fetched
ENOUGH_STUDIES = 65_536  # the same for studies, each with all its participants
WARP = 32  # threads that run in lockstep, and should read the same world's constants

draw_stream = inner_function(stream_of)


@functools.cache
def _teach_compiler() -> None:
    """Define engine.simd and the hooks for the GPU's compiler: a thread processes one number at a time."""
    if config.ENABLE_CUDASIM:  # the simulator runs them as Python
        return
    from numba.cuda.extending import overload  # noqa: PLC0415  (in numba-cuda, but not in Numba itself)

    for function in (getattr(simd, name) for name in simd.__all__):
        overload(function)(functools.wraps(function)(lambda *_, function=function: function))
    for registry in (REVEALERS, RECOMMENDERS, WORLDS):
        for stub, typed in registry.hooks.values():
            overload(stub)(typed)
    overload(score_optimistic)(choose_search)


def available() -> bool:
    """Whether a CUDA device (or Numba's simulator of one) can be used."""
    if find_spec("numba_cuda") is None and not config.ENABLE_CUDASIM:
        return False
    try:
        return bool(cuda.is_available())
    except Exception:  # a broken driver installation can raise anything
        return False


def require() -> None:
    """Raise an error that names what is missing if no GPU can be used."""
    if not available():
        raise InputError(
            "device 'cuda' is not available: it needs an NVIDIA GPU, its driver and the extra "
            "(pip install 'opportune[gpu]'); use device='cpu' or device='auto'"
        )


def _participant_of(at: Layout, used: Used) -> Any:
    """The function with which a kernel assembles a participant."""
    if config.ENABLE_CUDASIM:
        return functools.partial(of_arrays, at)
    from opportune.simulation.cuda_views import participant_of  # noqa: PLC0415  (needs the extra `gpu`)

    return participant_of(at, used)


STATE_ARRAYS = (*STATE, "history")  # the arrays that a run changes, besides scratch


@functools.lru_cache(maxsize=64)
def build(at: Layout, used: Used, traced: bool) -> Any:
    """The kernel for one layout and kind of world, for participants who share nothing."""
    _teach_compiler()
    participant = _participant_of(at, used)
    model_size, counts_size, snapshot_size, memory_size, budget_size, staff_size, history_size, scratch_size = (
        max(1, at.length(name)) for name in (*STATE_ARRAYS, "scratch")
    )
    sums_size, contexts = len(TOTALS), at.sizes.contexts

    @cuda.jit
    def kernel(constants, worlds, rules, policies, seed, streams, horizon, totals, numbers, marks, chances, arrived):  # type: ignore[no-untyped-def]
        replicates, n_worlds = streams.shape
        chosen = policies.shape[0]
        model = cuda.local.array(model_size, float64)
        counts = cuda.local.array(counts_size, float64)
        snapshot = cuda.local.array(snapshot_size, float64)
        memory = cuda.local.array(memory_size, float64)
        budget = cuda.local.array(budget_size, float64)
        staff = cuda.local.array(staff_size, float64)
        history = cuda.local.array(history_size, float64)
        scratch = cuda.local.array(scratch_size, float64)
        sums = cuda.local.array(sums_size, float64)
        # neighbouring threads run replicates of one world and policy, so that they read the same constants
        for i in range(cuda.grid(1), replicates * chosen * n_worlds, cuda.gridsize(1)):
            r = i % replicates
            w = i // replicates % n_worlds
            q = i // (replicates * n_worlds)
            for j in range(sums_size):
                sums[j] = 0.0
            draws = Draws(seed, streams[r, w])
            p = participant(
                constants[w], rules[policies[q], w], model, counts, snapshot, memory, budget, staff, scratch, worlds[w],
                history,
            )  # fmt: skip
            start_run(p, True, True, True)
            counted = policies[q] == 0
            if counted:
                for k in range(contexts):
                    arrived[r, w, k] = 0
            for t in range(horizon):
                record = run_step(p, draws, t + 1)
                add_up(record, sums)
                if counted and contexts > 0:
                    arrived[r, w, record.context] += 1
                if traced:
                    write_down(record, t, horizon, numbers[r, q, w], marks[r, q, w])
                    write_chances(p, t, horizon, chances[r, q, w])
            sums[FINAL_PRICE] = p.budget.price[0]
            for j in range(sums_size):
                totals[j, r, q, w] = sums[j]

    return kernel


@functools.lru_cache(maxsize=64)
def build_together(at: Layout, used: Used, shared: bool, pooled: bool, traced: bool) -> Any:
    """The kernel for studies whose participants share something; their state is in the card's memory."""
    _teach_compiler()
    participant = _participant_of(at, used)
    scratch_size, contexts = max(1, at.length("scratch")), at.sizes.contexts

    @cuda.jit
    def kernel(  # type: ignore[no-untyped-def]
        constants, worlds, rules, policies, seed, streams, horizon, model, counts, snapshot, memory, budget,
        staff, history, totals, numbers, marks, chances, arrived,
    ):  # fmt: skip
        replicates, n_worlds = streams.shape
        chosen = policies.shape[0]
        scratch = cuda.local.array(scratch_size, float64)
        thread = cuda.grid(1)
        for i in range(thread, replicates * chosen, cuda.gridsize(1)):
            r = i % replicates
            q = i // replicates
            for t in range(-1, horizon):
                for w in range(n_worlds):
                    m = 0 if pooled else w
                    b = 0 if shared else w
                    p = participant(
                        constants[w], rules[policies[q], w], model[thread, m], counts[thread, w],
                        snapshot[thread, w], memory[thread, w], budget[thread, b], staff[thread, w], scratch, worlds[w],
                        history[thread, w],
                    )  # fmt: skip
                    if t < 0:
                        start_run(p, m == w, b == w, True)
                        for j in range(totals.shape[0]):
                            totals[j, r, q, w] = 0.0
                        if policies[q] == 0:
                            for k in range(contexts):
                                arrived[r, w, k] = 0
                    else:
                        record = run_step(p, Draws(seed, streams[r, w]), t + 1)
                        add_up(record, totals[:, r, q, w])
                        if contexts > 0 and policies[q] == 0:
                            arrived[r, w, record.context] += 1
                        if traced:
                            write_down(record, t, horizon, numbers[r, q, w], marks[r, q, w])
                            write_chances(p, t, horizon, chances[r, q, w])
                    totals[FINAL_PRICE, r, q, w] = p.budget.price[0]

    return kernel


def run_batch(batch: Batch, at: Layout, policies: NDArray[np.int64], shared: bool, pooled: bool, seed: int,
              horizon: int, output: Output) -> None:  # fmt: skip
    """Execute all runs of some policies on the GPU, in chunks of replicates.

    Several chunks are on the card at a time: while one runs and others wait, the results of an earlier one are fetched.
    """
    replicates, _, n_worlds, _, traced = output.numbers.shape
    given = [cuda.to_device(x) for x in (batch.constants, batch.worlds, batch.rules, policies)]
    rule = at.views("rule", batch.rules[policies])
    used = Used(
        tuple(np.unique(rule.revealer[..., 0]).astype(int).tolist()),
        tuple(np.unique(rule.recommender[..., 0]).astype(int).tolist()),
        tuple(np.unique(at.views("happenings", batch.worlds).kind[..., 0]).astype(int).tolist()),
    )
    groups: list[int] = []
    if shared or pooled:
        kernel = build_together(at, used, shared, pooled, traced > 0)
        groups = [max(1, at.length(name)) for name in STATE_ARRAYS]
    else:
        kernel = build(at, used, traced > 0)
    contexts = at.sizes.contexts
    at_once = 1 if groups else AT_ONCE  # chunks would share the state
    threads_each = policies.size * (1 if groups else n_worlds)
    enough = -(-(ENOUGH_STUDIES if groups else ENOUGH_RUNS) // threads_each)
    drawn = output.chances.shape[-2] if at.sizes.randomised else 0  # other kernels write none
    results = 8 * len(TOTALS) + traced * (8 * len(NUMBERS) + 2 * len(MARKS) + 8 * drawn)
    bytes_each = policies.size * n_worlds * (at_once * results + 8 * sum(groups))
    bytes_each += at_once * output.counts[:1].nbytes
    chunk = min(replicates, _replicates_at_once(enough, bytes_each))
    at_once = min(at_once, -(-replicates // chunk))
    threads = -(-chunk * threads_each // THREADS) * THREADS
    room = [cuda.device_array((threads, n_worlds, size), np.float64) for size in groups]
    places = [_Place.make(chunk, policies.size, n_worlds, traced, drawn, contexts) for _ in range(at_once)]
    waiting: list[tuple[_Place, int, int]] = []
    with cuda.defer_cleanup(), warnings.catch_warnings():  # freeing memory would wait for all kernels
        warnings.filterwarnings("ignore", message="Grid size")  # a small simulation cannot fill a card
        for number, first in enumerate(range(0, replicates, chunk)):
            last, place = min(first + chunk, replicates), places[number % at_once]
            if len(waiting) == at_once:
                _fetch(*waiting.pop(0), policies, output)
            streams = place.streams[: last - first]
            _numbering()[-(-streams.size // THREADS), THREADS, place.stream](first, streams)
            kernel[-(-(last - first) * threads_each // THREADS), THREADS, place.stream](
                *given, np.uint64(seed), streams, horizon, *room,
                place.totals_of(last - first), place.numbers[: last - first], place.marks[: last - first],
                place.chances[: last - first], place.counts[: last - first],
            )  # fmt: skip
            waiting.append((place, first, last))
        for each in waiting:
            _fetch(*each, policies, output)


class _Place(NamedTuple):
    """The place of a chunk's results on the card; while they are fetched, the next chunk uses another place."""

    stream: Any
    shape: tuple[int, int]  # policies, worlds
    streams: Any
    totals: Any  # in one row, so that those of a smaller chunk are contiguous, too
    numbers: Any
    marks: Any
    chances: Any
    counts: Any

    @classmethod
    def make(cls, replicates: int, policies: int, worlds: int, traced: int, drawn: int, contexts: int) -> "_Place":
        shape = (replicates, policies, worlds)
        return cls(
            cuda.stream(),
            (policies, worlds),
            cuda.device_array((replicates, worlds), np.uint64),
            cuda.device_array(len(TOTALS) * replicates * policies * worlds, np.float64),
            cuda.device_array((*shape, len(NUMBERS) * traced), np.float64),
            cuda.device_array((*shape, len(MARKS) * traced), np.int16),
            cuda.device_array((*shape, drawn * traced), np.float64),
            cuda.device_array((replicates, worlds, contexts), np.int32),
        )

    def totals_of(self, replicates: int) -> Any:
        """The totals of a chunk, each total of all runs together: [totals, R, Q, W]."""
        shape = (len(TOTALS), replicates, *self.shape)
        return self.totals[: math.prod(shape)].reshape(shape)


def _fetch(place: _Place, first: int, last: int, policies: NDArray[np.int64], output: Output) -> None:
    """Wait for a chunk and copy its results, each total separately."""
    replicates = last - first
    totals = place.totals_of(replicates)
    pairs = [(totals[j], column) for j, column in enumerate(output.columns)]
    if output.numbers.shape[-1]:
        kept: list[tuple[Any, Any]] = [
            (place.numbers, output.numbers),
            (place.marks, output.marks),
            (place.chances, output.chances),
        ]
        for there, here in (pair for pair in kept if pair[0].size and pair[1].size):
            pairs.append((there[:replicates], here.reshape(*here.shape[:3], -1)))
    for there, here in pairs:
        if policies.size == here.shape[1] and here.dtype == there.dtype:
            there.copy_to_host(here[first:last], stream=place.stream)
        else:
            aside = there.copy_to_host(stream=place.stream)
            place.stream.synchronize()
            here[first:last, policies] = aside
    if policies[0] == 0 and output.counts.size:
        place.counts[:replicates].copy_to_host(output.counts[first:last], stream=place.stream)
    place.stream.synchronize()


@functools.cache
def _numbering() -> Any:
    """The kernel that writes the streams of runs.

    Computing them in the kernel that reads them would use registers that its steps need (4 to 9% slower).
    """

    @cuda.jit
    def kernel(first, streams):  # type: ignore[no-untyped-def]
        replicates, worlds = streams.shape
        for i in range(cuda.grid(1), worlds * replicates, cuda.gridsize(1)):
            r, w = i // worlds, i % worlds
            streams[r, w] = draw_stream(np.uint64(first + r), np.uint64(w))

    return kernel


def _replicates_at_once(enough: int, bytes_each: int) -> int:
    """The number of replicates in a chunk: enough to keep the card busy, if they fit into its free memory.

    At least `WARP`, so that the threads of a warp read the same data.
    """
    free = 2**30  # an assumption for the simulator, which has no memory of its own
    if not config.ENABLE_CUDASIM:
        free = cuda.current_context().get_memory_info()[0]
    return max(1, min(int(MEMORY_SHARE * free / bytes_each), max(WARP, enough)))
