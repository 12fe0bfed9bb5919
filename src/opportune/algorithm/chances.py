"""Randomised actions: the probability of each, and the action that the step's draw selects.

A recommender reports the action it intends and, if it mixes several, the probability of each. Probabilities of allowed
actions below the floor eps are raised to it, at the cost of those above:

    p(a) = eps                                          where p(a) < eps
    p(a) = eps + (p(a) - eps) (1 - need / spare)        elsewhere,
    need = sum (eps - p)+,   spare = sum (p - eps)+,

and the action is the inverse cumulative probability at u = draw(seed, stream, step, TREATMENT): one draw per step, for
blind and informed actions. The results are left in `scratch.chance`: p(a) of every action, then u, then the intended
action.
"""

import math

from opportune.algorithm.masks import blind_mask, informed_mask
from opportune.algorithm.rng import TREATMENT, draw
from opportune.engine.compiled import inner_function, step_function
from opportune.engine.declared import CERTAIN, EQUAL, UNTOLD
from opportune.engine.hooks import act_blind, act_informed


@inner_function
def fixed_now(p, moment):  # type: ignore[no-untyped-def]
    """Whether this is a run-in step with a fixed action."""
    return moment.step <= p.rule.run_in[0] and p.rule.run_in_equal[0] == 0.0


@inner_function
def stand(p, moment, draws):  # type: ignore[no-untyped-def]
    """(intended, taken) without a reveal: based on the snapshot, and the public part of the context."""
    if fixed_now(p, moment):
        intended = int(p.rule.run_in_action[0])
    else:
        intended = act_blind(int(p.rule.recommender[0]), p, moment, draws)
    if p.sizes.randomised == 0:
        return intended, intended
    masks, place = blind_mask(p, moment.stratum)
    return by_chance(p, moment, draws, intended, masks, place)


@inner_function
def advise(p, moment, draws):  # type: ignore[no-untyped-def]
    """The action at a reveal: based on the full context, or its sensed part if reported values are missing."""
    if fixed_now(p, moment):
        intended = int(p.rule.run_in_action[0])
    else:
        intended = act_informed(int(p.rule.recommender[0]), p, moment, draws)
    if p.sizes.randomised == 0:
        return intended
    masks, place = informed_mask(p, moment)
    return by_chance(p, moment, draws, intended, masks, place)[1]


@step_function
def by_chance(p, moment, draws, intended, masks, place):  # type: ignore[no-untyped-def]
    """(intended, taken): the action that the step's draw selects, among those that the mask at masks[place] allows.

    If all allowed actions are equally probable, the one taken counts as intended.
    """
    n, rule, chance = p.sizes, p.rule, p.scratch.chance
    kind, floor = int(rule.chances[0]), rule.floor[0]
    if moment.step <= rule.run_in[0]:
        kind, floor = EQUAL if rule.run_in_equal[0] > 0.0 else CERTAIN, 0.0
    u = draw(draws.seed, draws.stream, moment.step, TREATMENT)
    taken = intended
    if kind == UNTOLD:
        for a in range(n.actions):
            chance[a] = math.nan
        u = math.nan
    elif kind == EQUAL:
        write_equal(n, chance, masks, place)
        taken = fallen_on(n, chance, u)
        intended = taken
    else:
        if kind == CERTAIN:
            for a in range(n.actions):
                chance[a] = 1.0 if a == intended else 0.0
        if floor > 0.0:
            lift(n, chance, masks, place, floor)
        taken = fallen_on(n, chance, u)
    chance[n.actions] = u
    chance[n.actions + 1] = intended
    return intended, taken


@step_function
def write_equal(n, chance, masks, place):  # type: ignore[no-untyped-def]
    """Give every allowed action the same probability."""
    allowed = n.actions
    if n.masked > 0:
        for a in range(n.actions):
            allowed -= int(masks[place + a])
    for a in range(n.actions):
        chance[a] = 1.0 / allowed if n.masked == 0 or masks[place + a] == 0.0 else 0.0


@step_function
def lift(n, chance, masks, place, floor):  # type: ignore[no-untyped-def]
    """Raise the probabilities of allowed actions to the floor, at the cost of those above it."""
    need, spare = 0.0, 0.0
    for a in range(n.actions):
        if n.masked == 0 or masks[place + a] == 0.0:
            need += max(floor - chance[a], 0.0)
            spare += max(chance[a] - floor, 0.0)
    kept = 1.0 - need / spare if spare > 0.0 else 1.0
    for a in range(n.actions):
        if n.masked == 0 or masks[place + a] == 0.0:
            chance[a] = floor if chance[a] < floor else floor + (chance[a] - floor) * kept


@step_function
def fallen_on(n, chance, u):  # type: ignore[no-untyped-def]
    """The first action at which the sum of probabilities exceeds u."""
    total, last = 0.0, 0
    for a in range(n.actions):
        if chance[a] > 0.0:
            total += chance[a]
            last = a
            if u < total:
                return a
    return last
