"""PrimalDual (PD1, Algorithm C.1): reveal when the gap beats a price that rises with spending.

With price y, budget B and c = (1 + 1/B)^B: if y < 1 and gap - y > 0,

    o = min(gap, B - spent, 1),   y <- y (1 + o/B) + o / ((c - 1) B);   else o = 0.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from opportune.algorithm.budget import raise_price, spent_so_far
from opportune.engine.compiled import dual_function, inner_function
from opportune.engine.hooks import REVEALERS
from opportune.revealers.base import ScaledRevealer


@dual_function
def primal_dual(gap, price, spent, budget):  # type: ignore[no-untyped-def]
    """Algorithm C.1: (o, z) with o as above and the dual variable z = gap - y, or 0 and 0."""
    if price < 1.0 and gap - price > 0.0:
        return max(0.0, min(gap, budget - spent, 1.0)), gap - price
    return 0.0, 0.0


@inner_function
def consult(p, own, moment, judged):  # type: ignore[no-untyped-def]
    """The probability of a reveal; moves the price."""
    o = primal_dual(judged.gap, p.budget.price[0], spent_so_far(p), p.rule.amount[0])[0]
    raise_price(p, o)
    return o, 0.0


@REVEALERS.add
@dataclass(frozen=True, kw_only=True)
class PrimalDual(ScaledRevealer):
    """PD1, Algorithm C.1: reveal when the gap beats the price; the price rises with spending."""

    label: ClassVar[str] = "PD1"
    kind: ClassVar[str] = "PD1"
    auxiliary: ClassVar[Literal["price"]] = "price"
    consult: ClassVar[Any] = staticmethod(consult)
