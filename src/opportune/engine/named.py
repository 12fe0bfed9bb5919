"""Named views in compiled code: `p.model.theta[i]`, as cheap as an offset.

A `Participant` (engine.layout) is to compiled code the addresses of its groups' arrays and of the layout's numbers; its
attributes are worked out where they are used. (Tuples of addresses, one per part, were tried: the step was as fast, but
took four times as long to compile, since every mention of a tuple copies all of it.) Where the layout is known at
compile time, as in a GPU's kernel, it belongs to the type and places become constants.

The layout's numbers are signed, or unsigned if the participant's scores need the optimistic search (`Layout.numbers`):
so compiled code knows from the type whether to contain it, which takes a fifth of the time to compile.
"""

from typing import Any

import numpy as np
from numba import types
from numba.core.typing.templates import AttributeTemplate
from numba.extending import infer_getattr, intrinsic, lower_getattr_generic, models, register_model

from opportune.engine.addresses import Flat, flat_at
from opportune.engine.attributes import FIELDS, NAMES, declare_attributes
from opportune.engine.compiled import CHECK_BOUNDS, inner_function
from opportune.engine.layout import GROUPS, Sizes

_FIRST = {}  # where each group's places begin among the layout's numbers
_next = len(Sizes._fields)
for _name, _fields in FIELDS.items():
    _FIRST[_name] = _next
    _next += len(_fields) + 1
_numbers = Flat(types.float64)
_places = Flat(types.int64)
_places_with_search = Flat(types.uint64)


class ParticipantType(types.Type):  # type: ignore[misc]
    """The type of a participant; compiled code that needs no optimistic search does without it."""

    def __init__(self, search: bool) -> None:
        super().__init__(name="Participant with search" if search else "Participant")
        self.search = search

    def sizes_type(self) -> "SizesType":
        """The type of its sizes."""
        return SizesType()

    def group_type(self, group: str) -> "GroupType":
        """The type of one of its groups."""
        return GroupType(group)


class SizesType(types.Type):  # type: ignore[misc]
    """The type of its sizes."""

    def __init__(self) -> None:
        super().__init__(name="Sizes")


class GroupType(types.Type):  # type: ignore[misc]
    """The type of one of its groups."""

    def __init__(self, group: str) -> None:
        super().__init__(name=f"Group({group})")
        self.group = group


@register_model(ParticipantType)
class _ParticipantModel(models.StructModel):  # type: ignore[misc]
    def __init__(self, manager, kind):  # type: ignore[no-untyped-def]
        super().__init__(manager, kind, [("at", _places), *((name, _numbers) for name in NAMES)])


@register_model(SizesType)
class _SizesModel(models.StructModel):  # type: ignore[misc]
    def __init__(self, manager, kind):  # type: ignore[no-untyped-def]
        super().__init__(manager, kind, [("at", _places)])


@register_model(GroupType)
class _GroupModel(models.StructModel):  # type: ignore[misc]
    def __init__(self, manager, kind):  # type: ignore[no-untyped-def]
        super().__init__(manager, kind, [("at", _places), ("numbers", _numbers)])


declare_attributes(
    infer_getattr, AttributeTemplate, ParticipantType, SizesType, GroupType, number=types.int64, part=_numbers
)


@lower_getattr_generic(ParticipantType)
def _group_of(context, builder, kind, value, name):  # type: ignore[no-untyped-def]
    whole = context.make_helper(builder, kind, value=value)
    wanted = kind.sizes_type() if name == "sizes" else kind.group_type(name)
    view = context.make_helper(builder, wanted)
    view.at = whole.at
    if name != "sizes":
        view.numbers = getattr(whole, name)
    return view._getvalue()


@lower_getattr_generic(SizesType)
def _size_of(context, builder, kind, value, name):  # type: ignore[no-untyped-def]
    view = context.make_helper(builder, kind, value=value)
    return _place(context, builder, view.at, Sizes._fields.index(name))


@lower_getattr_generic(GroupType)
def _part_of(context, builder, kind, value, name):  # type: ignore[no-untyped-def]
    view = context.make_helper(builder, kind, value=value)
    place = _FIRST[kind.group] + FIELDS[kind.group].index(name)
    begin = _place(context, builder, view.at, place)
    if not CHECK_BOUNDS:
        return builder.gep(view.numbers, [begin])
    whole = context.make_helper(builder, _numbers, value=view.numbers)
    end = _place(context, builder, view.at, place + 1)
    with builder.if_then(builder.icmp_signed(">", end, whole.size), likely=False):
        context.call_conv.return_user_exc(builder, IndexError, (f"{kind.group}.{name} lies outside its array",))
    checked = context.make_helper(builder, _numbers)
    checked.data, checked.size = builder.gep(whole.data, [begin]), builder.sub(end, begin)
    return checked._getvalue()


def _place(context: Any, builder: Any, at: Any, place: int) -> Any:
    data = context.make_helper(builder, _places, value=at).data if CHECK_BOUNDS else at
    return builder.load(builder.gep(data, [context.get_constant(types.intp, place)]))


@intrinsic
def participant(typing_context, at, constants, rule, model, counts, snapshot, trail, budget, scratch):  # type: ignore[no-untyped-def]
    """A participant from the layout's numbers and its groups' arrays, all as bare addresses."""
    given = (at, constants, rule, model, counts, snapshot, trail, budget, scratch)
    if at not in (_places, _places_with_search) or any(kind != _numbers for kind in given[1:]):
        return None

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        whole = context.make_helper(builder, signature.return_type)
        for name, value in zip(("at", *NAMES), arguments, strict=True):
            setattr(whole, name, value)
        return whole._getvalue()

    return ParticipantType(at == _places_with_search)(*given), generate


def handle_of(at: Any, *arrays: Any) -> Any:
    """The addresses and sizes of the layout's numbers and the groups' arrays, for `participant_at`.

    Whoever keeps the handle must keep the arrays too.
    """
    groups = [array for array, _ in zip(arrays, GROUPS, strict=True)]  # one per group, or compiled code reads beyond
    return np.array([[a.ctypes.data, a.size] for a in (at, *groups)], dtype=at.dtype).ravel()


@inner_function
def participant_at(handle):  # type: ignore[no-untyped-def]
    """A participant from its handle: one array to hand over instead of nine."""
    return participant(
        flat_at(handle[0], handle[1], handle[0]),
        flat_at(handle[2], handle[3], 0.0),
        flat_at(handle[4], handle[5], 0.0),
        flat_at(handle[6], handle[7], 0.0),
        flat_at(handle[8], handle[9], 0.0),
        flat_at(handle[10], handle[11], 0.0),
        flat_at(handle[12], handle[13], 0.0),
        flat_at(handle[14], handle[15], 0.0),
        flat_at(handle[16], handle[17], 0.0),
    )
