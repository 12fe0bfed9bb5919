"""Reproducing experiments: finished ones are kept, the others run and written, then the report."""

from collections.abc import Sequence
from contextlib import ExitStack, suppress
from pathlib import Path

from rich.console import Console

from opportune import checks, threads
from opportune.experiments import NAMES, find
from opportune.experiments.base import Planned
from opportune.experiments.course import Course, chains
from opportune.experiments.kept import PARTS, find_finished
from opportune.experiments.writer import score
from opportune.files import held
from opportune.progress import bar
from opportune.report.page import write_report
from opportune.simulation.cluster import chosen_workers
from opportune.simulation.run import DEVICES, on_device, pick_device


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
        suited = _suited(device, console)
        stack.enter_context(held(out))
        stack.enter_context(on_device(suited))
        if cluster is not None:
            from opportune.simulation.cluster import connect  # noqa: PLC0415  (needs the extra `cluster`)

            stack.enter_context(connect(cluster))
        here = chosen_workers().backend is None and pick_device(suited, []) == "cpu"
        _run_all(plan, out, force, console, here=here)
        return write_report(out)


def _suited(device: str, console: Console) -> str:
    """The device for simulations that are not all made for it: a GPU, if wanted, for those that are."""
    if checks.choice("device", device, DEVICES) != "cuda":
        return device
    from opportune.simulation import cuda  # noqa: PLC0415  (needs the extra `gpu`)

    cuda.require()
    console.print("on the GPU, but for optimistic policies (regret-unknown) and what is computed beside simulations")
    return "auto"


def _run_all(plan: list[Planned], out: Path, force: bool, console: Console, *, here: bool) -> None:
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
        Course(progress, whole, chains(todo), out, force, here=here).run()
    with suppress(OSError):  # unless tasks of another configuration are in it
        (out / PARTS).rmdir()
