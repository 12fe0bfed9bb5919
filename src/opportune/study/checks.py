"""Checks whether the parts of a study file fit together. Each check yields places with messages."""

import dataclasses
import keyword
import math
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from opportune import checks
from opportune.errors import InputError
from opportune.problems.continuous import ContinuousProblem
from opportune.problems.history import History
from opportune.problems.settings import MOST_CONTEXTS
from opportune.problems.variables import DayOfStudy, Number, Schedule, TimeOfDay, check_variable
from opportune.study.arrivals import decisions_per_day, distribution_of, sizes_of, variable_of
from opportune.study.base import mark_wrong, run_checks
from opportune.study.effect_checks import check_effects, check_formula, check_instances, check_prior
from opportune.study.messages import Error, Errors, did_you_mean, place_of
from opportune.study.policy_checks import (
    check_budgets,
    check_fit,
    check_labels,
    check_policies,
    check_served_budget,
    check_served_policy,
)
from opportune.study.schema import one_of
from opportune.study.terms import FUNCTIONS
from opportune.study.trial_checks import (
    check_analysis,
    check_arms,
    check_baseline,
    check_conditions,
    check_fallback,
    check_kept,
    check_moments,
    check_probabilities,
    check_rates,
    check_redcap,
    check_staff,
    check_strata,
)
from opportune.study.variables import DAY_OF_STUDY, VariableTable
from opportune.worlds.distributions import pack

if TYPE_CHECKING:
    from opportune.study.build import Study

BYTES_PER_STEP = 80


def find_errors(study: "Study") -> tuple[list[Error], int]:
    """Find everything that does not fit together, and count the checks that wait because they read a wrong value.

    Wrong values found by one stage are marked before the next stage runs.
    """
    errors: list[Error] = []
    waiting = 0
    for stage in STAGES:
        found, more = run_checks(check(study) for check in stage)
        errors += found
        waiting += more
        settings = study.settings
        for place, _ in found:
            settings = mark_wrong(settings, place)
        study = dataclasses.replace(study, settings=settings) if found else study
    return errors, waiting


def _check_days(study: "Study") -> Errors:
    """`decisions_per_day`, `times` and named times of day must agree."""
    yield _check_times(study)
    for name, variable in study.settings.variables.items():
        yield _check_times_of_day(study, name, variable)


def _check_times(study: "Study") -> Errors:
    given, times = study.settings.study.decisions_per_day, study.settings.schedule.times
    if given is not None and times is not None and len(times) != given:
        text = f"times in [schedule] has {len(times)} times, and decisions_per_day in [study] is {given}"
        yield ("study", "decisions_per_day"), f"{text}; expected as many"


def _check_times_of_day(study: "Study", name: str, variable: VariableTable) -> Errors:
    if variable.schedule == "time of day":
        given = study.settings.study.decisions_per_day
        try:
            Schedule({name: TimeOfDay(variable.names or [])}, decisions_per_day=decisions_per_day(study.settings))
        except InputError as error:
            yield ("variables", name, "names") if given is None else ("study", "decisions_per_day"), str(error)


def _check_names(study: "Study") -> Errors:
    """A formula must be able to name every variable."""
    for name in study.settings.variables:
        if name == "action" or not name.isidentifier() or keyword.iskeyword(name) or name in FUNCTIONS:
            expected = "expected letters, digits and '_', and none of action, " + ", ".join(FUNCTIONS)
            yield ("variables", name), f"a formula cannot name a variable {name!r}; {expected}"


def _check_tables(study: "Study") -> Errors:
    """All variables with a table must have the same one, with rows that fit."""
    tables: dict[str, str] = {}
    for name, variable in study.settings.variables.items():
        if variable.table is not None:
            tables.setdefault(variable.table, name)
            if len(tables) > 1:
                (one, first), *_ = tables.items()
                text = f"[variables.{name}] has table = {variable.table!r}, and [variables.{first}] has {one!r}"
                yield ("variables", name, "table"), f"{text}; expected one table, whose rows are drawn as a whole"
    if len(tables) == 1:
        yield _check_rows(study)


def _check_rows(study: "Study") -> Errors:
    settings = study.settings
    names = [name for name, variable in settings.variables.items() if variable.table is not None]
    try:
        variables = {name: check_variable(name, variable_of(settings, name)) for name in names}
        pack(variables, {}, table=study.table)
    except InputError as error:
        yield ("variables", names[0], "table"), str(error)


def _check_variables(study: "Study") -> Errors:
    """Each variable must fit the study's days and have a distribution within its range."""
    for name in study.settings.variables:
        yield _check_variable(study, name)
        yield _check_distribution(study, name)


def _check_variable(study: "Study", name: str) -> Errors:
    try:
        variable_of(study.settings, name)
    except InputError as error:
        key = "schedule" if study.settings.variables[name].history is None else "history"
        yield ("variables", name, key), str(error)


def _check_distribution(study: "Study", name: str) -> Errors:
    variable = study.settings.variables[name]
    if variable.distribution is not None:
        try:
            distribution_of(variable)
        except InputError as error:
            yield ("variables", name, "distribution"), f"[variables.{name}]: {error}"


def _check_joint(study: "Study") -> Errors:
    """Joint probabilities need a finite set of contexts, and there must not be too many contexts."""
    joint = study.settings.contexts.joint
    if not study.continuous:
        contexts = math.prod(sizes_of(study.variables).values())
        if contexts > MOST_CONTEXTS:
            yield ("variables",), f"variables have {contexts:,} combinations; expected at most {MOST_CONTEXTS:,}"
        elif joint is not None:
            yield from _check_joint_numbers(study, joint)
    elif joint is not None:
        name = next(name for name, v in study.variables.items() if isinstance(v, Number | DayOfStudy | History))
        text = f"joint in [contexts] is for variables with levels, and {name} may be any number"
        yield ("contexts", "joint"), f"{text}; expected a table for variables that belong together"


def _check_joint_numbers(study: "Study", joint: list[Any]) -> Errors:
    place = ("contexts", "joint")
    sizes = tuple(sizes_of(study.variables).values())
    expected = " x ".join(map(str, sizes)) + (f" = {math.prod(sizes)}" if len(sizes) > 1 else "")
    try:
        given = checks.numbers("joint", joint, expected)
    except InputError:
        yield place, f"joint in [contexts] is not an array of numbers; expected {expected} probabilities"
        return
    if given.shape not in {sizes, (math.prod(sizes),)}:
        shape = " x ".join(map(str, given.shape))
        yield place, f"joint in [contexts] contains {shape} numbers; expected {expected}, first variable slowest"
        return
    try:
        checks.probabilities("joint in [contexts]", given.ravel(), given.size)
    except InputError as error:
        yield place, str(error)


def _check_beside_joint(study: "Study") -> Errors:
    """Variables must not have their own probabilities beside joint ones."""
    variables = study.settings.variables
    if study.settings.contexts.joint is None or any(
        v.numeric or v.schedule == DAY_OF_STUDY for v in variables.values()
    ):
        return
    for name in variables:
        for key in ("probabilities", "table"):
            yield _check_key_beside_joint(study, name, key)


def _check_key_beside_joint(study: "Study", name: str, key: str) -> Errors:
    if getattr(study.settings.variables[name], key) is not None:
        text = f"[variables.{name}] has {key}, and [contexts] has joint; expected one of them"
        yield ("variables", name, key), text


def _check_people(study: "Study") -> Errors:
    """[actions.NAME] and `fallback` must name actions of [study]."""
    for name in study.settings.actions:
        yield _check_named_action(study, name)
    yield _check_served_fallback(study)


def _check_named_action(study: "Study", name: str) -> Errors:
    actions = study.settings.study.actions
    if name not in actions:
        text = f"[actions.{name}] is not an action in [study]"
        yield ("actions", name), f"{text}; expected {one_of(actions)}{did_you_mean(name, actions)}"


def _check_served_fallback(study: "Study") -> Errors:
    fallback = study.settings.serve.fallback
    if fallback is not None and fallback not in study.settings.study.actions:
        yield (
            ("serve", "fallback"),
            f"fallback in [serve] is {fallback!r}; expected {one_of(study.settings.study.actions)}",
        )


def _check_contexts(study: "Study") -> Errors:
    """Contexts that are not a finite set must allow the problem to be built."""
    if not study.continuous or not (study.has_truth or study.settings.reward.theta_bound):
        return
    try:
        problem = study.problem
        problem.layout(horizon=study.settings.study.horizon)
        _ = (problem.start, problem.least_distance) if isinstance(problem, ContinuousProblem) else None
    except InputError as error:
        yield place_of(error, ("variables",)), str(error)


STAGES: tuple[tuple[Callable[["Study"], Errors], ...], ...] = (
    (_check_days, _check_names, check_baseline),
    (_check_variables, _check_tables, _check_beside_joint, check_kept, check_staff),
    (
        check_formula, check_budgets, check_policies, _check_people, check_served_budget, check_served_policy,
        check_conditions, check_rates, check_probabilities, check_arms, check_strata, check_redcap, check_analysis,
    ),
    (check_effects, check_instances, check_prior, _check_joint, check_fallback, check_moments),
    (_check_contexts,),
    (check_fit, check_labels),
)  # fmt: skip
"""All checks; later stages rely on what earlier ones check."""


def check_memory(source: str, steps: int) -> None:
    """Raise `InputError` if the steps to keep do not fit into memory."""
    instead = "trace = false in [study], or fewer replicates"
    checks.memory(f"{source}: keeping {steps:,} steps", float(steps) * BYTES_PER_STEP, instead)
