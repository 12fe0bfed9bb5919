"""Relative risks: a closed form, the derivative of the equations, and what is not a yes-or-no outcome."""

import numpy as np
import pytest
from records import record, with_risks

from opportune.errors import InputError
from opportune.inference import emee


def test_without_controls_it_is_the_ratio_of_weighted_shares() -> None:
    """e^beta is the weighted share of 1 under treatment divided by that without."""
    frame = with_risks(2)
    found = emee(frame, available="eligible", q=0.5)
    rows = frame[frame["eligible"] == 1]
    weight = np.where(rows["a"] == 1, 0.5 / rows["p"], 0.5 / (1 - rows["p"]))
    shares = [np.average(rows["y"][rows["a"] == a], weights=weight[rows["a"] == a]) for a in (0, 1)]
    assert found.estimate == pytest.approx([np.log(shares[0]), np.log(shares[1] / shares[0])], rel=1e-8)


def test_the_sandwich_by_numerical_derivatives() -> None:
    """Plain standard errors are those of the equations' own derivative, taken by small differences."""
    frame = with_risks(3)
    found = emee(frame, available="eligible", controls="stress", moderators="t", q=0.4)
    rows = frame[frame["eligible"] == 1]
    a, p, y, t = (rows[name].to_numpy(dtype=float) for name in ("a", "p", "y", "t"))
    g, f = np.column_stack([np.ones(len(a)), rows["stress"]]), np.column_stack([np.ones(len(a)), t])
    weight = np.where(a == 1, 0.4 / p, 0.6 / (1 - p))

    def scores(theta: np.ndarray) -> np.ndarray:
        effect = f @ theta[2:]
        left = np.exp(-a * effect) * (y - np.exp(g @ theta[:2] + a * effect))
        each = (weight * left)[:, None] * np.column_stack([g, (a - 0.4)[:, None] * f])
        return np.array([each[rows["id"] == name].sum(axis=0) for name in dict.fromkeys(rows["id"])])

    assert scores(found.estimate).sum(axis=0) == pytest.approx(np.zeros(4), abs=1e-7)
    h = 1e-6
    slopes = -np.column_stack(
        [(scores(found.estimate + h * e) - scores(found.estimate - h * e)).sum(axis=0) / (2 * h) for e in np.eye(4)]
    )
    bread = np.linalg.inv(slopes)
    meat = scores(found.estimate).T @ scores(found.estimate)
    assert found.plain_covariance == pytest.approx(bread @ meat @ bread.T, rel=1e-5)
    assert (found.se > found.plain_se).all()


def test_true_relative_risks_are_found() -> None:
    """With many participants the estimate is near the logarithm of the true relative risk."""
    found = emee(with_risks(4, people=400), available="eligible", controls="stress")
    assert found.estimate[-1] == pytest.approx(0.3, abs=4 * found.se[-1])
    assert found.se[-1] < 0.05


def test_an_outcome_that_is_not_yes_or_no_is_refused() -> None:
    """A mean of steps has no relative risk here; the message points to wcls."""
    with pytest.raises(InputError, match="expected a yes-or-no outcome"):
        emee(record(1), available="eligible")


def test_equations_without_a_solution_are_refused() -> None:
    """Where nobody who was treated answered, the relative risk is 0 and its logarithm nowhere."""
    frame = with_risks(5)
    with pytest.raises(InputError, match="expected"):
        emee(frame.assign(y=frame["y"] * (1 - frame["a"])), available="eligible")
