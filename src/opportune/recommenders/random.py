"""EqualCoins: every allowed action with equal probability, in any context."""

from dataclasses import dataclass
from typing import Any, ClassVar

from opportune.engine.compiled import inner_function
from opportune.engine.declared import EQUAL
from opportune.engine.hooks import RECOMMENDERS
from opportune.recommenders.base import Recommender


@inner_function
def act(p, own, moment, draws):  # type: ignore[no-untyped-def]
    """Leave the choice to the core, which draws each allowed action with equal probability (algorithm.chances)."""
    return 0


@RECOMMENDERS.add
@dataclass(frozen=True, kw_only=True)
class EqualCoins(Recommender):
    """Every allowed action with equal probability, in any context: a reference, and the actions of a control arm."""

    kind: ClassVar[str] = "random"
    chances: ClassVar[int] = EQUAL
    act_blind: ClassVar[Any] = staticmethod(act)
    act_informed: ClassVar[Any] = staticmethod(act)
