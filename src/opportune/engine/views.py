"""Participants put together from arrays: for compiled code (engine.named), or for Python, over plain arrays."""

import itertools
from typing import Any

from opportune.engine.layout import GROUPS, Participant, Sizes, dimensions
from opportune.engine.versions import PLAIN


def of_arrays(at: Any, *arrays: Any) -> Participant:
    """The same of plain arrays, for Python: Numba's simulator and tests."""
    places = iter(at)
    sizes = Sizes(*(next(places) for _ in Sizes._fields))
    groups = []
    for group, array in zip(GROUPS, arrays, strict=True):
        bounds = [next(places) for _ in range(len(dimensions(group)) + 1)]
        groups.append(group(*(array[a:b] for a, b in itertools.pairwise(bounds))))
    return Participant(sizes, *groups)


if PLAIN:
    participant = of_arrays

    def handle_of(at: Any, *arrays: Any) -> Any:
        """The arrays themselves, for `participant_at`."""
        return (at, *arrays)

    def participant_at(handle: Any) -> Participant:
        """A participant from its handle."""
        return of_arrays(*handle)

else:
    from opportune.engine.named import handle_of, participant, participant_at

__all__ = ["handle_of", "of_arrays", "participant", "participant_at"]
