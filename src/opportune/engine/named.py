"""Named views in compiled code: `p.model.theta[i]`, as cheap as an offset.

For compiled code, a participant (engine.declared) is a struct of the addresses of its arrays and of the layout's
numbers; attributes are computed where they are used. If the layout is known at compile time, as in a GPU's kernel, it
belongs to the type and places become constants (simulation.cuda_views).

The layout's numbers are signed, or unsigned if the participant's scores need the optimistic search (`Layout.numbers`).
Thus compiled code knows from the type whether to contain the search, which takes a fifth of the time to compile.
"""

from typing import Any

import numpy as np
from numba import types
from numba.core.typing.templates import AttributeTemplate
from numba.extending import infer_getattr, intrinsic, lower_getattr_generic, models, register_model

from opportune.engine.addresses import Flat, flat_at
from opportune.engine.attributes import WHOLE, Kinds, declare_attributes
from opportune.engine.compiled import CHECK_BOUNDS, inner_function
from opportune.engine.declared import ARRAY_OF, ARRAYS, Declares
from opportune.engine.layout import FIRST_LENGTH, FIRST_PLACE

_numbers = Flat(types.float64)
_places = Flat(types.int64)
_places_with_search = Flat(types.uint64)


class ParticipantType(types.Type):  # type: ignore[misc]
    """The type of a participant; compiled code leaves out the optimistic search if it is not needed."""

    def __init__(self, search: bool) -> None:
        super().__init__(name="Participant with search" if search else "Participant")
        self.search = search

    def whole(self, name: str) -> "WholeType":
        """The type of the participant's sizes or lengths."""
        return WholeType(name)

    def own(self, owner: str, declares: Declares) -> "OwnType":
        """The type of the groups that a rule or a world declares."""
        return OwnType(owner, declares)

    def group(self, name: str, parts: tuple[str, ...]) -> "GroupType":
        """The type of one of the participant's groups."""
        return GroupType(name, parts)


class WholeType(types.Type):  # type: ignore[misc]
    """The type of sizes and lengths."""

    def __init__(self, name_of: str) -> None:
        super().__init__(name=f"Whole({name_of})")
        self.name_of = name_of


class OwnType(types.Type):  # type: ignore[misc]
    """The type of the groups that a rule or a world declares."""

    def __init__(self, owner: str, declares: Declares) -> None:
        names = ", ".join(f"{each.__module__}.{each.__qualname__}" for each in declares)
        super().__init__(name=f"Own({owner}, {names})")
        self.owner = owner
        self.declares = declares

    def group(self, name: str, parts: tuple[str, ...]) -> "GroupType":
        """The type of one of these groups."""
        return GroupType(name, parts)


class GroupType(types.Type):  # type: ignore[misc]
    """The type of a group."""

    def __init__(self, group: str, parts: tuple[str, ...]) -> None:
        super().__init__(name=f"Group({group}: {', '.join(parts)})")
        self.group = group
        self.parts = parts


_WHOLE = [("at", _places), *((name, _numbers) for name in ARRAYS)]


@register_model(ParticipantType)
@register_model(OwnType)
class _ParticipantModel(models.StructModel):  # type: ignore[misc]
    def __init__(self, manager, kind):  # type: ignore[no-untyped-def]
        super().__init__(manager, kind, _WHOLE)


@register_model(WholeType)
class _SizesModel(models.StructModel):  # type: ignore[misc]
    def __init__(self, manager, kind):  # type: ignore[no-untyped-def]
        super().__init__(manager, kind, [("at", _places)])


@register_model(GroupType)
class _GroupModel(models.StructModel):  # type: ignore[misc]
    def __init__(self, manager, kind):  # type: ignore[no-untyped-def]
        super().__init__(manager, kind, [("at", _places), ("numbers", _numbers)])


declare_attributes(
    infer_getattr,
    AttributeTemplate,
    Kinds(ParticipantType, WholeType, OwnType, GroupType),
    number=types.int64,
    part=_numbers,
)


@lower_getattr_generic(ParticipantType)
def _of_participant(context, builder, kind, value, name):  # type: ignore[no-untyped-def]
    whole = context.make_helper(builder, kind, value=value)
    if name.endswith("_array"):
        return getattr(whole, name.removesuffix("_array"))
    if name in WHOLE:
        view = context.make_helper(builder, kind.whole(name))
        view.at = whole.at
        return view._getvalue()
    return _group(context, builder, whole, name) if name in ARRAY_OF else value


@lower_getattr_generic(OwnType)
def _of_own(context, builder, kind, value, name):  # type: ignore[no-untyped-def]
    return _group(context, builder, context.make_helper(builder, kind, value=value), f"{kind.owner}.{name}")


def _group(context: Any, builder: Any, whole: Any, group: str) -> Any:
    view = context.make_helper(builder, GroupType(group, ()))
    view.at, view.numbers = whole.at, getattr(whole, ARRAY_OF[group])
    return view._getvalue()


@lower_getattr_generic(WholeType)
def _of_whole(context, builder, kind, value, name):  # type: ignore[no-untyped-def]
    view = context.make_helper(builder, kind, value=value)
    first = 0 if kind.name_of == "sizes" else FIRST_LENGTH
    return _place(context, builder, view.at, first + WHOLE[kind.name_of].index(name))


@lower_getattr_generic(GroupType)
def _of_group(context, builder, kind, value, name):  # type: ignore[no-untyped-def]
    view = context.make_helper(builder, kind, value=value)
    place = FIRST_PLACE[kind.group] + kind.parts.index(name)
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
def participant(  # type: ignore[no-untyped-def]
    typing_context, at, constants, rule, model, counts, snapshot, memory, budget, staff, scratch, world, history
):
    """A participant from the layout's numbers and its arrays, all as bare addresses."""
    given = (at, constants, rule, model, counts, snapshot, memory, budget, staff, scratch, world, history)
    if at not in (_places, _places_with_search) or any(kind != _numbers for kind in given[1:]):
        return None

    def generate(context, builder, signature, arguments):  # type: ignore[no-untyped-def]
        whole = context.make_helper(builder, signature.return_type)
        for name, value in zip(("at", *ARRAYS), arguments, strict=True):
            setattr(whole, name, value)
        return whole._getvalue()

    return ParticipantType(at == _places_with_search)(*given), generate


def handle_of(at: Any, arrays: Any) -> Any:
    """The addresses and sizes of the layout's numbers and a participant's arrays by name, for `participant_at`.

    The caller must keep the arrays as long as the handle.
    """
    ordered = [arrays[name] for name in ARRAYS]  # all of them, since compiled code would read beyond a shorter list
    return np.array([[a.ctypes.data, a.size] for a in (at, *ordered)], dtype=at.dtype).ravel()


@inner_function
def participant_at(handle):  # type: ignore[no-untyped-def]
    """A participant from its handle: one array to pass instead of twelve."""
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
        flat_at(handle[18], handle[19], 0.0),
        flat_at(handle[20], handle[21], 0.0),
        flat_at(handle[22], handle[23], 0.0),
    )
