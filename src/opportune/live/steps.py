"""The protocol's calls as a live agent makes them: one compiled function per call, a participant as its handle.

A handle (engine.views) holds the addresses of a participant's arrays: one array to hand over instead of eleven, which
is most of what a call costs. What `propose` finds is written to `p.proposed`, where `settle` finds it again.
"""

from collections.abc import Iterable, Sequence
from typing import Any

from opportune.algorithm.allowance import Slot, toss
from opportune.algorithm.chances import stand
from opportune.algorithm.history import record_reward, write_history
from opportune.algorithm.masks import note_masks
from opportune.algorithm.model import set_radius
from opportune.algorithm.protocol import (
    Draws,
    Judged,
    Moment,
    begin,
    begin_budget,
    begin_model,
    begin_staff,
    correct,
    hold,
    learn_late,
    propose,
    settle,
    stand_by,
    uncover_step,
)
from opportune.algorithm.random_effects import add_mean, add_spread, begin_update, end_mean, end_spread, take_prior
from opportune.algorithm.scores import score_blind, score_sensed, write_moment
from opportune.engine.compiled import driver_function
from opportune.engine.hooks import after_blind
from opportune.engine.views import participant_at


@driver_function
def begin_live(handle, own_model, own_budget, own_staff):  # type: ignore[no-untyped-def]
    """Start a participant, and the model, budget and staff that are its own."""
    p = participant_at(handle)
    if own_budget:
        begin_budget(p)
    if own_model:
        begin_model(p)
    if own_staff:
        begin_staff(p)
    begin(p)


# The stages of an update of what all participants have in common, in order; ADD and TAKE are for each of them.
BEGIN, ADD_MEAN, END_MEAN, ADD_SPREAD, END_SPREAD, TAKE, KEEP = range(7)


@driver_function
def move_prior_live(handle, common, stage, participants):  # type: ignore[no-untyped-def]
    """A stage of an update; sums are in the scratch of `common`, nobody's handle, whose model keeps what was found."""
    p, all_share = participant_at(handle), participant_at(common)
    sums = all_share.scratch
    if stage == BEGIN:
        begin_update(p.sizes, sums)
    elif stage == ADD_MEAN:
        add_mean(p, sums)
    elif stage == END_MEAN:
        end_mean(p.sizes, sums, participants)
    elif stage == ADD_SPREAD:
        add_spread(p, sums)
    elif stage == END_SPREAD:
        end_spread(p, sums, participants)
    elif stage == TAKE:
        take_prior(p, all_share.model.centre, all_share.model.precision)
    else:
        take_prior(p, sums.centre, sums.spread)


def move_prior(known: Sequence[Any], takers: Iterable[Any], sums: Any) -> None:
    """Bring mu and tau up to date by the participants with these handles, for all `takers`; sums in one's scratch."""
    n = len(known)
    move_prior_live(sums, sums, BEGIN, n)
    for stage, end in ((ADD_MEAN, END_MEAN), (ADD_SPREAD, END_SPREAD)):
        for handle in known:
            move_prior_live(handle, sums, stage, n)
        move_prior_live(sums, sums, end, n)
    for handle in takers:
        move_prior_live(handle, sums, KEEP, n)


@driver_function
def write_values(handle, values):  # type: ignore[no-untyped-def]
    """Put a moment's values and features into the scratch, contexts not finite."""
    p = participant_at(handle)
    for v in range(p.sizes.variables):
        p.scratch.values[v] = values[v]
    write_moment(p.sizes, p.constants, p.scratch, p.scratch.values, p.scratch.x)


@driver_function
def write_history_live(handle, values, step):  # type: ignore[no-untyped-def]
    """Fill in the variables of the participant's own history among the values of the coming step."""
    p = participant_at(handle)
    write_history(p.sizes, p.constants, p.past, values, step)


@driver_function
def record_reward_live(handle, step, reward):  # type: ignore[no-untyped-def]
    """The reward of a step is on record from now on, or another one is."""
    p = participant_at(handle)
    record_reward(p.sizes, p.past, step, reward)


@driver_function
def propose_live(handle, seed, stream, step, stratum, sense, context, closed, hours, day, open_left, opened, coin):  # type: ignore[no-untyped-def]
    """Score, price and toss: everything up to whether to nudge."""
    p = participant_at(handle)
    slot = Slot(closed, hours, day, open_left)
    found = propose(p, Moment(step, stratum, sense, context), slot, Draws(seed, stream), opened)
    made = p.proposed
    made.gap[0] = found.gap
    made.price[0] = found.price
    made.probability[0] = found.probability
    made.tolerance[0] = found.tolerance
    made.disagreement[0] = found.disagreement
    made.fresh_action[0] = found.fresh_action
    made.stale_action[0] = found.stale_action
    made.standing_action[0] = found.standing_action
    made.reason[0] = found.reason
    made.nudged[0] = toss(p, slot, found.probability, coin)


@driver_function
def means_live(handle, step, stratum, sense, context, blind, means):  # type: ignore[no-untyped-def]
    """What each action is worth on average: by the sensed part of a moment or, with `blind`, by its public part."""
    p = participant_at(handle)
    if blind:
        score_blind(p, stratum, 0.0)
    else:
        score_sensed(p, Moment(step, stratum, sense, context), 0.0)
    for a in range(p.sizes.actions):
        means[a] = p.scratch.ucb[a]


@driver_function
def stand_live(handle, seed, stream, step, stratum, sense, context, acted):  # type: ignore[no-untyped-def]
    """The action that stands at a decision point without a reveal; with `acted` the intended one counts as tried."""
    p = participant_at(handle)
    moment = Moment(step, stratum, sense, context)
    note_masks(p)
    intended, action = stand(p, moment, Draws(seed, stream))
    if acted:
        after_blind(int(p.rule.recommender[0]), p, moment, intended)
    return action


@driver_function
def stand_by_live(handle, seed, stream, step, stratum, sense, context, closed, hours, day, open_left):  # type: ignore[no-untyped-def]
    """The action intended at a decision point that is missing, and the one that stands there."""
    slot = Slot(closed, hours, day, open_left)
    return stand_by(participant_at(handle), Moment(step, stratum, sense, context), slot, Draws(seed, stream))


@driver_function
def settle_live(handle, seed, stream, step, stratum, sense, context, revealed):  # type: ignore[no-untyped-def]
    """What became of the proposal: the action that follows."""
    p = participant_at(handle)
    made = p.proposed
    judged = Judged(made.gap[0], made.disagreement[0], int(made.fresh_action[0]), int(made.stale_action[0]),
                    int(made.standing_action[0]))  # fmt: skip
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
