"""Simulated participants of a study: their worlds, what they meet, and what `simulate` makes of them."""

from typing import Any

import xarray as xr

from opportune.rehearsal.conditions import Conditions
from opportune.service.state.study import StudyInForce
from opportune.simulation import simulate
from opportune.study.serving import live_problem


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
        self._met = Conditions(worlds_of(running, count), steps=steps, seed=self.seed)

    def met(self, number: int, step: int = 1) -> Conditions:
        """What all participants up to this number meet, up to this step."""
        worlds = self._met.worlds
        if number >= len(worlds):
            worlds = worlds_of(self.running, max(number + 1, 2 * len(worlds)))
        if worlds is not self._met.worlds or step > self.steps:
            self.steps = max(self.steps, step)
            self._met = Conditions(worlds, steps=self.steps, seed=self.seed)
        return self._met

    def simulated(self, count: int) -> xr.Dataset:
        """What `simulate` makes of the first participants with the policy that is served: every step of each."""
        running = self.running
        data = simulate(
            worlds_of(running, count), [running.policy], horizon=running.horizon, replicates=1, seed=running.seed,
            trace=True, progress=False, device="cpu",
        )  # fmt: skip
        return data.isel(policy=0, replicate=0)


def worlds_of(running: StudyInForce, count: int) -> list[Any]:
    """The worlds of so many participants, whose agents know what live ones know."""
    problem = live_problem(running.study)
    return [world.replace(problem=problem) for world in running.study.replace(instances=count).worlds()]
