"""Pace (docs/pace.md): nudge when this moment is among the best that the rest of the budget can be spent on.

With m(x) = <x, theta>, b(z) = argmax_a m(bar(z, a)) and the gain of a reveal in a moment whose sensed part is q

    G(q) = max_a m(sen(q, a)) - m(sen(q, b(z)))                 (value = "realised")
    G(q) = max_a m(sen(q, a)) - m(bar(z, b(z)))                 (value = "paper")

and the debt F, what acting on stale advice has cost since the last reveal, as estimated (ski rental)

    F += m(bar(z, b(z))) - m(bar(z, A_stale))   where A_fresh != A_stale;   F = 0 at a reveal,

the moment is worth g = G(q) + F. It is ranked among the moments to expect, above = P(G > g) and tied = P(G = g),
against the share of them that the budget can still pay for,

    rho = min(1, left / max(1, (1 - h) decisions to come)),   h the share of decision points opened unasked so far,

    x = 1  if g > 0 and (above + tied/4 <= rho, or above = 0 and A_fresh = b(z) with finitely many contexts).

With `response`, g and every G count by how probable an answer is (revealers.response).

Besides: with reported variables reveals on a geometric grid, since nothing is learned in between; after the j-th
unanswered nudge in a row peace for floor(j (1 - rho) + 1/2) steps; optionally a guard against orders in which good
moments stop coming (`guard`), and a coin (`randomise`): in proportion to the budget's share, or so that effects can be
estimated (docs/analysis.md), at *candidate* moments only,

    x = 1, or g > 0 and above + tied/4 <= 2 rho:   probability 1 - eps if x = 1, else eps     (eps = `least`)

as long as a whole nudge is left; at any other moment the probability is 0, and the record says why. A hard budget is
then charged for the nudges that are made, so that none is lost to a coin that fell the other way. With theta and p
known and independent arrivals this is the budget-ratio policy of Arlotto and Gurvich (2019), whose regret stays bounded
as T grows; the primal-dual rules' competitive ratio against adversarial orders is lost.
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, NamedTuple

from opportune import checks
from opportune.algorithm.allowance import allowed_to_come, decline
from opportune.algorithm.budget import LEAST_LEFT, budget_left
from opportune.algorithm.model import TIE
from opportune.algorithm.reasons import BUDGET, NO_CANDIDATE, RESTING
from opportune.engine.compiled import inner_dual_function, inner_function, step_function
from opportune.engine.declared import AMOUNT, COUNT, KNOWN, NOT_NEGATIVE, SHARE, STRATUM, Declares, Numbers
from opportune.engine.hooks import REVEALERS
from opportune.errors import InputError
from opportune.revealers.base import Revealer, Use
from opportune.revealers.gains import count_ranked, rank, rank_weighed, stale_loss, write_all_gains, write_strata
from opportune.revealers.guard import guarded
from opportune.revealers.ranking import (
    BY_GRID,
    BY_GUARD,
    BY_RANK,
    NEAR,
    PASSED_OVER,
    RANK_TIE,
    SPENT,
    WAITING,
    affordable,
    served,
    smoothed,
    standing,
    words,
)
from opportune.revealers.response import HYPOTHESES, LATELY, expect_answers, learn_answer, seen_present

VALUES = ("realised", "paper")
CANDIDATES = "candidates"
LEAST = 0.2
"""The least probability of a nudge, and of none, at a candidate moment."""
REACH = 2.0  # how many times further than the budget reaches a candidate may stand
LEAST_RATIO = 3.0  # between two reveals on the geometric grid
FADE = 2.0 ** (-1.0 / 15.0)  # counts of sensed parts halve every 15 steps
LEAST_RECENT, MOST_RECENT = 64, 4096


class Settings(NamedTuple):
    """The settings in numbers."""

    randomise: Annotated[Numbers, 1]  # the share of a coin; 0: none
    least: Annotated[Numbers, 1]  # eps, at candidate moments; 0: nudges are not randomised there
    realised: Annotated[Numbers, 1]  # 1: value = "realised"
    guard: Annotated[Numbers, 1]  # c; 0: no guard
    indebted: Annotated[Numbers, 1]  # 0: without the debt
    horizon: Annotated[Numbers, 1]  # T
    recent: Annotated[Numbers, 1]  # moments that are remembered, contexts not finite
    response: Annotated[Numbers, 1]  # 1: with the response model


class State(NamedTuple):
    """What it remembers of a participant."""

    debt: Annotated[Numbers, 1]  # F
    share: Annotated[Numbers, 1, SHARE]  # rho, when it was last asked
    unanswered: Annotated[Numbers, 1, COUNT]  # nudges in a row
    wait: Annotated[Numbers, 1, COUNT]  # steps for which the patient is left in peace
    tally: Annotated[Numbers, "faded", NOT_NEGATIVE]  # sensed parts seen lately: counts that fade
    recent: Annotated[Numbers, "recent", "actions", "d"]  # features of recent moments, contexts not finite
    recent_stratum: Annotated[Numbers, "recent", STRATUM]
    recent_forbidden: Annotated[Numbers, "recent_masked", 2, "actions", SHARE]  # by their public, their sensed parts
    recent_count: Annotated[Numbers, 1, COUNT]  # how many there have been
    presence: Annotated[Numbers, "hypotheses"]  # how much more surely than usual the participant is not away, ...
    presence_step: Annotated[Numbers, "answering", COUNT]  # ... at this step
    asked_at: Annotated[Numbers, "lately", COUNT]  # the steps of the latest nudges
    asked_count: Annotated[Numbers, "answering", COUNT]
    person_answers: Annotated[Numbers, "answering", COUNT]
    person_asked: Annotated[Numbers, "hypotheses", "strata", NOT_NEGATIVE]


class Shared(NamedTuple):
    """What participants who share a budget must know of each other: a row each, as of its latest step."""

    guard_price: Annotated[Numbers, 1, NOT_NEGATIVE]  # of the virtual primal-dual rule beside
    guard_spent: Annotated[Numbers, 1, AMOUNT]
    gain: Annotated[Numbers, "sharers", "ranked"]  # what a reveal would gain in each moment to expect
    odds: Annotated[Numbers, "sharers", "ranked", SHARE]  # and how probable each is
    stratum: Annotated[Numbers, "sharers", "weighed", STRATUM]  # and which public part it has
    evidence: Annotated[Numbers, "hypotheses"]  # for each hypothesis about answers: its log likelihood
    asked_ever: Annotated[Numbers, "answering", COUNT]
    asked: Annotated[Numbers, "hypotheses", "strata", NOT_NEGATIVE]  # nudges, as far as they could be answered
    answers: Annotated[Numbers, "answering", "strata", NOT_NEGATIVE]
    rate: Annotated[Numbers, "hypotheses", "strata", SHARE]  # of answers


class Scratch(NamedTuple):
    """Room to work in."""

    base: Annotated[Numbers, "strata"]  # the best mean of the blind features of each stratum
    greedy: Annotated[Numbers, "strata"]  # b(z), the action that has it
    weight: Annotated[Numbers, "hypotheses"]
    presence: Annotated[Numbers, "hypotheses"]
    usual: Annotated[Numbers, "answering", "strata"]  # how probable answers are
    weighed: Annotated[Numbers, "sharers", "weighed"]  # gains, each by that


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
    opened = budget.opened[0] / budget.points[0] if budget.points[0] > 0.0 else 0.0
    to_come = allowed_to_come(p)
    share = affordable(left, (1.0 - opened) * to_come)
    state.share[0] = share
    likely = 1.0  # how probable an answer is, where that is learned
    if settings.response[0] > 0.0:
        likely = expect_answers(p, own, moment, share)
        write_strata(p, own, moment)
        above, tied, most = rank_weighed(p, own, likely * worth)
    else:
        above, tied, most = rank(p, own, worth)
    x, cause = chosen(p, own, moment, judged.fresh_action == greedy, worth, above, tied, share, left)
    if settings.guard[0] > 0.0 and guarded(p, own, gain, most) and left > LEAST_LEFT:
        x, cause = 1.0, BY_GUARD
    if state.wait[0] > 0.0:
        state.wait[0] -= 1.0
        x, cause = 0.0, WAITING
        decline(p, RESTING)
    if settings.least[0] > 0.0:
        x, cause = by_coin(p, cause, settings.least[0], left)
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
def chosen(p, own, moment, fresh_is_greedy, worth, above, tied, share, left):  # type: ignore[no-untyped-def]
    """The rule itself: (x, why), before guard, peace and an empty budget have their say."""
    randomise, cause = own.settings.randomise[0], BY_RANK
    if randomise > 0.0:
        x = smoothed(worth, above, tied, share)
    else:
        stands = standing(worth, above, tied, p.sizes.contexts > 0 and fresh_is_greedy)
        x = served(stands, share)
        if own.settings.least[0] > 0.0 and x == 0.0:
            cause = NEAR if worth > TIE and served(stands, REACH * share) > 0.0 else PASSED_OVER
    if p.sizes.reported > 0 and p.contacts.since[0] > 0.0:
        since = max(1.0, p.contacts.last_reveal[0])
        each = max(left, 0.0) / p.rule.sharers[0]
        ratio = max(LEAST_RATIO, (own.settings.horizon[0] / since) ** (1.0 / (each + 1.0)))
        if moment.step >= since * ratio - RANK_TIE:
            x, cause = 1.0, BY_GRID
    if randomise > 0.0:
        x = (1.0 - randomise) * x + randomise * share
    return x, cause


@inner_function
def by_coin(p, cause, least, left):  # type: ignore[no-untyped-def]
    """(probability, why) where nudges are randomised at candidate moments, and elsewhere why there can be none."""
    if cause == WAITING:
        return 0.0, cause
    if left < 1.0 - LEAST_LEFT:
        decline(p, BUDGET)
        return 0.0, SPENT
    if cause == PASSED_OVER:
        decline(p, NO_CANDIDATE)
        return 0.0, cause
    return (least if cause == NEAR else 1.0 - least), cause


@inner_dual_function
def rest(unanswered, share):  # type: ignore[no-untyped-def]
    """For how many steps a patient is left in peace after so many unanswered nudges in a row.

    With the response model, nudges count by how much less likely an answer has become. The more of the decisions to
    come the budget can pay for, the fewer: with budget to spare, peace serves nobody.
    """
    return math.floor(unanswered * (1.0 - share) + 0.5 + RANK_TIE)


@step_function
def conclude(p, own, moment, judged, nudged, revealed):  # type: ignore[no-untyped-def]
    """How the step ended: a reveal pays the debt; a patient who does not answer is left in peace."""
    n, state = p.sizes, own.state
    less = 1.0
    if own.settings.response[0] > 0.0 and nudged:
        less = learn_answer(p, own, moment, revealed)
    elif own.settings.response[0] > 0.0 and revealed:
        seen_present(own, moment.step)
    if revealed:
        state.debt[0] = 0.0
        state.unanswered[0] = 0.0
        state.wait[0] = 0.0
    elif nudged:
        state.unanswered[0] += 1.0
        state.wait[0] = rest(state.unanswered[0] * less, state.share[0])
    if n.contexts == 0:
        i = int(state.recent_count[0]) % int(own.settings.recent[0])
        for j in range(n.block):
            state.recent[i * n.block + j] = p.scratch.x[j]
        state.recent_stratum[i] = moment.stratum
        if n.masked > 0:
            for j in range(2 * n.actions):
                state.recent_forbidden[i * 2 * n.actions + j] = p.scratch.forbidden[j]
        state.recent_count[0] += 1.0
    elif n.probabilities != KNOWN:
        for q in range(count_ranked(p, own)):
            state.tally[q] *= FADE
        state.tally[moment.sense] += 1.0


@REVEALERS.add
@dataclass(frozen=True, kw_only=True)
class Pace(Revealer):
    """PACE: nudge when this moment is among the best that the rest of the budget can be spent on.

    With `randomise` = "candidates" every moment that calls for a nudge, or nearly does, gets one with a probability
    from `least` to 1 - `least`, so that its effect can be estimated afterwards; a number mixes in a coin of that
    probability times the budget's share. `value` = "realised" counts what fresh advice would change for this patient
    now, "paper" compares with the average context. `guard` = c, such as 1/3, runs a primal-dual rule in parallel and
    follows it once it is ahead by c times the budget; a smaller c protects more. `debt` = False leaves out what old
    advice has cost. `response` learns from the answers of all who share the budget when people answer, and prefers such
    moments.
    """

    randomise: float | str | None = None
    least: float = LEAST
    value: str = "realised"
    guard: float | None = None
    debt: bool = True
    response: bool = False
    label: ClassVar[str] = "PACE"
    kind: ClassVar[str] = "PACE"
    resigned: ClassVar[bool] = True
    suits: ClassVar[Mapping[str, Any]] = {"rotate": True, "radius": "pointwise"}
    restraint: ClassVar[str] = (
        "it makes none where it expects nothing from one, and waits for a while after {nudges} that go unanswered"
    )
    declares: ClassVar[Declares] = Declares(Settings, State, Shared, Scratch, Notes)
    consult: ClassVar[Any] = staticmethod(consult)
    conclude: ClassVar[Any] = staticmethod(conclude)

    def __post_init__(self) -> None:
        checks.keep(self, value=checks.choice("value", self.value, VALUES))
        if isinstance(self.randomise, str):
            checks.keep(self, randomise=checks.choice("randomise", self.randomise, (CANDIDATES,)))
        elif self.randomise is not None:
            checks.keep(self, randomise=checks.real("randomise", self.randomise, above=0.0, most=1.0))
        checks.keep(self, least=checks.real("least", self.least, above=0.0, most=0.5))
        if self.least != LEAST and not self.by_candidates:
            raise InputError(f"least is {self.least:g} without candidates; expected randomise='candidates' beside it")
        if self.guard is not None:
            checks.keep(self, guard=checks.real("guard", self.guard, above=0.0, most=1.0))
        checks.keep(self, debt=checks.yes_no("debt", self.debt))
        checks.keep(self, response=checks.yes_no("response", self.response))
        if self.response and self.guard is not None:
            raise InputError("guard goes without response; expected one of them")

    def numbers(self, use: Use) -> Mapping[str, float]:
        """Each setting, T, and how many moments are remembered."""
        return {
            "randomise": self.randomise if isinstance(self.randomise, float) else 0.0,
            "least": self.least if self.by_candidates else 0.0,
            "realised": float(self.value == "realised"),
            "guard": self.guard or 0.0,
            "indebted": float(self.debt),
            "horizon": use.horizon,
            "recent": _recent(use),
            "response": float(self.response),
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
            "recent_masked": 0 if finite or not n.masked else recent,
            "faded": parts if finite and n.probabilities != KNOWN else 0,
            "hypotheses": HYPOTHESES if self.response else 0,
            "answering": int(self.response),
            "weighed": (parts if finite else recent + 1) if self.response else 0,
            "lately": LATELY if self.response else 0,
        }

    @property
    def needs_sharing(self) -> bool:
        """Whether the budget must be shared by all participants, which the response model requires."""
        return self.response

    @property
    def auxiliary(self) -> Literal["rank"] | None:
        """The ranks of moments, if PACE uses the paper's value without coin, guard and response model."""
        return "rank" if self.value == "paper" and not (self.randomise or self.guard or self.response) else None

    @property
    def randomised(self) -> bool:
        """Whether a coin is mixed in."""
        return self.randomise is not None

    @property
    def by_candidates(self) -> bool:
        """Whether nudges are randomised at candidate moments."""
        return self.randomise == CANDIDATES

    def before_coin(self, probability: float, notes: Any) -> float:
        """The probability of a nudge before the coin, which changes nothing where the rank did not decide."""
        cause = int(notes.cause)
        if self.by_candidates:
            return float(cause in {BY_RANK, BY_GRID, BY_GUARD})
        if cause not in {BY_RANK, BY_GRID} or not self.randomised:
            return probability
        x = 1.0 if cause == BY_GRID else smoothed(notes.worth, notes.above, notes.tied, notes.share)
        return float(max(0.0, min(x, notes.left)))

    def class_of(self, notes: Any) -> str | None:
        """Why a nudge was considered: "rank", "grid", "guard", or "candidate" where PACE nearly nudges."""
        classes = {BY_RANK: "rank", BY_GRID: "grid", BY_GUARD: "guard", NEAR: "candidate"}
        return classes.get(int(notes.cause)) if self.by_candidates else None

    words: ClassVar[Any] = staticmethod(words)


def _recent(use: Use) -> int:
    """How many moments are remembered where contexts are not finite: max(64, T/B), at most 4096."""
    return min(max(LEAST_RECENT, math.ceil(use.decisions / use.budget)), MOST_RECENT)
