"""Never: no reveal but those that are free."""

from dataclasses import dataclass
from typing import Any, ClassVar

from opportune.engine.compiled import inner_function
from opportune.engine.hooks import REVEALERS
from opportune.revealers.base import Revealer


@inner_function
def consult(p, own, moment, judged):  # type: ignore[no-untyped-def]
    """O = 0."""
    return 0.0, 0.0


@REVEALERS.add
@dataclass(frozen=True, kw_only=True)
class Never(Revealer):
    """Never reveal."""

    label: ClassVar[str] = "never"
    kind: ClassVar[str] = "never"
    needs_budget: ClassVar[bool] = False
    spends: ClassVar[bool] = False
    consult: ClassVar[Any] = staticmethod(consult)
