"""A run, step by step: the world, the two agents and the draws together. Every batch driver calls this.

A `Batch` contains all worlds and policies of a simulation as stacked arrays. `run_step` is one participant's step.
Rewards that arrive late, or wait for the model's next update, are in `p.mail`, one row per decision point in transit.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from opportune.algorithm.allowance import ANYTIME, Slot, toss
from opportune.algorithm.history import record_reward
from opportune.algorithm.protocol import (
    Judged,
    Moment,
    begin,
    begin_budget,
    begin_model,
    begin_staff,
    clear,
    learn,
    learn_late,
    propose,
    settle,
    stand_by,
)
from opportune.algorithm.reasons import ELIGIBLE, UNAVAILABLE
from opportune.algorithm.rng import ARRIVAL, COIN, draw, draw_pair
from opportune.algorithm.scores import write_moment
from opportune.engine.compiled import hot_function, inner_function, step_function
from opportune.engine.hooks import arrive, blind_value, respond
from opportune.simulation.record import Record
from opportune.worlds.common import answers, is_available, is_rewarded, lateness, opens, remember_nudge


class Batch(NamedTuple):
    """All worlds (leading axis W) and policies (P) of a simulation, as arrays (engine.declared)."""

    constants: NDArray[np.float64]  # [W, ...]
    worlds: NDArray[np.float64]  # [W, ...]
    rules: NDArray[np.float64]  # [P, W, ...]; shorter ones are padded


class Results(NamedTuple):
    """The arrays for results, all contiguous: the first axes are replicate, policy and world."""

    totals: NDArray[np.float64]  # [R, P, W, ...]
    numbers: NDArray[np.float64]  # [R, P, W, numbers of a step x T]
    marks: NDArray[np.int16]  # [R, P, W, marks of a step x T]
    chances: NDArray[np.float64]  # [R, P, W, (A + 2) x T], if actions are drawn: see algorithm.chances
    counts: NDArray[np.int32]  # [R, W, K]: contexts, counted while the first policy runs
    traced: int  # T, or 0


def stream_of(replicate: Any, world: Any) -> Any:
    """The stream of a run as an unsigned number: the world in the high 32 bits, the replicate in the low ones."""
    return replicate | world << np.uint64(32)


@step_function
def start_run(p, own_model, own_budget, own_staff):  # type: ignore[no-untyped-def]
    """Begin a participant's run; a model, budget or staff that others have already begun is left alone."""
    if own_budget:
        begin_budget(p)
    if own_model:
        begin_model(p)
    if own_staff:
        begin_staff(p)
    begin(p)
    clear(p.history_array, p.lengths.history)


@hot_function
def run_step(p, draws, step):  # type: ignore[no-untyped-def]
    """One participant's step: arrival, decision, outcome, learning. Returns the step's record."""
    kind = int(p.happenings.kind[0])
    if p.sizes.update > 1:
        deliver(p, step - 1)
    arrival, noise = draw_pair(draws.seed, draws.stream, step, ARRIVAL)
    moment = arrive(kind, p, draws, step, arrival)
    slot = ANYTIME
    if p.sizes.timed > 0:
        slot = slot_of(p, step)
    if p.sizes.interrupted > 0 and not is_available(p, draws, step):
        return pass_over(kind, p, draws, moment, slot, noise)
    opened = opens(p, draws, moment)
    proposed = propose(p, moment, slot, draws, opened)
    nudged = False
    if proposed.probability > 0.0:  # draws have no state, so irrelevant ones can be skipped
        nudged = toss(p, slot, proposed.probability, draw(draws.seed, draws.stream, step, COIN))
    revealed = opened or (nudged and answers(p, draws, moment))
    if p.sizes.habituated > 0:
        remember_nudge(p, step, nudged)
    judged = Judged(proposed.gap, proposed.disagreement, proposed.fresh_action, proposed.stale_action,
                    proposed.standing_action)  # fmt: skip
    action = settle(p, moment, draws, judged, nudged, revealed)
    reward, outcome, best = respond(kind, p, draws, moment, action, noise)
    rewarded = is_rewarded(p, draws, step)
    seen = revealed or p.sizes.reported == 0
    if p.sizes.delay > 0:
        exchange(p, draws, moment, action, revealed, seen, rewarded, reward)
    elif rewarded:
        if p.sizes.histories > 0:
            record_reward(p.sizes, p.past, step, reward)
        learn(p, moment, action, seen, reward)
    value = outcome
    if not revealed:
        value = blind_value(kind, p, moment, action, outcome)
    return Record(
        proposed.probability, proposed.gap, proposed.price, proposed.disagreement, proposed.tolerance,
        reward if rewarded else math.nan, value, outcome, best,
        moment.context, action, proposed.fresh_action, proposed.stale_action, proposed.reason, revealed, nudged, opened,
        True, proposed.reason == ELIGIBLE,
    )  # fmt: skip


@inner_function
def slot_of(p, step):  # type: ignore[no-untyped-def]
    """The calendar slot of a simulated participant's decision point."""
    calendar, last = p.calendar, p.sizes.timed
    first = max(step, int(p.rule.run_in[0]) + 1)
    left = calendar.open_left[first - 1] if first <= last else 0.0
    return Slot(int(calendar.closed[step - 1]), calendar.hours[step - 1], int(calendar.day[step - 1]), int(left))


@step_function
def pass_over(kind, p, draws, moment, slot, noise):  # type: ignore[no-untyped-def]
    """A missing decision point: the stale action applies, nothing is charged or learned."""
    stale, action = stand_by(p, moment, slot, draws)
    if p.sizes.habituated > 0:
        remember_nudge(p, moment.step, False)
    _, outcome, best = respond(kind, p, draws, moment, action, noise)
    if p.sizes.delay > 0:
        remember_rewards(p, moment.step)
        if p.sizes.update == 1:
            deliver(p, moment.step)
    value = blind_value(kind, p, moment, action, outcome)
    return Record(
        0.0, 0.0, p.budget.price[0], 0.0, 0.0, math.nan, value, outcome, best,
        moment.context, action, stale, stale, UNAVAILABLE, False, False, False, False, False,
    )  # fmt: skip


@step_function
def exchange(p, draws, moment, action, revealed, seen, rewarded, reward):  # type: ignore[no-untyped-def]
    """Handle late or waiting rewards: post this step's, and learn from those that are due."""
    post(p, draws, moment, action, seen, rewarded, reward)
    if revealed and p.sizes.reported > 0:  # the reveal has uncovered every step so far
        for row in range(p.sizes.delay + 1):
            p.mail.seen[row] = 1.0
    remember_rewards(p, moment.step)
    if p.sizes.update == 1:
        deliver(p, moment.step)


@inner_function
def post(p, draws, moment, action, seen, rewarded, reward):  # type: ignore[no-untyped-def]
    """Post a step's reward."""
    n, mail = p.sizes, p.mail
    row = moment.step % (n.delay + 1)
    came = moment.step + lateness(p, draws, moment.step)
    mail.came[row] = came if rewarded else 0.0
    mail.due[row] = -(-came // n.update) * n.update if rewarded else 0.0  # it waits for the model's next update
    mail.step[row] = moment.step
    mail.stratum[row] = moment.stratum
    mail.sense[row] = moment.sense
    mail.context[row] = moment.context
    mail.action[row] = action
    mail.seen[row] = seen
    mail.reward[row] = reward
    for v in range(n.variables):
        mail.values[row * n.variables + v] = p.scratch.values[v]


@inner_function
def remember_rewards(p, step):  # type: ignore[no-untyped-def]
    """Record rewards that arrive at the end of this step, for variables of the participant's own history."""
    n, mail = p.sizes, p.mail
    if n.histories > 0:
        for earlier in range(max(1, step - n.delay), step + 1):
            row = earlier % (n.delay + 1)
            if mail.came[row] == step and mail.step[row] == earlier:
                record_reward(n, p.past, earlier, mail.reward[row])


@step_function
def deliver(p, step):  # type: ignore[no-untyped-def]
    """Learn from the rewards that are due at the end of this step, the oldest decision point first."""
    n, mail = p.sizes, p.mail
    for earlier in range(max(1, step - n.delay), step + 1):
        row = earlier % (n.delay + 1)
        if mail.due[row] == step and mail.step[row] == earlier:
            if n.contexts == 0:
                for v in range(n.variables):
                    p.scratch.other[v] = mail.values[row * n.variables + v]
                write_moment(n, p.constants, p.scratch, p.scratch.other, p.scratch.x)
            past = Moment(earlier, int(mail.stratum[row]), int(mail.sense[row]), int(mail.context[row]))
            learn_late(p, past, int(mail.action[row]), mail.seen[row] > 0.0, mail.reward[row])
