"""Runs of policies in plain Python, with the same patients, moments, noise and coins as compiled policies."""

import math
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import numpy as np

from opportune.algorithm.budget import LEAST_LEFT
from opportune.algorithm.reasons import BUDGET, ELIGIBLE, OPENED, UNAVAILABLE
from opportune.errors import InputError
from opportune.simulation.environment import Environment, Experience, Observation
from opportune.simulation.pack import Output
from opportune.simulation.python_policy import PythonPolicy
from opportune.simulation.record import FINAL_PRICE, MARKS, NUMBERS, TOTALS
from opportune.worlds import SimulatedWorld

NOT_SAID = -1  # an action that only compiled rules report, such as the one they would take without a reveal


def run_in_python(
    worlds: Sequence[SimulatedWorld], policies: Sequence[PythonPolicy], output: Output, *, seed: int, horizon: int,
    show: Callable[[int], None],
) -> None:  # fmt: skip
    """Run each policy in each world for each replicate."""
    for r in range(output.shape[0]):
        for w, world in enumerate(worlds):
            for q, policy in enumerate(policies):
                run_once(world, policy, output, (r, q, w), seed=seed, horizon=horizon)
        show(r + 1)


def run_once(
    world: SimulatedWorld, policy: PythonPolicy, output: Output, place: tuple[int, int, int], *, seed: int, horizon: int
) -> None:
    """One run, with its results written to their place: replicate, policy, world."""
    stream = place[2] << 32 | place[0]
    environment = Environment(world, budget=policy.budget, horizon=horizon, seed=seed, stream=stream)
    memory = policy.start()
    moment: Observation | None = environment.reset()
    totals = dict.fromkeys(TOTALS, 0.0)
    for t in range(horizon):
        assert moment is not None
        if output.counts.shape[-1] and place[1] == 0:
            output.counts[place[0], place[2], environment.context_number] += 1
        left = environment.budget_left
        wanted = policy.propose(moment, memory) if moment.available and not moment.opened else 0.0
        context = environment.context_number if output.counts.shape[-1] else 0
        with _naming(policy, "propose", t + 1):
            shown = environment.nudge(wanted)
        _learn(policy, shown.learned, memory)
        chosen = policy.settle(shown, memory)
        with _naming(policy, "settle", t + 1):
            outcome = environment.act(chosen)
        _learn(policy, outcome.learned, memory)
        reason = UNAVAILABLE if not moment.available else OPENED if moment.opened else ELIGIBLE
        if reason == ELIGIBLE and left <= LEAST_LEFT:
            reason = BUDGET
        record: dict[str, float] = {
            "probability": shown.probability,
            "reward": math.nan if outcome.reward is None else outcome.reward,
            "value": outcome.value,
            "outcome": outcome.expected,
            "best": outcome.best,
            "context": context,
            "action": outcome.action,
            "fresh_action": NOT_SAID,
            "stale_action": NOT_SAID,
            "revealed": shown.revealed,
            "nudged": shown.nudged,
            "opened": moment.opened,
            "available": moment.available,
            "reason": reason,
            "eligible": reason == ELIGIBLE,
        }
        for name, (_, of) in TOTALS.items():
            if of and not (of == "reward" and math.isnan(record[of])):  # a reward that never arrives
                totals[name] += record[of]
        if output.traced:
            output.numbers[(*place, slice(None), t)] = [record.get(name, math.nan) for name in NUMBERS]
            output.marks[(*place, slice(None), t)] = [int(record[name]) for name in MARKS]
        moment = outcome.moment
    totals[list(TOTALS)[FINAL_PRICE]] = math.nan
    output.totals[place] = np.array(list(totals.values()))


@contextmanager
def _naming(policy: PythonPolicy, function: str, step: int) -> Iterator[None]:
    """Add the policy, function and step to the message of any input error."""
    try:
        yield
    except InputError as error:
        raise InputError(f"{function} of policy {policy.name!r} at step {step}: {error}") from None


def _learn(policy: PythonPolicy, learned: Sequence[Experience], memory: Any) -> None:
    if policy.learn is not None:
        for experience in learned:
            policy.learn(experience, memory)
