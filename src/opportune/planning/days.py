"""A cohort day by day: when participants begin and leave, and how many nudges staff can make in a day.

In `simulate` all participants begin together, stay, and get every nudge. Here they follow the study's calendar, one
decision point at a time, with the same step functions, draws and order of calls: if all begin together, nobody leaves
and there is no cap, every decision equals that of `simulate`.

The rules are those of a live study. A nudge is charged to the budget when it is proposed. Nudges are made in the order
of their proposals; one beyond the day's cap is not made and counts as unanswered. When a participant leaves, those who
share the budget stop reserving nudges for the remaining decisions.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from opportune.algorithm.allowance import ANYTIME, Slot
from opportune.algorithm.rng import COIN, draw
from opportune.engine.declared import ARRAYS
from opportune.engine.layout import Layout
from opportune.engine.pointers import aligned
from opportune.engine.views import handle_of
from opportune.live import steps as live
from opportune.planning.settings import Settings
from opportune.policy import Policy
from opportune.simulation.pack import layouts_for, pack
from opportune.simulation.visit import Happened, respond_at, visit
from opportune.worlds.common import WEEK

Floats = NDArray[np.float64]
Whole = NDArray[np.int64]


class Days(NamedTuple):
    """The course of each participant, [participant, step]."""

    nudged: NDArray[np.bool_]
    """Whether the rule proposed a nudge, which is charged to the budget."""
    made: NDArray[np.bool_]
    """Whether staff made the nudge."""
    outcome: Floats
    """The expected reward of the action taken; NaN after a participant has left."""


class Late(NamedTuple):
    """A reward that has not arrived yet."""

    came: int
    due: int
    """The step at whose end the model learns from it: on arrival, or at the model's next update."""
    step: int
    action: int
    reward: float


class Draws:
    """The events of a participant that decisions do not change: a pure function of (seed, stream), drawn beforehand."""

    def __init__(self, world: Any, *, horizon: int, seed: int, stream: int) -> None:
        self.key = np.uint64(seed), np.uint64(stream)
        walk = visit(world, np.zeros(horizon, dtype=np.int64), seed=seed, stream=stream)
        self.where: list[tuple[int, ...]] = [tuple(row) for row in walk.moments.tolist()]
        self.values = walk.values  # without those of the participant's own history, which depend on decisions
        self.coin = [float(draw(*self.key, step, COIN)) for step in range(1, horizon + 1)]
        self.happened = [Happened(*row) for row in walk.happened.tolist()]
        self.delay = world.happenings.reward_delay
        self.week = WEEK * world.informed_problem().schedule.decisions_per_day


class Person:
    """One participant of a cohort: the state and the steps."""

    def __init__(self, draws: Draws, at: Layout, arrays: Mapping[str, Floats]) -> None:
        self.draws, self._places, self._arrays = draws, at.numbers(), arrays  # the handle points into the arrays
        self.handle = handle_of(self._places, arrays)
        self.continuous, self.reported = at.sizes.contexts == 0, at.sizes.reported > 0
        self.histories, self.update = at.sizes.histories > 0, at.sizes.update
        self.values = draws.values.copy() if self.histories else draws.values
        self.found = np.zeros(2)  # reward and outcome of an action
        self.budget = at.views("budget", arrays["budget"])
        self.proposed = at.views("proposed", arrays["scratch"])
        self.mail: list[Late] = []
        self.seen: set[int] = set()
        self.called: list[int] = []

    def step(self, t: int, may_call: bool, slot: Slot = ANYTIME) -> tuple[bool, bool, float]:
        """Run decision point t, from 0: whether the rule proposed a nudge, whether it was made, and the outcome."""
        draws, handle, where = self.draws, self.handle, self.draws.where[t]
        if self.update > 1:
            self._deliver(t)
        if self.histories:
            live.write_history_live(handle, self.values[t], t + 1)
        if self.continuous:
            live.write_values(handle, self.values[t])
        happened = draws.happened[t]
        if not happened.available:
            action = int(live.stand_by_live(handle, *draws.key, *where, *slot)[1])
            outcome = self._respond(t, action)[1]
            self._receive(t + 1)
            return False, False, outcome
        opened = bool(happened.opened)
        live.propose_live(handle, *draws.key, *where, *slot, opened, draws.coin[t])
        nudged = bool(self.proposed.nudged[0])
        made = nudged and may_call
        lately = sum(t - earlier < draws.week for earlier in self.called)
        revealed = opened or (made and lately <= happened.patience)
        if made:
            self.called.append(t)
        action = int(live.settle_live(handle, *draws.key, *where, revealed))
        reward, outcome = self._respond(t, action)
        seen = revealed or not self.reported
        if draws.delay or self.update > 1:
            self._post(t, action, revealed, seen, reward)
            self._receive(t + 1)
        elif happened.rewarded:
            if self.histories:
                live.record_reward_live(handle, t + 1, reward)
            live.learn_live(handle, *where, action, seen, reward)
        return nudged, made, outcome

    def _respond(self, t: int, action: int) -> tuple[float, float]:
        """Reward and outcome of an action at decision point t."""
        respond_at(self.handle, *self.draws.key, *self.draws.where[t], action, self.found)
        return float(self.found[0]), float(self.found[1])

    def leave(self, decisions: int) -> None:
        """The participant leaves; `decisions` of the expected ones will not happen."""
        self.budget.foregone[0] += decisions

    def _post(self, t: int, action: int, revealed: bool, seen: bool, reward: float) -> None:
        """Queue a late reward; a reveal has uncovered every step so far."""
        draws = self.draws
        if draws.happened[t].rewarded:
            came = t + 1 + draws.happened[t].late
            self.mail.append(Late(came, -(-came // self.update) * self.update, t + 1, action, reward))
        if seen:
            self.seen.add(t + 1)
        if revealed and self.reported:
            self.seen.update(late.step for late in self.mail)

    def _receive(self, step: int) -> None:
        """Record the rewards that arrive at the end of this step; learn from those that need not await an update."""
        if self.histories:
            for late in self.mail:
                if late.came == step:
                    live.record_reward_live(self.handle, late.step, late.reward)
        if self.update == 1:
            self._deliver(step)

    def _deliver(self, step: int) -> None:
        """Learn from the rewards that arrive at the end of this step, the oldest decision point first."""
        here = [late for late in self.mail if late.due == step]
        if not here:
            return
        self.mail = [late for late in self.mail if late.due != step]
        for late in here:
            if self.continuous:
                live.write_values(self.handle, self.values[late.step - 1])
            where = self.draws.where[late.step - 1]
            live.learn_live(self.handle, *where, late.action, late.step in self.seen, late.reward)


def draws_of(settings: Settings, worlds: Sequence[Any], replicate: int) -> list[Draws]:
    """The draws of each participant in one replication, equal to those of `simulate` for the same replication."""
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
        settings: the plan's settings.
        worlds: the participants.
        draws: the random draws of each of them.
        policy: recommender and revealer; shared budgets and pooled models are those of this cohort.
        begins: each participant's first day, from 0.
        lasts: the number of decisions of each participant; the horizon for those who stay.
        cap: the most nudges that staff can make in a day.
        order: a seed. With a cap, the order of participants in the queue for staff is drawn at each moment; if
            participants share a budget or a model, they keep their order, as in `simulate`.

    """
    horizon, per_day, n = settings.horizon, settings.per_day, len(worlds)
    people = _seat(worlds, draws, policy, horizon)
    days = Days(np.zeros((n, horizon), dtype=bool), np.zeros((n, horizon), dtype=bool), np.full((n, horizon), np.nan))
    rng = np.random.default_rng(order)
    first, last = begins.tolist(), lasts.tolist()
    slots = _slots(settings, policy, begins)
    shuffled = not policy.together and math.isfinite(cap)
    for day in range(max(first) + math.ceil(horizon / per_day)):
        used = 0
        for moment in range(per_day):
            queue = rng.permutation(n).tolist() if shuffled else range(n)
            for i in queue:
                t = (day - first[i]) * per_day + moment
                if not 0 <= t < last[i]:
                    continue
                nudged, made, outcome = people[i].step(t, used < cap, ANYTIME if slots is None else slots[i][t])
                used += made
                days.nudged[i, t], days.made[i, t], days.outcome[i, t] = nudged, made, outcome
                if t + 1 == last[i]:
                    people[i].leave(horizon - last[i])
            if policy.partial and (day * per_day + moment + 1) % policy.partial_every == 0:
                begun = [person.handle for person, begins_on in zip(people, first, strict=True) if begins_on <= day]
                if begun:
                    live.move_prior(begun, [person.handle for person in people], people[0].handle)
    return days


def _slots(settings: Settings, policy: Policy, begins: Whole) -> list[list[Slot]] | None:
    """The calendar slot of each participant's decision points; None if nothing depends on the calendar."""
    timetable = settings.study.timetable(len(begins))
    if timetable is None:
        return None
    run_in = 0 if policy.limits is None else min(policy.limits.run_in, timetable.steps - 1)
    left = timetable.open_left
    left[:, :run_in] = left[:, run_in : run_in + 1]
    dated = settings.study.settings.participants.first_day is not None  # else all begin on the same day there
    later = np.zeros_like(begins) if dated else begins
    rows = zip(timetable.closed, timetable.hours, timetable.day, left, later.tolist(), strict=True)
    return [
        [Slot(*point) for point in zip(c.tolist(), (h + 24.0 * s).tolist(), (d + s).tolist(), o.tolist(), strict=True)]
        for c, h, d, o, s in rows
    ]


def _seat(worlds: Sequence[Any], draws: Sequence[Draws], policy: Policy, horizon: int) -> list[Person]:
    """A participant for each world at the start of the study; shared models and budgets are one array for all."""
    batch = pack(worlds, [policy], horizon)
    (at,) = layouts_for(worlds, [policy], horizon, "cpu")
    people: list[Person] = []
    shared: dict[str, Floats] = {}
    for w, own in enumerate(draws):
        arrays = {name: aligned(at.length(name)) for name in ARRAYS} | shared
        arrays |= {"constants": batch.constants[w], "rule": batch.rules[0, w], "world": batch.worlds[w]}
        for name, together in (("model", policy.one_model), ("budget", policy.shared), ("staff", policy.capped)):
            if together:
                shared[name] = arrays[name]
        people.append(Person(own, at, arrays))
        live.begin_live(
            people[-1].handle, w == 0 or not policy.one_model, w == 0 or not policy.shared, w == 0 or not policy.capped
        )
    return people
