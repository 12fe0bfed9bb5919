"""Periodic: a reveal at every so-many-th step while the budget lasts."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, NamedTuple

from opportune import checks
from opportune.algorithm.budget import spent_so_far
from opportune.engine.compiled import inner_function
from opportune.engine.declared import Declares, Numbers
from opportune.engine.hooks import REVEALERS
from opportune.revealers.base import Revealer, Use


class Settings(NamedTuple):
    """The setting in numbers."""

    every: Annotated[Numbers, 1]


@inner_function
def consult(p, own, moment, judged):  # type: ignore[no-untyped-def]
    """O = 1 at steps `every`, 2 `every`, ..., as far as the budget goes."""
    if moment.step % int(own.settings.every[0]) != 0:
        return 0.0, 0.0
    return max(0.0, min(1.0, p.rule.amount[0] - spent_so_far(p))), 0.0


@REVEALERS.add
@dataclass(frozen=True, kw_only=True)
class Periodic(Revealer):
    """Reveal at steps `every`, 2 `every`, ... while the budget lasts."""

    every: int
    label: ClassVar[str] = "periodic"
    kind: ClassVar[str] = "periodic"
    needs_budget: ClassVar[bool] = False
    declares: ClassVar[Declares] = Declares(settings=Settings)
    consult: ClassVar[Any] = staticmethod(consult)

    def __post_init__(self) -> None:
        checks.keep(self, every=checks.whole("every", self.every, least=1, most=2**31))

    def numbers(self, use: Use) -> Mapping[str, float]:
        """Every how many steps."""
        return {"every": float(self.every)}
