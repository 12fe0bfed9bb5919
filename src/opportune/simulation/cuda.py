"""The batch loop on a GPU: the step functions of `opportune.core` as CUDA device functions, one thread per run.

A kernel is built for one layout: sizes and places are constants in it. Nothing of the algorithm is written here. A run
is one participant, or a study whose participants share a budget or a model: then one thread takes them in turn.
"""

import functools
from collections.abc import Callable, Sequence
from importlib.util import find_spec
from typing import Any, NamedTuple

import numpy as np
from numba import config, cuda, float64
from numpy.typing import NDArray

from opportune.core import simd
from opportune.core.layout import Budget, Counts, Layout, Model, Rule, Scratch, Snapshot, Trail
from opportune.core.protocol import Draws
from opportune.core.registry import RECOMMENDERS, REVEALERS, WORLDS
from opportune.core.scores import choose_search, score_optimistic
from opportune.core.views import of_arrays
from opportune.errors import InputError
from opportune.simulation.loop import Batch, mail_size, run_step, start_run
from opportune.simulation.record import FINAL_PRICE, MARKS, NUMBERS, TOTALS, add_up, write_down
from opportune.worlds.arrivals import arrivals_of, count_run, count_type
from opportune.worlds.linear import LinearWorld

THREADS = 256


class Used(NamedTuple):
    """The numbers of the revealers, recommenders and worlds that a kernel is built for."""

    revealer: tuple[int, ...]
    recommender: tuple[int, ...]
    world: tuple[int, ...]


MEMORY_SHARE = 0.8  # of the card's free memory that results may take
AT_ONCE = 2  # chunks on the card: one runs, one is fetched
ENOUGH_RUNS = 600_000  # in a chunk, to keep the card busy


@functools.cache
def _teach_compiler() -> None:
    """Tell the GPU's compiler what core.simd and the registries' hooks mean: a thread works on one number at a time."""
    if config.ENABLE_CUDASIM:  # which runs them as they are written
        return
    from numba.cuda.extending import overload  # noqa: PLC0415  (numba-cuda has it, what Numba itself brings has not)

    for function in (simd.width, simd.load, simd.store, simd.spread, simd.fma):
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
    """Say what is missing where there is no GPU to use."""
    if not available():
        raise InputError(
            "device 'cuda' is not available: it needs an NVIDIA GPU, its driver and the extra "
            "(pip install 'opportune[gpu]'); use device='cpu' or device='auto'"
        )


def _participant_of(at: Layout, used: Used) -> Any:
    """How a kernel puts a participant together."""
    if config.ENABLE_CUDASIM:
        return functools.partial(of_arrays, at.at)
    from opportune.simulation.cuda_views import participant_of  # noqa: PLC0415  (needs the extra `gpu`)

    return participant_of(at, used)


@functools.lru_cache(maxsize=32)
def build(at: Layout, used: Used, kind: int, history_size: int, traced: bool) -> Any:
    """The kernel for one layout and kind of world, participants who share nothing."""
    _teach_compiler()
    participant = _participant_of(at, used)
    model_size, counts_size, snapshot_size, trail_size, budget_size, scratch_size = (
        max(1, at.length(group)) for group in (Model, Counts, Snapshot, Trail, Budget, Scratch)
    )
    history_size = max(1, history_size)
    letters = mail_size(at.sizes)
    sums_size = len(TOTALS)

    @cuda.jit
    def kernel(constants, worlds, rules, policies, seed, streams, horizon, totals, numbers, marks):  # type: ignore[no-untyped-def]
        replicates, n_worlds = streams.shape
        chosen = policies.shape[0]
        model = cuda.local.array(model_size, float64)
        counts = cuda.local.array(counts_size, float64)
        snapshot = cuda.local.array(snapshot_size, float64)
        trail = cuda.local.array(trail_size, float64)
        budget = cuda.local.array(budget_size, float64)
        scratch = cuda.local.array(scratch_size, float64)
        history = cuda.local.array(history_size, float64)
        mail = cuda.local.array(letters, float64)
        sums = cuda.local.array(sums_size, float64)
        # neighbouring threads take replicates of one world and policy: they read the same constants
        for i in range(cuda.grid(1), replicates * chosen * n_worlds, cuda.gridsize(1)):
            r = i % replicates
            w = i // replicates % n_worlds
            q = i // (replicates * n_worlds)
            for j in range(sums_size):
                sums[j] = 0.0
            world, draws = worlds[w], Draws(seed, streams[r, w])
            p = participant(constants[w], rules[policies[q], w], model, counts, snapshot, trail, budget, scratch)
            start_run(kind, world, history, p, mail, True, True)
            for t in range(horizon):
                record = run_step(kind, world, history, p, mail, draws, t + 1)
                add_up(record, sums)
                if traced:
                    write_down(record, t, horizon, numbers[r, q, w], marks[r, q, w])
            sums[FINAL_PRICE] = budget[0]
            for j in range(sums_size):
                totals[j, r, q, w] = sums[j]

    return kernel


@functools.lru_cache(maxsize=32)
def build_together(at: Layout, used: Used, kind: int, shared: bool, pooled: bool, traced: bool) -> Any:
    """The kernel for studies whose participants share something; their state is in the card's memory."""
    _teach_compiler()
    participant = _participant_of(at, used)
    scratch_size = max(1, at.length(Scratch))

    @cuda.jit
    def kernel(  # type: ignore[no-untyped-def]
        constants, worlds, rules, policies, seed, streams, horizon, model, counts, snapshot, trail, budget,
        history, mail, totals, numbers, marks,
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
                        snapshot[thread, w], trail[thread, w], budget[thread, b], scratch,
                    )  # fmt: skip
                    if t < 0:
                        start_run(kind, worlds[w], history[thread, w], p, mail[thread, w], m == w, b == w)
                        for j in range(totals.shape[0]):
                            totals[j, r, q, w] = 0.0
                    else:
                        draws = Draws(seed, streams[r, w])
                        record = run_step(kind, worlds[w], history[thread, w], p, mail[thread, w], draws, t + 1)
                        add_up(record, totals[:, r, q, w])
                        if traced:
                            write_down(record, t, horizon, numbers[r, q, w], marks[r, q, w])
                    totals[FINAL_PRICE, r, q, w] = budget[thread, b, 0]

    return kernel


def run_batch(batch: Batch, at: Layout, policies: NDArray[np.int64], shared: bool, pooled: bool, seed: int,
              streams: NDArray[np.uint64], horizon: int, totals: NDArray[np.float64],
              numbers: NDArray[np.float64], marks: NDArray[np.int16],
              meanwhile: Callable[[], object] = lambda: None) -> None:  # fmt: skip
    """All runs on the GPU, in chunks of replicates whose results fit its memory; `meanwhile` is done beside."""
    traced = numbers.shape[-1]
    given = [cuda.to_device(x) for x in (batch.constants, batch.worlds, batch.rules, policies)]
    replicates, n_worlds = streams.shape
    per_replicate = policies.size * n_worlds
    rules = at.views(Rule, np.moveaxis(batch.rules[policies], -1, 0))
    used = Used(
        tuple(np.unique(rules.revealer[0]).astype(int).tolist()),
        tuple(np.unique(rules.recommender[0]).astype(int).tolist()),
        (batch.kind,),
    )
    state, groups = 0, []
    if shared or pooled:
        kernel = build_together(at, used, batch.kind, shared, pooled, traced > 0)
        groups = [at.length(group) for group in (Model, Counts, Snapshot, Trail, Budget)]
        groups += [max(1, batch.history), mail_size(at.sizes)]
        state = 8 * per_replicate * sum(groups)
    else:
        kernel = build(at, used, batch.kind, batch.history, traced > 0)
    chunk = min(replicates, _replicates_at_once(per_replicate, traced, state))
    runs = chunk * policies.size * (1 if state else n_worlds)
    room = [cuda.device_array((-(-runs // THREADS) * THREADS, n_worlds, size), np.float64) for size in groups]
    at_once = 1 if state else min(AT_ONCE, -(-replicates // chunk))  # chunks would share the state
    places = [_Place.make(chunk, policies.size, n_worlds, traced) for _ in range(at_once)]
    waiting: list[tuple[_Place, int, int]] = []
    for number, first in enumerate(range(0, replicates, chunk)):
        last, place = min(first + chunk, replicates), places[number % len(places)]
        if len(waiting) == len(places):
            _fetch(*waiting.pop(0), totals, numbers, marks)
        runs = (last - first) * policies.size * (1 if state else n_worlds)
        kernel[-(-runs // THREADS), THREADS, place.stream](
            *given, np.uint64(seed), cuda.to_device(streams[first:last], stream=place.stream), horizon, *room,
            place.totals[:, : last - first], place.numbers[: last - first], place.marks[: last - first],
        )  # fmt: skip
        waiting.append((place, first, last))
        if number == 0:
            meanwhile()
    for each in waiting:
        _fetch(*each, totals, numbers, marks)


class _Place(NamedTuple):
    """Where a chunk's results are on the card: while they are fetched, the next chunk runs into another one."""

    stream: Any
    totals: Any
    numbers: Any
    marks: Any

    @classmethod
    def make(cls, replicates: int, policies: int, worlds: int, traced: int) -> "_Place":
        shape = (replicates, policies, worlds)
        return cls(
            cuda.stream(),
            cuda.device_array((len(TOTALS), *shape), np.float64),
            cuda.device_array((*shape, len(NUMBERS) * traced), np.float64),
            cuda.device_array((*shape, len(MARKS) * traced), np.int16),
        )


def _fetch(place: _Place, first: int, last: int, totals: NDArray[np.float64], numbers: NDArray[np.float64],
           marks: NDArray[np.int16]) -> None:  # fmt: skip
    """Wait for a chunk and take over its results, each total by itself."""
    for j in range(len(TOTALS)):
        _copy(place.totals[j, : last - first], totals[first:last, ..., j], place.stream)
    if numbers.shape[-1]:
        for there, here in ((place.numbers, numbers), (place.marks, marks)):
            _copy(there[: last - first], here[first:last].reshape(last - first, *there.shape[1:]), place.stream)


def _copy(there: Any, here: NDArray[Any], stream: Any) -> None:
    if here.flags.c_contiguous:
        there.copy_to_host(here, stream=stream)
        stream.synchronize()
    else:
        here[...] = there.copy_to_host()


class Counting:
    """How often each context arrives in each run, counted beside the runs: streams[R, W] -> [W, R, K]."""

    def __init__(self, worlds: Sequence[LinearWorld], streams: NDArray[np.uint64], horizon: int, seed: int) -> None:
        _teach_compiler()
        arrivals = arrivals_of(worlds)
        self._stream = cuda.stream()
        self._there = cuda.device_array((*streams.shape[::-1], arrivals.cumulative.shape[2]), count_type(horizon))
        given = [cuda.to_device(x, stream=self._stream) for x in (streams, *arrivals)]
        launch = _counting()[-(-streams.size // THREADS), THREADS, self._stream]
        launch(np.uint64(seed), *given, horizon, self._there)

    @functools.cached_property
    def counts(self) -> NDArray[Any]:
        """Them, once they are there."""
        return np.asarray(self._there.copy_to_host(stream=self._stream))


@functools.cache
def _counting() -> Any:
    """The kernel that counts, one thread per run."""

    @cuda.jit
    def kernel(seed, streams, slot_of, cumulative, stay, horizon, counts):  # type: ignore[no-untyped-def]
        replicates, worlds = streams.shape
        for i in range(cuda.grid(1), worlds * replicates, cuda.gridsize(1)):
            w, r = i // replicates, i % replicates
            for k in range(counts.shape[2]):
                counts[w, r, k] = 0
            count_run(seed, streams[r, w], slot_of, cumulative[w], stay[w], 0, horizon, counts[w, r], -1)

    return kernel


def _replicates_at_once(per_replicate: int, traced: int, state: int = 0) -> int:
    """How many replicates to run in a chunk.

    As many as keep the card busy, so that one chunk's results can be fetched while the next runs, and as fit, with
    their state where it is kept beside them, into its free memory.
    """
    each = AT_ONCE * per_replicate * (8 * len(TOTALS) + traced * (8 * len(NUMBERS) + 2 * len(MARKS))) + state
    free = 2**30  # what the simulator, which has no memory of its own, is given
    if not config.ENABLE_CUDASIM:
        free = cuda.current_context().get_memory_info()[0]
    return max(1, min(int(MEMORY_SHARE * free / each), -(-ENOUGH_RUNS // per_replicate)))
