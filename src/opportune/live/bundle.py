"""What a phone can carry: the actions that stand at the coming decision points as long as nothing is revealed."""

import datetime
from typing import Any

from opportune import checks
from opportune._version import __version__
from opportune.errors import InputError
from opportune.live import steps
from opportune.live.agent import Agent
from opportune.live.point import UNKNOWN
from opportune.problems.continuous import ContinuousProblem
from opportune.problems.finite import Problem


def bundle_of(agent: Agent, made: datetime.datetime | None) -> dict[str, Any]:
    """The bundle of an agent, made at this moment: a list in order, or the present action in each public stratum."""
    made = datetime.datetime.now(datetime.UTC) if made is None else made
    if not isinstance(made, datetime.datetime) or str(made) == "NaT":  # pandas has that for a missing one
        raise InputError(f"made is {checks.brief(made)}; expected a datetime")
    head = {"version": __version__, "made": made.isoformat(), "stream": agent.stream, "after_step": agent.step}
    copied = agent.numbers.arrays["snapshot"].copy()
    handle = agent.numbers.handle_with(snapshot=copied)
    last = min(agent.horizon, agent.problem.schedule.last_step or agent.horizon)
    coming = range(agent.step + 1, last + 1)
    if _unscheduled(agent.problem):
        return {**head, "strata": [_listed(agent, handle, coming[0], c) for c in _strata(agent)] if coming else []}
    return {**head, "actions": [{"step": t, **_listed(agent, handle, t, {}, acted=True)} for t in coming]}


def _unscheduled(problem: Any) -> list[str]:
    """The public variables that the schedule does not tell."""
    scheduled = problem.schedule.variables
    return [name for name, seen in problem.visibility.items() if seen == "public" and name not in scheduled]


def _strata(agent: Agent) -> list[dict[str, Any]]:
    """The public part of a context in each stratum; numbers as they were at the latest decision point."""
    strata = agent.problem.public_levels()
    if isinstance(agent.problem, Problem):
        return strata
    latest = agent.steps[agent.step].given if agent.step else agent.problem.middle_values()
    numbers = {name: latest[name] for name in _unscheduled(agent.problem) if name not in strata[0]}
    return [{**levels, **numbers} for levels in strata]


def _listed(
    agent: Agent, handle: Any, number: int, public: dict[str, Any], *, acted: bool = False
) -> dict[str, Any]:  # fmt: skip
    """The public part of a decision point to come, with the action that stands there if nothing is revealed."""
    place = agent.problem.locate(public, number)
    if isinstance(agent.problem, ContinuousProblem):
        steps.write_values(handle, place.values)
    where = (number, place.stratum, place.sense, UNKNOWN)
    action = int(steps.stand_live(handle, *agent.key, *where, acted))
    return {**agent.problem.schedule.values(number), **public, "action": agent.problem.action_names[action]}
