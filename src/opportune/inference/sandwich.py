"""The sandwich estimator: the covariance of solutions of estimating equations, clustered by participant.

The estimate theta solves sum U_i(theta) = 0 over participants i. With D = -d(sum U_i)/d theta, of which J_i is the part
of participant i, the correction of Mancl and DeRouen (2001) for few participants undoes that each participant pulls
the fit towards their own data:

    U~_i = (I - J_i D^-1)^-1 U_i,      V = D^-1 (sum U~_i U~_i') D^-T.

It is used with Student's t with n - k degrees of freedom, for n participants and k coefficients.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from opportune.errors import InputError

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
MOST_LEVERAGE = 1.0 - 1e-6
"""Beyond this leverage, a coefficient rests on one participant alone, and its error cannot be estimated."""
WORST_CONDITION = 1e10
NOTHING = 1e-20
"""A column whose squares sum to less than this is 0 but for rounding."""


class Sandwich(NamedTuple):
    """Each participant's influence on the estimate: with the correction, and without it; both [n, k]."""

    influence: Floats
    plain_influence: Floats

    @property
    def covariance(self) -> Floats:
        """V, with the correction for few participants."""
        return np.asarray(self.influence.T @ self.influence)

    @property
    def plain_covariance(self) -> Floats:
        """V without the correction, which is too small for few participants."""
        return np.asarray(self.plain_influence.T @ self.plain_influence)


def sandwich(scores: Floats, slopes: Floats, own: Floats | None = None, people: Sequence[Any] = ()) -> Sandwich:
    """Each participant's influence on the estimate; refused if its error cannot be estimated.

    Args:
        scores: U_i at the estimate, [n, k].
        slopes: D, [k, k].
        own: J_i, [n, k, k]; without them, nothing is corrected.
        people: the participants' names, for errors.

    """
    bread = inverse(slopes)
    plain = scores @ bread.T
    if own is None:
        return Sandwich(plain, plain)
    share = own @ bread
    heavy = np.flatnonzero(np.trace(share, axis1=1, axis2=2) > MOST_LEVERAGE)  # bounds the largest eigenvalue
    for i in map(int, heavy):
        if np.abs(np.linalg.eigvals(share[i])).max() > MOST_LEVERAGE:
            who = people[i] if len(people) else f"number {i + 1}"
            raise InputError(
                f"one coefficient rests on participant {who} alone, so its error cannot be estimated; expected fewer "
                "controls and moderators, or ones that vary in several participants"
            )
    corrected = np.linalg.solve(np.eye(len(slopes)) - share, scores[:, :, None])[:, :, 0]
    return Sandwich(corrected @ bread.T, plain)


def inverse(slopes: Floats) -> Floats:
    """The inverse of D; refused if the rows cannot tell the coefficients apart."""
    scale = np.sqrt(np.clip(np.abs(np.diag(slopes)), 1e-300, None))
    flat = np.abs(np.diag(slopes)).min() <= NOTHING
    if flat or not np.linalg.cond(slopes / np.outer(scale, scale)) < WORST_CONDITION:
        raise InputError(
            "the rows cannot tell all coefficients apart; expected controls and moderators that differ between rows "
            "and from each other, and both treatments among the rows"
        )
    return np.asarray(np.linalg.inv(slopes), dtype=np.float64)


def by_participant(values: Floats, who: Ints, n: int) -> Floats:
    """Sums of rows over each of n participants; `who` numbers the participant of each row."""
    total = np.zeros((n, *values.shape[1:]))
    np.add.at(total, who, values)
    return total
