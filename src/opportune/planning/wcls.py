"""The analysis after the study, on cohorts that are put together from simulated participants.

The effect of a nudge is estimated by weighted and centred least squares (`opportune.inference.wcls`) with the recorded
probabilities; only decision points with 0 < p < 1 count, and q is the mean of p among them. All of it is a function of
each participant's sums X'WX and X'WY, so that no cohort goes through its steps again.
"""

from typing import Any, NamedTuple

import numpy as np
from scipy.special import stdtr, stdtrit

from opportune import checks
from opportune.errors import InputError
from opportune.inference.least_squares import Sums, add_up, solve
from opportune.inference.wcls import centred


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
    ones = np.ones((int(use.sum()), 1))
    x, weight = centred(a[use], p[use], q, np.column_stack([ones, g[use]]), ones)
    return add_up(x, y[use], weight, number[use], len(names)), float(use.mean()) if use.size else 0.0


def estimate(sums: Sums, contrast: Any = None, *, chosen: Any = None) -> Estimate | None:
    """The effect and its interval; None where it cannot be estimated.

    Args:
        sums: of all participants.
        contrast: what is estimated, a combination of coefficients; the last one, the treatment's, unless given.
        chosen: whose sums to take, some of them perhaps twice; all of them unless given.

    """
    sums = sums if chosen is None else Sums(sums.xx[chosen], sums.xy[chosen])
    n, k = sums.xy.shape
    c = np.eye(k)[-1] if contrast is None else checks.array("contrast", contrast, (k,))
    if n <= k:
        return None
    try:
        beta, found = solve(sums)
    except InputError:
        return None
    spread = found.influence @ c
    effect, se = float(c @ beta), float(np.sqrt(spread @ spread))
    if se <= 0.0:
        return None
    freedom = n - k
    half = se * float(stdtrit(freedom, 0.975))
    p_value = 2.0 * float(stdtr(freedom, -abs(effect) / se))
    return Estimate(effect, se, effect - half, effect + half, p_value)
