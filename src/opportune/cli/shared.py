"""What all commands share: options, exit codes, what is said on standard error, and Ctrl-C."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated

import typer

from opportune.errors import InputError

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


class Interrupted(Exception):  # noqa: N818  (nothing went wrong)
    """Ctrl-C, with what was kept."""


def say(line: str, code: int) -> int:
    """Write a line to standard error and hand back the code."""
    typer.echo(line, err=True)
    return code


def use_cores(jobs: int | None) -> None:
    """Use this many cores, or all of them."""
    if jobs is None:
        return
    import numba  # noqa: PLC0415

    most: int = numba.config.NUMBA_NUM_THREADS  # set when numba reads its settings
    if not 1 <= jobs <= most:
        raise InputError(f"--jobs is {jobs}; expected a whole number from 1 to {most}, the cores of this machine")
    numba.set_num_threads(jobs)


@contextmanager
def kept(what: str) -> Iterator[None]:
    """Say what was kept if Ctrl-C comes while this lasts."""
    try:
        yield
    except KeyboardInterrupt:
        raise Interrupted(what) from None
