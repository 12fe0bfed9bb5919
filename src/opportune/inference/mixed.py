"""A linear model whose coefficients differ between participants, fitted by EM from each participant's sums.

For participant i with features X_i and rewards y_i,

    y_i = X_i (theta + b_i) + noise,     b_i ~ N(0, T),     noise ~ N(0, sigma^2).

theta is the part that participants have in common, T the covariance of their differences (its diagonal is tau^2), and
sigma the noise. The standard error of theta is not part of T: participants' own estimates vary by T and by their own
noise, which the fit separates.
"""

from typing import NamedTuple

import numpy as np
from scipy.special import stdtrit

from opportune.errors import DataError
from opportune.inference.least_squares import add_up
from opportune.inference.sandwich import Floats, Ints

MOST_ROUNDS = 2_000
ENOUGH = 1e-6


class Fitted(NamedTuple):
    """The common coefficients with their covariance, the differences between participants, and the noise."""

    theta: Floats
    covariance: Floats
    """The covariance of theta."""
    spread: Floats
    """T, the covariance of participants' differences; diagonal unless the fit was `correlated`."""
    sigma: float
    participants: int
    rows: int

    @property
    def se(self) -> Floats:
        """The standard errors of theta."""
        return np.sqrt(np.diag(self.covariance))

    @property
    def tau(self) -> Floats:
        """The sd of each coefficient between participants."""
        return np.sqrt(np.diag(self.spread))

    @property
    def half_width(self) -> Floats:
        """Half the 95% interval of theta, by Student's t with one degree of freedom fewer than participants."""
        return np.asarray(self.se * float(stdtrit(max(1, self.participants - 1), 0.975)))


def fit(x: Floats, y: Floats, who: Ints, names: list[str], *, correlated: bool = False) -> Fitted:
    """Fit the model by restricted maximum likelihood (EM); refuses data that cannot tell the coefficients apart.

    Args:
        x: features of each row, [n, d].
        y: rewards.
        who: the participant of each row, from 0.
        names: the names of the features, for errors.
        correlated: let a participant's coefficients be correlated: T is a full matrix, not diagonal.

    """
    n, d = x.shape if x.ndim == 2 else (0, len(names))
    people = int(who.max()) + 1 if n else 0
    if n < d + 2:
        raise DataError(f"{n} rows are complete enough for a fit; expected at least {d + 2} for {d} terms")
    _check_rank(x, names)
    xx, xy = add_up(x, y, np.ones(n), who, people)
    yy = np.zeros(people)
    np.add.at(yy, who, y * y)
    theta = np.linalg.solve(xx.sum(axis=0), xy.sum(axis=0))
    sigma2 = max(float(np.mean((y - x @ theta) ** 2)), 1e-12)
    spread = 0.1 * sigma2 * np.eye(d) if people > 1 else np.zeros((d, d))
    for _ in range(MOST_ROUNDS):
        before = np.append(spread, sigma2)
        theta, cov, spread, sigma2 = _round(xx, xy, yy, n, spread, sigma2, correlated=correlated)
        if np.max(np.abs(np.append(spread, sigma2) - before)) <= ENOUGH * sigma2:
            break
    return Fitted(theta, cov, spread, float(np.sqrt(sigma2)), people, n)


def _round(
    xx: Floats, xy: Floats, yy: Floats, rows: int, spread: Floats, sigma2: float, *, correlated: bool
) -> tuple[Floats, Floats, Floats, float]:
    """One round of EM, including the uncertainty of theta (restricted likelihood)."""
    people, d = xy.shape
    root = root_of(spread) if correlated else np.diag(np.sqrt(np.diag(spread)))
    # X'V^-1 X = (I + X'X T/sigma^2)^-1 X'X/sigma^2, symmetric by writing T = root root'.
    inner = np.linalg.inv(np.eye(d) + root.T @ xx @ root / sigma2)
    middle = root @ inner @ root.T  # covariance of b_i given y_i, theta known
    information = xx / sigma2 - xx @ middle @ xx / sigma2**2
    target = xy / sigma2 - np.einsum("ijk,ikl,il->ij", xx, middle, xy) / sigma2**2
    cov = np.linalg.inv(information.sum(axis=0))
    theta = cov @ target.sum(axis=0)
    left = xy - xx @ theta
    b = np.einsum("ijk,ik->ij", middle, left) / sigma2
    pull = middle @ xx / sigma2  # how b_i moves with theta
    unsure = middle + pull @ cov @ pull.transpose(0, 2, 1)
    new_spread = np.mean(b[:, :, None] * b[:, None, :] + unsure, axis=0) if people > 1 else np.zeros((d, d))
    if not correlated:
        new_spread = np.diag(np.diag(new_spread))
    whole = theta + b
    fits = yy - 2.0 * np.einsum("ij,ij->i", whole, xy) + np.einsum("ij,ijk,ik->i", whole, xx, whole)
    keep = np.eye(d) - pull  # how theta + b_i moves with theta
    of_sum = middle + keep @ cov @ keep.transpose(0, 2, 1)
    new_sigma2 = float((fits + np.einsum("ijk,ikj->i", xx, of_sum)).sum() / rows)
    return theta, cov, new_spread, max(new_sigma2, 1e-12)


def root_of(matrix: Floats) -> Floats:
    """A square root of a covariance, which need not have full rank."""
    values, vectors = np.linalg.eigh((matrix + matrix.T) / 2.0)
    return np.asarray(vectors * np.sqrt(np.clip(values, 0.0, None)))


def _check_rank(x: Floats, names: list[str]) -> None:
    scale = np.sqrt((x**2).sum(axis=0))
    absent = [name for name, size in zip(names, scale, strict=True) if size <= 0.0]
    if absent:
        raise DataError(
            f"the rows say nothing about {', '.join(map(repr, absent))}; expected rows in which it is not 0"
        )
    _, values, vectors = np.linalg.svd(x / scale, full_matrices=False)
    if values[-1] < 1e-8 * values[0]:
        together = [name for name, weight in zip(names, vectors[-1], strict=True) if abs(weight) > 0.1]
        raise DataError(
            f"the rows cannot tell {', '.join(map(repr, together))} apart; expected rows in which they differ"
        )
