"""`opportune plan`: how many nudges a study needs, the workload, who gets them, the uncertainty, and the power."""

import shlex
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated, Any

import typer

from opportune.cli.interrupts import kept
from opportune.cli.shared import DONE, Cluster, Device, Jobs, Out, say
from opportune.errors import InputError

HELP = """Say how many nudges a study needs, before it starts.

Simulates the study's participants over a grid of budgets. Writes a report, its figures, and a CSV file of every
table. Finished parts are kept: the same command resumes where it stopped. The last lines are the report's path and
the answer.

\b
Examples:
  opportune plan my.toml
  opportune plan my.toml --budgets 0,5,10,20,40 --target 0.9
"""


def plan(
    study: Annotated[Path, typer.Argument(metavar="STUDY.toml", hidden=True)],
    out: Out = Path("out"),
    budgets: Annotated[
        str | None,
        typer.Option(
            help="Budgets to try, in nudges per participant; by default the file's.",
            metavar="LIST",
            show_default=False,
        ),
    ] = None,
    target: Annotated[
        float, typer.Option(help="Share of the largest possible gain that the budget should reach.", metavar="X")
    ] = 0.9,
    participants: Annotated[
        int | None,
        typer.Option(help="Number of participants; by default the file's, or 100.", metavar="N", show_default=False),
    ] = None,
    replicates: Annotated[int, typer.Option(help="Number of simulations of each participant.", metavar="N")] = 200,
    jobs: Jobs = None,
    device: Device = "cpu",
    cluster: Cluster = None,
) -> None:
    """Plan a study described in a file."""
    from opportune import threads  # noqa: PLC0415
    from opportune.files import held  # noqa: PLC0415
    from opportune.planning import plan as make  # noqa: PLC0415
    from opportune.planning import settings_of  # noqa: PLC0415
    from opportune.planning.run import discard_parts  # noqa: PLC0415
    from opportune.planning.words import sentence  # noqa: PLC0415
    from opportune.report.planning import write_plan  # noqa: PLC0415
    from opportune.study import load_study  # noqa: PLC0415

    loaded = load_study(study)
    given: dict[str, Any] = {
        "budgets": _numbers(budgets), "target": target, "participants": participants, "replicates": replicates,
        "device": device,
    }  # fmt: skip
    settings_of(loaded, **given)
    with ExitStack() as stack:
        stack.enter_context(threads.limited(jobs, name="--jobs"))
        stack.enter_context(held(out))  # refuse before the run, not after it
        say(f"{loaded.name}: planning (the first time, compiling takes half a minute)", DONE)
        stack.enter_context(kept(f"finished parts are kept in {out}; the same command resumes there"))
        if cluster is not None:
            from opportune.simulation.cluster import connect  # noqa: PLC0415

            stack.enter_context(connect(cluster))
        found = make(loaded, out=out, keep_parts=True, **given)
        words = ["opportune", "plan", str(study), "--out", str(out), "--target", f"{target:g}"]
        words += ["--replicates", f"{replicates}"]
        words += ["--budgets", budgets] if budgets is not None else []
        words += ["--participants", f"{participants}"] if participants is not None else []
        words += ["--device", device] if device != "cpu" else []
        report = write_plan(found, out, shlex.join(words))
        discard_parts(found, out)
    typer.echo(str(report))
    typer.echo(sentence(found))


def _numbers(text: str | None) -> list[float] | None:
    """Budgets from "0,5,10"."""
    if text is None:
        return None
    try:
        return [float(word) for word in text.split(",") if word.strip()]
    except ValueError:
        raise InputError(f"--budgets is {text!r}; expected numbers separated by commas, such as 0,5,10") from None
