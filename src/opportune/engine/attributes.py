"""What attributes a participant has in compiled code, for either of Numba's compilers: the CPU's and the GPU's.

`engine.named` and `simulation.cuda_views` say what the types are and how an attribute is found in memory; which ones
there are, and of which types, is the same for both and is said here.
"""

from typing import Any

from opportune.engine.layout import GROUPS, Sizes, dimensions

NAMES = tuple(group.__name__.lower() for group in GROUPS)
FIELDS = {name: tuple(dimensions(group)) for name, group in zip(NAMES, GROUPS, strict=True)}


def declare_attributes(
    declare: Any, template: Any, participant: type, sizes: type, group: type, *, number: Any, part: Any
) -> None:
    """Tell a compiler the types of `p.sizes`, `p.sizes.d`, `p.model` and `p.model.theta`.

    Args:
        declare: the compiler's `infer_getattr`.
        template: its `AttributeTemplate`.
        participant: the type of a participant, whose `sizes_type` and `group_type(name)` are those of its attributes.
        sizes: the type of its sizes.
        group: the type of its groups.
        number: the type of a size.
        part: the type of a group's part.

    """

    def resolve_group(self: Any, kind: Any, name: str) -> Any:
        if name == "sizes":
            return kind.sizes_type()
        return kind.group_type(name) if name in NAMES else None

    def resolve_size(self: Any, kind: Any, name: str) -> Any:
        return number if name in Sizes._fields else None

    def resolve_part(self: Any, kind: Any, name: str) -> Any:
        return part if name in FIELDS[kind.group] else None

    for key, resolve in ((participant, resolve_group), (sizes, resolve_size), (group, resolve_part)):
        declare(type(f"{key.__name__}Attributes", (template,), {"key": key, "generic_resolve": resolve}))
