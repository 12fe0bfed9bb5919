"""Pace (docs/pace.md): nudge when this moment is among the best that the rest of the budget can be spent on.

With m(x) = <x, theta>, b(z) = argmax_a m(bar(z, a)) and the gain of a reveal in a moment whose sensed part is q

    G(q) = max_a m(sen(q, a)) - m(bar(z, b(z)))                 (value = "paper")
    G(q) = max_a m(sen(q, a)) - m(sen(q, b(z)))                 (value = "realised")

and the debt F, what acting on stale advice has cost since the last reveal, as estimated (ski rental)

    F += m(bar(z, b(z))) - m(bar(z, A_stale))   where A_fresh != A_stale;   F = 0 at a reveal,

the moment is worth g = G(q) + F. It is ranked among the moments to expect, above = P(G > g) and tied = P(G = g),
against the share of them that the budget can still pay for,

    rho = min(1, left / max(1, (1 - h) decisions to come)),   h the share of decision points opened unasked so far,

    x = 1  if g > 0 and (above + tied/4 <= rho, or above = 0 and A_fresh = b(z) with finitely many contexts).

Besides: with reported variables reveals on a geometric grid, since nothing is learned in between; after the j-th
unanswered nudge in a row peace for j steps; optionally a coin (`randomise`) and a guard against orders in which good
moments stop coming (`guard`). With theta and p known and independent arrivals this is the budget-ratio policy of
Arlotto and Gurvich (2019), whose regret stays bounded as T grows; the primal-dual rules' competitive ratio against
adversarial orders is lost.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

from opportune import checks
from opportune.algorithm.budget import LEAST_LEFT, budget_left
from opportune.algorithm.model import TIE
from opportune.engine.compiled import inner_dual_function, inner_function, step_function
from opportune.engine.declared import AMOUNT, COUNT, KNOWN, NOT_NEGATIVE, SHARE, STRATUM, Declares, Numbers
from opportune.engine.hooks import REVEALERS
from opportune.revealers.base import Revealer, Use
from opportune.revealers.gains import count_ranked, rank, stale_loss, write_all_gains
from opportune.revealers.guard import guarded

VALUES = ("paper", "realised")
RANK_TIE = 1e-9  # shares of moments this close count as equal, and so do times on the grid
TIE_WEIGHT = 0.25
LEAST_RATIO = 3.0  # between two reveals on the geometric grid
FADE = 2.0 ** (-1.0 / 15.0)  # counts of sensed parts halve every 15 steps
LEAST_RECENT, MOST_RECENT = 64, 4096

# Why it answered as it did.
BY_RANK, WAITING, BY_GRID, BY_GUARD, SPENT = range(5)


class Settings(NamedTuple):
    """The settings in numbers."""

    randomise: Annotated[Numbers, 1]  # eps; 0: no coin
    realised: Annotated[Numbers, 1]  # 1: value = "realised"
    guard: Annotated[Numbers, 1]  # c; 0: no guard
    indebted: Annotated[Numbers, 1]  # 0: without the debt
    horizon: Annotated[Numbers, 1]  # T
    recent: Annotated[Numbers, 1]  # moments that are remembered, contexts not finite


class State(NamedTuple):
    """What it remembers of a participant."""

    debt: Annotated[Numbers, 1]  # F
    unanswered: Annotated[Numbers, 1, COUNT]  # nudges in a row
    wait: Annotated[Numbers, 1, COUNT]  # steps for which the patient is left in peace
    tally: Annotated[Numbers, "faded", NOT_NEGATIVE]  # sensed parts seen lately: counts that fade
    recent: Annotated[Numbers, "recent", "actions", "d"]  # features of recent moments, contexts not finite
    recent_stratum: Annotated[Numbers, "recent", STRATUM]
    recent_count: Annotated[Numbers, 1, COUNT]  # how many there have been


class Shared(NamedTuple):
    """What participants who share a budget must know of each other: a row each, as of its latest step."""

    guard_price: Annotated[Numbers, 1, NOT_NEGATIVE]  # of the virtual primal-dual rule beside
    guard_spent: Annotated[Numbers, 1, AMOUNT]
    gain: Annotated[Numbers, "sharers", "ranked"]  # what a reveal would gain in each moment to expect
    odds: Annotated[Numbers, "sharers", "ranked", SHARE]  # and how probable each is


class Scratch(NamedTuple):
    """Room to work in."""

    base: Annotated[Numbers, "strata"]  # the best mean of the blind features of each stratum
    greedy: Annotated[Numbers, "strata"]  # b(z), the action that has it


class Notes(NamedTuple):
    """What it went by at a step."""

    worth: Annotated[Numbers, 1]  # g
    debt: Annotated[Numbers, 1]  # F
    above: Annotated[Numbers, 1]
    tied: Annotated[Numbers, 1]
    share: Annotated[Numbers, 1]  # rho
    to_come: Annotated[Numbers, 1]  # decisions
    left: Annotated[Numbers, 1]  # of the budget
    cause: Annotated[Numbers, 1]  # one of those above


@step_function
def consult(p, own, moment, judged):  # type: ignore[no-untyped-def]
    """Whether this moment is worth a nudge."""
    budget, state, settings, notes = p.budget, own.state, own.settings, own.notes
    left = budget_left(p)
    gain = write_all_gains(p, own, moment)
    loss, greedy = stale_loss(p, own, moment, judged.stale_action)
    if judged.fresh_action != judged.stale_action and settings.indebted[0] > 0.0:
        state.debt[0] += loss
    worth = gain + state.debt[0]
    above, tied, most = rank(p, own, worth)
    opened = budget.opened[0] / budget.points[0] if budget.points[0] > 0.0 else 0.0
    to_come = p.rule.decisions[0] - budget.points[0] - budget.foregone[0]
    share = affordable(left, (1.0 - opened) * to_come)
    x, cause = chosen(p, own, moment, judged.fresh_action == greedy, worth, above, tied, share, left)
    if settings.guard[0] > 0.0 and guarded(p, own, gain, most) and left > LEAST_LEFT:
        x, cause = 1.0, BY_GUARD
    if state.wait[0] > 0.0:
        state.wait[0] -= 1.0
        x, cause = 0.0, WAITING
    if left <= LEAST_LEFT:
        x, cause = 0.0, SPENT
    notes.worth[0] = worth
    notes.debt[0] = state.debt[0]
    notes.above[0] = above
    notes.tied[0] = tied
    notes.share[0] = share
    notes.to_come[0] = to_come
    notes.left[0] = left
    notes.cause[0] = cause
    return max(0.0, min(x, left)), 0.0


@inner_function
def affordable(left, to_come):  # type: ignore[no-untyped-def]
    """The share of the decisions to come that the rest of the budget can pay for, rho."""
    return min(1.0, max(left, 0.0) / max(1.0, to_come))


@inner_function
def standing(worth, above, tied, best_is_served):  # type: ignore[no-untyped-def]
    """Where a moment stands among those to expect: above + tied/4; 2 if nothing is gained by it.

    The best moment stands at 0, so that it is served however little is left, where `best_is_served`.
    """
    if worth <= TIE:
        return 2.0
    return 0.0 if best_is_served and above <= RANK_TIE else above + TIE_WEIGHT * tied


@inner_function
def served(stands, share):  # type: ignore[no-untyped-def]
    """The rule without a coin: 1 for a moment that stands within the share that the budget can pay for, else 0."""
    return 1.0 if stands <= share + RANK_TIE else 0.0


@inner_dual_function
def smoothed(worth, above, tied, share):  # type: ignore[no-untyped-def]
    """The rule with a coin, before the coin: of moments that are equally good, as many as the budget can pay for."""
    if worth <= TIE:
        return 0.0
    if tied > 0.0:
        return min(max((share - above) / tied, 0.0), 1.0)
    return 1.0 if above <= share else 0.0


@inner_function
def chosen(p, own, moment, fresh_is_greedy, worth, above, tied, share, left):  # type: ignore[no-untyped-def]
    """The rule itself: (x, why), before guard, peace and an empty budget have their say."""
    randomise = own.settings.randomise[0]
    if randomise > 0.0:
        x = smoothed(worth, above, tied, share)
    else:
        x = served(standing(worth, above, tied, p.sizes.contexts > 0 and fresh_is_greedy), share)
    cause = BY_RANK
    if p.sizes.reported > 0 and p.contacts.since[0] > 0.0:
        since = max(1.0, p.contacts.last_reveal[0])
        each = max(left, 0.0) / p.rule.sharers[0]
        ratio = max(LEAST_RATIO, (own.settings.horizon[0] / since) ** (1.0 / (each + 1.0)))
        if moment.step >= since * ratio - RANK_TIE:
            x, cause = 1.0, BY_GRID
    if randomise > 0.0:
        x = (1.0 - randomise) * x + randomise * share
    return x, cause


@step_function
def conclude(p, own, moment, judged, nudged, revealed):  # type: ignore[no-untyped-def]
    """How the step ended: a reveal pays the debt; a patient who does not answer is left in peace."""
    n, state = p.sizes, own.state
    if revealed:
        state.debt[0] = 0.0
        state.unanswered[0] = 0.0
        state.wait[0] = 0.0
    elif nudged:
        state.unanswered[0] += 1.0
        state.wait[0] = state.unanswered[0]
    if n.contexts == 0:
        i = int(state.recent_count[0]) % int(own.settings.recent[0])
        for j in range(n.block):
            state.recent[i * n.block + j] = p.scratch.x[j]
        state.recent_stratum[i] = moment.stratum
        state.recent_count[0] += 1.0
    elif n.probabilities != KNOWN:
        for q in range(count_ranked(p, own)):
            state.tally[q] *= FADE
        state.tally[moment.sense] += 1.0


@REVEALERS.add
@dataclass(frozen=True, kw_only=True)
class Pace(Revealer):
    """PACE: nudge when this moment is among the best that the rest of the budget can be spent on.

    `randomise` = eps mixes in a coin of probability eps times the budget's share, so that effects of nudges can be
    estimated afterwards. `value`: "paper" compares with the average context, "realised" with what the advice would be
    for this patient now. `guard` = c runs a primal-dual rule beside and follows it when it has got ahead by c times
    the budget: 1/2 is cheap, 1/3 stronger. `debt` = False leaves out what old advice has cost.
    """

    randomise: float | None = None
    value: str = "paper"
    guard: float | None = None
    debt: bool = True
    label: ClassVar[str] = "PACE"
    kind: ClassVar[str] = "PACE"
    resigned: ClassVar[bool] = True
    rotates: ClassVar[bool] = True
    restraint: ClassVar[str] = (
        "it makes none where it expects nothing from one, and waits for a while after {nudges} that go unanswered"
    )
    declares: ClassVar[Declares] = Declares(Settings, State, Shared, Scratch, Notes)
    consult: ClassVar[Any] = staticmethod(consult)
    conclude: ClassVar[Any] = staticmethod(conclude)

    def __post_init__(self) -> None:
        checks.keep(self, value=checks.choice("value", self.value, VALUES))
        if self.randomise is not None:
            checks.keep(self, randomise=checks.real("randomise", self.randomise, above=0.0, most=1.0))
        if self.guard is not None:
            checks.keep(self, guard=checks.real("guard", self.guard, above=0.0, most=1.0))
        checks.keep(self, debt=checks.yes_no("debt", self.debt))

    def numbers(self, use: Use) -> Mapping[str, float]:
        """Each setting, T, and how many moments are remembered."""
        return {
            "randomise": self.randomise or 0.0,
            "realised": float(self.value == "realised"),
            "guard": self.guard or 0.0,
            "indebted": float(self.debt),
            "horizon": use.horizon,
            "recent": _recent(use),
        }

    def extents(self, use: Use) -> Mapping[str, int]:
        """Room to rank moments: sensed parts or, where contexts are not finite, this moment and the recent ones."""
        n, recent = use.sizes, _recent(use)
        parts = n.senses or n.contexts
        finite = n.contexts > 0
        return {
            "sharers": use.sharers,
            "ranked": parts if finite else recent + 1,
            "recent": 0 if finite else recent,
            "faded": parts if finite and n.probabilities != KNOWN else 0,
        }

    @property
    def auxiliary(self) -> Literal["rank"] | None:
        """The ranks of moments, by the paper's value and without coin and guard."""
        return "rank" if self.value == "paper" and not (self.randomise or self.guard) else None

    @property
    def randomised(self) -> bool:
        """Whether a coin is mixed in."""
        return self.randomise is not None

    def before_coin(self, probability: float, notes: Any) -> float:
        """Without the coin: x where the rank decided. Guard, peace and an empty budget leave nothing to the coin."""
        cause = int(notes.cause)
        if cause not in {BY_RANK, BY_GRID} or not self.randomised:
            return probability
        x = 1.0 if cause == BY_GRID else smoothed(notes.worth, notes.above, notes.tied, notes.share)
        return float(max(0.0, min(x, notes.left)))

    @staticmethod
    def words(notes: Any) -> str:
        """How the moment ranks, what old advice has cost, how far the budget reaches."""
        cause = int(notes.cause)
        if cause == WAITING:
            return "the last nudges went unanswered, so the patient is left in peace for a while"
        debt = ""
        if notes.debt > 0.005:
            debt = f", and following old advice has cost about {notes.debt:.2f} since the last contact"
        reach = f"{notes.left:.3g} nudges are left for {notes.to_come:.0f} decisions, enough for the best"
        better = "hardly any moment to expect is"
        if notes.above >= 0.005:
            better = f"{notes.above:.0%} of the moments to expect are"
        text = f"{better} better than this one{debt}; {reach} {notes.share:.0%}"
        if notes.worth <= TIE:
            text = f"nothing would be gained by it now{debt}; {reach} {notes.share:.0%}"
        elif notes.worth - notes.debt <= TIE:
            text += "; without that cost nothing would be gained by it now"
        if cause == BY_GRID:
            return "what the patient can report is needed to learn from the steps since the last contact"
        if cause == BY_GUARD:
            return f"{text}; good moments may stop coming, and the budget should not be left over"
        return text


def _recent(use: Use) -> int:
    """How many moments are remembered where contexts are not finite: max(64, T/B), at most 4096."""
    return min(max(LEAST_RECENT, math.ceil(use.decisions / use.budget)), MOST_RECENT)
