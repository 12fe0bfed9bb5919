"""Plain NumPy: LinUCB by Sherman-Morrison and the paper's rule in Python, run by run, with one process per core."""

import math
from typing import NamedTuple

import numpy as np
from joblib import Parallel, delayed

from benchmarks.study import BUDGET, LEAST_SCALE, TIE, Draws, Floats, Ints, Runs, Study


class Task(NamedTuple):
    """The data of a run: one world and one rule."""

    phi: Floats  # [K, A, d]
    bar: Floats  # [A, d]
    theta: Floats  # the truth
    scale: float
    adaptive: bool
    rate: float
    tolerance: float
    noise_sd: float
    theta_bound: float
    delta: float


def task_of(study: Study, world: int, rate: float, tolerance: float) -> Task:
    """The task of a run of the study."""
    problem = study.worlds[world].problem
    return Task(
        study.phi, study.bar[world], study.theta[world], float(study.ranges[world]), study.adaptive,
        rate, tolerance, problem.noise_sd, problem.theta_bound, problem.delta,
    )  # fmt: skip


class PlainAgent:
    """One participant. The stale action is stored at each reveal, which avoids scoring with the snapshot."""

    def __init__(self, task: Task) -> None:
        self.task = task
        d = task.bar.shape[1]
        self.every = task.phi.reshape(-1, d)
        self.lam = 1.0 / task.theta_bound**2
        self.prior = math.sqrt(self.lam) * task.theta_bound
        self.confidence = 2.0 * math.log(1.0 / task.delta)
        self.growth = (1.0 + 1.0 / BUDGET) ** BUDGET
        self.cov = np.eye(d) / self.lam
        self.theta = np.zeros(d)
        self.log_det = 0.0
        self.price = self.spent = 0.0
        self.step = 0
        self.stale = best(self.ucb(task.bar))[1]
        self.x = task.bar[0]

    def ucb(self, rows: Floats) -> Floats:
        """<x, theta> + radius sqrt(x' V^-1 x) of each row x."""
        radius = self.task.noise_sd * math.sqrt(self.confidence + self.log_det) + self.prior
        width2 = ((rows @ self.cov) * rows).sum(axis=1)
        scores: Floats = rows @ self.theta + radius * np.sqrt(np.maximum(width2, 0.0))
        return scores

    def decide(self, context: int, coin: float) -> tuple[int, bool]:
        """The action, and whether the context was revealed."""
        self.step += 1
        rows = self.task.phi[context]
        u, informed = best(self.ucb(rows))
        v, fresh = best(self.ucb(self.task.bar))
        scale = self.task.scale
        if self.task.adaptive:
            scale = max(self.ucb(self.every).max() - v, LEAST_SCALE)
        gap = (u - v) / scale if abs(u - v) > TIE else 0.0
        probability = self.probability(gap, fresh)
        self.spent += probability
        revealed = coin < probability
        action = informed if revealed else self.stale
        if revealed:
            self.stale = fresh
        self.x = rows[action]
        return action, revealed

    def probability(self, gap: float, fresh: int) -> float:
        """The rule: o_t, and the price that follows."""
        if not math.isnan(self.task.rate):
            return self.task.rate
        n = 0.0
        if fresh != self.stale:
            difference = self.task.bar[fresh] - self.task.bar[self.stale]
            n = math.sqrt(difference @ difference)
        beta = self.task.tolerance / math.sqrt(self.step)
        boost = 1.0 - beta / n if n > 0.0 and beta < n and gap > 0.0 and gap > self.price else 0.0
        if self.price >= 1.0 or gap - self.price + boost <= 0.0:
            return 0.0
        o = max(0.0, min(gap + boost, BUDGET - self.spent, 1.0))
        self.price = self.price * (1.0 + o / BUDGET) + o / ((self.growth - 1.0) * BUDGET)
        return o

    def learn(self, reward: float) -> None:
        """Sherman-Morrison: V^-1 -= w w' / (1 + x'w) with w = V^-1 x."""
        w = self.cov @ self.x
        q = self.x @ w
        self.theta += w * ((reward - self.x @ self.theta) / (1.0 + q))
        self.cov -= np.outer(w, w / (1.0 + q))
        self.log_det += math.log1p(q)


def best(values: Floats) -> tuple[float, int]:
    """The largest value and the lowest action tied with it."""
    top = values.max()
    return float(top), int(np.argmax(values >= top - TIE))


def run_one(task: Task, context: Ints, noise: Floats, coin: Floats) -> float:
    """The total paper value of one run."""
    agent = PlainAgent(task)
    values = task.phi @ task.theta
    blind = task.bar @ task.theta
    total = 0.0
    for k, z, u in zip(context.tolist(), noise.tolist(), coin.tolist(), strict=True):
        action, revealed = agent.decide(k, u)
        total += values[k, action] if revealed else blind[action]
        agent.learn(values[k, action] + task.noise_sd * z)
    return float(total)


def total_values(study: Study, runs: Runs, jobs: int) -> Floats:
    """The total paper value of every run, by `jobs` processes."""
    draws: Draws = study.draws(runs)
    tasks = [
        task_of(study, int(w), float(rate), float(tolerance))
        for w, rate, tolerance in zip(runs.world, runs.rate, runs.tolerance, strict=True)
    ]
    work = (delayed(run_one)(task, *one) for task, *one in zip(tasks, *draws, strict=True))
    return np.array(Parallel(n_jobs=jobs)(work))
