"""WCLS against statsmodels and against a plain reading, row by row; windows, references, formulas."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
import statsmodels.api as sm
from records import record

from opportune.inference import Estimates, wcls

FULL: dict[str, Any] = {"available": "eligible", "controls": "stress + t", "moderators": "t"}


def by_hand(frame: pd.DataFrame, q: float) -> tuple[Any, Any]:
    """Estimate and covariance as the equations are written, row by row; controls stress + t, moderator t."""
    k, names = 5, list(dict.fromkeys(frame["id"]))
    whole, right = np.zeros((k, k)), np.zeros(k)
    rows = []
    for row in frame.itertuples():
        if row.eligible and np.isfinite(row.y):
            weight = (q / row.p) ** row.a * ((1 - q) / (1 - row.p)) ** (1 - row.a)
            x = np.array([1.0, row.stress, row.t, row.a - q, (row.a - q) * row.t])
            rows.append((row.id, weight, x, row.y))
            whole += weight * np.outer(x, x)
            right += weight * x * row.y
    theta = np.linalg.inv(whole) @ right
    meat = np.zeros((k, k))
    for name in names:
        mine = [each for each in rows if each[0] == name]
        score = sum(w * x * (y - x @ theta) for _, w, x, y in mine)
        own = sum(w * np.outer(x, x) for _, w, x, _ in mine)
        corrected = np.linalg.inv(np.eye(k) - own @ np.linalg.inv(whole)) @ score
        meat += np.outer(corrected, corrected)
    return theta, np.linalg.inv(whole) @ meat @ np.linalg.inv(whole).T


def test_a_plain_reading_agrees() -> None:
    """Estimate and covariance are those of the equations, written out row by row."""
    frame = record(3)
    found = wcls(frame, q=0.4, **FULL)
    theta, covariance = by_hand(frame, 0.4)
    assert found.estimate == pytest.approx(theta, rel=1e-9)
    assert found.covariance == pytest.approx(covariance, rel=1e-8)
    assert found.names == ("Intercept", "stress", "t", "a", "a:t")
    assert (found.df, found.effects, found.participants) == (25, 2, 30)
    assert found.rows == int(frame["eligible"].sum())
    assert found.least_probability == pytest.approx(0.2)


def test_statsmodels_agrees() -> None:
    """Estimate and standard errors are those of GEE, independent, bias-reduced (Mancl and DeRouen)."""
    frame = record(4)
    found = wcls(frame, q=0.5, **FULL)
    rows = frame[frame["eligible"] == 1]
    a, p, t = (rows[name].to_numpy(dtype=float) for name in ("a", "p", "t"))
    root = np.sqrt(np.where(a == 1, 0.5 / p, 0.5 / (1 - p)))
    x = np.column_stack([np.ones(len(rows)), rows["stress"], t, a - 0.5, (a - 0.5) * t])
    model = sm.GEE(root * rows["y"].to_numpy(), root[:, None] * x, groups=rows["id"].to_numpy())
    result = model.fit(cov_type="bias_reduced")
    assert found.estimate == pytest.approx(result.params, rel=1e-9)
    assert found.se == pytest.approx(result.standard_errors(cov_type="bias_reduced"), rel=1e-6)
    assert found.plain_se == pytest.approx(result.standard_errors(cov_type="robust"), rel=1e-6)


def same(one: Estimates, other: Estimates) -> bool:
    return bool(np.allclose(one.estimate, other.estimate, rtol=1e-9) and np.allclose(one.se, other.se, rtol=1e-9))


def test_the_order_of_rows_and_the_names_of_participants_do_not_matter() -> None:
    """Rows of a participant need not stand together, and any names will do."""
    frame = record(5)
    found = wcls(frame, **FULL)
    assert same(found, wcls(frame.sample(frac=1.0, random_state=1), **FULL))
    assert same(found, wcls(frame.assign(id=frame["id"].str[1:].astype(int) * 7), **FULL))
    assert same(found, wcls(frame.assign(a=frame["a"] == 1, eligible=frame["eligible"] == 1), **FULL))
    assert not same(found, wcls(frame.assign(id=np.roll(frame["id"], 10)), **FULL))


def test_q_is_the_mean_of_the_recorded_probabilities_unless_given() -> None:
    """A number, a column, or nothing: the mean over eligible rows."""
    frame = record(6)
    mean = float(frame.loc[frame["eligible"] == 1, "p"].mean())
    found = wcls(frame, **FULL)
    assert same(found, wcls(frame, q=mean, **FULL))
    assert same(found, wcls(frame.assign(share=mean), q="share", **FULL))
    assert not same(found, wcls(frame, q=0.3, **FULL))


def test_a_window_is_the_mean_of_the_outcomes_from_the_treatment_on() -> None:
    """Lag 3, with a gap in the record, a missing outcome and rows in any order: windows as read by a plain loop."""
    frame = record(7).drop(index=[25, 130])
    frame.loc[[44, 300], "y"] = np.nan
    outcomes = {(row.id, row.t): row.y for row in frame.itertuples()}
    means = [np.mean([outcomes.get((row.id, row.t + j), np.nan) for j in range(3)]) for row in frame.itertuples()]
    expected = wcls(frame.assign(y=means).dropna(), **FULL)
    found = wcls(frame.sample(frac=1.0, random_state=2), lag=3, time="t", **FULL)
    assert same(found, expected)
    assert found.rows == expected.rows
    (note,) = found.notes
    assert "windows of 3 decision points are incomplete" in note


def test_windows_may_hold_outcomes_of_rows_that_are_not_eligible() -> None:
    """A nudge pays also where no other could have been made: outcomes count whether or not their rows are eligible."""
    frame = record(8)
    changed = frame.assign(y=frame["y"] + 5.0 * (1 - frame["eligible"]))
    assert same(wcls(frame, **FULL), wcls(changed, **FULL))
    assert not same(wcls(frame, lag=2, time="t", **FULL), wcls(changed, lag=2, time="t", **FULL))


def test_controls_that_are_wrong_make_the_estimate_less_exact_but_not_wrong() -> None:
    """Over 40 studies the mean estimate is the true effect, though the control is linear and the truth quadratic."""
    found = [wcls(record(seed), controls="stress", available="eligible") for seed in range(40)]
    better = [wcls(record(seed), controls="C(stress)", available="eligible") for seed in range(40)]
    assert np.mean([one.estimate[-1] for one in found]) == pytest.approx(0.4, abs=0.06)
    assert np.mean([one.se[-1] for one in better]) < np.mean([one.se[-1] for one in found])


def test_a_formula_may_have_levels_and_functions() -> None:
    """Levels get a column each, as in R; log, squares and dotted names may be used; 0 leaves out the intercept."""
    frame = record(9).rename(columns={"t": "day.no"})
    found = wcls(frame, controls="C(stress) + log(`day.no`) + I(`day.no`**2)", available="eligible")
    assert found.names[:3] == ("Intercept", "C(stress)[T.1.0]", "C(stress)[T.2.0]")
    assert len(found.names) == 6
    by_level = wcls(frame, controls="C(stress)", moderators="0 + C(stress)", available="eligible")
    assert by_level.names[-3:] == ("a:C(stress)[0.0]", "a:C(stress)[1.0]", "a:C(stress)[2.0]")
