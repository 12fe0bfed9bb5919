"""Things of somebody's own classes, at the door: as plain values, or as something that cannot be read.

A class may look like a mapping, a list or a number, and raise, lie or never end when it is asked. Each is therefore
read once, before anything else is done with it: what comes of it is plain, and the checks that follow can believe it.
What is known (Python's own types, NumPy's, pandas', xarray's and ours) is handed on as it is.
"""

import sys
from collections.abc import Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np

_KNOWN = (sys.stdlib_module_names - {"unittest", "__main__"}) | {"numpy", "opportune", "pandas", "xarray"}
_OWN = "opportune"
_HOLDERS = (list, tuple, dict)
_DEEPEST = 12
"""How far into lists and mappings to look: further than anything we take goes."""
MOST_READ = 1_000_000
"""Entries of somebody's own classes that are read in one call."""


class Unreadable:
    """In the place of something that could not be read: neither a number, nor text, nor anything that holds some."""

    def __init__(self, kind: str) -> None:
        self.kind = kind

    def __repr__(self) -> str:
        return f"something of type {self.kind}"


KNOWN_KINDS: set[type] = {int, float, str, bool, type(None)}
"""Classes found to be known, that hold nothing: what most calls are given."""


def is_known(kind: type) -> bool:
    """Whether a class is one whose objects do what they say: of these libraries, or made of one of ours."""
    if kind in KNOWN_KINDS:
        return True
    known = is_known_module(str(kind.__module__)) or any(
        str(base.__module__).split(".", maxsplit=1)[0] == _OWN for base in kind.__mro__
    )
    if known and kind not in _HOLDERS:
        KNOWN_KINDS.add(kind)
    return known


def is_known_module(name: str) -> bool:
    """Whether a module is of these libraries."""
    return name.split(".", maxsplit=1)[0] in _KNOWN


def plainly(value: Any) -> Any:
    """The value itself where it and all that it holds is known; else a copy, read once."""
    kind = type(value)
    if kind in KNOWN_KINDS or (kind in _HOLDERS and _is_flat(value)):
        return value
    return _Reader().read(value, 0)


class _Reader:
    """Reads what one call was given: each thing once, and no more than there can be."""

    def __init__(self) -> None:
        self.left = MOST_READ
        self.seen: dict[int, Any] = {}
        self.kept: list[Any] = []  # so that no number of `seen` is given to something else meanwhile

    def read(self, value: Any, depth: int) -> Any:
        kind = type(value)
        if kind not in _HOLDERS and is_known(kind):
            return value
        if id(value) in self.seen:
            return self.seen[id(value)]
        self.kept.append(value)
        if kind in _HOLDERS:
            self.seen[id(value)] = value  # which stays as it is where it holds itself
            made = value if depth == _DEEPEST or _is_flat(value) else self._look_into(value, depth)
        else:
            self.seen[id(value)] = Unreadable(kind.__name__)
            made = self._taken_in(value, kind, depth)
        self.seen[id(value)] = made
        return made

    def _look_into(self, value: Any, depth: int) -> Any:
        """A list, tuple or dict as it is, or a copy of it if something that it holds had to be read."""
        if type(value) is dict:
            pairs = [(self._key(key, depth), self.read(entry, depth + 1)) for key, entry in value.items()]
            same = all(k is old and v is value[old] for (k, v), old in zip(pairs, value, strict=True))
            return value if same else dict(pairs)
        entries = [self.read(entry, depth + 1) for entry in value]
        same = all(new is old for new, old in zip(entries, value, strict=True))
        return value if same else type(value)(entries)

    def _key(self, value: Any, depth: int) -> Any:
        made = self.read(value, depth + 1)
        return Unreadable(type(value).__name__) if type(made) in {list, dict, set} else made  # which are no keys

    def _taken_in(self, value: Any, kind: type, depth: int) -> Any:
        """What something of somebody's own class holds, as the plain thing that it says it is."""
        try:
            value.__class__  # noqa: B018  (which everybody asks for)
            for plain, read in _PLAIN.items():
                if issubclass(kind, plain):
                    return read(value)
            if issubclass(kind, Mapping):
                pairs = {key: value[key] for key in self._entries(value)}
                return self.read(pairs, depth)
            if issubclass(kind, set | frozenset):
                return set(self._entries(value))
            if issubclass(kind, tuple | list | Sequence) or _is_like_a_list(kind):
                entries = self._entries(value)
                return self.read(tuple(entries) if issubclass(kind, tuple) else entries, depth)
        except Exception:  # whatever somebody's own class does
            return Unreadable(kind.__name__)
        return value

    def _entries(self, value: Any) -> list[Any]:
        entries = list(islice(iter(value), self.left + 1))
        self.left -= len(entries)
        if self.left < 0:
            raise OverflowError("more entries than are read")
        return entries


_PLAIN: dict[type, Any] = {
    str: str.__str__, int: int.__int__, float: float.__float__,
    np.ndarray: lambda array: np.ndarray.view(array, np.ndarray),
}  # fmt: skip
"""How a plain value is had of a class made of its own, past whatever that class does."""


def _is_flat(value: Any) -> bool:
    """Whether a list, tuple or dict holds nothing but known things that hold nothing themselves: as most do."""
    kinds = KNOWN_KINDS.issuperset
    return kinds(map(type, value)) and (type(value) is not dict or kinds(map(type, value.values())))


def _is_like_a_list(kind: type) -> bool:
    """Whether NumPy would take it for a list: it has a length and entries, and is no array."""
    return all(hasattr(kind, name) for name in ("__len__", "__getitem__")) and not hasattr(kind, "__array__")


def holds_foreign(value: Any, depth: int = 0) -> bool:
    """Whether something is of a class that nobody here knows, or holds something that is."""
    if not is_known(type(value)):
        return True
    if type(value) not in _HOLDERS or depth == _DEEPEST or _is_flat(value):
        return False
    entries = [*value, *value.values()] if type(value) is dict else value
    return any(holds_foreign(entry, depth + 1) for entry in islice(entries, 1000))
