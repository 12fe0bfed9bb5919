"""Columns of exports: name, type, meaning, and how the value is computed from a row."""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

import msgspec

from opportune.service.state import clock
from opportune.service.state.projection import known_of


class Column(NamedTuple):
    """A column of an export; `value` computes it from a row."""

    name: str
    type: str
    meaning: str
    value: Callable[[dict[str, Any]], Any]


def plain(name: str) -> Callable[[dict[str, Any]], Any]:
    """The value in the row, unchanged."""
    return lambda row: row[name]


def utc(name: str) -> Callable[[dict[str, Any]], Any]:
    """A time in UTC; None if there is none."""
    return lambda row: None if row[name] is None else clock.iso(row[name])


def local(name: str) -> Callable[[dict[str, Any]], Any]:
    """A time in the row's time zone."""
    return lambda row: clock.local(row[name], row["timezone"]).strftime("%Y-%m-%dT%H:%M:%S")


def answered(row: dict[str, Any]) -> int | None:
    """Whether a nudge was answered in time; None while it waits, or without a nudge."""
    if not row["nudge"]:
        return None
    return int(row["outcome"] == "answered") if row["status"] == "settled" else None


def opened(row: dict[str, Any]) -> bool | None:
    """Whether the app was opened unasked; None while a nudge waits."""
    return row["outcome"] == "opened" if row["status"] == "settled" else None


def revealed(row: dict[str, Any]) -> bool | None:
    """Whether the recommender acted on the whole context; None while a nudge waits."""
    return bool(row["revealed"]) if row["status"] == "settled" else None


def reported_first(row: dict[str, Any]) -> str | None:
    """The values reported before a correction, as JSON; None without a correction."""
    found: str | None = row["reported_first"] if known_of(row) is not None else None
    return found


def first_learned(row: dict[str, Any]) -> bool | None:
    """Whether the policy has learned from the values reported first; None without a correction."""
    if row["reported_corrected"] is None:
        return None
    return bool(msgspec.json.decode(row["reported"]) != msgspec.json.decode(row["reported_corrected"]))


def free_name(name: str, taken: set[str], variables: Iterable[str]) -> str:
    """The name of a variable's column: the variable's own, unless another column has it."""
    if name not in taken:
        return name
    longer = f"variable_{name}"
    while longer in {*taken, *variables}:
        longer += "_"
    return longer
