"""A cohort day by day: who begins when, who leaves, and how many nudges staff can make in a day.

`simulate` has all participants begin together, stay, and get every nudge. Here they go through the study's own days,
one decision point at a time, with the same step functions, draws and order of calls: where all begin together, nobody
leaves and there is no cap, every decision is that of `simulate`.

What happens in a live study happens here. A nudge is charged to the budget when it is proposed. Nudges are made in the
order of their proposals; one beyond the day's cap is not made, and counts as unanswered. What a participant who leaves
would have decided is no longer expected by those who share a budget.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from opportune.algorithm.rng import AVAILABLE, COIN, DELAY, LOST, OPEN, draw, draw_pair
from opportune.engine.declared import ARRAYS
from opportune.engine.layout import Layout
from opportune.engine.pointers import aligned
from opportune.engine.views import handle_of
from opportune.live import steps as live
from opportune.planning.settings import Settings
from opportune.policy import Policy
from opportune.simulation.pack import layouts_for, pack
from opportune.simulation.visit import visit

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]


class Days(NamedTuple):
    """What became of each participant's decisions, [participant, step]."""

    nudged: NDArray[np.bool_]
    """Whether the rule said to nudge: charged to the budget."""
    made: NDArray[np.bool_]
    """Whether staff made the nudge."""
    outcome: Floats
    """The expected reward of the action taken; NaN after a participant has left."""


class Late(NamedTuple):
    """A reward under way."""

    due: int
    step: int
    action: int
    reward: float


class Draws:
    """What happens to a participant whatever is decided: a pure function of (seed, stream), drawn beforehand."""

    def __init__(self, world: Any, *, horizon: int, seed: int, stream: int) -> None:
        self.key = np.uint64(seed), np.uint64(stream)
        actions = world.problem.actions
        walks = [visit(world, np.full(horizon, a), seed=seed, stream=stream) for a in range(actions)]
        self.where: list[tuple[int, ...]] = [tuple(row) for row in walks[0].moments.tolist()]
        self.values = walks[0].values
        self.reward: list[list[float]] = np.stack([walk.results[:, 0] for walk in walks], axis=1).tolist()
        self.outcome: list[list[float]] = np.stack([walk.results[:, 1] for walk in walks], axis=1).tolist()
        happens = world.happenings
        pairs = [draw_pair(*self.key, step, COIN) for step in range(1, horizon + 1)]  # the coin, and the answer
        self.coin = [float(coin) for coin, _ in pairs]
        self.answers = [bool(answer < happens.response_rate) for _, answer in pairs]
        self.opens = self._below(OPEN, happens.open_rate, horizon)
        self.available = self._below(AVAILABLE, happens.available_rate, horizon)
        self.rewarded = self._below(LOST, happens.reward_rate, horizon)
        self.delay = happens.reward_delay
        self.late = [0] * horizon
        if self.delay:
            self.late = [min(int(u * (self.delay + 1)), self.delay) for u in self._drawn(DELAY, horizon)]

    def _drawn(self, purpose: int, horizon: int) -> list[float]:
        return [float(draw(*self.key, step, purpose)) for step in range(1, horizon + 1)]

    def _below(self, purpose: int, rate: float, horizon: int) -> list[bool]:
        """Whether something of this probability happens at each step."""
        if rate <= 0.0 or rate >= 1.0:
            return [rate >= 1.0] * horizon
        return [u < rate for u in self._drawn(purpose, horizon)]


class Person:
    """One participant of a cohort: its state, and its steps."""

    def __init__(self, draws: Draws, at: Layout, arrays: Mapping[str, Floats]) -> None:
        self.draws, self._places, self._arrays = draws, at.numbers(), arrays  # kept for as long as the handle
        self.handle = handle_of(self._places, arrays)
        self.continuous, self.reported = at.sizes.contexts == 0, at.sizes.reported > 0
        self.budget = at.views("budget", arrays["budget"])
        self.proposed = at.views("proposed", arrays["scratch"])
        self.mail: list[Late] = []
        self.seen: set[int] = set()

    def step(self, t: int, may_call: bool) -> tuple[bool, bool, float]:
        """Decision point t, from 0: whether the rule said to nudge, whether that was made, the outcome."""
        draws, handle, where = self.draws, self.handle, self.draws.where[t]
        if self.continuous:
            live.write_values(handle, draws.values[t])
        if not draws.available[t]:
            action = int(live.stand_by_live(handle, *draws.key, *where))
            self._deliver(t + 1)
            return False, False, draws.outcome[t][action]
        opened = draws.opens[t]
        live.propose_live(handle, *draws.key, *where, opened, draws.coin[t])
        nudged = bool(self.proposed.nudged[0])
        made = nudged and may_call
        revealed = opened or (made and draws.answers[t])
        action = int(live.settle_live(handle, *draws.key, *where, revealed))
        seen = revealed or not self.reported
        if draws.delay:
            self._post(t, action, revealed, seen)
            self._deliver(t + 1)
        elif draws.rewarded[t]:
            live.learn_live(handle, *where, action, seen, draws.reward[t][action])
        return nudged, made, draws.outcome[t][action]

    def leave(self, decisions: int) -> None:
        """The participant leaves; `decisions` of those expected will not be made."""
        self.budget.foregone[0] += decisions

    def _post(self, t: int, action: int, revealed: bool, seen: bool) -> None:
        """Put a late reward on its way; a reveal has uncovered every step so far."""
        draws = self.draws
        if draws.rewarded[t]:
            self.mail.append(Late(t + 1 + draws.late[t], t + 1, action, draws.reward[t][action]))
        if seen:
            self.seen.add(t + 1)
        if revealed and self.reported:
            self.seen.update(late.step for late in self.mail)

    def _deliver(self, step: int) -> None:
        """Learn from the rewards that arrive at the end of this step, the oldest decision point first."""
        here = [late for late in self.mail if late.due == step]
        if not here:
            return
        self.mail = [late for late in self.mail if late.due != step]
        for late in here:
            if self.continuous:
                live.write_values(self.handle, self.draws.values[late.step - 1])
            where = self.draws.where[late.step - 1]
            live.learn_live(self.handle, *where, late.action, late.step in self.seen, late.reward)


def draws_of(settings: Settings, worlds: Sequence[Any], replicate: int) -> list[Draws]:
    """What happens to each participant in one replication: as in that of `simulate` with the same number."""
    return [
        Draws(world, horizon=settings.horizon, seed=settings.seed, stream=w << 32 | replicate)
        for w, world in enumerate(worlds)
    ]


def go_through(
    settings: Settings,
    worlds: Sequence[Any],
    draws: Sequence[Draws],
    policy: Policy,
    *,
    begins: Whole,
    lasts: Whole,
    cap: float = math.inf,
    order: int = 0,
) -> Days:
    """Simulate a cohort's days under a policy.

    Args:
        settings: the plan's.
        worlds: the participants.
        draws: what happens to each of them.
        policy: who recommends, who reveals; shared budgets and pooled models are those of this cohort.
        begins: each participant's first day, from 0.
        lasts: how many decisions each makes before leaving; the horizon for those who stay.
        cap: the most nudges that staff can make in a day.
        order: a seed: with a cap, who comes first at a moment, and so in the queue for staff, is drawn anew at each;
            where something is shared participants go in their order, as in `simulate`.

    """
    horizon, per_day, n = settings.horizon, settings.per_day, len(worlds)
    people = _seat(worlds, draws, policy, horizon)
    days = Days(np.zeros((n, horizon), dtype=bool), np.zeros((n, horizon), dtype=bool), np.full((n, horizon), np.nan))
    rng = np.random.default_rng(order)
    first, last = begins.tolist(), lasts.tolist()
    shuffled = not policy.together and math.isfinite(cap)
    for day in range(max(first) + math.ceil(horizon / per_day)):
        used = 0
        for moment in range(per_day):
            queue = rng.permutation(n).tolist() if shuffled else range(n)
            for i in queue:
                t = (day - first[i]) * per_day + moment
                if not 0 <= t < last[i]:
                    continue
                nudged, made, outcome = people[i].step(t, used < cap)
                used += made
                days.nudged[i, t], days.made[i, t], days.outcome[i, t] = nudged, made, outcome
                if t + 1 == last[i]:
                    people[i].leave(horizon - last[i])
    return days


def _seat(worlds: Sequence[Any], draws: Sequence[Draws], policy: Policy, horizon: int) -> list[Person]:
    """A participant for each world at the start of the study; shared models and budgets are one array for all."""
    batch = pack(worlds, [policy], horizon)
    (at,) = layouts_for(worlds, [policy], horizon, "cpu")
    people: list[Person] = []
    shared: dict[str, Floats] = {}
    for w, own in enumerate(draws):
        arrays = {name: aligned(at.length(name)) for name in ARRAYS} | shared
        arrays |= {"constants": batch.constants[w], "rule": batch.rules[0, w]}
        for name, together in (("model", policy.pooled), ("budget", policy.shared)):
            if together:
                shared[name] = arrays[name]
        people.append(Person(own, at, arrays))
        live.begin_live(people[-1].handle, w == 0 or not policy.pooled, w == 0 or not policy.shared)
    return people
