"""The obvious first version: a compiled loop that recomputes every quadratic form; a yardstick for `make bench`.

Known probabilities, finite contexts, PD2 or naive, scale `range` (or `adaptive`, which scores every context); PD1 is
PD2 with infinite tolerance. A test checks that it makes the package's decisions on the synthetic study.
"""

import math

import numpy as np
from numba import njit, prange

from benchmarks.study import BUDGET, Floats, Study
from opportune.algorithm.rng import ARRIVAL, COIN, NOISE, draw, normal


@njit
def ucb(x, theta, cov, radius):  # type: ignore[no-untyped-def]
    """<x, theta> + radius sqrt(x' V^-1 x)."""
    d = x.shape[0]
    mean = 0.0
    width = 0.0
    for i in range(d):
        mean += x[i] * theta[i]
        row = 0.0
        for j in range(d):
            row += cov[i, j] * x[j]
        width += x[i] * row
    return mean + radius * math.sqrt(max(width, 0.0))


@njit
def dot(x, y):  # type: ignore[no-untyped-def]
    """<x, y>."""
    total = 0.0
    for i in range(x.shape[0]):
        total += x[i] * y[i]
    return total


@njit
def best(rows, theta, cov, radius, values):  # type: ignore[no-untyped-def]
    """The largest ucb and the lowest action within 1e-12 of it."""
    for a in range(rows.shape[0]):
        values[a] = ucb(rows[a], theta, cov, radius)
    top = values.max()
    for a in range(rows.shape[0]):
        if values[a] >= top - 1e-12:
            return top, a
    return top, 0


@njit(parallel=True, cache=True)
def run(phi, bar, probs, theta_true, budget, learning, adaptive, scale, tolerance, seed, streams, horizon):  # type: ignore[no-untyped-def]  # noqa: PLR0912, PLR0915
    """Total paper value of every run; phi[K, A, d], bar[W, A, d], probs[W, K], streams[W, R]."""
    worlds, replicates = streams.shape
    contexts, actions, d = phi.shape
    total = np.zeros((worlds, replicates))
    c = (1.0 + 1.0 / budget) ** budget
    for run_index in prange(worlds * replicates):
        w, r = run_index // replicates, run_index % replicates
        cov = np.eye(d) * 9.0
        theta = np.zeros(d)
        values = np.empty(actions)
        vx = np.empty(d)
        old_theta = np.zeros(d)
        old_cov = cov.copy()
        log_det = 0.0
        old_radius = radius = 0.1 * math.sqrt(2 * math.log(20.0)) + 1.0
        y = spent = 0.0
        for t in range(1, horizon + 1):
            u01 = draw(seed, streams[w, r], t, ARRIVAL)
            s = 0
            below = probs[w, 0]
            while u01 >= below and s < contexts - 1:
                s += 1
                below += probs[w, s]
            u, act = best(phi[s], theta, cov, radius, values)
            v, fresh = best(bar[w], theta, cov, radius, values)
            stale = best(bar[w], old_theta, old_cov, old_radius, values)[1]
            divisor = scale[w]
            if adaptive:
                top = -np.inf
                for k in range(contexts):
                    top = max(top, best(phi[k], theta, cov, radius, values)[0])
                divisor = max(top - v, 1e-12)
            gap = (u - v) / divisor
            if learning:
                n = 0.0
                if fresh != stale:
                    for i in range(d):
                        n += (bar[w, fresh, i] - bar[w, stale, i]) ** 2
                    n = math.sqrt(n)
                beta = tolerance / math.sqrt(t)
                boost = 1.0 - beta / n if n > 0.0 and beta < n and gap > 0.0 and gap - y > 0.0 else 0.0
                o = 0.0
                if y < 1.0 and gap - y + boost > 0.0:
                    o = max(0.0, min(gap + boost, budget - spent, 1.0))
                    y = y * (1.0 + o / budget) + o / ((c - 1.0) * budget)
            else:
                o = budget / horizon
            spent += o
            if draw(seed, streams[w, r], t, COIN) < o:
                old_theta[:] = theta
                old_cov[:] = cov
                old_radius = radius
                action = act
                total[w, r] += dot(theta_true[w], phi[s, action])
            else:
                action = stale
                total[w, r] += dot(theta_true[w], bar[w, action])
            x = phi[s, action]
            reward = dot(theta_true[w], x) + 0.1 * normal(draw(seed, streams[w, r], t, NOISE))
            q = 0.0
            err = reward
            for i in range(d):
                vx[i] = 0.0
                for j in range(d):
                    vx[i] += cov[i, j] * x[j]
                q += x[i] * vx[i]
                err -= x[i] * theta[i]
            for i in range(d):
                theta[i] += vx[i] * err / (1.0 + q)
                for j in range(d):
                    cov[i, j] -= vx[i] * vx[j] / (1.0 + q)
            log_det += math.log1p(q)
            radius = 0.1 * math.sqrt(2 * math.log(20.0) + log_det) + 1.0
    return total


def total_values(study: Study) -> Floats:
    """The total paper value of every run of the study."""
    parts = [
        run(
            study.phi, study.bar, study.probs, study.theta, BUDGET, np.isnan(rate), study.adaptive, study.ranges,
            tolerance, np.uint64(study.seed), study.streams, study.horizon,
        )
        for rate, tolerance in study.rules
    ]  # fmt: skip
    return np.concatenate([part.ravel() for part in parts])
