"""One decision and its consequences (docs/paper.md, Algorithm 2): `begin`, `propose`, `settle`, `learn`, `correct`.

Every driver of a participant, whether a batch of simulated runs or a live study, makes these calls in this order and
gets the same numbers. `p` is the participant (engine.declared); a `Moment` identifies the decision point and the known
part of its context; `Draws` identifies the participant's stream of random numbers.
"""

from typing import NamedTuple

import numpy as np

from opportune.algorithm.allowance import count_point, excuse, foresee, refusal
from opportune.algorithm.chances import advise, stand
from opportune.algorithm.history import record_decision
from opportune.algorithm.masks import note_masks
from opportune.algorithm.model import TIE, adjust, best, observe, reset, set_radius
from opportune.algorithm.reasons import ELIGIBLE, OPENED, UNAVAILABLE
from opportune.algorithm.scores import blind_distance, largest_sensed, score_blind, score_sensed, write_moment
from opportune.algorithm.snapshot import take_over
from opportune.engine.compiled import hot_function, inner_function, step_function
from opportune.engine.declared import ADAPTIVE
from opportune.engine.hooks import after_blind, conclude, consult
from opportune.engine.simd import fma, load, spread, store, width

LEAST_SCALE = 1e-12  # the smallest divisor of gaps
_u = np.uint64


class Moment(NamedTuple):
    """A decision point. If contexts are not finite, its values and features are in the scratch."""

    step: int  # from 1
    stratum: int  # the number of its public part
    sense: int  # the number of its public and sensed part, if contexts are finite
    context: int  # the number of the context, if contexts are finite; -1 while unknown


class Draws(NamedTuple):
    """The key of random numbers: each is a pure function of these fields, the step and its purpose."""

    seed: int
    stream: int


class Judged(NamedTuple):
    """The revealer's evaluation of a moment."""

    gap: float  # scaled
    disagreement: float  # n
    fresh_action: int
    stale_action: int  # the action intended without a reveal
    standing_action: int  # the action drawn in its place; the same if nothing is drawn


class Proposed(NamedTuple):
    """The revealer's evaluation and intention, before the coin."""

    gap: float
    price: float
    probability: float
    tolerance: float
    disagreement: float
    fresh_action: int
    stale_action: int
    standing_action: int
    reason: int  # why no nudge is possible (algorithm.reasons); ELIGIBLE if one is


@step_function
def begin(p):  # type: ignore[no-untyped-def]
    """Initialise a participant: no own data, both agents alike. Budget and model are initialised separately."""
    clear(p.counts_array, p.lengths.counts)
    clear(p.memory_array, p.lengths.memory)
    take_over(p)


@inner_function
def begin_model(p):  # type: ignore[no-untyped-def]
    """Initialise a model without data."""
    reset(p)


@inner_function
def begin_budget(p):  # type: ignore[no-untyped-def]
    """Initialise a budget with nothing spent."""
    clear(p.budget_array, p.lengths.budget)


@inner_function
def begin_staff(p):  # type: ignore[no-untyped-def]
    """Initialise the staff's count of nudges at zero."""
    clear(p.staff_array, p.lengths.staff)


@inner_function
def clear(array, length):  # type: ignore[no-untyped-def]
    """Set an array to zero, the initial value of every state unless declared otherwise."""
    for i in range(length):
        array[i] = 0.0


@hot_function
def propose(p, moment, slot, draws, opened):  # type: ignore[no-untyped-def]
    """The revealer's evaluation of a moment and the probability of a reveal; charges the budget.

    If no nudge is allowed, the rule is not consulted, nothing is charged and the price stays; the same holds if the
    patient has opened the app unasked, which is a free reveal.
    """
    note_masks(p)
    stale, standing = stand(p, moment, draws)
    judged = judge(p, moment, stale, standing)
    price = p.budget.price[0]
    probability = 0.0
    tolerance = 0.0
    foresee(p, moment, slot)
    refused = refusal(p, moment, slot)
    reason = refused
    if opened:
        reason = OPENED
    elif refused == ELIGIBLE:
        p.scratch.declined[0] = 0.0
        probability, tolerance = consult(int(p.rule.revealer[0]), p, moment, judged)
        p.budget.spent[0] += probability
        if probability <= 0.0:
            reason = excuse(p)
    count_point(p, moment, slot, refused)
    return Proposed(
        judged.gap, price, probability, tolerance, judged.disagreement, judged.fresh_action, judged.stale_action,
        judged.standing_action, reason,
    )  # fmt: skip


@hot_function
def judge(p, moment, stale, standing):  # type: ignore[no-untyped-def]
    """The gap (docs/paper.md, Revealing), and the disagreement between fresh and stale advice."""
    n, ucb, radius = p.sizes, p.scratch.ucb, p.model.radius[0]
    adaptive = p.rule.scaling[0] == ADAPTIVE
    score_sensed(p, moment, radius)
    u = best(n, ucb)[0]
    top = largest_sensed(p, moment) if adaptive else 0.0
    if n.masked > 0:
        top = max(top, u)  # an action forbidden at an extreme value may be allowed here
    score_blind(p, moment.stratum, radius)
    v, fresh = best(n, ucb)
    if p.rule.kappa[0] != 1.0:
        score_blind(p, moment.stratum, p.rule.kappa[0] * radius)
        fresh = best(n, ucb)[1]
    scale = max(top - v, LEAST_SCALE) if adaptive else p.rule.scale[0]
    gap = (u - v) / scale if abs(u - v) > TIE else 0.0
    disagreement = blind_distance(p, moment.stratum, fresh, stale) if fresh != stale else 0.0
    return Judged(gap, disagreement, fresh, stale, standing)


@inner_function
def stand_by(p, moment, slot, draws):  # type: ignore[no-untyped-def]
    """A missing decision point: the stale action applies, nothing is charged or learned.

    Returns the intended action and the action drawn in its place.
    """
    note_masks(p)
    foresee(p, moment, slot)
    count_point(p, moment, slot, UNAVAILABLE)
    if p.sizes.histories > 0:
        record_decision(p.sizes, p.past, moment.step, False, False)
    return stand(p, moment, draws)


@hot_function
def settle(p, moment, draws, judged, nudged, revealed):  # type: ignore[no-untyped-def]
    """The step's action: based on the full context after a reveal, else the stale one.

    The revealer then counts the part of the context that it has seen; its evaluation of this moment came before.
    """
    action = judged.standing_action
    if revealed:
        action = reveal(p, moment, draws)
    else:  # the intended action counts as tried, whichever one the draw selected
        after_blind(int(p.rule.recommender[0]), p, moment, judged.stale_action)
    conclude(int(p.rule.revealer[0]), p, moment, judged, nudged, revealed)
    keep_track(p, moment, nudged, revealed)
    if p.sizes.histories > 0:
        record_decision(p.sizes, p.past, moment.step, nudged, revealed)
    see(p, moment, action, revealed)
    return action


@inner_function
def keep_track(p, moment, nudged, revealed):  # type: ignore[no-untyped-def]
    """Record a contact, or that there was none."""
    contacts = p.contacts
    if revealed:
        contacts.last_reveal[0] = moment.step
        contacts.since[0] = 0.0
        if not nudged:
            contacts.opened[0] += 1.0
            p.budget.opened[0] += 1.0
    else:
        contacts.since[0] += 1.0


@step_function
def reveal(p, moment, draws):  # type: ignore[no-untyped-def]
    """Bring the recommender up to date, including pending steps, and act by the full context."""
    if p.sizes.reported > 0:
        uncover(p)
    note_masks(p)  # for all that is known now
    take_over(p)
    return advise(p, moment, draws)


@hot_function
def see(p, moment, action, revealed):  # type: ignore[no-untyped-def]
    """Count the step's context, or store the step until a reveal uncovers it."""
    n = p.sizes
    if moment.context < 0:
        return  # the driver stores the step until its context is known
    if n.reported == 0 or revealed:
        if n.counted > 0:
            count_context(n, p.constants, p.counts, p.scratch.x, moment.context, moment.stratum, 1.0)
    else:
        hold(n, p.counts, p.scratch, moment, action)


@step_function
def hold(n, counts, scratch, moment, action):  # type: ignore[no-untyped-def]
    """Store a step with an unseen context."""
    if n.contexts > 0:
        counts.pending_seen[moment.context] += 1.0
        return
    i = moment.step - 1
    for v in range(n.variables):
        counts.held_values[i * n.variables + v] = scratch.values[v]
    counts.held_action[i] = action
    counts.held_state[i] = 1.0
    counts.held_until[0] = max(counts.held_until[0], float(moment.step))


@step_function
def count_context(n, constants, counts, x, context, stratum, times):  # type: ignore[no-untyped-def]
    """The revealer counts a context it has seen, in the running means of blind and sensed features."""
    counts.count[stratum] += times
    if n.contexts == 0:
        add_row(n.block, x, 0, times, counts.total, stratum * n.block)
    else:
        add_row(n.block, constants.rows, context * n.block, times, counts.total, stratum * n.block)
        counts.seen[context] += times
    if n.senses > 0:
        part = n.strata + int(constants.sense_of[context])
        counts.count[part] += times
        add_row(n.block, constants.rows, context * n.block, times, counts.total, part * n.block)


@inner_function
def add_row(length, source, first, times, target, place):  # type: ignore[no-untyped-def]
    """Add the numbers from source[first] on, multiplied by `times`, to those from target[place] on."""
    step, start, at, end = _u(width()), _u(first), _u(place), _u(length)
    whole = end - end % step if times == 1.0 else _u(0)  # other products would be rounded before the addition
    for j in range(_u(0), whole, step):
        store(target, at + j, fma(spread(1.0), load(source, start + j), load(target, at + j)))
    for j in range(whole, end):
        target[at + j] += times * source[start + j]


@inner_function
def uncover(p):  # type: ignore[no-untyped-def]
    """A reveal uncovers every pending step: count their contexts and learn from their rewards."""
    if p.sizes.contexts > 0:
        uncover_contexts(p.sizes, p.constants, p.model, p.counts, p.scratch)
    else:
        uncover_held(p.sizes, p.constants, p.model, p.counts, p.scratch)
    set_radius(p)


@step_function
def uncover_contexts(n, constants, model, counts, scratch):  # type: ignore[no-untyped-def]
    """Finite contexts: process pending steps by context and action."""
    for k in range(n.contexts):
        if counts.pending_seen[k] > 0.0:
            if n.counted > 0:
                stratum = int(constants.stratum_of[k])
                count_context(n, constants, counts, scratch.x, k, stratum, counts.pending_seen[k])
            counts.pending_seen[k] = 0.0
        for a in range(n.actions):
            i = k * n.actions + a
            if counts.pending_count[i] > 0.0:
                count, total = counts.pending_count[i], counts.pending_total[i]
                observe(
                    n, constants, model, scratch.w, n.support, constants.rows, constants.lists, i * n.d, count, total
                )
                counts.pending_count[i] = 0.0
                counts.pending_total[i] = 0.0


@step_function
def uncover_held(n, constants, model, counts, scratch):  # type: ignore[no-untyped-def]
    """Contexts not finite: process held steps one by one, in order."""
    for i in range(int(counts.held_until[0])):
        if counts.held_state[i] > 0.0:
            for v in range(n.variables):
                scratch.other[v] = counts.held_values[i * n.variables + v]
            uncover_step(n, constants, model, counts, scratch, int(counts.held_action[i]),
                         counts.held_state[i] > 1.0, counts.held_reward[i])  # fmt: skip
            counts.held_state[i] = 0.0
    counts.held_until[0] = 0.0


@step_function
def uncover_step(n, constants, model, counts, scratch, action, rewarded, reward):  # type: ignore[no-untyped-def]
    """Process a step whose values are in scratch.other: count its context, and learn from its reward if it arrived."""
    write_moment(n, constants, scratch, scratch.other, scratch.y)
    if n.counted > 0:
        count_context(n, constants, counts, scratch.y, 0, stratum_of(n, constants, scratch.other), 1.0)
    if rewarded:
        observe(n, constants, model, scratch.w, 0, scratch.y, scratch.y, action * n.d, 1.0, reward)


@inner_function
def stratum_of(n, constants, values):  # type: ignore[no-untyped-def]
    """The public stratum of these values; contexts not finite."""
    stratum = 0.0
    for v in range(n.variables):
        if constants.weight[v] > 0.0:
            stratum += constants.weight[v] * values[v]
    return int(stratum)


@hot_function
def learn(p, moment, action, seen, reward):  # type: ignore[no-untyped-def]
    """The revealer learns from a step's reward, whenever it arrives.

    `seen` means that the step's context is known by now. With reported variables, a step that no reveal has uncovered
    keeps its reward until the next one. If contexts are not finite, its features must be in scratch.x.
    """
    n, counts = p.sizes, p.counts
    if not seen:
        if n.contexts > 0:
            counts.pending_count[moment.context * n.actions + action] += 1.0
            counts.pending_total[moment.context * n.actions + action] += reward
        else:
            counts.held_state[moment.step - 1] = 2.0
            counts.held_reward[moment.step - 1] = reward
        return
    if n.contexts == 0:
        observe(n, p.constants, p.model, p.scratch.w, 0, p.scratch.x, p.scratch.x, action * n.d, 1.0, reward)
    else:
        rows, lists = p.constants.rows, p.constants.lists
        place = (moment.context * n.actions + action) * n.d
        observe(n, p.constants, p.model, p.scratch.w, n.support, rows, lists, place, 1.0, reward)
    set_radius(p)


@step_function
def learn_late(p, moment, action, seen, reward):  # type: ignore[no-untyped-def]
    """`learn` for rewards that arrive late; not inlined into its callers."""
    learn(p, moment, action, seen, reward)


@step_function
def correct(p, moment, action, difference):  # type: ignore[no-untyped-def]
    """A reward already learned from is corrected upwards by `difference`."""
    n = p.sizes
    if n.contexts == 0:
        adjust(n, p.constants, p.model, p.scratch.w, 0, p.scratch.x, p.scratch.x, action * n.d, difference)
    else:
        rows, lists = p.constants.rows, p.constants.lists
        place = (moment.context * n.actions + action) * n.d
        adjust(n, p.constants, p.model, p.scratch.w, n.support, rows, lists, place, difference)
    set_radius(p)
