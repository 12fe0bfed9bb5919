"""Memory that is kept while large arrays come and go: the same numbers, and given back afterwards."""

import gc
import sys
import weakref
from pathlib import Path

import numpy as np
import pytest

from opportune import memory

LARGE = 8_000_000  # numbers: 64 MB, more than any array that comes from memory kept otherwise


def resident() -> float:
    """Megabytes that this process has."""
    return int(Path("/proc/self/statm").read_text().split()[1]) * 4096 / 2**20


@pytest.mark.skipif(sys.platform != "linux", reason="the C library is another one")
def test_freed_memory_is_kept_and_then_given_back() -> None:
    """An array that was dropped leaves its memory with the process while this lasts, and not afterwards or before."""
    with memory.kept():
        pass  # gives back what was freed before, which an array could lie in
    start = resident()
    np.ones(LARGE)
    assert resident() < start + 32  # the control
    with memory.kept():
        np.ones(LARGE)
        assert resident() > start + 48
    assert resident() < start + 32
    np.ones(LARGE)
    assert resident() < start + 32


def test_an_error_passes() -> None:
    """What goes wrong meanwhile goes wrong as ever, and memory is no longer kept."""
    with pytest.raises(ZeroDivisionError), memory.kept():
        _ = 1 // 0
    start = resident() if sys.platform == "linux" else 0.0
    np.ones(LARGE)
    assert sys.platform != "linux" or resident() < start + 32


class Ring:
    """Something that refers to itself."""

    def __init__(self) -> None:
        self.itself = self


def test_rings_are_searched_for_more_seldom_and_then_as_before() -> None:
    """What is there already is left alone meanwhile; what only refers to itself is still found, then and afterwards."""
    gc.unfreeze()
    before = gc.get_threshold()
    old = weakref.ref(Ring())
    with memory.seldom_searched():
        assert gc.get_threshold()[0] > before[0]
        new = weakref.ref(Ring())
        gc.collect()
        assert new() is None
        assert old() is not None
    assert gc.get_threshold() == before
    assert gc.get_freeze_count() == 0
    gc.collect()
    assert old() is None


def test_what_someone_has_frozen_stays_so() -> None:
    """A service freezes what it has loaded, for as long as it runs."""
    gc.freeze()
    try:
        with memory.seldom_searched():
            pass
        assert gc.get_freeze_count() > 0
    finally:
        gc.unfreeze()


def test_nothing_is_searched_for_meanwhile_and_then_as_before() -> None:
    """Whoever had the search off finds it off again, also after an error."""
    assert gc.isenabled()  # the control
    with memory.not_searched(), memory.not_searched():
        assert not gc.isenabled()
    assert gc.isenabled()
    with pytest.raises(ZeroDivisionError), memory.not_searched():
        _ = 1 // 0
    assert gc.isenabled()
    gc.disable()
    try:
        with memory.not_searched():
            pass
        assert not gc.isenabled()
    finally:
        gc.enable()
