"""The protocol's calls as a live agent makes them: one compiled function per call, a participant as its handle.

A handle (engine.views) holds the addresses of a participant's arrays: one array to hand over instead of eleven, which
is most of what a call costs. What `propose` finds is written to `p.proposed`, where `settle` finds it again.
"""

from opportune.algorithm.budget import toss
from opportune.algorithm.model import set_radius
from opportune.algorithm.protocol import (
    Draws,
    Judged,
    Moment,
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
def propose_live(handle, seed, stream, step, stratum, sense, context, opened, coin):  # type: ignore[no-untyped-def]
    """Score, price and toss: everything up to whether to nudge."""
    p = participant_at(handle)
    found = propose(p, Moment(step, stratum, sense, context), Draws(seed, stream), opened)
    made = p.proposed
    made.gap[0] = found.gap
    made.price[0] = found.price
    made.probability[0] = found.probability
    made.tolerance[0] = found.tolerance
    made.disagreement[0] = found.disagreement
    made.fresh_action[0] = found.fresh_action
    made.stale_action[0] = found.stale_action
    made.nudged[0] = toss(p, found.probability, coin)


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
def settle_live(handle, seed, stream, step, stratum, sense, context, revealed):  # type: ignore[no-untyped-def]
    """What became of the proposal: the action that follows."""
    p = participant_at(handle)
    made = p.proposed
    judged = Judged(made.gap[0], made.disagreement[0], int(made.fresh_action[0]), int(made.stale_action[0]))
    moment = Moment(step, stratum, sense, context)
    return settle(p, moment, Draws(seed, stream), judged, made.nudged[0] > 0.0, revealed)


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
    set_radius(p)


@driver_function
def correct_live(handle, step, stratum, sense, context, action, difference):  # type: ignore[no-untyped-def]
    """A reward already learned from turns out to be larger by `difference`."""
    correct(participant_at(handle), Moment(step, stratum, sense, context), action, difference)
