"""Always: a reveal at every step while the budget lasts."""

from dataclasses import dataclass
from typing import Any, ClassVar

from opportune.algorithm.budget import spent_so_far
from opportune.engine.compiled import inner_function
from opportune.engine.hooks import REVEALERS
from opportune.revealers.base import Revealer


@inner_function
def consult(p, own, moment, judged):  # type: ignore[no-untyped-def]
    """O = 1, as far as the budget goes."""
    return max(0.0, min(1.0, p.rule.amount[0] - spent_so_far(p))), 0.0


@REVEALERS.add
@dataclass(frozen=True, kw_only=True)
class Always(Revealer):
    """Reveal at every step while the budget lasts."""

    label: ClassVar[str] = "always"
    kind: ClassVar[str] = "always"
    needs_budget: ClassVar[bool] = False
    consult: ClassVar[Any] = staticmethod(consult)
