"""`opportune example` and `opportune schema`: study files to begin with, and the schema for editors."""

import json
from typing import Annotated

import typer

EXAMPLE_HELP = """List the study files that come with the package, or print one.

\b
Examples:
  opportune example
  opportune example cardiac-calls > my.toml
"""
SCHEMA_HELP = """Print the JSON Schema of study files, for editors that complete and check them.

\b
Example:
  opportune schema > study.schema.json
"""


def example(name: Annotated[str | None, typer.Argument(metavar="NAME", hidden=True)] = None) -> None:
    """List the shipped study files, or print one."""
    from opportune.study.examples import EXAMPLES  # noqa: PLC0415
    from opportune.study.examples import example as text_of  # noqa: PLC0415

    if name is not None:
        typer.echo(text_of(name), nl=False)
        return
    width = max(map(len, EXAMPLES)) + 2
    for known, about in EXAMPLES.items():
        typer.echo(f"{known:{width}}{about}")


def schema() -> None:
    """Print the JSON Schema of study files."""
    from opportune.study.json_schema import json_schema  # noqa: PLC0415

    typer.echo(json.dumps(json_schema(), indent=2))
