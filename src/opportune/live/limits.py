"""How large the numbers of a state can come to be, by what is refused at the door: nobody has learned larger ones.

With n rewards r of at most `checks.LARGEST` in size, and features x,

    theta = V^-1 X' r,  V = lam I + X' X,  so that  |theta| <= |r| / (2 sqrt(lam)),  |r| <= sqrt(n) LARGEST,
    x' V^-1 x <= |x|^2 / lam,  and  ln det V - d ln lam <= d ln(1 + n max |x|^2 / (d lam)),

the first since no singular value s of X gives more than s / (lam + s^2) <= 1 / (2 sqrt(lam)). Rewards count as the
largest that there can be, as a snapshot may be older than a correction. What rounds is given room: ten times as much.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from opportune import checks
from opportune.engine.layout import Constants, Rule
from opportune.live.agent import Agent
from opportune.problems.settings import LARGE

MOST_PARTICIPANTS = 1_000_000
ROOM = 10.0


class Limits(NamedTuple):
    """The most in size of what is learned, after so many decisions."""

    theta: float
    mean: NDArray[np.float64]  # of every row of the table
    width2: NDArray[np.float64]
    log_det: float
    radius: float
    total: float
    gain: float
    debt: float


def limits_of(agent: Agent, decisions: int) -> Limits:
    """What an agent's numbers cannot exceed; a model of all may have learned from as many as there can be."""
    at, problem, n = agent._at, agent.problem, max(1, decisions)
    if agent.policy.pooled:
        n = agent.horizon * MOST_PARTICIPANTS
    known, rule, sizes = at.views(Constants, agent._constants), at.views(Rule, agent._rule), at.sizes
    lam, d = problem.regularisation, sizes.d
    squares = (known.columns[: d * sizes.table].reshape(d, sizes.table) ** 2).sum(axis=0)
    rows = np.abs(known.rows)
    coordinate = max(LARGE, float(rows.max(initial=0.0)))
    longest = math.sqrt(d) * coordinate
    theta = ROOM * math.sqrt(n) * checks.LARGEST / (2.0 * math.sqrt(lam))
    log_det = ROOM * d * math.log1p(n * longest**2 / (d * lam))
    radius = float(known.noise[0] * math.sqrt(known.confidence[0] + log_det) + known.prior[0])
    gain = 4.0 * longest * (theta + (1.0 + float(rule.kappa[0])) * radius / math.sqrt(lam))
    return Limits(
        theta, np.sqrt(squares) * theta, ROOM * squares / lam, log_det, radius, ROOM * n * coordinate, gain, n * gain
    )


def beyond(agent: Agent, name: str, parts: Any, decisions: int) -> str | None:
    """The part of a group that holds more than can be; None if there is none."""
    most, sizes = limits_of(agent, decisions), agent._at.sizes
    table = slice(None) if name == "model" else slice(sizes.contexts * sizes.actions, None)
    bounds: dict[str, dict[str, Any]] = {
        "model": {
            "theta": most.theta, "mean": most.mean, "width2": most.width2, "log_det": most.log_det,
            "radius": most.radius,
        },
        "snapshot": {
            "theta": most.theta, "mean": most.mean[table], "width2": most.width2[table], "radius": most.radius,
            "total": most.total,
        },
        "counts": {"total": most.total},
        "trail": {"debt": most.debt, "tally": float(decisions)},
        "budget": {"gain": most.gain, "odds": 1.0},
    }  # fmt: skip
    for part, bound in bounds[name].items():
        numbers = np.abs(getattr(parts, part))
        largest = np.broadcast_to(bound, numbers.shape) if np.ndim(bound) == 0 else bound[: len(numbers)]
        if (numbers[: len(largest)] > largest * (1.0 + 1e-6)).any():
            return part
    return None
