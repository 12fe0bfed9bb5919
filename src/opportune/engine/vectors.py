"""The operations of `engine.simd` for the CPU's compiler: vectors of `WIDTH` numbers."""

from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.typing import Context
from numba.extending import lower_builtin, models, register_model, type_callable

from opportune.engine import scalars
from opportune.engine.addresses import WIDTH, vector_at

_VECTOR = ir.VectorType(ir.DoubleType(), WIDTH)


class Vector(types.Type):  # type: ignore[misc]
    """The type that `load` returns on the CPU."""

    def __init__(self) -> None:
        super().__init__(name="Vector")


_vector = Vector()


@register_model(Vector)
class _VectorModel(models.PrimitiveModel):  # type: ignore[misc]
    def __init__(self, manager, kind):  # type: ignore[no-untyped-def]
        super().__init__(manager, kind, _VECTOR)


def _on_cpu(context: Any, result: Any) -> Any:
    """The result type on the CPU; None for a GPU's compiler, which also asks here but has no vectors."""
    return result if isinstance(context, Context) else None


@type_callable(scalars.width)
def _type_width(context):  # type: ignore[no-untyped-def]
    return lambda: _on_cpu(context, types.uint64)


@type_callable(scalars.load)
def _type_load(context):  # type: ignore[no-untyped-def]
    return lambda array, place: _on_cpu(context, _vector)


@type_callable(scalars.store)
def _type_store(context):  # type: ignore[no-untyped-def]
    return lambda array, place, value: _on_cpu(context, types.void)


@type_callable(scalars.spread)
def _type_spread(context):  # type: ignore[no-untyped-def]
    return lambda number: _on_cpu(context, _vector)


@type_callable(scalars.largest)
def _type_largest(context):  # type: ignore[no-untyped-def]
    return lambda x: _on_cpu(context, types.float64)


def _type_arithmetic(function: Any, count: int) -> None:
    """Declare a function of this many vectors whose result is a vector."""

    @type_callable(function)
    def _type(context):  # type: ignore[no-untyped-def]
        given = {1: lambda x: _on_cpu(context, _vector), 2: lambda x, y: _on_cpu(context, _vector),
                 3: lambda x, y, z: _on_cpu(context, _vector)}  # fmt: skip
        return given[count]


for _function, _count in {
    scalars.fma: 3, scalars.divide: 2, scalars.plus: 2, scalars.times: 2, scalars.larger: 2, scalars.root: 1,
}.items():  # fmt: skip
    _type_arithmetic(_function, _count)


@lower_builtin(scalars.width)
def _width(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
    return context.get_constant(types.uint64, WIDTH)


@lower_builtin(scalars.load, types.Any, types.Integer)
def _load(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
    array, place = signature.args
    value = builder.load(vector_at(context, builder, array, arguments[0], place, arguments[1]))
    value.align = 8
    return value


@lower_builtin(scalars.store, types.Any, types.Integer, Vector)
def _store(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
    array, place = signature.args[:2]
    address = vector_at(context, builder, array, arguments[0], place, arguments[1])
    builder.store(arguments[2], address, align=8)
    return context.get_dummy_value()


@lower_builtin(scalars.spread, types.Float)
def _spread(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
    empty = ir.Constant(_VECTOR, ir.Undefined)
    first = builder.insert_element(empty, arguments[0], ir.IntType(32)(0))
    return builder.shuffle_vector(first, empty, ir.Constant(ir.VectorType(ir.IntType(32), WIDTH), [0] * WIDTH))


@lower_builtin(scalars.fma, Vector, Vector, Vector)
def _fma(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
    """Explicitly fused, instead of where the compiler likes, so that results have the same bits on every processor.

    A processor without the instruction calls a function for it, which is slow.
    """
    kind = ir.FunctionType(_VECTOR, [_VECTOR] * 3)
    return builder.call(cgutils.get_or_insert_function(builder.module, kind, f"llvm.fma.v{WIDTH}f64"), arguments)


@lower_builtin(scalars.divide, Vector, Vector)
def _divide(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
    return builder.fdiv(*arguments)


@lower_builtin(scalars.plus, Vector, Vector)
def _plus(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
    return builder.fadd(*arguments)


@lower_builtin(scalars.times, Vector, Vector)
def _times(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
    return builder.fmul(*arguments)


@lower_builtin(scalars.larger, Vector, Vector)
def _larger(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
    return _maximum(builder, *arguments)


@lower_builtin(scalars.root, Vector)
def _root(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
    above = _maximum(builder, arguments[0], ir.Constant(_VECTOR, [0.0] * WIDTH))
    kind = ir.FunctionType(_VECTOR, [_VECTOR])
    return builder.call(cgutils.get_or_insert_function(builder.module, kind, f"llvm.sqrt.v{WIDTH}f64"), [above])


@lower_builtin(scalars.largest, Vector)
def _largest(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
    each = [builder.extract_element(arguments[0], ir.IntType(32)(i)) for i in range(WIDTH)]
    while len(each) > 1:  # in pairs, so that operations need not wait for each other
        each = [_maximum(builder, *each[i : i + 2]) for i in range(0, len(each), 2)]
    return each[0]


def _maximum(builder: Any, x: Any, y: Any) -> Any:
    return builder.select(builder.fcmp_ordered(">", x, y), x, y)
