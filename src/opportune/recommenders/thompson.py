"""Thompson sampling: act as if a parameter drawn from the frozen estimate were true.

At every step, with L L' = V^-1 at the last reveal (a triangular root) and e standard normal,

    theta~ = theta + inflation R L e,   the action argmax_a <x(a), theta~>,

x(a) the blind features, or the full ones at a reveal. That is the posterior of a Gaussian model with noise sd R and
prior N(0, R^2/lam I); `inflation` widens it. The draws are those of the counter-based generator, so that an auditor
can repeat them.
"""

import math
from dataclasses import dataclass
from typing import Any, ClassVar

from opportune import checks
from opportune.core.compiled import inner_function, step_function
from opportune.core.layout import KNOWN
from opportune.core.model import best
from opportune.core.rng import SAMPLE, draw, normal
from opportune.core.scores import cover, write_means
from opportune.recommenders.base import Recommender


@inner_function
def freeze(p):  # type: ignore[no-untyped-def]
    """The triangular root of the frozen V^-1."""
    write_root(p.sizes, p.snapshot)


@step_function
def write_root(n, snapshot):  # type: ignore[no-untyped-def]
    """Cholesky: root[i, :i + 1] with root root' = cov, by the upper triangle of cov."""
    d, root, cov = n.d, snapshot.root, snapshot.cov
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
def sample(n, snapshot, scratch, scale, draws, step):  # type: ignore[no-untyped-def]
    """Write theta~ = theta + scale L e to scratch.theta."""
    for i in range(n.d):
        scratch.theta[i] = snapshot.theta[i]
    for k in range(n.d):
        e = scale * normal(draw(draws.seed, draws.stream, step, SAMPLE + k))
        for i in range(k, n.d):
            scratch.theta[i] += snapshot.root[i * n.stride + k] * e


@inner_function
def best_by_sample(n, scratch, source, place):  # type: ignore[no-untyped-def]
    """argmax_a <x(a), theta~> for the block of vectors at source[place]."""
    for a in range(n.actions):
        total = 0.0
        for i in range(n.d):
            total += source[place + a * n.d + i] * scratch.theta[i]
        scratch.ucb[a] = total
    return best(n, scratch.ucb)[1]


@inner_function
def act_blind(p, moment, draws):  # type: ignore[no-untyped-def]
    """By the blind features that were frozen."""
    n = p.sizes
    sample(n, p.snapshot, p.scratch, p.rule.options[0], draws, moment.step)
    if n.contexts > 0 and n.probabilities == KNOWN:
        return best_by_sample(n, p.scratch, p.constants.rows, (n.contexts + moment.stratum) * n.block)
    write_means(n, p.constants, p.snapshot, p.scratch, moment.stratum)
    return best_by_sample(n, p.scratch, p.scratch.blind, 0)


@inner_function
def act_informed(p, moment, draws):  # type: ignore[no-untyped-def]
    """By the full features, or the sensed ones where reported values are missing."""
    n = p.sizes
    sample(n, p.snapshot, p.scratch, p.rule.options[0], draws, moment.step)
    if n.contexts == 0:
        if moment.context < 0:
            cover(n, p.constants, p.counts, p.scratch.x, moment.stratum)
        return best_by_sample(n, p.scratch, p.scratch.x, 0)
    if moment.context >= 0:
        return best_by_sample(n, p.scratch, p.constants.rows, moment.context * n.block)
    if n.probabilities == KNOWN:
        place = (n.contexts + n.strata + moment.sense) * n.block
        return best_by_sample(n, p.scratch, p.constants.rows, place)
    write_means(n, p.constants, p.counts, p.scratch, n.strata + moment.sense)
    return best_by_sample(n, p.scratch, p.scratch.blind, 0)


@dataclass(frozen=True, kw_only=True)
class Thompson(Recommender):
    """Thompson sampling, linear and Gaussian: acts by a parameter drawn from what was known at the last reveal.

    `inflation` multiplies the standard deviation of the draws; 1 is the posterior of a Gaussian model.
    """

    inflation: float = 1.0
    kind: ClassVar[str] = "thompson"
    sampled: ClassVar[bool] = True
    freeze: ClassVar[Any] = staticmethod(freeze)
    act_blind: ClassVar[Any] = staticmethod(act_blind)
    act_informed: ClassVar[Any] = staticmethod(act_informed)

    def __post_init__(self) -> None:
        checks.real("inflation", self.inflation, least=0.0, most=1e6)

    def numbers(self, problem: Any) -> tuple[float, ...]:
        """The scale of the draws, inflation times R."""
        return (self.inflation * float(problem.noise_sd),)
