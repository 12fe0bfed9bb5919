"""A run, step by step: the world, the two agents and the draws put together. Every batch driver calls this.

A `Batch` holds all worlds and policies of a simulation as stacked arrays. `run_step` is one participant's step,
`add_up` and `write_down` keep what it left.
"""

from typing import NamedTuple

from opportune.core import rng
from opportune.core.compiled import driver_function
from opportune.core.layout import RANDOM, TREATMENT
from opportune.core.protocol import learn, propose, settle, toss
from opportune.core.rng import ARRIVAL, COIN, draw, draw_pair
from opportune.worlds.step import LINEAR, answers, arrive, blind_value, opens, respond

# Totals kept of every run, trace or not.
REWARD = 0
VALUE = 1
OUTCOME = 2
SPENT = 3
NUDGES = 4
REVEALS = 5
OPENS = 6
FINAL_PRICE = 7
TOTALS = 8

# The record of every step: numbers, then small integers.
NUMBERS = ("probability", "gap", "price", "disagreement", "tolerance", "reward", "value", "outcome")
MARKS = ("context", "action", "fresh_action", "stale_action", "revealed", "nudged", "opened")
RECORD = len(NUMBERS) + len(MARKS)


class Batch(NamedTuple):
    """All worlds (leading axis W) and policies (P) of a simulation, as arrays."""

    facts: object  # float64[W, F]
    worlds: object  # float64[W, F']
    rules: object  # float64[P, W, 10]: the fields of core.state.Rule
    kind: int
    history: int  # size of a world's own state


@driver_function
def run_step(kind, world, at, facts, rule, s, history, purse, seed, stream, step, out):  # type: ignore[no-untyped-def]
    """One participant's step: arrival, decision, outcome, learning. What happened goes to out[RECORD]."""
    arrival, noise = draw_pair(seed, stream, step, ARRIVAL)
    context, cell = arrive(kind, world, at, facts, s, history, step, arrival)
    opened = opens(world, seed, stream, step)
    p = propose(at, facts, rule, s, purse, step, context, cell, opened)
    nudged = False
    if p.probability > 0.0:  # draws have no state, so one that cannot matter need not be made
        nudged = toss(purse, p.probability, draw(seed, stream, step, COIN))
    revealed = opened or (nudged and answers(world, seed, stream, step))
    chance = draw(seed, stream, step, rng.TREATMENT) if rule[TREATMENT] == RANDOM else 0.0
    action = settle(at, facts, rule, s, context, revealed, p.stale_action, chance)
    reward, outcome = respond(kind, world, at, s, history, seed, stream, step, context, action, noise)
    learn(at, facts, s, context, cell, action, revealed, True, reward)
    value = outcome
    if kind == LINEAR and not revealed:
        value = blind_value(world, at, cell, action)
    out[0] = p.probability
    out[1] = p.gap
    out[2] = p.price
    out[3] = p.disagreement
    out[4] = p.tolerance
    out[5] = reward
    out[6] = value
    out[7] = outcome
    out[8] = context
    out[9] = action
    out[10] = p.fresh_action
    out[11] = p.stale_action
    out[12] = revealed
    out[13] = nudged
    out[14] = opened


@driver_function
def add_up(out, totals):  # type: ignore[no-untyped-def]
    """Add a step to the run's totals."""
    totals[REWARD] += out[5]
    totals[VALUE] += out[6]
    totals[OUTCOME] += out[7]
    totals[SPENT] += out[0]
    totals[NUDGES] += out[13]
    totals[REVEALS] += out[12]
    totals[OPENS] += out[14]


@driver_function
def write_down(out, t, traced, numbers, marks):  # type: ignore[no-untyped-def]
    """Write a step into the run's trace of `traced` steps: numbers[8, traced] and marks[7, traced], row after row."""
    if t < traced:
        for i in range(len(NUMBERS)):
            numbers[i * traced + t] = out[i]
        for i in range(len(MARKS)):
            marks[i * traced + t] = int(out[len(NUMBERS) + i])
