"""Combinations of the values that a moment could have: every bound or level of one variable with all of the others."""

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opportune.errors import InputError
from opportune.problems.variables import Variable, bounds_of, levels_of

Floats = NDArray[np.float64]
Choices = Mapping[str, Sequence[float]]  # the values that each of these variables takes

MOST_CORNERS = 256
"""The most combinations of unseen values that a decision may have to evaluate."""
MOST_COMBINATIONS = 65_536
"""The most combinations to evaluate once, when a problem is built."""


def level_numbers(variable: Variable) -> tuple[float, ...]:
    """The numbers of a variable's levels."""
    return tuple(float(i) for i in range(len(levels_of(variable) or ())))


def extremes(variables: Mapping[str, Variable], used: Iterable[Any]) -> dict[str, tuple[float, ...]]:
    """The bounds, or the level numbers, of each variable used."""
    found: dict[str, tuple[float, ...]] = {}
    for (name, variable), matters in zip(variables.items(), used, strict=True):
        bounds = bounds_of(variable)
        if matters:
            found[name] = level_numbers(variable) if bounds is None else (bounds.low, bounds.high)
    return found


def combine(
    variables: Mapping[str, Variable], values: Floats, choices: Choices, *, most: int, who: str, instead: str = ""
) -> Floats:
    """Copies of `values` with some variables at each combination of choices, the first one slowest: [n, V].

    More than `most` combinations are rejected, in a message made of `who` and, as a way out, `instead`.
    """
    size = math.prod(len(chosen) for chosen in choices.values())
    if size > most:
        raise InputError(f"{who.format(size)}; expected at most {most}{instead}")
    places = [list(variables).index(name) for name in choices]
    points = np.tile(values, (size, 1))
    points[:, places] = np.array(list(itertools.product(*choices.values())), dtype=np.float64).reshape(size, -1)
    return points
