"""What all commands share: options, exit codes, what is said on standard error."""

import io
import sys
import warnings
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Any

import typer

DONE, FAILED, WRONG_USE, INTERRUPTED = 0, 1, 2, 130

Out = Annotated[Path, typer.Option(help="Folder for results; created if missing.", metavar="DIR")]
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
        help="Where simulations run: cpu, cuda, or auto, which uses an NVIDIA GPU if there is one. Optimistic "
        "policies run on the CPU only.",
        metavar="cpu|cuda|auto",
    ),
]


class Interrupted(Exception):  # noqa: N818  (nothing went wrong)
    """Ctrl-C, with what was kept."""


def say(line: str, code: int) -> int:
    """Write a line to standard error and hand back the code; what a terminal would obey is shown instead."""
    with suppress(BrokenPipeError):  # nobody reads it any more
        print("".join(c if c.isprintable() else repr(c)[1:-1] for c in line), file=sys.stderr, flush=True)
    return code


def speak_plainly() -> None:
    """Have the terminal show what it can, whatever its encoding, and warnings in one line without their place."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    warnings.showwarning = _show_warning


def _show_warning(message: Any, category: Any, filename: Any, lineno: Any, file: Any = None, line: Any = None) -> None:
    """Show a warning that is meant for users in one line; takes the place of `warnings.showwarning`."""
    if issubclass(category, UserWarning | RuntimeWarning):
        say(f"opportune: warning: {' '.join(str(message).split())}", DONE)
