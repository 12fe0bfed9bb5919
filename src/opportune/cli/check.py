"""`opportune check`: what each command would still need of a study file."""

from pathlib import Path
from typing import Annotated

import typer

HELP = """Check a study file, say what will happen, and list what each command still needs.

All mistakes are listed at once, with their lines. For a valid file the command describes what will happen: when nudges
are allowed, how many people staff can handle, which actions are forbidden when, and what can be estimated afterwards. A
command that has all it needs is shown as ready, with the defaults it assumes where the file says nothing.

\b
Example:
  opportune check my.toml
"""


def check(study: Annotated[Path, typer.Argument(metavar="STUDY.toml", hidden=True)]) -> None:
    """Say what simulate, plan and serve would need of a study file."""
    from opportune.study import load_study  # noqa: PLC0415
    from opportune.study.needs import needs  # noqa: PLC0415
    from opportune.study.outlook import outlook  # noqa: PLC0415

    loaded = load_study(study)
    typer.echo(f"{study}: valid")
    if sentences := outlook(loaded):
        typer.echo("\nWhat will happen:")
        for text in sentences:
            typer.echo(f"  - {text}")
    for found in needs(loaded):
        typer.echo(f"\n{found.command}: {'still needs' if found.lacks else 'ready'}")
        for text in found.lacks:
            typer.echo(f"  - {text}")
        if found.assumes:
            typer.echo("  assumes:" if not found.lacks else "  and assumes:")
            for text in found.assumes:
                typer.echo(f"    {text}")
