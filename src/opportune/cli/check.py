"""`opportune check`: what each command would still need of a study file."""

from pathlib import Path
from typing import Annotated

import typer

HELP = """Check a study file, say what will happen, and what each command still needs of it.

Mistakes are named with their lines, all at once. What will happen is said in words: when nudges are allowed, for how
many people staff suffice, which actions are forbidden when, what can be estimated afterwards. Commands that have all
they need are named ready; beside that stands what they would take for granted because the file does not say it.

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
            typer.echo("  takes for granted:" if not found.lacks else "  and takes for granted:")
            for text in found.assumes:
                typer.echo(f"    {text}")
