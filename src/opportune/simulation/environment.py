"""`Environment`: a world that Python steps through, one decision at a time.

A decision has two halves, as in a study. First the revealer sees public and sensed variables, and may nudge. Then the
recommender sees public variables or, after a reveal, all of them, and acts.

    env = op.Environment(world, budget=10, horizon=300, seed=1)
    moment = env.reset()
    while moment is not None:
        shown = env.nudge(moment.budget_left >= 1 and moment.age > 20)
        outcome = env.act("walk")
        moment = outcome.moment
"""

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from opportune import checks
from opportune.algorithm.budget import LEAST_LEFT
from opportune.engine.declared import PUBLIC_PART, WHOLE
from opportune.engine.hooks import WORLDS
from opportune.errors import InputError, StateError
from opportune.policy import Budget
from opportune.problems.finite import Problem
from opportune.problems.settings import Located
from opportune.problems.variables import levels_of
from opportune.simulation.seats import (
    ANSWERS,
    AVAILABLE,
    BEST,
    BLIND,
    COINS,
    CONTEXT,
    LATE,
    OPENED,
    OUTCOME,
    REWARD,
    REWARDED,
    Seats,
)
from opportune.simulation.sizes import check_horizon
from opportune.worlds import SimulatedWorld

Values = dict[str, Any]


@dataclass(frozen=True, slots=True)
class Observation:
    """What the revealer sees of a decision point, before it decides."""

    step: int
    context: Values
    """Public and sensed values, by name."""
    opened: bool
    """Whether the patient has opened the app unasked: a free reveal."""
    available: bool
    """Whether the patient is available; if not, no nudge is possible and nothing is learned."""
    budget_left: float
    age: int
    """Steps since the last reveal or, before the first one, the number of this step."""
    coin: float
    """The step's uniform random number, for rules that randomise."""


@dataclass(frozen=True, slots=True)
class Experience:
    """A step whose context and reward are known."""

    step: int
    context: Values
    action: str
    reward: float


@dataclass(frozen=True, slots=True)
class Shown:
    """What the recommender sees, before it acts."""

    step: int
    context: Values
    """Public values or, after a reveal, all of them."""
    probability: float
    """The probability of the nudge that was charged."""
    nudged: bool
    revealed: bool
    learned: tuple[Experience, ...]
    """Steps that can be learned now because this reveal uncovered their contexts."""
    news: tuple[Experience, ...]
    """On a reveal: all steps that can be learned since the last one."""
    allowed: tuple[str, ...]
    """The actions that are allowed, given what the recommender sees."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of a step."""

    action: int
    """The number of the action taken."""
    reward: float | None
    """The step's reward; None if it never arrives."""
    late: int
    """The number of steps until the reward arrives."""
    expected: float
    """The expected reward of this action, unknown to any policy."""
    best: float
    """The expected reward of the best action; NaN if the world does not define it."""
    value: float
    """The paper's value: averaged over contexts if nothing was revealed."""
    learned: tuple[Experience, ...]
    """Steps that can be learned now: their contexts are known and their rewards have arrived."""
    moment: Observation | None
    """The next decision point; None after the last one."""


@dataclass(slots=True)
class _Waiting:
    """A step whose reward or context is not yet known."""

    step: int
    due: int
    context: Values
    action: str
    reward: float
    seen: bool


class Environment:
    """A participant of a world, step by step, with the draws of `simulate` for this seed and stream.

    Args:
        world: the world.
        budget: the number of nudges; a number, or `op.Budget(B, hard=True)`. Unlimited by default.
        horizon: number of decision points.
        seed: the seed of every draw.
        stream: the participant's number; world w in replicate r of `simulate` has `w << 32 | r`.

    """

    def __init__(
        self,
        world: SimulatedWorld,
        *,
        budget: float | Budget | None = None,
        horizon: int,
        seed: int = 0,
        stream: int = 0,
    ) -> None:
        if not isinstance(world, SimulatedWorld) or isinstance(world, type):
            raise InputError(f"world is {checks.brief(world)}; expected a world such as LinearWorld")
        checks.registered(world, WORLDS)
        self.world, self.problem = world, world.informed_problem()
        self.horizon = check_horizon([world], horizon)
        self.seed, self.stream = checks.seed("seed", seed), checks.seed("stream", stream)
        self.budget = None if budget is None else budget if isinstance(budget, Budget) else Budget(budget)
        self.actions: tuple[str, ...] = self.problem.action_names
        self._seats = Seats([world], horizon=self.horizon, seed=self.seed, streams=[self.stream])
        seen_by = self.problem.visibility
        self._public = [name for name, seen in seen_by.items() if seen == "public"]
        self._reported = [name for name, seen in seen_by.items() if seen == "reported"]
        self._moment: Observation | None = None
        self._shown: Shown | None = None
        self._spent, self._nudges, self._last_reveal, self._step = 0.0, 0, 0, 0

    def reset(self, *, seed: int | None = None, stream: int | None = None) -> Observation:
        """Start again, with another seed or stream if given; returns the first decision point."""
        self.seed = self.seed if seed is None else checks.seed("seed", seed)
        self.stream = self.stream if stream is None else checks.seed("stream", stream)
        self._seats.begin(self.seed, [self.stream])
        self._spent, self._nudges, self._last_reveal, self._step = 0.0, 0, 0, 0
        self._waiting: list[_Waiting] = []
        self._news: list[Experience] = []
        return self._next()

    @property
    def budget_left(self) -> float:
        """The remaining budget: in expectation, and for a hard budget also in nudges made."""
        if self.budget is None:
            return math.inf
        left = self.budget.amount - self._spent
        return min(left, self.budget.amount - self._nudges) if self.budget.hard else left

    @property
    def context_number(self) -> int:
        """The number of the present context, if contexts are finite."""
        return int(self._seats.moments[0, CONTEXT])

    def nudge(self, decision: bool | np.bool_ | float) -> Shown:
        """Nudge or not, or with a probability; returns what the recommender then sees.

        A probability is charged to the budget in full, and limited to what remains of it. No nudge is made if the
        patient has opened the app or is unavailable.
        """
        moment = self._present()
        if self._shown is not None:
            raise StateError(f"nudge() was already called at step {moment.step}; call act()")
        number = float(decision) if isinstance(decision, bool | np.bool_) else decision
        wanted = checks.real("decision", number, least=0.0, most=1.0)
        probability = min(wanted, max(self.budget_left, 0.0))
        if moment.opened or not moment.available or probability <= LEAST_LEFT:
            probability = 0.0
        self._spent += probability
        nudged = moment.coin < probability
        self._nudges += nudged
        revealed = moment.opened or (nudged and bool(self._seats.conditions[0, ANSWERS] > 0.0))
        learned: tuple[Experience, ...] = ()
        news: tuple[Experience, ...] = ()
        if revealed:
            for step in self._waiting:
                step.seen = True
            learned = self._learn(moment.step - 1)
            news, self._news = tuple(self._news), []
            self._last_reveal = moment.step
        everything = self._values()
        context = everything if revealed else {name: everything[name] for name in self._public}
        forbidden = self.problem.forbids(self._place(), WHOLE if revealed else PUBLIC_PART)
        allowed = tuple(name for name, no in zip(self.actions, forbidden, strict=True) if not no)
        self._shown = Shown(moment.step, context, probability, nudged, revealed, learned, news, allowed)
        return self._shown

    def act(self, action: str | int) -> Outcome:
        """Recommend an action, by name or number; returns the result and the next decision point."""
        moment, shown = self._present(), self._shown
        if shown is None:
            raise StateError(f"nudge() has not been called at step {moment.step}; call nudge(False) for no nudge")
        number = self._number(action)
        if self.actions[number] not in shown.allowed:
            known = list(shown.allowed)
            raise InputError(f"action is {self.actions[number]!r}, which is forbidden here; expected one of {known}")
        self._seats.respond(np.array([number]), np.array([shown.nudged]))
        found = self._seats.results[0]
        rewarded, late = moment.available and found[REWARDED] > 0.0, int(found[LATE])
        if rewarded:
            seen = shown.revealed or not self._reported
            reward = float(found[REWARD])
            self._waiting.append(
                _Waiting(moment.step, moment.step + late, self._values(), self.actions[number], reward, seen)
            )
        learned = self._learn(moment.step)
        value = float(found[OUTCOME] if shown.revealed else found[BLIND])
        self._shown = None
        following = self._next() if self._step < self.horizon else None
        self._moment = following
        return Outcome(
            action=number,
            reward=float(found[REWARD]) if rewarded else None,
            late=late,
            expected=float(found[OUTCOME]),
            best=float(found[BEST]),
            value=value,
            learned=learned,
            moment=following,
        )

    def _next(self) -> Observation:
        """The next decision point."""
        self._step += 1
        self._seats.arrive(self._step)
        conditions, values = self._seats.conditions[0], self._values()
        self._shown = None
        self._moment = Observation(
            step=self._step,
            context={name: value for name, value in values.items() if name not in self._reported},
            opened=bool(conditions[OPENED]),
            available=bool(conditions[AVAILABLE]),
            budget_left=self.budget_left,
            age=self._step - self._last_reveal,
            coin=float(conditions[COINS]),
        )
        return self._moment

    def _present(self) -> Observation:
        if self._moment is None:
            raise StateError("there is no decision point now; call reset()")
        return self._moment

    def _learn(self, step: int) -> tuple[Experience, ...]:
        """Remove and return the steps that can be learned from at the end of a step, oldest first."""
        ready = [each for each in self._waiting if each.seen and each.due <= step]
        self._waiting = [each for each in self._waiting if each not in ready]
        found = tuple(Experience(each.step, each.context, each.action, each.reward) for each in ready)
        self._news += found
        return found

    def _place(self) -> Located:
        """The present context, in the form that the algorithm expects."""
        _, stratum, sense, context = self._seats.moments[0].tolist()
        return Located(stratum, sense, context, self._seats.values[0, :-1], (), ())

    def _values(self) -> Values:
        """All values of the present context, by name."""
        if isinstance(self.problem, Problem):
            return self.problem.levels(self.context_number)
        found: Values = {}
        for value, (name, variable) in zip(self._seats.values[0], self.problem.variables.items(), strict=False):
            names = levels_of(variable)
            found[name] = float(value) if names is None else names[int(value)]
        return found

    def _number(self, action: str | int) -> int:
        if isinstance(action, str):
            checks.choice("action", action, self.actions)
            return self.actions.index(action)
        return checks.whole("action", action, least=0, most=len(self.actions) - 1)

    def __repr__(self) -> str:
        return f"Environment({self.world!r}, horizon={self.horizon}, seed={self.seed}, stream={self.stream})"
