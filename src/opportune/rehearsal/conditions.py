"""The contexts, openings and rewards of simulated participants, by name, for driving live decisions with `simulate`'s
draws.

Draws are functions of (seed, stream, step), so they do not depend on decisions. The reward of each action is found by
simulating policies that always take it, so that no part of a world is implemented twice.
"""

import math
from collections.abc import Iterable, Sequence
from types import SimpleNamespace
from typing import Any

import numpy as np

from opportune.algorithm.protocol import Draws
from opportune.policy import Policy
from opportune.problems.finite import Problem
from opportune.problems.variables import levels_of
from opportune.recommenders import FixedAction
from opportune.revealers import Always
from opportune.simulation import simulate
from opportune.simulation.visit import Happened, reward_with, visit
from opportune.worlds.common import WEEK, lateness

Values = dict[str, Any]


def stream_of(world: int, replicate: int = 0) -> int:
    """The stream of draws of participant number `world` in a replicate of `simulate`."""
    return world << 32 | replicate


def context_at(world: Any, index: int, step: int, *, seed: int, stream: int) -> tuple[Values, Values]:
    """The context at a step: public and sensed values by name, and reported values by name.

    `index` is the context's number in the trace, if contexts are finite.
    """
    if isinstance(world.problem, Problem):
        return context_of(world.informed_problem(), index)
    walk = visit(world, np.zeros(step, dtype=np.int64), seed=seed, stream=stream)
    return context_of(world.informed_problem(), walk.values[-1])


def context_of(problem: Any, moment: Any) -> tuple[Values, Values]:
    """The context of a moment, which is its number or, if contexts are not finite, its values."""
    if isinstance(problem, Problem):
        levels = problem.levels(int(moment))
    else:
        levels = {}
        for value, (name, variable) in zip(moment, problem.variables.items(), strict=False):
            names = levels_of(variable)
            levels[name] = float(value) if names is None else names[int(value)]
    for name in problem.histories:
        del levels[name]  # agents and the service compute histories themselves
    hidden = {name for name, seen in problem.visibility.items() if seen == "reported"}
    return (
        {name: value for name, value in levels.items() if name not in hidden},
        {name: value for name, value in levels.items() if name in hidden},
    )


def _unmasked(world: Any) -> Any:
    """The world with every action allowed, so that rewards of forbidden actions are known, too."""
    problem = world.problem
    if len(problem.always_allowed) == problem.actions:
        return world
    free = {"allowed": None} if isinstance(problem, Problem) else {"never_if": None}
    return world.replace(problem=problem.replace(**free, when_unknown=None))


def steps_late(world: Any, step: int, *, seed: int, stream: int) -> int:
    """The delay of a step's reward, in steps."""
    known = SimpleNamespace(happenings=SimpleNamespace(reward_delay=[most_late(world)]))
    draws = Draws(np.uint64(seed), np.uint64(stream))  # type: ignore[arg-type]  # as compiled code has them
    return int(getattr(lateness, "py_func", lateness)(known, draws, step))


def most_late(world: Any) -> int:
    """The longest delay of a reward, in steps."""
    return int(world.happenings.reward_delay)


class Conditions:
    """The contexts, openings and rewards of participants, one in each world, as in `simulate`'s first replicate."""

    def __init__(self, worlds: Sequence[Any], *, steps: int, seed: int) -> None:
        self.worlds, self.seed = worlds, seed
        self._actions = worlds[0].problem.action_names
        fixed = [
            Policy(recommender=FixedAction(action=a), revealer=Always(), name=str(a)) for a in range(len(self._actions))
        ]
        found = simulate(
            [_unmasked(world) for world in worlds],
            fixed,
            horizon=steps,
            replicates=1,
            seed=seed,
            trace=True,
            progress=False,
            device="cpu",
        ).isel(replicate=0)
        self._context = found.isel(policy=0)["context"].values
        self._rewards = found["reward"].values
        nothing = np.zeros(steps, dtype=np.int64)
        walks = [visit(world, nothing, seed=seed, stream=stream_of(i)) for i, world in enumerate(worlds)]
        self._problems = [world.informed_problem() for world in worlds]
        self._values = [walk.values for walk in walks]
        self._happened = [[Happened(*row) for row in walk.happened.tolist()] for walk in walks]
        self.remembers = bool(worlds[0].problem.histories)
        """Whether some variables are the participant's own history."""
        self.week = WEEK * worlds[0].problem.schedule.decisions_per_day

    def context(self, world: int, step: int) -> tuple[Values, Values]:
        """Public and sensed values, and reported values."""
        problem, number = self._problems[world], step - 1
        finite = isinstance(problem, Problem)
        return context_of(problem, self._context[world, number] if finite else self._values[world][number])

    def opened(self, world: int, step: int) -> bool:
        """Whether the app is opened unasked."""
        return bool(self._happened[world][step - 1].opened)

    def available(self, world: int, step: int) -> bool:
        """Whether the participant is available, with sensed values."""
        return bool(self._happened[world][step - 1].available)

    def answers(self, world: int, step: int, nudged: Iterable[int]) -> bool:
        """Whether a nudge is answered, given the earlier steps with a nudge."""
        lately = sum(step - self.week < earlier < step for earlier in nudged)
        return bool(lately <= self._happened[world][step - 1].patience)

    def reward(self, world: int, step: int, action: str, context: Values | None = None) -> float | None:
        """The reward of an action; None if it never arrives.

        If some variables are the participant's own history, the reward depends on the actual `context`.
        """
        number = self._actions.index(action)
        found = float(self._rewards[number, world, step - 1])
        own = self.worlds[world]
        if context is not None and own.problem.histories and not math.isnan(found):
            values = own.problem.values(context, step).values
            return reward_with(own, values, step, number, seed=self.seed, stream=stream_of(world))
        return None if math.isnan(found) else found

    def arrives(self, world: int, step: int) -> int:
        """The step at whose end the reward arrives."""
        return step + self._happened[world][step - 1].late
