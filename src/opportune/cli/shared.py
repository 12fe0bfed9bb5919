"""What all commands share: options, exit codes, messages on standard error."""

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
    typer.Option(help="Cores to use on this machine; by default all of them.", metavar="N", show_default=False),
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
    """Ctrl-C; the message says what was kept."""


def say(line: str, code: int) -> int:
    """Write a line to standard error, with control characters escaped, and return the exit code."""
    with suppress(BrokenPipeError):  # standard error is closed
        print("".join(c if c.isprintable() else repr(c)[1:-1] for c in line), file=sys.stderr, flush=True)
    return code


def speak_plainly() -> None:
    """Make output work in any encoding, and show warnings in one line without their place in the code."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")
    warnings.showwarning = _show_warning


def _show_warning(message: Any, category: Any, filename: Any, lineno: Any, file: Any = None, line: Any = None) -> None:
    """Show a warning for users in one line; replaces `warnings.showwarning`."""
    if issubclass(category, UserWarning | RuntimeWarning):
        say(f"opportune: warning: {' '.join(str(message).split())}", DONE)
