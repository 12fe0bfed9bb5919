"""A run, step by step: the world, the two agents and the draws put together. Every batch driver calls this.

A `Batch` holds all worlds and policies of a simulation as stacked arrays. `run_step` is one participant's step.
Rewards that come late wait in `p.mail`, one row per decision point under way.
"""

import math
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from opportune.algorithm.budget import toss
from opportune.algorithm.protocol import (
    Judged,
    Moment,
    begin,
    begin_budget,
    begin_model,
    clear,
    learn,
    learn_late,
    propose,
    settle,
    stand_by,
)
from opportune.algorithm.rng import ARRIVAL, COIN, draw, draw_pair
from opportune.algorithm.scores import write_moment
from opportune.engine.compiled import hot_function, inner_function, step_function
from opportune.engine.hooks import arrive, blind_value, respond
from opportune.simulation.record import Record
from opportune.worlds.common import answers, is_available, is_rewarded, lateness, opens


class Batch(NamedTuple):
    """All worlds (leading axis W) and policies (P) of a simulation, as arrays (engine.declared)."""

    constants: NDArray[np.float64]  # [W, ...]
    worlds: NDArray[np.float64]  # [W, ...]
    rules: NDArray[np.float64]  # [P, W, ...]; shorter ones are padded


class Results(NamedTuple):
    """Where runs leave their results, all contiguous: axes replicate, policy and world first."""

    totals: NDArray[np.float64]  # [R, P, W, ...]
    numbers: NDArray[np.float64]  # [R, P, W, numbers of a step x T]
    marks: NDArray[np.int16]  # [R, P, W, marks of a step x T]
    counts: NDArray[np.int32]  # [R, W, K]: contexts, counted while the first policy runs
    traced: int  # T, or 0


def stream_of(replicate: Any, world: Any) -> Any:
    """The stream of a run, of unsigned numbers: the world's in the high 32 bits, the replicate's in the low ones."""
    return replicate | world << np.uint64(32)


@step_function
def start_run(p, own_model, own_budget):  # type: ignore[no-untyped-def]
    """Begin a participant's run; what others have begun already (a model, a budget) is left alone."""
    if own_budget:
        begin_budget(p)
    if own_model:
        begin_model(p)
    begin(p)
    clear(p.history_array, p.lengths.history)


@hot_function
def run_step(p, draws, step):  # type: ignore[no-untyped-def]
    """One participant's step: arrival, decision, outcome, learning. Gives the step's record."""
    kind = int(p.happenings.kind[0])
    arrival, noise = draw_pair(draws.seed, draws.stream, step, ARRIVAL)
    moment = arrive(kind, p, draws, step, arrival)
    if p.sizes.interrupted > 0 and not is_available(p, draws, step):
        return pass_over(kind, p, draws, moment, noise)
    opened = opens(p, draws, step)
    proposed = propose(p, moment, draws, opened)
    nudged = False
    if proposed.probability > 0.0:  # draws have no state, so one that cannot matter need not be made
        nudged = toss(p, proposed.probability, draw(draws.seed, draws.stream, step, COIN))
    revealed = opened or (nudged and answers(p, draws, step))
    judged = Judged(proposed.gap, proposed.disagreement, proposed.fresh_action, proposed.stale_action)
    action = settle(p, moment, draws, judged, nudged, revealed)
    reward, outcome, best = respond(kind, p, draws, moment, action, noise)
    rewarded = is_rewarded(p, draws, step)
    seen = revealed or p.sizes.reported == 0
    if p.sizes.delay > 0:
        exchange(p, draws, moment, action, revealed, seen, rewarded, reward)
    elif rewarded:
        learn(p, moment, action, seen, reward)
    value = outcome
    if not revealed:
        value = blind_value(kind, p, moment, action, outcome)
    return Record(
        proposed.probability, proposed.gap, proposed.price, proposed.disagreement, proposed.tolerance,
        reward if rewarded else math.nan, value, outcome, best,
        moment.context, action, proposed.fresh_action, proposed.stale_action, revealed, nudged, opened, True,
    )  # fmt: skip


@step_function
def pass_over(kind, p, draws, moment, noise):  # type: ignore[no-untyped-def]
    """A decision point that is missing: the stale action stands, no charge, nothing is learned from it."""
    action = stand_by(p, moment, draws)
    _, outcome, best = respond(kind, p, draws, moment, action, noise)
    if p.sizes.delay > 0:
        deliver(p, moment.step)
    value = blind_value(kind, p, moment, action, outcome)
    return Record(
        0.0, 0.0, p.budget.price[0], 0.0, 0.0, math.nan, value, outcome, best,
        moment.context, action, action, action, False, False, False, False,
    )  # fmt: skip


@step_function
def exchange(p, draws, moment, action, revealed, seen, rewarded, reward):  # type: ignore[no-untyped-def]
    """Rewards that come late: this step's goes into the mail, those that arrive now are learned from."""
    post(p, draws, moment, action, seen, rewarded, reward)
    if revealed and p.sizes.reported > 0:  # which has uncovered every step so far
        for row in range(p.sizes.delay + 1):
            p.mail.seen[row] = 1.0
    deliver(p, moment.step)


@inner_function
def post(p, draws, moment, action, seen, rewarded, reward):  # type: ignore[no-untyped-def]
    """Put a step's reward into the mail."""
    n, mail = p.sizes, p.mail
    row = moment.step % (n.delay + 1)
    mail.due[row] = moment.step + lateness(p, draws, moment.step) if rewarded else 0.0
    mail.step[row] = moment.step
    mail.stratum[row] = moment.stratum
    mail.sense[row] = moment.sense
    mail.context[row] = moment.context
    mail.action[row] = action
    mail.seen[row] = seen
    mail.reward[row] = reward
    for v in range(n.variables):
        mail.values[row * n.variables + v] = p.scratch.values[v]


@step_function
def deliver(p, step):  # type: ignore[no-untyped-def]
    """Learn from the rewards that arrive at the end of this step, the oldest decision point first."""
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
