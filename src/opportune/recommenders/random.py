"""RandomAction, a reference: every action equally likely, whatever the context."""

from dataclasses import dataclass
from typing import Any, ClassVar

from opportune.algorithm.rng import TREATMENT, draw
from opportune.engine.compiled import inner_function
from opportune.engine.hooks import RECOMMENDERS
from opportune.recommenders.base import Recommender


@inner_function
def act(p, own, moment, draws):  # type: ignore[no-untyped-def]
    """The action that the step's draw falls on."""
    chance = draw(draws.seed, draws.stream, moment.step, TREATMENT)
    return min(int(chance * p.sizes.actions), p.sizes.actions - 1)


@RECOMMENDERS.add
@dataclass(frozen=True, kw_only=True)
class RandomAction(Recommender):
    """A reference recommender: every action equally likely, whatever the context."""

    kind: ClassVar[str] = "random"
    act_blind: ClassVar[Any] = staticmethod(act)
    act_informed: ClassVar[Any] = staticmethod(act)
