"""What `core.simd` does to one number at a time: as a GPU's thread does, and Python."""

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
    """The same number in every place of the vector."""
    return number


def fma(x: Any, y: Any, z: Any) -> Any:
    """The sum x y + z, rounded once where the processor can."""
    return x * y + z
