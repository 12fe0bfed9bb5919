"""`opportune analyse`: from a study's record to a report with estimates and their uncertainty."""

import shlex
import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import Annotated

import typer

from opportune.cli.interrupts import kept
from opportune.cli.shared import DONE, Out, say
from opportune.errors import InputError

HELP = """Analyse a study from its export or its database.

Writes a report to print, a CSV file of every table, the figures, and an R script that reproduces the numbers. The
primary analysis is the one stated in [analysis] of the study file. The last lines are the report's path and what
was found. Reading a database requires an account with the role analyst or admin, and is recorded.

\b
Examples:
  opportune analyse export
  opportune analyse --db sqlite:///study.db --out report --plan out/my-plan-power.csv
  opportune analyse export --blinded
"""


def analyse(
    folder: Annotated[
        Path | None, typer.Argument(metavar="DIR", help="A folder written by opportune export.", show_default=False)
    ] = None,
    db: Annotated[
        str | None,
        typer.Option("--db", metavar="URL", help="Read the study's database instead of an export.", show_default=False),
    ] = None,
    out: Out = Path("out"),
    blinded: Annotated[bool, typer.Option("--blinded", help="Leave arms unnamed, for a monitoring board.")] = False,
    plan: Annotated[
        Path | None,
        typer.Option(help="NAME-plan-power.csv, as opportune plan writes it.", metavar="FILE", show_default=False),
    ] = None,
    policies: Annotated[
        bool, typer.Option("--policies/--no-policies", help="Estimate the rewards of other policies and budgets.")
    ] = True,
) -> None:
    """Analyse a study."""
    if (folder is None) == (db is None):
        raise InputError("expected either DIR, a folder that opportune export wrote, or --db URL")
    from opportune.files import held  # noqa: PLC0415
    from opportune.report.analysis import write_analysis  # noqa: PLC0415
    from opportune.trial.export import read_export  # noqa: PLC0415
    from opportune.trial.run import analyse as make  # noqa: PLC0415
    from opportune.trial.run import sentences  # noqa: PLC0415

    with ExitStack() as stack:
        source = folder
        if source is None:
            source = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="opportune-analyse-")))
            _export(db, source)
        record = read_export(source)
        stack.enter_context(held(out))
        say(f"{record.name}: analysing {len(record.decisions):,} decision points", DONE)
        stack.enter_context(kept("nothing was kept"))
        found = make(record, blinded=blinded, plan=plan, policies=policies)
        words = ["opportune", "analyse", *([str(folder)] if folder is not None else ["--db", shown_url(str(db))])]
        words += ["--out", str(out), *(["--blinded"] if blinded else [])]
        words += ["--plan", str(plan)] if plan is not None else []
        words += [] if policies else ["--no-policies"]
        report = write_analysis(found, out, shlex.join(words))
    typer.echo(str(report))
    for line in sentences(found)[: found.primary.estimates.effects if found.primary.estimates else 1]:
        typer.echo(line)


def _export(db: str | None, folder: Path) -> None:
    from opportune.cli.record import opened, write_export  # noqa: PLC0415
    from opportune.cli.signing import signed_in  # noqa: PLC0415

    with opened(db) as database:
        from opportune.service.accounts.changes import note_access  # noqa: PLC0415

        note_access(database, signed_in(database, "analyst", "admin"), "analysed")
        write_export(database, folder)


def shown_url(url: str) -> str:
    """The database's address without a password."""
    from urllib.parse import urlsplit, urlunsplit  # noqa: PLC0415

    parts = urlsplit(url)
    if parts.password is None:
        return url
    return urlunsplit(parts._replace(netloc=f"{parts.username}@{parts.netloc.rpartition('@')[2]}"))
