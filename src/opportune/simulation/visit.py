"""A walk through a world without agents: what arrives, and what comes of actions that are given beforehand."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from opportune.algorithm.protocol import Draws
from opportune.algorithm.rng import ARRIVAL, draw_pair
from opportune.engine.compiled import driver_function
from opportune.engine.declared import ARRAYS, Owners
from opportune.engine.hooks import arrive, blind_value, respond
from opportune.engine.pointers import aligned
from opportune.engine.views import handle_of, participant_at
from opportune.worlds import in_numbers, owner_of


class Walk(NamedTuple):
    """What was met, step by step."""

    moments: NDArray[np.int64]  # [T, 4]: the fields of algorithm.protocol.Moment
    values: NDArray[np.float64]  # [T, variables], contexts not finite
    results: NDArray[np.float64]  # [T, 4]: reward, outcome, best possible outcome, value of acting blindly


def visit(world: Any, actions: NDArray[np.int64], *, seed: int, stream: int) -> Walk:
    """Go through a world with these actions, one per step."""
    problem = world.informed_problem()
    horizon = len(actions)
    at = problem.layout(horizon=horizon).with_owners(Owners(world=owner_of(world)))
    arrays = {name: aligned(at.length(name)) for name in ARRAYS}
    arrays["constants"], arrays["world"] = problem.constants(at, horizon), in_numbers(world, at)
    walk = Walk(np.zeros((horizon, 4), dtype=np.int64), np.zeros((horizon, at.sizes.variables)), np.zeros((horizon, 4)))
    places = at.numbers()
    handle = handle_of(places, arrays)  # the arrays live for as long as this function
    walk_through(handle, np.uint64(seed), np.uint64(stream), actions, walk)
    return walk


@driver_function
def walk_through(handle, seed, stream, actions, walk):  # type: ignore[no-untyped-def]
    """The walk itself, compiled."""
    p, draws = participant_at(handle), Draws(seed, stream)
    kind = int(p.happenings.kind[0])
    for t in range(actions.shape[0]):
        action = actions[t]
        arrival, noise = draw_pair(seed, stream, t + 1, ARRIVAL)
        moment = arrive(kind, p, draws, t + 1, arrival)
        walk.moments[t, 0] = moment.step
        walk.moments[t, 1] = moment.stratum
        walk.moments[t, 2] = moment.sense
        walk.moments[t, 3] = moment.context
        for v in range(walk.values.shape[1]):
            walk.values[t, v] = p.scratch.values[v]
        reward, outcome, best = respond(kind, p, draws, moment, action, noise)
        walk.results[t, 0] = reward
        walk.results[t, 1] = outcome
        walk.results[t, 2] = best
        walk.results[t, 3] = blind_value(kind, p, moment, action, outcome)
