"""How large a problem is: what the dimensions in `engine.declared` are called after, and what code branches on."""

from typing import NamedTuple


class Sizes(NamedTuple):
    """How large a problem is, and which parts of the algorithm it needs."""

    d: int
    actions: int
    block: int  # numbers in a block of feature vectors: actions * d
    contexts: int  # K; 0: contexts are not a finite set
    strata: int  # public parts of a context
    senses: int  # sensed parts, with reported variables and finitely many contexts; else 0
    corners: int  # combinations of extreme values that bound what could be sensed, contexts not finite
    probabilities: int  # KNOWN, PLUGIN, OPTIMISTIC
    table: int  # rows whose scores are kept up to date, padded; 0: scores are computed on the spot
    stride: int  # from one row of cov to the next: d, padded
    support: int  # the most nonzero numbers in any row, where rows are listed by them; else 0
    counted: int  # parts with running means
    variables: int  # that a context consists of, contexts not finite
    reported: int  # 1: some variables are reported
    atoms: int  # of the feature program
    fixed_atoms: int  # those that do not depend on the action, which come first
    factors: int  # the most atoms whose product is a feature
    held: int  # decision points that are kept until a reveal uncovers them, contexts not finite
    delay: int  # the most steps that a reward may be late, or must wait for the model's update
    update: int  # decision points from one update of the model to the next
    interrupted: int  # 1: participants may be unavailable
    masked: int  # 1: some actions are forbidden in some moments
    histories: int  # variables of the participant's own history, contexts not finite
    past: int  # decision points that these look back
    habituated: int  # the latest decision points whose nudges make an answer less probable
    random: int  # 1: participants' parameters are random effects, learned towards what they have in common
    limited: int  # 1: the policy has limits
    remembered: int  # nudges whose times the limits go by
    timed: int  # decision points in a simulation's calendar; 0: there is none
    randomised: int  # 1: actions are drawn with probabilities that are known
    rotating: int  # 1: blind steps count as tried, in what was frozen
