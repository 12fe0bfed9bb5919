"""Participants assembled from arrays: for compiled code (engine.named), or for Python with plain arrays."""

import itertools
from collections.abc import Mapping
from types import SimpleNamespace
from typing import Any

from opportune.engine.declared import ARRAY_OF, ARRAYS, GROUPS
from opportune.engine.layout import FIRST_LENGTH, FIRST_PLACE, Layout
from opportune.engine.versions import SIMULATED


def of_arrays(layout: Layout, *arrays: Any) -> Any:
    """A participant for Python with plain arrays: for Numba's simulator and tests."""
    at, given = layout.at, dict(zip(ARRAYS, arrays, strict=True))
    made = SimpleNamespace(
        sizes=layout.sizes, lengths=SimpleNamespace(**dict(zip(ARRAYS, at[FIRST_LENGTH:], strict=True)))
    )
    for name, array in given.items():
        setattr(made, f"{name}_array", array)
    for group in GROUPS:
        declared, first = layout.declared(group), FIRST_PLACE[group]
        bounds = at[first : first + len(declared._fields) + 1]  # type: ignore[attr-defined]
        array = given[ARRAY_OF[group]]
        parts = declared(*(array[a:b] for a, b in itertools.pairwise(bounds)))
        owner, _, name = group.rpartition(".")
        if owner:
            setattr(made.__dict__.setdefault(owner, SimpleNamespace()), name, parts)
        else:
            setattr(made, group, parts)
    return made


if SIMULATED:

    def participant(layout: Any, *arrays: Any) -> Any:
        """A participant from its layout and arrays."""
        return of_arrays(layout, *arrays)

    def handle_of(at: Any, arrays: Mapping[str, Any]) -> Any:
        """The arrays themselves, for `participant_at`."""
        return (at, *(arrays[name] for name in ARRAYS))

    def participant_at(handle: Any) -> Any:
        """A participant from its handle."""
        return of_arrays(*handle)

else:
    from opportune.engine.named import handle_of, participant, participant_at

__all__ = ["handle_of", "of_arrays", "participant", "participant_at"]
