"""What every estimator gives: intervals, tests, adjusted p-values, and a table that prints."""

import dataclasses
import re

import numpy as np
import pytest
from records import record, with_actions
from scipy import stats

from opportune.errors import InputError
from opportune.inference import Estimates, actions, wcls
from opportune.inference.estimates import holm


@pytest.fixture(scope="module")
def found() -> Estimates:
    return wcls(record(2), controls="stress + t", moderators="stress + t", available="eligible")


def test_intervals_and_p_values_are_students(found: Estimates) -> None:
    """The interval is estimate and t quantile times se, p two-sided, with n - k degrees of freedom."""
    t = stats.t(found.df)
    assert found.df == 30 - 6
    assert found.interval[:, 1] == pytest.approx(found.estimate + t.ppf(0.975) * found.se)
    assert found.p == pytest.approx(2.0 * t.sf(np.abs(found.estimate / found.se)))
    assert ((found.p < 0.05) == (found.interval[:, 0] > 0.0) | (found.interval[:, 1] < 0.0)).all()


def test_several_combinations_are_tested_together(found: Estimates) -> None:
    """W (df - r + 1) / (r df) is compared with F(r, df - r + 1), r the number of rows that are tested."""
    last = found.covariance[-3:, -3:]
    wald = found.estimate[-3:] @ np.linalg.solve(last, found.estimate[-3:])
    df = (3, found.df - 2)
    statistic = wald * df[1] / (3 * found.df)
    assert found.joint.df == df
    assert found.joint.statistic == pytest.approx(statistic)
    assert found.joint.p == pytest.approx(stats.f(*df).sf(statistic))


def test_one_combination_is_one_thing(found: Estimates) -> None:
    """A combination of three coefficients is tested with t, as r = 1 says, and not as three things at once."""
    one = found.combination([1.0, 2.0, 5.0])
    tested = found.test([[1.0, 2.0, 5.0]])
    assert tested.df == (1, found.df)
    assert tested.p == pytest.approx(one.p)
    assert tested.statistic == pytest.approx((one.estimate / one.se) ** 2)
    whole = found.combination([0.0, 0.0, 0.0, 1.0, 2.0, 5.0])
    assert whole == pytest.approx(one) if isinstance(whole, float) else whole.se == pytest.approx(one.se)


def test_wrong_contrasts_are_refused(found: Estimates) -> None:
    """Of the wrong length, or the same thing twice."""
    with pytest.raises(InputError, match="contrasts has 4 columns; expected 3 or 6"):
        found.combination([1, 1, 1, 1])
    with pytest.raises(InputError, match="2 rows of which 1 are independent"):
        found.test([[1, 0, 0], [2, 0, 0]])


def test_holm_adjusts_in_order_of_size() -> None:
    """p-values .01, .04, .03 become .03, .06, .06: a later one is never below an earlier one, none above 1."""
    assert holm(np.array([0.01, 0.04, 0.03])) == pytest.approx([0.03, 0.06, 0.06])
    assert holm(np.array([0.6, 0.9])) == pytest.approx([1.0, 1.0])


def test_signs_say_which_is_better() -> None:
    """An action that is worse is no discovery in its favour: signs say "lower"; what is not clear says so."""
    found = actions(with_actions(3, people=60, gains=(0.0, 0.0, -0.8)))
    assert found.signs == ("unclear", "lower")
    assert found.holm_p[-1] < 0.05


def test_the_table_prints(found: Estimates) -> None:
    """Every coefficient, its interval, p-values of the effect only, participants, rows and the estimand are there."""
    text = repr(found)
    for name in found.names:
        assert re.search(rf"^{re.escape(name)} +-?\d", text, re.MULTILINE)
    assert "30 participants" in text
    assert f"{found.rows:,} rows" in text
    assert "Test that all 3 coefficients of the effect are 0: F(3, 22)" in text
    assert "at moments when it was randomised" in " ".join(text.split())
    assert max(map(len, text.splitlines())) <= 110
    assert list(found.table().columns) == ["estimate", "se", "low", "high", "p", "holm_p"]


def test_results_cannot_be_changed(found: Estimates) -> None:
    """A result is what was estimated."""
    with pytest.raises(dataclasses.FrozenInstanceError):
        found.df = 3  # type: ignore[misc]


def test_more_coefficients_than_degrees_of_freedom_are_printed() -> None:
    """They cannot be tested together, and the table is shown without that test."""
    frame = record(1, people=24, steps=60).assign(part=lambda f: f["t"] % 9)
    found = wcls(frame, available="eligible", controls="C(part)", moderators="C(part)")
    assert found.effects > found.df
    assert "Estimated: " in repr(found)
    assert "coefficients of the effect are 0" not in repr(found)
    with pytest.raises(InputError, match="expected fewer"):
        _ = found.joint
