"""A sender that knows a user's true parameters, to show the possible gain from this knowledge."""

from collections.abc import Sequence

import numpy as np
import xarray as xr

from opportune.algorithm import rng
from opportune.engine.compiled import driver_function
from opportune.simulation.pack import streams_of
from opportune.worlds.brushing import step as brushing_step
from opportune.worlds.brushing.world import BrushingWorld

INFORMED = "informed sender"


def run_informed(worlds: Sequence[BrushingWorld], horizon: int, trials: int, seed: int) -> xr.Dataset:
    """A sender that knows the user's true parameters, and sends where a message earns more now than it costs.

    It meets the same draws as the policies. It does not look ahead, though brushing today helps tomorrow, so it
    need not be the best policy.
    """
    outcome = np.zeros((1, len(worlds), trials, horizon))
    action = np.zeros_like(outcome)
    streams = streams_of(0, trials, len(worlds))
    cost = np.array([w.params.message_cost[0] for w in worlds])
    for i, world in enumerate(worlds):
        for r in range(trials):
            _informed_course(
                world.params, brushing_step.new_state(), brushing_step.new_features(world.params), np.uint64(seed),
                streams[r, i], outcome[0, i, r], action[0, i, r],
            )  # fmt: skip
    axes = ("policy", "world", "replicate", "step")
    nothing = (axes[:3], np.zeros(outcome.shape[:3]))
    return xr.Dataset(
        {
            "outcome": (axes, outcome),
            "reward": (axes, (outcome - cost[:, None, None] * action) / brushing_step.CAP),
            "action": (axes, action),
            "spent": nothing,
            "nudges": nothing,
            "reveals": nothing,
            "revealed": (axes, np.zeros(outcome.shape, dtype=bool)),
        },
        coords={
            "policy": [INFORMED],
            "world": np.arange(len(worlds)),
            "replicate": np.arange(trials),
            "step": np.arange(1, horizon + 1),
        },
    )


@driver_function
def _informed_course(user, state, x, seed, stream, outcomes, actions):  # type: ignore[no-untyped-def]
    """One user's course under the informed sender."""
    for t in range(outcomes.shape[0]):
        brushing_step.arrive(user, state, t, x)
        gain = 0.0
        for action in range(2):
            p0, rate = brushing_step.zero_probability_and_rate(user, x, action)
            gain += (2 * action - 1) * brushing_step.expected_outcome(p0, rate)
        chosen = 1 if gain > user.message_cost[0] else 0
        zero = rng.draw(seed, stream, t + 1, rng.ZERO)
        count = rng.draw(seed, stream, t + 1, rng.NOISE)
        q = brushing_step.outcome(user, x, chosen, zero, count)
        brushing_step.advance(state, t, q)
        outcomes[t] = q
        actions[t] = chosen
