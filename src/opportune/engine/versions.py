"""Whether the Numba that is installed is one whose inside we know.

Bare addresses, vectors, named views and the linking of drivers (addresses, vectors, named, linking) build on parts of
Numba and llvmlite that change without notice. They were tried with the versions below. With any other, the step
functions run as Python on plain arrays: the same decisions, hundreds of times slower. So they do in Numba's CUDA
simulator.
"""

import os
import warnings

import numba

FIRST, END = (0, 63), (0, 69)  # Numba's versions, the last one excluded


def fits(version: str) -> bool:
    """Whether a version of Numba is among those that were tried."""
    return FIRST <= tuple(int(part) for part in version.split(".")[:2]) < END


PLAIN = bool(numba.config.DISABLE_JIT or numba.config.ENABLE_CUDASIM)
if os.environ.get("OPPORTUNE_PLAIN_ARRAYS", "") not in {"", "0"}:
    PLAIN = True
elif not PLAIN and not fits(numba.__version__):
    PLAIN = True
    warnings.warn(
        f"Numba {numba.__version__} was not tried with this version of opportune, which therefore runs as Python on "
        f"plain arrays, hundreds of times slower; expected Numba {FIRST[0]}.{FIRST[1]} or newer, below "
        f"{END[0]}.{END[1]}",
        RuntimeWarning,
        stacklevel=2,
    )
