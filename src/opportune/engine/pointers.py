"""Arrays as compiled code sees them best: bare addresses (engine.addresses), or plain arrays in Python."""

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
    """A new array of zeros that begins where a vector may: one that lies across two cache lines is slower to fetch."""
    size = int(np.prod(shape))
    room = np.zeros(size + WIDTH)
    first = -(room.ctypes.data // room.itemsize) % WIDTH
    return room[first : first + size].reshape(shape)
