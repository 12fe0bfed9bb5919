"""A walk through a world without agents: the arrivals, and the results of given actions."""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from opportune.algorithm.history import record_decision, record_reward
from opportune.algorithm.protocol import Draws, Moment
from opportune.algorithm.rng import ARRIVAL, draw_pair
from opportune.algorithm.scores import write_moment
from opportune.engine.compiled import driver_function
from opportune.engine.declared import ARRAYS, Owners
from opportune.engine.hooks import arrive, blind_value, respond
from opportune.engine.layout import Layout
from opportune.engine.pointers import aligned
from opportune.engine.views import handle_of, participant_at
from opportune.worlds import in_numbers, owner_of
from opportune.worlds.common import is_available, is_rewarded, lateness, opens, patience


class Walk(NamedTuple):
    """The record of a walk, step by step."""

    moments: NDArray[np.int64]  # [T, 4]: the fields of algorithm.protocol.Moment
    values: NDArray[np.float64]  # [T, variables], if contexts are not finite
    results: NDArray[np.float64]  # [T, 4]: reward, outcome, best possible outcome, value of acting blindly
    happened: NDArray[np.int64]  # [T, 5]: the fields of Happened


class Happened(NamedTuple):
    """The events of a step that do not depend on decisions."""

    opened: int
    available: int
    patience: int  # the most nudges of the last seven days after which one more is answered; -1: none is answered
    rewarded: int
    late: int  # the number of steps until the reward arrives


def visit(world: Any, actions: NDArray[np.int64], *, seed: int, stream: int) -> Walk:
    """Go through a world with these actions, one per step."""
    horizon = len(actions)
    at, arrays = arrays_of(world, horizon)
    walk = Walk(
        np.zeros((horizon, 4), dtype=np.int64), np.zeros((horizon, at.sizes.variables)), np.zeros((horizon, 4)),
        np.zeros((horizon, len(Happened._fields)), dtype=np.int64),
    )  # fmt: skip
    places = at.numbers()
    handle = handle_of(places, arrays)  # the arrays outlive the handle in this function
    walk_through(handle, np.uint64(seed), np.uint64(stream), actions, walk)
    return walk


def arrays_of(world: Any, horizon: int) -> tuple[Layout, dict[str, NDArray[np.float64]]]:
    """The layout and arrays of one participant of a world, without agents."""
    problem = world.informed_problem()
    at = problem.layout(horizon=horizon).with_owners(Owners(world=owner_of(world)))
    arrays = {name: aligned(at.length(name)) for name in ARRAYS}
    arrays["constants"], arrays["world"] = problem.constants(at, horizon), in_numbers(world, at)
    return at, arrays


def reward_with(world: Any, values: NDArray[np.float64], step: int, action: int, *, seed: int, stream: int) -> float:
    """The reward of an action at a step with these values; contexts not finite."""
    at, arrays = arrays_of(world, step)
    places, found = at.numbers(), np.zeros(2)
    handle = handle_of(places, arrays)
    put_values(handle, values)
    respond_at(handle, np.uint64(seed), np.uint64(stream), step, world.problem.stratum(values), 0, 0, action, found)
    return float(found[0])


@driver_function
def put_values(handle, values):  # type: ignore[no-untyped-def]
    """Put a moment's values and features into the scratch; contexts not finite."""
    p = participant_at(handle)
    write_moment(p.sizes, p.constants, p.scratch, values, p.scratch.x)


@driver_function
def respond_at(handle, seed, stream, step, stratum, sense, context, action, results):  # type: ignore[no-untyped-def]
    """Reward and outcome of an action at this moment, whose features are in the scratch; contexts not finite."""
    p = participant_at(handle)
    _, noise = draw_pair(seed, stream, step, ARRIVAL)
    moment = Moment(step, stratum, sense, context)
    reward, outcome, _ = respond(int(p.happenings.kind[0]), p, Draws(seed, stream), moment, action, noise)
    results[0] = reward
    results[1] = outcome


@driver_function
def walk_through(handle, seed, stream, actions, walk):  # type: ignore[no-untyped-def]
    """The compiled walk."""
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
        if p.sizes.histories > 0:
            record_decision(p.sizes, p.past, t + 1, False, False)
            record_reward(p.sizes, p.past, t + 1, reward)
        walk.happened[t, 0] = opens(p, draws, moment)
        walk.happened[t, 1] = is_available(p, draws, t + 1)
        walk.happened[t, 2] = patience(p, draws, moment)
        walk.happened[t, 3] = is_rewarded(p, draws, t + 1)
        walk.happened[t, 4] = lateness(p, draws, t + 1)
