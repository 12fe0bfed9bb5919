"""Reproduce experiments one after the other: keep finished ones, run and write the others, then write the report."""

import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path

import xarray as xr
from rich.console import Console
from rich.progress import Progress, TaskID

from opportune import checks, threads
from opportune.analysis.parts import Parts
from opportune.errors import DataError
from opportune.experiments import NAMES, find
from opportune.experiments.base import Config, Experiment
from opportune.experiments.record import find_finished
from opportune.experiments.writing import write
from opportune.files import held
from opportune.progress import bar
from opportune.report.page import write_report
from opportune.simulation.run import DEVICES, on_device


def reproduce(
    names: Sequence[str],
    *,
    out: Path,
    quick: bool = False,
    seed: int = 1,
    jobs: int | None = None,
    force: bool = False,
    device: str = "cpu",
    cluster: str | None = None,
) -> Path:
    """Run experiments (or "all"), write their files and the report; returns the report's path.

    A finished experiment with the same configuration and code, whose files are undamaged, is not run again unless
    `force`; an interrupted one resumes with its first unfinished task. No other run may write to `out` at the same
    time. On a GPU (`device` "cuda", or "auto" if there is one) policies that are optimistic about the context
    distribution still run on the CPU, like all computations outside simulations; results do not depend on the device.
    """
    wanted = [names] if isinstance(names, str) else checks.listed("names", names, "names of experiments", most=1000)
    for name in wanted:
        checks.choice("experiment", name, [*NAMES, "all"])
    chosen = [find(name) for name in (NAMES if "all" in wanted else dict.fromkeys(wanted))]
    out = checks.path("out", out)
    quick, force = checks.yes_no("quick", quick), checks.yes_no("force", force)
    seed = checks.whole("seed", seed, least=0, most=2**64 - 1)
    plan = [(e, {**e.config(quick), "quick": quick, "seed": seed}) for e in chosen]
    for experiment in chosen:
        experiment.prepare()
    console = Console(stderr=True)
    with ExitStack() as stack:
        stack.enter_context(threads.limited(jobs))
        usable = _usable_device(device, console)
        stack.enter_context(held(out))
        stack.enter_context(on_device(usable))
        if cluster is not None:
            from opportune.simulation.cluster import connect  # noqa: PLC0415  (needs the extra `cluster`)

            stack.enter_context(connect(cluster))
        with bar(console) as progress:
            whole = progress.add_task("reproducing", total=sum(len(e.tasks(config)) for e, config in plan))
            for experiment, config in plan:
                _reproduce_one(experiment, config, out, force, progress, whole)
        return write_report(out)


def _usable_device(device: str, console: Console) -> str:
    """The device for simulations that may not all support it: a GPU, if wanted, for those that do."""
    if checks.choice("device", device, DEVICES) != "cuda":
        return device
    from opportune.simulation import cuda  # noqa: PLC0415  (needs the extra `gpu`)

    cuda.require()
    console.print("on the GPU, except for optimistic policies (regret-unknown) and computations outside simulations")
    return "auto"


def _reproduce_one(
    experiment: Experiment, config: Config, out: Path, force: bool, progress: Progress, whole: TaskID
) -> None:
    """Run and write one experiment, unless an earlier run finished it."""
    name, tasks = experiment.name, experiment.tasks(config)
    finished, why_not = find_finished(name, config, out)
    if finished is not None and not force:
        progress.advance(whole, len(tasks))
        progress.console.print(f"{name}: finished before, kept ({finished.score})")
        return
    if why_not and not force:
        _say(progress, f"{name}: run again ({why_not})")
    parts = Parts(out, name, config)
    began = time.perf_counter()
    results: dict[str, xr.Dataset] = {}
    for task in tasks:
        progress.update(whole, description=f"{name}: {task}")
        data = None if force else _load(parts, name, task, progress)
        results[task] = parts.save(task, experiment.run_task(config, task, config["seed"])) if data is None else data
        progress.advance(whole)
    seconds = time.perf_counter() - began
    progress.update(whole, description=f"{name}: writing")
    record = write(experiment, config, results, out=out, seconds=seconds)
    parts.discard()
    progress.console.print(f"{name}: done in {record.seconds:.1f} s ({record.score})")


def _load(parts: Parts, name: str, task: str, progress: Progress) -> xr.Dataset | None:
    """A task's results, if an interrupted run left them undamaged."""
    try:
        return parts.load(task)
    except DataError as error:
        _say(progress, f"{name}: {task} is run again ({error})")
        return None


def _say(progress: Progress, text: str) -> None:
    """Print a sentence that may contain a path, in one line and without interpreting markup."""
    progress.console.print(text, soft_wrap=True, markup=False)
