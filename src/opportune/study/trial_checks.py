"""Checks of the trial's tables: staff, arms, baseline, rates by level, analysis and safety."""

from typing import TYPE_CHECKING, Any

from opportune.errors import InputError
from opportune.problems.conditions import VIEWS, Conditions, moments_of
from opportune.problems.variables import WEEKDAYS, Variable, entered_as_numbers, levels_of
from opportune.revealers.pace import CANDIDATES
from opportune.study.analysis import PrimaryTable
from opportune.study.arms import arm_entries
from opportune.study.arrivals import baseline_of, decisions_per_day
from opportune.study.base import WRONG, WrongValueError, show
from opportune.study.lines import Place
from opportune.study.messages import Error, Errors, did_you_mean
from opportune.study.people import ActionTable, ScheduleTable, is_range
from opportune.study.places import section_of
from opportune.study.rates import public_levels, variable_of_rates
from opportune.study.readable import readable_variables, require_right
from opportune.study.schema import PolicyTable, StudyFile, one_of
from opportune.study.variables import VariableTable

if TYPE_CHECKING:
    from opportune.study.build import Study


def check_staff(study: "Study") -> Errors:
    """The cap per day, first weekdays and the run-in must agree with other tables."""
    yield _check_per_day(study)
    yield _check_first(study, ("schedule", "first"), study.settings.schedule)
    for name, variable in study.settings.variables.items():
        if "first" in variable.model_fields_set:
            yield _check_first(study, ("variables", name, "first"), variable)
    yield _check_run_in(study)


def _check_per_day(study: "Study") -> Errors:
    """Only one table may set the cap per day."""
    staff, nudge = study.settings.staff.per_day, study.settings.nudge.per_day
    if staff is not None and nudge is not None:
        text = f"per_day in [nudge] is {nudge}, and [staff] has {staff}"
        yield ("nudge", "per_day"), f"{text}; expected it only in [staff]"


def _check_first(study: "Study", place: Place, table: ScheduleTable | VariableTable) -> Errors:
    """A first weekday must agree with the date of the first day."""
    day, weekday = study.settings.participants.first_day, table.first
    if day is not None and weekday is not None and weekday != WEEKDAYS[day.weekday()]:
        text = f"first in {section_of(place)} is {weekday}"
        actual = f"first_day in [participants] is a {WEEKDAYS[day.weekday()]}"
        yield place, f"{text}, and {actual}; expected it to be left out"


def _check_run_in(study: "Study") -> Errors:
    """The run-in must be shorter than the horizon."""
    general = study.settings.study
    run_in = general.run_in_days * decisions_per_day(study.settings)
    if run_in >= general.horizon:
        text = f"run_in_days in [study] is {general.run_in_days}, which is {run_in} decisions"
        yield ("study", "run_in_days"), f"{text}; expected fewer than the horizon, {general.horizon}"


def check_probabilities(study: "Study") -> Errors:
    """All actions must be able to have the least probability, and nudges must be randomised in one way."""
    yield _check_least_action(study)
    for entry in study.settings.policies:
        yield _check_least_nudge(study, entry)


def _check_least_action(study: "Study") -> Errors:
    least = study.settings.probabilities.actions
    actions = 0 if least is None else len(study.settings.study.actions)
    if least is not None and least * actions > 1.0:
        text = f"actions in [probabilities] is {least:g}, and there are {actions} actions"
        yield ("probabilities", "actions"), f"{text}; expected at most {1.0 / actions:.3g}"


def _check_least_nudge(study: "Study", entry: PolicyTable) -> Errors:
    nudge = study.settings.probabilities.nudge
    if nudge is None:
        return
    text = f"nudge in [probabilities] is {nudge:g}, and a policy has randomise = {show(entry.randomise)}"
    if isinstance(entry.randomise, float) and nudge:
        yield ("probabilities", "nudge"), f"{text}; expected one of them"
    if entry.randomise == CANDIDATES and not nudge:
        yield ("probabilities", "nudge"), f"{text}; expected a number above 0"


def check_redcap(study: "Study") -> Errors:
    """Fields of REDCap must belong to baseline variables."""
    redcap, known = study.settings.redcap, study.settings.participants.baseline
    for name in () if redcap is None else redcap.baseline:
        if name not in known:
            expected = one_of(list(known)) if known else "none, as [participants] has no baseline"
            yield ("redcap", "baseline"), f"baseline in [redcap] contains {name!r}; expected {expected}"


def check_arms(study: "Study") -> Errors:
    """There must be two or more arms, with known policies."""
    arms = study.settings.arms
    if arms is not None and len(arms.named) < 2:
        given = f"only {next(iter(arms.named))!r}" if arms.named else "no arm"
        yield ("arms",), f"[arms] contains {given}; expected two or more, such as control = {{ share = 1 }}"
    entries = arm_entries(study.settings)
    yield from entries.errors
    if entries.waiting:
        raise WrongValueError


def check_strata(study: "Study") -> Errors:
    """Strata must be baseline variables with levels."""
    arms = study.settings.arms
    for name in () if arms is None else arms.strata:
        yield _check_stratum(study, name)


def _check_stratum(study: "Study", name: str) -> Errors:
    baseline: dict[str, Any] = study.settings.participants.baseline
    place = ("arms", "strata")
    if name not in baseline:
        known = [key for key, values in baseline.items() if values is WRONG or not is_range(values)]
        expected = f"expected {one_of(known)}" if known else "expected a variable in baseline of [participants]"
        yield place, f"strata in [arms] names {name!r}; {expected}{did_you_mean(name, known)}"
    elif is_range(baseline[name]):
        yield place, f"strata in [arms] names {name!r}, a number in a range; expected a variable with levels"


def check_baseline(study: "Study") -> Errors:
    """Baseline variables must have unique names that a formula can use."""
    for name in study.settings.participants.baseline:
        if name in study.settings.variables:
            text = f"baseline of [participants] contains {name!r}, as does [variables.{name}]"
            yield ("participants", "baseline", name), f"{text}; expected it once"
        elif name == "action" or not name.isidentifier():
            text = f"baseline of [participants] contains {name!r}"
            yield ("participants", "baseline", name), f"{text}; expected a name of letters, digits and '_'"


def check_rates(study: "Study") -> Errors:
    """Rates by level must name all levels of one public variable."""
    for key in ("open_rate", "response_rate"):
        yield _check_rate(study.settings, key)


def _check_rate(settings: StudyFile, key: str) -> Errors:
    rates = getattr(settings.world, key)
    if not isinstance(rates, dict):
        return
    try:
        name = variable_of_rates(settings, rates)
    except InputError as error:
        yield ("world", key), f"{key} in [world] {error}"
        return
    missing = [level for level in public_levels(settings)[name] if level not in rates]
    if missing:
        text = f"{key} in [world] is {show(rates)}, by level of {name}"
        yield ("world", key), f"{text}; expected {', '.join(map(repr, missing))} as well"


def check_kept(study: "Study") -> Errors:
    """A persistent variable must not be drawn jointly with others."""
    for name, variable in study.settings.variables.items():
        yield _check_beside_persistence(study, name, variable)


def _check_beside_persistence(study: "Study", name: str, variable: VariableTable) -> Errors:
    if not variable.persistence:
        return
    if study.settings.contexts.joint is not None:
        text = f"[variables.{name}] has persistence, and [contexts] has joint"
        yield ("variables", name, "persistence"), f"{text}; expected one of them"
    elif variable.numeric and variable.table is not None:
        text = f"[variables.{name}] has persistence and table"
        yield ("variables", name, "persistence"), f"{text}; expected one of them"


def check_analysis(study: "Study") -> Errors:
    """The primary analysis must use columns that exist and, for controls and moderators, are known before the coin."""
    yield _check_lag(study)
    primary = study.settings.analysis.primary
    if primary is None:
        return
    arms = primary.estimand == "arms"
    if arms and study.settings.arms is None:
        yield _wrong("estimand", primary, "'nudge' or 'actions', as the file has no [arms]")
        return
    yield _check_primary_lag(study, primary)
    yield _check_outcome(study, primary)
    yield _check_reference(study, primary)
    yield _check_columns(study, primary, "controls")
    if not arms:
        yield _check_columns(study, primary, "moderators")
    elif primary.moderators.strip() != "1":
        yield _wrong("moderators", primary, "none for arms")


def _wrong(key: str, primary: PrimaryTable, expected: str) -> Error:
    value = show(getattr(primary, key))
    return ("analysis", "primary", key), f"{key} in primary of [analysis] is {value}; expected {expected}"


def _check_lag(study: "Study") -> Errors:
    lag, horizon = study.settings.analysis.lag, study.settings.study.horizon
    if lag is not None and lag > horizon:
        text = f"lag in [analysis] is {lag}"
        yield ("analysis", "lag"), f"{text}; expected at most the horizon, {horizon} decision points"


def _check_primary_lag(study: "Study", primary: PrimaryTable) -> Errors:
    if primary.estimand == "arms":
        if primary.lag > 1:
            yield _wrong("lag", primary, "1 for arms")
    elif primary.lag > study.settings.study.horizon:
        yield _wrong("lag", primary, f"at most the horizon, {study.settings.study.horizon} decision points")


def _check_outcome(study: "Study", primary: PrimaryTable) -> Errors:
    settings = study.settings
    variables = readable_variables(settings, " ".join(baseline_of(settings)))
    require_right(primary.outcome, variables.wrong)
    numbers = [name for name, variable in variables.known.items() if _is_number(variable)]
    outcomes = [*OUTCOMES, *(name for name in numbers if name not in variables.wrong)]
    if primary.outcome not in outcomes:
        yield _wrong("outcome", primary, f"{one_of(outcomes)}{did_you_mean(primary.outcome, outcomes)}")


def _check_reference(study: "Study", primary: PrimaryTable) -> Errors:
    if primary.reference is None:
        return
    known: list[str] = []
    if primary.estimand == "actions":
        known = study.settings.study.actions
    elif primary.estimand == "arms" and study.settings.arms is not None:
        known = list(study.settings.arms.named)
    if primary.reference not in known:
        none = "none, as a nudge is compared with no nudge"
        expected = f"{one_of(known)}{did_you_mean(primary.reference, known)}" if known else none
        yield _wrong("reference", primary, expected)


OUTCOMES = ("reward", "reward_first", "opened", "answered", "revealed")
BEFORE = ("step", "day", "opened_before", "budget_before", "gap", "price")
"""Columns of decisions.csv, other than variables, that are known before the coin."""


def _is_number(variable: Variable) -> bool:
    levels = levels_of(variable)
    return levels is None or entered_as_numbers(levels)


def _check_columns(study: "Study", primary: PrimaryTable, key: str) -> Errors:
    """A formula of the analysis must name columns known before the coin or, for arms, before randomisation."""
    from opportune.inference.design import columns_of  # noqa: PLC0415  (most files have no [analysis])
    from opportune.problems.grammar import LIBRARY_ERRORS, plain  # noqa: PLC0415

    formula, place = getattr(primary, key) or "1", ("analysis", "primary", key)
    text = f"{key} in primary of [analysis] is {show(formula)}"
    try:
        names = columns_of(formula)
    except (*LIBRARY_ERRORS, AttributeError) as error:
        yield place, f"{text}, which cannot be used: {plain(error)}"
        return
    variables = readable_variables(study.settings, "")
    known, when = list(study.settings.participants.baseline), "before randomisation"
    if primary.estimand != "arms":
        seen = [name for name, visibility in variables.visibility.items() if visibility != "reported"]
        known, when = list(dict.fromkeys([*seen, *known, *BEFORE])), "before the coin"
    for name in names:
        if name not in {*known, *(f"variable_{one}" for one in known)}:
            reported = variables.visibility.get(name) == "reported"
            why = "reported, and so known only after it" if reported else "not among them"
            expected = f"what is known {when}, {one_of(known) if known else repr('1')}"
            yield place, f"{text}; expected {expected}: {name!r} is {why}{did_you_mean(name, known)}"


OTHER = "another action"
"""A second action without a condition, so that one condition can be checked alone."""


def check_conditions(study: "Study") -> Errors:
    """Conditions must be readable and, with variables that are not always known, have `when_unknown`."""
    for name, table in study.settings.actions.items():
        yield _check_condition(study.settings, name, table)


def _check_condition(settings: StudyFile, name: str, table: ActionTable) -> Errors:
    condition = table.never_if
    if condition is None:
        return
    variables = readable_variables(settings, condition)
    require_right(condition, variables.wrong)
    place = ("actions", name, "never_if")
    try:
        found = Conditions({name: condition}, {name: "forbid"}, (name, OTHER), variables.known, variables.visibility)
    except InputError as error:
        yield place, str(error)
        return
    used = [list(variables.known)[v] for v in sorted(found.of[0].variables)]
    hidden = [variable for variable in used if variables.visibility[variable] != "public"]
    if hidden and table.when_unknown is None:
        text = f"never_if of {name!r} uses {hidden[0]!r}, which is not always known"
        yield place, f"{text}; expected when_unknown = 'forbid' or when_unknown = 'allow' beside it"


def check_fallback(study: "Study") -> Errors:
    """The fallback must never be forbidden."""
    settings, name = study.settings, study.fallback
    condition = settings.actions[name].never_if if name in settings.actions else None
    if condition is None:
        return
    variables = readable_variables(settings, condition)
    require_right(condition, variables.wrong)
    doubts = {name: settings.actions[name].when_unknown or "forbid"}
    found = Conditions({name: condition}, doubts, (name, OTHER), variables.known, variables.visibility)
    _, values = moments_of(found.of, variables.known)
    if any(found.forbidden(values, view).any() for view in VIEWS.values()):
        text = f"fallback in [serve] is {name!r}, which is forbidden where {condition}"
        place: Place = ("serve", "fallback") if settings.serve.fallback is not None else ("actions", name)
        yield place, f"{text}; expected an action that is allowed at every moment"


def check_moments(study: "Study") -> Errors:
    """Some action must be allowed at every moment."""
    tables = study.settings.actions.items()
    never = {name: table.never_if for name, table in tables if table.never_if is not None}
    doubts = {name: table.when_unknown for name, table in tables if table.when_unknown is not None}
    variables = readable_variables(study.settings, " ".join(never.values()))
    require_right(" ".join(never.values()), variables.wrong)
    try:
        Conditions(never, doubts, study.settings.study.actions, variables.known, variables.visibility)
    except InputError as error:
        yield ("actions",), str(error)
