"""Means and 95% intervals: Student's t over worlds, or over the replicates of the only world."""

import numpy as np
import pytest
import xarray as xr
from scipy import stats

from opportune.analysis.intervals import Interval, interval, interval_of_runs, mean_interval
from opportune.errors import InputError


def test_interval_is_that_of_a_t_test() -> None:
    """The interval of a few numbers is the one that SciPy's one-sample t test gives."""
    for numbers in ([1.0, 2.0], [1.0, 2.0, 6.0], list(np.random.default_rng(1).normal(size=50))):
        expected = stats.ttest_1samp(numbers, 0.0).confidence_interval(0.95)
        found = interval(numbers)
        assert (found.low, found.high) == pytest.approx((expected.low, expected.high))


def test_interval_over_worlds() -> None:
    """With several worlds the interval comes from the spread of their means, not from all runs as if independent."""
    rng = np.random.default_rng(1)
    centres = rng.normal(size=(1, 30, 1)) * 10.0
    values = xr.DataArray(centres + rng.normal(size=(2, 30, 50)), dims=("policy", "world", "replicate"))
    got = mean_interval(values)
    for i in range(2):
        expected = interval(values.values[i].mean(axis=1))
        assert interval_of_runs(values[i]) == pytest.approx(expected)
        assert float(got["mean"][i]) == pytest.approx(expected.mean)
        assert float(got["low"][i]) == pytest.approx(expected.low)
        assert float(got["high"][i]) == pytest.approx(expected.high)


def test_interval_over_replicates() -> None:
    """With one world the interval comes from its replicates; with one run there is none."""
    values = xr.DataArray([[[1.0, 2.0, 6.0]]], dims=("policy", "world", "replicate"))
    got = mean_interval(values)
    assert float(got["mean"][0]) == 3.0
    assert float(got["high"][0] - got["mean"][0]) == pytest.approx(stats.t.ppf(0.975, 2) * np.sqrt(7.0 / 3.0))
    assert interval_of_runs(values[0]) == pytest.approx(interval([1.0, 2.0, 6.0]))
    alone = mean_interval(values.isel(replicate=[1]))
    assert float(alone["mean"][0]) == 2.0
    assert np.isnan(alone["low"].values).all()
    assert np.isnan(alone["high"].values).all()


@pytest.mark.parametrize("size", [2, 5, 40])
def test_interval_holds_the_mean_95_times_in_100(size: int) -> None:
    """The interval covers the true mean as often as it says, from two worlds on."""
    rng = np.random.default_rng(2)
    values = xr.DataArray(rng.normal(size=(8000, size)), dims=("policy", "world"))
    got = mean_interval(values)
    covered = ((got["low"] <= 0.0) & (got["high"] >= 0.0)).mean()
    assert 0.942 < float(covered) < 0.958


def test_interval_needs_something_to_average() -> None:
    """Averaging over axes that are not there, or over nothing, is refused."""
    with pytest.raises(InputError, match=r"^nothing to average over: "):
        mean_interval(xr.DataArray([1.0], dims=("policy",)))
    values = xr.DataArray([[1.0, 2.0]], dims=("world", "replicate"))
    with pytest.raises(InputError, match=r"^an entry of over is 'replicat'; expected .* did you mean 'replicate'"):
        mean_interval(values, ["world", "replicat"])
    assert mean_interval(values.isel(world=0), ["world", "replicate"])["mean"] == 1.5
    with pytest.raises(InputError, match=r"^observations are empty"):
        interval([])


def test_intervals_in_tables() -> None:
    """A table shows the mean and half the interval, and the mean alone where there is none."""
    assert str(Interval(12.34, 0.56)) == "12.3 ± 0.6"
    assert str(interval([7.0])) == "7.0"
    assert Interval(12.3456, 0.5678).text(3) == "12.346 ± 0.568"
