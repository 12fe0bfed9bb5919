"""When to reveal: one function a rule (SPEC section 4), each the paper's equations and nothing else.

The rules see a scaled gap, the price `y`, what was spent and the budget `B`; they return the probability of a
reveal and what readers of the proof want to see. The price moves in `next_price`.
"""

import math

from numba import njit

FIXED_RATE = 0
PRIMAL_DUAL = 1
LEARNING_PRIMAL_DUAL = 2
NEVER = 3
ALWAYS = 4
PERIODIC = 5


@njit(cache=True)
def growth(budget):  # type: ignore[no-untyped-def]
    """The constant c = (1 + 1/B)^B, which tends to e; by logarithms, which keeps its digits for large B."""
    return math.exp(budget * math.log1p(1.0 / budget))


@njit(cache=True)
def next_price(price, probability, budget, c):  # type: ignore[no-untyped-def]
    """The price after a step: y <- y (1 + o/B) + o / ((c - 1) B)."""
    return price * (1.0 + probability / budget) + probability / ((c - 1.0) * budget)


@njit(cache=True)
def primal_dual(gap, price, spent, budget):  # type: ignore[no-untyped-def]
    """Algorithm C.1 (PD1): reveal in proportion to the gap while the gap beats the price.

    Returns (o, z): o = min(gap, B - spent, 1) and z = gap - y if y < 1 and gap - y > 0, else 0 and 0.
    """
    if price < 1.0 and gap - price > 0.0:
        return max(0.0, min(gap, budget - spent, 1.0)), gap - price
    return 0.0, 0.0


@njit(cache=True)
def learning_primal_dual(gap, disagreement, tolerance, price, spent, budget):  # type: ignore[no-untyped-def]
    """Algorithm 1 (PD2): as PD1, and the more when the stale action is far from the fresh one.

    `disagreement` is n_t, `tolerance` the initial beta_t. Returns (o, z, boost, beta) with boost = n_t e_t and
    the final beta_t, for which n_t (1 - o) <= beta_t holds.
    """
    n = disagreement
    if n > 0.0 and tolerance < n and gap > 0.0 and gap - price > 0.0:
        boost = 1.0 - tolerance / n
        beta = tolerance
    else:
        boost = 0.0
        beta = n
    if price < 1.0 and gap - price + boost > 0.0:
        beta = max(beta, n * (1.0 - budget + spent))
        return max(0.0, min(gap + boost, budget - spent, 1.0)), gap - price + boost, boost, beta
    return 0.0, 0.0, 0.0, n


@njit(cache=True)
def reveal_probability(  # type: ignore[no-untyped-def]
    rule, step, gap, disagreement, price, spent, nudges, budget, hard, rate, tolerance_0, every
):
    """The probability of a reveal under any rule, and the step's final tolerance: (o, beta).

    `step` counts from 1. `rate` is FixedRate's B/T, `tolerance_0` PD2's beta_0, `every` Periodic's stride.
    No rule spends more than the budget; with `hard`, none nudges once B nudges have happened.
    """
    if hard and nudges >= budget:
        return 0.0, disagreement if rule == LEARNING_PRIMAL_DUAL else 0.0
    if rule == PRIMAL_DUAL:
        return primal_dual(gap, price, spent, budget)[0], 0.0
    if rule == LEARNING_PRIMAL_DUAL:
        tolerance = tolerance_0 / math.sqrt(step)
        o, _, _, beta = learning_primal_dual(gap, disagreement, tolerance, price, spent, budget)
        return o, beta
    o = 0.0
    if rule == FIXED_RATE:
        o = rate
    elif rule == ALWAYS or (rule == PERIODIC and step % every == 0):
        o = 1.0
    return max(0.0, min(o, budget - spent)), 0.0
