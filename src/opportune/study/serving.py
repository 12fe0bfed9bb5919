"""What of a study file runs live: the policy and what its agents know beforehand, without the truth."""

import copy
from typing import NamedTuple

from opportune.errors import InputError
from opportune.policy import Policy, rule_for
from opportune.problems.continuous import ContinuousProblem
from opportune.problems.finite import Problem
from opportune.study.build import Study
from opportune.study.schema import one_of


class Live(NamedTuple):
    """What a service runs: hand it to `Cohort(problem, policy, horizon=..., seed=..., participants=...)`."""

    problem: Problem | ContinuousProblem
    policy: Policy
    participants: int
    fallback: str


def live(study: Study) -> Live:
    """What runs live; raises `InputError` with what the file lacks."""
    policy = live_policy(study)
    problem = live_problem(study)
    participants = planned_participants(study)
    rule_for(policy, problem, horizon=study.settings.study.horizon, participants=participants)
    return Live(problem, policy, participants, study.settings.serve.fallback or study.settings.study.actions[0])


def planned_participants(study: Study) -> int:
    """How many participants there will be."""
    planned = study.settings.participants.planned
    if planned is None:
        text = "[participants] lacks 'planned'"
        raise InputError(f"{study.source}: {text}; expected a whole number, the participants in all")
    return planned


def live_policy(study: Study) -> Policy:
    """The policy that runs live: the one that [serve] names, or the only one that there is."""
    serve, general = study.settings.serve, study.settings.study
    names = [entry.name or entry.kind for entry in study.settings.policies]
    chosen = [i for i, name in enumerate(names) if serve.policy in {None, name}]
    if len(chosen) > 1:
        text = f"[serve] does not say which of {len(names)} policies runs"
        raise InputError(f"{study.source}: {text}; expected policy = {one_of(list(dict.fromkeys(names)))}")
    entry = study.settings.policies[chosen[0]]
    budgets = entry.budgets or (general.budgets if entry.needs_budget else [])
    budget = serve.budget if serve.budget is not None or not budgets else budgets[0]
    if serve.budget is None and (len(budgets) > 1 or (entry.needs_budget and not budgets)):
        text = f"[serve] lacks 'budget', and {len(budgets) or 'no'} budgets are in the file"
        raise InputError(f"{study.source}: {text}; expected budget = a number > 0, for each participant")
    shared = general.budget_shared
    participants = planned_participants(study) if shared else 1
    return study.policy(chosen[0], budget, participants=participants)


def live_problem(study: Study) -> Problem | ContinuousProblem:
    """What agents know beforehand: of the truth, nothing but a bound on effects where the file leaves that to it."""
    given = study.settings.reward.value_range
    problem = copy.copy(study.problem)
    problem.value_range = None if given is None else (given[0], given[1])
    return problem
