"""Arrays in the form that compiled code handles best: bare addresses.

A NumPy array passed between compiled functions is reference-counted at every call, which costs more than a step's
arithmetic. Drivers on the CPU therefore pass `flat(array)`, which has neither reference count nor shape; step functions
work with either. The caller must keep the array alive while the address is in use.

In the debug build an address knows the length of its part, and every access is checked against it.
"""

import operator
from typing import Any

from llvmlite import ir
from numba import types
from numba.core.typing import signature
from numba.core.typing.templates import AbstractTemplate, infer_global
from numba.extending import intrinsic, lower_builtin, models, register_model
from numba.np.arrayobj import make_array, populate_array

from opportune.engine.compiled import CHECK_BOUNDS

WIDTH = 8  # numbers in a vector register of the CPU


class Flat(types.CPointer if not CHECK_BOUNDS else types.Type):  # type: ignore[misc]
    """The type of such an address: numbers are read and written as in an array; a slice with both ends is an array."""

    def __init__(self, dtype: Any) -> None:
        if CHECK_BOUNDS:
            types.Type.__init__(self, name=f"Flat({dtype})")
            self.dtype = dtype
        else:
            super().__init__(dtype)
            self.name = f"Flat({dtype})"


if CHECK_BOUNDS:

    @register_model(Flat)
    class _CheckedModel(models.StructModel):  # type: ignore[misc]
        def __init__(self, manager, kind):  # type: ignore[no-untyped-def]
            super().__init__(manager, kind, [("data", types.CPointer(kind.dtype)), ("size", types.intp)])

else:
    register_model(Flat)(models.PointerModel)


def address_of(context: Any, builder: Any, kind: Any, value: Any, place: Any, count: int = 1) -> Any:
    """The address of the number at `place` of an address or array; the debug build checks `count` numbers there."""
    if not isinstance(kind, Flat):
        return builder.gep(context.make_array(kind)(context, builder, value).data, [place])
    if not CHECK_BOUNDS:
        return builder.gep(value, [place])
    checked = context.make_helper(builder, kind, value=value)
    end = builder.add(place, context.get_constant(types.intp, count))
    inside = builder.and_(
        builder.icmp_signed(">=", place, context.get_constant(types.intp, 0)),
        builder.icmp_signed("<=", end, checked.size),
    )
    with builder.if_then(builder.not_(inside), likely=False):
        context.call_conv.return_user_exc(builder, IndexError, ("an access outside an array's part",))
    return builder.gep(checked.data, [place])


def _as_place(context: Any, builder: Any, kind: Any, value: Any) -> Any:
    return context.cast(builder, value, kind, types.intp)


@intrinsic
def flat(typing_context, array):  # type: ignore[no-untyped-def]
    """The address of an array's first number; the array must be contiguous."""
    if not (isinstance(array, types.Array) and array.layout == "C"):
        return None
    kind = Flat(array.dtype)

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        view = context.make_array(signature.args[0])(context, builder, arguments[0])
        if not CHECK_BOUNDS:
            return view.data
        checked = context.make_helper(builder, kind)
        checked.data, checked.size = view.data, view.nitems
        return checked._getvalue()

    return kind(array), generate


@intrinsic
def flat_at(typing_context, address, size, like):  # type: ignore[no-untyped-def]
    """An address that was stored as a whole number, of an array with `size` numbers of the type of `like`."""
    dtype = types.unliteral(like)
    kind = Flat(dtype)

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        pointer = context.get_value_type(types.CPointer(dtype))
        data = builder.inttoptr(arguments[0], pointer)
        if not CHECK_BOUNDS:
            return data
        checked = context.make_helper(builder, kind)
        checked.data, checked.size = data, arguments[1]
        return checked._getvalue()

    return kind(types.intp, types.intp, like), generate


@infer_global(operator.getitem)
class _Slice(AbstractTemplate):  # type: ignore[misc]
    """flat[begin:end] is an array; the debug build also resolves flat[i] here."""

    def generic(self, args, kws):  # type: ignore[no-untyped-def]
        if not isinstance(args[0], Flat):
            return None
        if isinstance(args[1], types.SliceType) and not args[1].has_step:
            return signature(types.Array(args[0].dtype, 1, "C"), *args)
        if CHECK_BOUNDS and isinstance(args[1], types.Integer):
            return signature(args[0].dtype, *args)
        return None


@lower_builtin(operator.getitem, Flat, types.SliceType)
def _take_slice(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
    bounds = context.make_helper(builder, signature.args[1], value=arguments[1])
    item = context.get_abi_sizeof(context.get_data_type(signature.return_type.dtype))
    size = builder.sub(bounds.stop, bounds.start)
    if CHECK_BOUNDS:
        whole = context.make_helper(builder, signature.args[0], value=arguments[0])
        with builder.if_then(builder.icmp_signed(">", bounds.stop, whole.size), likely=False):
            context.call_conv.return_user_exc(builder, IndexError, ("a slice that ends outside an array's part",))
        data = builder.gep(whole.data, [bounds.start])
    else:
        data = builder.gep(arguments[0], [bounds.start])
    view = make_array(signature.return_type)(context, builder)
    populate_array(
        view,
        data=data,
        shape=[size],
        strides=[context.get_constant(types.intp, item)],
        itemsize=context.get_constant(types.intp, item),
        meminfo=None,
    )
    return view._getvalue()


if CHECK_BOUNDS:

    @infer_global(operator.setitem)
    class _Put(AbstractTemplate):  # type: ignore[misc]
        """flat[i] = number."""

        def generic(self, args, kws):  # type: ignore[no-untyped-def]
            if isinstance(args[0], Flat) and isinstance(args[1], types.Integer):
                return signature(types.none, args[0], args[1], args[0].dtype)
            return None

    @lower_builtin(operator.getitem, Flat, types.Integer)
    def _get(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        place = _as_place(context, builder, signature.args[1], arguments[1])
        return builder.load(address_of(context, builder, signature.args[0], arguments[0], place))

    @lower_builtin(operator.setitem, Flat, types.Integer, types.Any)
    def _set(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        place = _as_place(context, builder, signature.args[1], arguments[1])
        builder.store(arguments[2], address_of(context, builder, signature.args[0], arguments[0], place))
        return context.get_dummy_value()


def vector_at(context: Any, builder: Any, kind: Any, value: Any, place_kind: Any, place: Any) -> Any:
    """The address of the `WIDTH` numbers from `place` on, as one vector."""
    place = _as_place(context, builder, place_kind, place)
    address = address_of(context, builder, kind, value, place, WIDTH)
    return builder.bitcast(address, ir.VectorType(ir.DoubleType(), WIDTH).as_pointer())
