"""Orders in which contexts may arrive: at random, as in the paper, and such that time matters.

Each is a course for `DriftingWorld`, computed from an instance's own probabilities p and true gaps. Gaps enter by their
rank r_k from -1 (least) to 1 (largest). The agents know the long-run probabilities; in `unforeseen` they know those at
the beginning.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import NDArray

from opportune.worlds.drifting import DriftingWorld
from opportune.worlds.linear import LinearWorld

Floats = NDArray[np.float64]

TILT = 2.0
"""A context of the largest gap is e^(2 TILT) times as frequent at one end of a trend as at the other."""
WEEK = 7
EARLY = 1.0 / 3.0
"""The share of the study in which good moments come, in orders where they stop."""


def trend(world: LinearWorld, horizon: int, direction: float) -> Floats:
    """Gaps that grow (direction 1) or shrink (-1): p_t(k) proportional to p(k) exp(TILT r_k x), x from -1 to 1."""
    return _tilted(world, direction * np.linspace(-1.0, 1.0, horizon))


def cycle(world: LinearWorld) -> Floats:
    """A week: p_t(k) as in `trend`, with x going from the mean up, down and back."""
    return _tilted(world, np.sin(2.0 * np.pi * np.arange(WEEK) / WEEK))


def stop(world: LinearWorld, horizon: int) -> Floats:
    """The best third of all moments comes in the first third of the study, and never again."""
    early = _best(world, -world.gaps)
    late = world.context_probs - early
    return _in_two(early, late, horizon)


def unforeseen(world: LinearWorld, horizon: int) -> Floats:
    """For a third of the study contexts arrive as announced; after that, only the worst third of them."""
    return _in_two(world.context_probs, _best(world, world.gaps), horizon)


def _best(world: LinearWorld, order: Floats) -> Floats:
    """The share of each context's probability that belongs to the first third, with contexts in this order."""
    probs, placed = world.context_probs, np.argsort(order, kind="stable")
    before = np.cumsum(probs[placed]) - probs[placed]
    share = np.zeros_like(probs)
    share[placed] = np.clip(EARLY - before, 0.0, probs[placed])
    return share


def _in_two(early: Floats, late: Floats, horizon: int) -> Floats:
    first = np.arange(horizon)[:, None] < EARLY * horizon
    return np.asarray(np.where(first, early / early.sum(), late / late.sum()))


def _tilted(world: LinearWorld, x: Floats) -> Floats:
    place = np.empty(world.gaps.size)
    place[np.argsort(world.gaps, kind="stable")] = np.linspace(-1.0, 1.0, world.gaps.size)
    weight = world.context_probs * np.exp(TILT * x[:, None] * place)
    return np.asarray(weight / weight.sum(axis=1, keepdims=True))


ORDERS: dict[str, Callable[[LinearWorld, int], DriftingWorld]] = {
    "persist-0.8": lambda w, _: DriftingWorld.drift(w, course=w.context_probs[None], stay=0.8),
    "persist-0.95": lambda w, _: DriftingWorld.drift(w, course=w.context_probs[None], stay=0.95),
    "cycle": lambda w, _: DriftingWorld.drift(w, course=cycle(w)),
    "trend-up": lambda w, horizon: DriftingWorld.drift(w, course=trend(w, horizon, 1.0)),
    "trend-down": lambda w, horizon: DriftingWorld.drift(w, course=trend(w, horizon, -1.0)),
    "stop": lambda w, horizon: DriftingWorld.drift(w, course=stop(w, horizon)),
    "unforeseen": lambda w, horizon: DriftingWorld(
        w.problem, theta=w.theta, course=unforeseen(w, horizon), noise_sd=w.noise_sd, name=w.name
    ),
}
"""The orders by the names of their tasks."""
