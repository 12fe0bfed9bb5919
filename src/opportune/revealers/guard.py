"""PACE's guard (docs/pace.md): a virtual PD1 that runs beside, against orders in which good moments stop coming.

It has a price y' and spending S' of its own and takes the gains divided by the largest for gaps. Where it spends and
S' - spent >= c B, PACE follows it; so, with theta known, spent >= min(B, S' - c B) - 1 in any order of arrivals.
"""

from opportune.algorithm.budget import next_price
from opportune.algorithm.model import TIE
from opportune.engine.compiled import inner_function
from opportune.revealers.primal_dual import primal_dual


@inner_function
def guarded(p, own, gain, most):  # type: ignore[no-untyped-def]
    """Whether the virtual PD1 beside has got ahead by the guard's share of the budget."""
    shared, amount = own.shared, p.rule.amount[0]
    gap = max(0.0, gain) / most if most > TIE else 0.0
    price, spent = shared.guard_price[0], shared.guard_spent[0]
    o = primal_dual(gap, price, spent, amount)[0]
    if price < 1.0 and gap > price:
        shared.guard_price[0] = next_price(price, o, amount, p.rule.growth[0])
        shared.guard_spent[0] = spent + o
        return shared.guard_spent[0] - p.budget.spent[0] >= own.settings.guard[0] * amount
    return False
