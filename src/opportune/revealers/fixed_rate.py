"""FixedRate, the paper's naive revealer: probability B/T at every step, whatever the context."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

from opportune.algorithm.budget import spent_so_far
from opportune.engine.compiled import inner_function
from opportune.engine.declared import Declares, Numbers
from opportune.engine.hooks import REVEALERS
from opportune.revealers.base import Revealer, Use


class Settings(NamedTuple):
    """The setting in numbers."""

    rate: Annotated[Numbers, 1]


@inner_function
def consult(p, own, moment, judged):  # type: ignore[no-untyped-def]
    """O = B/T, as far as the budget goes."""
    return max(0.0, min(own.settings.rate[0], p.rule.amount[0] - spent_so_far(p))), 0.0


@REVEALERS.add
@dataclass(frozen=True, kw_only=True)
class FixedRate(Revealer):
    """The paper's naive revealer: probability B/T at every step."""

    label: ClassVar[str] = "naive"
    kind: ClassVar[str] = "naive"
    declares: ClassVar[Declares] = Declares(settings=Settings)
    auxiliary: ClassVar[Literal["rate"]] = "rate"
    consult: ClassVar[Any] = staticmethod(consult)

    def numbers(self, use: Use) -> Mapping[str, float]:
        """The rate B/T."""
        return {"rate": use.budget / use.decisions}
