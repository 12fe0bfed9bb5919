"""Named views on a GPU: what engine.views is to the CPU's compiler, for Numba's CUDA compiler.

A kernel is built for one layout, which here belongs to the participant's type: sizes and places are constants in the
kernel, so that loops unroll and a run's state can live in registers and local memory.
"""

import functools
from typing import Any

from numba.cuda import types
from numba.cuda.extending import infer_getattr, intrinsic, lower_getattr_generic, models, register_model
from numba.cuda.np.arrayobj import make_array, populate_array
from numba.cuda.typing.templates import AttributeTemplate

from opportune.engine.attributes import FIELDS, NAMES, declare_attributes
from opportune.engine.layout import Layout

_array = types.Array(types.float64, 1, "C")
_pointer = types.CPointer(types.float64)


class ParticipantType(types.Type):  # type: ignore[misc]
    """The type of a participant with a given layout."""

    def __init__(self, layout: Layout, used: Any) -> None:
        super().__init__(name=f"Participant{layout.at}{used}")
        self.layout = layout
        self.used = used._asdict()

    def sizes_type(self) -> "SizesType":
        """The type of its sizes."""
        return SizesType(self.layout)

    def group_type(self, group: str) -> "GroupType":
        """The type of one of its groups."""
        return GroupType(self.layout, group)


class SizesType(types.Type):  # type: ignore[misc]
    """The type of its sizes, which are constants."""

    def __init__(self, layout: Layout) -> None:
        super().__init__(name=f"Sizes{layout.sizes}")
        self.layout = layout


class GroupType(types.Type):  # type: ignore[misc]
    """The type of one of its groups."""

    def __init__(self, layout: Layout, group: str) -> None:
        super().__init__(name=f"Group({group}){layout.at}")
        self.layout = layout
        self.group = group
        self.places = layout.places[NAMES.index(group)]


@register_model(ParticipantType)
class _ParticipantModel(models.StructModel):  # type: ignore[misc]
    def __init__(self, manager, kind):  # type: ignore[no-untyped-def]
        super().__init__(manager, kind, [(name, _pointer) for name in NAMES])


@register_model(SizesType)
class _SizesModel(models.StructModel):  # type: ignore[misc]
    def __init__(self, manager, kind):  # type: ignore[no-untyped-def]
        super().__init__(manager, kind, [])


@register_model(GroupType)
class _GroupModel(models.StructModel):  # type: ignore[misc]
    def __init__(self, manager, kind):  # type: ignore[no-untyped-def]
        super().__init__(manager, kind, [("numbers", _pointer)])


declare_attributes(
    infer_getattr, AttributeTemplate, ParticipantType, SizesType, GroupType, number=types.int64, part=_array
)


@lower_getattr_generic(ParticipantType)
def _group_of(context, builder, kind, value, name):  # type: ignore[no-untyped-def]
    whole = context.make_helper(builder, kind, value=value)
    if name == "sizes":
        return context.make_helper(builder, kind.sizes_type())._getvalue()
    view = context.make_helper(builder, kind.group_type(name))
    view.numbers = getattr(whole, name)
    return view._getvalue()


@lower_getattr_generic(SizesType)
def _size_of(context, builder, kind, value, name):  # type: ignore[no-untyped-def]
    return context.get_constant(types.int64, getattr(kind.layout.sizes, name))


@lower_getattr_generic(GroupType)
def _part_of(context, builder, kind, value, name):  # type: ignore[no-untyped-def]
    view = context.make_helper(builder, kind, value=value)
    place = FIELDS[kind.group].index(name)
    begin, end = kind.places[place : place + 2]
    item = context.get_constant(types.intp, 8)
    part = make_array(_array)(context, builder)
    populate_array(
        part,
        data=builder.gep(view.numbers, [context.get_constant(types.intp, begin)]),
        shape=[context.get_constant(types.intp, end - begin)],
        strides=[item],
        itemsize=item,
        meminfo=None,
    )
    return part._getvalue()


@functools.cache
def participant_of(layout: Layout, used: Any) -> Any:
    """A function that gives a participant from the arrays of its groups, in their order."""

    @intrinsic
    def participant(typing_context, constants, rule, model, counts, snapshot, trail, budget, scratch):  # type: ignore[no-untyped-def]
        given = (constants, rule, model, counts, snapshot, trail, budget, scratch)

        def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
            whole = context.make_helper(builder, signature.return_type)
            for name, kind, value in zip(NAMES, signature.args, arguments, strict=True):
                setattr(whole, name, make_array(kind)(context, builder, value).data)
            return whole._getvalue()

        return ParticipantType(layout, used)(*given), generate

    return participant
