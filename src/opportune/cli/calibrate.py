"""`opportune calibrate`: noise, contexts and effects from pilot data, written into a study file."""

from pathlib import Path
from typing import Annotated

import typer

from opportune.cli.shared import DONE, say
from opportune.errors import InputError
from opportune.files import write_whole

HELP = """Estimate noise, contexts and effects from pilot data.

PILOT.csv has a row for each decision point: participant, step, action, reward, and a column for each variable.
Writes a study file with comments that say where each number came from. Bad rows are reported with their line.

\b
Example:
  opportune calibrate my.toml pilot.csv --out calibrated.toml
"""


def calibrate(
    study: Annotated[Path, typer.Argument(metavar="STUDY.toml", hidden=True)],
    pilot: Annotated[Path, typer.Argument(metavar="PILOT.csv", hidden=True)],
    out: Annotated[
        Path | None, typer.Option(help="The file to write; STUDY-calibrated.toml unless given.", metavar="FILE",
                                  show_default=False)
    ] = None,
    prior: Annotated[
        bool, typer.Option("--prior", help="Also write [prior], from which agents start; update an existing one.")
    ] = False,
    skip_bad_rows: Annotated[bool, typer.Option("--skip-bad-rows", help="Leave bad rows out.")] = False,
    force: Annotated[bool, typer.Option("--force", help="Overwrite an existing file.")] = False,
) -> None:  # fmt: skip
    """Estimate a study's truth from pilot data."""
    from opportune.planning.calibration import calibrate as fit  # noqa: PLC0415
    from opportune.study import load_study  # noqa: PLC0415

    target = out or study.with_name(f"{study.stem}-calibrated.toml")
    if target.exists() and not force:
        raise InputError(f"{target} exists; expected another name with --out, or --force")
    if not target.absolute().parent.is_dir():
        raise InputError(f"--out is {str(target)!r}; expected a path in a folder that exists")
    found = fit(load_study(study), pilot, skip_bad=skip_bad_rows, prior=prior)
    for line, text in found.left_out:
        say(f"{pilot}, line {line}: left out: {text}", DONE)
    for note in found.notes:
        say(f"note: {note}", DONE)
    write_whole(target, found.text.encode())
    fitted = found.fitted
    typer.echo(
        f"{fitted.rows:,} rows of {fitted.participants:,} participants: noise sd {fitted.sigma:.3g}, "
        f"{len(found.terms)} effects", err=True,
    )  # fmt: skip
    typer.echo(str(target))
