"""`opportune check`: what each command would still need of a study file."""

from pathlib import Path
from typing import Annotated

import typer

HELP = """Check a study file, and say what each command still needs of it.

A mistake is named with its line. Commands that have all they need are named ready; beside that stands what they
would take for granted because the file does not say it.

\b
Example:
  opportune check my.toml
"""


def check(study: Annotated[Path, typer.Argument(metavar="STUDY.toml", hidden=True)]) -> None:
    """Say what simulate, plan and serve would need of a study file."""
    from opportune.study import load_study  # noqa: PLC0415
    from opportune.study.needs import needs  # noqa: PLC0415

    loaded = load_study(study)
    typer.echo(f"{study}: right as far as it goes")
    for found in needs(loaded):
        typer.echo(f"\n{found.command}: {'still needs' if found.lacks else 'ready'}")
        for text in found.lacks:
            typer.echo(f"  - {text}")
        if found.assumes:
            typer.echo("  takes for granted:" if not found.lacks else "  and takes for granted:")
            for text in found.assumes:
                typer.echo(f"    {text}")
