"""Work shared by threads, so that Ctrl-C is heard while compiled code runs.

Compiled code holds no lock and looks at a flag now and then. The calling thread only waits: an interrupt reaches it at
once, it sets the flag, and the threads come back.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

T = TypeVar("T")

PATIENCE = 1.0  # seconds that interrupted threads get; what is still compiling then is left to itself


def parts_of(total: int, threads: int) -> list[tuple[int, int]]:
    """A range in parts, enough of them that no thread waits long for the last."""
    size = max(1, -(-total // (8 * threads)))
    return [(first, min(first + size, total)) for first in range(0, total, size)]


def share(work: Callable[[T, NDArray[np.int64]], Any], parts: Sequence[T], threads: int) -> None:
    """Do `work(part, stop)` for every part, by so many threads that take parts as they get free.

    `stop[0]` becomes 1 when the caller is interrupted or another part has failed; work should end soon then. The first
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
            except BaseException as error:  # also what would only end this thread
                errors.append(error)
                stop[0] = 1

    # Daemons: a program that is to end does not wait for what they are compiling.
    workers = [threading.Thread(target=run, daemon=True) for _ in range(min(threads, len(parts)))]
    try:
        for worker in workers:
            worker.start()
        for worker in workers:
            while worker.is_alive():
                worker.join(0.1)  # not for good: on Windows Ctrl-C would not be heard
    except BaseException:
        stop[0] = 1
        for worker in workers:
            if worker.ident is not None:
                worker.join(PATIENCE)
        raise
    if errors:
        raise errors[0]


def _taken(waiting: Iterator[T], lock: threading.Lock) -> Iterator[T]:
    """What is next, until nothing is left; several threads may ask."""
    nothing = object()
    while True:
        with lock:
            part: Any = next(waiting, nothing)
        if part is nothing:
            return
        yield part
