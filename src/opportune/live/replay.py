"""Many calls of the protocol at once, of many participants, in the order of a record: what a live study did, again.

A record that is folded anew knows every call beforehand, so they are handed over as a table, one row per call, instead
of one by one: most of what a live call costs is the way into compiled code and back. The step functions are those that
an Agent calls, on the same arrays.
"""

from opportune.algorithm.budget import toss
from opportune.algorithm.model import set_radius
from opportune.algorithm.protocol import (
    Draws,
    Judged,
    Moment,
    correct,
    hold,
    learn_late,
    propose,
    settle,
    stand_by,
    uncover_step,
)
from opportune.algorithm.rng import COIN, draw
from opportune.algorithm.scores import write_moment
from opportune.engine.compiled import driver_function, inner_function
from opportune.engine.views import participant_at

# What a call does: the first number of its row.
PROPOSE, DECIDE, STAND_BY, SETTLE, LEARN, HOLD, LEARN_HELD, UNCOVER, CORRECT, WITHDRAW = range(10)
CALL = ("what", "who", "step", "stratum", "sense", "context", "action", "flag", "number", "seq")
"""A row: the call, whose it is, the moment; the action that stands or was taken; yes or no; a reward; its event.

To decide is to propose and to settle at once; its number is the context that is known when it is settled.
"""
FOUND = (
    "gap", "price", "probability", "tolerance", "disagreement", "fresh", "stale", "nudged", "coin", "spent before",
    "nudges before", "spent", "nudges",
)  # fmt: skip
"""What is found of a proposal."""
JUDGED = 8
"""The first of these, which settling a proposal goes by: they are kept for each participant."""


@driver_function
def replay(handles, judged, seed, streams, rows, values, proposed, notes, settled):  # type: ignore[no-untyped-def]
    """Make the calls in `rows`; where contexts are not finite, each has its `values`, else these have no columns.

    What is found goes to `proposed`, a row of `FOUND` for each proposal; to `notes`, unless these have no rows, what
    the rule went by where it was asked; and to `settled`, an action for each that is settled. `handles` (engine.views),
    `judged` and `streams` have a row for each participant.
    """
    proposals = 0
    settlements = 0
    for i in range(rows.shape[0]):
        what, who = int(rows[i, 0]), int(rows[i, 1])
        moment = Moment(int(rows[i, 2]), int(rows[i, 3]), int(rows[i, 4]), int(rows[i, 5]))
        action, flag, number = int(rows[i, 6]), rows[i, 7] > 0.0, rows[i, 8]
        p, draws = participant_at(handles[who]), Draws(seed, streams[who])
        if values.shape[1] > 0:
            write_values(p, what, values[i])
        if what in (PROPOSE, DECIDE, STAND_BY):
            propose_again(p, moment, draws, what != STAND_BY, flag, judged[who], proposed[proposals])
            if what != STAND_BY and not flag and notes.shape[0] > 0:
                copy_notes(p, notes[proposals])
            proposals += 1
        elif what in (LEARN, LEARN_HELD):
            learn_late(p, moment, action, what == LEARN, number)
        elif what == HOLD:
            hold(p.sizes, p.counts, p.scratch, moment, action)
        elif what == UNCOVER:
            uncover_step(p.sizes, p.constants, p.model, p.counts, p.scratch, action, flag, number)
            set_radius(p.constants, p.model)
        elif what == CORRECT:
            correct(p, moment, action, number)
        elif what == WITHDRAW:
            p.budget.foregone[0] += number
        if what == DECIDE:
            moment = Moment(moment.step, moment.stratum, moment.sense, int(number))
            if values.shape[1] > 0:
                write_values(p, what, values[i])
        if what in (DECIDE, SETTLE):
            made = Judged(judged[who, 0], judged[who, 4], int(judged[who, 5]), action)
            settled[settlements] = settle(p, moment, draws, made, judged[who, 7] > 0.0, flag)
            settlements += 1


@inner_function
def propose_again(p, moment, draws, available, opened, judged, out):  # type: ignore[no-untyped-def]
    """A proposal, or at a decision point that is missing what stands there; `FOUND` goes to `out`."""
    coin = draw(draws.seed, draws.stream, moment.step, COIN)
    out[9] = p.budget.spent[0]
    out[10] = p.budget.nudges[0]
    if available:
        found = propose(p, moment, draws, opened)
        judged[0] = found.gap
        judged[1] = found.price
        judged[2] = found.probability
        judged[3] = found.tolerance
        judged[4] = found.disagreement
        judged[5] = found.fresh_action
        judged[6] = found.stale_action
        judged[7] = toss(p, found.probability, coin)
    else:
        for j in range(JUDGED):
            judged[j] = 0.0
        judged[1] = p.budget.price[0]
        judged[5] = stand_by(p, moment, draws)
        judged[6] = judged[5]
    for j in range(JUDGED):
        out[j] = judged[j]
    out[8] = coin
    out[11] = p.budget.spent[0]
    out[12] = p.budget.nudges[0]


@inner_function
def copy_notes(p, notes):  # type: ignore[no-untyped-def]
    """What the rule went by."""
    for j in range(notes.shape[0]):
        notes[j] = p.scratch.notes[j]


@inner_function
def write_values(p, what, values):  # type: ignore[no-untyped-def]
    """Put a moment's values where the call looks for them, contexts not finite."""
    for v in range(p.sizes.variables):
        if what == UNCOVER:
            p.scratch.other[v] = values[v]
        else:
            p.scratch.values[v] = values[v]
    if what != UNCOVER:
        write_moment(p.sizes, p.constants, p.scratch, p.scratch.values, p.scratch.x)
