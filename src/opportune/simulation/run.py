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
from opportune.engine.declared import BESIDE_CHANCES
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
from opportune.simulation.python import run_in_python
from opportune.simulation.python_policy import PythonPolicy
from opportune.simulation.sizes import MOST_REPLICATES, check_horizon, check_output, check_policies, check_worlds
from opportune.simulation.timetable import Timetable, check_timetable
from opportune.worlds import SimulatedWorld

VERSION = f"{__version__} ({code_hash()})"  # identifies the algorithms, not only the release
DEVICES = ("cpu", "cuda", "auto")
INTERRUPTS = ("raise", "return")
_device: ContextVar[str] = ContextVar("device", default="cpu")  # used if a caller of `simulate` names none
CHUNK_STEPS = 2_000_000  # steps between two checks of the clock, the keyboard and the progress bar
SENT_CHUNKS = 64  # at least, given as many replicates, so that no worker waits long for the last one
SENT_TRACE_STEPS = 250_000  # in a chunk that returns its trace: about 20 MB


def simulate(
    worlds: SimulatedWorld | Sequence[SimulatedWorld],
    policies: Policy | PythonPolicy | Sequence[Policy | PythonPolicy],
    *,
    horizon: int,
    replicates: int,
    seed: int,
    trace: bool = True,
    progress: bool = True,
    device: str | None = None,
    on_interrupt: str = "raise",
    timetable: Timetable | None = None,
) -> xr.Dataset:
    """Run every policy in every world, `replicates` times, over `horizon` steps.

    All cores of this machine take part or, under `joblib.parallel_config(...)`, the workers of that backend.
    Every policy meets the same arrivals, noise and openings. Results do not depend on threads, chunks or other worlds
    and policies of the call: a run is a function of (world, policy, seed, its number in `worlds`, its replicate).

    Args:
        worlds: one or more worlds of the same kind and sizes; with a shared budget, the participants of a study.
        policies: one or more policies with different names (or budgets and scales, if names repeat); a `PythonPolicy`
            meets the same patients as the others, on one core of this machine.
        horizon: steps in a run, T.
        replicates: runs of each policy in each world.
        seed: the seed of every draw.
        trace: keep every step; otherwise only totals are kept, and memory does not grow with the horizon.
        progress: show a progress bar if it takes more than a moment.
        device: "cpu", "cuda", or "auto", which uses a GPU if there is one; by default "cpu" or the device of
            `on_device`.
        on_interrupt: the effect of Ctrl-C: "raise" raises KeyboardInterrupt as usual; "return" returns the finished
            replicates, with a warning and the attribute `interrupted` = 1 (KeyboardInterrupt if there are none).
        timetable: when each participant's (world's) decision points are and where the calendar allows no nudge; by
            default all participants begin together and every decision point is open.

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
    drawn = 0
    if any(isinstance(policy, Policy) and policy.randomised for policy in policy_list):
        drawn = world_list[0].informed_problem().actions + BESIDE_CHANCES
    check_output(world_list, len(policy_list), horizon, replicates, drawn, trace=trace)
    compiled = [i for i, policy in enumerate(policy_list) if isinstance(policy, Policy)]
    timetable = check_timetable(timetable, policy_list, participants=len(world_list), horizon=horizon)
    device = pick_device(device, [policy_list[i] for i in compiled], timed=timetable is not None)
    began, finished = time.perf_counter(), replicates
    runs = Runs(world_list, horizon, replicates, seed, trace, drawn, progress, device, on_interrupt, timetable)
    parts = []
    if compiled:
        output, finished = _compiled_part(runs, [policy_list[i] for i in compiled])
        parts.append((compiled, output))
    in_python = [i for i, policy in enumerate(policy_list) if not isinstance(policy, Policy)]
    if in_python:
        parts.append((in_python, _python_part(runs, [policy_list[i] for i in in_python], finished)))
    described = {
        "horizon": horizon, "replicates": replicates, "seed": seed, "worlds": len(world_list),
        "policies": [p.describe() for p in policy_list], "labels": labels,
    }  # fmt: skip
    attrs = {
        "seed": str(seed),
        "horizon": horizon,
        "device": device,
        "seconds": time.perf_counter() - began,
        "interrupted": int(finished < replicates),
        "config": json.dumps(described),
    }
    found = [
        build_dataset(world_list, [policy_list[i] for i in chosen], [labels[i] for i in chosen], output, finished,
                      horizon, attrs)
        for chosen, output in parts
    ]  # fmt: skip
    return found[0] if len(found) == 1 else beside(found, labels)


class Runs(NamedTuple):
    """The settings that all policies of a simulation share."""

    worlds: list[SimulatedWorld]
    horizon: int
    replicates: int
    seed: int
    trace: bool
    drawn: int  # numbers per step that record how its action was drawn, if any policy draws actions
    progress: bool
    device: str
    on_interrupt: str
    timetable: Timetable | None


def _compiled_part(runs: Runs, policies: list[Policy]) -> tuple[Output, int]:
    """The results of compiled policies, and the number of finished replicates."""
    batch = pack(runs.worlds, policies, runs.horizon, runs.device, runs.timetable)
    timed = 0 if runs.timetable is None else runs.horizon
    groups = _groups(policies, runs.worlds, runs.horizon, runs.device, timed=timed)
    output = Output(
        runs.replicates, len(policies), len(runs.worlds), runs.horizon if runs.trace else 0,
        contexts=groups[0].at.sizes.contexts, drawn=runs.drawn, by_total=runs.device == "cuda",
    )  # fmt: skip
    with _announced_compilation(runs.progress and sys.stderr.isatty()):
        return output, _run(batch, groups, output, runs)


def _python_part(runs: Runs, policies: list[PythonPolicy], replicates: int) -> Output:
    """The results of policies in Python."""
    contexts = getattr(runs.worlds[0].informed_problem(), "contexts", 0)
    traced = runs.horizon if runs.trace else 0
    output = Output(replicates, len(policies), len(runs.worlds), traced, contexts=contexts, drawn=runs.drawn)
    with _progress(runs.progress, replicates) as show:
        run_in_python(runs.worlds, policies, output, seed=runs.seed, horizon=runs.horizon, show=show)
    return output


def beside(parts: Sequence[xr.Dataset], labels: Sequence[str]) -> xr.Dataset:
    """Results of the same worlds for several policies, as one Dataset with the policies in this order."""
    joined = xr.concat(parts, "policy", data_vars="minimal", coords="minimal", compat="override", join="override",
                       combine_attrs="override")  # fmt: skip
    return joined.sel(policy=list(labels))


@contextmanager
def on_device(device: str) -> Iterator[None]:
    """Make `simulate` run on this device inside this context, in all calls that name none."""
    token = _device.set(checks.choice("device", device, DEVICES))
    try:
        yield
    finally:
        _device.reset(token)


class Group(NamedTuple):
    """Policies that run in one call of the compiled loop, with the same layout and the same sharing."""

    at: Layout
    chosen: NDArray[np.int64]
    shared: bool
    pooled: bool
    capped: bool


class Job(NamedTuple):
    """The data that all chunks of a simulation share, for other workers."""

    batch: Batch
    seed: int
    horizon: int
    traced: int
    drawn: int
    threads: int
    version: str
    extensions: tuple[tuple[str, str], ...]  # modules of registered rules and worlds, each with a hash


class Chunk(NamedTuple):
    """Some policies of a group, for the replicates first..last."""

    group: Group
    first: int
    last: int


def run_chunk(job: Job, chunk: Chunk) -> Output:
    """Run a chunk; other workers call this."""
    if job.version != VERSION:
        raise InputError(f"a worker has opportune {VERSION}; expected {job.version}, as its caller has")
    bring_extensions(job.extensions)
    # Arrays from another process may be read-only or unaligned, which compiled code treats as other types.
    group = chunk.group._replace(chosen=_usable(chunk.group.chosen))
    batch = job.batch._replace(**{name: _usable(getattr(job.batch, name)) for name in ("constants", "worlds", "rules")})
    streams = streams_of(chunk.first, chunk.last, batch.worlds.shape[0])
    contexts = group.at.sizes.contexts
    part = Output(
        streams.shape[0], group.chosen.size, streams.shape[1], job.traced, contexts=contexts, drawn=job.drawn
    )  # fmt: skip
    task = _task(batch, group, np.arange(group.chosen.size), job.seed, job.horizon)
    run_batch(batch, group.at, task, streams, part.rows(0, len(streams)), job.threads)
    return part


def _task(batch: Batch, group: Group, rows: NDArray[np.int64], seed: int, horizon: int) -> Task:
    """The task of a group: its policies, with results in these rows."""
    slots = horizon + int(group.at.views("calendar", batch.worlds).start.max())
    return Task(group.chosen, rows, group.shared, group.pooled, group.capped, np.uint64(seed), horizon, slots)


def _usable(array: Any) -> Any:
    return np.require(array, requirements=["C", "A", "W", "E"])


def pick_device(device: str, policies: Sequence[Policy], *, timed: bool = False) -> str:
    """The device to run on: "auto" picks a GPU if there is one that can run these policies, "cuda" insists on it.

    `timed` means that there is a timetable.
    """
    if device == "cpu":
        return "cpu"
    from opportune.simulation import cuda  # noqa: PLC0415  (needs the extra `gpu`)

    unfit = [f"policy {p.name!r} is optimistic" for p in policies if p.optimistic]
    unfit += [f"policy {p.name!r} is pooled in part" for p in policies if p.partial]
    unfit += [f"policy {p.name!r} limits nudges per day across participants" for p in policies if p.capped]
    coupled = [p for p in policies if timed and (p.shared or p.pooled)]
    unfit += [f"policy {p.name!r} shares something between participants who follow a timetable" for p in coupled]
    if device == "auto":
        return "cuda" if cuda.available() and not unfit else "cpu"
    if unfit:
        raise InputError(f"{unfit[0]}; expected device='cpu' for it")
    cuda.require()
    return "cuda"


def _run(batch: Batch, groups: list[Group], output: Output, runs: Runs) -> int:
    """Run everything in chunks of replicates; returns the number of finished replicates."""
    replicates, horizon, device = runs.replicates, runs.horizon, runs.device
    workers = chosen_workers()
    run: Callable[..., Generator[int]] = _run_here if workers.backend is None else _run_elsewhere
    if device == "cuda":
        run = _run_on_gpu
    spans = _spans(output, horizon, sent=device == "cpu" and workers.backend is not None)
    done = 0
    try:
        with (
            _progress(runs.progress and len(spans) >= 4, replicates) as show,
            closing(run(batch, groups, output, spans, workers, runs.seed, horizon)) as counts,
        ):
            for done in counts:
                show(done)
    except KeyboardInterrupt:
        if done == 0 or runs.on_interrupt == "raise":
            raise
        warnings.warn(
            f"interrupted: {done} of {replicates} replicates are finished and returned",
            RuntimeWarning,
            stacklevel=4,
        )
    return done


def _run_here(batch: Batch, groups: list[Group], output: Output, spans: list[tuple[int, int]],
              workers: Workers, seed: int, horizon: int) -> Generator[int]:  # fmt: skip
    """Run in threads of this process; yields the number of finished replicates as it grows."""
    for first, last in spans:
        streams = streams_of(first, last, output.shape[2])
        for group in groups:
            task = _task(batch, group, group.chosen, seed, horizon)
            run_batch(batch, group.at, task, streams, output.rows(first, last), workers.threads)
        yield last


def _run_elsewhere(batch: Batch, groups: list[Group], output: Output, spans: list[tuple[int, int]],
                   workers: Workers, seed: int, horizon: int) -> Generator[int]:  # fmt: skip
    """Run in other processes; yields the number of leading replicates whose results have all arrived."""
    traced = output.numbers.shape[-1]
    most = SENT_TRACE_STEPS if traced else CHUNK_STEPS
    chunks = [
        Chunk(group._replace(chosen=some), first, last)
        for first, last in spans
        for group in groups
        for some in _split(group.chosen, (last - first) * output.shape[2] * horizon, most)
    ]
    missing = [True] * len(chunks)
    complete = 0  # leading chunks, in the order of replicates
    job = Job(batch, seed, horizon, traced, output.chances.shape[-2], workers.threads, VERSION, list_extensions())
    with closing(spread(workers, run_chunk, job, chunks)) as results:
        for number, part in results:
            chunk = chunks[number]
            output.put(part, chunk.group.chosen, chunk.first, chunk.last)
            missing[number] = False
            while complete < len(chunks) and not missing[complete]:
                complete += 1
            yield chunks[complete].first if complete < len(chunks) else spans[-1][1]


def _split(chosen: NDArray[np.int64], steps: int, most: int) -> list[NDArray[np.int64]]:
    """Policies split so that each part takes about `most` steps, given the `steps` of one policy."""
    return np.array_split(chosen, min(chosen.size, -(-chosen.size * steps // most)))


def _run_on_gpu(batch: Batch, groups: list[Group], output: Output, spans: list[tuple[int, int]],
                workers: Workers, seed: int, horizon: int) -> Generator[int]:  # fmt: skip
    """Run on the GPU, all replicates at once or as many as fit into its memory."""
    from opportune.simulation import cuda  # noqa: PLC0415

    for group in groups:
        cuda.run_batch(batch, group.at, group.chosen, group.shared, group.pooled, seed, horizon, output)
    yield output.shape[0]


def _groups(
    policies: Sequence[Policy], worlds: Sequence[SimulatedWorld], horizon: int, device: str, *, timed: int
) -> list[Group]:
    """Policies that can run in one call of the compiled loop."""
    groups: dict[tuple[Layout, bool, bool, bool], list[int]] = {}
    layouts = layouts_for(worlds, policies, horizon, device, timed)
    for i, (policy, at) in enumerate(zip(policies, layouts, strict=True)):
        groups.setdefault((at, policy.shared, policy.one_model, policy.capped), []).append(i)
    return [
        Group(at, np.array(chosen, dtype=np.int64), shared, pooled, capped)
        for (at, shared, pooled, capped), chosen in groups.items()
    ]


def _spans(output: Output, horizon: int, *, sent: bool) -> list[tuple[int, int]]:
    """The replicates in spans, each a chunk of work; smaller spans if they are sent to other processes."""
    replicates, n_policies, n_worlds = output.shape
    per_replicate = n_policies * n_worlds * horizon
    chunk = CHUNK_STEPS // per_replicate
    if sent:
        most = SENT_TRACE_STEPS if output.numbers.shape[-1] else CHUNK_STEPS
        chunk = min(most // per_replicate, -(-replicates // SENT_CHUNKS))
    chunk = max(1, chunk)
    return [(first, min(first + chunk, replicates)) for first in range(0, replicates, chunk)]


@contextmanager
def _announced_compilation(wanted: bool) -> Iterator[None]:
    """Announce what is being compiled, since nothing else shows that work is under way."""

    def tell(name: str) -> None:
        sys.stderr.write(f"compiling {name.replace('_', ' ')}, once for this version (about 20 s)\n")

    if wanted:
        listeners.append(tell)
    try:
        yield
    finally:
        if wanted:
            listeners.remove(tell)


@contextmanager
def _progress(shown: bool, replicates: int) -> Iterator[Callable[[int], None]]:
    """A progress bar, if wanted; yields a function that takes the number of finished replicates."""
    if not shown:
        yield lambda done: None
        return
    from opportune.progress import bar  # noqa: PLC0415  (rich is slow to import)

    with bar() as show:
        task = show.add_task("simulating", total=replicates)
        yield lambda done: show.update(task, completed=done)
