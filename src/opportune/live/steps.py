"""The protocol's calls as a live agent makes them: one compiled function per call, a participant as its handle.

A handle (engine.views) holds the addresses of a participant's arrays: one array to hand over instead of eight, which is
most of what a call costs. What `propose` finds is written to `out` in the order of `OUT`.
"""

import math

import numpy as np

from opportune.algorithm.budget import toss
from opportune.algorithm.model import set_radius
from opportune.algorithm.protocol import (
    Draws,
    Judged,
    Moment,
    Proposed,
    begin,
    begin_budget,
    begin_model,
    correct,
    hold,
    learn_late,
    propose,
    settle,
    stand_by,
    uncover_step,
)
from opportune.algorithm.scores import write_moment
from opportune.engine.compiled import driver_function
from opportune.engine.hooks import act_blind, after_blind
from opportune.engine.views import participant_at

OUT = (*Proposed._fields, "nudged")
STANDING = OUT.index("stale_action")
MANY, UNSOUND = -1, -2
ENDLESS = 0x7FF << 52
"""The bits that NaN and infinity have set."""


@driver_function
def begin_live(handle, own_model, own_budget):  # type: ignore[no-untyped-def]
    """Start a participant, and the model and budget that are its own."""
    p = participant_at(handle)
    if own_budget:
        begin_budget(p)
    if own_model:
        begin_model(p)
    begin(p)


@driver_function
def write_values(handle, values):  # type: ignore[no-untyped-def]
    """Put a moment's values and features into the scratch, contexts not finite."""
    p = participant_at(handle)
    for v in range(p.sizes.variables):
        p.scratch.values[v] = values[v]
    write_moment(p.sizes, p.constants, p.scratch, p.scratch.values, p.scratch.x)


@driver_function
def propose_live(handle, seed, stream, step, stratum, sense, context, opened, coin, out):  # type: ignore[no-untyped-def]
    """Score, price and toss: everything up to whether to nudge."""
    p = participant_at(handle)
    found = propose(p, Moment(step, stratum, sense, context), Draws(seed, stream), opened)
    out[0] = found.gap
    out[1] = found.price
    out[2] = found.probability
    out[3] = found.tolerance
    out[4] = found.disagreement
    out[5] = found.fresh_action
    out[6] = found.stale_action
    out[7] = toss(p, found.probability, coin)


@driver_function
def stand_live(handle, seed, stream, step, stratum, sense, context, acted):  # type: ignore[no-untyped-def]
    """The action that stands at a decision point without a reveal; with `acted` it counts as taken."""
    p = participant_at(handle)
    moment = Moment(step, stratum, sense, context)
    action = act_blind(int(p.rule.recommender[0]), p, moment, Draws(seed, stream))
    if acted:
        after_blind(int(p.rule.recommender[0]), p, moment, action)
    return action


@driver_function
def stand_by_live(handle, seed, stream, step, stratum, sense, context):  # type: ignore[no-untyped-def]
    """The action that stands at a decision point that is missing."""
    return stand_by(participant_at(handle), Moment(step, stratum, sense, context), Draws(seed, stream))


@driver_function
def settle_live(handle, seed, stream, step, stratum, sense, context, out, revealed):  # type: ignore[no-untyped-def]
    """What became of the proposal in `out`: the action that follows."""
    p = participant_at(handle)
    judged = Judged(out[0], out[4], int(out[5]), int(out[6]))
    moment = Moment(step, stratum, sense, context)
    return settle(p, moment, Draws(seed, stream), judged, out[7] > 0.0, revealed)


@driver_function
def hold_live(handle, step, stratum, sense, context, action):  # type: ignore[no-untyped-def]
    """Keep a step whose context nobody has seen."""
    p = participant_at(handle)
    hold(p.sizes, p.counts, p.scratch, Moment(step, stratum, sense, context), action)


@driver_function
def learn_live(handle, step, stratum, sense, context, action, seen, reward):  # type: ignore[no-untyped-def]
    """What the revealer learns from a step's reward."""
    learn_late(participant_at(handle), Moment(step, stratum, sense, context), action, seen, reward)


@driver_function
def uncover_live(handle, values, action, rewarded, reward):  # type: ignore[no-untyped-def]
    """A step whose values have become known, contexts not finite: count it, and learn from its reward if any."""
    p = participant_at(handle)
    for v in range(p.sizes.variables):
        p.scratch.other[v] = values[v]
    uncover_step(p.sizes, p.constants, p.model, p.counts, p.scratch, action, rewarded, reward)
    set_radius(p.constants, p.model)


@driver_function
def correct_live(handle, step, stratum, sense, context, action, difference):  # type: ignore[no-untyped-def]
    """A reward already learned from turns out to be larger by `difference`."""
    correct(participant_at(handle), Moment(step, stratum, sense, context), action, difference)


@driver_function
def find_changes(bits, before, numbers, is_variance, places, values):  # type: ignore[no-untyped-def]
    """Numbers whose bits are not what they were before: how many, with their places and values.

    `MANY` if there are more than there is room for; else `UNSOUND` if one of them is not finite, or a variance that is
    not positive.
    """
    count, sound = 0, True
    for i in range(bits.size):
        if bits[i] != before[i]:
            if count == places.size:
                return MANY
            value = numbers[i]
            sound = sound and math.isfinite(value) and (value > 0.0 or not is_variance[i])
            places[count] = i
            values[count] = value
            count += 1
    return count if sound else UNSOUND


@driver_function
def is_sound(bits, is_variance):  # type: ignore[no-untyped-def]
    """Whether numbers, told by their bits, are finite, and those that are variances positive."""
    wrong = 0
    for i in range(bits.size):
        wrong += (bits[i] & ENDLESS) == ENDLESS
        wrong += is_variance[i] & (bits[i] <= 0)
    return wrong == 0


def new_out() -> np.ndarray:
    """Room for what `propose_live` writes."""
    return np.zeros(len(OUT))
