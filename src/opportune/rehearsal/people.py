"""Simulated participants of a study: their worlds and conditions, and the decisions of `simulate` for them."""

import copy
from dataclasses import replace
from typing import Any

import xarray as xr

from opportune.rehearsal.conditions import Conditions
from opportune.service.state.study import StudyInForce
from opportune.simulation import simulate
from opportune.study.simulated import baseline_at


class People:
    """The participants of a study file's world; participant number i is in the study's instance i.

    Args:
        running: the study.
        count: the expected number of participants.
        steps: the expected number of steps of each; conditions beyond either are computed when needed.
        seed: of their contexts, openings and noise; effects and coins use the study file's seed.

    """

    def __init__(self, running: StudyInForce, *, count: int, steps: int, seed: int | None = None) -> None:
        running.study.require_truth()
        self.running, self.steps = running, steps
        self.seed = running.seed if seed is None else seed
        self._conditions = Conditions(worlds_of(running, count), steps=steps, seed=self.seed)

    def conditions(self, number: int, step: int = 1) -> Conditions:
        """The conditions of all participants up to this number, up to this step."""
        worlds = self._conditions.worlds
        if number >= len(worlds):
            worlds = worlds_of(self.running, max(number + 1, 2 * len(worlds)))
        if worlds is not self._conditions.worlds or step > self.steps:
            self.steps = max(self.steps, step)
            self._conditions = Conditions(worlds, steps=self.steps, seed=self.seed)
        return self._conditions

    def simulated(self, count: int) -> dict[str, xr.Dataset]:
        """The trace of `simulate` for the first participants, in each arm."""
        running = self.running
        policies = [replace(policy, name=f"arm {i}") for i, policy in enumerate(running.policies.values())]
        data = simulate(
            worlds_of(running, count), policies, horizon=running.horizon, replicates=1, seed=running.seed, trace=True,
            progress=False, device="cpu", timetable=running.study.timetable(count),
        ).isel(replicate=0)  # fmt: skip
        return {arm: data.isel(policy=i) for i, arm in enumerate(running.policies)}

    def baseline(self, number: int) -> dict[str, Any]:
        """A participant's values at enrolment."""
        return baseline_at(self.running.study, number)


def worlds_of(running: StudyInForce, count: int) -> list[Any]:
    """The worlds of the first `count` participants, with the problem that live agents know."""
    given = running.study.settings.reward.value_range
    worlds = []
    for world in running.study.replace(instances=count).worlds():
        problem = copy.copy(world.problem)  # its weekdays follow the participant's calendar
        problem.value_range = None if given is None else (given[0], given[1])
        worlds.append(world.replace(problem=problem))
    return worlds
