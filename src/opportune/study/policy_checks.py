"""Checks of policies and budgets: against each other, the rest of the file and the simulated worlds."""

import itertools
from typing import TYPE_CHECKING, Any

from opportune.errors import InputError
from opportune.policy import LEAST_BUDGET, Budget, Policy, rule_for
from opportune.study.lines import Place
from opportune.study.messages import Errors, place_of
from opportune.study.places import section_of
from opportune.study.schema import BUDGETS, PolicyTable, StudyTable, one_of

if TYPE_CHECKING:
    from opportune.study.build import Study

MOST_TRIED = 100
"""The number of instances on which policies are tried; instances differ in numbers only."""


def check_budgets(study: "Study") -> Errors:
    """Policies that need budgets must have some, and budgets must be valid."""
    yield _check_amounts(study, ("study", "budgets"), study.settings.study)
    for i, entry in enumerate(study.settings.policies):
        yield _check_has_budgets(study, i, entry)
        yield _check_amounts(study, ("policies", i, "budgets"), entry)


def _check_has_budgets(study: "Study", i: int, entry: PolicyTable) -> Errors:
    listed = "policies" in study.settings.model_fields_set  # without [[policies]] the command chooses budgets
    if listed and entry.needs_budget and entry.budgets is None and not study.settings.study.budgets:
        text = f"policy {entry.kind!r} has no budgets, here or in [study]; expected {BUDGETS}"
        yield ("policies", i, "budgets"), text


def _check_amounts(study: "Study", place: Place, table: StudyTable | PolicyTable) -> Errors:
    """Check each budget of a list."""
    amounts = table.budgets or []
    for j, amount in enumerate(amounts):
        text = f"budgets in {section_of(place)} contains {amount:g}"
        if amount < LEAST_BUDGET:
            yield (*place, j), f"{text}; expected at least {LEAST_BUDGET:g}"
        elif amount in amounts[:j]:
            yield (*place, j), f"{text} twice; expected different budgets"
        else:
            yield _check_within_horizon(study, (*place, j), text, amount)
            yield _check_whole(study, (*place, j), text, amount)


def _check_within_horizon(study: "Study", place: Place, text: str, amount: float) -> Errors:
    horizon = study.settings.study.horizon
    if amount > horizon:
        yield place, f"{text}; expected at most {horizon}, the horizon"


def _check_whole(study: "Study", place: Place, text: str, amount: float) -> Errors:
    if study.settings.study.budget_kind == "hard" and not amount.is_integer():
        yield place, f"{text}; a hard budget counts nudges, expected a whole number"


def check_policies(study: "Study") -> Errors:
    """Each policy must be valid and, if it is optimistic, suit the study."""
    for i, entry in enumerate(study.settings.policies):
        yield _check_action(study, i, entry)
        yield _check_policy(study, i, entry)
        yield _check_rotation(i, entry)
        yield _check_optimism(study, i, entry)


def _check_action(study: "Study", i: int, entry: PolicyTable) -> Errors:
    if entry.action is not None and entry.action not in study.settings.study.actions:
        text = f"action in [[policies]] is {entry.action!r}"
        yield ("policies", i, "action"), f"{text}; expected {one_of(study.settings.study.actions)}"


def _check_policy(study: "Study", i: int, entry: PolicyTable) -> Errors:
    """A policy must be valid by itself, and then with the settings of the whole file."""
    general = study.settings.study
    if (entry.unknown == "optimistic" and entry.rotate) or entry.action not in {None, *general.actions}:
        return  # reported by another check
    budget = Budget(1.0, shared=general.budget_shared) if entry.needs_budget else None
    try:
        Policy(
            recommender=entry.recommender_among(general.actions), revealer=entry.revealer, budget=budget,
            pooled=entry.pooled,
        )  # fmt: skip
    except InputError as error:
        yield ("policies", i), f"[[policies]] number {i + 1}: {error}"
    else:
        yield _check_whole_policy(study, i, entry)


def _check_whole_policy(study: "Study", i: int, entry: PolicyTable) -> Errors:
    try:
        study.policy(i, None if not entry.needs_budget else 1.0, participants=1)
    except InputError as error:
        yield ("policies", i), f"[[policies]] number {i + 1}: {error}"


def _check_rotation(i: int, entry: PolicyTable) -> Errors:
    if entry.unknown == "optimistic" and entry.rotate:
        text = "rotate needs unknown = 'plugin'"
        yield ("policies", i, "rotate"), f"{text}; expected one of the two keys to be left out"


def _check_optimism(study: "Study", i: int, entry: PolicyTable) -> Errors:
    if entry.unknown != "optimistic":
        return
    if study.settings.contexts.known:
        text = "unknown = 'optimistic' is for probabilities that agents must learn"
        yield ("policies", i, "unknown"), f"{text}; expected known = false in [contexts] with it"
        return
    seen = {name: variable.seen_as for name, variable in study.settings.variables.items()}
    others = ", ".join(f"{name} is {visibility}" for name, visibility in seen.items() if visibility != "sensed")
    if others:
        text = "unknown = 'optimistic' needs variables that are all sensed"
        yield ("policies", i, "unknown"), f"{text}; here {others}"


def check_served_budget(study: "Study") -> Errors:
    """The budget of [serve] must be valid."""
    budget = study.settings.serve.budget
    if budget is not None and budget < LEAST_BUDGET:
        yield ("serve", "budget"), f"budget in [serve] is {budget:g}; expected at least {LEAST_BUDGET:g}"
    elif budget is not None and budget > study.settings.study.horizon:
        text = f"budget in [serve] is {budget:g}"
        yield ("serve", "budget"), f"{text}; expected at most {study.settings.study.horizon}, the horizon"


def check_served_policy(study: "Study") -> Errors:
    """The policy of [serve] must be in [[policies]]."""
    served = study.settings.serve.policy
    names = [entry.name or entry.kind for entry in study.settings.policies] if served is not None else []
    if served is not None and served not in names:
        text = f"policy in [serve] is {served!r}"
        yield ("serve", "policy"), f"{text}; expected {one_of(names)}, as [[policies]] has them"


def check_fit(study: "Study") -> Errors:
    """Policies must suit the worlds in which they are simulated."""
    if not study.has_truth:
        return  # `serving` checks live studies
    try:
        problems = [world.informed_problem() for world in study.worlds()[:MOST_TRIED]]
    except InputError as error:
        yield place_of(error, ("reward",)), str(error)
        return
    for i in range(len(study.settings.policies)):
        yield _check_policy_fits(study, i, problems)


def _check_policy_fits(study: "Study", i: int, problems: list[Any]) -> Errors:
    horizon, participants = study.settings.study.horizon, study.settings.study.instances
    try:
        for policy, problem in itertools.product(study.policies_of(i), problems):
            rule_for(policy, problem, horizon=horizon, participants=participants)
    except InputError as error:
        yield ("policies", i), str(error)


def check_labels(study: "Study") -> Errors:
    """Simulated policies must have different names."""
    if study.has_truth:
        so_far: list[Policy] = []
        for i in range(len(study.settings.policies)):
            yield _check_label(study, i, so_far)


def _check_label(study: "Study", i: int, so_far: list[Policy]) -> Errors:
    from opportune.simulation.pack import policy_labels  # noqa: PLC0415  (most files with mistakes do not get this far)

    policies = study.policies_of(i)
    try:
        policy_labels([*so_far, *policies])
        so_far += policies
    except InputError as error:
        yield ("policies", i), str(error)
