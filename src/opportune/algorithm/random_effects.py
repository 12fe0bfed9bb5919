"""Random effects: the prior that participants share (docs/pace.md, Partial pooling).

Each participant has their own parameter, theta_i ~ N(mu, diag tau^2), learned by ridge regression towards mu:

    Lambda = diag(R^2 / tau^2),   V_i = Lambda + sum x x',   theta_i = V_i^-1 (Lambda mu + sum x X).

mu and tau are updated by one step over all N participants,

    mu_j = mean_i theta_ij,   tau_j^2 = (nu tau0_j^2 + sum_i [(theta_ij - mu_j)^2 + R^2 (V_i^-1)_jj]) / (N + nu),

with tau0 from the prior, by default W / sqrt(d). A change of Lambda costs each participant a new inverse, O(d^3).

A driver calls `begin_update`, `add_mean` for each participant, `end_mean`, `add_spread` for each, `end_spread`, and
`take_prior` for each. `sums` is the scratch of any of them.
"""

import math

from opportune.algorithm.model import set_radius
from opportune.engine.compiled import inner_function, step_function
from opportune.engine.declared import POINTWISE

NU = 0.5  # the number of participants that the prior's tau counts as


@inner_function
def begin_update(n, sums):  # type: ignore[no-untyped-def]
    """Set both sums to zero."""
    for j in range(n.stride):
        sums.centre[j] = 0.0
        sums.spread[j] = 0.0


@inner_function
def add_mean(p, sums):  # type: ignore[no-untyped-def]
    """Add a participant's estimate to the sum for mu."""
    for j in range(p.sizes.d):
        sums.centre[j] += p.model.theta[j]


@inner_function
def end_mean(n, sums, participants):  # type: ignore[no-untyped-def]
    """Divide the sum of all estimates to get mu."""
    for j in range(n.d):
        sums.centre[j] /= participants


@inner_function
def add_spread(p, sums):  # type: ignore[no-untyped-def]
    """Add the expected squared distance of a participant's parameter from mu to the sum for tau."""
    n, noise = p.sizes, p.constants.noise[0]
    for j in range(n.d):
        away = p.model.theta[j] - sums.centre[j]
        sums.spread[j] += away * away + noise * noise * p.model.cov[j * n.stride + j]


@inner_function
def end_spread(p, sums, participants):  # type: ignore[no-untyped-def]
    """Replace the sum over all participants by Lambda = R^2 / tau^2."""
    n, noise2 = p.sizes, p.constants.noise[0] * p.constants.noise[0]
    for j in range(n.d):
        first = noise2 / p.constants.regularisation[POINTWISE * n.d + j]  # tau0^2
        sums.spread[j] = noise2 * (participants + NU) / (NU * first + sums.spread[j])


@step_function
def take_prior(p, centre, precision):  # type: ignore[no-untyped-def]
    """Set a participant's mu and Lambda to these values."""
    for j in range(p.sizes.d):
        p.model.centre[j] = centre[j]
        p.model.precision[j] = precision[j]
    refit(p.sizes, p.constants, p.model)
    set_radius(p)


@step_function
def refit(n, constants, model):  # type: ignore[no-untyped-def]
    """Recompute V^-1, theta, ln det V - ln det Lambda and the stored scores from Lambda, mu and all observations."""
    d, stride, cov = n.d, n.stride, model.cov
    for i in range(d):
        for j in range(d):
            cov[i * stride + j] = model.gram[i * stride + j]
        cov[i * stride + i] += model.precision[i]
    model.log_det[0] = max(0.0, invert(d, stride, cov, model.precision))
    for i in range(d):
        total = 0.0
        for j in range(d):
            total += cov[i * stride + j] * (model.precision[j] * model.centre[j] + model.moment[j])
        model.theta[i] = total
    for row in range(n.table):
        fit, width2 = 0.0, 0.0
        for i in range(d):
            xi = constants.columns[i * n.table + row]
            if xi != 0.0:
                fit += xi * model.theta[i]
                total = 0.0
                for j in range(d):
                    total += cov[i * stride + j] * constants.columns[j * n.table + row]
                width2 += xi * total
        model.mean[row] = fit
        model.width2[row] = width2


@step_function
def invert(d, stride, matrix, precision):  # type: ignore[no-untyped-def]
    """Invert a positive definite matrix in place (Gauss and Jordan); returns ln det minus that of diag(precision)."""
    log_det = 0.0
    for k in range(d):
        pivot = matrix[k * stride + k]
        log_det += math.log(pivot / precision[k])
        for j in range(d):
            matrix[k * stride + j] = matrix[k * stride + j] / pivot if j != k else 1.0 / pivot
        for i in range(d):
            if i != k:
                factor = matrix[i * stride + k]
                for j in range(d):
                    if j != k:
                        matrix[i * stride + j] -= factor * matrix[k * stride + j]
                matrix[i * stride + k] = -factor / pivot
    for i in range(d):
        for j in range(i):
            mean = 0.5 * (matrix[i * stride + j] + matrix[j * stride + i])
            matrix[i * stride + j] = mean
            matrix[j * stride + i] = mean
    return log_det
