"""Checks of a simulation's arguments and size, before any memory is allocated."""

from collections.abc import Sequence
from typing import Any

from opportune import checks
from opportune.engine.layout import Layout
from opportune.errors import InputError
from opportune.policy import Policy
from opportune.simulation.python_policy import PythonPolicy
from opportune.simulation.record import FIELDS, MARKS, NUMBERS, TOTALS
from opportune.worlds import SimulatedWorld

MOST_REPLICATES = 2**32 - 1
MOST_WORLDS = 1_000_000
MOST_POLICIES = 100_000


def check_worlds(given: Any) -> list[SimulatedWorld]:
    """One world or several."""
    if isinstance(given, SimulatedWorld) and not isinstance(given, type):
        return [given]
    return checks.listed("worlds", given, "a world, or a list of them", most=MOST_WORLDS)


def check_policies(given: Any) -> list[Any]:
    """One policy or several."""
    if isinstance(given, Policy | PythonPolicy):
        return [given]
    expected = "a Policy, such as pd2_ucb(budget=10), a PythonPolicy, or a list"
    return checks.listed("policies", given, expected, most=MOST_POLICIES)


def check_horizon(worlds: Sequence[SimulatedWorld], horizon: Any) -> int:
    """The steps of a run; the worlds' schedules must be long enough."""
    number = checks.whole("horizon", horizon, least=1, most=checks.MOST_STEPS)
    for world in worlds:
        last = world.informed_problem().schedule.last_step
        if last is not None and number > last:
            raise InputError(f"horizon is {number}; expected at most {last}, the last decision point of the schedule")
    return number


def check_output(
    worlds: Sequence[SimulatedWorld], policies: int, horizon: int, replicates: int, drawn: int = 0, *, trace: bool
) -> None:
    """Reject results that do not fit into memory: totals, counts of contexts and, with a trace, every step."""
    runs = float(replicates) * policies * len(worlds)
    contexts = getattr(worlds[0].informed_problem(), "contexts", 0)
    kept = 2.0 * (runs * 8.0 * len(TOTALS) + float(replicates) * len(worlds) * 8.0 * (contexts + 1))
    checks.memory(f"keeping totals of {runs:,.0f} runs", kept, "fewer replicates")
    if trace:
        steps = runs * horizon
        copied = sum(FIELDS[name][0] is bool for name in MARKS)  # marks are copied as booleans
        kept += steps * (8.0 * (len(NUMBERS) + drawn) + 2.0 * len(MARKS) + copied)
        checks.memory(f"keeping {steps:,.0f} steps", kept, "trace=False, or fewer replicates or a shorter horizon")


def check_layout(at: Layout, worlds: int, policies: int) -> None:
    """Reject run state that does not fit into memory: a problem for each world, a rule for each policy in it."""
    each = sum(at.length(name) for name in ("constants", "world")) + policies * at.length("rule")
    needed = 8.0 * (worlds * each + sum(at.lengths))
    checks.memory("the state of a run", needed, "fewer features, contexts or worlds")
