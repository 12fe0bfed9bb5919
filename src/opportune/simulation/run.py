"""`simulate`: policies in worlds, many runs, one Dataset."""

import json
import sys
import time
import warnings
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing, contextmanager
from contextvars import ContextVar
from typing import Any, NamedTuple

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from opportune import checks
from opportune._version import __version__
from opportune.engine.compiled import code_hash, listeners
from opportune.engine.layout import Layout
from opportune.errors import InputError
from opportune.extensions import bring_extensions, list_extensions
from opportune.policy import Policy
from opportune.simulation.cluster import Workers, chosen_workers, spread
from opportune.simulation.cpu import Task, run_batch
from opportune.simulation.loop import Batch
from opportune.simulation.pack import (
    Output,
    build_dataset,
    check_inputs,
    layouts_for,
    pack,
    policy_labels,
    streams_of,
)
from opportune.simulation.sizes import MOST_REPLICATES, check_horizon, check_output, check_policies, check_worlds
from opportune.worlds import SimulatedWorld

VERSION = f"{__version__} ({code_hash()})"  # of the algorithms, not only of the release
DEVICES = ("cpu", "cuda", "auto")
INTERRUPTS = ("raise", "return")
_device: ContextVar[str] = ContextVar("device", default="cpu")  # where a caller of `simulate` does not say
CHUNK_STEPS = 2_000_000  # steps between two looks at the clock, the keyboard and the progress bar
SENT_CHUNKS = 64  # at least, where there are as many replicates: no worker should wait long for the last one
SENT_TRACE_STEPS = 250_000  # in a chunk that is sent back with its trace: about 20 MB


def simulate(
    worlds: SimulatedWorld | Sequence[SimulatedWorld],
    policies: Policy | Sequence[Policy],
    *,
    horizon: int,
    replicates: int,
    seed: int,
    trace: bool = True,
    progress: bool = True,
    device: str | None = None,
    on_interrupt: str = "raise",
) -> xr.Dataset:
    """Run every policy in every world, `replicates` times, over `horizon` steps.

    All cores of this machine take part or, under `joblib.parallel_config(...)`, the workers of that backend.
    Every policy meets the same arrivals, noise and openings. The numbers do not depend on threads, chunks or what
    else is in the call: a run is a function of (world, policy, seed, its number in `worlds`, its replicate).

    Args:
        worlds: one or more worlds of the same kind and sizes; with a shared budget, the participants of a study.
        policies: one or more policies, told apart by name (or by budget and scale where names repeat).
        horizon: steps in a run, T.
        replicates: runs of each policy in each world.
        seed: of every draw.
        trace: keep every step; without it only totals are kept, and memory does not grow with the horizon.
        progress: show a progress bar if it takes more than a moment.
        device: "cpu", "cuda", or "auto", which takes a GPU where there is one; "cpu" unless given, or what
            `on_device` says.
        on_interrupt: what Ctrl-C does: "raise", KeyboardInterrupt as ever, or "return", give back the replicates that
            are finished, with a warning and the attribute `interrupted` = 1 (KeyboardInterrupt if there are none).

    Returns:
        A Dataset with dims policy, world, replicate and, with `trace`, step.

    """
    world_list, policy_list = check_worlds(worlds), check_policies(policies)
    check_inputs(world_list, policy_list)
    horizon = check_horizon(world_list, horizon)
    replicates = checks.whole("replicates", replicates, least=1, most=MOST_REPLICATES)
    seed = checks.seed("seed", seed)
    trace, progress = checks.yes_no("trace", trace), checks.yes_no("progress", progress)
    device = checks.choice("device", _device.get() if device is None else device, DEVICES)
    checks.choice("on_interrupt", on_interrupt, INTERRUPTS)
    labels = policy_labels(policy_list)
    check_output(world_list, len(policy_list), horizon, replicates, trace=trace)
    device = pick_device(device, policy_list)
    batch = pack(world_list, policy_list, horizon, device)
    began = time.perf_counter()
    traced = horizon if trace else 0
    groups = _groups(policy_list, world_list, horizon, device)
    contexts = groups[0].at.sizes.contexts
    output = Output(replicates, len(policy_list), len(world_list), traced, contexts=contexts, by_total=device == "cuda")
    with _compilation_told(progress and sys.stderr.isatty()):
        finished = _run(
            batch,
            groups,
            output,
            world_list,
            horizon=horizon,
            seed=seed,
            progress=progress,
            device=device,
            on_interrupt=on_interrupt,
        )
    attrs = {
        "seed": str(seed),
        "horizon": horizon,
        "device": device,
        "seconds": time.perf_counter() - began,
        "interrupted": int(finished < replicates),
        "config": json.dumps(
            {"horizon": horizon, "replicates": replicates, "seed": seed, "worlds": len(world_list),
             "policies": [p.describe() for p in policy_list]}
        ),
    }  # fmt: skip
    return build_dataset(world_list, policy_list, labels, output, finished, horizon, attrs)


@contextmanager
def on_device(device: str) -> Iterator[None]:
    """Have `simulate` run on this device while this lasts, wherever it is called without one."""
    token = _device.set(checks.choice("device", device, DEVICES))
    try:
        yield
    finally:
        _device.reset(token)


class Group(NamedTuple):
    """Policies that run in one call of the compiled loop: alike in layout and in what participants share."""

    at: Layout
    chosen: NDArray[np.int64]
    shared: bool
    pooled: bool


class Job(NamedTuple):
    """What all chunks of a simulation have in common, for workers elsewhere."""

    batch: Batch
    seed: int
    horizon: int
    traced: int
    threads: int
    version: str
    extensions: tuple[tuple[str, str], ...]  # modules of what others have registered, each with a hash


class Chunk(NamedTuple):
    """Some policies of a group, for the replicates first..last."""

    group: Group
    first: int
    last: int


def run_chunk(job: Job, chunk: Chunk) -> Output:
    """Run a chunk; this is what workers elsewhere do."""
    if job.version != VERSION:
        raise InputError(f"a worker has opportune {VERSION}; expected {job.version}, as its caller has")
    bring_extensions(job.extensions)
    # Arrays from another process may be read-only or oddly placed in memory: other types, to compiled code.
    group = chunk.group._replace(chosen=_usable(chunk.group.chosen))
    batch = job.batch._replace(**{name: _usable(getattr(job.batch, name)) for name in ("constants", "worlds", "rules")})
    streams = streams_of(chunk.first, chunk.last, batch.worlds.shape[0])
    contexts = group.at.sizes.contexts
    part = Output(streams.shape[0], group.chosen.size, streams.shape[1], job.traced, contexts=contexts)
    task = _task(group, np.arange(group.chosen.size), job.seed, job.horizon)
    run_batch(batch, group.at, task, streams, part.rows(0, len(streams)), job.threads)
    return part


def _task(group: Group, rows: NDArray[np.int64], seed: int, horizon: int) -> Task:
    """A group's policies, their results in these rows."""
    return Task(group.chosen, rows, group.shared, group.pooled, np.uint64(seed), horizon)


def _usable(array: Any) -> Any:
    return np.require(array, requirements=["C", "A", "W", "E"])


def pick_device(device: str, policies: Sequence[Policy]) -> str:
    """The device to run on: "auto" takes a GPU where there is one that can do it, "cuda" insists."""
    if device == "cpu":
        return "cpu"
    from opportune.simulation import cuda  # noqa: PLC0415  (needs the extra `gpu`)

    unfit = [p.name for p in policies if p.optimistic]
    if device == "auto":
        return "cuda" if cuda.available() and not unfit else "cpu"
    if unfit:
        raise InputError(f"policy {unfit[0]!r} is optimistic; expected device='cpu' for it")
    cuda.require()
    return "cuda"


def _run(batch: Batch, groups: list[Group], output: Output, worlds: list[SimulatedWorld], *, horizon: int, seed: int,
         progress: bool, device: str, on_interrupt: str) -> int:  # fmt: skip
    """Run everything in chunks of replicates; returns how many replicates are finished."""
    replicates = output.shape[0]
    workers = chosen_workers()
    run: Callable[..., Generator[int]] = _run_here if workers.backend is None else _run_elsewhere
    if device == "cuda":
        run = _run_on_gpu
    spans = _spans(output, horizon, sent=device == "cpu" and workers.backend is not None)
    done = 0
    try:
        with (
            _progress(progress and len(spans) >= 4, replicates) as show,
            closing(run(batch, groups, output, spans, workers, seed, horizon)) as counts,
        ):
            for done in counts:
                show(done)
    except KeyboardInterrupt:
        if done == 0 or on_interrupt == "raise":
            raise
        warnings.warn(
            f"interrupted: {done} of {replicates} replicates are finished and returned",
            RuntimeWarning,
            stacklevel=4,
        )
    return done


def _run_here(batch: Batch, groups: list[Group], output: Output, spans: list[tuple[int, int]],
              workers: Workers, seed: int, horizon: int) -> Generator[int]:  # fmt: skip
    """Run by threads of this process; yields, as it goes, how many replicates are finished."""
    for first, last in spans:
        streams = streams_of(first, last, output.shape[2])
        for group in groups:
            task = _task(group, group.chosen, seed, horizon)
            run_batch(batch, group.at, task, streams, output.rows(first, last), workers.threads)
        yield last


def _run_elsewhere(batch: Batch, groups: list[Group], output: Output, spans: list[tuple[int, int]],
                   workers: Workers, seed: int, horizon: int) -> Generator[int]:  # fmt: skip
    """Run by other processes; yields, as results come, up to which replicate all of them are there."""
    traced = output.numbers.shape[-1]
    most = SENT_TRACE_STEPS if traced else CHUNK_STEPS
    chunks = [
        Chunk(group._replace(chosen=some), first, last)
        for first, last in spans
        for group in groups
        for some in _split(group.chosen, (last - first) * output.shape[2] * horizon, most)
    ]
    missing = [True] * len(chunks)
    complete = 0  # chunks, in the order of replicates
    job = Job(batch, seed, horizon, traced, workers.threads, VERSION, list_extensions())
    with closing(spread(workers, run_chunk, job, chunks)) as results:
        for number, part in results:
            chunk = chunks[number]
            output.put(part, chunk.group.chosen, chunk.first, chunk.last)
            missing[number] = False
            while complete < len(chunks) and not missing[complete]:
                complete += 1
            yield chunks[complete].first if complete < len(chunks) else spans[-1][1]


def _split(chosen: NDArray[np.int64], steps: int, most: int) -> list[NDArray[np.int64]]:
    """Policies in as many parts as keep each near `most` steps, where one policy takes `steps`."""
    return np.array_split(chosen, min(chosen.size, -(-chosen.size * steps // most)))


def _run_on_gpu(batch: Batch, groups: list[Group], output: Output, spans: list[tuple[int, int]],
                workers: Workers, seed: int, horizon: int) -> Generator[int]:  # fmt: skip
    """Run on the GPU, all replicates at once or as many as its memory takes."""
    from opportune.simulation import cuda  # noqa: PLC0415

    for group in groups:
        cuda.run_batch(batch, group.at, group.chosen, group.shared, group.pooled, seed, horizon, output)
    yield output.shape[0]


def _groups(policies: Sequence[Policy], worlds: Sequence[SimulatedWorld], horizon: int, device: str) -> list[Group]:
    """Policies that can run in one call of the compiled loop."""
    groups: dict[tuple[Layout, bool, bool], list[int]] = {}
    for i, (policy, at) in enumerate(zip(policies, layouts_for(worlds, policies, horizon, device), strict=True)):
        groups.setdefault((at, policy.shared, policy.pooled), []).append(i)
    return [
        Group(at, np.array(chosen, dtype=np.int64), shared, pooled) for (at, shared, pooled), chosen in groups.items()
    ]


def _spans(output: Output, horizon: int, *, sent: bool) -> list[tuple[int, int]]:
    """The replicates in spans, each a chunk of work; smaller ones if they are sent elsewhere."""
    replicates, n_policies, n_worlds = output.shape
    per_replicate = n_policies * n_worlds * horizon
    chunk = CHUNK_STEPS // per_replicate
    if sent:
        most = SENT_TRACE_STEPS if output.numbers.shape[-1] else CHUNK_STEPS
        chunk = min(most // per_replicate, -(-replicates // SENT_CHUNKS))
    chunk = max(1, chunk)
    return [(first, min(first + chunk, replicates)) for first in range(0, replicates, chunk)]


@contextmanager
def _compilation_told(told: bool) -> Iterator[None]:
    """Say meanwhile what is being compiled: the one thing that takes long without a sign."""

    def tell(name: str) -> None:
        sys.stderr.write(f"compiling {name.replace('_', ' ')}, once for this version (about 20 s)\n")

    if told:
        listeners.append(tell)
    try:
        yield
    finally:
        if told:
            listeners.remove(tell)


@contextmanager
def _progress(shown: bool, replicates: int) -> Iterator[Callable[[int], None]]:
    """A progress bar, if it is to be shown; gives a function that takes the number of finished replicates."""
    if not shown:
        yield lambda done: None
        return
    from opportune.progress import bar  # noqa: PLC0415  (rich is slow to import)

    with bar() as show:
        task = show.add_task("simulating", total=replicates)
        yield lambda done: show.update(task, completed=done)
