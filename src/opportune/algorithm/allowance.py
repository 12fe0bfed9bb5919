"""Where a nudge is allowed, and how many future decision points will allow one.

The calendar belongs to the world (`Slot`); run-in and caps belong to the policy (`opportune.Limits`). Where no nudge is
allowed, the rule is not consulted and nothing is charged; the rest of the step is unchanged. Rules that look ahead
count the future allowed points: from the calendar as far as it is known, beyond that from the share so far. If every
point is open, these are all future decisions.
"""

from typing import NamedTuple

from opportune.algorithm.budget import LEAST_LEFT, budget_left
from opportune.algorithm.reasons import BUDGET, CAP, ELIGIBLE, RUN_IN
from opportune.engine.compiled import inner_function, step_function
from opportune.engine.declared import STAFF_DAYS

WEEK = 168.0  # hours; any seven days
UNFORESEEN = -1  # the number of future open points is unknown


class Slot(NamedTuple):
    """The place of a decision point in the calendar, as the caller knows it."""

    closed: int  # why no nudge may be made here (algorithm.reasons); 0: open
    hours: float  # since the study's epoch
    day: int  # the number of the staff's day
    open_left: int  # the participant's future open points, including this one but not the run-in; or UNFORESEEN


ANYTIME = Slot(ELIGIBLE, 0.0, 0, UNFORESEEN)
"""A decision point without calendar information."""


@inner_function
def refusal(p, moment, slot):  # type: ignore[no-untyped-def]
    """Why calendar or limits forbid a nudge here; ELIGIBLE if they allow one."""
    if slot.closed != ELIGIBLE:
        return slot.closed
    if p.sizes.limited == 0:
        return ELIGIBLE
    return refusal_by_limits(p, moment.step, slot)


@step_function
def refusal_by_limits(p, step, slot):  # type: ignore[no-untyped-def]
    """Why the policy's limits forbid a nudge here; ELIGIBLE if they allow one."""
    rule, contacts, remembered = p.rule, p.contacts, p.sizes.remembered
    if step <= rule.run_in[0]:
        return RUN_IN
    made = int(contacts.made[0])
    if remembered > 0 and made > 0:
        per_week = int(rule.per_week[0])
        if slot.hours - contacts.made_at[(made - 1) % remembered] < rule.least_hours_between[0]:
            return CAP
        if 0 < per_week <= made and slot.hours - contacts.made_at[(made - per_week) % remembered] < WEEK:
            return CAP
    row = slot.day % STAFF_DAYS
    if p.rule.per_day[0] > 0.0 and p.staff.day[row] == slot.day and p.staff.nudges_made[row] >= p.rule.per_day[0]:
        return CAP
    return ELIGIBLE


@step_function
def remember_nudge(p, slot):  # type: ignore[no-untyped-def]
    """Record a nudge for the limits, whether or not it will be answered."""
    contacts, staff, remembered = p.contacts, p.staff, p.sizes.remembered
    if remembered > 0:
        contacts.made_at[int(contacts.made[0]) % remembered] = slot.hours
    contacts.made[0] += 1.0
    row = slot.day % STAFF_DAYS
    if staff.day[row] != slot.day:
        staff.day[row] = slot.day
        staff.nudges_made[row] = 0.0
    staff.nudges_made[row] += 1.0


@inner_function
def toss(p, slot, probability, coin):  # type: ignore[no-untyped-def]
    """Whether the coin decides for a nudge; a nudge counts whether or not it will be answered.

    If the budget is charged for nudges made, this replaces the probability that `propose` charged.
    """
    nudged = coin < probability
    if nudged:
        p.budget.nudges[0] += 1.0
        if p.sizes.limited > 0:
            remember_nudge(p, slot)
    if p.rule.counted[0] > 0.0:
        p.budget.spent[0] = p.budget.nudges[0]
    return nudged


@inner_function
def decline(p, reason):  # type: ignore[no-untyped-def]
    """Called by a revealer: no nudge is possible here, for this reason of its own."""
    p.scratch.declined[0] = reason


@inner_function
def excuse(p):  # type: ignore[no-untyped-def]
    """Why the consulted rule could not have nudged: its own reason, or an empty budget; else ELIGIBLE."""
    if p.scratch.declined[0] != 0.0:
        return int(p.scratch.declined[0])
    return BUDGET if budget_left(p) <= LEAST_LEFT else ELIGIBLE


@inner_function
def foresee(p, moment, slot):  # type: ignore[no-untyped-def]
    """Record the calendar's information on the participant's future points, including this one."""
    budget, contacts = p.budget, p.contacts
    known = p.constants.horizon[0] - moment.step + 1.0 if slot.open_left >= 0 else 0.0
    ahead = float(max(slot.open_left, 0))
    budget.foreseen[0] += known - contacts.foreseen[0]
    budget.open_left[0] += ahead - contacts.open_left[0]
    contacts.foreseen[0] = known
    contacts.open_left[0] = ahead


@inner_function
def count_point(p, moment, slot, reason):  # type: ignore[no-untyped-def]
    """Count a finished decision point; `reason` is the result of `refusal`."""
    budget, contacts = p.budget, p.contacts
    is_open = 1.0 if slot.closed == ELIGIBLE and moment.step > p.rule.run_in[0] else 0.0
    budget.points[0] += 1.0
    budget.open[0] += is_open
    if reason == CAP:
        budget.capped[0] += is_open
    if slot.open_left >= 0:
        budget.foreseen[0] -= 1.0
        contacts.foreseen[0] -= 1.0
        budget.open_left[0] -= is_open
        contacts.open_left[0] -= is_open


@inner_function
def left_to_come(p):  # type: ignore[no-untyped-def]
    """The future decisions of all who share the budget, including this one."""
    return p.rule.decisions[0] - p.budget.points[0] - p.budget.foregone[0]


@inner_function
def allowed_to_come(p):  # type: ignore[no-untyped-def]
    """The future decisions at which a nudge will be allowed, including this one.

    Points of the run-in, which all who share the budget have, are not used to predict the others.
    """
    budget = p.budget
    run_in = p.rule.run_in[0] * p.rule.sharers[0]
    over = min(budget.points[0], run_in)
    share = min(1.0, budget.open[0] / (budget.points[0] - over)) if budget.points[0] > over else 1.0
    uncapped = 1.0 - budget.capped[0] / budget.open[0] if budget.open[0] > 0.0 else 1.0
    unforeseen = left_to_come(p) - budget.foreseen[0]
    if run_in > 0.0:
        unforeseen = max(0.0, unforeseen - (run_in - over))
    return (budget.open_left[0] + unforeseen * share) * uncapped


@inner_function
def allowed_in_all(p):  # type: ignore[no-untyped-def]
    """The decisions that the budget is for, except those at which no nudge was or will be allowed."""
    budget = p.budget
    refused = budget.points[0] - (budget.open[0] - budget.capped[0])
    return p.rule.decisions[0] - refused - (left_to_come(p) - allowed_to_come(p))
