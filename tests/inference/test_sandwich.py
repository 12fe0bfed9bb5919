"""The sandwich: its equation, and where nothing can be said about an error."""

import numpy as np
import pytest

from opportune.errors import InputError
from opportune.inference.least_squares import Sums, add_up, solve
from opportune.inference.sandwich import sandwich


def sums(seed: int = 1, people: int = 12, k: int = 3) -> Sums:
    rng = np.random.default_rng(seed)
    x = np.column_stack([np.ones(10 * people), rng.normal(size=(10 * people, k - 1))])
    return add_up(x, rng.normal(size=10 * people), np.ones(10 * people), np.repeat(np.arange(people), 10), people)


def test_the_equation() -> None:
    """V = D^-1 sum(U~ U~') D^-T with U~_i = (I - J_i D^-1)^-1 U_i, also where D is not symmetric."""
    rng = np.random.default_rng(2)
    scores, own = rng.normal(size=(8, 3)), 0.2 * rng.normal(size=(8, 3, 3)) + np.eye(3)
    slopes = own.sum(axis=0)
    bread = np.linalg.inv(slopes)
    meat = np.zeros((3, 3))
    for u, j in zip(scores, own, strict=True):
        corrected = np.linalg.inv(np.eye(3) - j @ bread) @ u
        meat += np.outer(corrected, corrected)
    found = sandwich(scores, slopes, own)
    assert found.covariance == pytest.approx(bread @ meat @ bread.T, rel=1e-9)
    assert found.plain_covariance == pytest.approx(bread @ scores.T @ scores @ bread.T, rel=1e-9)


def test_the_correction_makes_errors_larger() -> None:
    """Each participant pulls the fit towards their own data; undone, errors grow, the more the fewer there are."""
    few, many = solve(sums(people=8))[1], solve(sums(people=80))[1]
    growth = [np.diag(one.covariance) / np.diag(one.plain_covariance) for one in (few, many)]
    assert (growth[0] > 1.0).all()
    assert growth[0].mean() > growth[1].mean()


def test_a_coefficient_that_rests_on_one_participant_is_refused() -> None:
    """The participant is named; the control, in whom two participants differ, is not refused."""
    rng = np.random.default_rng(3)
    who, y = np.repeat(np.arange(10), 5), rng.normal(size=50)
    alone = np.column_stack([np.ones(50), who == 4]).astype(float)
    people = [f"P{i}" for i in range(10)]
    with pytest.raises(InputError, match="rests on participant P4 alone"):
        solve(add_up(alone, y, np.ones(50), who, 10), people)
    two = np.column_stack([np.ones(50), (who == 4) | (who == 5)]).astype(float)
    assert np.isfinite(solve(add_up(two, y, np.ones(50), who, 10), people)[1].covariance).all()


def test_columns_that_cannot_be_told_apart_are_refused() -> None:
    """Two columns that are equal, or one that is 0, leave the coefficients open."""
    rng = np.random.default_rng(4)
    who, y, x = np.repeat(np.arange(10), 5), rng.normal(size=50), rng.normal(size=50)
    for columns in ([x, 2.0 * x], [x, 0.0 * x]):
        with pytest.raises(InputError, match="cannot tell all coefficients apart"):
            solve(add_up(np.column_stack(columns), y, np.ones(50), who, 10))
    assert solve(add_up(np.column_stack([x, x**2]), y, np.ones(50), who, 10))[0].shape == (2,)
