"""Memory that was freed, kept for what comes next while a program makes and drops large arrays all the time."""

import ctypes
import gc
import sys
from collections.abc import Iterator
from contextlib import contextmanager

# The C library's numbers for its settings (malloc.h), and what they come to where arrays are large.
_TRIM_THRESHOLD, _MMAP_THRESHOLD, _MMAP_MAX = -1, -3, -4
_USUAL = {_TRIM_THRESHOLD: 2**26, _MMAP_THRESHOLD: 2**25, _MMAP_MAX: 65_536}
_KEEPING = {_TRIM_THRESHOLD: 2**31 - 1, _MMAP_MAX: 0}


_SELDOM = (50_000, 20, 1_000)  # instead of (700, 10, 10)


@contextmanager
def not_searched() -> Iterator[None]:
    """Have Python not look for objects that only refer to each other while this lasts.

    For what makes a great many objects that stay, such as loading libraries or folding a long record: going
    through them again and again would take a tenth of the time, or more.
    """
    searching = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if searching:
            gc.enable()


@contextmanager
def seldom_searched() -> Iterator[None]:
    """Have Python look for objects that only refer to each other more seldom while this lasts, and not among old ones.

    What is there now, libraries and all, is not looked through again: that took a twentieth of what experiments take
    besides compiled code, and found next to nothing.
    """
    before, frozen = gc.get_threshold(), gc.get_freeze_count()
    if not frozen:  # else whoever froze it would find it thawed
        gc.freeze()
    gc.set_threshold(*_SELDOM)
    try:
        yield
    finally:
        gc.set_threshold(*before)
        if not frozen:
            gc.unfreeze()


@contextmanager
def kept() -> Iterator[None]:
    """Keep freed memory while this lasts, up to 2 GB; then give it back, unless it was interrupted.

    Otherwise each array of more than 32 MB is asked of the operating system anew, which clears it first: of the time
    that experiments take, a twentieth. Where the C library is another one than Linux's usual one, nothing happens.
    """
    library = ctypes.CDLL(None) if sys.platform == "linux" else None
    if library is None or not hasattr(library, "mallopt") or not hasattr(library, "malloc_trim"):
        yield
        return
    _set(library, _KEEPING)
    interrupted = False
    try:
        yield
    except KeyboardInterrupt:  # threads that were left behind may still be at work
        interrupted = True
        raise
    finally:
        if not interrupted:
            _set(library, _USUAL)
            library.malloc_trim(0)


def _set(library: ctypes.CDLL, values: dict[int, int]) -> None:
    for name, value in values.items():
        library.mallopt(name, value)
