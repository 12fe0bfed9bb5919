"""LearningPrimalDual (PD2, Algorithm 1): as PD1, and the more when stale advice differs from fresh advice.

With the tolerance beta = beta_0 / sqrt(t) and n the distance between the fresh and the stale action's blind features:

- if n > 0, beta < n, gap > 0 and gap - y > 0: boost = 1 - beta/n (that is n e); otherwise boost = 0 and beta = n;
- if y < 1 and gap - y + boost > 0: beta <- max(beta, n (1 - B + spent)), z = gap - y + boost,
  o = min(gap + boost, B - spent, 1) and y moves as in PD1; else o = z = 0 and beta = n.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

from opportune import checks
from opportune.algorithm.budget import raise_price, spent_so_far
from opportune.engine.compiled import dual_function, inner_function
from opportune.engine.declared import Declares, Numbers
from opportune.engine.hooks import REVEALERS
from opportune.revealers.base import ScaledRevealer, Use


class Settings(NamedTuple):
    """The setting in numbers."""

    tolerance: Annotated[Numbers, 1]  # beta_0


@dual_function
def learning_primal_dual(gap, disagreement, tolerance, price, spent, budget):  # type: ignore[no-untyped-def]
    """Algorithm 1: (o, z, boost, beta) with boost = n e and the final beta, for which n (1 - o) <= beta holds.

    `disagreement` is n, `tolerance` the initial beta.
    """
    n = disagreement
    if n > 0.0 and tolerance < n and gap > 0.0 and gap - price > 0.0:
        boost = 1.0 - tolerance / n
        beta = tolerance
    else:
        boost = 0.0
        beta = n
    if price < 1.0 and gap - price + boost > 0.0:
        beta = max(beta, n * (1.0 - budget + spent))
        return max(0.0, min(gap + boost, budget - spent, 1.0)), gap - price + boost, boost, beta
    return 0.0, 0.0, 0.0, n


@inner_function
def consult(p, own, moment, judged):  # type: ignore[no-untyped-def]
    """The probability of a reveal and the final tolerance; moves the price."""
    tolerance = own.settings.tolerance[0] / math.sqrt(moment.step)
    price, spent, amount = p.budget.price[0], spent_so_far(p), p.rule.amount[0]
    o, _, _, beta = learning_primal_dual(judged.gap, judged.disagreement, tolerance, price, spent, amount)
    raise_price(p, o)
    return o, beta


@REVEALERS.add
@dataclass(frozen=True, kw_only=True)
class LearningPrimalDual(ScaledRevealer):
    """PD2, Algorithm 1: as PD1, and the more when the recommender's stale action differs from the fresh one.

    `tolerance` is beta_0; unless given it is the paper's 1.2 Dmin ln(10) sqrt(10) / ln(B).
    """

    tolerance: float | None = None
    label: ClassVar[str] = "PD2"
    kind: ClassVar[str] = "PD2"
    declares: ClassVar[Declares] = Declares(settings=Settings)
    auxiliary: ClassVar[Literal["price"]] = "price"
    consult: ClassVar[Any] = staticmethod(consult)

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.tolerance is not None:
            checks.keep(self, tolerance=checks.real("tolerance", self.tolerance, least=0.0))

    def numbers(self, use: Use) -> Mapping[str, float]:
        """beta_0."""
        if self.tolerance is not None:
            return {"tolerance": self.tolerance}
        return {"tolerance": paper_tolerance(use.problem.least_distance, use.budget)}


def paper_tolerance(least_distance: float, budget: float) -> float:
    """beta_0 = 1.2 Dmin ln(10) sqrt(10) / ln(B), infinite for B <= 1: the rule then is PD1's."""
    if budget <= 1.0:
        return math.inf
    return 1.2 * least_distance * math.log(10.0) * math.sqrt(10.0) / math.log(budget)
