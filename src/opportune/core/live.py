"""The step functions as a live agent calls them: plain arrays in, plain arrays out, one call a decision."""

from numba import njit

from opportune.core.pointers import flat
from opportune.core.protocol import begin, learn, propose, settle, toss

# What `decide_live` writes.
GAP = 0
LIVE_PRICE = 1
PROBABILITY = 2
TOLERANCE = 3
DISAGREEMENT = 4
FRESH = 5
STALE = 6
NUDGED = 7
ACTION = 8
REVEALED = 9
OUT_SIZE = 10


@njit(cache=True)
def begin_live(at, facts, s, purse):  # type: ignore[no-untyped-def]
    """Start: no data, nothing spent."""
    begin(flat(at), flat(facts), flat(s), flat(purse))


@njit(cache=True)
def propose_live(at, facts, rule, s, purse, step, context, cell, opened, coin, out):  # type: ignore[no-untyped-def]
    """Score, price and toss: everything up to whether to nudge."""
    p = propose(flat(at), flat(facts), flat(rule), flat(s), flat(purse), step, context, cell, opened)
    out[GAP] = p.gap
    out[LIVE_PRICE] = p.price
    out[PROBABILITY] = p.probability
    out[TOLERANCE] = p.tolerance
    out[DISAGREEMENT] = p.disagreement
    out[FRESH] = p.fresh_action
    out[STALE] = p.stale_action
    out[NUDGED] = toss(flat(purse), p.probability, coin)


@njit(cache=True)
def settle_live(at, facts, rule, s, context, revealed, chance, out):  # type: ignore[no-untyped-def]
    """Whether the reveal came about, and the action that follows."""
    out[ACTION] = settle(flat(at), flat(facts), flat(rule), flat(s), context, revealed, int(out[STALE]), chance)
    out[REVEALED] = revealed


@njit(cache=True)
def learn_live(at, facts, s, context, cell, action, revealed, rewarded, reward):  # type: ignore[no-untyped-def]
    """What the revealer learns from the step."""
    learn(flat(at), flat(facts), flat(s), context, cell, action, revealed, rewarded, reward)
