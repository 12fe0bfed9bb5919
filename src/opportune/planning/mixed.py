"""A linear model whose coefficients differ between participants, fitted by EM from each participant's sums.

For participant i with features X_i and rewards y_i,

    y_i = X_i (theta + b_i) + noise,     b_i ~ N(0, diag(tau^2)),     noise ~ N(0, sigma^2).

theta is what participants have in common, tau how much they differ, sigma the noise. How unsure theta is, se, has all
participants in common, and is no part of tau: a participant's own estimate varies by tau and by its own noise, which is
taken out.
"""

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from opportune.errors import DataError
from opportune.planning.wcls import Floats, add_up

MOST_ROUNDS = 2_000
ENOUGH = 1e-6


class Fitted(NamedTuple):
    """Coefficients in common with their standard errors, how participants differ, and the noise."""

    theta: Floats
    se: Floats
    tau: Floats
    sigma: float
    participants: int
    rows: int

    @property
    def half_width(self) -> Floats:
        """Half the 95% interval of theta, by Student's t with one degree of freedom less than participants."""
        return np.asarray(self.se * float(stdtrit(max(1, self.participants - 1), 0.975)))


def fit(x: Floats, y: Floats, who: NDArray[np.int64], names: list[str]) -> Fitted:
    """Fit the model by restricted maximum likelihood (EM); refuses data that cannot tell the coefficients apart.

    Args:
        x: features of each row, [n, d].
        y: rewards.
        who: the participant of each row, from 0.
        names: the names of the features, for errors.

    """
    n, d = x.shape if x.ndim == 2 else (0, len(names))
    people = int(who.max()) + 1 if n else 0
    if n < d + 2:
        raise DataError(f"{n} rows have all that a fit needs; expected at least {d + 2} for {d} terms")
    _check_rank(x, names)
    xx, xy = add_up(x, y, np.ones(n), who, people)
    yy = np.zeros(people)
    np.add.at(yy, who, y * y)
    theta = np.linalg.solve(xx.sum(axis=0), xy.sum(axis=0))
    sigma2 = max(float(np.mean((y - x @ theta) ** 2)), 1e-12)
    tau2 = np.full(d, 0.1 * sigma2) if people > 1 else np.zeros(d)
    for _ in range(MOST_ROUNDS):
        before = np.concatenate([tau2, [sigma2]])
        theta, cov, tau2, sigma2 = _round(xx, xy, yy, n, tau2, sigma2)
        if np.max(np.abs(np.concatenate([tau2, [sigma2]]) - before)) <= ENOUGH * sigma2:
            break
    return Fitted(theta, np.sqrt(np.diag(cov)), np.sqrt(tau2), float(np.sqrt(sigma2)), people, n)


def _round(
    xx: Floats, xy: Floats, yy: Floats, rows: int, tau2: Floats, sigma2: float
) -> tuple[Floats, Floats, Floats, float]:
    """One round of EM, the uncertainty of theta included (restricted likelihood)."""
    people, d = xy.shape
    root = np.sqrt(tau2)
    # X'V^-1 X = (I + X'X T/sigma^2)^-1 X'X/sigma^2, with T = diag(tau^2), symmetric by scaling with its root.
    inner = np.linalg.inv(np.eye(d) + root[:, None] * xx * root[None, None, :] / sigma2)
    middle = root[:, None] * inner * root[None, None, :]  # covariance of b_i given y_i, theta known
    information = xx / sigma2 - xx @ middle @ xx / sigma2**2
    target = xy / sigma2 - np.einsum("ijk,ikl,il->ij", xx, middle, xy) / sigma2**2
    cov = np.linalg.inv(information.sum(axis=0))
    theta = cov @ target.sum(axis=0)
    left = xy - xx @ theta
    b = np.einsum("ijk,ik->ij", middle, left) / sigma2
    pull = middle @ xx / sigma2  # how b_i moves with theta
    spread = middle + pull @ cov @ pull.transpose(0, 2, 1)
    new_tau2 = np.mean(b**2 + np.diagonal(spread, axis1=1, axis2=2), axis=0) if people > 1 else np.zeros(d)
    whole = theta + b
    fits = yy - 2.0 * np.einsum("ij,ij->i", whole, xy) + np.einsum("ij,ijk,ik->i", whole, xx, whole)
    keep = np.eye(d) - pull  # how theta + b_i moves with theta
    of_sum = middle + keep @ cov @ keep.transpose(0, 2, 1)
    new_sigma2 = float((fits + np.einsum("ijk,ikj->i", xx, of_sum)).sum() / rows)
    return theta, cov, new_tau2, max(new_sigma2, 1e-12)


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
