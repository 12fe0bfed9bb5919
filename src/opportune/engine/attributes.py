"""The attributes of a participant in compiled code, for both of Numba's compilers: the CPU's and the GPU's.

`p.sizes.d`, `p.lengths.counts`, `p.model.theta`, `p.counts_array`; and for the rule or world with number 3,
`p.revealer_3.state.debt`. `engine.named` and `simulation.cuda_views` define the types and how an attribute is found in
memory; the set of attributes and their kinds is the same for both and is defined here.
"""

from typing import Any, NamedTuple

from opportune.engine.declared import ARRAYS, GROUPS, Declares, parts_of
from opportune.engine.hooks import RECOMMENDERS, REVEALERS, WORLDS
from opportune.engine.sizes import Sizes

OWNERS = {"revealer": REVEALERS, "recommender": RECOMMENDERS, "world": WORLDS}
CORE = {name: declared for name, declared in GROUPS.items() if declared is not None}


class Kinds(NamedTuple):
    """A compiler's types: of a participant, its sizes and lengths, an owner's groups, a group."""

    participant: type
    whole: type
    own: type
    group: type


def declare_attributes(declare: Any, template: Any, kinds: Kinds, *, number: Any, part: Any) -> None:
    """Register the types of all attributes with a compiler.

    Args:
        declare: the compiler's `infer_getattr`.
        template: its `AttributeTemplate`.
        kinds: its types. A participant's type creates the others: `kind.whole(names)`, `kind.own(owner, declares)`,
            `kind.group(name, fields)`.
        number: the type of a size.
        part: the type of a group's part.

    """

    def resolve_participant(self: Any, kind: Any, name: str) -> Any:
        if name in {"sizes", "lengths"}:
            return kind.whole(name)
        if name in CORE:
            return kind.group(name, tuple(parts_of(CORE[name])))
        if name.endswith("_array") and name.removesuffix("_array") in ARRAYS:
            return part
        owner, _, entry = name.rpartition("_")
        return kind.own(owner, OWNERS[owner].entries[int(entry)].declares) if owner in OWNERS else None

    def resolve_whole(self: Any, kind: Any, name: str) -> Any:
        return number if name in WHOLE[kind.name_of] else None

    def resolve_own(self: Any, kind: Any, name: str) -> Any:
        if name not in Declares._fields or f"{kind.owner}.{name}" not in GROUPS:
            return None
        return kind.group(f"{kind.owner}.{name}", tuple(parts_of(getattr(kind.declares, name))))

    def resolve_part(self: Any, kind: Any, name: str) -> Any:
        return part if name in kind.parts else None

    resolvers = (resolve_participant, resolve_whole, resolve_own, resolve_part)
    for key, resolve in zip(kinds, resolvers, strict=True):
        declare(type(f"{key.__name__}Attributes", (template,), {"key": key, "generic_resolve": resolve}))


WHOLE = {"sizes": Sizes._fields, "lengths": tuple(ARRAYS)}
