"""Running experiments: tasks in order, finished ones kept; then what was found is written, and the report."""

import time
from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import Any

import numba
import numpy as np
import xarray as xr
from rich.console import Console

from opportune import checks, memory, threads
from opportune.arguments import plain_calls
from opportune.errors import DataError, StateError
from opportune.experiments import NAMES, find
from opportune.experiments.base import Experiment
from opportune.experiments.found import Ran
from opportune.experiments.kept import PARTS, find_finished, load_part, parts_folder, save_part, source_hash
from opportune.experiments.writer import Writer, score
from opportune.files import held
from opportune.progress import bar
from opportune.report.page import write_report
from opportune.simulation.run import DEVICES, on_device

WORTH_KEEPING = 2.0  # seconds


@plain_calls
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
    `force`; an interrupted one goes on with its first unfinished task. While this lasts, no other run may write to
    `out`. On a GPU (`device` "cuda", or "auto" where there is one) policies that are optimistic about the context
    distribution still run on the CPU, and so does what is computed beside simulations; results do not depend on it.
    """
    wanted = [names] if isinstance(names, str) else checks.listed("names", names, "names of experiments", most=1000)
    for name in wanted:
        checks.choice("experiment", name, [*NAMES, "all"])
    chosen = [find(name) for name in (NAMES if "all" in wanted else dict.fromkeys(wanted))]
    out = checks.path("out", out)
    quick, force = checks.yes_no("quick", quick), checks.yes_no("force", force)
    seed = checks.whole("seed", seed, least=0, most=2**64 - 1)
    plan = [(e, {**e.config(quick), "quick": quick, "seed": seed}) for e in chosen]
    console = Console(stderr=True)
    with ExitStack() as stack:
        stack.enter_context(threads.limited(jobs))
        stack.enter_context(memory.kept())
        suited = _suited(device, console)
        stack.enter_context(held(out))
        stack.enter_context(on_device(suited))
        if cluster is not None:
            from opportune.simulation.cluster import connect  # noqa: PLC0415  (needs the extra `cluster`)

            stack.enter_context(connect(cluster))
        _run_all(plan, out, force, console)
        return write_report(out)


def _suited(device: str, console: Console) -> str:
    """The device for simulations that are not all made for it: a GPU, if wanted, for those that are."""
    if checks.choice("device", device, DEVICES) != "cuda":
        return device
    from opportune.simulation import cuda  # noqa: PLC0415  (needs the extra `gpu`)

    cuda.require()
    console.print("on the GPU, but for optimistic policies (regret-unknown) and what is computed beside simulations")
    return "auto"


def _run_all(plan: list[tuple[Experiment, dict[str, Any]]], out: Path, force: bool, console: Console) -> None:
    total = sum(len(e.tasks(config)) for e, config in plan)
    with bar(console) as progress:
        whole = progress.add_task("reproducing", total=total)
        todo = []
        for experiment, config in plan:
            done, why = find_finished(experiment, config, out)
            if done is None or force:
                todo.append((experiment, config))
                if why and not force:
                    progress.console.print(f"{experiment.name}: run again ({why})", soft_wrap=True, markup=False)
            else:
                progress.advance(whole, len(experiment.tasks(config)))
                progress.console.print(f"{experiment.name}: finished before, kept ({score(done)})")
        # What has most tasks has most to write: it is run first, so that nobody waits for its files at the end.
        todo.sort(key=lambda planned: -len(planned[0].tasks(planned[1])))
        with Writer(progress.console, aside=len(todo) > 1 and numba.get_num_threads() > 1) as writer:
            for experiment, config in todo:
                began = time.perf_counter()
                parts = {}
                for task in experiment.tasks(config):
                    progress.update(whole, description=f"{experiment.name}: {task}")
                    parts[task] = _results(experiment, config, task, out, force, progress.console)
                    progress.advance(whole)
                    writer.poll()
                seconds = time.perf_counter() - began
                writer.write(_ran(experiment, config, parts, out, seconds))
            progress.update(whole, description="writing")
    with suppress(OSError):  # unless tasks of another configuration are in it
        (out / PARTS).rmdir()


def _results(
    experiment: Experiment, config: dict[str, Any], task: str, out: Path, force: bool, console: Console
) -> xr.Dataset:
    """A task's results: from disk if an interrupted run with this configuration left them, else run now.

    What took less than `WORTH_KEEPING` is not left on disk: it is soon run again, and would be written for nothing in
    every run that is not interrupted.
    """
    folder = parts_folder(experiment, config, out)
    if not force:
        try:
            kept = load_part(folder, task)
        except DataError as error:
            console.print(f"{experiment.name}: {task} is run again ({error})", soft_wrap=True, markup=False)
        else:
            if kept is not None:
                return kept
    began = time.perf_counter()
    data = _in_order(experiment.run_task(config, task, config["seed"]))
    if data.attrs.get("interrupted"):
        raise StateError(f"{experiment.name}: {task} was interrupted; expected a complete result")
    if time.perf_counter() - began >= WORTH_KEEPING:
        save_part(data, folder, task)
    return data


def _in_order(data: xr.Dataset) -> xr.Dataset:
    """The same, laid out in memory as a file gives it back: else sums in a resumed run would be rounded differently."""
    return data.copy(data={name: np.ascontiguousarray(values) for name, values in data.data_vars.items()})


def _ran(
    experiment: Experiment, config: dict[str, Any], parts: dict[str, xr.Dataset], out: Path, seconds: float
) -> Ran:
    """An experiment whose tasks are done, as the writer takes it."""
    return Ran(
        name=experiment.name,
        config=config,
        parts=parts,
        seconds=round(seconds, 2),
        code=source_hash(),
        out=out,
        kept=parts_folder(experiment, config, out),
    )
