"""Checks of input: each returns the clean value, or raises an error that says what was given and expected."""

import difflib
import functools
import inspect
import itertools
import math
import os
import sys
import unicodedata
import warnings
from collections.abc import Callable, Iterable, Mapping, Sized
from pathlib import Path
from types import FunctionType
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opportune.errors import InputError

LARGEST = 1e30
"""Larger numbers cannot be multiplied, squared and summed safely."""
MOST_STEPS = 10_000_000
"""The most steps of a run, or decision points of a schedule."""
MOST_SEED = 2**64 - 1
MOST_TEXT = 1_000
MOST_SHOWN = 120
"""The most characters of a value that a message shows."""
_MOST_ENTRIES = 50_000_000
_GIB = 2.0**30

_LENGTHY = (list, tuple, set, frozenset, dict, str, bytes, bytearray)
_TRUTHS = (bool, np.bool_)
_WHOLES = (int, np.integer)
_REALS = (int, float, np.integer, np.floating)
_NO_NUMBERS = (bool, np.bool_, np.timedelta64)  # although Python or NumPy treat them as numbers
_OVERRIDES = {*range(0x202A, 0x202F), *range(0x2066, 0x206A)}  # these reverse the direction of the following text


def brief(value: Any) -> str:
    """Any value as a message shows it: in one line, shortened."""
    kind = type(value).__name__
    try:
        value = value.item() if isinstance(value, np.generic) and not isinstance(value, np.longdouble) else value
        kind = type(value).__name__
        shape = getattr(value, "shape", None)
        if isinstance(value, type):
            said = f"the class {value.__name__}"
        elif isinstance(shape, tuple) and shape:
            said = f"{kind} of shape {list(shape)}"
        elif isinstance(value, _LENGTHY) and len(value) > 10 * MOST_SHOWN:
            said = f"{kind} of length {len(value)}"
        elif isinstance(value, int) and abs(value) >= 10**MOST_SHOWN:
            said = f"a whole number of about {round(value.bit_length() * math.log10(2.0))} digits"
        else:
            said = repr(value)
    except (ValueError, RecursionError):  # a number of thousands of digits in a list, or deeply nested lists
        said = f"something of type {kind}"
    if " at 0x" in said:
        said = "a function" if isinstance(value, FunctionType) else f"something of type {kind}"
    said = "".join(c if c.isprintable() else repr(c)[1:-1] for c in " ".join(said.split()))
    return said if len(said) <= MOST_SHOWN else said[: MOST_SHOWN - 3] + "..."


def real(name: str, value: Any, *, least: float = -math.inf, above: float = -math.inf,
         most: float = math.inf, below: float = math.inf) -> float:  # fmt: skip
    """A finite number within bounds, and small enough for safe arithmetic."""
    number = math.nan
    if isinstance(value, _REALS) and not isinstance(value, _NO_NUMBERS):
        try:
            number = float(value)
        except OverflowError:  # a whole number of more than 308 digits
            number = math.inf
        if abs(number) <= LARGEST and least <= number <= most and above < number < below:
            return number
    bounds = []
    if least > -math.inf:
        bounds.append(f">= {least:g}")
    if above > -math.inf:
        bounds.append(f"> {above:g}")
    if most < math.inf:
        bounds.append(f"<= {most:g}")
    elif LARGEST < abs(number) < math.inf:
        bounds.append(f"of at most {LARGEST:g} in size")
    if below < math.inf:
        bounds.append(f"< {below:g}")
    expected = "a finite number" + (" " + " and ".join(bounds) if bounds else "")
    raise InputError(f"{name} is {brief(value)}; expected {expected}")


def scale(name: str, value: Any, *, most: float = LARGEST) -> float:
    """A positive factor or divisor: from 1/most to most."""
    number = real(name, value, above=0.0)
    if not 1.0 / most <= number <= most:
        raise InputError(f"{name} is {number:g}; expected a number from {1.0 / most:g} to {most:g}")
    return number


def whole(name: str, value: Any, *, least: int, most: int | None = None) -> int:
    """A whole number within bounds."""
    number = isinstance(value, _WHOLES) and not isinstance(value, _NO_NUMBERS)
    if number and least <= value and (most is None or value <= most):
        return int(value)
    expected = f"a whole number from {least} to {most}" if most is not None else f"a whole number >= {least}"
    raise InputError(f"{name} is {brief(value)}; expected {expected}")


def seed(name: str, value: Any) -> int:
    """A seed or stream of random draws."""
    return whole(name, value, least=0, most=MOST_SEED)


def yes_no(name: str, value: Any) -> bool:
    """True or False; values that only look like them are rejected."""
    if isinstance(value, _TRUTHS):
        return bool(value)
    raise InputError(f"{name} is {brief(value)}; expected True or False")


def text(name: str, value: Any, *, empty: bool = False, lines: bool = False) -> str:
    """Readable text that can be printed, drawn and saved; `lines` allows several lines."""
    if not isinstance(value, str) or not (value or empty):
        raise InputError(f"{name} is {brief(value)}; expected text")
    size(f"{name} has", len(value), MOST_TEXT, "characters")
    for character in value.replace("\n", " ") if lines else value:
        if unicodedata.category(character) in {"Cc", "Cs", "Zl", "Zp"} or ord(character) in _OVERRIDES:
            raise InputError(f"{name} is {brief(value)}; expected text without {character!a}, which is not shown")
    if value and not lines and all(unicodedata.category(c)[0] in "ZC" for c in value):
        raise InputError(f"{name} is {brief(value)}; expected text that shows something")
    return str(value)


def choice(name: str, value: Any, options: Iterable[str]) -> str:
    """One of a few words; the error suggests a similar one."""
    known = list(options)
    hint = ""
    if isinstance(value, str):
        if value in known:
            return str(value)
        near = difflib.get_close_matches(value[:MOST_SHOWN], [str(k) for k in known], n=1, cutoff=0.7)
        hint = f"; did you mean {near[0]!r}?" if near else ""  # 'gpu' is not close to 'cpu'
    few = ", ".join(map(repr, known[:20])) + (", ..." if len(known) > 20 else "")
    raise InputError(f"{name} is {brief(value)}; expected one of {few}{hint}")


def path(name: str, value: Any) -> Path:
    """The path of a file or folder; ~ stands for the home folder."""
    good = isinstance(value, str | Path) and 0 < len(str(value)) <= MOST_TEXT
    if not good or not str(value).isprintable():
        raise InputError(f"{name} is {brief(value)}; expected the path of a file")
    return Path(os.path.expanduser(value))  # keeps an unknown ~name, for which Path.expanduser raises


def listed(name: str, value: Any, expected: str, *, most: int) -> list[Any]:
    """The entries of an ordered collection; text and unordered collections are rejected."""
    unordered = isinstance(value, str | bytes | bytearray | memoryview | Mapping | set | frozenset)
    if unordered or not isinstance(value, Iterable) or getattr(value, "ndim", 1) != 1:
        raise InputError(f"{name} is {brief(value)}; expected {expected}")
    size = len(value) if isinstance(value, Sized) else 0
    entries = list(itertools.islice(value, most + 1)) if size <= most else []
    if size > most or len(entries) > most:
        more = f"{size}" if size > most else f"more than {most}"
        raise InputError(f"{name} has {more} entries; expected {expected}, at most {most}")
    return entries


def mapping(name: str, value: Any, expected: str) -> dict[Any, Any]:
    """A mapping as a dictionary."""
    if not isinstance(value, Mapping):
        raise InputError(f"{name} is {brief(value)}; expected {expected}")
    return dict(value)


def registered(thing: Any, classes: Iterable[Any]) -> None:
    """Reject an object whose class is not registered: compiled code would run the functions of its parent class."""
    if type(thing) not in classes:
        name = type(thing).__name__
        raise InputError(f"{name} is not registered; expected one that is: write @opportune.register above its class")


def settings(of: str, given: Mapping[str, Any], function: Callable[..., Any], *, without: Iterable[str] = ()) -> None:
    """Reject keyword arguments that a function does not have."""
    known = [name for name in _parameters(function) if name not in {"self", *without}]
    for name in given:
        choice(f"a setting of {of}", name, known)


@functools.lru_cache(maxsize=256)
def _parameters(function: Callable[..., Any]) -> tuple[str, ...]:
    """The names of a function's parameters; cached, since inspection takes longer than all checks."""
    return tuple(inspect.signature(function).parameters)


def keep(of: Any, **values: Any) -> None:
    """Set fields of a frozen dataclass to their checked values."""
    for name, value in values.items():
        object.__setattr__(of, name, value)


def numbers(name: str, value: Any, expected: str, *, truths: bool = False) -> NDArray[np.float64]:
    """An array of numbers of any size; text, complex numbers, dates and missing values are rejected.

    True and False are rejected, too, unless `truths` allows them for yes-or-no values: they count as 1 and 0.
    """
    wrong = InputError(f"{name} is not an array of numbers; expected {expected}")
    try:
        size(f"{name} has", _entries(value), _MOST_ENTRIES, "entries")
        given = np.asarray(value)
        size(f"{name} has", given.size, _MOST_ENTRIES, "entries")
        if given.dtype.kind == "O" and all(map(_is_number, given.flat)):
            given = np.array(given, dtype=np.float64)
    except InputError:
        raise
    except (
        TypeError,
        ValueError,
        OverflowError,
        RecursionError,
    ):  # ragged or too large
        raise wrong from None
    if given.dtype.kind not in "buif" or (isinstance(value, np.ma.MaskedArray) and np.ma.is_masked(value)):
        raise wrong
    if not truths and (given.dtype.kind == "b" or _has_truths(value)):
        raise InputError(f"{name} contains True or False; expected only numbers")
    return np.array(given, dtype=np.float64)


def _has_truths(value: Any) -> bool:
    """Whether nested lists contain True or False, which NumPy would convert to 1 and 0."""
    if isinstance(value, list | tuple):
        kinds = set(map(type, value))  # few types, however many entries
        return not kinds.isdisjoint(_TRUTHS) or (not kinds <= {int, float} and any(map(_has_truths, value)))
    return isinstance(value, np.ndarray) and value.dtype.kind == "b"


def _entries(value: Any) -> int:
    """The number of entries of a future array, as far as it is known without visiting each of them."""
    if hasattr(value, "dtype") or isinstance(value, type) or not hasattr(value, "__len__"):
        return 1
    if not isinstance(value, list | tuple):
        return len(value)
    return max(len(value), sum(len(entry) for entry in value if isinstance(entry, Sized) and not _is_array(entry)))


def _is_number(value: Any) -> bool:
    return isinstance(value, _REALS) and not isinstance(value, _NO_NUMBERS)


def _is_array(value: Any) -> bool:
    return hasattr(value, "dtype") or isinstance(value, type)


def array(name: str, value: Any, shape: tuple[int | str, ...]) -> NDArray[np.float64]:
    """A finite float array of a given rank; in `shape`, numbers are required sizes and words only name axes."""
    wanted = "[" + ", ".join(map(str, shape)) + "]"
    result = numbers(name, value, f"shape {wanted}")
    if result.ndim != len(shape):
        raise InputError(f"{name} has shape {list(result.shape)}; expected {len(shape)} axes {wanted}")
    for axis, (got, want) in enumerate(zip(result.shape, shape, strict=True)):
        if isinstance(want, int) and got != want:
            raise InputError(f"{name} has {got} entries on axis {axis}; expected {want} (shape {wanted})")
        if got == 0:
            raise InputError(f"{name} is empty on axis {axis}; expected shape {wanted}")
    good = np.abs(result) <= LARGEST
    if not good.all():
        where = [int(i) for i in np.argwhere(~good)[0]]
        number = result[tuple(where)]
        bound = f" of at most {LARGEST:g} in size" if math.isfinite(number) else ""
        raise InputError(f"{name} has {number} at {where}; expected finite numbers{bound}")
    return np.ascontiguousarray(result)


def probabilities(name: str, value: Any, size: int) -> NDArray[np.float64]:
    """A probability vector."""
    plain = type(value) is np.ndarray and value.dtype == np.float64 and value.shape == (size,)
    if plain and value.min() >= 0.0 and abs(float(value.sum()) - 1.0) <= 1e-9:  # the usual case, checked fast
        return np.array(value)
    p = numbers(name, value, f"{size} probabilities")
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


def warn(message: str) -> None:
    """Issue a warning located at the caller's code outside this package."""
    level, frame = 1, sys._getframe()
    while frame is not None and frame.f_globals.get("__name__", "").split(".")[0] in {"opportune", "functools"}:
        level, frame = level + 1, frame.f_back  # type: ignore[assignment]
    warnings.warn(message, UserWarning, stacklevel=level)


def size(what: str, count: float, most: float, of: str) -> None:
    """Reject a size that is too large: `what` has `count` of something."""
    if count > most:
        raise InputError(f"{what} {count:,.0f} {of}; expected at most {most:,.0f}")


def memory(what: str, needed: float, instead: str) -> None:
    """Reject a request that does not fit into memory, before any of it is allocated."""
    there = memory_there()
    if needed > 0.9 * there:
        sizes = f"{what} takes {needed / _GIB:,.3g} GiB of memory; {there / _GIB:,.3g} are available"
        raise InputError(f"{sizes}; expected {instead}")


def memory_there() -> float:
    """Bytes of memory available to this process: of the machine, or of its container's limit."""
    found = [math.inf]
    if "SC_PHYS_PAGES" in getattr(os, "sysconf_names", ()):
        found.append(float(os.sysconf("SC_PHYS_PAGES")) * os.sysconf("SC_PAGE_SIZE"))
    for limit in ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory/memory.limit_in_bytes"):
        try:
            found.append(float(Path(limit).read_text(encoding="ascii")))
        except (OSError, ValueError):  # no such file, or "max"
            continue
    try:
        import resource  # noqa: PLC0415  (missing on some systems)

        soft, _ = resource.getrlimit(resource.RLIMIT_AS)
        if soft != resource.RLIM_INFINITY:
            found.append(float(soft))
    except ImportError:
        pass
    return min(found)
