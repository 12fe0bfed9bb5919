"""Environment variables that the libraries below would refuse with pages of their own, or crash at: refused here."""

import os
import re
from importlib.metadata import entry_points

from opportune.errors import InputError

MOST_THREADS = 4096
LAYERS = ("default", "safe", "threadsafe", "forksafe", "tbb", "omp", "workqueue")
PRIORITY = ("omp", "tbb", "workqueue")
SWITCHES = (
    "NUMBA_BOUNDSCHECK", "NUMBA_DEBUG", "NUMBA_DEBUGINFO", "NUMBA_DISABLE_INTEL_SVML", "NUMBA_DISABLE_JIT",
    "NUMBA_ENABLE_AVX", "NUMBA_ENABLE_CUDASIM",
)  # fmt: skip
BACKENDS = (
    "agg", "cairo", "gtk3agg", "gtk3cairo", "gtk4agg", "gtk4cairo", "ipympl", "macosx", "nbagg", "notebook", "pdf",
    "pgf", "ps", "qt5agg", "qt5cairo", "qtagg", "qtcairo", "svg", "template", "tkagg", "tkcairo", "webagg", "wx",
    "wxagg", "wxcairo",
)  # fmt: skip


def check() -> None:
    """Refuse what Numba or Matplotlib would not take."""
    given = {name: value for name, value in os.environ.items() if value}
    threads = given.get("NUMBA_NUM_THREADS", "1")
    _must("NUMBA_NUM_THREADS", threads.isdecimal() and 1 <= int(threads[:9]) <= MOST_THREADS,
          f"a whole number from 1 to {MOST_THREADS}")  # fmt: skip
    layer = given.get("NUMBA_THREADING_LAYER", "default")
    _must("NUMBA_THREADING_LAYER", layer in LAYERS, f"one of {', '.join(LAYERS)}")
    priority = given.get("NUMBA_THREADING_LAYER_PRIORITY", " ".join(PRIORITY))
    _must("NUMBA_THREADING_LAYER_PRIORITY", sorted(priority.split()) == list(PRIORITY), " ".join(PRIORITY))
    for name in SWITCHES:
        _must(name, re.fullmatch(r"\d{1,9}", given.get(name, "0")) is not None, "0 or 1")
    _must("NUMBA_OPT", given.get("NUMBA_OPT", "3") in {"0", "1", "2", "3", "max"}, "0, 1, 2, 3 or max")
    features = re.fullmatch(r"[+-][\w.-]+(,[+-][\w.-]+)*", given.get("NUMBA_CPU_FEATURES", "+sse2"))
    _must("NUMBA_CPU_FEATURES", features is not None, "features such as +avx2,-avx512f")
    plain = int(given.get("NUMBA_DISABLE_JIT", "0")) > 0 and int(given.get("NUMBA_ENABLE_CUDASIM", "0")) == 0
    _must("NUMBA_DISABLE_JIT", not plain, "0, or NUMBA_ENABLE_CUDASIM=1 with it: the code is not made to run as Python")
    backend = given.get("MPLBACKEND", "agg")
    if backend.lower() not in BACKENDS and not backend.startswith("module://"):
        others = {entry.name for entry in entry_points(group="matplotlib.backend")}
        _must("MPLBACKEND", backend in others, "a backend of Matplotlib, such as agg")


def _must(name: str, holds: bool, expected: str) -> None:
    if not holds:
        raise InputError(f"the environment variable {name} is {os.environ.get(name)!r:.100}; expected {expected}")
