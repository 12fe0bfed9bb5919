"""FixedRate, the paper's naive revealer: probability B/T at every step, whatever the context.

T counts the decisions at which a nudge is allowed, as far as that can be known.
"""

from dataclasses import dataclass
from typing import Any, ClassVar, Literal

from opportune.algorithm.allowance import allowed_in_all
from opportune.algorithm.budget import spent_so_far
from opportune.engine.compiled import inner_function
from opportune.engine.hooks import REVEALERS
from opportune.revealers.base import Revealer


@inner_function
def consult(p, own, moment, judged):  # type: ignore[no-untyped-def]
    """O = B/T, as far as the budget goes."""
    rate = p.rule.amount[0] / max(1.0, allowed_in_all(p))
    return max(0.0, min(1.0, rate, p.rule.amount[0] - spent_so_far(p))), 0.0


@REVEALERS.add
@dataclass(frozen=True, kw_only=True)
class FixedRate(Revealer):
    """The paper's naive revealer: probability B/T at every step."""

    label: ClassVar[str] = "naive"
    kind: ClassVar[str] = "naive"
    auxiliary: ClassVar[Literal["rate"]] = "rate"
    consult: ClassVar[Any] = staticmethod(consult)
