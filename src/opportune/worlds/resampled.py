"""`Resampled`: rows of the user's own data, from which a simulated world draws variables jointly."""

import csv
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from opportune import checks
from opportune.errors import InputError

MOST_ROWS = 1_000_000
MOST_COLUMNS = 1_000


@dataclass(frozen=True, eq=False)
class Resampled:
    """Rows of a table, drawn jointly, each equally likely.

    Args:
        columns: {variable: its values, one per row}: numbers, or levels for variables with levels.

    """

    columns: Mapping[str, Sequence[Any]]

    def __post_init__(self) -> None:
        given = self.columns
        if not isinstance(given, Mapping) or not given:
            raise InputError(f"columns of Resampled is {type(given).__name__}; expected {{variable: values}}")
        columns = {
            checks.text("name of a column of Resampled", name): checks.listed(
                f"column {checks.brief(name)} of Resampled", values, "its values, one per row", most=MOST_ROWS
            )
            for name, values in given.items()
        }
        sizes = {name: len(values) for name, values in columns.items()}
        if len(set(sizes.values())) > 1:
            raise InputError(f"columns of Resampled have {sizes} rows; expected the same number in each")
        if not 1 <= next(iter(sizes.values())) <= MOST_ROWS:
            raise InputError(f"columns of Resampled have {next(iter(sizes.values()))} rows; expected 1 to {MOST_ROWS}")
        checks.keep(self, columns={name: tuple(_plain(name, v) for v in column) for name, column in columns.items()})

    @classmethod
    def from_csv(cls, path: str | Path, columns: Sequence[str]) -> "Resampled":
        """The rows of a CSV file with a header; `columns` names those that are variables.

        Values that look like numbers become numbers. A row with an empty or missing value is rejected with its line.
        """
        given = checks.listed("columns", columns, "a list of column names", most=MOST_COLUMNS)
        if not given:
            raise InputError(f"columns is {checks.brief(columns)}; expected a list of column names")
        return cls(read_columns(path, given))


def read_columns(path: str | Path, columns: Sequence[Any]) -> dict[str, list[Any]]:
    """Some columns of a CSV file with a header: numbers if a value looks like one, else text; none may be empty."""
    source = checks.path("path", path)
    wanted = [checks.text("a name in columns", name) for name in columns]
    try:
        with source.open(newline="", encoding="utf-8-sig") as file:
            found = _read_rows(file, str(source), wanted)
    except OSError as error:
        raise InputError(f"{source} cannot be read: {error.strerror}; expected a CSV file in UTF-8") from None
    except (UnicodeDecodeError, csv.Error) as error:
        raise InputError(f"{source} cannot be read: {error}; expected a CSV file in UTF-8") from None
    return {name: [row[i] for row in found] for i, name in enumerate(wanted)}


def _plain(column: str, value: Any) -> Any:
    """A value of a row: text, or a number."""
    plain = value.item() if isinstance(value, np.generic) else value
    if isinstance(plain, str | bool):
        return plain
    return plain if isinstance(plain, int) else checks.real(f"a value of column {column!r}", plain)


def _read_rows(lines: Iterable[str], path: str, wanted: list[str]) -> list[list[Any]]:
    """The wanted columns of every row of a CSV file."""
    reader = csv.reader(lines)
    header = [name.strip() for name in next(reader, [])]
    for name in wanted:
        checks.choice(f"column of {path}", name, header)
    places = [header.index(name) for name in wanted]
    rows = []
    for row in reader:
        if not row:
            continue  # an empty line
        for name, place in zip(wanted, places, strict=True):
            if place >= len(row) or not row[place].strip():
                raise InputError(f"{path} has no {name} in line {reader.line_num}; expected a value")
        rows.append([_value(row[place].strip(), path, reader.line_num) for place in places])
        if len(rows) > MOST_ROWS:
            raise InputError(f"{path} has more than {MOST_ROWS} rows; expected at most that many")
    if not rows:
        raise InputError(f"{path} has no rows; expected at least one below its header")
    return rows


def _value(text: str, path: str, line: int) -> Any:
    """A number if the text looks like one, else the text."""
    try:
        number = float(text)
    except ValueError:
        return text
    if not math.isfinite(number):
        raise InputError(f"{path} has {text} in line {line}; expected a finite number or text")
    return int(number) if number.is_integer() and abs(number) < 2**53 else number
