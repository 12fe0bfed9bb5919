"""Thompson sampling: act as if a parameter drawn from the snapshot's posterior were true.

At every step, with L L' = V^-1 at the last reveal (a triangular root) and e standard normal,

    theta~ = theta + inflation R L e,   the action argmax_a <x(a), theta~>,

where x(a) are the blind features, or the full ones at a reveal. This is the posterior of a Gaussian model with noise sd
R and prior N(0, R^2/lam I); `inflation` widens it. The draws come from the counter-based generator, so an auditor can
repeat them.

With `points` M, theta~ is not drawn at random: e_1, ..., e_M are fixed normal points in antithetic pairs, in the space
of the actions' values, where L L' = X V^-1 X', and p(a) is the share of points at which action a wins. The policy is
this mixture, so its probabilities are exact.
"""

import functools
import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np

from opportune import checks
from opportune.algorithm.masks import blind_mask, forbid, informed_mask
from opportune.algorithm.model import best, multiply
from opportune.algorithm.rng import SAMPLE, draw, normal
from opportune.algorithm.snapshot import blind_features, informed_features
from opportune.engine.compiled import inner_function, step_function
from opportune.engine.declared import MIXED, UNTOLD, Declares, Numbers
from opportune.engine.hooks import RECOMMENDERS
from opportune.errors import InputError
from opportune.recommenders.base import Recommender, check_floor
from opportune.revealers.base import Use

MOST_POINTS = 4096
_u = np.uint64


class Settings(NamedTuple):
    """The settings as numbers."""

    scale: Annotated[Numbers, 1]  # the scale of the draws: inflation times R
    points: Annotated[Numbers, 1]  # the number of fixed points; 0: random draws
    normals: Annotated[Numbers, "points", "mixed"]


class State(NamedTuple):
    """The results computed at the last reveal."""

    root: Annotated[Numbers, "d", "stride"]  # a triangular root of the snapshot's V^-1


class Scratch(NamedTuple):
    """Scratch space."""

    theta: Annotated[Numbers, "stride"]  # the drawn parameter
    mean: Annotated[Numbers, "mixed"]  # the mean of each action's value
    gram: Annotated[Numbers, "mixed", "mixed"]  # X V^-1 X', and its root
    root: Annotated[Numbers, "mixed", "mixed"]


@inner_function
def freeze(p, own):  # type: ignore[no-untyped-def]
    """Compute the triangular root of the snapshot's V^-1."""
    write_root(p.sizes.d, p.sizes.stride, p.snapshot.cov, own.state.root)


@step_function
def write_root(d, stride, cov, root):  # type: ignore[no-untyped-def]
    """Cholesky: root[i, :i + 1] with root root' = cov, from the upper triangle of cov."""
    for j in range(d):
        for i in range(j, d):
            total = cov[j * stride + i]
            for k in range(j):
                total -= root[i * stride + k] * root[j * stride + k]
            if i == j:
                root[j * stride + j] = math.sqrt(max(total, 0.0))
            else:
                pivot = root[j * stride + j]
                root[i * stride + j] = total / pivot if pivot > 0.0 else 0.0


@step_function
def sample(p, own, draws, step):  # type: ignore[no-untyped-def]
    """Write theta~ = theta + scale L e to own.scratch.theta."""
    n, root, theta, scale = p.sizes, own.state.root, own.scratch.theta, own.settings.scale[0]
    for i in range(n.d):
        theta[i] = p.snapshot.theta[i]
    for k in range(n.d):
        e = scale * normal(draw(draws.seed, draws.stream, step, SAMPLE + k))
        for i in range(k, n.d):
            theta[i] += root[i * n.stride + k] * e


@inner_function
def best_by_sample(p, own, source, place, masks, first):  # type: ignore[no-untyped-def]
    """argmax_a <x(a), theta~> for the block of vectors at source[place], among actions that masks[first] allows."""
    n, ucb, theta = p.sizes, p.scratch.ucb, own.scratch.theta
    for a in range(n.actions):
        total = 0.0
        for i in range(n.d):
            total += source[place + a * n.d + i] * theta[i]
        ucb[a] = total
    if n.masked > 0:
        forbid(n, ucb, masks, first)
    return best(n, ucb)[1]


@step_function
def best_by_points(p, own, source, place, masks, first):  # type: ignore[no-untyped-def]
    """The action that wins at most points; the share of each is left in p.scratch.chance."""
    n, settings, scratch, chance = p.sizes, own.settings, own.scratch, p.scratch.chance
    for a in range(n.actions):
        chance[a] = 0.0
        x = place + a * n.d
        multiply(n, p.snapshot.cov, p.scratch.w, 0, source, source, _u(x))
        fit = 0.0
        for i in range(n.d):
            fit += source[x + i] * p.snapshot.theta[i]
        scratch.mean[a] = fit
        for b in range(a + 1):
            total = 0.0
            for i in range(n.d):
                total += source[place + b * n.d + i] * p.scratch.w[i]
            scratch.gram[b * n.actions + a] = total
    write_root(n.actions, n.actions, scratch.gram, scratch.root)
    points = int(settings.points[0])
    for m in range(points):
        for a in range(n.actions):
            value = 0.0
            for k in range(a + 1):
                value += scratch.root[a * n.actions + k] * settings.normals[m * n.actions + k]
            p.scratch.ucb[a] = scratch.mean[a] + settings.scale[0] * value
        if n.masked > 0:
            forbid(n, p.scratch.ucb, masks, first)
        chance[best(n, p.scratch.ucb)[1]] += 1.0 / points
    return best(n, chance)[1]


@inner_function
def act_blind(p, own, moment, draws):  # type: ignore[no-untyped-def]
    """The action from the snapshot's blind features."""
    x, place = blind_features(p, moment.stratum)
    masks, first = blind_mask(p, moment.stratum)
    if own.settings.points[0] > 0.0:
        return best_by_points(p, own, x, place, masks, first)
    sample(p, own, draws, moment.step)
    return best_by_sample(p, own, x, place, masks, first)


@inner_function
def act_informed(p, own, moment, draws):  # type: ignore[no-untyped-def]
    """The action from the full features, or the sensed ones if reported values are missing."""
    x, place = informed_features(p, moment)
    masks, first = informed_mask(p, moment)
    if own.settings.points[0] > 0.0:
        return best_by_points(p, own, x, place, masks, first)
    sample(p, own, draws, moment.step)
    return best_by_sample(p, own, x, place, masks, first)


@RECOMMENDERS.add
@dataclass(frozen=True, kw_only=True)
class Thompson(Recommender):
    """Thompson sampling, linear and Gaussian: acts by a parameter drawn from the knowledge at the last reveal.

    `inflation` multiplies the standard deviation of the draws; 1 is the posterior of a Gaussian model. With `points`,
    an even number such as 64, the probabilities of actions are known: shares of that many fixed points. `floor` is the
    least probability of every allowed action.
    """

    inflation: float = 1.0
    points: int | None = None
    floor: float | None = None
    kind: ClassVar[str] = "thompson"
    declares: ClassVar[Declares] = Declares(settings=Settings, state=State, scratch=Scratch)
    freeze: ClassVar[Any] = staticmethod(freeze)
    act_blind: ClassVar[Any] = staticmethod(act_blind)
    act_informed: ClassVar[Any] = staticmethod(act_informed)

    def __post_init__(self) -> None:
        checks.keep(self, inflation=checks.real("inflation", self.inflation, least=0.0, most=1e6))
        if self.points is not None:
            checks.keep(self, points=checks.whole("points", self.points, least=2, most=MOST_POINTS))
            if self.points % 2:
                raise InputError(f"points is {self.points}; expected an even number, as they come in pairs")
        checks.keep(self, floor=check_floor(self.floor))
        if self.floor is not None and self.points is None:
            raise InputError("Thompson has a floor but no known probabilities; expected points=64 beside it")

    @property
    def chances(self) -> int:  # type: ignore[override]
        """MIXED with points, else UNTOLD."""
        return UNTOLD if self.points is None else MIXED

    def numbers(self, use: Use) -> Mapping[str, Any]:
        """The scale of the draws, inflation times R, and the fixed points."""
        numbers = {"scale": self.inflation * float(use.problem.noise_sd), "points": float(self.points or 0)}
        return {**numbers, "normals": normal_points(self.points, use.sizes.actions)} if self.points else numbers

    def extents(self, use: Use) -> Mapping[str, int]:
        """Space for the points, and for the actions' values at each."""
        return {"points": self.points or 0, "mixed": use.sizes.actions if self.points else 0}


@functools.cache
def normal_points(points: int, actions: int) -> Any:
    """Fixed standard normal points in antithetic pairs, [points, actions]: the same in every study."""
    half = [[normal(draw(0, m, a + 1, SAMPLE)) for a in range(actions)] for m in range(points // 2)]
    return np.concatenate([half, -np.array(half)])
