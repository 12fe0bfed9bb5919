"""Weighted least squares from each participant's sums, so that cohorts can be combined without their rows.

With X the columns and W the weights of participant i's rows, X'WX is J_i of the sandwich, and U_i = X'WY - X'WX beta.
"""

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from opportune.inference.sandwich import Floats, Ints, Sandwich, inverse, sandwich


class Sums(NamedTuple):
    """X'WX and X'WY of each participant: [n, k, k] and [n, k]."""

    xx: Floats
    xy: Floats


def add_up(x: Floats, y: Floats, weight: Floats, participant: Ints, n: int) -> Sums:
    """X'WX and X'WY of each of n participants."""
    k = x.shape[1]
    order = np.argsort(participant, kind="stable")
    x, y, weight, participant = x[order], y[order], weight[order], participant[order]
    edges = np.searchsorted(participant, np.arange(n + 1))
    xx, xy = np.zeros((n, k, k)), np.zeros((n, k))
    for i in range(n):
        part = slice(edges[i], edges[i + 1])
        scaled = x[part] * weight[part, None]
        xx[i], xy[i] = scaled.T @ x[part], scaled.T @ y[part]
    return Sums(xx, xy)


def solve(sums: Sums, people: Sequence[Any] = ()) -> tuple[Floats, Sandwich]:
    """The coefficients, and each participant's influence on them."""
    xx, xy = sums
    whole = xx.sum(axis=0)
    beta = inverse(whole) @ xy.sum(axis=0)
    return beta, sandwich(xy - xx @ beta, whole, xx, people)
