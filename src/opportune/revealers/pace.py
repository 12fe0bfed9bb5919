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
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from opportune import checks
from opportune.core.budget import budget_left
from opportune.core.compiled import inner_function, step_function
from opportune.core.layout import KNOWN, TIE
from opportune.core.model import mean_of
from opportune.core.scores import cover
from opportune.revealers.base import Revealer
from opportune.revealers.guard import guarded

VALUES = ("paper", "realised")
LEAST_LEFT = 1e-9
RANK_TIE = 1e-9  # shares of moments this close count as equal, and so do times on the grid
TIE_WEIGHT = 0.25
LEAST_RATIO = 3.0  # between two reveals on the geometric grid
FADE = 2.0 ** (-1.0 / 15.0)  # counts of sensed parts halve every 15 steps
LEAST_RECENT = 64

# What the rule went by, in p.scratch.notes.
WORTH, DEBT, ABOVE, TIED, SHARE, TO_COME, LEFT, CAUSE = range(8)
# Why it answered as it did.
BY_RANK, WAITING, BY_GRID, BY_GUARD, SPENT = range(5)

# Settings in numbers.
RANDOMISE, REALISED, GUARD, HORIZON, INDEBTED = range(5)


@inner_function
def block_mean(p, block, action):  # type: ignore[no-untyped-def]
    """m(x) of an action in a block of the problem's rows."""
    n = p.sizes
    row = block * n.actions + action
    if n.table > 0:
        return p.model.mean[row]
    return mean_of(n, p.model.theta, n.support, p.constants.rows, p.constants.lists, row * n.d)


@inner_function
def running_mean(p, part, action):  # type: ignore[no-untyped-def]
    """m(x) of an action in a stratum or a sensed part whose features are running means; contexts finite."""
    n, total, start = p.sizes, p.counts.total, p.constants.start
    place = (part * n.actions + action) * n.d
    if p.counts.count[part] > 0.0:
        return mean_of(n, p.model.theta, 0, total, total, place) / p.counts.count[part]
    return mean_of(n, p.model.theta, 0, start, start, place)


@inner_function
def write_table_gains(p):  # type: ignore[no-untyped-def]
    """Bases, gains and probabilities where every mean is kept in the table: p known, contexts finite."""
    n, mean, actions = p.sizes, p.model.mean, p.sizes.actions
    base, greedy, gain, odds = p.scratch.base, p.scratch.greedy, p.budget.gain, p.budget.odds
    blind = n.contexts * actions
    sensed = blind + n.strata * actions if n.senses > 0 else 0
    row = int(p.rule.member[0]) * n.ranked
    realised = p.rule.settings[REALISED] > 0.0
    for z in range(n.strata):
        first = blind + z * actions
        top = mean[first]
        for a in range(1, actions):
            top = max(top, mean[first + a])
        for a in range(actions):
            if mean[first + a] >= top - TIE:
                base[z] = top
                greedy[z] = a
                break
    for q in range(n.ranked):
        first = sensed + q * actions
        top = mean[first]
        for a in range(1, actions):
            top = max(top, mean[first + a])
        z = int(p.constants.stratum_of_sense[q])
        gain[row + q] = top - (mean[first + int(greedy[z])] if realised else base[z])
        odds[row + q] = p.constants.sense_probability[q]


@step_function
def write_bases(p):  # type: ignore[no-untyped-def]
    """The best mean of the blind features in each stratum, and the action b(z) that has it; contexts finite."""
    n, scratch = p.sizes, p.scratch
    known = n.probabilities == KNOWN
    for z in range(n.strata):
        top = -math.inf
        for a in range(n.actions):
            scratch.ucb[a] = block_mean(p, n.contexts + z, a) if known else running_mean(p, z, a)
            top = max(top, scratch.ucb[a])
        for a in range(n.actions):
            if scratch.ucb[a] >= top - TIE:
                scratch.base[z] = top
                scratch.greedy[z] = a
                break


@step_function
def write_gains(p):  # type: ignore[no-untyped-def]
    """The gain of each sensed part and its probability, in this participant's row; contexts finite."""
    n, scratch, trail = p.sizes, p.scratch, p.trail
    row = int(p.rule.member[0]) * n.ranked
    known = n.probabilities == KNOWN
    realised = p.rule.settings[REALISED] > 0.0
    total = 0.0
    if not known:
        for q in range(n.ranked):
            total += trail.tally[q]
    for q in range(n.ranked):
        averaged = n.senses > 0 and not known
        block = n.contexts + n.strata + q if n.senses > 0 else q
        z = int(p.constants.stratum_of_sense[q])
        base = scratch.base[z]
        top = -math.inf
        for a in range(n.actions):
            value = running_mean(p, n.strata + q, a) if averaged else block_mean(p, block, a)
            top = max(top, value)
            if realised and a == int(scratch.greedy[z]):
                base = value
        p.budget.gain[row + q] = top - base
        if known:
            p.budget.odds[row + q] = p.constants.sense_probability[q]
        else:
            p.budget.odds[row + q] = (trail.tally[q] + 1.0) / (total + n.ranked)


@inner_function
def gain_of_vectors(p, x, first, stratum):  # type: ignore[no-untyped-def]
    """The gain of a moment with the features from x[first] on, contexts not finite; its blind ones: scratch.blind."""
    n, scratch, theta = p.sizes, p.scratch, p.model.theta
    learned = n.counted > 0 and p.counts.count[stratum] > 0.0
    base = -math.inf
    top = -math.inf
    for a in range(n.actions):
        fit = 0.0  # <x, theta>, summed beside <blind, theta>: both wait for the same numbers
        blind_fit = 0.0
        for i in range(n.d):
            j = a * n.d + i
            value = x[first + j]
            blind = value
            if p.constants.hidden[i] != 0.0 and learned:
                blind = p.counts.total[stratum * n.block + j] / p.counts.count[stratum]
            elif p.constants.hidden[i] != 0.0:
                blind = p.constants.start[stratum * n.block + j]
            scratch.blind[j] = blind
            blind_fit += blind * theta[i]
            fit += value * theta[i]
        scratch.ucb[a] = blind_fit
        base = max(base, blind_fit)
        top = max(top, fit)
    if p.rule.settings[REALISED] > 0.0:
        for a in range(n.actions):
            if scratch.ucb[a] >= base - TIE:
                return top - mean_of(n, theta, 0, x, x, first + a * n.d)
    return top - base


@step_function
def gain_of_moment(p, x, first, stratum):  # type: ignore[no-untyped-def]
    """The same for a moment whose full features begin at x[first]: as the revealer sees them."""
    n, scratch = p.sizes, p.scratch
    if n.reported == 0:
        return gain_of_vectors(p, x, first, stratum)
    for j in range(n.block):
        scratch.y[j] = x[first + j]
    cover(n, p.constants, p.counts, scratch.y, stratum)
    return gain_of_vectors(p, scratch.y, 0, stratum)


@step_function
def write_recent_gains(p, moment):  # type: ignore[no-untyped-def]
    """The gains of the moment itself (first) and of the recent ones, by present knowledge; contexts not finite."""
    n, scratch, trail = p.sizes, p.scratch, p.trail
    row = int(p.rule.member[0]) * n.ranked
    kept = min(int(trail.recent_count[0]), n.ranked - 1)
    for i in range(n.ranked):
        p.budget.odds[row + i] = 1.0 / (kept + 1) if i <= kept else 0.0
    for i in range(kept):
        stratum = int(trail.recent_stratum[i])
        p.budget.gain[row + 1 + i] = gain_of_moment(p, trail.recent, i * n.block, stratum)
    p.budget.gain[row] = gain_of_moment(p, scratch.x, 0, moment.stratum)


@inner_function
def stale_loss(p, moment, stale):  # type: ignore[no-untyped-def]
    """(m(bar(z, b(z))) - m(bar(z, A_stale)), b(z)) of the moment."""
    n, scratch = p.sizes, p.scratch
    if n.contexts > 0:
        z = moment.stratum
        known = n.probabilities == KNOWN
        value = block_mean(p, n.contexts + z, stale) if known else running_mean(p, z, stale)
        return scratch.base[z] - value, int(scratch.greedy[z])
    top = -math.inf  # the blind features of the moment itself were written last
    for a in range(n.actions):
        top = max(top, scratch.ucb[a])
    return top - scratch.ucb[stale], -1


@step_function
def rank(p, worth):  # type: ignore[no-untyped-def]
    """(P(G > g), P(G = g), max G): over all participants who share the budget, each as of its latest step."""
    n, budget = p.sizes, p.budget
    above = 0.0
    tied = 0.0
    most = -math.inf
    members = 0.0
    me = int(p.rule.member[0])
    for i in range(n.sharers):
        row = i * n.ranked
        total = 0.0
        for q in range(n.ranked):
            odds = budget.odds[row + q]
            if odds > 0.0:
                gain = budget.gain[row + q]
                total += odds
                most = max(most, gain)
                itself = i == me and n.contexts == 0 and q == 0
                if itself or abs(gain - worth) <= TIE:
                    tied += odds
                elif gain > worth:
                    above += odds
        members += total > 0.0  # those who had a step already
    return above / members, tied / members, most


@step_function
def consult(p, moment, judged):  # type: ignore[no-untyped-def]
    """Whether this moment is worth a nudge."""
    n, trail, budget, settings, notes = p.sizes, p.trail, p.budget, p.rule.settings, p.scratch.notes
    left = budget_left(p)
    row = int(p.rule.member[0]) * n.ranked
    if n.contexts > 0:
        if n.table > 0 and n.probabilities == KNOWN:
            write_table_gains(p)
        else:
            write_bases(p)
            write_gains(p)
        gain = budget.gain[row + moment.sense]
    else:
        write_recent_gains(p, moment)
        gain = budget.gain[row]
    loss, greedy = stale_loss(p, moment, judged.stale_action)
    if judged.fresh_action != judged.stale_action and settings[INDEBTED] > 0.0:
        trail.debt[0] += loss
    worth = gain + trail.debt[0]
    above, tied, most = rank(p, worth)
    opened = budget.opened[0] / budget.points[0] if budget.points[0] > 0.0 else 0.0
    to_come = p.rule.decisions[0] - budget.points[0] - budget.foregone[0]
    share = min(1.0, max(left, 0.0) / max(1.0, (1.0 - opened) * to_come))
    x, cause = chosen(p, moment, judged.fresh_action == greedy, worth, above, tied, share, left)
    if settings[GUARD] > 0.0 and guarded(p, gain, most, settings[GUARD]) and left > LEAST_LEFT:
        x, cause = 1.0, BY_GUARD
    if trail.wait[0] > 0.0:
        trail.wait[0] -= 1.0
        x, cause = 0.0, WAITING
    if left <= LEAST_LEFT:
        x, cause = 0.0, SPENT
    notes[WORTH] = worth
    notes[DEBT] = trail.debt[0]
    notes[ABOVE] = above
    notes[TIED] = tied
    notes[SHARE] = share
    notes[TO_COME] = to_come
    notes[LEFT] = left
    notes[CAUSE] = cause
    return max(0.0, min(x, left)), 0.0


@inner_function
def chosen(p, moment, fresh_is_greedy, worth, above, tied, share, left):  # type: ignore[no-untyped-def]
    """The rule itself: (x, why), before guard, peace and an empty budget have their say."""
    n, settings = p.sizes, p.rule.settings
    x = 0.0
    if settings[RANDOMISE] > 0.0:
        if worth > TIE:
            x = min(max((share - above) / tied, 0.0), 1.0) if tied > 0.0 else 1.0 if above <= share else 0.0
    elif worth > TIE:
        top = n.contexts > 0 and above <= RANK_TIE and fresh_is_greedy
        x = 1.0 if above + TIE_WEIGHT * tied <= share + RANK_TIE or top else 0.0
    cause = BY_RANK
    if n.reported > 0 and p.trail.since[0] > 0.0:
        since = max(1.0, p.trail.last_reveal[0])
        each = max(left, 0.0) / p.rule.sharers[0]
        ratio = max(LEAST_RATIO, (settings[HORIZON] / since) ** (1.0 / (each + 1.0)))
        if moment.step >= since * ratio - RANK_TIE:
            x, cause = 1.0, BY_GRID
    if settings[RANDOMISE] > 0.0:
        x = (1.0 - settings[RANDOMISE]) * x + settings[RANDOMISE] * share
    return x, cause


@step_function
def conclude(p, moment, judged, nudged, revealed):  # type: ignore[no-untyped-def]
    """How the step ended: a reveal pays the debt; a patient who does not answer is left in peace."""
    n, trail = p.sizes, p.trail
    if revealed:
        trail.debt[0] = 0.0
        trail.unanswered[0] = 0.0
        trail.wait[0] = 0.0
    elif nudged:
        trail.unanswered[0] += 1.0
        trail.wait[0] = trail.unanswered[0]
    if n.contexts == 0:
        i = int(trail.recent_count[0]) % (n.ranked - 1)
        for j in range(n.block):
            trail.recent[i * n.block + j] = p.scratch.x[j]
        trail.recent_stratum[i] = moment.stratum
        trail.recent_count[0] += 1.0
    elif n.probabilities != KNOWN:
        for q in range(n.ranked):
            trail.tally[q] *= FADE
        trail.tally[moment.sense] += 1.0


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
    consult: ClassVar[Any] = staticmethod(consult)
    conclude: ClassVar[Any] = staticmethod(conclude)

    def __post_init__(self) -> None:
        checks.keep(self, value=checks.choice("value", self.value, VALUES))
        if self.randomise is not None:
            checks.keep(self, randomise=checks.real("randomise", self.randomise, above=0.0, most=1.0))
        if self.guard is not None:
            checks.keep(self, guard=checks.real("guard", self.guard, above=0.0, most=1.0))
        checks.keep(self, debt=checks.yes_no("debt", self.debt))

    def numbers(self, problem: Any, *, budget: float, decisions: int, horizon: int) -> tuple[float, ...]:
        """Eps or 0, whether the value is the realised one, the guard or 0, T, whether there is a debt."""
        realised = float(self.value == "realised")
        return (self.randomise or 0.0, realised, self.guard or 0.0, float(horizon), float(self.debt))

    @staticmethod
    def words(notes: Sequence[float]) -> str:
        """How the moment ranks, what old advice has cost, how far the budget reaches."""
        cause = int(notes[CAUSE])
        if cause == WAITING:
            return "the last nudges went unanswered, so the patient is left in peace for a while"
        debt = ""
        if notes[DEBT] > 0.005:
            debt = f", and following old advice has cost about {notes[DEBT]:.2f} since the last contact"
        reach = f"{notes[LEFT]:.3g} nudges are left for {notes[TO_COME]:.0f} decisions, enough for the best"
        better = "hardly any moment to expect is"
        if notes[ABOVE] >= 0.005:
            better = f"{notes[ABOVE]:.0%} of the moments to expect are"
        text = f"{better} better than this one{debt}; {reach} {notes[SHARE]:.0%}"
        if notes[WORTH] <= TIE:
            text = f"nothing would be gained by it now{debt}; {reach} {notes[SHARE]:.0%}"
        elif notes[WORTH] - notes[DEBT] <= TIE:
            text += "; without that cost nothing would be gained by it now"
        if cause == BY_GRID:
            return "what the patient can report is needed to learn from the steps since the last contact"
        if cause == BY_GUARD:
            return f"{text}; good moments may stop coming, and the budget should not be left over"
        return text

    def form(self, *, budget: float, horizon: int, sharers: int) -> dict[str, Any]:
        """Room to rank moments: sensed parts, or the last max(64, T/B) moments where contexts are not finite."""
        recent = max(LEAST_RECENT, math.ceil(horizon * sharers / budget))
        return {"paced": True, "sharers": sharers, "recent": min(recent, 4096)}
