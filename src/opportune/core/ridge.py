"""Learning the reward: ridge regression one observation at a time (SPEC section 2).

    V = lam I + sum x x',   theta = V^-1 sum x X,
    radius = R sqrt(2 ln(1/delta) + ln det V - d ln lam) + sqrt(lam) W,
    ucb(x) = <x, theta> + radius sqrt(x' V^-1 x).

`cov` is V^-1 and `log_det` is ln det V - d ln lam. For a fixed set of feature vectors (the table's rows) means and
squared widths are kept up to date with the same rank-one step, O(d) a row instead of O(d^2).

Feature vectors are given as an array and the place in it where they begin. Places are turned into unsigned numbers
before a loop: a signed index may be negative, and checking that at every step would keep loops from running in
vector registers.
"""

import math

import numpy as np
from numba import njit

from opportune.core import state as L  # noqa: N812  (at[L.THETA]: where theta lies)
from opportune.core.compiled import inner_function, step_function
from opportune.core.state import CONFIDENCE, NOISE, PRIOR, REGULARISATION, TIE

_u = np.uint64


@step_function
def reset(at, facts, s):  # type: ignore[no-untyped-def]
    """Knowledge before any data: theta = 0, V = lam I."""
    for i in range(at[L.D]):
        s[at[L.THETA] + i] = 0.0
        for j in range(at[L.STRIDE]):
            s[at[L.COV] + i * at[L.STRIDE] + j] = 0.0
        s[at[L.COV] + i * at[L.STRIDE] + i] = 1.0 / facts[REGULARISATION]
    for j in range(at[L.TABLE]):
        total = 0.0
        for i in range(at[L.D]):
            total += facts[at[L.COLUMNS] + i * at[L.TABLE] + j] ** 2
        s[at[L.MEAN] + j] = 0.0
        s[at[L.WIDTH2] + j] = total / facts[REGULARISATION]
    s[at[L.LOG_DET]] = 0.0
    set_radius(at, facts, s)


@inner_function
def set_radius(at, facts, s):  # type: ignore[no-untyped-def]
    """The confidence radius, R sqrt(2 ln(1/delta) + ln det V - d ln lam) + sqrt(lam) W."""
    s[at[L.RADIUS]] = facts[NOISE] * math.sqrt(facts[CONFIDENCE] + s[at[L.LOG_DET]]) + facts[PRIOR]


@inner_function
def observe(at, facts, s, source, place, count, total):  # type: ignore[no-untyped-def]
    """Learn from `count` observations of the feature vector x at source[place:] whose rewards sum to `total`.

    With w = V^-1 x, q = x'w, f = 1/(1 + count q) and err = total - count <x, theta>:
    theta += w err f, V^-1 -= count f w w', ln det V += ln(1 + count q), and for each row j of the table, with
    c_j = x_j'w, mean_j += c_j err f, width2_j -= c_j^2 count f.
    """
    d, stride, rows, x = _u(at[L.D]), _u(at[L.STRIDE]), _u(at[L.TABLE]), _u(place)
    theta, cov, w = _u(at[L.THETA]), _u(at[L.COV]), _u(at[L.W])
    mean, width2, cross, columns = _u(at[L.MEAN]), _u(at[L.WIDTH2]), _u(at[L.CROSS]), _u(at[L.COLUMNS])
    for i in range(stride):
        s[w + i] = 0.0
    for j in range(d):  # cov is symmetric: adding up its rows walks through memory in order
        xj = source[x + j]
        if xj != 0.0:
            for i in range(stride):
                s[w + i] += s[cov + j * stride + i] * xj
    q = 0.0
    fit = 0.0
    for i in range(d):
        q += source[x + i] * s[w + i]
        fit += source[x + i] * s[theta + i]
    f = 1.0 / (1.0 + count * q)
    step = (total - count * fit) * f
    shrink = count * f
    for i in range(d):
        wi = s[w + i]
        s[theta + i] += wi * step
        fwi = shrink * wi
        for j in range(stride):
            s[cov + i * stride + j] -= fwi * s[w + j]
    for j in range(rows):
        s[cross + j] = 0.0
    by_three = d // _u(3) * _u(3)
    for i in range(_u(0), by_three, _u(3)):  # three columns at a time, so that cross is walked through less often
        w0, w1, w2 = s[w + i], s[w + i + _u(1)], s[w + i + _u(2)]
        c0 = columns + i * rows
        c1 = c0 + rows
        c2 = c1 + rows
        for j in range(rows):
            s[cross + j] += facts[c0 + j] * w0 + facts[c1 + j] * w1 + facts[c2 + j] * w2
    for i in range(by_three, d):
        wi = s[w + i]
        for j in range(rows):
            s[cross + j] += facts[columns + i * rows + j] * wi
    for j in range(rows):
        c = s[cross + j]
        s[mean + j] += c * step
        s[width2 + j] -= c * c * shrink
    s[at[L.LOG_DET]] += math.log1p(count * q)


@step_function
def score(at, s, theta, cov, radius, source, place):  # type: ignore[no-untyped-def]
    """ucb(x) of the feature vector at source[place:], computed from the estimates at s[theta:] and s[cov:]."""
    d, stride, x, t, c = _u(at[L.D]), _u(at[L.STRIDE]), _u(place), _u(theta), _u(cov)
    fit = 0.0
    width2 = 0.0
    for i in range(d):
        xi = source[x + i]
        if xi != 0.0:  # feature vectors have many zeros, and cov is symmetric: its upper triangle is enough
            fit += xi * s[t + i]
            above = 0.0
            for j in range(i + _u(1), d):
                above += s[c + i * stride + j] * source[x + j]
            width2 += xi * (xi * s[c + i * stride + i] + 2.0 * above)
    return fit + radius * math.sqrt(max(width2, 0.0))


@njit(  # no NaN ever gets here; saying so lets the maximum run in vector registers
    cache=True, no_cpython_wrapper=True, no_cfunc_wrapper=True, forceinline=True, fastmath={"nnan", "nsz"}
)
def largest_in_table(at, s, begin, end):  # type: ignore[no-untyped-def]
    """The largest ucb among rows begin..end of the table."""
    radius = s[at[L.RADIUS]]
    mean, width2 = _u(at[L.MEAN]), _u(at[L.WIDTH2])
    top = -math.inf
    for j in range(_u(begin), _u(end)):
        top = max(top, s[mean + j] + radius * math.sqrt(max(s[width2 + j], 0.0)))
    return top


@inner_function
def best(at, s):  # type: ignore[no-untyped-def]
    """The largest of the actions' scores at s[ucb:], and the lowest action within `TIE` of it."""
    top = s[at[L.UCB]]
    for a in range(1, at[L.ACTIONS]):
        top = max(top, s[at[L.UCB] + a])
    for a in range(at[L.ACTIONS]):
        if s[at[L.UCB] + a] >= top - TIE:
            return top, a
    return top, 0
