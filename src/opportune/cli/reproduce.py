"""`opportune reproduce`: run the paper's experiments and write the report."""

import textwrap
from pathlib import Path
from typing import Annotated

import typer

from opportune.cli.interrupts import kept
from opportune.cli.shared import Cluster, Device, Jobs, Out
from opportune.errors import InputError
from opportune.experiments import NAMES

HELP = f"""Reproduce the paper's experiments and write a report.

NAME is an experiment, several of them, or all. Finished parts are kept: the same command resumes where it
stopped. The last line of output is the report's path.

\b
Experiments:
  {chr(10).join(textwrap.wrap(", ".join(NAMES), 76, subsequent_indent="  "))}

\b
Examples:
  opportune reproduce all
  opportune reproduce all --quick --out out/quick
"""


def reproduce(
    names: Annotated[
        list[str] | None,
        typer.Argument(metavar="NAME|all", hidden=True),
    ] = None,
    out: Out = Path("out"),
    quick: Annotated[
        bool, typer.Option("--quick", help="Use fewer instances and runs, for a first impression.")
    ] = False,
    seed: Annotated[int, typer.Option(help="Seed of every random draw.", metavar="N")] = 1,
    jobs: Jobs = None,
    force: Annotated[bool, typer.Option("--force", help="Run finished experiments again.")] = False,
    device: Device = "cpu",
    cluster: Cluster = None,
) -> None:
    """Reproduce the paper's experiments."""
    from opportune import checks  # noqa: PLC0415

    chosen = _chosen(names or [])
    checks.seed("--seed", seed)
    with kept(f"finished parts are kept in {out}; the same command resumes there"):
        from opportune.experiments.runner import reproduce as run_experiments  # noqa: PLC0415

        report = run_experiments(
            chosen, out=out, quick=quick, seed=seed, jobs=jobs, force=force, device=device, cluster=cluster
        )
    typer.echo(str(report))


def _chosen(given: list[str]) -> list[str]:
    """The experiments that these names denote."""
    from opportune import checks  # noqa: PLC0415

    if not given:
        raise InputError(f"no experiment is given; expected one of {', '.join(map(repr, NAMES))}, or 'all'")
    for name in given:
        checks.choice("NAME", name, [*NAMES, "all"])
    return list(NAMES) if "all" in given else list(dict.fromkeys(given))
