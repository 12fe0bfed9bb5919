"""The number of threads: one for each core that this process may use, or as many as the caller sets."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from opportune.errors import InputError


@contextmanager
def limited(jobs: Any, *, name: str = "jobs") -> Iterator[None]:
    """Use this many threads inside this context, or all of them if `jobs` is None; then as many as before."""
    if jobs is None:
        yield
        return
    import numba  # noqa: PLC0415  (slow to import)

    from opportune import checks  # noqa: PLC0415

    most: int = numba.config.NUMBA_NUM_THREADS  # set when numba reads its settings
    try:
        jobs = checks.whole(name, jobs, least=1, most=most)
    except InputError as error:
        raise InputError(f"{error}, {_why(most)}") from None
    before = numba.get_num_threads()
    numba.set_num_threads(jobs)
    try:
        yield
    finally:
        numba.set_num_threads(before)


def _why(most: int) -> str:
    """The reason for the limit."""
    if "NUMBA_NUM_THREADS" in os.environ:
        return "as NUMBA_NUM_THREADS says"
    cores = os.cpu_count() or most
    return "the cores of this machine" if most >= cores else f"the cores that this process may use, of {cores}"
