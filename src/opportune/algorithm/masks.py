"""Forbidden actions: which ones may not be recommended at a moment, given what an agent knows of it.

A mask is a row of numbers, one per action: 1 where the action is forbidden, 0 where it is allowed. A moment has three
masks: for an agent who sees all of it, its public and sensed part, or only the public part. If a condition depends on
unseen variables, the problem defines whether the action is forbidden.

With finite contexts, `constants.forbidden` contains a row for each context, public stratum and sensed part. Otherwise
conditions are postfix programs, evaluated on the moment's values, and the rows are in `scratch.forbidden`: first those
of the moment (`write_masks`), then those of another moment under consideration.

    condition[3 * i], ... [3 * i + 2]   operation i and its two arguments; tables of levels may follow the last one
    condition_end[a]                    the operation after the last one of action a; an empty one forbids nothing

True is 1, false is 0 and unknown is 1/2, so `and` is the smaller and `or` the larger of two numbers.
"""

import math

from opportune.engine.compiled import inner_function, step_function
from opportune.engine.declared import PUBLIC_PART, SENSED_PART, VIEWS, WHOLE

# Operations on two truth values, or one.
BOTH = 0
EITHER = 1
NEITHER = 2  # not: of one truth value
# Comparisons of variable `first` with a number, or with the table of its levels that begins at `second`.
BELOW = 3
AT_MOST = 4
ABOVE = 5
AT_LEAST = 6
SAME = 7
OTHER = 8
LEVEL = 9

UNKNOWN = 0.5


@step_function
def forbid(n, ucb, masks, place):  # type: ignore[no-untyped-def]
    """Give forbidden actions the lowest score, so that every maximum is over allowed ones."""
    for a in range(n.actions):
        if masks[place + a] > 0.0:
            ucb[a] = -math.inf


@inner_function
def blind_mask(p, stratum):  # type: ignore[no-untyped-def]
    """The mask given only the public part, as (numbers, place)."""
    n = p.sizes
    if n.contexts > 0:
        return p.constants.forbidden, (n.contexts + stratum) * n.actions
    return p.scratch.forbidden, PUBLIC_PART * n.actions


@inner_function
def sense_mask(p, sense):  # type: ignore[no-untyped-def]
    """The mask given a sensed part; finite contexts."""
    n = p.sizes
    block = n.contexts + n.strata + sense if n.senses > 0 else sense
    return p.constants.forbidden, block * n.actions


@inner_function
def sensed_mask(p, moment):  # type: ignore[no-untyped-def]
    """The mask given the public and sensed part of the moment."""
    if p.sizes.contexts > 0:
        return sense_mask(p, moment.sense)
    return p.scratch.forbidden, SENSED_PART * p.sizes.actions


@inner_function
def informed_mask(p, moment):  # type: ignore[no-untyped-def]
    """The mask at a reveal: given the whole context or, if reported values are missing, its sensed part."""
    n = p.sizes
    if moment.context < 0:
        return sensed_mask(p, moment)
    if n.contexts > 0:
        return p.constants.forbidden, moment.context * n.actions
    return p.scratch.forbidden, WHOLE * n.actions


@inner_function
def note_masks(p):  # type: ignore[no-untyped-def]
    """Compute the masks of the moment whose values are in the scratch, before any choice; contexts not finite."""
    if p.sizes.masked > 0 and p.sizes.contexts == 0:
        write_masks(p.sizes, p.constants, p.scratch, p.scratch.values, 0)


@step_function
def write_masks(n, constants, scratch, values, first):  # type: ignore[no-untyped-def]
    """Write the three masks of these values from row `first` on."""
    for view in range(VIEWS):
        begin = 0
        for a in range(n.actions):
            end = int(constants.condition_end[a])
            true = truth(constants, scratch.truth, values, begin, end, view)
            scratch.forbidden[(first + view) * n.actions + a] = 1.0 if true >= constants.doubt[a] else 0.0
            begin = end


@step_function
def truth(constants, stack, values, begin, end, view):  # type: ignore[no-untyped-def]
    """The truth value of a condition under this view: 0, 1/2 or 1; 0 if it has no operations."""
    code, top = constants.condition, 0.0
    depth = 0
    for i in range(begin, end):
        operation = int(code[3 * i])
        if operation == NEITHER:
            top = 1.0 - top
        elif operation <= EITHER:
            depth -= 1
            top = min(stack[depth], top) if operation == BOTH else max(stack[depth], top)
        else:
            if i > begin:
                stack[depth] = top
                depth += 1
            v = int(code[3 * i + 1])
            top = UNKNOWN
            if constants.sight[v] <= view:
                top = compared(code, operation, values[v], code[3 * i + 2])
    return top


@step_function
def compared(code, operation, value, other):  # type: ignore[no-untyped-def]  # noqa: PLR0911  (one per comparison)
    """The truth value of a comparison."""
    if operation == LEVEL:
        return code[int(other) + int(value)]
    if operation == BELOW:
        return 1.0 if value < other else 0.0
    if operation == AT_MOST:
        return 1.0 if value <= other else 0.0
    if operation == ABOVE:
        return 1.0 if value > other else 0.0
    if operation == AT_LEAST:
        return 1.0 if value >= other else 0.0
    if operation == SAME:
        return 1.0 if value == other else 0.0
    return 1.0 if value != other else 0.0
