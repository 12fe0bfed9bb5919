"""Named views on a GPU: the counterpart of engine.views for Numba's CUDA compiler.

A kernel is built for one layout, which is part of the participant's type: sizes and offsets are constants in the
kernel, so that loops unroll and a run's state can live in registers and local memory.
"""

import functools
from typing import Any

from numba.cuda import types
from numba.cuda.extending import infer_getattr, intrinsic, lower_getattr_generic, models, register_model
from numba.cuda.np.arrayobj import make_array, populate_array
from numba.cuda.typing.templates import AttributeTemplate

from opportune.engine.attributes import WHOLE, Kinds, declare_attributes
from opportune.engine.declared import ARRAY_OF, ARRAYS, Declares
from opportune.engine.layout import Layout

_array = types.Array(types.float64, 1, "C")
_pointer = types.CPointer(types.float64)


class _Laid(types.Type):  # type: ignore[misc]
    """A type that carries a layout."""

    def __init__(self, layout: Layout, name: str) -> None:
        super().__init__(name=f"{name}{layout.at}{layout.owners}")
        self.layout = layout

    def group(self, name: str, parts: tuple[str, ...]) -> "GroupType":
        """The type of one of the layout's groups."""
        return GroupType(self.layout, name, parts)


class ParticipantType(_Laid):
    """The type of a participant with a given layout."""

    def __init__(self, layout: Layout, used: Any) -> None:
        super().__init__(layout, f"Participant{used}")
        self.used = used._asdict()

    def whole(self, name: str) -> "WholeType":
        """The type of the layout's sizes or lengths."""
        return WholeType(self.layout, name)

    def own(self, owner: str, declares: Declares) -> "OwnType":
        """The type of the settings and state that a rule or a world declares."""
        return OwnType(self.layout, owner, declares)


class WholeType(_Laid):
    """The type of a layout's sizes or lengths, which are constants."""

    def __init__(self, layout: Layout, name_of: str) -> None:
        super().__init__(layout, f"Whole({name_of})")
        self.name_of = name_of


class OwnType(_Laid):
    """The type of the settings and state that a rule or a world declares."""

    def __init__(self, layout: Layout, owner: str, declares: Declares) -> None:
        super().__init__(layout, f"Own({owner}, {declares})")
        self.owner = owner
        self.declares = declares


class GroupType(_Laid):
    """The type of a group of a layout."""

    def __init__(self, layout: Layout, group: str, parts: tuple[str, ...]) -> None:
        super().__init__(layout, f"Group({group}: {parts})")
        self.parts = parts
        self.places = layout.places_of(group)


_WHOLE = [(name, _pointer) for name in ARRAYS]


@register_model(ParticipantType)
@register_model(OwnType)
class _ParticipantModel(models.StructModel):  # type: ignore[misc]
    def __init__(self, manager, kind):  # type: ignore[no-untyped-def]
        super().__init__(manager, kind, _WHOLE)


@register_model(WholeType)
class _WholeModel(models.StructModel):  # type: ignore[misc]
    def __init__(self, manager, kind):  # type: ignore[no-untyped-def]
        super().__init__(manager, kind, [])


@register_model(GroupType)
class _GroupModel(models.StructModel):  # type: ignore[misc]
    def __init__(self, manager, kind):  # type: ignore[no-untyped-def]
        super().__init__(manager, kind, [("numbers", _pointer)])


declare_attributes(
    infer_getattr, AttributeTemplate, Kinds(ParticipantType, WholeType, OwnType, GroupType), number=types.int64,
    part=_array,
)  # fmt: skip


@lower_getattr_generic(ParticipantType)
def _of_participant(context, builder, kind, value, name):  # type: ignore[no-untyped-def]
    whole = context.make_helper(builder, kind, value=value)
    if name.endswith("_array"):
        array = name.removesuffix("_array")
        return _part(context, builder, getattr(whole, array), 0, kind.layout.length(array))
    if name in WHOLE:
        return context.make_helper(builder, kind.whole(name))._getvalue()
    return _group(context, builder, kind, whole, name) if name in ARRAY_OF else value


@lower_getattr_generic(OwnType)
def _of_own(context, builder, kind, value, name):  # type: ignore[no-untyped-def]
    whole = context.make_helper(builder, kind, value=value)
    return _group(context, builder, kind, whole, f"{kind.owner}.{name}")


def _group(context: Any, builder: Any, kind: Any, whole: Any, group: str) -> Any:
    view = context.make_helper(builder, kind.group(group, ()))
    view.numbers = getattr(whole, ARRAY_OF[group])
    return view._getvalue()


@lower_getattr_generic(WholeType)
def _of_whole(context, builder, kind, value, name):  # type: ignore[no-untyped-def]
    layout = kind.layout
    number = getattr(layout.sizes, name) if kind.name_of == "sizes" else layout.length(name)
    return context.get_constant(types.int64, number)


@lower_getattr_generic(GroupType)
def _of_group(context, builder, kind, value, name):  # type: ignore[no-untyped-def]
    view = context.make_helper(builder, kind, value=value)
    place = kind.parts.index(name)
    return _part(context, builder, view.numbers, *kind.places[place : place + 2])


def _part(context: Any, builder: Any, numbers: Any, begin: int, end: int) -> Any:
    item = context.get_constant(types.intp, 8)
    part = make_array(_array)(context, builder)
    populate_array(
        part,
        data=builder.gep(numbers, [context.get_constant(types.intp, begin)]),
        shape=[context.get_constant(types.intp, end - begin)],
        strides=[item],
        itemsize=item,
        meminfo=None,
    )
    return part._getvalue()


@functools.cache
def participant_of(layout: Layout, used: Any) -> Any:
    """A function that builds a participant from its arrays, in their order."""

    @intrinsic
    def participant(  # type: ignore[no-untyped-def]
        typing_context, constants, rule, model, counts, snapshot, memory, budget, staff, scratch, world, history
    ):
        given = (constants, rule, model, counts, snapshot, memory, budget, staff, scratch, world, history)

        def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
            whole = context.make_helper(builder, signature.return_type)
            for name, kind, value in zip(ARRAYS, signature.args, arguments, strict=True):
                setattr(whole, name, make_array(kind)(context, builder, value).data)
            return whole._getvalue()

        return ParticipantType(layout, used)(*given), generate

    return participant
