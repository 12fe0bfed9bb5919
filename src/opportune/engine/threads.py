"""Work in threads, so that Ctrl-C works while compiled code runs.

Compiled code holds no lock and checks a flag now and then. The calling thread only waits: an interrupt reaches it at
once, it sets the flag, and the threads return.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

T = TypeVar("T")

PATIENCE = 1.0  # seconds for interrupted threads to end; those that still compile then are left behind


def parts_of(total: int, threads: int) -> list[tuple[int, int]]:
    """A range split into parts, enough of them that no thread waits long for the last."""
    size = max(1, -(-total // (8 * threads)))
    return [(first, min(first + size, total)) for first in range(0, total, size)]


def share(work: Callable[[T, NDArray[np.int64]], Any], parts: Sequence[T], threads: int) -> None:
    """Do `work(part, stop)` for every part, in this many threads, each of which takes the next part when it is free.

    `stop[0]` becomes 1 if the caller is interrupted or another part has failed; work should then end soon. The first
    error is raised here.
    """
    stop = np.zeros(1, dtype=np.int64)
    errors: list[BaseException] = []
    waiting, lock = iter(parts), threading.Lock()

    def run() -> None:
        for part in _taken(waiting, lock):
            if stop[0]:
                return
            try:
                work(part, stop)
            except BaseException as error:  # including those that would only end this thread
                errors.append(error)
                stop[0] = 1

    # Daemons, so that a program can end while they compile.
    workers = [threading.Thread(target=run, daemon=True) for _ in range(min(threads, len(parts)))]
    try:
        for worker in workers:
            worker.start()
        for worker in workers:
            while worker.is_alive():
                worker.join(0.1)  # with a timeout, since on Windows Ctrl-C would otherwise not interrupt it
    except BaseException:
        stop[0] = 1
        for worker in workers:
            if worker.ident is not None:
                worker.join(PATIENCE)
        raise
    if errors:
        raise errors[0]


def _taken(waiting: Iterator[T], lock: threading.Lock) -> Iterator[T]:
    """The next parts until none is left; safe for several threads."""
    nothing = object()
    while True:
        with lock:
            part: Any = next(waiting, nothing)
        if part is nothing:
            return
        yield part
