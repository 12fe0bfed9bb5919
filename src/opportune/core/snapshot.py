"""What the recommender froze at the last reveal, and acts from until the next."""

from opportune.core.compiled import inner_function, step_function
from opportune.core.registry import freeze
from opportune.core.scores import score_vectors, write_means


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
def score_frozen(p, stratum):  # type: ignore[no-untyped-def]
    """ucb(bar(z, a)) by what was frozen, with the blind features of then left in scratch.blind."""
    write_means(p.sizes, p.constants, p.snapshot, p.scratch, stratum)
    score_vectors(p.sizes, p.snapshot, p.scratch, p.scratch.blind)
