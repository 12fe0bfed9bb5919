"""The operations of `engine.simd` on one number at a time, for threads of a GPU and for Python."""

import math
from typing import Any


def width() -> Any:
    """The number of numbers processed at a time."""
    return 1


def load(array: Any, place: Any) -> Any:
    """The numbers from `place` on."""
    return array[place]


def store(array: Any, place: Any, value: Any) -> None:
    """Write the numbers back."""
    array[place] = value


def spread(number: Any) -> Any:
    """A vector with this number in every place."""
    return number


def fma(x: Any, y: Any, z: Any) -> Any:
    """The sum x y + z: rounded once on the CPU; here and on a GPU according to the compiler."""
    return x * y + z


def divide(x: Any, y: Any) -> Any:
    """The quotient x / y."""
    return x / y


def plus(x: Any, y: Any) -> Any:
    """The sum x + y."""
    return x + y


def times(x: Any, y: Any) -> Any:
    """The product x y, rounded before any addition."""
    return x * y


def root(x: Any) -> Any:
    """The square root of x, or 0 for negative x."""
    return math.sqrt(max(x, 0.0))


def larger(x: Any, y: Any) -> Any:
    """The larger of x and y; neither may be NaN."""
    return max(x, y)


def largest(x: Any) -> Any:
    """The largest of the numbers in x; none may be NaN."""
    return x
