"""Simulated participants of a study: their worlds, what they meet, and what `simulate` makes of them."""

import copy
from dataclasses import replace
from typing import Any

import xarray as xr

from opportune.rehearsal.conditions import Conditions
from opportune.service.state.study import StudyInForce
from opportune.simulation import simulate
from opportune.study.simulated import baseline_at


class People:
    """The participants of a study file's world. Participant number i lives in the study's instance i.

    Args:
        running: the study.
        count: how many there will be, and
        steps: how many steps each makes; should there be more, what they meet is found then.
        seed: of what they meet; what works for whom is the study file's, and so are coins.

    """

    def __init__(self, running: StudyInForce, *, count: int, steps: int, seed: int | None = None) -> None:
        running.study.require_truth()
        self.running, self.steps = running, steps
        self.seed = running.seed if seed is None else seed
        self._conditions = Conditions(worlds_of(running, count), steps=steps, seed=self.seed)

    def conditions(self, number: int, step: int = 1) -> Conditions:
        """What all participants up to this number meet, up to this step."""
        worlds = self._conditions.worlds
        if number >= len(worlds):
            worlds = worlds_of(self.running, max(number + 1, 2 * len(worlds)))
        if worlds is not self._conditions.worlds or step > self.steps:
            self.steps = max(self.steps, step)
            self._conditions = Conditions(worlds, steps=self.steps, seed=self.seed)
        return self._conditions

    def simulated(self, count: int) -> dict[str, xr.Dataset]:
        """What `simulate` makes of the first participants in each arm: every step of each."""
        running = self.running
        policies = [replace(policy, name=f"arm {i}") for i, policy in enumerate(running.policies.values())]
        data = simulate(
            worlds_of(running, count), policies, horizon=running.horizon, replicates=1, seed=running.seed, trace=True,
            progress=False, device="cpu", timetable=running.study.timetable(count),
        ).isel(replicate=0)  # fmt: skip
        return {arm: data.isel(policy=i) for i, arm in enumerate(running.policies)}

    def baseline(self, number: int) -> dict[str, Any]:
        """What a participant says at enrolment."""
        return baseline_at(self.running.study, number)


def worlds_of(running: StudyInForce, count: int) -> list[Any]:
    """The worlds of so many participants, whose agents know what live ones know."""
    given = running.study.settings.reward.value_range
    worlds = []
    for world in running.study.replace(instances=count).worlds():
        problem = copy.copy(world.problem)  # whose weekdays are the participant's
        problem.value_range = None if given is None else (given[0], given[1])
        worlds.append(world.replace(problem=problem))
    return worlds
