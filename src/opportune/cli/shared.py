"""What all commands share: options, exit codes, what is said on standard error."""

from pathlib import Path
from typing import Annotated

import typer

DONE, FAILED, WRONG_USE, INTERRUPTED = 0, 1, 2, 130

Out = Annotated[Path, typer.Option(help="Folder for results; made if need be.", metavar="DIR")]
Jobs = Annotated[
    int | None,
    typer.Option(help="Cores to use on this machine; all of them unless given.", metavar="N", show_default=False),
]
Cluster = Annotated[
    str | None,
    typer.Option(help="Run on a Dask or Ray cluster at this address.", metavar="ADDRESS", show_default=False),
]


Device = Annotated[
    str,
    typer.Option(
        help="Where simulations run: cpu, cuda, or auto, which takes an NVIDIA GPU where there is one. Optimistic "
        "policies run on the CPU only.",
        metavar="cpu|cuda|auto",
    ),
]


class Interrupted(Exception):  # noqa: N818  (nothing went wrong)
    """Ctrl-C, with what was kept."""


def say(line: str, code: int) -> int:
    """Write a line to standard error and hand back the code."""
    typer.echo(line, err=True)
    return code
