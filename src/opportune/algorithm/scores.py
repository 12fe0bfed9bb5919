"""Scores of actions for an agent who sees all, the sensed part, or only the public part of a context.

A finite context is a number, whose features are a block of the problem's rows. Any other context is given by the
moment's values, whose features `write_moment` puts into `scratch.x`. Scores go to `scratch.ucb`, one per action; they
come from the table of stored scores or are computed, with the same result for the caller.
"""

import math
from typing import Any

import numpy as np
from numba.extending import overload

from opportune.algorithm.features import write_features
from opportune.algorithm.masks import blind_mask, forbid, informed_mask, sense_mask, sensed_mask, write_masks
from opportune.algorithm.model import best, largest_in_table, score
from opportune.algorithm.optimistic import bernstein_box, optimistic, work_rows
from opportune.engine.compiled import NUMBERS, PART, inner_function, step_function
from opportune.engine.declared import KNOWN, OPTIMISTIC, SENSED_PART, VIEWS
from opportune.engine.simd import divide, load, spread, store, width
from opportune.engine.versions import SIMULATED

_u = np.uint64


@step_function
def write_moment(n, constants, scratch, values, x):  # type: ignore[no-untyped-def]
    """Write the features of a moment with these values to x, one vector per action (contexts not finite)."""
    write_features(
        constants.code, constants.atom_end, constants.factor, n.fixed_atoms, n.atoms, n.factors, n.d, n.actions,
        values, n.variables - 1, scratch.atom, x,
    )  # fmt: skip


@inner_function
def score_block(p, block, radius):  # type: ignore[no-untyped-def]
    """The revealer's <x, theta> + radius ||x|| of each action in a block of feature rows."""
    n, model, ucb = p.sizes, p.model, p.scratch.ucb
    first = block * n.actions
    if n.table > 0:
        for a in range(n.actions):
            ucb[a] = model.mean[first + a] + radius * math.sqrt(max(model.width2[first + a], 0.0))
    else:
        score_rows(n, p.constants, model, p.scratch, first, radius)
    if n.masked > 0:  # masks have the order of blocks
        forbid(n, ucb, p.constants.forbidden, first)


@step_function
def score_rows(n, constants, estimate, scratch, first, radius):  # type: ignore[no-untyped-def]
    """<x, theta> + radius ||x|| of the rows from `first` on, computed from the model or the snapshot."""
    for a in range(n.actions):
        scratch.ucb[a] = score(
            n, estimate.theta, estimate.cov, radius, scratch.w, n.support, constants.rows, constants.lists,
            (first + a) * n.d,
        )  # fmt: skip


@step_function
def score_vectors(n, estimate, scratch, x, radius):  # type: ignore[no-untyped-def]
    """<x, theta> + radius ||x|| of the feature vectors at x, one per action."""
    for a in range(n.actions):
        scratch.ucb[a] = score(n, estimate.theta, estimate.cov, radius, scratch.w, 0, x, x, a * n.d)


@step_function
def write_means(n, constants, counted, scratch, part):  # type: ignore[no-untyped-def]
    """Write E[phi(S, a) | part] for each action to scratch.blind: running means, or `start` before the first one.

    If contexts are not finite, only hidden coordinates are averaged; the others are public and come from scratch.x.
    """
    first = part * n.block
    if n.counted == 0 or counted.count[part] <= 0.0:
        for j in range(n.block):
            scratch.blind[j] = constants.start[first + j]
    else:
        divide_row(n.block, counted.total, first, counted.count[part], scratch.blind)
    if n.contexts == 0:
        for a in range(n.actions):
            for i in range(n.d):
                if constants.hidden[i] == 0.0:
                    scratch.blind[a * n.d + i] = scratch.x[a * n.d + i]


@inner_function
def divide_row(length, source, first, by, target):  # type: ignore[no-untyped-def]
    """Write the numbers source[first], source[first + 1], ..., divided by one number, to the start of `target`."""
    step, start, end = _u(width()), _u(first), _u(length)
    whole = end - end % step
    for j in range(_u(0), whole, step):
        store(target, j, divide(load(source, start + j), spread(by)))
    for j in range(whole, end):
        target[j] = source[start + j] / by


@inner_function
def score_blind(p, stratum, radius):  # type: ignore[no-untyped-def]
    """<bar(z, a), theta> + radius ||bar(z, a)|| under the revealer's knowledge.

    Blind features that are not rows are left in scratch.blind.
    """
    n = p.sizes
    if n.contexts > 0 and n.probabilities == KNOWN:
        score_block(p, n.contexts + stratum, radius)
    elif n.probabilities == OPTIMISTIC:
        score_optimistic(p, radius)
    else:
        write_means(n, p.constants, p.counts, p.scratch, stratum)
        score_vectors(n, p.model, p.scratch, p.scratch.blind, radius)
        if n.masked > 0:
            masks, place = blind_mask(p, stratum)
            forbid(n, p.scratch.ucb, masks, place)


def score_optimistic(p: Any, radius: Any) -> None:
    """The optimistic scores, for participants whose type requires them."""
    search_blind(p.sizes, p.constants, p.model, p.counts, p.scratch, radius)


@overload(score_optimistic, jit_options={**NUMBERS, **PART})
def choose_search(p, radius):  # type: ignore[no-untyped-def]
    """The search or nothing, depending on the participant's type."""
    if not getattr(p, "search", SIMULATED):
        return lambda p, radius: None
    return lambda p, radius: search_blind(p.sizes, p.constants, p.model, p.counts, p.scratch, radius)


@step_function
def search_blind(n, constants, model, counts, scratch, radius):  # type: ignore[no-untyped-def]
    """Max over theta and p of <sum_k p_k phi(k, a), theta> (`optimistic`; docs/paper.md).

    Leaves in scratch.blind every action's features under the p that favours the best action most.
    """
    k = n.contexts
    lower, upper = scratch.lower[0:k], scratch.upper[0:k]
    mean, gram = scratch.flat[0:k], scratch.gram[0 : k * k].reshape((k, k))
    work = scratch.work[0 : work_rows(k) * k].reshape((work_rows(k), k))
    bernstein_box(counts.seen[0:k], counts.count[0], constants.delta[0], constants.horizon[0], lower, upper)
    for a in range(n.actions):
        write_gram(n, constants, model, scratch, a, mean, gram)
        p = scratch.mixture[a * k : (a + 1) * k]
        scratch.ucb[a] = optimistic(mean, gram, radius, lower, upper, p, work)
    if n.masked > 0:
        forbid(n, scratch.ucb, constants.forbidden, n.contexts * n.actions)  # the only stratum follows the contexts
    best_action = best(n, scratch.ucb)[1]
    for j in range(n.block):
        total = 0.0
        for i in range(k):
            total += scratch.mixture[best_action * k + i] * constants.rows[i * n.block + j]
        scratch.blind[j] = total


@step_function
def write_gram(n, constants, model, scratch, action, mean, gram):  # type: ignore[no-untyped-def]
    """Means m = Phi_a theta and gram matrix G = Phi_a V^-1 Phi_a' of one action's feature vectors over contexts."""
    for i in range(n.contexts):
        x = i * n.block + action * n.d
        fit = 0.0
        for j in range(n.d):
            fit += constants.rows[x + j] * model.theta[j]
            wj = 0.0  # a local sum, since sums in memory would wait for each other
            for h in range(n.d):
                wj += model.cov[j * n.stride + h] * constants.rows[x + h]
            scratch.w[j] = wj
        mean[i] = fit
        for other in range(i + 1):
            y = other * n.block + action * n.d
            total = 0.0
            for j in range(n.d):
                total += scratch.w[j] * constants.rows[y + j]
            gram[i, other] = total
            gram[other, i] = total


@inner_function
def score_sense(p, sense, radius):  # type: ignore[no-untyped-def]
    """ucb(sen(q, a)) of a sensed part q, contexts finite. With reported variables, overwrites scratch.blind."""
    n = p.sizes
    if n.senses == 0:
        score_block(p, sense, radius)
    elif n.probabilities == KNOWN:
        score_block(p, n.contexts + n.strata + sense, radius)
    else:
        write_means(n, p.constants, p.counts, p.scratch, n.strata + sense)
        score_vectors(n, p.model, p.scratch, p.scratch.blind, radius)
        if n.masked > 0:
            masks, place = sense_mask(p, sense)
            forbid(n, p.scratch.ucb, masks, place)


@step_function
def cover(n, constants, counts, x, stratum):  # type: ignore[no-untyped-def]
    """Replace coordinates that depend on reported variables by their stratum means, as the revealer sees them."""
    learned = n.counted > 0 and counts.count[stratum] > 0.0
    for a in range(n.actions):
        for i in range(n.d):
            if constants.unsensed[i] > 0.0:
                j = a * n.d + i
                place = stratum * n.block + j
                x[j] = counts.total[place] / counts.count[stratum] if learned else constants.start[place]


@inner_function
def score_sensed(p, moment, radius):  # type: ignore[no-untyped-def]
    """ucb(sen(q, a)) of the moment."""
    n, scratch = p.sizes, p.scratch
    if n.contexts > 0:
        score_sense(p, moment.sense, radius)
        return
    if n.reported > 0:
        for j in range(n.block):
            scratch.y[j] = scratch.x[j]
        cover(n, p.constants, p.counts, scratch.y, moment.stratum)
        score_vectors(n, p.model, scratch, scratch.y, radius)
    else:
        score_vectors(n, p.model, scratch, scratch.x, radius)
    if n.masked > 0:
        masks, place = sensed_mask(p, moment)
        forbid(n, scratch.ucb, masks, place)


@inner_function
def score_full(p, moment, radius):  # type: ignore[no-untyped-def]
    """ucb(phi(s, a)) of the moment with the whole context known, or of its sensed part otherwise."""
    if moment.context < 0:
        score_sensed(p, moment, radius)
    elif p.sizes.contexts > 0:
        score_block(p, moment.context, radius)
    else:
        score_vectors(p.sizes, p.model, p.scratch, p.scratch.x, radius)
        if p.sizes.masked > 0:
            masks, place = informed_mask(p, moment)
            forbid(p.sizes, p.scratch.ucb, masks, place)


@inner_function
def largest_sensed(p, moment):  # type: ignore[no-untyped-def]
    """max_q u(q): the best score of any context that could be sensed. Overwrites the scratch except scratch.x."""
    n = p.sizes
    if n.contexts == 0:
        return largest_at_corners(n, p.constants, p.model, p.counts, p.scratch, moment.stratum)
    if n.senses == 0 and n.table > 0 and n.masked == 0:
        return largest_in_table(p.model, n.contexts * n.actions)
    top = -math.inf
    for q in range(n.senses if n.senses > 0 else n.contexts):
        score_sense(p, q, p.model.radius[0])
        top = max(top, best(n, p.scratch.ucb)[0])
    return top


@step_function
def largest_at_corners(n, constants, model, counts, scratch, stratum):  # type: ignore[no-untyped-def]
    """max_q u(q) if contexts are not finite: over combinations of extreme values of sensed variables."""
    top = -math.inf
    for i in range(n.corners):
        for v in range(n.variables):
            extreme = constants.corner[i * n.variables + v]
            scratch.other[v] = scratch.values[v] if math.isnan(extreme) else extreme
        write_moment(n, constants, scratch, scratch.other, scratch.y)
        if n.reported > 0:
            cover(n, constants, counts, scratch.y, stratum)
        score_vectors(n, model, scratch, scratch.y, model.radius[0])
        if n.masked > 0:
            write_masks(n, constants, scratch, scratch.other, VIEWS)
            forbid(n, scratch.ucb, scratch.forbidden, (VIEWS + SENSED_PART) * n.actions)
        top = max(top, best(n, scratch.ucb)[0])
    return top


@inner_function
def blind_distance(p, stratum, action, other):  # type: ignore[no-untyped-def]
    """The disagreement n = ||bar(z, action) - bar(z, other)|| in the revealer's blind features."""
    n = p.sizes
    if n.contexts > 0 and n.probabilities == KNOWN:
        return p.constants.distance[(stratum * n.actions + action) * n.actions + other]
    total = 0.0
    for i in range(n.d):
        difference = p.scratch.blind[action * n.d + i] - p.scratch.blind[other * n.d + i]
        total += difference * difference
    return math.sqrt(total)
