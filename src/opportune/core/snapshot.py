"""What the recommender froze at the last reveal, and acts from until the next.

Recommenders ask here for the features that they may act by: `blind_features` and `informed_features` say where they
lie, as (numbers, place): action a's vector is numbers[place + a * d] and on.
"""

from opportune.core.compiled import inner_function, step_function
from opportune.core.layout import KNOWN
from opportune.core.model import shrink
from opportune.core.registry import freeze
from opportune.core.scores import cover, score_rows, score_vectors, write_means


@step_function
def take_over(p):  # type: ignore[no-untyped-def]
    """The recommender takes over the revealer's knowledge of this moment and keeps it until the next reveal."""
    copy_knowledge(p.sizes, p.model, p.counts, p.snapshot)
    freeze(int(p.rule.recommender[0]), p)


@step_function
def copy_knowledge(n, model, counts, snapshot):  # type: ignore[no-untyped-def]
    """Estimates and running means, number by number."""
    snapshot.radius[0] = model.radius[0]
    for i in range(n.stride):
        snapshot.theta[i] = model.theta[i]
    for i in range(n.d * n.stride):
        snapshot.cov[i] = model.cov[i]
    for i in range(n.counted):
        snapshot.count[i] = counts.count[i]
    for i in range(n.counted * n.block):
        snapshot.total[i] = counts.total[i]


@inner_function
def score_frozen(p, stratum, radius):  # type: ignore[no-untyped-def]
    """<bar(z, a), theta> + radius ||bar(z, a)|| by what was frozen; where blind features are not rows, they are left
    in scratch.blind.
    """
    n = p.sizes
    if n.contexts > 0 and n.probabilities == KNOWN:
        score_rows(n, p.constants, p.snapshot, p.scratch, (n.contexts + stratum) * n.actions, radius)
    else:
        write_means(n, p.constants, p.snapshot, p.scratch, stratum)
        score_vectors(n, p.snapshot, p.scratch, p.scratch.blind, radius)


@inner_function
def shrink_frozen(p, stratum, action):  # type: ignore[no-untyped-def]
    """V_h += bar bar' for the blind features of an action, of which it is known that it was taken."""
    n = p.sizes
    if n.contexts > 0 and n.probabilities == KNOWN:
        place = ((n.contexts + stratum) * n.actions + action) * n.d
        shrink(n, p.snapshot.cov, p.scratch.w, n.support, p.constants.rows, p.constants.lists, place)
    else:
        write_means(n, p.constants, p.snapshot, p.scratch, stratum)
        shrink(n, p.snapshot.cov, p.scratch.w, 0, p.scratch.blind, p.scratch.blind, action * n.d)


@inner_function
def blind_features(p, stratum):  # type: ignore[no-untyped-def]
    """bar(z, a) as it was frozen: what the recommender goes by without a reveal."""
    n = p.sizes
    if n.contexts > 0 and n.probabilities == KNOWN:
        return p.constants.rows, (n.contexts + stratum) * n.block
    write_means(n, p.constants, p.snapshot, p.scratch, stratum)
    return p.scratch.blind, 0


@inner_function
def informed_features(p, moment):  # type: ignore[no-untyped-def]
    """phi(s, a) at a reveal, or sen(q, a) where reported values are missing."""
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
