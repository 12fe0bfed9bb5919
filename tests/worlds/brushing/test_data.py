import hashlib
import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from opportune.errors import DataError, OpportuneError
from opportune.worlds.brushing.data import BrushingData, load_robas2, load_robas3

HEADER2 = ",User,Day in Study,Time of Day,Brush Time,Day Type,Proportion Brushed In Past 7 Days"
HEADER3 = (
    ",ROBAS ID,Day in Study,Time of Day,Brushing duration,Pressure duration,Day Type,Proportion Brushed In Past 7 Days"
)
# Two users of two days; line 1 is the header, so that the first row is line 2.
ROWS2 = [
    "0,kim,1,0,23.0,0,0.0",
    "1,kim,1,1,0.0,0,0.0",
    "2,kim,2,0,136.0,1,0.5",
    "3,kim,2,1,150.0,1,0.5",
    "4,lou,1,0,0.0,0,0.0",
    "5,lou,1,1,61.0,0,0.0",
]
ROWS3 = [
    "0,kim,1.0,0.0,220,20,0.0,0.0",
    "1,kim,1.0,1.0,0,0,0.0,0.0",
    "2,kim,2.0,0.0,198,198,1.0,0.0",
    "3,kim,2.0,1.0,5,1,1.0,0.0",
]


def data_file(name: str) -> Path:
    """The raw data file, which is not part of this repository."""
    folder = Path(os.environ.get("OPPORTUNE_DATA", Path(__file__).parents[4] / "shared" / "data"))
    if not (folder / name).is_file():
        pytest.skip(f"{name} is not here; set OPPORTUNE_DATA to its folder")
    return folder / name


@pytest.fixture
def write(tmp_path: Path) -> Callable[..., Path]:
    """Write a header and rows to a file."""

    def write_rows(header: str, rows: list[str]) -> Path:
        path = tmp_path / "study.csv"
        path.write_text("\n".join([header, *rows]) + "\n", encoding="utf-8")
        return path

    return write_rows


def test_rows_become_arrays(write: Callable[..., Path]) -> None:
    """A ROBAS 2 file becomes one array entry per session, its users numbered in order of appearance."""
    path = write(HEADER2, ROWS2)
    data = load_robas2(path)
    assert (data.study, data.source, data.users) == ("robas2", "study.csv", 2)
    assert data.sha256 == hashlib.sha256(path.read_bytes()).hexdigest()
    assert data.user.tolist() == [0, 0, 0, 0, 1, 1]
    assert data.t.tolist() == [0, 1, 2, 3, 0, 1]
    assert data.day.tolist() == [1, 1, 2, 2, 1, 1]
    assert data.tod.tolist() == [0, 1, 0, 1, 0, 1]
    assert data.weekend.tolist() == [0, 0, 1, 1, 0, 0]
    assert data.prop.tolist() == [0.0, 0.0, 0.5, 0.5, 0.0, 0.0]
    assert data.y.tolist() == [23, 0, 136, 150, 0, 61]
    assert data.y.dtype == np.int64


def test_quality_is_brushing_less_pressure(write: Callable[..., Path]) -> None:
    """A ROBAS 3 outcome is the brushing duration less the pressure duration."""
    assert load_robas3(write(HEADER3, ROWS3)).y.tolist() == [200, 0, 0, 4]


def test_mingled_users_are_put_together(write: Callable[..., Path]) -> None:
    """Rows of several users may alternate in the file; each user's sessions come out together, in order."""
    data = load_robas2(write(HEADER2, [ROWS2[i] for i in (0, 4, 1, 2, 5, 3)]))
    assert data.user.tolist() == [0, 0, 0, 0, 1, 1]
    assert data.y.tolist() == [23, 0, 136, 150, 0, 61]


@pytest.mark.parametrize(
    ("row", "replacement", "line", "reason"),
    [
        (0, "0,kim,1,0,-3,0,0.0", 2, "Brush Time is '-3'; expected a whole number from 0 to 86400"),
        (0, "0,kim,1,0,1e300,2,0.0", 2, "Brush Time is '1e300'; expected a whole number from 0 to 86400"),
        (3, "3,kim,2,1,150.5,1,0.5", 5, "Brush Time is '150.5'; expected a whole number"),
        (2, "2,kim,2,0,nan,1,0.5", 4, "Brush Time is 'nan'"),
        (2, "2,kim,2,0,,1,0.5", 4, "Brush Time is ''"),
        (2, "2,kim,2,0,inf,1,0.5", 4, "Brush Time is 'inf'"),
        (2, "2,kim,2,0,long,1,0.5", 4, "Brush Time is 'long'"),
        (2, "2,kim,2,0,136,1,nan", 4, "Proportion Brushed In Past 7 Days is 'nan'; expected a number from 0"),
        (2, "2,kim,2,0,136,1,1.2", 4, "Proportion Brushed In Past 7 Days is '1.2'"),
        (2, "2,kim,2,0,136,2,0.5", 4, "Day Type is '2'; expected a whole number from 0 to 1"),
        (2, "2,kim,2,3,136,1,0.5", 4, "Time of Day is '3'"),
        (0, "0,kim,0,0,23,0,0.0", 2, "Day in Study is '0'; expected a whole number at least 1"),
        (0, "0, ,1,0,23,0,0.0", 2, "User is empty"),
        (1, "1,kim,1,1", 3, "4 fields; expected 7"),
        (
            1,
            "1,kim,1,0,0.0,0,0.0",
            3,
            "duplicate row: day 1, Time of Day 0 of this user is already in line 2",
        ),
        (2, "2,kim,3,0,136,1,0.5", 4, "gap in the sessions: found day 3, Time of Day 0; expected day 2"),
        (0, "0,kim,1,1,23,0,0.0", 2, "morning and evening do not alternate: found day 1, Time of Day 1"),
        (4, "4,lou,1,1,0,0,0.0", 6, "morning and evening do not alternate"),
        (3, "3,sam,1,0,150,1,0.5", 4, "gap in the sessions: day 2 has no evening session"),
        (1, '1,"kim,1,1,0.0,0,0.0', 7, "not readable as CSV"),
    ],
)
def test_bad_row_is_refused(write: Callable[..., Path], row: int, replacement: str, line: int, reason: str) -> None:
    """A row that breaks a rule is refused with its line in the file and the reason."""
    rows = list(ROWS2)
    rows[row] = replacement
    with pytest.raises(DataError) as refusal:
        load_robas2(write(HEADER2, rows))
    assert f"study.csv, line {line}: {reason}" in str(refusal.value)


@pytest.mark.parametrize(
    ("row", "reason"),
    [
        ("2,kim,2.0,0.0,10,11,1.0,0.0", "line 4: negative outcome: Brushing duration 10 less Pressure"),
        ("2,kim,2.0,0.0,10.5,1,1.0,0.0", "line 4: Brushing duration is '10.5'"),
        ("2,kim,2.0,0.0,10,0.5,1.0,0.0", "line 4: Pressure duration is '0.5'"),
        ("2,kim,2.0,0.0,10,-1,1.0,0.0", "line 4: Pressure duration is '-1'"),
    ],
)
def test_bad_quality_is_refused(write: Callable[..., Path], row: str, reason: str) -> None:
    """A negative or fractional ROBAS 3 outcome is refused, whichever of its two columns is to blame."""
    with pytest.raises(DataError, match="line 4") as refusal:
        load_robas3(write(HEADER3, [*ROWS3[:2], row, ROWS3[3]]))
    assert reason in str(refusal.value)


def test_whole_duplicate_row_is_refused(write: Callable[..., Path]) -> None:
    """A row given twice is refused at the second, which names the first."""
    with pytest.raises(DataError, match=r"line 8: duplicate row.*already in line 3"):
        load_robas2(write(HEADER2, [*ROWS2, ROWS2[1]]))


@pytest.mark.parametrize("column", ["User", "Day in Study", "Time of Day", "Brush Time", "Day Type"])
def test_missing_column_is_refused(write: Callable[..., Path], column: str) -> None:
    """A file without one of the columns is refused, and the column is named."""
    with pytest.raises(DataError, match=f"line 1: column '{column}' is missing"):
        load_robas2(write(HEADER2.replace(column, "Something"), ROWS2))


def test_repeated_column_is_refused(write: Callable[..., Path]) -> None:
    """A column given twice is refused: nobody could say which one counts."""
    with pytest.raises(DataError, match="line 1: column 'User' is given more than once"):
        load_robas2(write(HEADER2.replace(",User", "User,User"), ROWS2))


def test_other_study_is_refused(write: Callable[..., Path]) -> None:
    """The ROBAS 2 file is not taken for the ROBAS 3 file."""
    with pytest.raises(DataError, match="column 'ROBAS ID' is missing"):
        load_robas3(write(HEADER2, ROWS2))


def test_empty_file_is_refused(tmp_path: Path, write: Callable[..., Path]) -> None:
    """A file with nothing in it, or with a header alone, is refused."""
    (tmp_path / "empty.csv").write_bytes(b"")
    with pytest.raises(DataError, match="line 1: the file is empty"):
        load_robas2(tmp_path / "empty.csv")
    with pytest.raises(DataError, match="line 1: the file has a header but no rows"):
        load_robas2(write(HEADER2, []))


def test_unreadable_file_is_refused(tmp_path: Path) -> None:
    """A file that is absent or no text is refused with the package's own error."""
    with pytest.raises(OpportuneError, match=r"none\.csv cannot be read: No such file"):
        load_robas2(tmp_path / "none.csv")
    (tmp_path / "binary.csv").write_bytes(b"a\nb\xff\n")
    with pytest.raises(OpportuneError, match=r"binary\.csv, line 2: not UTF-8"):
        load_robas2(tmp_path / "binary.csv")


@pytest.mark.parametrize(
    ("load", "name", "users", "rows", "mean", "zeros", "largest"),
    [
        (load_robas2, "robas_2_data.csv", 32, 1792, 85.874, 675, 345),
        (load_robas3, "robas_3_data.csv", 13, 2188, 76.777, 1056, 1419),
    ],
)
def test_real_file(
    load: Callable[[Path], BrushingData],
    name: str,
    users: int,
    rows: int,
    mean: float,
    zeros: int,
    largest: int,
) -> None:
    """The real files read as described: so many users and rows, mean outcome, zeros and largest outcome."""
    data = load(data_file(name))
    assert (data.users, data.y.size) == (users, rows)
    assert data.y.mean() == pytest.approx(mean, abs=5e-4)
    assert ((data.y == 0).sum(), data.y.max()) == (zeros, largest)
    if data.study == "robas3":
        totals = data.y[0::2] + data.y[1::2]
        assert totals.mean() == pytest.approx(153.553, abs=5e-4)
        assert totals.std() == pytest.approx(162.934, abs=5e-4)
