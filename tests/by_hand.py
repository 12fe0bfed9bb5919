"""Knowledge solved afresh from lists of what was observed (docs/paper.md): slow, with nothing kept in between."""

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

Floats = NDArray[np.float64]


class Knowledge:
    """What a problem's agents know from features and rewards."""

    def __init__(self, problem: Any, x: Sequence[Floats], rewards: Sequence[float]) -> None:
        lam, d = problem.regularisation, problem.d
        rows = np.array(x).reshape(-1, d)
        V = lam * np.eye(d) + rows.T @ rows
        self.cov = np.linalg.inv(V)
        self.theta = self.cov @ (rows.T @ np.array(rewards))
        inside = 2.0 * math.log(1.0 / problem.delta) + np.linalg.slogdet(V)[1] - d * math.log(lam)
        self.radius = problem.noise_sd * math.sqrt(inside) + math.sqrt(lam) * problem.theta_bound

    def ucb(self, x: Floats) -> Floats:
        """<x, theta> + radius sqrt(x' V^-1 x) for each row of x[..., d]."""
        width2 = np.einsum("...i,ij,...j->...", x, self.cov, x)
        return np.asarray(x @ self.theta + self.radius * np.sqrt(np.maximum(width2, 0.0)))


def gap(knowledge: Knowledge, full: Floats, blind: Floats, scale: float) -> float:
    """What knowing the context is worth: (max_a ucb(full features) - max_a ucb(blind ones)) / scale."""
    return float((knowledge.ucb(full).max() - knowledge.ucb(blind).max()) / scale)
