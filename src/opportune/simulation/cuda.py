"""The batch loop on a GPU: the step functions of `opportune.core` as CUDA device functions, one thread a run.

A kernel is built for one layout: sizes and places are constants in it, so that loops unroll and a run's state can
live in registers and local memory. Nothing of the algorithm is written here.
"""

import functools
from importlib.util import find_spec
from typing import Any

import numpy as np
from numba import config, cuda, float64
from numpy.typing import NDArray

from opportune.core import simd as lanes
from opportune.core.layout import PRICE, PURSE_SIZE, Layout
from opportune.core.protocol import begin
from opportune.errors import InputError
from opportune.simulation.loop import (
    FINAL_PRICE,
    MARKS,
    NUMBERS,
    RECORD,
    TOTALS,
    Batch,
    add_up,
    run_step,
    write_down,
)
from opportune.worlds.step import start

THREADS = 256
MEMORY_SHARE = 0.8  # of the card's free memory that one chunk's results may take


@functools.cache
def _teach_compiler() -> None:
    """Tell the GPU's compiler that the functions of core.lanes mean what is written in them: a thread is one lane."""
    if config.ENABLE_CUDASIM:  # which runs them as they are written
        return
    from numba.cuda.extending import overload  # noqa: PLC0415  (numba-cuda has it, what Numba itself brings has not)

    for function in (lanes.width, lanes.load, lanes.store, lanes.spread, lanes.fma):
        overload(function)(functools.wraps(function)(lambda *_, function=function: function))


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


@functools.lru_cache(maxsize=32)
def build(at: Layout, kind: int, history_size: int, traced: bool) -> Any:
    """The kernel for one layout and kind of world."""
    _teach_compiler()
    places = tuple(int(x) for x in at)
    size = max(1, at.size)
    history_size = max(1, history_size)

    @cuda.jit
    def kernel(facts, worlds, rules, policies, seed, streams, horizon, totals, numbers, marks):  # type: ignore[no-untyped-def]
        replicates, n_worlds = streams.shape
        chosen = policies.shape[0]
        s = cuda.local.array(size, float64)
        history = cuda.local.array(history_size, float64)
        purse = cuda.local.array(PURSE_SIZE, float64)
        out = cuda.local.array(RECORD, float64)
        sums = cuda.local.array(TOTALS, float64)
        # neighbouring threads take replicates of one world and policy: they read the same facts
        for i in range(cuda.grid(1), replicates * chosen * n_worlds, cuda.gridsize(1)):
            r = i % replicates
            w = i // replicates % n_worlds
            q = i // (replicates * n_worlds)
            for j in range(TOTALS):
                sums[j] = 0.0
            world, known, rule, stream = worlds[w], facts[w], rules[policies[q], w], streams[r, w]
            begin(places, known, s, purse)
            start(kind, world, history)
            for t in range(horizon):
                run_step(kind, world, places, known, rule, s, history, purse, seed, stream, t + 1, out)
                add_up(out, sums)
                if traced:
                    write_down(out, t, horizon, numbers[r, q, w], marks[r, q, w])
            sums[FINAL_PRICE] = purse[PRICE]
            for j in range(TOTALS):
                totals[r, q, w, j] = sums[j]

    return kernel


def run_batch(batch: Batch, at: Layout, policies: NDArray[np.int64], seed: int, streams: NDArray[np.uint64],
              horizon: int, totals: NDArray[np.float64], numbers: NDArray[np.float64],
              marks: NDArray[np.int16]) -> None:  # fmt: skip
    """All runs on the GPU, in chunks of replicates whose results fit its memory."""
    kernel = build(at, batch.kind, batch.history, numbers.shape[-1] > 0)
    facts, worlds, rules = (cuda.to_device(x) for x in (batch.facts, batch.worlds, batch.rules))
    chosen = cuda.to_device(policies)
    replicates, n_worlds = streams.shape
    per_replicate = policies.size * n_worlds
    chunk = _replicates_at_once(per_replicate, numbers.shape[-1])
    for first in range(0, replicates, chunk):
        last = min(first + chunk, replicates)
        shape = (last - first, policies.size, n_worlds)
        traced = numbers.shape[-1]
        device_totals = cuda.device_array((*shape, TOTALS), np.float64)
        device_numbers = cuda.device_array((*shape, len(NUMBERS) * traced), np.float64)
        device_marks = cuda.device_array((*shape, len(MARKS) * traced), np.int16)
        blocks = -(-(last - first) * per_replicate // THREADS)
        kernel[blocks, THREADS](
            facts, worlds, rules, chosen, np.uint64(seed), cuda.to_device(streams[first:last]), horizon,
            device_totals, device_numbers, device_marks,
        )  # fmt: skip
        totals[first:last] = device_totals.copy_to_host()
        if traced:
            numbers[first:last] = device_numbers.copy_to_host().reshape(numbers[first:last].shape)
            marks[first:last] = device_marks.copy_to_host().reshape(marks[first:last].shape)


def _replicates_at_once(per_replicate: int, traced: int) -> int:
    """How many replicates' results fit into the card's free memory."""
    each = per_replicate * (8 * TOTALS + traced * (8 * len(NUMBERS) + 2 * len(MARKS)))
    free = 2**30  # what the simulator, which has no memory of its own, is given
    if not config.ENABLE_CUDASIM:
        free = cuda.current_context().get_memory_info()[0]
    return max(1, int(MEMORY_SHARE * free / each))
