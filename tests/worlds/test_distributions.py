"""Distributions of a simulated world's variables: quantiles, means, truncation, the user's own rows, refusals."""

import math
import re
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy import stats

from opportune.errors import InputError
from opportune.problems.variables import DayOfStudy, Number, TimeOfDay, Variable
from opportune.worlds import distributions
from opportune.worlds.distributions import (
    Choice,
    LogNormal,
    Normal,
    Resampled,
    Truncated,
    Uniform,
    numbers_of,
    pack,
    quantile,
)

Floats = NDArray[np.float64]
LAST = 1.0 - 2.0**-53  # the largest uniform draw


def quantiles(distribution: Any, u: Any, bounds: Number | None = None) -> Floats:
    """Quantiles by the compiled function."""
    numbers = numbers_of(distribution, bounds)
    parameters = np.array([7.0, *numbers.parameters])  # begins at place 1
    return np.array([quantile(numbers.kind, parameters, 1, float(x)) for x in u])


U = np.array([0.0, 1e-9, 1e-3, 0.1, 0.25, 0.5, 0.75, 0.9, 0.999, LAST])
CASES: dict[str, tuple[Any, Any]] = {
    "normal": (Normal(7, 1.5), stats.norm(7, 1.5)),
    "lognormal": (LogNormal(4000, 0.6), stats.lognorm(0.6, scale=4000)),
    "uniform": (Uniform(-2, 5), stats.uniform(-2, 7)),
    "middle": (Truncated(Normal(7, 1.5), 6, 10), stats.truncnorm(-1 / 1.5, 2, 7, 1.5)),
    "upper": (Truncated(Normal(0, 1), 4, 4.5), stats.truncnorm(4, 4.5)),
    "lower": (Truncated(Normal(0, 1), -4.5, -4), stats.truncnorm(-4.5, -4)),
    "twice": (Truncated(Truncated(Normal(0, 1), -1, 3), -2, 2), stats.truncnorm(-1, 2)),
    "part": (Truncated(Uniform(0, 10), 5, 20), stats.uniform(5, 5)),
}


@pytest.mark.parametrize("case", CASES)
def test_quantiles(case: str) -> None:
    """Quantiles are those of the distribution, in the tails too."""
    ours, theirs = CASES[case]
    inner = U[1:-1]
    np.testing.assert_allclose(quantiles(ours, inner), theirs.ppf(inner), rtol=1e-6)
    np.testing.assert_allclose(quantiles(ours, inner[1:-1]), theirs.ppf(inner[1:-1]), rtol=1e-10, atol=1e-12)
    ends = quantiles(ours, U[[0, -1]])
    assert np.isfinite(ends).all()
    assert (theirs.support()[0] <= ends).all()
    assert (ends <= theirs.support()[1]).all()


@pytest.mark.parametrize("case", CASES)
def test_means(case: str) -> None:
    """Means are exact, truncated or not."""
    ours, theirs = CASES[case]
    assert numbers_of(ours).mean == pytest.approx(theirs.mean(), rel=1e-7)


def test_mean_of_a_truncated_lognormal() -> None:
    """The mean between bounds agrees with a quadrature of the quantiles."""
    bounds = Number(1000, 20_000)
    u = (np.arange(20_000) + 0.5) / 20_000
    drawn = quantiles(LogNormal(4000, 0.6), u, bounds)
    assert numbers_of(LogNormal(4000, 0.6), bounds).mean == pytest.approx(drawn.mean(), rel=1e-6)
    below, above = stats.lognorm(0.6, scale=4000).cdf([1000, 20_000])
    np.testing.assert_allclose(drawn, stats.lognorm(0.6, scale=4000).ppf(below + u * (above - below)), rtol=1e-9)


def test_lognormal_from_mean() -> None:
    """A lognormal may be given by its mean and standard deviation."""
    made = LogNormal.from_mean(5000, 3000)
    law = stats.lognorm(made.sigma, scale=made.median)
    assert (law.mean(), law.std()) == (pytest.approx(5000), pytest.approx(3000))
    assert numbers_of(made).mean == pytest.approx(5000)


@settings(deadline=None)  # the first call compiles
@given(
    mean=st.floats(-50, 50), sd=st.floats(0.1, 50), low=st.floats(-50, 49), width=st.floats(0.1, 50),
    u=st.floats(0, LAST),
)  # fmt: skip
def test_draws_stay_between_bounds(mean: float, sd: float, low: float, width: float, u: float) -> None:
    """Whatever is drawn lies between a variable's bounds, and so does the mean."""
    bounds = Number(low, low + width)
    try:
        numbers = numbers_of(Normal(mean, sd), bounds)
    except InputError as error:
        assert "hardly any mass" in str(error)  # noqa: PT017  (too far away is refused)
        return
    value = quantile(numbers.kind, np.array(numbers.parameters), 0, u)
    assert bounds.low <= value <= bounds.high
    assert bounds.low <= numbers.mean <= bounds.high


def test_choice_of_numbers() -> None:
    """Numbers come in the order given, with their probabilities; those outside the bounds never."""
    choice = Choice({0: 0.25, 10: 0.25, 30: 0.5})
    np.testing.assert_array_equal(quantiles(choice, [0, 0.2, 0.25, 0.49, 0.5, LAST]), [0, 0, 10, 10, 30, 30])
    assert numbers_of(choice).mean == 17.5
    inside = numbers_of(choice, Number(0, 20))
    np.testing.assert_array_equal(quantiles(choice, [0, 0.49, 0.5, LAST], Number(0, 20)), [0, 0, 10, 10])
    assert inside.mean == 5.0
    assert hash(choice) == hash(Choice({0: 0.25, 10: 0.25, 30: 0.5}))


VARIABLES: dict[str, Variable] = {
    "tod": TimeOfDay(("am", "pm")),
    "steps": Number(0, 10_000),
    "mood": ("low", "fair", "high"),
    "sleep": Number(0, 14),
    "stress": (1, 2, 3),
    "day": DayOfStudy(7),
}
DRAWN: dict[str, Any] = {
    "steps": LogNormal(4000, 0.6),
    "mood": Choice({"high": 0.5, "low": 0.5}),
    "sleep": Normal(7, 1),
    "stress": Choice({1: 0.2, 3: 0.8}),
}


def at(packed: Any, v: int, u: float) -> float:
    return float(quantile(packed.kinds[v], packed.parameters, packed.places[v], u))


def test_packing() -> None:
    """Each drawn variable has its own uniform; levels are drawn by number; scheduled variables are not drawn."""
    packed = pack(VARIABLES, DRAWN)
    assert packed.kinds.tolist() == [-1, distributions.LOG_NORMAL, distributions.CHOICE, distributions.NORMAL,
                                     distributions.CHOICE, -1]  # fmt: skip
    assert packed.uniforms[1:5].tolist() == [0, 1, 2, 3]
    assert [at(packed, 2, u) for u in (0.1, 0.9)] == [2, 0]
    assert [at(packed, 4, u) for u in (0.1, 0.9)] == [0, 2]
    assert at(packed, 1, LAST) <= 10_000
    assert packed.means[3] == pytest.approx(7.0, abs=1e-6)
    assert np.isnan(packed.means[[0, 5]]).all()


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


def test_rows_of_a_file_come_jointly(tmp_path: Path) -> None:
    """Variables of one file share a uniform, so that rows stay together; rows outside the bounds never come."""
    file = write(tmp_path / "people.csv", "id,sleep,mood, stress\n1,6.5,low,1\n\n2,8,high,3\n3,99,fair,2\n4,7,fair,2\n")
    table = Resampled.from_csv(file, ["sleep", "mood", "stress"])
    packed = pack(VARIABLES, {"steps": Uniform(0, 100)}, table=table)
    assert packed.uniforms[[1, 2, 3, 4]].tolist() == [1, 0, 0, 0]
    rows = [tuple(at(packed, v, u) for v in (3, 2, 4)) for u in (0.0, 0.34, 0.67, LAST)]
    assert rows == [(6.5, 0, 0), (8, 2, 2), (7, 1, 1), (7, 1, 1)]
    assert packed.means[3] == pytest.approx(21.5 / 3)


def test_levels_written_otherwise_in_a_file(tmp_path: Path) -> None:
    """A level that is text may be written as a number in the file."""
    table = Resampled.from_csv(write(tmp_path / "a.csv", "grade\n1\n2\n"), ["grade"])
    packed = pack({"grade": ("2", "1")}, {}, table=table)
    assert [at(packed, 0, u) for u in (0.0, 0.5)] == [1, 0]


@pytest.mark.parametrize(
    ("text", "columns", "message"),
    [
        ("a,b\n1,2\n3,\n", ["a", "b"], "FILE has no b in line 3; expected a value"),
        ("a,b\n1,2\n3\n", ["b"], "FILE has no b in line 3; expected a value"),
        ("a,b\n1,nan\n", ["b"], "FILE has nan in line 2; expected a finite number or text"),
        ("a,b\n1,inf\n", ["b"], "FILE has inf in line 2; expected a finite number or text"),
        ("a,b\n", ["a"], "FILE has no rows; expected at least one below its header"),
        ("sleep,b\n1,2\n", ["slep"], "column of FILE is 'slep'; expected one of 'sleep', 'b'; did you mean 'sleep'?"),
        ("", ["a"], "column of FILE is 'a'; expected one of "),
        ("a\n1\n", [], "columns is []; expected a list of column names"),
        ("a\n1\n", "a", "columns is 'a'; expected a list of column names"),
    ],
)
def test_wrong_files(tmp_path: Path, text: str, columns: Any, message: str) -> None:
    """A file with a gap is refused with its line, a column that is not there with those that are."""
    path = write(tmp_path / "people.csv", text)
    with pytest.raises(InputError, match="^" + re.escape(message.replace("FILE", str(path))) + "$"):
        Resampled.from_csv(path, columns)


def test_files_that_cannot_be_read(tmp_path: Path) -> None:
    """A missing file and one that is no text are refused by name."""
    with pytest.raises(InputError, match=r"nothing\.csv cannot be read: .*; expected a CSV file in UTF-8$"):
        Resampled.from_csv(tmp_path / "nothing.csv", ["a"])
    (tmp_path / "binary.csv").write_bytes(b"a\n\xff\xfe\n")
    with pytest.raises(InputError, match=r"binary\.csv cannot be read: .*; expected a CSV file in UTF-8$"):
        Resampled.from_csv(tmp_path / "binary.csv", ["a"])


def test_files_that_are_too_long(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file has at most a million rows."""
    monkeypatch.setattr("opportune.worlds.resampled.MOST_ROWS", 2)
    path = write(tmp_path / "long.csv", "a\n1\n2\n3\n")
    with pytest.raises(InputError, match=r"long\.csv has more than 2 rows; expected at most that many$"):
        Resampled.from_csv(path, ["a"])


ANY: Any = distributions  # the wrong types are given on purpose
TAKEN = {"sleep": Number(0, 14)}


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: ANY.Normal(0, 0), "sd of Normal is 0; expected a finite number > 0"),
        (lambda: ANY.Normal(math.nan, 1), "mean of Normal is nan; expected a finite number"),
        (lambda: ANY.LogNormal(0, 1), "median of LogNormal is 0; expected a finite number > 0"),
        (lambda: ANY.LogNormal(1, -1), "sigma of LogNormal is -1; expected a finite number > 0"),
        (lambda: ANY.LogNormal.from_mean(-1, 1), "mean of LogNormal is -1; expected a finite number > 0"),
        (lambda: ANY.LogNormal.from_mean(1, "2"), "sd of LogNormal is '2'; expected a finite number > 0"),
        (lambda: ANY.Uniform(1, 1), "Uniform is from 1 to 1; expected low < high"),
        (lambda: ANY.Uniform(0, math.inf), "high of Uniform is inf; expected a finite number"),
        (lambda: ANY.Truncated(3, 0, 1), "base of Truncated is 3; expected Normal, LogNormal or Uniform"),
        (lambda: ANY.Truncated(ANY.Normal(0, 1), 1, 0), "Truncated is from 1 to 0; expected low < high"),
        (
            lambda: ANY.Truncated(ANY.Normal(0, 1), 10, 12),
            "Normal(mean=0, sd=1) has hardly any mass from 10 to 12; expected at least 1e-06",
        ),
        (
            lambda: ANY.Truncated(ANY.LogNormal(1, 1), -2, -1),
            "LogNormal(median=1, sigma=1) has hardly any mass from -2 to -1; expected at least 1e-06",
        ),
        (
            lambda: ANY.Truncated(ANY.LogNormal(1, 0.1), 10, 20),
            "LogNormal(median=1, sigma=0.1) has hardly any mass from 10 to 20; expected at least 1e-06",
        ),
        (
            lambda: ANY.Truncated(ANY.Uniform(0, 1), 2, 3),
            "Uniform(low=0, high=1) has hardly any mass from 2 to 1; expected at least 1e-06",
        ),
        (lambda: ANY.Choice({}), "probabilities of Choice is {}; expected {level: probability}"),
        (lambda: ANY.Choice([0.5, 0.5]), "probabilities of Choice is [0.5, 0.5]; expected {level: probability}"),
        (lambda: ANY.Choice({"a": 0.5}), "probabilities of Choice sums to 0.5; expected 1 within 1e-9"),
        (lambda: ANY.Resampled([1]), "columns of Resampled is list; expected {variable: values}"),
        (
            lambda: ANY.Resampled({"a": [1], "b": [1, 2]}),
            "columns of Resampled have {'a': 1, 'b': 2} rows; expected the same number in each",
        ),
        (lambda: ANY.Resampled({"a": []}), "columns of Resampled have 0 rows; expected 1 to 1000000"),
        (lambda: numbers_of(ANY.Choice({"a": 1.0})), "a value of Choice is 'a'; expected a finite number"),
        (
            lambda: numbers_of(ANY.Choice({5: 1.0}), Number(0, 1)),
            "Choice(probabilities={5: 1.0}) has hardly any mass from 0 to 1; expected at least 1e-06",
        ),
        (
            lambda: pack(TAKEN, {}),
            "variable 'sleep' has no distribution; expected one, or a column of the table",
        ),
        (
            lambda: pack(TAKEN, {"slep": Normal(7, 1)}),
            "variable with a distribution is 'slep'; expected one of 'sleep'; did you mean 'sleep'?",
        ),
        (
            lambda: pack(TAKEN, {"sleep": ANY.Normal(70, 1)}),
            "distribution of 'sleep': Normal(mean=70, sd=1) has hardly any mass from 0 to 14; expected at least 1e-06",
        ),
        (
            lambda: pack(TAKEN, {"sleep": ANY.Number(0, 1)}),
            "distribution of 'sleep' is Number(low=0.0, high=1.0); "
            "expected Normal, LogNormal, Uniform, Truncated or Choice",
        ),
        (
            lambda: pack(VARIABLES, {**DRAWN, "mood": Normal(0, 1)}),
            "distribution of 'mood' is Normal(mean=0, sd=1); expected a Choice among its levels",
        ),
        (
            lambda: pack(VARIABLES, {**DRAWN, "mood": Choice({"poor": 1.0})}),
            "distribution of 'mood' has level 'poor'; expected one of ['low', 'fair', 'high']",
        ),
        (
            lambda: pack(TAKEN, {"sleep": Normal(7, 1)}, table=Resampled({"sleep": [7]})),
            "variable 'sleep' has a distribution and is in the table; expected one of them",
        ),
        (
            lambda: pack(TAKEN, {}, table=Resampled({"steps": [7]})),
            "column of the table is 'steps'; expected one of 'sleep'",
        ),
        (
            lambda: pack(TAKEN, {}, table=Resampled({"sleep": ["long"]})),
            "'sleep' in the table is 'long'; expected a finite number",
        ),
        (
            lambda: pack(TAKEN, {}, table=Resampled({"sleep": [20, 30]})),
            "no row of the table lies between the bounds of its variables; expected at least one",
        ),
        (
            lambda: pack({"mood": ("low", "high")}, {}, table=Resampled({"mood": ["poor"]})),
            "'mood' in the table has 'poor'; expected one of ['low', 'high']",
        ),
    ],
)
def test_refused(make: Any, message: str) -> None:
    """What makes no sense, or has no mass between the bounds, is refused with what was expected."""
    with pytest.raises(InputError, match="^" + re.escape(message) + "$"):
        make()
