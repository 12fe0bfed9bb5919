"""The sizes of a problem, which name the dimensions in `engine.declared`, and the switches that code branches on."""

from typing import NamedTuple


class Sizes(NamedTuple):
    """The sizes of a problem, and the parts of the algorithm that it needs."""

    d: int
    actions: int
    block: int  # numbers in a block of feature vectors: actions * d
    contexts: int  # K; 0: contexts are not finite
    strata: int  # public parts of a context
    senses: int  # sensed parts, with reported variables and finitely many contexts; else 0
    corners: int  # combinations of extreme values that bound what could be sensed, contexts not finite
    probabilities: int  # KNOWN, PLUGIN, OPTIMISTIC
    table: int  # rows whose scores are stored and updated, padded; 0: scores are computed each time
    stride: int  # the distance between rows of cov: d, padded
    support: int  # the most nonzero numbers in any row, if rows are listed by them; else 0
    counted: int  # parts with running means
    variables: int  # variables of a context, if contexts are not finite
    reported: int  # 1: some variables are reported
    atoms: int  # of the feature program
    fixed_atoms: int  # atoms that do not depend on the action, which come first
    factors: int  # the most atoms whose product is a feature
    held: int  # decision points that can be stored until a reveal uncovers them, contexts not finite
    delay: int  # the most steps that a reward may be late, or must wait for the model's update
    update: int  # decision points between updates of the model
    interrupted: int  # 1: participants may be unavailable
    masked: int  # 1: some actions are forbidden at some moments
    histories: int  # variables of the participant's own history, contexts not finite
    past: int  # decision points that these variables look back
    habituated: int  # the latest decision points whose nudges make an answer less probable
    random: int  # 1: participants' parameters are random effects with a shared prior
    limited: int  # 1: the policy has limits
    remembered: int  # nudges whose times the limits need
    timed: int  # decision points in a simulation's calendar; 0: no calendar
    randomised: int  # 1: actions are drawn with known probabilities
    rotating: int  # 1: blind steps count as tried in the snapshot
