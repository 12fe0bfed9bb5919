"""LinUCB, the paper's recommender: the action with the largest upper confidence bound (docs/paper.md).

    A = argmax_a <x(a), theta> + kappa radius ||x(a)||_{V^-1}

with the full features at a reveal. Blind actions use the blind features and the snapshot of the last reveal. With
finite contexts they cannot change until the next reveal, so they are computed once, for each public stratum.

With rotation (docs/pace.md), blind actions also depend on earlier ones, but not on their rewards: V_h = V at a reveal,
and after a blind action V_h += bar bar', so that blind steps try every plausible action and one reveal teaches about
all of them. Once no reveal can teach anything about the actions it tries, it stops exploring.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, NamedTuple

from opportune import checks
from opportune.algorithm.budget import LEAST_LEFT, budget_left
from opportune.algorithm.model import best
from opportune.algorithm.scores import score_blind, score_full
from opportune.algorithm.snapshot import score_frozen, shrink_frozen
from opportune.engine.compiled import inner_function
from opportune.engine.declared import ACTION, CERTAIN, Declares, Numbers
from opportune.engine.hooks import RECOMMENDERS
from opportune.errors import InputError
from opportune.recommenders.base import Recommender, check_floor
from opportune.revealers.base import Use

UNKNOWN = ("plugin", "optimistic")
RADII = ("uniform", "pointwise")


class Settings(NamedTuple):
    """The settings as numbers."""

    resigned: Annotated[Numbers, 1]  # 1: stops exploring once nothing more can be learned


class State(NamedTuple):
    """The results computed at the last reveal."""

    action: Annotated[Numbers, "standing", ACTION]  # the blind action of each stratum, without rotation


@inner_function
def freeze(p, own):  # type: ignore[no-untyped-def]
    """Compute the blind action of each stratum; the model still equals the snapshot."""
    n = p.sizes
    if n.contexts > 0 and n.rotating == 0:
        for stratum in range(n.strata):
            score_blind(p, stratum, p.rule.kappa[0] * p.model.radius[0])
            own.state.action[stratum] = best(n, p.scratch.ucb)[1]


@inner_function
def act_blind(p, own, moment, draws):  # type: ignore[no-untyped-def]
    """A_stale = argmax_a <bar(z, a), theta> + kap radius ||bar(z, a)|| from the snapshot."""
    n = p.sizes
    if n.contexts > 0 and n.rotating == 0:
        return int(own.state.action[moment.stratum])
    kap = p.rule.kappa[0]
    only_by_nudges = p.contacts.last_reveal[0] > 0.0 and p.contacts.opened[0] == 0.0
    if own.settings.resigned[0] > 0.0 and only_by_nudges and budget_left(p) <= LEAST_LEFT:
        kap = 0.0
    score_frozen(p, moment.stratum, kap * p.snapshot.radius[0])
    return best(n, p.scratch.ucb)[1]


@inner_function
def act_informed(p, own, moment, draws):  # type: ignore[no-untyped-def]
    """argmax_a ucb(phi(s, a)): at a reveal the recommender knows what the revealer knows."""
    score_full(p, moment, p.rule.kappa[0] * p.model.radius[0])
    return best(p.sizes, p.scratch.ucb)[1]


@inner_function
def after_blind(p, own, moment, action):  # type: ignore[no-untyped-def]
    """With rotation, the action counts as tried."""
    if p.sizes.rotating > 0:
        shrink_frozen(p, moment.stratum, action)


@RECOMMENDERS.add
@dataclass(frozen=True, kw_only=True)
class LinUCB(Recommender):
    """The recommender of the paper: linear UCB.

    `unknown` selects how to handle an unknown context distribution: "plugin" uses observed frequencies, "optimistic"
    maximises over a confidence set around them, as the paper states it (its Appendix F). With `rotate`, blind steps
    take turns among the actions that may be best, instead of repeating one until the next reveal. `kappa` multiplies
    the confidence radius in the choice of actions: less than 1 explores less. `radius` is "uniform", the paper's, or
    "pointwise", which is smaller and has no guarantee (docs/pace.md). `floor` is the least probability of every allowed
    action, so that effects of actions can be estimated afterwards.
    """

    unknown: str = "plugin"
    rotate: bool = False
    kappa: float = 1.0
    radius: str = "uniform"
    floor: float | None = None
    kind: ClassVar[str] = "linucb"
    chances: ClassVar[int] = CERTAIN
    declares: ClassVar[Declares] = Declares(settings=Settings, state=State)
    freeze: ClassVar[Any] = staticmethod(freeze)
    act_blind: ClassVar[Any] = staticmethod(act_blind)
    act_informed: ClassVar[Any] = staticmethod(act_informed)
    after_blind: ClassVar[Any] = staticmethod(after_blind)

    def __post_init__(self) -> None:
        checks.keep(self, unknown=checks.choice("unknown", self.unknown, UNKNOWN))
        checks.keep(self, rotate=checks.yes_no("rotate", self.rotate))
        checks.keep(self, kappa=checks.real("kappa", self.kappa, least=0.0, most=1e6))
        checks.keep(self, radius=checks.choice("radius", self.radius, RADII))
        checks.keep(self, floor=check_floor(self.floor))
        if self.rotate and self.unknown == "optimistic":
            raise InputError("rotate goes with unknown='plugin'; the optimistic search has no features to rotate over")

    def numbers(self, use: Use) -> Mapping[str, float]:
        """Whether it stops exploring once nothing more can be learned."""
        return {"resigned": float(self.rotate and use.resigned)}
