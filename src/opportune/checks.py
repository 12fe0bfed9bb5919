"""Refusing bad input at the door: each check returns the clean value or says what was given and expected."""

import difflib
import math
from collections.abc import Iterable
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opportune.errors import InputError

_TRUTHS = (bool, np.bool_)
_WHOLES = (int, np.integer)
_REALS = (int, float, np.integer, np.floating)


def real(name: str, value: Any, *, least: float = -math.inf, above: float = -math.inf,
         most: float = math.inf, below: float = math.inf) -> float:  # fmt: skip
    """A finite number within bounds."""
    if isinstance(value, _REALS) and not isinstance(value, _TRUTHS):
        try:
            number = float(value)
        except OverflowError:  # a whole number with more than 308 digits
            number = math.inf
        if math.isfinite(number) and least <= number <= most and above < number < below:
            return number
    bounds = []
    if least > -math.inf:
        bounds.append(f">= {least:g}")
    if above > -math.inf:
        bounds.append(f"> {above:g}")
    if most < math.inf:
        bounds.append(f"<= {most:g}")
    if below < math.inf:
        bounds.append(f"< {below:g}")
    expected = "a finite number" + (" " + " and ".join(bounds) if bounds else "")
    raise InputError(f"{name} is {value!r}; expected {expected}")


def whole(name: str, value: Any, *, least: int, most: int | None = None) -> int:
    """A whole number within bounds."""
    if isinstance(value, _WHOLES) and not isinstance(value, _TRUTHS):
        if least <= value and (most is None or value <= most):
            return int(value)
        value = int(value)  # said as people write it
    expected = f"a whole number from {least} to {most}" if most is not None else f"a whole number >= {least}"
    raise InputError(f"{name} is {value!r}; expected {expected}")


def yes_no(name: str, value: Any) -> bool:
    """True or False, and nothing that only looks like it."""
    if isinstance(value, _TRUTHS):
        return bool(value)
    raise InputError(f"{name} is {value!r}; expected True or False")


def choice(name: str, value: Any, options: Iterable[str]) -> str:
    """One of a few words; a near miss is named."""
    known = list(options)
    if value in known:
        return str(value)
    near = difflib.get_close_matches(str(value), known, n=1, cutoff=0.7)  # 'gpu' is not nearly 'cpu'
    hint = f"; did you mean {near[0]!r}?" if near else ""
    raise InputError(f"{name} is {value!r}; expected one of {', '.join(map(repr, known))}{hint}")


def array(name: str, value: Any, shape: tuple[int | str, ...]) -> NDArray[np.float64]:
    """A finite float array of a given rank; numbers in `shape` are required sizes, words only name an axis."""
    wanted = "[" + ", ".join(map(str, shape)) + "]"
    try:
        result = np.array(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"{name} is not an array of numbers; expected shape {wanted}") from None
    if result.ndim != len(shape):
        raise InputError(f"{name} has shape {list(result.shape)}; expected {len(shape)} axes {wanted}")
    for axis, (got, want) in enumerate(zip(result.shape, shape, strict=True)):
        if isinstance(want, int) and got != want:
            raise InputError(f"{name} has {got} entries on axis {axis}; expected {want} (shape {wanted})")
        if got == 0:
            raise InputError(f"{name} is empty on axis {axis}; expected shape {wanted}")
    if not np.isfinite(result).all():
        where = [int(i) for i in np.argwhere(~np.isfinite(result))[0]]
        raise InputError(f"{name} has {result[tuple(where)]} at {where}; expected finite numbers")
    return np.ascontiguousarray(result)


def probabilities(name: str, value: Any, size: int) -> NDArray[np.float64]:
    """A probability vector."""
    try:
        p = np.array(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"{name} is not an array of numbers; expected {size} probabilities") from None
    if p.shape != (size,):
        raise InputError(f"{name} has shape {list(p.shape)}; expected one probability for each of {size} contexts")
    if not np.isfinite(p).all():
        where = int(np.flatnonzero(~np.isfinite(p))[0])
        raise InputError(f"{name} has {p[where]} at {where}; expected numbers from 0 to 1")
    if (p < 0).any():
        where = int(np.flatnonzero(p < 0)[0])
        raise InputError(f"{name} has {p[where]:g} at {where}; expected no negative probability")
    total = float(p.sum())
    if abs(total - 1.0) > 1e-9:
        raise InputError(f"{name} sums to {total:.10g}; expected 1 within 1e-9")
    return p
