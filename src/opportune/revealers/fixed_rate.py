"""FixedRate, the paper's naive revealer: probability B/T at every step, whatever the context."""

from dataclasses import dataclass
from typing import Any, ClassVar

from opportune.algorithm.budget import spent_so_far
from opportune.engine.compiled import inner_function
from opportune.revealers.base import Revealer


@inner_function
def consult(p, moment, judged):  # type: ignore[no-untyped-def]
    """O = B/T, as far as the budget goes."""
    return max(0.0, min(p.rule.settings[0], p.rule.amount[0] - spent_so_far(p))), 0.0


@dataclass(frozen=True, kw_only=True)
class FixedRate(Revealer):
    """The paper's naive revealer: probability B/T at every step."""

    label: ClassVar[str] = "naive"
    kind: ClassVar[str] = "naive"
    consult: ClassVar[Any] = staticmethod(consult)

    def numbers(self, problem: Any, *, budget: float, decisions: int, horizon: int) -> tuple[float, ...]:
        """The rate B/T."""
        return (budget / decisions,)
