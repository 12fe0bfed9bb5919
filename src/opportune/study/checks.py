"""Whether the parts of a study fit together: each check yields where something is wrong, and what."""

import itertools
import keyword
import math
from collections.abc import Callable, Collection, Iterator
from typing import TYPE_CHECKING, Any

from opportune import checks
from opportune.errors import InputError
from opportune.policy import LEAST_BUDGET, Policy, rule_for
from opportune.problems.continuous import ContinuousProblem
from opportune.problems.history import History
from opportune.problems.settings import MOST_CONTEXTS
from opportune.problems.terms import normal_term
from opportune.problems.variables import DayOfStudy, Number, check_variable
from opportune.study.arrivals import decisions_per_day, distribution_of, sizes_of
from opportune.study.lines import Place
from opportune.study.messages import Error, did_you_mean
from opportune.study.places import section_of
from opportune.study.schema import BUDGETS, REST, RewardTable, one_of
from opportune.study.terms import FUNCTIONS, formula_errors, nearest_term
from opportune.study.trial_checks import (
    check_analysis,
    check_arms,
    check_baseline,
    check_kept,
    check_prior,
    check_probabilities,
    check_rates,
    check_redcap,
    check_safety,
    check_staff,
    check_strata,
)
from opportune.study.truth import EFFECT
from opportune.worlds.distributions import pack

if TYPE_CHECKING:
    from opportune.study.build import Study

BYTES_PER_STEP = 80
MOST_TRIED = 100
"""Instances that policies are tried on before a study runs: they differ in numbers only."""


def find_errors(study: "Study", wrong: Collection[Place] = ()) -> list[Error]:
    """All that does not fit together.

    A check is left out where something that it reads is wrong already: found `wrong` before, or in an earlier stage.
    """
    found: list[Error] = []
    for stage in STAGES:
        unsure = [*wrong, *(place for place, _ in found)]
        for check, reads in stage:
            if not any(_overlap(place, part) for place in unsure for part in reads):
                found += check(study)
    return found


def _overlap(one: Place, other: Place) -> bool:
    """Whether one place lies in the other."""
    shorter = min(len(one), len(other))
    return one[:shorter] == other[:shorter]


def _check_variables(study: "Study") -> Iterator[Error]:
    tables: dict[str, str] = {}
    for name, variable in study.settings.variables.items():
        if name == "action" or not name.isidentifier() or keyword.iskeyword(name) or name in FUNCTIONS:
            expected = "expected letters, digits and '_', and none of action, " + ", ".join(FUNCTIONS)
            yield ("variables", name), f"a formula cannot name a variable {name!r}; {expected}"
        if variable.table is not None:
            tables.setdefault(variable.table, name)
            if len(tables) > 1:
                (one, first), *_ = tables.items()
                text = f"[variables.{name}] has table = {variable.table!r}, and [variables.{first}] has {one!r}"
                yield ("variables", name, "table"), f"{text}; expected one table, whose rows are drawn as a whole"


def _check_arrivals(study: "Study") -> Iterator[Error]:
    """How variables are scheduled and drawn."""
    settings = study.settings
    try:
        decisions_per_day(settings)
    except InputError as error:
        yield ("study", "decisions_per_day"), str(error)
        return
    try:
        _ = study.variables
    except InputError as error:
        name = next((name for name in settings.variables if repr(name) in str(error)), "")
        key = "history" if name and settings.variables[name].history is not None else "schedule"
        yield ("variables", name, key), str(error)
        return
    for name, variable in settings.variables.items():
        if variable.distribution is not None:
            try:
                distribution_of(variable)
            except InputError as error:
                yield ("variables", name, "distribution"), f"[variables.{name}]: {error}"
    yield from _check_table(study)
    if study.continuous:
        yield from _check_no_joint(study)
    else:
        yield from _check_finite(study)


def _check_table(study: "Study") -> Iterator[Error]:
    """The user's own rows, which must fit the variables that are drawn from them."""
    names = [name for name, variable in study.settings.variables.items() if variable.table is not None]
    if not names:
        return
    try:
        variables = {name: check_variable(name, study.variables[name]) for name in names}
        pack(variables, {}, table=study.table)
    except InputError as error:
        yield ("variables", names[0], "table"), str(error)


def _check_no_joint(study: "Study") -> Iterator[Error]:
    if study.settings.contexts.joint is not None:
        name = next(name for name, v in study.variables.items() if isinstance(v, Number | DayOfStudy | History))
        text = f"joint in [contexts] is for variables with levels, and {name} may be any number"
        yield ("contexts", "joint"), f"{text}; expected a table for variables that belong together"


def _check_finite(study: "Study") -> Iterator[Error]:
    """The combinations of levels, and their probabilities."""
    contexts = math.prod(sizes_of(study.variables).values())
    if contexts > MOST_CONTEXTS:
        yield ("variables",), f"variables have {contexts:,} combinations; expected at most {MOST_CONTEXTS:,}"
    elif study.settings.contexts.joint is not None:
        yield from _check_joint(study, study.settings.contexts.joint)


def _check_joint(study: "Study", joint: list[Any]) -> Iterator[Error]:
    for name, variable in study.settings.variables.items():
        for key in ("probabilities", "table"):
            if getattr(variable, key) is not None:
                text = f"[variables.{name}] has {key}, and [contexts] has joint; expected one of them"
                yield ("variables", name, key), text
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
        yield place, f"joint in [contexts] has {shape} numbers; expected {expected}, first variable slowest"
        return
    try:
        checks.probabilities("joint in [contexts]", given.ravel(), given.size)
    except InputError as error:
        yield place, str(error)


def _check_budgets(study: "Study") -> Iterator[Error]:
    general, entries = study.settings.study, study.settings.policies
    lists: list[tuple[Place, list[float]]] = [(("study", "budgets"), general.budgets)]
    for i, entry in enumerate(entries):
        listed = "policies" in study.settings.model_fields_set  # else the file leaves it to the command
        if listed and entry.needs_budget and entry.budgets is None and not general.budgets:
            yield (
                ("policies", i),
                f"policy {entry.kind!r} has no budgets, here or in [study]; expected {BUDGETS}",
            )
        lists.append((("policies", i, "budgets"), entry.budgets or []))
    for place, amounts in lists:
        for j, amount in enumerate(amounts):
            text = f"budgets in {section_of(place)} holds {amount:g}"
            if amount > general.horizon:
                yield (*place, j), f"{text}; expected at most {general.horizon}, the horizon"
            elif amount < LEAST_BUDGET:
                yield (*place, j), f"{text}; expected at least {LEAST_BUDGET:g}"
            elif general.budget_kind == "hard" and not amount.is_integer():
                yield (*place, j), f"{text}; a hard budget counts nudges, expected a whole number"
            elif amount in amounts[:j]:
                yield (*place, j), f"{text} twice; expected different budgets"


def _check_policies(study: "Study") -> Iterator[Error]:
    seen = {name: "public" if v.schedule else v.visibility for name, v in study.settings.variables.items()}
    others = ", ".join(f"{name} is {visibility}" for name, visibility in seen.items() if visibility != "sensed")
    for i, entry in enumerate(study.settings.policies):
        if entry.action is not None and entry.action not in study.settings.study.actions:
            text = f"action in [[policies]] is {entry.action!r}"
            yield ("policies", i, "action"), f"{text}; expected {one_of(study.settings.study.actions)}"
        elif not (entry.unknown == "optimistic" and entry.rotate):
            try:
                study.policy(i, None if not entry.needs_budget else 1.0, participants=1)
            except InputError as error:
                yield ("policies", i), f"[[policies]] number {i + 1}: {error}"
        if entry.unknown == "optimistic" and entry.rotate:
            text = "rotate goes with unknown = 'plugin'"
            yield ("policies", i, "rotate"), f"{text}; expected one of the two to be left out"
        if entry.unknown == "optimistic" and study.settings.contexts.known:
            text = "unknown = 'optimistic' is for probabilities that agents must learn"
            yield ("policies", i, "unknown"), f"{text}; expected known = false in [contexts] with it"
        elif entry.unknown == "optimistic" and others:
            text = "unknown = 'optimistic' needs variables that are all sensed"
            yield ("policies", i, "unknown"), f"{text}; here {others}"


def _check_people(study: "Study") -> Iterator[Error]:
    """What people read, and what holds live."""
    settings, actions = study.settings, study.settings.study.actions
    for name in settings.actions:
        if name not in actions:
            text = f"[actions.{name}] is no action in [study]"
            yield ("actions", name), f"{text}; expected {one_of(actions)}{did_you_mean(name, actions)}"
    serve = settings.serve
    if serve.fallback is not None and serve.fallback not in actions:
        text = f"fallback in [serve] is {serve.fallback!r}"
        yield ("serve", "fallback"), f"{text}; expected {one_of(actions)}"
    if serve.budget is not None and serve.budget > settings.study.horizon:
        text = f"budget in [serve] is {serve.budget:g}"
        yield ("serve", "budget"), f"{text}; expected at most {settings.study.horizon}, the horizon"
    elif serve.budget is not None and serve.budget < LEAST_BUDGET:
        yield ("serve", "budget"), f"budget in [serve] is {serve.budget:g}; expected at least {LEAST_BUDGET:g}"


def _check_served(study: "Study") -> Iterator[Error]:
    """Which policy runs live."""
    names, served = [entry.name or entry.kind for entry in study.settings.policies], study.settings.serve.policy
    if served is not None and served not in names:
        text = f"policy in [serve] is {served!r}"
        yield ("serve", "policy"), f"{text}; expected {one_of(names)}, as [[policies]] has them"


def _check_names(study: "Study") -> Iterator[Error]:
    """The names in the formula, whatever the values that they stand for."""
    known = [*study.settings.variables, *study.settings.participants.baseline]
    for text in formula_errors(study.settings.reward.formula, known):
        yield ("reward", "formula"), text


def _check_formula(study: "Study") -> Iterator[Error]:
    place = ("reward", "formula")
    try:
        if not study.terms:
            yield place, "formula in [reward] has no terms; expected some, such as action"
    except InputError as error:
        yield place, str(error)


def _check_effects(study: "Study") -> Iterator[Error]:
    if not study.has_truth:
        return
    known = {normal_term(term) for term in study.terms}
    seen: dict[str, str] = {}
    near: set[str] = set()
    for key in study.settings.effects:
        term = normal_term(key)
        if term != REST and term not in known:
            hint, guess = nearest_term(key, study.terms)
            near.add(guess)
            yield ("effects", key), f"unknown term {key!r} in [effects]; {hint}"
        elif term in seen:
            yield ("effects", key), f"[effects] has {seen[term]!r} and {key!r}, which are the same term"
        seen[term] = key
    missing = [repr(term) for term in study.terms if term not in study.effects and term not in near]
    if missing:
        text = f"[effects] lacks {', '.join(missing)}; expected {EFFECT}"
        yield ("effects",), f"{text}, or '{REST}' for all the rest"
    instances = study.settings.study.instances
    alike = not any(effect.drawn for effect in study.settings.effects.values())
    if instances > 1 and alike and not any(policy.pooled for policy in study.settings.policies):
        text = f"instances in [study] is {instances}, but every effect is a number"
        yield ("study", "instances"), f"{text}; expected 1, or a distribution in [effects]"


def _check_contexts(study: "Study") -> Iterator[Error]:
    """What is computed beforehand about contexts that are not a finite set."""
    if not study.continuous or not (study.has_truth or study.settings.reward.theta_bound):
        return
    try:
        problem = study.problem
        problem.layout(horizon=study.settings.study.horizon)
        _ = (problem.start, problem.least_distance) if isinstance(problem, ContinuousProblem) else None
    except InputError as error:
        yield _place_of(error, ("variables",)), str(error)


def _place_of(error: InputError, otherwise: Place) -> Place:
    """Where an error belongs that names a setting first: to its key in [reward], if it is one."""
    setting = str(error).split(maxsplit=1)[0]
    return ("reward", setting) if setting in RewardTable.model_fields else otherwise


def _check_fit(study: "Study") -> Iterator[Error]:
    """Errors that show only once the worlds and policies are built."""
    from opportune.simulation.pack import policy_labels  # noqa: PLC0415  (most wrong files are refused before)

    if not study.has_truth:
        return  # what runs live is checked by study.serving
    try:
        problems = [world.informed_problem() for world in study.worlds()[:MOST_TRIED]]
    except InputError as error:
        yield _place_of(error, ("reward",)), str(error)
        return
    so_far: list[Policy] = []
    horizon, participants = study.settings.study.horizon, study.settings.study.instances
    for i in range(len(study.settings.policies)):
        so_far += study.policies_of(i)
        try:
            for policy, problem in itertools.product(study.policies_of(i), problems):
                rule_for(policy, problem, horizon=horizon, participants=participants)
            policy_labels(so_far)
        except InputError as error:
            yield ("policies", i), str(error)
            return


_ACTIONS: Place = ("study", "actions")
_DAYS: tuple[Place, ...] = (("study", "horizon"), ("study", "decisions_per_day"), ("schedule", "times"))
_ARRIVALS: tuple[Place, ...] = (
    ("variables",), ("contexts",), ("participants", "baseline"), *_DAYS,
)  # fmt: skip
_TERMS: tuple[Place, ...] = (*_ARRIVALS, ("reward", "formula"), _ACTIONS)
_Check = tuple[Callable[["Study"], Iterator[Error]], tuple[Place, ...]]
STAGES: tuple[tuple[_Check, ...], ...] = (
    (
        (_check_variables, (("variables",),)),
        (_check_names, (("variables",), ("reward", "formula"))),
        (_check_budgets, (("study", "budgets"), ("study", "budget_kind"), ("study", "horizon"), ("policies",))),
        (_check_people, (("actions",), ("serve",), _ACTIONS, ("study", "horizon"))),
        (_check_served, (("serve", "policy"), ("policies",))),
        (
            check_staff,
            (
                ("staff", "per_day"),
                ("nudge", "per_day"),
                ("schedule", "first"),
                ("participants", "first_day"),
                ("variables",),
                ("study", "run_in_days"),
                *_DAYS,
            ),
        ),
        (check_baseline, (("participants", "baseline"), ("variables",))),
        (check_redcap, (("redcap",), ("participants", "baseline"))),
        (check_probabilities, (("probabilities",), _ACTIONS)),
        (check_arms, (("arms",), ("policies",), ("serve", "policy"), _ACTIONS)),
        (check_strata, (("arms",),)),
    ),
    ((_check_arrivals, _ARRIVALS),),
    (
        (check_rates, (*_ARRIVALS, ("world", "open_rate"), ("world", "response_rate"))),
        (check_kept, _ARRIVALS),
        (check_analysis, (*_ARRIVALS, ("analysis",), ("arms",), ("participants", "baseline"), _ACTIONS)),
        (_check_policies, (("policies",), ("variables",), ("contexts", "known"), _ACTIONS, *_DAYS)),
        (_check_formula, _TERMS),
        (check_safety, (*_ARRIVALS, ("actions",), ("serve", "fallback"), _ACTIONS)),
    ),
    (
        (_check_effects, (*_TERMS, ("effects",), ("study", "instances"), ("policies",))),
        (check_prior, (*_TERMS, ("prior",))),
    ),
    ((_check_contexts, (*_TERMS, ("reward",), ("effects",), ("prior",))),),
    ((_check_fit, ((),)),),
)
"""Checks with the parts of the file that each reads, () for all of it. Later ones need what came before to be right."""


def check_memory(source: str, steps: int) -> None:
    """Refuse to keep more steps than fit into this machine's memory."""
    instead = "trace = false in [study], or fewer replicates"
    checks.memory(f"{source}: keeping {steps:,} steps", float(steps) * BYTES_PER_STEP, instead)
