"""Live agents driven with what a simulated run met, and held to its decisions bit for bit.

What the trace does not hold (values of continuous variables, when a reward arrives) is worked out again from the
counter-based draws, as simulation.loop does it.
"""

import math
from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import xarray as xr

import opportune as op
from opportune.algorithm.rng import DELAY, VARIABLE, draw
from opportune.worlds.brushing import step as brushing
from opportune.worlds.brushing.world import BrushingWorld
from opportune.worlds.continuous import ContinuousWorld
from opportune.worlds.distributions import quantile

TRACED = ("probability", "gap", "price", "disagreement", "tolerance")
MARKED = ("revealed", "nudged", "opened", "available")
ACTIONS = ("action", "fresh_action", "stale_action")


class Participant:
    """One participant of a simulated study, and the agent that is to decide as it did."""

    def __init__(self, world: Any, agent: op.Agent, trace: xr.Dataset, seed: int, stream: int) -> None:
        self.world, self.agent = world, agent
        self.key = np.uint64(seed), np.uint64(stream)  # also where they exceed 2^63
        steps = [str(name) for name in trace.data_vars if trace[name].dims == ("step",)]
        self.trace = {name: trace[name].values.tolist() for name in steps}
        self.history = brushing.new_state()
        self.mail: dict[int, list[int]] = {}
        self.told: dict[int, dict[str, Any]] = {}
        self.pending: list[int] = []

    def values(self, step: int) -> dict[str, Any]:
        """The context of a step by names, without what the schedule tells."""
        problem = self.agent.problem
        if isinstance(self.world, BrushingWorld):
            prior, prop = brushing.sensed(self.world.params, self.history, step - 1)
            return {"weekend": int(brushing.weekend(self.world.params, step - 1)), "prior": prior, "prop": prop}
        if not isinstance(self.world, ContinuousWorld):
            levels = problem.levels(self.trace["context"][step - 1])  # type: ignore[union-attr]
            return {name: level for name, level in levels.items() if name not in problem.schedule.variables}
        packed, values = self.world.packed, {}
        about = zip(problem.variables.items(), packed.kinds, packed.places, packed.uniforms, strict=True)
        for (name, variable), kind, place, uniform in about:
            if kind >= 0:
                u = draw(*self.key, step, VARIABLE + uniform)
                number = quantile(kind, packed.parameters, place, u)
                values[name] = variable[int(number)] if isinstance(variable, tuple) else number
        return values

    def step(self, step: int, *, sealed: bool) -> op.Decision:
        """One decision point: what is reported is told with the proposal (`sealed`), or only at a reveal."""
        seen = self.agent.problem.visibility
        happened = {name: bool(self.trace[name][step - 1]) for name in MARKED}
        values = self.values(step)
        told = {name: value for name, value in values.items() if seen[name] == "reported"}
        given = {name: value for name, value in values.items() if name not in told}
        proposal = self.agent.propose(
            given,
            opened=happened["opened"],
            available=happened["available"],
            reported=told if told and sealed else None,
        )
        assert proposal.nudged == happened["nudged"], step
        answered = happened["revealed"] if proposal.nudged else None
        self.told[step] = told
        if told and not sealed and happened["revealed"]:
            earlier = {s: self.told[s] for s in self.pending}
            self.pending.clear()
            decision = self.agent.settle(answered, reported=told, earlier=earlier or None)
        else:
            decision = self.agent.settle(answered)
        if happened["available"] and not decision.revealed:
            self.pending.append(step)
        self.compare(step, decision)
        return decision

    def compare(self, step: int, decision: op.Decision) -> None:
        """The decision of the simulated run, to the last bit."""
        names = self.agent.problem.action_names
        expected = {name: self.trace[name][step - 1] for name in (*TRACED, *MARKED)}
        expected |= {name: names[self.trace[name][step - 1]] for name in ACTIONS}
        assert {name: getattr(decision, name) for name in expected} == expected, (self.agent.policy.name, step)

    def rewards(self, step: int) -> None:
        """Learn from the rewards that arrive at the end of a step, the oldest first."""
        reward, delay = self.trace["reward"][step - 1], self.world.happenings.reward_delay
        if not math.isnan(reward):
            late = min(int(draw(*self.key, step, DELAY) * (delay + 1)), delay)
            self.mail.setdefault(step + late, []).append(step)
        elif self.trace["available"][step - 1]:
            self.agent.skip(step)
        for earlier in sorted(self.mail.pop(step, [])):
            self.agent.learn(self.trace["reward"][earlier - 1], earlier)
        if isinstance(self.world, BrushingWorld):
            brushing.advance(self.history, step - 1, self.trace["outcome"][step - 1])


def replay(
    worlds: Sequence[Any], agents: Iterable[op.Agent], trace: xr.Dataset, *, seed: int, replicate: int = 0,
    sealed: bool = True, horizon: int | None = None,
) -> list[list[op.Decision]]:  # fmt: skip
    """Drive these agents as a simulated study went; `trace` has one policy and its worlds. Gives their decisions."""
    participants = [
        Participant(world, agent, trace.isel(world=w, replicate=replicate), seed, agent.stream)
        for w, (world, agent) in enumerate(zip(worlds, agents, strict=True))
    ]
    return run(participants, range(1, (horizon or trace.sizes["step"]) + 1), sealed=sealed)


def run(participants: Sequence[Participant], steps: Iterable[int], *, sealed: bool = True) -> list[list[op.Decision]]:
    """These steps of all participants, in their order."""
    decisions: list[list[op.Decision]] = [[] for _ in participants]
    for step in steps:
        for made, participant in zip(decisions, participants, strict=True):
            made.append(participant.step(step, sealed=sealed))
            participant.rewards(step)
    return decisions
