"""Thompson sampling: act as if a parameter drawn from the frozen estimate were true.

At every step, with L L' = V^-1 at the last reveal (a triangular root) and e standard normal,

    theta~ = theta + inflation R L e,   the action argmax_a <x(a), theta~>,

x(a) the blind features, or the full ones at a reveal. That is the posterior of a Gaussian model with noise sd R and
prior N(0, R^2/lam I); `inflation` widens it. The draws are those of the counter-based generator, so that an auditor
can repeat them.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, NamedTuple

from opportune import checks
from opportune.algorithm.model import best
from opportune.algorithm.rng import SAMPLE, draw, normal
from opportune.algorithm.snapshot import blind_features, informed_features
from opportune.engine.compiled import inner_function, step_function
from opportune.engine.declared import Declares, Numbers
from opportune.engine.hooks import RECOMMENDERS
from opportune.recommenders.base import Recommender
from opportune.revealers.base import Use


class Settings(NamedTuple):
    """The setting in numbers."""

    scale: Annotated[Numbers, 1]  # of the draws: inflation times R


class State(NamedTuple):
    """What was worked out at the last reveal."""

    root: Annotated[Numbers, "d", "stride"]  # a triangular root of the frozen V^-1


class Scratch(NamedTuple):
    """Room to work in."""

    theta: Annotated[Numbers, "stride"]  # the drawn parameter


@inner_function
def freeze(p, own):  # type: ignore[no-untyped-def]
    """The triangular root of the frozen V^-1."""
    write_root(p.sizes, p.snapshot.cov, own.state.root)


@step_function
def write_root(n, cov, root):  # type: ignore[no-untyped-def]
    """Cholesky: root[i, :i + 1] with root root' = cov, by the upper triangle of cov."""
    d = n.d
    for j in range(d):
        for i in range(j, d):
            total = cov[j * n.stride + i]
            for k in range(j):
                total -= root[i * n.stride + k] * root[j * n.stride + k]
            if i == j:
                root[j * n.stride + j] = math.sqrt(max(total, 0.0))
            else:
                pivot = root[j * n.stride + j]
                root[i * n.stride + j] = total / pivot if pivot > 0.0 else 0.0


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
def best_by_sample(p, own, source, place):  # type: ignore[no-untyped-def]
    """argmax_a <x(a), theta~> for the block of vectors at source[place]."""
    n, ucb, theta = p.sizes, p.scratch.ucb, own.scratch.theta
    for a in range(n.actions):
        total = 0.0
        for i in range(n.d):
            total += source[place + a * n.d + i] * theta[i]
        ucb[a] = total
    return best(n, ucb)[1]


@inner_function
def act_blind(p, own, moment, draws):  # type: ignore[no-untyped-def]
    """By the blind features that were frozen."""
    sample(p, own, draws, moment.step)
    x, place = blind_features(p, moment.stratum)
    return best_by_sample(p, own, x, place)


@inner_function
def act_informed(p, own, moment, draws):  # type: ignore[no-untyped-def]
    """By the full features, or the sensed ones where reported values are missing."""
    sample(p, own, draws, moment.step)
    x, place = informed_features(p, moment)
    return best_by_sample(p, own, x, place)


@RECOMMENDERS.add
@dataclass(frozen=True, kw_only=True)
class Thompson(Recommender):
    """Thompson sampling, linear and Gaussian: acts by a parameter drawn from what was known at the last reveal.

    `inflation` multiplies the standard deviation of the draws; 1 is the posterior of a Gaussian model.
    """

    inflation: float = 1.0
    kind: ClassVar[str] = "thompson"
    declares: ClassVar[Declares] = Declares(settings=Settings, state=State, scratch=Scratch)
    freeze: ClassVar[Any] = staticmethod(freeze)
    act_blind: ClassVar[Any] = staticmethod(act_blind)
    act_informed: ClassVar[Any] = staticmethod(act_informed)

    def __post_init__(self) -> None:
        checks.keep(self, inflation=checks.real("inflation", self.inflation, least=0.0, most=1e6))

    def numbers(self, use: Use) -> Mapping[str, float]:
        """The scale of the draws, inflation times R."""
        return {"scale": self.inflation * float(use.problem.noise_sd)}
