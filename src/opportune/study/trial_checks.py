"""Whether what a file says of the trial fits together: staff, arms, baseline, rates by level, priors, escalations."""

from collections.abc import Iterator
from typing import TYPE_CHECKING

from opportune.errors import InputError
from opportune.problems.conditions import VIEWS, Conditions, moments_of
from opportune.problems.terms import normal_term
from opportune.problems.variables import WEEKDAYS, Number, check_variable, levels_of
from opportune.revealers.pace import CANDIDATES
from opportune.study.arms import arm_entries
from opportune.study.arrivals import decisions_per_day, visibility_of
from opportune.study.base import show
from opportune.study.lines import Place
from opportune.study.messages import Error, did_you_mean
from opportune.study.people import is_range
from opportune.study.rates import variable_of_rates
from opportune.study.schema import REST, one_of
from opportune.study.terms import nearest_term

if TYPE_CHECKING:
    from opportune.study.build import Study


def check_staff(study: "Study") -> Iterator[Error]:
    """Who makes nudges, and when the study's days are."""
    settings, general = study.settings, study.settings.study
    if settings.staff.per_day is not None and settings.nudge.per_day is not None:
        text = f"per_day in [nudge] is {settings.nudge.per_day}, and [staff] has {settings.staff.per_day}"
        yield ("nudge", "per_day"), f"{text}; expected it in [staff] alone"
    first = settings.participants.first_day
    given: list[tuple[Place, str | None]] = [(("schedule", "first"), settings.schedule.first)]
    for name, variable in settings.variables.items():
        given.append((("variables", name, "first"), variable.first if "first" in variable.model_fields_set else None))
    for place, weekday in given:
        if first is not None and weekday is not None and weekday != WEEKDAYS[first.weekday()]:
            text = f"first in [{'.'.join(map(str, place[:-1]))}] is {weekday}"
            actual = f"first_day in [participants] is a {WEEKDAYS[first.weekday()]}"
            yield place, f"{text}, and {actual}; expected it to be left out"
    try:
        run_in = general.run_in_days * decisions_per_day(settings)
    except InputError:
        return  # reported elsewhere
    if run_in >= general.horizon:
        text = f"run_in_days in [study] is {general.run_in_days}, which is {run_in} decisions"
        yield ("study", "run_in_days"), f"{text}; expected fewer than the horizon, {general.horizon}"


def check_probabilities(study: "Study") -> Iterator[Error]:
    """Least probabilities that all actions can have together."""
    least, actions = study.settings.probabilities.actions, len(study.settings.study.actions)
    if least is not None and least * actions > 1.0:
        text = f"actions in [probabilities] is {least:g}, and there are {actions} actions"
        yield ("probabilities", "actions"), f"{text}; expected at most {1.0 / actions:.3g}"
    nudge = study.settings.probabilities.nudge
    for entry in study.settings.policies if nudge is not None else ():
        text = f"nudge in [probabilities] is {nudge:g}, and a policy has randomise = {show(entry.randomise)}"
        if isinstance(entry.randomise, float) and nudge:
            yield ("probabilities", "nudge"), f"{text}; expected one of them"
        if entry.randomise == CANDIDATES and not nudge:
            yield ("probabilities", "nudge"), f"{text}; expected a number above 0"


def check_redcap(study: "Study") -> Iterator[Error]:
    """Fields of REDCap are named for what is known at enrolment."""
    redcap, known = study.settings.redcap, study.settings.participants.baseline
    for name in () if redcap is None else redcap.baseline:
        if name not in known:
            expected = one_of(list(known)) if known else "none, as [participants] has no baseline"
            yield ("redcap", "baseline"), f"baseline in [redcap] has {name!r}; expected {expected}"


def check_arms(study: "Study") -> Iterator[Error]:
    """What the arms run."""
    yield from arm_entries(study.settings).errors


def check_strata(study: "Study") -> Iterator[Error]:
    """By what arms are stratified."""
    settings = study.settings
    for name in () if settings.arms is None else settings.arms.strata:
        values = settings.participants.baseline.get(name)
        place = ("arms", "strata")
        if values is None:
            known = [key for key, found in settings.participants.baseline.items() if not is_range(found)]
            expected = f"expected {one_of(known)}" if known else "expected a variable in baseline of [participants]"
            yield place, f"strata in [arms] names {name!r}; {expected}{did_you_mean(name, known)}"
        elif is_range(values):
            yield place, f"strata in [arms] names {name!r}, any number of a range; expected a variable with levels"


def check_baseline(study: "Study") -> Iterator[Error]:
    """Baseline variables have names of their own."""
    for name in study.settings.participants.baseline:
        if name in study.settings.variables:
            text = f"baseline of [participants] has {name!r}, and so has [variables.{name}]"
            yield ("participants", "baseline", name), f"{text}; expected it once"
        elif name == "action" or not name.isidentifier():
            text = f"baseline of [participants] has {name!r}"
            yield ("participants", "baseline", name), f"{text}; expected a name of letters, digits and '_'"


def check_rates(study: "Study") -> Iterator[Error]:
    """Rates by level, which are those of a public variable."""
    for key, rates in study.settings.world.by_level.items():
        try:
            name = variable_of_rates(study, rates)
        except InputError as error:
            yield ("world", key), f"{key} in [world] {error}"
            continue
        missing = [str(level) for level in levels_of(check_variable(name, study.variables[name])) or ()]
        missing = [level for level in missing if level not in rates]
        if missing:
            text = f"{key} in [world] is {show(rates)}, by level of {name}"
            yield ("world", key), f"{text}; expected {', '.join(map(repr, missing))} as well"


def check_prior(study: "Study") -> Iterator[Error]:
    """Priors of terms that the formula has."""
    known = {normal_term(term) for term in study.terms}
    seen: dict[str, str] = {}
    for key in study.settings.prior:
        term = normal_term(key)
        if term not in known and term != REST:
            yield ("prior", key), f"unknown term {key!r} in [prior]; {nearest_term(key, study.terms)[0]}"
        elif term in seen:
            yield ("prior", key), f"[prior] has {seen[term]!r} and {key!r}, which are the same term"
        seen[term] = key


def check_kept(study: "Study") -> Iterator[Error]:
    """What stays as it was, and what is drawn with others, do not go together."""
    kept = [name for name, variable in study.settings.variables.items() if variable.persistence]
    for name in kept:
        if study.settings.contexts.joint is not None:
            text = f"[variables.{name}] has persistence, and [contexts] has joint"
            yield ("variables", name, "persistence"), f"{text}; expected one of them"
        elif isinstance(study.variables[name], Number) and study.settings.variables[name].table is not None:
            text = f"[variables.{name}] has persistence and table"
            yield ("variables", name, "persistence"), f"{text}; expected one of them"


def check_analysis(study: "Study") -> Iterator[Error]:
    """The primary analysis is one that can be made: of columns that there are, and known before the coin."""
    settings, table = study.settings, study.settings.analysis
    horizon = settings.study.horizon
    if table.lag is not None and table.lag > horizon:
        text = f"lag in [analysis] is {table.lag}"
        yield ("analysis", "lag"), f"{text}; expected at most the horizon, {horizon} decision points"
    given = table.primary
    if given is None:
        return

    def wrong(key: str, expected: str) -> Error:
        value = show(getattr(given, key))
        return ("analysis", "primary", key), f"{key} in primary of [analysis] is {value}; expected {expected}"

    arms = given.estimand == "arms"
    if arms and settings.arms is None:
        yield wrong("estimand", "'nudge' or 'actions', as the file has no [arms]")
        return
    if given.lag > (1 if arms else horizon):
        yield wrong("lag", "1 for arms" if arms else f"at most the horizon, {horizon} decision points")
    if arms and given.moderators.strip() != "1":
        yield wrong("moderators", "none for arms")
    outcomes = [*OUTCOMES, *(name for name, variable in study.variables.items() if _is_number(name, variable))]
    if given.outcome not in outcomes:
        yield wrong("outcome", f"{one_of(outcomes)}{did_you_mean(given.outcome, outcomes)}")
    references = {"actions": settings.study.actions, "arms": list({} if settings.arms is None else settings.arms.named)}
    among = references.get(given.estimand, [])
    if given.reference is not None and given.reference not in among:
        none = "none, as a nudge is compared with no nudge"
        yield wrong("reference", f"{one_of(among)}{did_you_mean(given.reference, among)}" if among else none)
    yield from _formulas(
        study, {"controls": given.controls or "1", **({} if arms else {"moderators": given.moderators})}
    )


OUTCOMES = ("reward", "reward_first", "opened", "answered", "revealed")
BEFORE = ("step", "day", "opened_before", "budget_before", "gap", "price")
"""Columns of decisions.csv that are known before the coin, beside variables."""


def _is_number(name: str, variable: object) -> bool:
    levels = levels_of(check_variable(name, variable))
    return levels is None or all(isinstance(level, int | float) for level in levels)


def _formulas(study: "Study", given: dict[str, str]) -> Iterator[Error]:
    """Formulas of the analysis, which may name what is known before the coin; for arms, before randomisation."""
    from opportune.inference.design import columns_of  # noqa: PLC0415  (most files have no [analysis])
    from opportune.problems.grammar import LIBRARY_ERRORS, plain  # noqa: PLC0415

    settings, primary = study.settings, study.settings.analysis.primary
    baseline = list(settings.participants.baseline)
    visibility = visibility_of(settings)
    known, when = baseline, "before randomisation"
    if primary is not None and primary.estimand != "arms":
        seen = [name for name in study.variables if visibility.get(name, "public") != "reported"]
        known, when = list(dict.fromkeys([*seen, *baseline, *BEFORE])), "before the coin"
    for key, formula in given.items():
        place = ("analysis", "primary", key)
        text = f"{key} in primary of [analysis] is {show(formula)}"
        try:
            names = columns_of(formula)
        except (*LIBRARY_ERRORS, AttributeError) as error:
            yield place, f"{text}, which cannot be used: {plain(error)}"
            continue
        for name in names:
            if name not in {*known, *(f"variable_{one}" for one in known)}:
                why = f"{name!r} is reported, and so known only after it" if visibility.get(name) == "reported" else (
                    f"{name!r} is not among them")  # fmt: skip
                expected = one_of(known) if known else "'1'"
                yield place, f"{text}; expected what is known {when}, {expected}: {why}{did_you_mean(name, known)}"


def check_safety(study: "Study") -> Iterator[Error]:
    """Conditions under which actions are forbidden, and that the fallback never is."""
    settings, actions = study.settings, study.settings.study.actions
    variables = {name: check_variable(name, variable) for name, variable in study.variables.items()}
    visibility = {**dict.fromkeys(variables, "public"), **visibility_of(settings)}
    never = {name: table.never_if for name, table in settings.actions.items() if table.never_if is not None}
    wrong = False
    for name, condition in never.items():
        doubt = settings.actions[name].when_unknown
        doubts = None if doubt is None else {name: doubt}
        try:
            found = Conditions({name: condition}, doubts, actions, variables, visibility)
        except InputError as error:
            yield ("actions", name, "never_if"), str(error)
            wrong = True
            continue
        _, values = moments_of(found.of, variables)
        if name == study.fallback and any(found.forbidden(values, view).any() for view in VIEWS.values()):
            text = f"fallback in [serve] is {name!r}, which is forbidden where {condition}"
            place: Place = ("serve", "fallback") if settings.serve.fallback is not None else ("actions", name)
            yield place, f"{text}; expected an action that is allowed at every moment"
    if wrong:
        return
    doubts = {name: table.when_unknown for name, table in settings.actions.items() if table.when_unknown is not None}
    try:
        Conditions(never, doubts, actions, variables, visibility)
    except InputError as error:
        yield ("actions",), str(error)
