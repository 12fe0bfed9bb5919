"""Rules that a reviewer would compare with PACE, as revealers of their own; importing this module registers them.

Let G be the gains and F the debt of PACE (revealers.pace), g = G(q_t) + F (F only if `debt` is set), above = P(G > g),
tied = P(G = g), rho the share of future moments that the budget can pay for, and c a constant of each rule:

    resolve         x = 1 if above + c tied <= rho: the quantile of gaps that the rest of the budget can pay for
    LP coin         x = clip((rho - above) / tied, 0, 1): that linear program's own answer, a coin
    dual gradient   x = 1 if g / max G > y;   y <- max(0, y + c (x - B/T) / sqrt(T))
    mirror descent  x = 1 if g / max G > y;   y <- y exp(c (x - B/T))
    CBM             x = 1 if G > 0 and r_rec ||bar(z, A_stale)|| > c / sqrt(budget left), the width as it stands
    intervals       x = 1 if G > 0 and the last reveal is at least c T/B steps ago
    information     PACE with g + c/2 ln(det V_rev / det V_rec)
    Whittle-like    x = 1 for the (left / steps to come) largest g of all who share the budget, each as of its last step
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, NamedTuple

from opportune.algorithm.allowance import allowed_to_come
from opportune.extend import (
    COUNT,
    NOT_NEGATIVE,
    SHARE,
    Declares,
    InputError,
    Numbers,
    Revealer,
    Use,
    budget_left,
    checks,
    inner_function,
    register,
    score_frozen,
    step_function,
)
from opportune.revealers.gains import count_ranked, rank, stale_loss, write_all_gains
from opportune.revealers.pace import FADE, VALUES
from opportune.revealers.ranking import affordable, served, smoothed, standing

NAMES = (
    "resolve", "LP coin", "dual gradient", "mirror descent", "CBM", "intervals", "information", "Whittle-like",
)  # fmt: skip
RESOLVE, COIN, DUAL, MIRROR, CBM, INTERVALS, INFORMATION, WHITTLE = range(len(NAMES))
FIRST_PRICE = 0.5  # of mirror descent, which never leaves 0
LEAST = 1e-9


class Settings(NamedTuple):
    """The settings as numbers."""

    rule: Annotated[Numbers, 1]
    constant: Annotated[Numbers, 1]
    indebted: Annotated[Numbers, 1]
    realised: Annotated[Numbers, 1]
    recent: Annotated[Numbers, 1]
    horizon: Annotated[Numbers, 1]
    fading: Annotated[Numbers, 1]  # always 1: contexts are counted


class State(NamedTuple):
    """The state of a participant; its latter half is the basis of gains, as in PACE."""

    debt: Annotated[Numbers, 1]
    price: Annotated[Numbers, 1, NOT_NEGATIVE]
    known: Annotated[Numbers, 1, NOT_NEGATIVE]  # ln det V at the last reveal
    tally: Annotated[Numbers, "faded", NOT_NEGATIVE]
    recent: Annotated[Numbers, "none", "actions", "d"]
    recent_stratum: Annotated[Numbers, "none", COUNT]
    recent_forbidden: Annotated[Numbers, "none", 2, "actions", SHARE]
    recent_count: Annotated[Numbers, 1, COUNT]


class Shared(NamedTuple):
    """What participants who share the budget know of each other, each as of its latest step."""

    gain: Annotated[Numbers, "sharers", "ranked"]
    odds: Annotated[Numbers, "sharers", "ranked", SHARE]
    worth: Annotated[Numbers, "sharers"]


class Scratch(NamedTuple):
    """Scratch space."""

    base: Annotated[Numbers, "strata"]
    greedy: Annotated[Numbers, "strata"]


@step_function
def consult(p, own, moment, judged):  # type: ignore[no-untyped-def]
    """The probability x according to the chosen rule."""
    state, rule, c = own.state, int(own.settings.rule[0]), own.settings.constant[0]
    left, amount = budget_left(p), p.rule.amount[0]
    gain = write_all_gains(p, own, moment)
    loss, greedy = stale_loss(p, own, moment, judged.stale_action)
    if judged.fresh_action != judged.stale_action and own.settings.indebted[0] > 0.0:
        state.debt[0] += loss
    worth = gain + state.debt[0]
    if rule == INFORMATION:
        worth += 0.5 * c * max(0.0, p.model.log_det[0] - state.known[0])
    to_come = allowed_to_come(p)
    share = affordable(left, to_come)
    above, tied, most = rank(p, own, worth)
    x = 0.0
    if rule == RESOLVE:
        x = 1.0 if above + c * tied <= share else 0.0
    elif rule == COIN:
        x = smoothed(worth, above, tied, share)
    elif rule in (DUAL, MIRROR):
        x = priced(own, worth / max(most, LEAST), rule, c, amount / p.rule.decisions[0])
    elif rule == CBM:
        x = 1.0 if gain > LEAST and stale_width(p, moment, judged) > c / math.sqrt(max(left, LEAST)) else 0.0
    elif rule == INTERVALS:
        each = own.settings.horizon[0] * p.rule.sharers[0] / amount
        x = 1.0 if gain > LEAST and moment.step - p.contacts.last_reveal[0] >= c * each else 0.0
    elif rule == INFORMATION:
        x = served(standing(worth, above, tied, judged.fresh_action == greedy), share)
    else:
        x = largest(p, own, worth, left, to_come)
    if (worth <= LEAST and rule != CBM) or left <= LEAST:
        x = 0.0
    return max(0.0, min(x, left)), 0.0


@inner_function
def priced(own, worth, rule, step_size, share):  # type: ignore[no-untyped-def]
    """Dual descent: nudge where the worth exceeds the price, which rises with every nudge and falls without."""
    price = own.state.price[0]
    if rule == MIRROR and price == 0.0:
        price = FIRST_PRICE
    x = 1.0 if worth > price else 0.0
    if rule == DUAL:
        price = max(0.0, price + step_size * (x - share) / math.sqrt(own.settings.horizon[0]))
    else:
        price = max(1e-12, price * math.exp(step_size * (x - share)))
    own.state.price[0] = price
    return x


@inner_function
def stale_width(p, moment, judged):  # type: ignore[no-untyped-def]
    """r_rec ||bar(z, A_stale)|| from the snapshot."""
    score_frozen(p, moment.stratum, p.snapshot.radius[0])
    upper = p.scratch.ucb[judged.stale_action]
    score_frozen(p, moment.stratum, 0.0)
    return upper - p.scratch.ucb[judged.stale_action]


@inner_function
def largest(p, own, worth, left, to_come):  # type: ignore[no-untyped-def]
    """Whether g is among the largest of all who share the budget, as many as future steps can have; or a coin."""
    members, member = int(p.rule.sharers[0]), int(p.rule.member[0])
    own.shared.worth[member] = worth
    better = 0.0
    for i in range(members):
        better += own.shared.worth[i] > worth
    each_step = left / max(1.0, to_come / members)
    return min(1.0, max(0.0, each_step - better))


@step_function
def conclude(p, own, moment, judged, nudged, revealed):  # type: ignore[no-untyped-def]
    """A reveal pays the debt; contexts are counted if their distribution is unknown."""
    if revealed:
        own.state.debt[0] = 0.0
        own.state.known[0] = p.model.log_det[0]
    if own.settings.fading[0] > 0.0:
        for q in range(count_ranked(p, own)):
            own.state.tally[q] *= FADE
        own.state.tally[moment.sense] += 1.0


@register
@dataclass(frozen=True, kw_only=True)
class Rival(Revealer):
    """One of these rules with its constant."""

    rule: str
    constant: float = 0.0
    debt: bool = False
    value: str = "paper"
    label: ClassVar[str] = "rival"
    kind: ClassVar[str] = "rival"
    resigned: ClassVar[bool] = True
    declares: ClassVar[Declares] = Declares(Settings, State, Shared, Scratch)
    consult: ClassVar[Any] = staticmethod(consult)
    conclude: ClassVar[Any] = staticmethod(conclude)

    def __post_init__(self) -> None:
        checks.keep(self, rule=checks.choice("rule", self.rule, NAMES))
        checks.keep(self, constant=checks.real("constant", self.constant, least=0.0))
        checks.keep(self, debt=checks.yes_no("debt", self.debt))
        checks.keep(self, value=checks.choice("value", self.value, VALUES))

    def numbers(self, use: Use) -> Mapping[str, float]:
        """The value of each setting."""
        return {
            "rule": NAMES.index(self.rule), "constant": self.constant, "indebted": float(self.debt),
            "realised": float(self.value == "realised"), "recent": 0.0, "horizon": use.horizon,
            "fading": float(use.problem.context_probs is None),
        }  # fmt: skip

    def extents(self, use: Use) -> Mapping[str, int]:
        """Space to rank moments, of which there must be finitely many."""
        if use.sizes.contexts == 0:
            raise InputError("a rival was given contexts that are not finite; expected finitely many")
        parts = use.sizes.senses or use.sizes.contexts
        unknown = use.problem.context_probs is None
        return {"sharers": use.sharers, "ranked": parts, "faded": parts if unknown else 0, "none": 0}
