"""Arrays as bare addresses for compiled code (engine.addresses), or as plain arrays in Python."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from opportune.engine.versions import SIMULATED

if SIMULATED:
    WIDTH = 1

    def flat(array: NDArray[Any]) -> NDArray[Any]:
        """The array itself."""
        return array

else:
    from opportune.engine.addresses import WIDTH, flat

__all__ = ["WIDTH", "aligned", "flat"]


def aligned(*shape: int) -> NDArray[np.float64]:
    """A new array of zeros that begins at a vector boundary: vectors that cross cache lines are slower to load."""
    size = int(np.prod(shape))
    room = np.zeros(size + WIDTH)
    first = -(room.ctypes.data // room.itemsize) % WIDTH
    return room[first : first + size].reshape(shape)
