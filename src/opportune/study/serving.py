"""The live part of a study file: policies and prior knowledge, without the truth."""

import copy
from typing import NamedTuple

from opportune.errors import InputError
from opportune.policy import Policy, rule_for
from opportune.problems.continuous import ContinuousProblem
from opportune.problems.finite import Problem
from opportune.study.arms import arm_entries
from opportune.study.build import Study
from opportune.study.calendar import Calendar
from opportune.study.schema import PolicyTable, one_of
from opportune.study.timetable import calendar_of
from opportune.study.trial import ArmsTable


class Live(NamedTuple):
    """What a service runs: arguments for `Cohort(problem, policy, horizon=..., seed=..., participants=...)`."""

    problem: Problem | ContinuousProblem
    policies: dict[str, Policy]
    """The policy of each arm; without arms, the only policy has the name ""."""
    sizes: dict[str, int]
    """The number of participants of each arm."""
    participants: int
    fallback: str
    calendar: Calendar | None
    """When nudges are possible; None if always."""

    @property
    def policy(self) -> Policy:
        """The policy of the first arm with nudges; without arms, the only policy."""
        return next((p for p in self.policies.values() if p.revealer.spends), next(iter(self.policies.values())))


def live(study: Study) -> Live:
    """What a service runs; raises `InputError` if the file lacks something for that."""
    problem = live_problem(study)
    participants = planned_participants(study)
    arms = study.settings.arms
    if arms is None:
        policies, sizes = {"": live_policy(study)}, {"": participants}
    else:
        sizes = {name: arm_size(arms, name, participants) for name in arms.named}
        policies = {
            name: _policy(study, entry, sizes[name]) for name, entry in arm_entries(study.settings).policies.items()
        }
    for name, policy in policies.items():
        rule_for(policy, problem, horizon=study.settings.study.horizon, participants=sizes[name])
    return Live(problem, policies, sizes, participants, study.fallback, live_calendar(study))


def arm_size(arms: ArmsTable, name: str, participants: int) -> int:
    """The largest possible number of participants of an arm: its share of every block that may be started."""
    block = arms.block_of_arms()
    return min(participants, -(-participants // len(block)) * block.count(name) * (len(arms.strata) + 1))


def live_calendar(study: Study) -> Calendar | None:
    """The calendar of staff hours, holidays and quiet hours; None if nudges are always possible."""
    made = calendar_of(study.settings)
    by_the_clock = study.limits is not None and (study.limits.by_the_clock or study.limits.per_day is not None)
    return None if made.always_open and not by_the_clock else made


def planned_participants(study: Study) -> int:
    """The planned number of participants."""
    planned = study.settings.participants.planned
    if planned is None:
        text = "[participants] lacks 'planned'"
        raise InputError(f"{study.source}: {text}; expected a whole number, the participants in all")
    return planned


def live_policy(study: Study) -> Policy:
    """The policy that runs live: that of [serve], or the only one of the file."""
    serve = study.settings.serve
    names = [entry.name or entry.kind for entry in study.settings.policies]
    chosen = [i for i, name in enumerate(names) if serve.policy in {None, name}]
    if len(chosen) > 1:
        text = f"[serve] does not say which of {len(names)} policies runs"
        raise InputError(f"{study.source}: {text}; expected policy = {one_of(list(dict.fromkeys(names)))}")
    return _policy(study, study.settings.policies[chosen[0]], planned_participants(study))


def _policy(study: Study, entry: PolicyTable, participants: int) -> Policy:
    """A policy as it runs live, for a number of participants."""
    serve, general = study.settings.serve, study.settings.study
    budgets = entry.budgets or (general.budgets if entry.needs_budget else [])
    budget = serve.budget if serve.budget is not None or not budgets else budgets[0]
    if serve.budget is None and (len(budgets) > 1 or (entry.needs_budget and not budgets)):
        text = f"[serve] lacks 'budget', and {len(budgets) or 'no'} budgets are in the file"
        raise InputError(f"{study.source}: {text}; expected budget = a number > 0, for each participant")
    nudges = entry.rule.spends or study.settings.arms is None  # the fallback of an arm without nudges has none either
    return study.policy_of(entry, budget if nudges else None, participants=participants, served=True)


def live_problem(study: Study) -> Problem | ContinuousProblem:
    """The problem as live agents know it. Of the truth, it contains at most a bound on effects."""
    given = study.settings.reward.value_range
    problem = copy.copy(study.problem)
    problem.value_range = None if given is None else (given[0], given[1])
    return problem
