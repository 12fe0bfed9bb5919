"""A run, step by step: the world, the two agents and the draws put together. Every batch driver calls this.

A `Batch` holds all worlds and policies of a simulation as stacked arrays. `run_step` is one participant's step.
Rewards that come late wait in `mail`, one row per decision point under way.
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
    learn,
    learn_late,
    propose,
    settle,
    stand_by,
)
from opportune.algorithm.rng import ARRIVAL, COIN, draw, draw_pair
from opportune.algorithm.scores import write_moment
from opportune.engine.compiled import hot_function, inner_function, step_function
from opportune.engine.hooks import arrive, blind_value, respond, start_world
from opportune.engine.layout import Sizes
from opportune.simulation.record import Record
from opportune.worlds.common import answers, is_available, is_rewarded, lateness, opens

# A row of the mail: the step at whose end the reward arrives (0: none), the decision point, what was done, the reward;
# then the moment's values.
DUE, STEP, STRATUM, SENSE, CONTEXT, ACTION, SEEN, REWARD = range(8)
MAIL_HEAD = 8


class Batch(NamedTuple):
    """All worlds (leading axis W) and policies (P) of a simulation, as arrays."""

    constants: NDArray[np.float64]  # [W, ...]: engine.layout.Constants
    worlds: NDArray[np.float64]  # [W, ...]
    rules: NDArray[np.float64]  # [P, W, ...]: engine.layout.Rule
    kind: int  # the world's number in the registry
    history: int  # size of a world's own state


def mail_size(sizes: Sizes) -> int:
    """Numbers of mail that a participant needs."""
    return (sizes.delay + 1) * (MAIL_HEAD + sizes.variables) if sizes.delay > 0 else 1


def stream_of(replicate: Any, world: Any) -> Any:
    """The stream of a run, of unsigned numbers: the world's in the high 32 bits, the replicate's in the low ones."""
    return replicate | world << np.uint64(32)


@step_function
def start_run(kind, world, history, p, mail, own_model, own_budget):  # type: ignore[no-untyped-def]
    """Begin a participant's run; what others have begun already (a model, a budget) is left alone."""
    if own_budget:
        begin_budget(p)
    if own_model:
        begin_model(p)
    begin(p)
    start_world(kind, world, history)
    if p.sizes.delay > 0:
        for i in range(p.sizes.delay + 1):
            mail[i * (MAIL_HEAD + p.sizes.variables) + DUE] = 0.0


@hot_function
def run_step(kind, world, history, p, mail, draws, step):  # type: ignore[no-untyped-def]
    """One participant's step: arrival, decision, outcome, learning. Gives the step's record."""
    arrival, noise = draw_pair(draws.seed, draws.stream, step, ARRIVAL)
    moment = arrive(kind, world, history, p, draws, step, arrival)
    if p.sizes.interrupted > 0 and not is_available(world, draws, step):
        return pass_over(kind, world, history, p, mail, draws, moment, noise)
    opened = opens(world, draws, step)
    proposed = propose(p, moment, draws, opened)
    nudged = False
    if proposed.probability > 0.0:  # draws have no state, so one that cannot matter need not be made
        nudged = toss(p, proposed.probability, draw(draws.seed, draws.stream, step, COIN))
    revealed = opened or (nudged and answers(world, draws, step))
    judged = Judged(proposed.gap, proposed.disagreement, proposed.fresh_action, proposed.stale_action)
    action = settle(p, moment, draws, judged, nudged, revealed)
    reward, outcome, best = respond(kind, world, history, p, draws, moment, action, noise)
    rewarded = is_rewarded(world, draws, step)
    seen = revealed or p.sizes.reported == 0
    if p.sizes.delay > 0:
        exchange(p, mail, world, draws, moment, action, revealed, seen, rewarded, reward)
    elif rewarded:
        learn(p, moment, action, seen, reward)
    value = outcome
    if not revealed:
        value = blind_value(kind, world, p, moment, action, outcome)
    return Record(
        proposed.probability, proposed.gap, proposed.price, proposed.disagreement, proposed.tolerance,
        reward if rewarded else math.nan, value, outcome, best,
        moment.context, action, proposed.fresh_action, proposed.stale_action, revealed, nudged, opened, True,
    )  # fmt: skip


@step_function
def pass_over(kind, world, history, p, mail, draws, moment, noise):  # type: ignore[no-untyped-def]
    """A decision point that is missing: the stale action stands, no charge, nothing is learned from it."""
    action = stand_by(p, moment, draws)
    _, outcome, best = respond(kind, world, history, p, draws, moment, action, noise)
    if p.sizes.delay > 0:
        deliver(p, mail, moment.step)
    value = blind_value(kind, world, p, moment, action, outcome)
    return Record(
        0.0, 0.0, p.budget.price[0], 0.0, 0.0, math.nan, value, outcome, best,
        moment.context, action, action, action, False, False, False, False,
    )  # fmt: skip


@step_function
def exchange(p, mail, world, draws, moment, action, revealed, seen, rewarded, reward):  # type: ignore[no-untyped-def]
    """Rewards that come late: this step's goes into the mail, those that arrive now are learned from."""
    post(p, mail, world, draws, moment, action, seen, rewarded, reward)
    if revealed and p.sizes.reported > 0:
        open_mail(p.sizes, mail)
    deliver(p, mail, moment.step)


@inner_function
def post(p, mail, world, draws, moment, action, seen, rewarded, reward):  # type: ignore[no-untyped-def]
    """Put a step's reward into the mail."""
    n = p.sizes
    at = moment.step % (n.delay + 1) * (MAIL_HEAD + n.variables)
    mail[at + DUE] = moment.step + lateness(world, draws, moment.step) if rewarded else 0.0
    mail[at + STEP] = moment.step
    mail[at + STRATUM] = moment.stratum
    mail[at + SENSE] = moment.sense
    mail[at + CONTEXT] = moment.context
    mail[at + ACTION] = action
    mail[at + SEEN] = seen
    mail[at + REWARD] = reward
    for v in range(n.variables):
        mail[at + MAIL_HEAD + v] = p.scratch.values[v]


@step_function
def open_mail(n, mail):  # type: ignore[no-untyped-def]
    """A reveal has uncovered every step so far."""
    for i in range(n.delay + 1):
        mail[i * (MAIL_HEAD + n.variables) + SEEN] = 1.0


@step_function
def deliver(p, mail, step):  # type: ignore[no-untyped-def]
    """Learn from the rewards that arrive at the end of this step, the oldest decision point first."""
    n = p.sizes
    for earlier in range(max(1, step - n.delay), step + 1):
        at = earlier % (n.delay + 1) * (MAIL_HEAD + n.variables)
        if mail[at + DUE] == step and mail[at + STEP] == earlier:
            if n.contexts == 0:
                for v in range(n.variables):
                    p.scratch.other[v] = mail[at + MAIL_HEAD + v]
                write_moment(n, p.constants, p.scratch, p.scratch.other, p.scratch.x)
            past = Moment(earlier, int(mail[at + STRATUM]), int(mail[at + SENSE]), int(mail[at + CONTEXT]))
            learn_late(p, past, int(mail[at + ACTION]), mail[at + SEEN] > 0.0, mail[at + REWARD])
