"""Gymnasium environments: `gymnasium.make("opportune/Reveal-v0", ...)` after `import opportune.gym` (extra `gym`).

A decision takes two steps of the environment, one for each agent of a study. In phase 0 the revealer sees public and
sensed variables, and chooses 0 (no nudge) or 1 (nudge). In phase 1 the recommender sees public variables or, after a
reveal, all of them, and chooses an action. The reward comes with phase 1; `info["cost"]` is 1 if a nudge was made.

A reward that never arrives counts as 0, and `info["rewarded"]` is then False; a late one is given at once.

`info["action_mask"]` marks the valid choices of the present phase; `RevealEnv.action_masks` returns the same for
learners that expect this name, such as sb3-contrib's.
"""

from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opportune import checks
from opportune.engine.declared import PUBLIC_PART, WHOLE
from opportune.engine.hooks import WORLDS
from opportune.errors import InputError, StateError
from opportune.problems.finite import Problem
from opportune.problems.variables import levels_of
from opportune.simulation.seats import ANSWERS, AVAILABLE, CONTEXT, OPENED, REWARD, REWARDED, STRATUM, Seats
from opportune.simulation.sizes import check_horizon
from opportune.worlds import SimulatedWorld, synthetic_worlds

try:
    import gymnasium
    from gymnasium.vector import AutoresetMode, VectorEnv
    from gymnasium.vector.utils import batch_space
except ImportError as error:
    raise ImportError("opportune.gym needs gymnasium 1.1 or newer: pip install 'opportune[gym]'") from error

Observations = dict[str, NDArray[Any]]
Info = dict[str, Any]
REVEALER, RECOMMENDER = 0, 1


class Reveals:
    """Participants of one world in the two phases of a decision, all stepped together.

    Args:
        world: the world; by default the paper's first synthetic one.
        budget: the number of nudges of each participant.
        horizon: decisions in an episode.
        number: the number of participants.

    """

    def __init__(self, world: SimulatedWorld | None, budget: int, horizon: int, number: int) -> None:
        if world is None:
            world = synthetic_worlds(1, seed=1)[0]
        if not isinstance(world, SimulatedWorld) or isinstance(world, type):
            raise InputError(f"world is {checks.brief(world)}; expected a world such as LinearWorld")
        checks.registered(world, WORLDS)
        self.world, self.problem = world, world.informed_problem()
        self.horizon = check_horizon([world], horizon)
        self.budget = checks.whole("budget", budget, least=0)
        self.number = number
        self.step = 0  # before the first reset
        self._seats = Seats([world] * number, horizon=self.horizon, seed=0, streams=range(number))
        self.names = tuple(self.problem.variables)
        sees = [self.problem.visibility[name] for name in self.names]
        self._seen = {
            REVEALER: np.array([seen != "reported" for seen in sees]),
            RECOMMENDER: np.array([seen == "public" for seen in sees]),
        }
        self._choices = max(2, len(self.problem.action_names))

    @property
    def observation_space(self) -> Any:
        """The observation of one participant's agents."""
        share: dict[str, Any] = {"low": 0.0, "high": 1.0, "shape": (1,), "dtype": np.float32}
        variables = len(self.names)
        low, high = np.full(variables, -np.inf, np.float32), np.full(variables, np.inf, np.float32)
        if isinstance(self.problem, Problem):
            low[:], high[:] = 0.0, [len(levels) - 1 for levels in self.problem.variables.values()]
        return gymnasium.spaces.Dict(
            {
                "phase": gymnasium.spaces.Discrete(2),
                "time": gymnasium.spaces.Box(**share),  # elapsed share of the horizon
                "budget_left": gymnasium.spaces.Box(**share),
                "age": gymnasium.spaces.Box(**share),  # time since the last reveal, as a share of the horizon
                "opened": gymnasium.spaces.Discrete(2),
                "revealed": gymnasium.spaces.Discrete(2),
                "known": gymnasium.spaces.MultiBinary(variables),  # 1 for each visible variable
                "context": gymnasium.spaces.Box(low, high, dtype=np.float32),  # 0 for hidden variables
            }
        )

    @property
    def action_space(self) -> Any:
        """Nudge or not, then one of the actions."""
        return gymnasium.spaces.Discrete(self._choices)

    def begin(self, seed: int, streams: Sequence[int]) -> None:
        """Start an episode with these draws."""
        self._seats.begin(seed, streams)
        self.step, self.phase = 1, REVEALER
        self.left = np.full(self.number, self.budget)
        self.age = np.ones(self.number, dtype=np.int64)
        self.nudged = np.zeros(self.number, dtype=np.bool_)
        self.revealed = np.zeros(self.number, dtype=np.bool_)
        self.rewarded = np.zeros(self.number, dtype=np.bool_)
        self._arrive()

    def _arrive(self) -> None:
        self._seats.arrive(self.step)
        self.opened = self._seats.conditions[:, OPENED] > 0.0
        self.context = self._context()

    def _context(self) -> NDArray[np.float32]:
        """The values of the present contexts: numbers as they are, others by the number of their level."""
        if not isinstance(self.problem, Problem):
            return self._seats.values[:, : len(self.names)].astype(np.float32)
        sizes = [len(levels) for levels in self.problem.variables.values()]
        return np.stack(np.unravel_index(self._seats.moments[:, CONTEXT], sizes), axis=1).astype(np.float32)

    def observe(self) -> Observations:
        """The observation of each participant's agent in the present phase: arrays with a leading axis."""
        known = np.broadcast_to(self._seen[self.phase], self.context.shape)
        if self.phase == RECOMMENDER:
            known = known | self.revealed[:, None]
        full: dict[str, Any] = {"dtype": np.float32, "shape": (self.number, 1)}
        least = max(self.budget, 1)
        return {
            "phase": np.full(self.number, self.phase),
            "time": np.full(fill_value=min(self.step - 1, self.horizon) / self.horizon, **full),
            "budget_left": (self.left / least).astype(np.float32)[:, None],
            "age": (self.age / self.horizon).astype(np.float32)[:, None],
            "opened": self.opened.astype(np.int64),
            "revealed": (self.revealed & (self.phase == RECOMMENDER)).astype(np.int64),
            "known": known.astype(np.int8),
            "context": np.where(known, self.context, np.float32(0.0)),
        }

    def masks(self) -> NDArray[np.int8]:
        """The valid choices of each participant in the present phase."""
        if self.step == 0:
            raise StateError("there is no episode yet; call reset()")
        allowed = np.zeros((self.number, self._choices), dtype=np.int8)
        if self.phase == RECOMMENDER:
            allowed[:, : len(self.problem.action_names)] = ~self._forbidden()
            return allowed
        allowed[:, 0] = 1
        allowed[:, 1] = (self._seats.conditions[:, AVAILABLE] > 0.0) & ~self.opened & (self.left > 0)
        return allowed

    def _forbidden(self) -> NDArray[np.bool_]:
        """The actions that the problem's rules forbid, given what the recommender sees: [participants, actions]."""
        if isinstance(self.problem, Problem):
            public, whole = self._seats.moments[:, STRATUM], self._seats.moments[:, CONTEXT]
            by_public, by_whole = self.problem.masks.public[public], self.problem.masks.whole[whole]
        else:
            values = self._seats.values[:, :-1]
            by_public, by_whole = (self.problem.conditions.forbidden(values, view) for view in (PUBLIC_PART, WHOLE))
        return np.where(self.revealed[:, None], by_whole, by_public)

    def choose(self, choices: NDArray[np.int64]) -> tuple[NDArray[np.float64], bool]:
        """Run one phase; returns the rewards, and whether the episode is over.

        An invalid choice is replaced by the first valid one.
        """
        masks = self.masks()
        if self.step > self.horizon:
            raise StateError("the episode is over; call reset()")
        counted = np.where(masks[np.arange(self.number), choices] > 0, choices, masks.argmax(axis=1))
        if self.phase == REVEALER:
            self.nudged = counted == 1
            self.left = self.left - self.nudged
            self.revealed = self.opened | (self.nudged & (self._seats.conditions[:, ANSWERS] > 0.0))
            self.age = np.where(self.revealed, 0, self.age)
            self.rewarded = np.zeros(self.number, dtype=np.bool_)
            self.phase = RECOMMENDER
            return np.zeros(self.number), False
        self._seats.respond(counted.astype(np.int64), self.nudged)
        found = self._seats.results
        self.rewarded = (found[:, REWARDED] > 0.0) & (self._seats.conditions[:, AVAILABLE] > 0.0)
        rewards = np.where(self.rewarded, found[:, REWARD], 0.0)
        self.nudged = np.zeros(self.number, dtype=np.bool_)
        self.phase = REVEALER
        over = self.step == self.horizon
        self.step += 1
        if not over:
            self.age += 1
            self._arrive()
        return rewards, over

    def context_of(self, i: int) -> dict[str, Any]:
        """The visible part of a participant's context in the present phase, by name."""
        known = self.observe()["known"][i]
        found = {}
        for name, value, shown in zip(self.names, self.context[i], known, strict=True):
            levels = levels_of(self.problem.variables[name])
            if shown:
                found[name] = float(value) if levels is None else levels[int(value)]
        return found


class RevealEnv(gymnasium.Env[Observations, int]):
    """One participant: when to nudge, and what to recommend in between.

    Args:
        world: the world; by default the paper's first synthetic one.
        budget: the number of nudges.
        horizon: decisions in an episode, each of two steps.

    Episodes have different draws; `reset(seed=...)` makes them repeatable. Episode number r after a reset with a seed
    has the draws of replicate r of `simulate` with this seed. If the first reset has no seed, one is drawn.

    """

    def __init__(self, world: SimulatedWorld | None = None, *, budget: int = 10, horizon: int = 300) -> None:
        self.metadata = {"render_modes": []}
        self._all = Reveals(world, budget, horizon, 1)
        self.observation_space = self._all.observation_space
        self.action_space = self._all.action_space
        self._seed: int | None = None
        self._episode = 0

    def reset(self, *, seed: int | None = None, options: dict[str, Any] | None = None) -> tuple[Observations, Info]:
        """Start the next episode, or the first one of a seed."""
        super().reset(seed=seed)
        self._episode += 1
        if seed is not None or self._seed is None:
            self._seed, self._episode = _chosen_seed(seed, self.np_random), 0
        self._all.begin(self._seed, [self._episode])
        return self._seen(), self._info()

    def step(self, action: int) -> tuple[Observations, float, bool, bool, Info]:
        """One phase of a decision."""
        if not self.action_space.contains(action):
            raise InputError(f"action is {checks.brief(action)}; expected one of {self.action_space}")
        rewards, over = self._all.choose(np.array([int(action)]))
        return self._seen(), float(rewards[0]), over, False, self._info()

    def action_masks(self) -> NDArray[np.bool_]:
        """The valid choices in the present phase."""
        return np.asarray(self._all.masks()[0] > 0)

    def _seen(self) -> Observations:
        found = self._all.observe()
        return {name: found[name][0] for name in found}

    def _info(self) -> Info:
        return {
            "cost": float(self._all.nudged[0]),
            "rewarded": bool(self._all.rewarded[0]),
            "action_mask": self._all.masks()[0],
            "context": self._all.context_of(0),
        }


class RevealVectorEnv(VectorEnv[Observations, NDArray[np.int64], NDArray[Any]]):
    """Many participants of one world at once, stepped by compiled code; all episodes end together.

    Args:
        num_envs: the number of participants.
        world: the world; by default the paper's first synthetic one.
        budget: the number of nudges of each participant.
        horizon: decisions in an episode, each of two steps.

    """

    def __init__(
        self, num_envs: int = 1, world: SimulatedWorld | None = None, *, budget: int = 10, horizon: int = 300
    ) -> None:
        self.metadata = {"render_modes": [], "autoreset_mode": AutoresetMode.NEXT_STEP}
        self.num_envs = checks.whole("num_envs", num_envs, least=1, most=1_000_000)
        self._all = Reveals(world, budget, horizon, self.num_envs)
        self.single_observation_space = self._all.observation_space
        self.single_action_space = self._all.action_space
        self.observation_space = batch_space(self.single_observation_space, self.num_envs)
        self.action_space = batch_space(self.single_action_space, self.num_envs)
        self._seed: int | None = None
        self._episode, self._over = 0, False

    def reset(self, *, seed: Any = None, options: dict[str, Any] | None = None) -> tuple[Observations, Info]:
        """Start the next episode of every participant, or the first one of a seed."""
        self._episode += 1
        if seed is not None or self._seed is None:
            self._seed, self._episode = _chosen_seed(seed, self.np_random), 0
        first = self._episode * self.num_envs
        self._all.begin(self._seed, range(first, first + self.num_envs))
        self._over = False
        return self._all.observe(), self._info()

    def step(
        self, actions: NDArray[np.int64]
    ) -> tuple[Observations, NDArray[np.float64], NDArray[np.bool_], NDArray[np.bool_], Info]:
        """One phase of every participant's decision; after the end of an episode, the first of the next one."""
        none = np.zeros(self.num_envs, dtype=np.bool_)
        if self._over:
            observations, info = self.reset()
            return observations, np.zeros(self.num_envs), none, none.copy(), info
        choices = np.asarray(actions)
        right = choices.shape == (self.num_envs,) and choices.dtype.kind in "iub"
        if not right or not self.action_space.contains(choices.astype(np.int64)):
            each = f"from 0 to {self._all.action_space.n - 1}"
            raise InputError(f"actions is {checks.brief(actions)}; expected {self.num_envs} whole numbers {each}")
        rewards, self._over = self._all.choose(choices.astype(np.int64))
        info = self._info()
        return self._all.observe(), rewards, np.full(self.num_envs, self._over), none, info

    def _info(self) -> Info:
        return {
            "cost": self._all.nudged.astype(np.float64),
            "rewarded": self._all.rewarded,
            "action_mask": self._all.masks(),
        }


def _chosen_seed(given: Any, generator: np.random.Generator) -> int:
    """The seed of the next episodes: the given one, or a random one so that environments differ."""
    return int(generator.integers(2**63)) if given is None else checks.seed("seed", given)


gymnasium.register(
    id="opportune/Reveal-v0",
    entry_point="opportune.gym:RevealEnv",
    vector_entry_point="opportune.gym:RevealVectorEnv",
    disable_env_checker=True,
)
