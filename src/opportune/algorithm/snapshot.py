"""The snapshot: the recommender's knowledge, frozen at the last reveal and used until the next.

Recommenders get the features that they may use from here: `blind_features` and `informed_features` return their
location as (numbers, place); action a's vector begins at numbers[place + a * d].
"""

import math

from opportune.algorithm.masks import blind_mask, forbid
from opportune.algorithm.model import shrink
from opportune.algorithm.scores import cover, score_rows, score_vectors, write_means
from opportune.engine.compiled import inner_function, step_function
from opportune.engine.declared import KNOWN
from opportune.engine.hooks import freeze


@step_function
def take_over(p):  # type: ignore[no-untyped-def]
    """Copy the revealer's present knowledge into the snapshot, where it stays until the next reveal."""
    copy_knowledge(p.sizes, p.model, p.counts, p.snapshot)
    freeze(int(p.rule.recommender[0]), p)


@step_function
def copy_knowledge(n, model, counts, snapshot):  # type: ignore[no-untyped-def]
    """Copy estimates, running means and the stored scores of blind rows, number by number."""
    snapshot.radius[0] = model.radius[0]
    for i in range(n.stride):
        snapshot.theta[i] = model.theta[i]
    for i in range(n.d * n.stride):
        snapshot.cov[i] = model.cov[i]
    for i in range(n.counted):
        snapshot.count[i] = counts.count[i]
    for i in range(n.counted * n.block):
        snapshot.total[i] = counts.total[i]
    if n.table > 0 and n.probabilities == KNOWN:
        first = n.contexts * n.actions
        for j in range(n.strata * n.actions):
            snapshot.mean[j] = model.mean[first + j]
            snapshot.width2[j] = model.width2[first + j]


@inner_function
def score_frozen(p, stratum, radius):  # type: ignore[no-untyped-def]
    """<bar(z, a), theta> + radius ||bar(z, a)|| from the snapshot.

    Blind features that are not rows are left in scratch.blind.
    """
    n, frozen, ucb = p.sizes, p.snapshot, p.scratch.ucb
    if n.contexts > 0 and n.probabilities == KNOWN:
        first = stratum * n.actions
        if n.table > 0:
            for a in range(n.actions):
                ucb[a] = frozen.mean[first + a] + radius * math.sqrt(max(frozen.width2[first + a], 0.0))
        else:
            score_rows(n, p.constants, frozen, p.scratch, n.contexts * n.actions + first, radius)
    else:
        write_means(n, p.constants, frozen, p.scratch, stratum)
        score_vectors(n, frozen, p.scratch, p.scratch.blind, radius)
    if n.masked > 0:
        masks, place = blind_mask(p, stratum)
        forbid(n, ucb, masks, place)


@step_function
def shrink_frozen(p, stratum, action):  # type: ignore[no-untyped-def]
    """V_h += bar bar' for the blind features of an action that was taken."""
    n, frozen, w = p.sizes, p.snapshot, p.scratch.w
    if n.contexts > 0 and n.probabilities == KNOWN:
        place = ((n.contexts + stratum) * n.actions + action) * n.d
        less = shrink(n, frozen.cov, w, n.support, p.constants.rows, p.constants.lists, place)
        if n.table > 0:
            shrink_kept(n, p.constants, frozen, w, less)
    else:
        write_means(n, p.constants, frozen, p.scratch, stratum)
        shrink(n, frozen.cov, w, 0, p.scratch.blind, p.scratch.blind, action * n.d)


@inner_function
def shrink_kept(n, constants, frozen, w, less):  # type: ignore[no-untyped-def]
    """Update the stored widths of the blind rows: with c_j = x_j'w, width2_j += less c_j^2."""
    first, rows, table, d = n.contexts * n.actions, n.strata * n.actions, n.table, n.d
    for j in range(rows):
        c = 0.0
        for i in range(d):
            c += w[i] * constants.columns[i * table + first + j]
        frozen.width2[j] += less * c * c


@inner_function
def blind_features(p, stratum):  # type: ignore[no-untyped-def]
    """bar(z, a) from the snapshot: the recommender's features without a reveal."""
    n = p.sizes
    if n.contexts > 0 and n.probabilities == KNOWN:
        return p.constants.rows, (n.contexts + stratum) * n.block
    write_means(n, p.constants, p.snapshot, p.scratch, stratum)
    return p.scratch.blind, 0


@inner_function
def informed_features(p, moment):  # type: ignore[no-untyped-def]
    """phi(s, a) at a reveal, or sen(q, a) if reported values are missing."""
    n = p.sizes
    if n.contexts == 0:
        if moment.context < 0:
            cover(n, p.constants, p.counts, p.scratch.x, moment.stratum)
        return p.scratch.x, 0
    if moment.context >= 0:
        return p.constants.rows, moment.context * n.block
    if n.probabilities == KNOWN:
        return p.constants.rows, (n.contexts + n.strata + moment.sense) * n.block
    write_means(n, p.constants, p.counts, p.scratch, n.strata + moment.sense)
    return p.scratch.blind, 0
