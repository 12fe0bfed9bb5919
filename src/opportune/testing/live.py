"""Rules for live participants: the decisions of `simulate`, exact resumption, blindness between reveals."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from opportune.live.agent import Agent
from opportune.live.cohort import Cohort
from opportune.live.decision import Decision
from opportune.policy import Policy
from opportune.problems.variables import levels_of
from opportune.recommenders import Recommender
from opportune.rehearsal.conditions import most_late, steps_late
from opportune.revealers import Never
from opportune.testing.cases import HORIZON, REPLICATES, SEED, Case, cases_for, must, simulated_context

RESTORED = 7  # steps after which participants are saved and restored: before a proposal, then after one
TRACED = (
    "probability", "gap", "price", "disagreement", "tolerance", "action", "fresh_action", "stale_action",
    "revealed", "nudged", "opened", "available",
)  # fmt: skip


def check_live(who: str, case: Case, policy: Policy, data: xr.Dataset, *, resumed: bool) -> None:
    """Check that live participants make the decisions of simulated ones, bit for bit, from the same input."""
    for replicate in range(1 if resumed else REPLICATES):
        run = {name: data[name].isel(replicate=replicate).values for name in (*TRACED, "context", "reward")}
        where = f"{case.name}, policy {policy.name!r}, replicate {replicate}"
        chances = data["action_probability"].isel(replicate=replicate).values if policy.randomised else None
        if resumed:
            where += ", saved and restored in between"
        for number, w, decision in _replayed(case, policy, run, replicate, resumed, (who, where)):
            for name in TRACED:
                wanted = run[name][w, number - 1].item()
                if name.endswith("action"):
                    wanted = case.worlds[w].informed_problem().action_names[wanted]
                got = getattr(decision, name)
                text = f"live, {name} of participant {w} at step {number} is {got!r}; simulate has {wanted!r}"
                must(got == wanted, who, where, f"{text}, expected the same")
            got = decision.probabilities
            wanted = None if chances is None else tuple(chances[w, number - 1].tolist())
            text = f"live, probabilities of participant {w} at step {number} are {got}; simulate has {wanted}"
            must(got == wanted, who, where, f"{text}, expected the same")


def _replayed(case: Case, policy: Policy, run: Mapping[str, NDArray[Any]], replicate: int,
              resumed: bool, about: tuple[str, str]) -> Iterator[tuple[int, int, Decision]]:  # fmt: skip
    """Feed live participants the input of simulated ones; yields (step, participant, decision)."""
    worlds = case.worlds
    problem = worlds[0].informed_problem()
    settings: dict[str, Any] = {"horizon": case.horizon, "seed": SEED}
    group: Any
    if policy.together:
        group = Cohort(problem, policy, participants=len(worlds), **settings)
        for w in range(len(worlds)):
            group.enrol(str(w), stream=w << 32 | replicate)
    else:
        group = {str(w): Agent(problem, policy, stream=w << 32 | replicate, **settings) for w in range(len(worlds))}
    for number in range(1, case.horizon + 1):
        for w, world in enumerate(worlds):
            stream = w << 32 | replicate
            context, reported = simulated_context(world, int(run["context"][w, number - 1]), number, stream)
            opened, available, nudged, revealed = (
                bool(run[name][w, number - 1]) for name in ("opened", "available", "nudged", "revealed")
            )
            sealed = reported if replicate % 2 else None  # known beforehand, or only once it is revealed
            if resumed and number % RESTORED == 0:
                group = _restored(group, str(w))
            made = group[str(w)].propose(context, opened=opened, available=available, reported=sealed or None)
            text = f"live, nudged of participant {w} at step {number} is {made.nudged}; simulate has {nudged}"
            must(made.nudged == nudged, *about, f"{text}, expected the same")
            if resumed and number % RESTORED == 1:
                group = _restored(group, str(w))
            told: dict[str, Any] = {}
            if revealed and reported and not sealed:
                pending = [s for s in range(1, number) if run["available"][w, s - 1] and s > _last(run, w, number)]
                told["reported"] = reported
                told["earlier"] = {
                    s: simulated_context(world, int(run["context"][w, s - 1]), s, stream)[1] for s in pending
                }
            yield number, w, group[str(w)].settle(answered=revealed if nudged and not opened else None, **told)
            for step, reward in _due(world, run["reward"][w], number, stream):
                group[str(w)].learn(reward, step=step)


def _restored(group: Any, name: str) -> Any:
    """Participants after their state, or their cohort's, was written as JSON and read again."""
    if isinstance(group, Cohort):
        return Cohort.from_dict(json.loads(json.dumps(group.to_dict())))
    return {**group, name: Agent.from_dict(json.loads(json.dumps(group[name].to_dict())))}


def _last(run: Mapping[str, NDArray[Any]], w: int, number: int) -> int:
    """The step of the last reveal before this one; 0 if there was none."""
    steps = np.flatnonzero(run["revealed"][w, : number - 1])
    return int(steps[-1]) + 1 if steps.size else 0


def _due(world: Any, rewards: NDArray[np.float64], now: int, stream: int) -> Iterator[tuple[int, float]]:
    """The rewards that arrive at the end of a step, with their steps, the oldest first."""
    for step in range(max(1, now - most_late(world)), now + 1):
        reward = float(rewards[step - 1])
        if step + steps_late(world, step, seed=SEED, stream=stream) == now and not np.isnan(reward):
            yield step, reward


def check_blindness(who: str, recommender: Recommender) -> None:
    """Check that two participants with the same input until the last reveal act alike after it, whatever follows."""
    policy = Policy(recommender=recommender, revealer=Never(), name="never")
    revealed = HORIZON // 3
    for case in cases_for(who, [policy]):
        world = case.worlds[0]
        problem = world.informed_problem()
        one, other = (Agent(problem, policy, horizon=HORIZON, seed=SEED, stream=5) for _ in range(2))
        contexts = np.random.default_rng(3).integers(0, max(1, problem.contexts), size=HORIZON)
        rewards = np.random.default_rng(4).normal(size=HORIZON)
        for number in range(1, HORIZON + 1):
            opened = number <= revealed
            seen, told = simulated_context(world, int(contexts[number - 1]), number, 5)
            actions = []
            for agent in (one, other):
                hidden = agent is other and not opened
                context = _otherwise(problem, seen) if hidden else seen
                agent.propose(context, opened=opened, reported=told or None)
                actions.append(agent.settle().action)
                agent.learn(5.0 - 3.0 * rewards[number - 1] if hidden else rewards[number - 1])
            must(
                actions[0] == actions[1], who, case.name,
                f"at step {number}, blind since step {revealed}, the action is {actions[1]!r} instead of "
                f"{actions[0]!r}, only because of what was sensed and earned since; expected it to depend on "
                "what was known at the last reveal, and on what is public",
            )  # fmt: skip


def _otherwise(problem: Any, context: Mapping[str, Any]) -> dict[str, Any]:
    """Another context with the same public part."""
    changed = dict(context)
    for name, value in context.items():
        if problem.visibility[name] == "sensed":
            variable = problem.variables[name]
            levels = levels_of(variable)
            changed[name] = variable.low + variable.high - value if levels is None else _next(levels, value)
    return changed


def _next(levels: Sequence[Any], value: Any) -> Any:
    return levels[(list(levels).index(value) + 1) % len(levels)]
