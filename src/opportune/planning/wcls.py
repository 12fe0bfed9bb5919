"""Weighted and centred least squares, clustered by participant: what the analysis after the study computes.

For a decision point with treatment A (0 or 1), made with the recorded probability p, reward Y and controls g
(Boruvka, Almirall, Witkiewitz and Murphy, 2018):

    minimise  sum w (Y - g'alpha - (A - q) beta)^2,     w = (q/p)^A ((1-q)/(1-p))^(1-A),

with q a fixed probability. Weighted and centred, beta is right also where g'alpha is wrong. Only decision points with
0 < p < 1 count. Standard errors are clustered by participant, with the leverage correction of Mancl and DeRouen (2001)
and Student's t with n - k degrees of freedom, for few participants.

All of it is a function of each participant's sums X'WX and X'WY, so that cohorts can be put together from participants
without going through their steps again: by the push-through identity X'W (I - X M X'W)^-1 e = (I - X'WX M)^-1 X'W e.
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtr, stdtrit

from opportune import checks
from opportune.errors import InputError

Floats = NDArray[np.float64]
MOST_LEVERAGE = 1.0 - 1e-6
"""Beyond it a coefficient rests on one participant alone, and nothing can be said about its error."""


class Sums(NamedTuple):
    """X'WX and X'WY of each participant: [n, k, k] and [n, k]; the treatment's column is the last."""

    xx: Floats
    xy: Floats


class Estimate(NamedTuple):
    """An effect with its clustered standard error, its 95% interval and its p-value."""

    effect: float
    se: float
    low: float
    high: float
    p_value: float

    @property
    def found(self) -> bool:
        """Whether it differs from 0 at the 5% level."""
        return self.p_value < 0.05


def sums_of(reward: Any, treated: Any, probability: Any, controls: Any, participant: Any) -> tuple[Sums, float]:
    """Each participant's sums from steps in rows, and the share of steps that can be used.

    Args:
        reward: Y, NaN where it is missing.
        treated: A.
        probability: p, that A would be 1, as recorded.
        controls: g, [steps, k]; an intercept is added.
        participant: whose step it is, whole numbers.

    """
    y = np.asarray(reward, dtype=np.float64)
    p = np.asarray(probability, dtype=np.float64)
    a = np.asarray(treated, dtype=np.float64)
    g = np.asarray(controls, dtype=np.float64).reshape(y.size, -1)
    who = np.asarray(participant)
    if not (y.shape == p.shape == a.shape == who.shape and y.ndim == 1):
        raise InputError(f"reward has shape {list(y.shape)}; expected one entry per step, as in all the others")
    if not np.isin(a, (0.0, 1.0)).all():
        raise InputError("treated holds something other than 0 and 1; expected one of them at each step")
    if not ((p >= 0.0) & (p <= 1.0)).all():
        raise InputError("probability holds a number outside 0 to 1; expected probabilities")
    names, number = np.unique(who, return_inverse=True)
    use = np.isfinite(y) & (p > 0.0) & (p < 1.0)
    q = float(p[use].mean()) if use.any() else 0.5
    weight = np.where(a[use] == 1.0, q / p[use], (1.0 - q) / (1.0 - p[use]))
    x = np.column_stack([np.ones(int(use.sum())), g[use], a[use] - q])
    return add_up(x, y[use], weight, number[use], len(names)), float(use.mean()) if use.size else 0.0


def add_up(x: Floats, y: Floats, weight: Floats, participant: NDArray[np.int64], n: int) -> Sums:
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


def estimate(sums: Sums, contrast: Any = None, *, chosen: Any = None) -> Estimate | None:
    """The effect and its interval; None where it cannot be estimated.

    Args:
        sums: of all participants.
        contrast: what is estimated, a combination of coefficients; the last one, the treatment's, unless given.
        chosen: whose sums to take, some of them perhaps twice; all of them unless given.

    """
    xx, xy = sums if chosen is None else (sums.xx[chosen], sums.xy[chosen])
    n, k = xy.shape
    c = np.eye(k)[-1] if contrast is None else checks.array("contrast", contrast, (k,))
    whole = xx.sum(axis=0)
    if n <= k or not _solvable(whole):
        return None
    bread = np.linalg.inv(whole)
    beta = bread @ xy.sum(axis=0)
    scores = xy - xx @ beta
    share = xx @ bread
    heavy = np.trace(share, axis1=1, axis2=2) > MOST_LEVERAGE  # else no eigenvalue of it is as large
    if heavy.any() and np.abs(np.linalg.eigvals(share[heavy])).max() > MOST_LEVERAGE:
        return None
    scores = np.linalg.solve(np.eye(k) - share, scores[:, :, None])[:, :, 0]
    spread = scores @ bread @ c
    effect, se = float(c @ beta), float(np.sqrt(spread @ spread))
    if se <= 0.0:
        return None
    freedom = n - k
    half = se * float(stdtrit(freedom, 0.975))
    p_value = 2.0 * float(stdtr(freedom, -abs(effect) / se))
    return Estimate(effect, se, effect - half, effect + half, p_value)


def _solvable(matrix: Floats) -> bool:
    scale = np.sqrt(np.clip(np.diag(matrix), 1e-300, None))
    return bool(np.all(np.diag(matrix) > 1e-12) and np.linalg.cond(matrix / np.outer(scale, scale)) < 1e10)
