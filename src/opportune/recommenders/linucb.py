"""LinUCB, the paper's recommender: the action with the largest upper confidence bound (SPEC sections 2 and 3).

Blindly it acts by argmax_a ucb(bar(z, a)) under what it froze at the last reveal. Where contexts are finite that
cannot change until the next reveal, so it is worked out once, for each public stratum.
"""

from dataclasses import dataclass
from typing import Any, ClassVar

from opportune import checks
from opportune.core.compiled import inner_function
from opportune.core.model import best
from opportune.core.scores import score_blind, score_full
from opportune.core.snapshot import score_frozen
from opportune.recommenders.base import Recommender

UNKNOWN = ("plugin", "optimistic")


@inner_function
def freeze(p):  # type: ignore[no-untyped-def]
    """The blind action of each stratum; the model still is what was just frozen."""
    n = p.sizes
    if n.contexts > 0:
        for stratum in range(n.strata):
            score_blind(p, stratum)
            p.snapshot.action[stratum] = best(n, p.scratch.ucb)[1]


@inner_function
def act_blind(p, moment, draws):  # type: ignore[no-untyped-def]
    """A_stale = argmax_a ucb(bar(z, a)) under what was frozen."""
    n = p.sizes
    if n.contexts > 0:
        return int(p.snapshot.action[moment.stratum])
    score_frozen(p, moment.stratum)
    return best(n, p.scratch.ucb)[1]


@inner_function
def act_informed(p, moment, draws):  # type: ignore[no-untyped-def]
    """argmax_a ucb(phi(s, a)): at a reveal the recommender knows what the revealer knows."""
    score_full(p, moment)
    return best(p.sizes, p.scratch.ucb)[1]


@dataclass(frozen=True, kw_only=True)
class LinUCB(Recommender):
    """The recommender of the paper: linear UCB.

    `unknown` says what to do where the context distribution is not known: "plugin" goes by observed frequencies,
    "optimistic" maximises over a confidence set around them, as the paper states it (its Appendix F).
    """

    unknown: str = "plugin"
    kind: ClassVar[str] = "linucb"
    freeze: ClassVar[Any] = staticmethod(freeze)
    act_blind: ClassVar[Any] = staticmethod(act_blind)
    act_informed: ClassVar[Any] = staticmethod(act_informed)

    def __post_init__(self) -> None:
        checks.choice("unknown", self.unknown, UNKNOWN)
