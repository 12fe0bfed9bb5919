"""Reading the ROBAS 2 and ROBAS 3 tooth-brushing files: every row is checked before anything is used.

The files are not part of this package. A file that breaks a rule is rejected with the line and the reason.
"""

import csv
import hashlib
import io
import math
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from opportune import checks
from opportune.errors import DataError
from opportune.files import decoded, read_whole

_DAY = "Day in Study"
_TOD = "Time of Day"
_WEEKEND = "Day Type"
_PROP = "Proportion Brushed In Past 7 Days"
MOST_SECONDS = 86_400


@dataclass(frozen=True, kw_only=True, eq=False)
class BrushingData:
    """The brushing sessions of one study: one array entry per session, each user's sessions together, in order."""

    study: str
    """`robas2` or `robas3`."""
    source: str
    """Name of the file, without its folder."""
    sha256: str
    """Checksum of the file."""
    user: NDArray[np.int64]
    """Users numbered 0, 1, ... in the order in which the file first mentions them."""
    t: NDArray[np.int64]
    """The user's session, from 0."""
    day: NDArray[np.int64]
    """The user's day in the study, from 1."""
    tod: NDArray[np.int64]
    """0 in the morning, 1 in the evening."""
    weekend: NDArray[np.int64]
    """1 on a weekend day."""
    prop: NDArray[np.float64]
    """Share of the last 14 sessions above zero, from the file."""
    y: NDArray[np.int64]
    """The outcome in seconds, without a cap."""

    @property
    def users(self) -> int:
        """The number of users."""
        return int(self.user[-1]) + 1


@dataclass(frozen=True)
class _Layout:
    """The columns of a study's file: the user's, and the outcome as `plus` minus `minus`."""

    study: str
    user: str
    plus: str
    minus: str | None

    @property
    def columns(self) -> tuple[str, ...]:
        outcome = (self.plus,) if self.minus is None else (self.plus, self.minus)
        return (self.user, _DAY, _TOD, *outcome, _WEEKEND, _PROP)


_ROBAS2 = _Layout("robas2", "User", "Brush Time", None)
_ROBAS3 = _Layout("robas3", "ROBAS ID", "Brushing duration", "Pressure duration")


@dataclass(frozen=True)
class _Session:
    """One checked row of the file."""

    line: int
    user: str
    day: int
    tod: int
    weekend: int
    prop: float
    y: int


def load_robas2(path: str | Path) -> BrushingData:
    """The ROBAS 2 file: the outcome is the brushing time in seconds."""
    return _load(checks.path("path", path), _ROBAS2)


def load_robas3(path: str | Path) -> BrushingData:
    """The ROBAS 3 file: the outcome is the brushing quality, brushing minus pressure seconds."""
    return _load(checks.path("path", path), _ROBAS3)


def _load(path: Path, layout: _Layout) -> BrushingData:
    """Read, check and number a file."""
    content = read_whole(path, "a CSV file")
    text = decoded(content, path, "a CSV file")
    by_user: dict[str, list[_Session]] = {}
    for session in _sessions(path, text, layout):
        earlier = by_user.setdefault(session.user, [])
        _check_order(path, session, earlier)
        earlier.append(session)
    for sessions in by_user.values():
        if len(sessions) % 2:
            raise _refusal(
                path, sessions[-1].line, f"gap in the sessions: day {sessions[-1].day} has no evening session"
            )
    numbered = [(number, s) for number, sessions in enumerate(by_user.values()) for s in sessions]
    day = _whole([s.day for _, s in numbered])
    tod = _whole([s.tod for _, s in numbered])
    return BrushingData(
        study=layout.study,
        source=path.name,
        sha256=hashlib.sha256(content).hexdigest(),
        user=_whole([number for number, _ in numbered]),
        t=2 * (day - 1) + tod,
        day=day,
        tod=tod,
        weekend=_whole([s.weekend for _, s in numbered]),
        prop=np.array([s.prop for _, s in numbered], dtype=np.float64),
        y=_whole([s.y for _, s in numbered]),
    )


def _whole(values: list[int]) -> NDArray[np.int64]:
    return np.array(values, dtype=np.int64)


def _refusal(path: Path, line: int, reason: str) -> DataError:
    return DataError(f"{path}, line {line}: {reason}")


def _sessions(path: Path, text: str, layout: _Layout) -> Iterator[_Session]:
    """The file's rows, each checked by itself."""
    reader = csv.reader(io.StringIO(text, newline=""), strict=True)
    try:
        header = next(reader, None)
        if not header:
            raise _refusal(path, 1, "the file is empty; expected a header and one row per session")
        for column in layout.columns:
            if header.count(column) != 1:
                fault = "missing" if column not in header else "given more than once"
                raise _refusal(path, 1, f"column {column!r} is {fault}; found {header}")
        rows = 0
        for fields in reader:
            if not fields:
                continue
            if len(fields) != len(header):
                raise _refusal(path, reader.line_num, f"{len(fields)} fields; expected {len(header)} as in the header")
            rows += 1
            yield _session(path, reader.line_num, dict(zip(header, fields, strict=True)), layout)
        if rows == 0:
            raise _refusal(path, 1, "the file has a header but no rows; expected one row per session")
    except csv.Error as problem:
        raise _refusal(path, reader.line_num, f"not readable as CSV ({problem})") from problem


def _session(path: Path, line: int, row: dict[str, str], layout: _Layout) -> _Session:
    """One row, its numbers checked."""

    def number(column: str, low: int, high: float = math.inf, *, whole: bool = True) -> float:
        """The column's value, which must lie between low and high."""
        kind = "a whole number" if whole else "a number"
        span = f"at least {low}" if math.isinf(high) else f"from {low} to {high}"
        try:
            value = float(row[column])
        except ValueError:
            value = math.nan
        if not math.isfinite(value) or not low <= value <= high or (whole and value != math.floor(value)):
            raise _refusal(path, line, f"{column} is {row[column]!r}; expected {kind} {span}")
        return value

    user = row[layout.user].strip()
    if not user:
        raise _refusal(path, line, f"{layout.user} is empty; expected the user's name")
    y = number(layout.plus, 0, MOST_SECONDS)
    if layout.minus is not None:
        y -= number(layout.minus, 0, MOST_SECONDS)
        if y < 0:
            raise _refusal(
                path,
                line,
                f"negative outcome: {layout.plus} {row[layout.plus]} less {layout.minus} "
                f"{row[layout.minus]} is {y:g}; expected at least 0",
            )
    return _Session(
        line=line,
        user=user,
        day=int(number(_DAY, 1)),
        tod=int(number(_TOD, 0, 1)),
        weekend=int(number(_WEEKEND, 0, 1)),
        prop=number(_PROP, 0, 1, whole=False),
        y=int(y),
    )


def _check_order(path: Path, session: _Session, earlier: list[_Session]) -> None:
    """Reject a session that is not the next one: a user's sessions are morning, evening of day 1, 2, ..."""
    expected = len(earlier)
    found = 2 * (session.day - 1) + session.tod
    if found == expected:
        return
    at = f"day {session.day}, {_TOD} {session.tod}"
    if found < expected:
        raise _refusal(path, session.line, f"duplicate row: {at} of this user is already in line {earlier[found].line}")
    wanted = f"day {expected // 2 + 1}, {_TOD} {expected % 2}"
    fault = "gap in the sessions" if session.tod == expected % 2 else "morning and evening do not alternate"
    raise _refusal(path, session.line, f"{fault}: found {at}; expected {wanted} next for this user")
