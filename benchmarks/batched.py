"""Batched NumPy: all runs of a batch step together in arrays with a leading axis of runs, with one process per core.

The widths of all contexts' features are one matrix product: x' V^-1 x = <V^-1, x x'>, with precomputed x x'.
"""

import numpy as np
from joblib import Parallel, delayed

from benchmarks.study import BUDGET, LEAST_SCALE, TIE, Draws, Floats, Ints, Runs, Study

BATCH = 250  # runs; their state fits into the cache


def total_values(study: Study, runs: Runs, jobs: int) -> Floats:
    """The total paper value of every run, by `jobs` processes."""
    draws = study.draws(runs)
    parts = np.array_split(np.arange(runs.world.size), -(-runs.world.size // BATCH))
    work = (delayed(run_batch)(study, runs.pick(part), draws.pick(part)) for part in parts)
    return np.concatenate(Parallel(n_jobs=jobs)(work))


def run_batch(study: Study, runs: Runs, draws: Draws) -> Floats:
    """The total paper value of every run of a batch."""
    problem = study.worlds[0].problem
    contexts, actions, d = study.phi.shape
    n = runs.world.size
    index = np.arange(n)
    rows = study.phi.reshape(-1, d)
    pairs = outer(rows).T  # [d d, K A]
    bar = study.bar[runs.world]  # [N, A, d]
    bar_pairs = outer(bar)  # [N, A, d d]
    values = np.einsum("kad,nd->nka", study.phi, study.theta[runs.world])
    blind = np.einsum("nad,nd->na", bar, study.theta[runs.world])

    lam = problem.regularisation
    prior = np.sqrt(lam) * problem.theta_bound
    confidence = 2.0 * np.log(1.0 / problem.delta)
    growth = (1.0 + 1.0 / BUDGET) ** BUDGET
    naive = ~np.isnan(runs.rate)
    cov = np.tile(np.eye(d) / lam, (n, 1, 1))
    theta = np.zeros((n, d))
    log_det, price, spent, total = (np.zeros(n) for _ in range(4))
    stale: Ints | None = None

    for t in range(study.horizon):
        k = draws.context[:, t]
        radius = (problem.noise_sd * np.sqrt(confidence + log_det) + prior)[:, None]
        flat = cov.reshape(n, d * d)
        if study.adaptive:
            scores = ucb(theta @ rows.T, flat @ pairs, radius).reshape(n, contexts, actions)
            top, now = scores.max(axis=(1, 2)), scores[index, k]
        else:
            x = study.phi[k]
            now = ucb(np.einsum("nad,nd->na", x, theta), np.einsum("nad,nad->na", x @ cov, x), radius)
        u, informed = best(now)
        v, fresh = best(ucb(np.einsum("nad,nd->na", bar, theta), np.einsum("naf,nf->na", bar_pairs, flat), radius))
        if stale is None:
            stale = fresh
        scale = np.maximum(top - v, LEAST_SCALE) if study.adaptive else study.ranges[runs.world]
        gap = np.where(np.abs(u - v) > TIE, (u - v) / scale, 0.0)

        disagreement = np.sqrt(((bar[index, fresh] - bar[index, stale]) ** 2).sum(axis=1))
        o = probabilities(gap, disagreement, runs.tolerance / np.sqrt(t + 1), price, spent)
        o = np.where(naive, runs.rate, o)
        price = np.where(naive, 0.0, price * (1.0 + o / BUDGET) + o / ((growth - 1.0) * BUDGET))
        spent += o

        revealed = draws.coin[:, t] < o
        action = np.where(revealed, informed, stale)
        stale = np.where(revealed, fresh, stale)
        mean = values[index, k, action]
        total += np.where(revealed, mean, blind[index, action])

        reward = mean + problem.noise_sd * draws.noise[:, t]
        log_det += learn(cov, theta, study.phi[k, action], reward)
    return total


def learn(cov: Floats, theta: Floats, x: Floats, reward: Floats) -> Floats:
    """Sherman-Morrison in every run, in place; returns the increase of ln det V."""
    w = np.einsum("nde,ne->nd", cov, x)
    q = np.einsum("nd,nd->n", x, w)
    err = reward - np.einsum("nd,nd->n", x, theta)
    theta += w * (err / (1.0 + q))[:, None]
    cov -= np.einsum("nd,ne->nde", w, w / (1.0 + q)[:, None])
    grown: Floats = np.log1p(q)
    return grown


def probabilities(gap: Floats, disagreement: Floats, beta: Floats, price: Floats, spent: Floats) -> Floats:
    """o_t of PD2 in every run."""
    boosted = (disagreement > 0.0) & (beta < disagreement) & (gap > 0.0) & (gap > price)
    boost = 1.0 - np.divide(beta, disagreement, out=np.ones(gap.size), where=boosted)
    reveals = (price < 1.0) & (gap - price + boost > 0.0)
    return np.where(reveals, np.clip(np.minimum(gap + boost, BUDGET - spent), 0.0, 1.0), 0.0)


def outer(rows: Floats) -> Floats:
    """The products x x' of each row x, flat."""
    pairs: Floats = np.einsum("...d,...e->...de", rows, rows).reshape(*rows.shape[:-1], -1)
    return pairs


def ucb(mean: Floats, width2: Floats, radius: Floats) -> Floats:
    """<x, theta> + radius sqrt(x' V^-1 x)."""
    scores: Floats = mean + radius * np.sqrt(np.maximum(width2, 0.0))
    return scores


def best(values: Floats) -> tuple[Floats, Ints]:
    """Each run's largest value and the lowest action tied with it."""
    top = values.max(axis=1)
    return top, np.argmax(values >= top[:, None] - TIE, axis=1)
