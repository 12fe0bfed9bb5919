"""Offsets: each part's place in its array, given a problem's sizes and the declarations of rules and world.

The declarations are in `engine.declared`. Compiled code gets a layout as whole numbers (`Layout.at`).
"""

import functools
import itertools
import math
from collections.abc import Mapping
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from opportune.engine.declared import (
    ARRAYS,
    BESIDE_CHANCES,
    EVENTS,
    GROUPS,
    KNOWN,
    MOST_PARTS,
    OPTIMISTIC,
    SEARCH_ROWS,
    VIEWS,
    Owner,
    Owners,
    parts_of,
)
from opportune.engine.pointers import WIDTH
from opportune.engine.sizes import Sizes
from opportune.engine.versions import SIMULATED


def _room(group: str) -> int:
    """The most parts of a group."""
    declared = GROUPS[group]
    return MOST_PARTS if declared is None else len(parts_of(declared))


# The positions in a layout's numbers that compiled code reads: sizes, each group's places, each array's length.
FIRST_PLACE = dict(
    zip(GROUPS, itertools.accumulate((_room(name) + 1 for name in GROUPS), initial=len(Sizes._fields)), strict=False)
)
_NUMBER = {group: i for i, group in enumerate(GROUPS)}
FIRST_LENGTH = len(Sizes._fields) + sum(_room(name) + 1 for name in GROUPS)


class Layout(NamedTuple):
    """The layout of a run: the sizes, the declarations by owner, and each group's places in its array."""

    sizes: Sizes
    extents: tuple[tuple[str, int], ...]
    simd: int
    owners: Owners
    places: tuple[tuple[int, ...], ...]  # by group: the start of each part, and the end of the group
    lengths: tuple[int, ...]  # by array

    @property
    def at(self) -> tuple[int, ...]:
        """The whole layout as whole numbers, for compiled code."""
        numbers = list(self.sizes)
        for group, places in zip(GROUPS, self.places, strict=True):
            numbers += [*places, *places[-1:] * (_room(group) + 1 - len(places))]
        return (*numbers, *self.lengths)

    def numbers(self) -> Any:
        """The layout for compiled code: an array, unsigned if scores need the optimistic search (engine.named).

        The simulator, which runs Python, gets the layout itself.
        """
        if SIMULATED:
            return self
        return np.array(self.at, dtype=np.uint64 if self.sizes.probabilities == OPTIMISTIC else np.int64)

    def length(self, array: str) -> int:
        """The number of numbers in an array."""
        return self.lengths[list(ARRAYS).index(array)]

    def declared(self, group: str) -> type:
        """The declaration of a group, for any owner."""
        found = GROUPS[group]
        if found is not None:
            return found
        owner, name = group.split(".")
        kind: type = getattr(getattr(self.owners, owner).declares, name)
        return kind

    def places_of(self, group: str) -> tuple[int, ...]:
        """The start of each part of a group in its array, and the group's end."""
        return self.places[_NUMBER[group]]

    def views(self, group: str, array: NDArray[np.float64]) -> Any:
        """The parts of a group in an array, as NumPy views."""
        places = self.places_of(group)
        return self.declared(group)(*(array[..., a:b] for a, b in itertools.pairwise(places)))

    def scalars(self, group: str, array: NDArray[np.float64]) -> NDArray[np.float64]:
        """A group of single numbers as one view of an array, in the order of its parts."""
        places = self.places_of(group)
        return array[places[0] : places[-1] : self.simd]

    def shapes(self, group: str) -> dict[str, tuple[tuple[int, ...], tuple[int, ...]]]:
        """The shape of each part of a group, with and without padding."""
        padded = self._extents(group)
        exact = {**padded, "stride": self.sizes.d, "table": dict(self.extents)["scored"]}

        def shape(dims: tuple[str | int, ...], extents: Mapping[str, int]) -> tuple[int, ...]:
            return tuple(dim if isinstance(dim, int) else extents[dim] for dim in dims)

        return {
            name: (shape(dims, padded), shape(dims, exact)) for name, dims in parts_of(self.declared(group)).items()
        }

    def unpadded(self, group: str, array: NDArray[np.float64]) -> dict[str, NDArray[np.float64]]:
        """The parts of a group in an array by name, as views in their shapes without padding."""
        parts = self.views(group, array)
        return {
            name: getattr(parts, name)[: math.prod(lies)].reshape(lies)[tuple(slice(n) for n in counts)]
            for name, (lies, counts) in self.shapes(group).items()
        }

    def filled(self, array: str, **groups: Mapping[str, Any]) -> NDArray[np.float64]:
        """An array with these parts of its groups filled in, the rest 0; underscores stand for dots in names."""
        made = np.zeros(self.length(array))
        for name, parts in groups.items():
            group = name if name in GROUPS else name.replace("_", ".", 1)
            places = dict(zip(parts_of(self.declared(group)), itertools.pairwise(self.places_of(group)), strict=True))
            for part, numbers in parts.items():
                begin, end = places[part]
                if begin == end:
                    continue
                if isinstance(numbers, int | float):
                    made[begin] = numbers
                else:
                    values = np.asarray(numbers, dtype=np.float64).ravel()
                    made[begin:end][: values.size] = values
        return made

    def _extents(self, group: str) -> dict[str, int]:
        owner = getattr(self.owners, group.split(".", maxsplit=1)[0]) if "." in group else Owner()
        return {**dict(self.extents), **dict(owner.extents)}

    def with_owners(self, owners: Owners) -> "Layout":
        """The layout with space for the owners' declarations."""
        return _arrange(self.sizes, self.extents, self.simd, owners)


@functools.lru_cache(maxsize=256)
def layout(
    *, d: int, actions: int, contexts: int, strata: int, senses: int = 0, corners: int = 0,
    probabilities: int = KNOWN, table: bool = True, simd: int = WIDTH, support: int = 0, reported: bool = False,
    variables: int = 0, atoms: int = 0, fixed_atoms: int = 0, factors: int = 0, code: int = 0, depth: int = 0,
    held: int = 0, delay: int = 0, interrupted: bool = False, masked: bool = False, condition: int = 0,
    truths: int = 0, limited: bool = False, remembered: int = 0, timed: int = 0,
    randomised: bool = False, update: int = 1, random: bool = False, habituated: int = 0, histories: int = 0,
    past: int = 0, rotating: bool = False,
) -> Layout:  # fmt: skip
    """The layout for a problem of these sizes.

    Every part begins at a multiple of `simd`, and rows that loops run along are padded with zeros to such a multiple
    (the table, which is processed in two stretches at once, to a multiple of twice that). Rows with at most `support`
    nonzero numbers are listed by these if that is at most half of them.
    """
    finite = contexts > 0
    known = probabilities == KNOWN
    blocks = contexts + (strata + senses if known and finite else 0)
    searched = contexts if probabilities == OPTIMISTIC else 0
    counted = 0 if known else strata + senses
    listed = support if finite and 2 * support <= d else 0
    scored = blocks * actions if table and finite else 0
    sizes = Sizes(
        d=d, actions=actions, block=actions * d, contexts=contexts, strata=strata, senses=senses, corners=corners,
        probabilities=probabilities, table=_padded(scored, 2 * simd), stride=_padded(d, simd), support=listed,
        counted=counted, variables=variables, reported=int(reported), atoms=atoms, fixed_atoms=fixed_atoms,
        factors=factors, held=held, delay=delay + update - 1, update=update, interrupted=int(interrupted),
        masked=int(masked), randomised=int(randomised), random=int(random), limited=int(limited),
        remembered=remembered, timed=timed, habituated=habituated, histories=histories, past=past,
        rotating=int(rotating),
    )  # fmt: skip
    extents: dict[str, int] = {
        **sizes._asdict(),
        "blocks": blocks,
        "scored": scored,  # rows whose scores are stored, without padding
        "listed": blocks if listed else 0,
        "parts": senses or contexts,
        "means": strata + senses,
        "distances": strata if known and finite else 0,
        "moment": 0 if finite else 1,
        "averaged": 0 if known and finite and not reported else 1,
        "tallied": contexts if counted else 0,
        "pending": contexts if senses else 0,
        "standing": strata if finite else 0,
        "kept": strata * actions if known and finite and table else 0,
        "code": code,
        "followed": EVENTS if histories else 0,
        "atom_room": atoms + depth,
        "searched": searched,
        "search_rows": SEARCH_ROWS + 2 * searched,
        "letters": sizes.delay + 1 if sizes.delay else 0,
        "masks": contexts + strata + senses if masked and finite else 0,
        "moment_masks": 2 * VIEWS if masked and not finite else 0,
        "condition": condition,
        "conditions": actions if masked and not finite else 0,
        "sighted": variables if masked and not finite else 0,
        "truths": truths,
        "chances": actions + BESIDE_CHANCES if randomised else 0,
    }
    return _arrange(sizes, tuple(extents.items()), simd, Owners())


@functools.lru_cache(maxsize=1024)
def _arrange(sizes: Sizes, extents: tuple[tuple[str, int], ...], simd: int, owners: Owners) -> Layout:
    """Assign every part its place: group after group in each array."""
    empty = Layout(sizes, extents, simd, owners, (), ())
    places, lengths = [], []
    for groups in ARRAYS.values():
        end = 0
        for group in groups:
            known = empty._extents(group)
            bounds = [end]
            for dims in parts_of(empty.declared(group)).values():
                size = math.prod(dim if isinstance(dim, int) else known[dim] for dim in dims)
                bounds.append(bounds[-1] + _padded(size, simd))
            places.append(tuple(bounds))
            end = bounds[-1]
        lengths.append(end)
    return empty._replace(places=tuple(places), lengths=tuple(lengths))


def _padded(size: int, simd: int) -> int:
    return -(-size // simd) * simd
