"""A walk through a world without agents: what arrives, and what comes of actions that are given beforehand."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from opportune.core.compiled import driver_function
from opportune.core.layout import GROUPS, Constants
from opportune.core.pointers import aligned, flat
from opportune.core.protocol import Draws
from opportune.core.registry import arrive, blind_value, respond, start_world
from opportune.core.rng import ARRIVAL, draw_pair
from opportune.core.views import handle_of, participant_at


class Walk(NamedTuple):
    """What was met, step by step."""

    moments: NDArray[np.int64]  # [T, 4]: the fields of core.protocol.Moment
    values: NDArray[np.float64]  # [T, variables], contexts not finite
    results: NDArray[np.float64]  # [T, 4]: reward, outcome, best possible outcome, value of acting blindly


def visit(world: Any, actions: NDArray[np.int64], *, seed: int, stream: int) -> Walk:
    """Go through a world with these actions, one per step."""
    problem = world.informed_problem()
    horizon = len(actions)
    at = problem.layout(horizon=horizon)
    places = at.numbers()
    arrays = [aligned(max(1, at.length(group))) for group in GROUPS]
    arrays[0] = problem.constants(at, horizon) if at.length(Constants) else arrays[0]
    walk = Walk(np.zeros((horizon, 4), dtype=np.int64), np.zeros((horizon, at.sizes.variables)), np.zeros((horizon, 4)))
    handle = handle_of(places, *arrays)  # the arrays live for as long as this function
    history = np.zeros(max(1, world.history))
    walk_through(world.number, handle, world.numbers(), history, np.uint64(seed), np.uint64(stream), actions, *walk)
    return walk


@driver_function
def walk_through(kind, handle, numbers, history, seed, stream, actions, moments, values, results):  # type: ignore[no-untyped-def]
    """Go through a world, in compiled code, and write down what was met."""
    p, draws = participant_at(handle), Draws(seed, stream)
    world, past = flat(numbers), flat(history)
    start_world(kind, world, past)
    for t in range(actions.shape[0]):
        action = actions[t]
        arrival, noise = draw_pair(seed, stream, t + 1, ARRIVAL)
        moment = arrive(kind, world, past, p, draws, t + 1, arrival)
        moments[t, 0] = moment.step
        moments[t, 1] = moment.stratum
        moments[t, 2] = moment.sense
        moments[t, 3] = moment.context
        for v in range(values.shape[1]):
            values[t, v] = p.scratch.values[v]
        reward, outcome, best = respond(kind, world, past, p, draws, moment, action, noise)
        results[t, 0] = reward
        results[t, 1] = outcome
        results[t, 2] = best
        results[t, 3] = blind_value(kind, world, p, moment, action, outcome)
