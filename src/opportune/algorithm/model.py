"""Learning the reward: ridge regression one observation at a time (docs/paper.md, Learning).

    V = Lambda + sum x x',   theta = V^-1 (Lambda mu + sum x X),
    radius = R sqrt(2 ln(1/delta) + ln det V - ln det Lambda) + sqrt(lam) W,
    ucb(x) = <x, theta> + radius sqrt(x' V^-1 x).

The paper has Lambda = lam I and mu = 0; a prior mean and prior sds replace them, and then the values that participants
share (algorithm.random_effects). A pointwise radius (docs/pace.md) covers the noise of one prediction, and replaces W
by the present estimate of the distance of theta from mu:

    radius = R sqrt(2 ln(1/delta)) + sqrt(sum_j Lambda_j [(theta_j - mu_j)^2 + R^2 (V^-1)_jj]).

`cov` is V^-1 and `log_det` is ln det V - ln det Lambda. For a fixed set of feature vectors (the problem's rows) means
and squared widths are kept up to date with the same rank-one step, O(d) per row instead of O(d^2).

Feature vectors are passed as numbers and the index where the vector begins. Indices are unsigned: a signed one may be
negative, and an array would check that at every step. Long rows are processed in SIMD width.
"""

import math

import numpy as np

from opportune.engine.compiled import inner_dual_function, inner_function, step_function
from opportune.engine.declared import POINTWISE
from opportune.engine.simd import fma, larger, largest, load, plus, root, spread, store, times, width

TIE = 1e-12  # values this close count as equal, so that all compile targets agree
_u = np.uint64


@step_function
def reset(p):  # type: ignore[no-untyped-def]
    """Knowledge before any data: theta = mu, V = Lambda."""
    n, constants, model, first = p.sizes, p.constants, p.model, int(p.rule.radius[0]) * p.sizes.d
    for j in range(n.stride):
        model.theta[j] = 0.0
    for i in range(n.d):
        for j in range(n.stride):
            model.cov[i * n.stride + j] = 0.0
        model.cov[i * n.stride + i] = 1.0 / constants.regularisation[first + i]
        model.theta[i] = constants.prior_mean[i]
    for j in range(n.table):
        fit = 0.0
        width2 = 0.0
        for i in range(n.d):
            x = constants.columns[i * n.table + j]
            fit += x * constants.prior_mean[i]
            width2 += x * x / constants.regularisation[first + i]
        model.mean[j] = fit
        model.width2[j] = width2
    model.log_det[0] = 0.0
    if n.random > 0:
        for i in range(n.stride):
            model.centre[i] = constants.prior_mean[i] if i < n.d else 0.0
            model.precision[i] = constants.regularisation[first + i] if i < n.d else 0.0
            model.moment[i] = 0.0
        for i in range(n.d * n.stride):
            model.gram[i] = 0.0
    set_radius(p)


@inner_dual_function
def confidence_radius(noise, confidence, log_det, prior):  # type: ignore[no-untyped-def]
    """The radius; `confidence` is 2 ln(1/delta), `log_det` ln det V - ln det Lambda, `prior` sqrt(lam) W."""
    return noise * math.sqrt(confidence + log_det) + prior


@inner_function
def set_radius(p):  # type: ignore[no-untyped-def]
    """Update the confidence radius; before any data, both kinds are the same."""
    constants, model, kind = p.constants, p.model, int(p.rule.radius[0])
    noise, confidence = constants.noise[0], constants.confidence[0]
    if p.sizes.random > 0:
        away2 = expected_distance2(p.sizes, model, noise, model.centre, model.precision, 0)
        model.radius[0] = noise * math.sqrt(confidence) + math.sqrt(away2)
    elif kind == POINTWISE and model.log_det[0] > 0.0:
        first = kind * p.sizes.d
        away2 = expected_distance2(p.sizes, model, noise, constants.prior_mean, constants.regularisation, first)
        model.radius[0] = noise * math.sqrt(confidence) + math.sqrt(away2)
    else:
        model.radius[0] = confidence_radius(noise, confidence, model.log_det[0], constants.prior[kind])


@step_function
def expected_distance2(n, model, noise, centre, precision, first):  # type: ignore[no-untyped-def]
    """The expected squared distance of the true parameter from mu, in the norm of Lambda, which begins at `first`."""
    total = 0.0
    for i in range(n.d):
        away = model.theta[i] - centre[i]
        total += precision[first + i] * (away * away + noise * noise * model.cov[i * n.stride + i])
    return total


@inner_function
def nonzeros(n, support):  # type: ignore[no-untyped-def]
    """The number of entries of a feature vector to visit: the listed ones if there is a list, else all."""
    return support if support > 0 else n.d


@inner_function
def nonzero(support, source, lists, x, p):  # type: ignore[no-untyped-def]
    """The p-th entry to visit: its index in the vector at source[x], and the number."""
    if support > 0:
        listed = x + _u(p)
        return _u(lists[listed]), lists[listed + _u(support)]
    return _u(p), source[x + _u(p)]


@inner_function
def multiply(n, cov, w, support, source, lists, x):  # type: ignore[no-untyped-def]
    """Write w = V^-1 x."""
    step, stride = _u(width()), _u(n.stride)
    for i in range(_u(0), stride, step):
        wi = spread(0.0)
        for p in range(nonzeros(n, support)):
            j, xj = nonzero(support, source, lists, x, p)
            # Running means of zero features are 0. One number at a time, this test takes longer than multiplying.
            if xj != 0.0 or support > 0 or step == 1:
                # cov is symmetric: rows equal columns, and one number at a time only the upper triangle exists
                place = j * stride + i if step > 1 else min(i, j) * stride + max(i, j)
                wi = fma(spread(xj), load(cov, place), wi)
        store(w, i, wi)


@inner_function
def deflate(n, cov, w, shrink):  # type: ignore[no-untyped-def]
    """V^-1 += shrink w w'; one number at a time only the upper triangle, half of the registers on a GPU."""
    d, step, stride = _u(n.d), _u(width()), _u(n.stride)
    for j in range(d):
        row = j * stride
        factor = spread(shrink * w[j])
        for i in range(_u(0) if step > 1 else j, stride, step):
            store(cov, row + i, fma(factor, load(w, i), load(cov, row + i)))


@inner_function
def observe(n, constants, model, w, support, source, lists, place, count, total):  # type: ignore[no-untyped-def]
    """Learn from `count` observations of the feature vector x at source[place] whose rewards sum to `total`.

    With w = V^-1 x, q = x'w, f = 1/(1 + count q) and err = total - count <x, theta>:
    theta += w err f, V^-1 -= count f w w', ln det V += ln(1 + count q), and for each row j of the table, with
    c_j = x_j'w, mean_j += c_j err f, width2_j -= c_j^2 count f.
    """
    step, stride, x = _u(width()), _u(n.stride), _u(place)
    multiply(n, model.cov, w, support, source, lists, x)
    q = 0.0
    fit = 0.0
    for p in range(nonzeros(n, support)):
        i, xi = nonzero(support, source, lists, x, p)
        q += xi * w[i]
        fit += xi * model.theta[i]
    f = 1.0 / (1.0 + count * q)
    move = (total - count * fit) * f
    shrink = -count * f
    for i in range(_u(0), stride, step):
        store(model.theta, i, fma(load(w, i), spread(move), load(model.theta, i)))
    deflate(n, model.cov, w, shrink)
    update_table(n, constants, model, w, move, shrink)
    model.log_det[0] += math.log1p(count * q)
    if n.random > 0:
        remember(n, model, support, source, lists, place, count, total)


@step_function
def remember(n, model, support, source, lists, place, count, total):  # type: ignore[no-untyped-def]
    """Add to sum x x' and sum x X, from which random effects are recomputed after a change of the shared prior."""
    x = _u(place)
    for p in range(nonzeros(n, support)):
        i, xi = nonzero(support, source, lists, x, p)
        model.moment[i] += xi * total
        for r in range(nonzeros(n, support)):
            j, xj = nonzero(support, source, lists, x, r)
            model.gram[i * _u(n.stride) + j] += count * xi * xj


@inner_function
def update_table(n, constants, model, w, move, shrink):  # type: ignore[no-untyped-def]
    """Update the rows' scores: with c_j = x_j'w, mean_j += c_j move and width2_j += c_j^2 shrink."""
    d, step, rows = _u(n.d), _u(width()), _u(n.table)
    by, less = spread(move), spread(shrink)
    for j in range(_u(0), rows, step + step):  # two at a time, so that one is computed while the other waits
        k = j + step
        cj = spread(0.0)
        ck = spread(0.0)
        for i in range(d):
            wi = spread(w[i])
            cj = fma(wi, load(constants.columns, i * rows + j), cj)
            ck = fma(wi, load(constants.columns, i * rows + k), ck)
        store(model.mean, j, fma(cj, by, load(model.mean, j)))
        store(model.mean, k, fma(ck, by, load(model.mean, k)))
        store(model.width2, j, fma(fma(cj, less, spread(0.0)), cj, load(model.width2, j)))
        store(model.width2, k, fma(fma(ck, less, spread(0.0)), ck, load(model.width2, k)))


@step_function
def adjust(n, constants, model, w, support, source, lists, place, difference):  # type: ignore[no-untyped-def]
    """A reward that was learned from the vector at source[place] is corrected upwards by `difference`.

    theta += V^-1 x difference, and every stored mean by the matching amount; V is unchanged.
    """
    step, stride = _u(width()), _u(n.stride)
    multiply(n, model.cov, w, support, source, lists, _u(place))
    for i in range(_u(0), stride, step):
        store(model.theta, i, fma(load(w, i), spread(difference), load(model.theta, i)))
    update_table(n, constants, model, w, difference, 0.0)
    if n.random > 0:
        remember(n, model, support, source, lists, place, 0.0, difference)


@step_function
def shrink(n, cov, w, support, source, lists, place):  # type: ignore[no-untyped-def]
    """V += x x' for the vector x at source[place], without a reward: cov += less w w', less = -1 / (1 + x'w).

    Leaves w = cov x in `w` and returns `less`.
    """
    x = _u(place)
    multiply(n, cov, w, support, source, lists, x)
    q = 0.0
    for p in range(nonzeros(n, support)):
        i, xi = nonzero(support, source, lists, x, p)
        q += xi * w[i]
    less = -1.0 / (1.0 + q)
    deflate(n, cov, w, less)
    return less


@inner_function
def mean_of(n, theta, support, source, lists, place):  # type: ignore[no-untyped-def]
    """<x, theta> of the vector at source[place]."""
    x = _u(place)
    total = 0.0
    for p in range(nonzeros(n, support)):
        i, xi = nonzero(support, source, lists, x, p)
        total += xi * theta[i]
    return total


@step_function
def score(n, theta, cov, radius, w, support, source, lists, place):  # type: ignore[no-untyped-def]
    """ucb(x) of the feature vector at source[place], computed from the estimates theta and cov.

    `support` is the layout's if the vector is one of its rows, else 0.
    """
    stride, x = _u(n.stride), _u(place)
    fit = 0.0
    width2 = 0.0
    if _u(width()) > _u(1):
        multiply(n, cov, w, support, source, lists, x)
        for p in range(nonzeros(n, support)):
            i, xi = nonzero(support, source, lists, x, p)
            fit += xi * theta[i]
            width2 += xi * w[i]
    else:
        for p in range(nonzeros(n, support)):
            i, xi = nonzero(support, source, lists, x, p)
            if xi != 0.0:
                fit += xi * theta[i]
                above = 0.0  # cov is symmetric: its upper triangle suffices
                for r in range(p + 1, nonzeros(n, support)):
                    j, xj = nonzero(support, source, lists, x, r)
                    above += cov[i * stride + j] * xj
                width2 += xi * (xi * cov[i * stride + i] + 2.0 * above)
    return fit + radius * math.sqrt(max(width2, 0.0))


@inner_function
def largest_in_table(model, end):  # type: ignore[no-untyped-def]
    """The largest ucb among the first `end` rows of the table."""
    step, rows, radius = _u(width()), _u(end), model.radius[0]
    whole = rows - rows % step
    top = spread(-math.inf)
    for j in range(_u(0), whole, step):
        top = larger(top, plus(load(model.mean, j), times(spread(radius), root(load(model.width2, j)))))
    found = largest(top)
    for j in range(whole, rows):
        found = max(found, model.mean[j] + radius * math.sqrt(max(model.width2[j], 0.0)))
    return found


@inner_function
def best(n, ucb):  # type: ignore[no-untyped-def]
    """The largest of the actions' scores, and the lowest action within `TIE` of it."""
    top = ucb[0]
    for a in range(1, n.actions):
        top = max(top, ucb[a])
    for a in range(n.actions):
        if ucb[a] >= top - TIE:
            return top, a
    return top, 0
