"""The versions of Numba that were tested, and whether anything is compiled at all.

Bare addresses, vectors, named views and hooks extend Numba through documented interfaces. The linking of drivers
(engine.linking), which halves compile time, relies on Numba's internals: with an untested version, Numba alone compiles
drivers.

In Numba's CUDA simulator (NUMBA_DISABLE_JIT=1 NUMBA_ENABLE_CUDASIM=1) the step functions run as Python on plain arrays.
"""

import numba

FIRST, END = (0, 63), (0, 69)  # the versions that were tested, the last one excluded


def tried(version: str) -> bool:
    """Whether a version of Numba was tested."""
    return FIRST <= tuple(int(part) for part in version.split(".")[:2]) < END


SIMULATED = bool(numba.config.DISABLE_JIT or numba.config.ENABLE_CUDASIM)
LINKED = not SIMULATED and tried(numba.__version__)
