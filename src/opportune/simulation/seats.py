"""Participants in worlds, without agents: what arrives at a step, whether a nudge is answered, the result of an action.

Policies in Python run through a world with these calls, with the draws that `simulate` makes.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from opportune.algorithm.history import record_decision, record_reward
from opportune.algorithm.masks import note_masks
from opportune.algorithm.protocol import Draws, Moment, clear
from opportune.algorithm.rng import ARRIVAL, COIN, draw, draw_pair
from opportune.engine.compiled import driver_function, inner_function
from opportune.engine.declared import ARRAYS, Owners
from opportune.engine.hooks import arrive, blind_value, respond
from opportune.engine.pointers import aligned
from opportune.engine.views import handle_of, participant_at
from opportune.simulation.pack import device_form
from opportune.worlds import SimulatedWorld, in_numbers, owner_of
from opportune.worlds.common import answers, is_available, is_rewarded, lateness, opens, remember_nudge

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

# The columns of the arrays below: facts of a decision point before the decision, and results of the decision.
AVAILABLE, OPENED, ANSWERS, COINS = range(4)
REWARD, OUTCOME, BEST, BLIND, REWARDED, LATE = range(6)
STEP, STRATUM, SENSE, CONTEXT = range(4)


class Seats:
    """One participant in each world, step by step.

    Args:
        worlds: worlds of the same kind and sizes.
        horizon: the number of decision points.
        seed: the seed of every draw.
        streams: the stream of draws of each participant.

    """

    def __init__(self, worlds: Sequence[SimulatedWorld], *, horizon: int, seed: int, streams: Sequence[int]) -> None:
        self.problem = worlds[0].informed_problem()
        form = device_form(worlds, "cpu")
        at = self.problem.layout(horizon=horizon, **form).with_owners(Owners(world=owner_of(worlds[0])))
        self._places = at.numbers()
        known = {
            id(world): {"constants": world.informed_problem().constants(at, horizon), "world": in_numbers(world, at)}
            for world in {id(world): world for world in worlds}.values()
        }  # read-only, so that seats in one world can share them
        own = {name: aligned(len(worlds), at.length(name)) for name in ARRAYS if name not in ("constants", "world")}
        self._arrays = [
            {**{name: rows[i] for name, rows in own.items()}, **known[id(world)]} for i, world in enumerate(worlds)
        ]
        self._handles = np.stack([handle_of(self._places, arrays) for arrays in self._arrays])
        self._seed = np.uint64(seed)
        self._streams = np.array(streams, dtype=np.uint64)
        self.moments: Ints = np.zeros((len(worlds), 4), dtype=np.int64)
        """The present decision points: step, stratum, sensed part, context."""
        self.values: Floats = np.zeros((len(worlds), at.sizes.variables))
        """The values of their variables, if contexts are not finite."""
        self.conditions: Floats = np.zeros((len(worlds), 4))
        self.results: Floats = np.zeros((len(worlds), 6))

    def begin(self, seed: int, streams: Sequence[int]) -> None:
        """Start again with these draws."""
        self._seed, self._streams = np.uint64(seed), np.array(streams, dtype=np.uint64)
        begin_seats(self._handles)

    def arrive(self, step: int) -> None:
        """Go to a step; `moments`, `values` and `conditions` then describe it."""
        arrive_seats(self._handles, self._seed, self._streams, step, self.moments, self.values, self.conditions)

    def respond(self, actions: Ints, nudged: NDArray[np.bool_]) -> None:
        """Write the results of these actions to `results`, and record the nudges made."""
        given = self.moments, self.conditions, actions, nudged
        respond_seats(self._handles, self._seed, self._streams, *given, self.results)


@driver_function
def begin_seats(handles):  # type: ignore[no-untyped-def]
    """Reset all participants."""
    for i in range(handles.shape[0]):
        p = participant_at(handles[i])
        clear(p.history_array, p.lengths.history)
        clear(p.memory_array, p.lengths.memory)


@driver_function
def arrive_seats(handles, seed, streams, step, moments, values, conditions):  # type: ignore[no-untyped-def]
    """Write what arrives for each participant at a step."""
    for i in range(handles.shape[0]):
        p, draws = participant_at(handles[i]), Draws(seed, streams[i])
        arrival, _ = draw_pair(draws.seed, draws.stream, step, ARRIVAL)
        moment = arrive(int(p.happenings.kind[0]), p, draws, step, arrival)
        note_masks(p)
        moments[i, STEP] = moment.step
        moments[i, STRATUM] = moment.stratum
        moments[i, SENSE] = moment.sense
        moments[i, CONTEXT] = moment.context
        for v in range(values.shape[1]):
            values[i, v] = p.scratch.values[v]
        conditions[i, AVAILABLE] = is_available(p, draws, step)
        conditions[i, OPENED] = conditions[i, AVAILABLE] > 0.0 and opens(p, draws, moment)
        conditions[i, ANSWERS] = answers(p, draws, moment)
        conditions[i, COINS] = draw(draws.seed, draws.stream, step, COIN)


@driver_function
def respond_seats(handles, seed, streams, moments, conditions, actions, nudged, results):  # type: ignore[no-untyped-def]
    """Write the result of each participant's action."""
    for i in range(handles.shape[0]):
        p, draws = participant_at(handles[i]), Draws(seed, streams[i])
        kind, step = int(p.happenings.kind[0]), moments[i, STEP]
        moment = Moment(step, moments[i, STRATUM], moments[i, SENSE], moments[i, CONTEXT])
        _, noise = draw_pair(draws.seed, draws.stream, step, ARRIVAL)
        reward, outcome, best = respond(kind, p, draws, moment, actions[i], noise)
        results[i, REWARD] = reward
        results[i, OUTCOME] = outcome
        results[i, BEST] = best
        results[i, BLIND] = blind_value(kind, p, moment, actions[i], outcome)
        results[i, REWARDED] = is_rewarded(p, draws, step)
        results[i, LATE] = lateness(p, draws, step)
        if p.sizes.habituated > 0:
            remember_nudge(p, step, nudged[i])
        if p.sizes.histories > 0:
            revealed = conditions[i, OPENED] > 0.0 or (nudged[i] and conditions[i, ANSWERS] > 0.0)
            record_decision(p.sizes, p.past, step, nudged[i], revealed)
            late = lateness(p, draws, step) if conditions[i, AVAILABLE] > 0.0 and results[i, REWARDED] > 0.0 else -1
            record_rewards(p, step, late, reward)


@inner_function
def record_rewards(p, step, late, reward):  # type: ignore[no-untyped-def]
    """Record when the step's reward will arrive (`late` steps; -1: never), and the rewards that arrive now."""
    delay, mail = p.sizes.delay, p.mail
    if delay == 0:
        if late == 0:
            record_reward(p.sizes, p.past, step, reward)
        return
    row = step % (delay + 1)
    mail.due[row] = step + late if late >= 0 else 0
    mail.step[row] = step
    mail.reward[row] = reward
    for earlier in range(max(1, step - delay), step + 1):
        row = earlier % (delay + 1)
        if mail.due[row] == step and mail.step[row] == earlier:
            record_reward(p.sizes, p.past, earlier, mail.reward[row])
