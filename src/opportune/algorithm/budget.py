"""The budget: how much remains, and how its price moves (docs/paper.md, Algorithm 1)."""

import math

from opportune.engine.compiled import dual_function, inner_function

LEAST_LEFT = 1e-9  # a remainder up to this counts as nothing, since sums of probabilities are rounded


@dual_function
def growth(budget):  # type: ignore[no-untyped-def]
    """The constant c = (1 + 1/B)^B, which tends to e; computed by logarithms, which stay precise for large B."""
    return math.exp(budget * math.log1p(1.0 / budget))


@dual_function
def next_price(price, probability, budget, c):  # type: ignore[no-untyped-def]
    """The price after a step: y <- y (1 + o/B) + o / ((c - 1) B)."""
    return price * (1.0 + probability / budget) + probability / ((c - 1.0) * budget)


@inner_function
def spent_so_far(p):  # type: ignore[no-untyped-def]
    """The amount that counts as spent: all of a hard budget once that many nudges have happened."""
    amount = p.rule.amount[0]
    if p.rule.hard[0] > 0.0 and p.budget.nudges[0] >= amount:
        return amount
    return p.budget.spent[0]


@inner_function
def budget_left(p):  # type: ignore[no-untyped-def]
    """The rest of the budget."""
    return p.rule.amount[0] - spent_so_far(p)


@inner_function
def raise_price(p, probability):  # type: ignore[no-untyped-def]
    """Move the price after a step of a primal-dual rule."""
    if probability > 0.0:
        price = p.budget.price
        price[0] = next_price(price[0], probability, p.rule.amount[0], p.rule.growth[0])
