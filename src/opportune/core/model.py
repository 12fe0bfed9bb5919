"""Learning the reward: ridge regression one observation at a time (SPEC section 2).

    V = lam I + sum x x',   theta = V^-1 sum x X,
    radius = R sqrt(2 ln(1/delta) + ln det V - d ln lam) + sqrt(lam) W,
    ucb(x) = <x, theta> + radius sqrt(x' V^-1 x).

`cov` is V^-1 and `log_det` is ln det V - d ln lam. For a fixed set of feature vectors (the table's rows) means and
squared widths are kept up to date with the same rank-one step, O(d) a row instead of O(d^2).

Feature vectors are given as an array and the place in it where they begin. Places are turned into unsigned numbers
before a loop: a signed index may be negative, and an array would check that at every step. Long rows are walked
through in lanes (core.lanes).
"""

import math

import numpy as np
from numba import njit

from opportune.core import layout as L  # noqa: N812  (at[L.THETA]: where theta lies)
from opportune.core.compiled import inner_function, step_function
from opportune.core.layout import CONFIDENCE, NOISE, PRIOR, REGULARISATION, TIE
from opportune.core.simd import fma, load, spread, store, width

_u = np.uint64


@step_function
def reset(at, facts, s):  # type: ignore[no-untyped-def]
    """Knowledge before any data: theta = 0, V = lam I."""
    for j in range(at[L.STRIDE]):
        s[at[L.THETA] + j] = 0.0
    for i in range(at[L.D]):
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
def nonzeros(at, support):  # type: ignore[no-untyped-def]
    """How many of a feature vector's numbers have to be looked at: those listed, if any are, or all."""
    return support if support > 0 else at[L.D]


@inner_function
def nonzero(at, support, source, x, p):  # type: ignore[no-untyped-def]
    """The p-th of them: its place in the vector at source[x:], and the number."""
    if support > 0:
        listed = x + _u(at[L.LISTS] - at[L.ROWS] + p)
        return _u(source[listed]), source[listed + _u(support)]
    return _u(p), source[x + _u(p)]


@inner_function
def multiply(at, s, source, x):  # type: ignore[no-untyped-def]
    """Write w = V^-1 x to s[w:]."""
    lanes, stride, cov, w = _u(width()), _u(at[L.STRIDE]), _u(at[L.COV]), _u(at[L.W])
    for i in range(_u(0), stride, lanes):
        wi = spread(0.0)
        for p in range(nonzeros(at, at[L.SUPPORT])):
            j, xj = nonzero(at, at[L.SUPPORT], source, x, p)
            # cov is symmetric: its rows are its columns, and with one lane there is only the upper triangle
            place = j * stride + i if lanes > 1 else min(i, j) * stride + max(i, j)
            wi = fma(spread(xj), load(s, cov + place), wi)
        store(s, w + i, wi)


@inner_function
def deflate(at, s, shrink):  # type: ignore[no-untyped-def]
    """V^-1 += shrink w w'; with one lane the upper triangle alone, which halves what a GPU must keep at hand."""
    d, lanes, stride, cov, w = _u(at[L.D]), _u(width()), _u(at[L.STRIDE]), _u(at[L.COV]), _u(at[L.W])
    for j in range(d):
        row = cov + j * stride
        factor = spread(shrink * s[w + j])
        for i in range(_u(0) if lanes > 1 else j, stride, lanes):
            store(s, row + i, fma(factor, load(s, w + i), load(s, row + i)))


@inner_function
def observe(at, facts, s, source, place, count, total):  # type: ignore[no-untyped-def]
    """Learn from `count` observations of the feature vector x at source[place:] whose rewards sum to `total`.

    With w = V^-1 x, q = x'w, f = 1/(1 + count q) and err = total - count <x, theta>:
    theta += w err f, V^-1 -= count f w w', ln det V += ln(1 + count q), and for each row j of the table, with
    c_j = x_j'w, mean_j += c_j err f, width2_j -= c_j^2 count f.
    """
    d, lanes, stride, rows, x = _u(at[L.D]), _u(width()), _u(at[L.STRIDE]), _u(at[L.TABLE]), _u(place)
    theta, w = _u(at[L.THETA]), _u(at[L.W])
    mean, width2, columns = _u(at[L.MEAN]), _u(at[L.WIDTH2]), _u(at[L.COLUMNS])
    multiply(at, s, source, x)
    q = 0.0
    fit = 0.0
    for p in range(nonzeros(at, at[L.SUPPORT])):
        i, xi = nonzero(at, at[L.SUPPORT], source, x, p)
        q += xi * s[w + i]
        fit += xi * s[theta + i]
    f = 1.0 / (1.0 + count * q)
    step = spread((total - count * fit) * f)
    shrink = -count * f
    for i in range(_u(0), stride, lanes):
        store(s, theta + i, fma(load(s, w + i), step, load(s, theta + i)))
    deflate(at, s, shrink)
    for j in range(_u(0), rows, lanes + lanes):  # two at a time, so that one can be worked on while the other waits
        k = j + lanes
        cj = spread(0.0)
        ck = spread(0.0)
        for i in range(d):
            wi = spread(s[w + i])
            cj = fma(wi, load(facts, columns + i * rows + j), cj)
            ck = fma(wi, load(facts, columns + i * rows + k), ck)
        store(s, mean + j, fma(cj, step, load(s, mean + j)))
        store(s, mean + k, fma(ck, step, load(s, mean + k)))
        store(s, width2 + j, fma(fma(cj, spread(shrink), spread(0.0)), cj, load(s, width2 + j)))
        store(s, width2 + k, fma(fma(ck, spread(shrink), spread(0.0)), ck, load(s, width2 + k)))
    s[at[L.LOG_DET]] += math.log1p(count * q)


@step_function
def score(at, s, theta, cov, radius, support, source, place):  # type: ignore[no-untyped-def]
    """ucb(x) of the feature vector at source[place:], computed from the estimates at s[theta:] and s[cov:].

    `support` is the layout's if the vector is one of its rows, else 0.
    """
    stride, x, t, c = _u(at[L.STRIDE]), _u(place), _u(theta), _u(cov)
    fit = 0.0
    width2 = 0.0
    for p in range(nonzeros(at, support)):
        i, xi = nonzero(at, support, source, x, p)
        if xi != 0.0:
            fit += xi * s[t + i]
            above = 0.0  # cov is symmetric: its upper triangle is enough
            for r in range(p + 1, nonzeros(at, support)):
                j, xj = nonzero(at, support, source, x, r)
                above += s[c + i * stride + j] * xj
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
