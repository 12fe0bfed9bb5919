"""What each command still needs from a study file, and what it assumes."""

from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

from opportune.errors import InputError
from opportune.study.build import Study
from opportune.study.serving import live_policy, live_problem, planned_participants

COMMANDS = ("simulate", "plan", "serve")


class Needs(NamedTuple):
    """What one command still needs and which defaults it assumes, in sentences."""

    command: str
    lacks: list[str]
    assumes: list[str]


def needs(study: Study) -> list[Needs]:
    """What simulate, plan and serve still need and assume."""
    return [
        Needs("simulate", list(_lacks_in_simulation(study)), list(_assumed_of_policies(study))),
        Needs("plan", list(_lacks_for_planning(study)), list(_assumed_in_planning(study))),
        Needs("serve", list(_lacks_live(study)), list(_assumed_live(study))),
    ]


def _lacks_truth(study: Study) -> Iterator[str]:
    if not study.has_truth:
        yield "[effects], the true effect of each term: nothing can be simulated without it"


def _lacks_in_simulation(study: Study) -> Iterator[str]:
    yield from _lacks_truth(study)
    if not study.policies():
        yield "budgets in [study], the numbers of nudges to try"


def _lacks_for_planning(study: Study) -> Iterator[str]:
    yield from _lacks_truth(study)
    if not any(entry.needs_budget for entry in study.settings.policies):
        yield "a policy in [[policies]] that has a budget, such as kind = 'PACE': a plan compares budgets"


def _assumed_of_policies(study: Study) -> Iterator[str]:
    if "policies" not in study.settings.model_fields_set:
        yield "no [[policies]]: PACE alone"


def _assumed_in_planning(study: Study) -> Iterator[str]:
    yield from _assumed_of_policies(study)
    settings = study.settings
    drawn = any(effect.drawn for effect in settings.effects.values())
    if study.has_truth and not drawn:
        yield "every effect in [effects] is a number: participants are alike, and intervals reflect chance alone"
    if settings.participants.planned is None:
        yield "no planned in [participants]: 100"
    if not settings.study.budgets:
        yield "no budgets in [study]: 5 numbers from 0 to 20% of the decisions"
    if settings.participants.dropout == 0.0:
        yield "no dropout in [participants]: 0, and 20% in the report's scenario with dropout"
    if settings.reward.unit is None:
        yield "no unit in [reward]: 'points'"
    if settings.nudge.minutes is None:
        yield f"no minutes in [nudge]: workload in numbers of {settings.nudge.several}, not in hours"


def _lacks_live(study: Study) -> Iterator[str]:
    asked: tuple[Callable[[Study], Any], ...] = (planned_participants, live_policy, live_problem)
    for ask in asked:
        try:
            ask(study)
        except InputError as error:
            text = str(error).removeprefix(f"{study.source}: ")
            if not (ask is live_policy and study.settings.study.budget_shared and "'planned'" in text):
                yield text
    settings = study.settings
    for entry in settings.policies:
        named = settings.serve.policy in {None, entry.name or entry.kind}
        if named and entry.scale == "gap":
            yield (
                "another scale for " + (entry.name or entry.kind) + ": 'gap' needs the truth, which a live study lacks"
            )
        if named and entry.scale == "range" and settings.reward.value_range is None:
            yield "value_range in [reward], which scale = 'range' divides by"
    for name, variable in settings.variables.items():
        if variable.visibility == "reported" and variable.question is None:
            yield f"question in [variables.{name}], which participants are asked"


def _assumed_live(study: Study) -> Iterator[str]:
    settings = study.settings
    if study.has_truth and settings.reward.theta_bound is None:
        yield "no theta_bound in [reward]: from [effects], as if these were true"
    if settings.schedule.times is None:
        yield "no times in [schedule]: decisions are made when the app asks"
    if "timezone" not in settings.schedule.model_fields_set:
        yield "no timezone in [schedule]: UTC, where a participant is enrolled without one"
    if "answer_minutes" not in settings.nudge.model_fields_set:
        yield f"no answer_minutes in [nudge]: {settings.nudge.answer_minutes:g}"
    if "wait_hours" not in settings.reward.model_fields_set:
        yield f"no wait_hours in [reward]: {settings.reward.wait_hours:g}, then a reward is skipped"
    if settings.serve.fallback is None:
        yield f"no fallback in [serve]: {settings.study.actions[0]!r}, the first action"
    unnamed = [a for a in settings.study.actions if a not in settings.actions or settings.actions[a].label is None]
    if unnamed:
        yield f"no label in [actions.NAME] for {', '.join(unnamed)}: people see the names"
