"""What `engine.simd` does to one number at a time: as a GPU's thread does, and Python."""

import math
from typing import Any


def width() -> Any:
    """How many numbers go at a time."""
    return 1


def load(array: Any, place: Any) -> Any:
    """The numbers from `place` on."""
    return array[place]


def store(array: Any, place: Any, value: Any) -> None:
    """Put them back."""
    array[place] = value


def spread(number: Any) -> Any:
    """A vector that has this number in every place."""
    return number


def fma(x: Any, y: Any, z: Any) -> Any:
    """The sum x y + z: rounded once on the CPU, here and on a GPU as whoever compiles it does."""
    return x * y + z


def divide(x: Any, y: Any) -> Any:
    """The quotient x / y."""
    return x / y


def plus(x: Any, y: Any) -> Any:
    """The sum x + y."""
    return x + y


def times(x: Any, y: Any) -> Any:
    """The product x y, rounded before anything is added to it."""
    return x * y


def root(x: Any) -> Any:
    """The square root of x, or of 0 where x is less."""
    return math.sqrt(max(x, 0.0))


def larger(x: Any, y: Any) -> Any:
    """The larger of x and y, none of which is NaN."""
    return max(x, y)


def largest(x: Any) -> Any:
    """The largest of the numbers in x, none of which is NaN."""
    return x
