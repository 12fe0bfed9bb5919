"""Which versions of Numba this was tried with, and whether anything is compiled at all.

Bare addresses, vectors, named views and hooks extend Numba by documented means. The linking of drivers
(engine.linking), which halves the time that compiling takes, reaches into its inside: with a version that is not among
those tried, drivers are compiled by Numba alone.

In Numba's CUDA simulator (NUMBA_DISABLE_JIT=1 NUMBA_ENABLE_CUDASIM=1) the step functions run as Python on plain arrays.
"""

import numba

FIRST, END = (0, 63), (0, 69)  # the versions that were tried, the last one excluded


def tried(version: str) -> bool:
    """Whether a version of Numba is among those that were tried."""
    return FIRST <= tuple(int(part) for part in version.split(".")[:2]) < END


SIMULATED = bool(numba.config.DISABLE_JIT or numba.config.ENABLE_CUDASIM)
LINKED = not SIMULATED and tried(numba.__version__)
