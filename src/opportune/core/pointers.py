"""Arrays as compiled code sees them best: bare addresses.

A NumPy array handed from one compiled function to the next is counted at every call, and counting costs more than a
step's arithmetic. Drivers on the CPU therefore hand on `flat(array)`, which has neither count nor shape; step
functions cannot tell the difference. Whoever holds the array must keep it for as long as the address is used.
"""

import operator
from typing import Any

import numpy as np
from numba import types
from numba.core.typing import signature
from numba.core.typing.templates import AbstractTemplate, infer_global
from numba.extending import intrinsic, lower_builtin, models, register_model
from numba.np.arrayobj import make_array, populate_array
from numpy.typing import NDArray

from opportune.core.layout import WIDTH


class Flat(types.CPointer):  # type: ignore[misc]
    """The type of such an address: numbers are read and written as in an array, a slice with both ends is an array."""

    def __init__(self, dtype: Any) -> None:
        super().__init__(dtype)
        self.name = f"Flat({dtype})"


register_model(Flat)(models.PointerModel)


@intrinsic
def flat(typing_context, array):  # type: ignore[no-untyped-def]
    """The address of an array's first number; the array must be contiguous."""
    if not (isinstance(array, types.Array) and array.layout == "C"):
        return None

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        return context.make_array(signature.args[0])(context, builder, arguments[0]).data

    return Flat(array.dtype)(array), generate


@infer_global(operator.getitem)
class _Slice(AbstractTemplate):  # type: ignore[misc]
    """flat[begin:end] is an array."""

    def generic(self, args, kws):  # type: ignore[no-untyped-def]
        if isinstance(args[0], Flat) and isinstance(args[1], types.SliceType) and not args[1].has_step:
            return signature(types.Array(args[0].dtype, 1, "C"), *args)
        return None


@lower_builtin(operator.getitem, Flat, types.SliceType)
def _take_slice(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
    address, bounds = arguments
    bounds = context.make_helper(builder, signature.args[1], value=bounds)
    item = context.get_abi_sizeof(context.get_data_type(signature.return_type.dtype))
    view = make_array(signature.return_type)(context, builder)
    populate_array(
        view,
        data=builder.gep(address, [bounds.start]),
        shape=[builder.sub(bounds.stop, bounds.start)],
        strides=[context.get_constant(types.intp, item)],
        itemsize=context.get_constant(types.intp, item),
        meminfo=None,
    )
    return view._getvalue()


def aligned(*shape: int) -> NDArray[np.float64]:
    """A new array of zeros that begins where a vector may: one that lies across two cache lines is slower to fetch."""
    size = int(np.prod(shape))
    room = np.zeros(size + WIDTH)
    first = -(room.ctypes.data // room.itemsize) % WIDTH
    return room[first : first + size].reshape(shape)
