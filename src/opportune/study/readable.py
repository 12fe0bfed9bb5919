"""Variables and terms for checks of a file in which some values are wrong: only checks that need those values wait."""

from typing import TYPE_CHECKING, NamedTuple

from opportune.errors import InputError
from opportune.problems.terms import term_names
from opportune.problems.variables import Variable, check_variable
from opportune.study.arrivals import baseline_variable, variable_of, words_of
from opportune.study.base import WrongValueError
from opportune.study.schema import StudyFile

if TYPE_CHECKING:
    from opportune.study.build import Study

STAND_IN = (1, 2)
"""Levels that replace wrong ones; formulas can use them as numbers and as levels."""


class Variables(NamedTuple):
    """The variables that a formula or a condition can name."""

    known: dict[str, Variable]
    visibility: dict[str, str]
    wrong: set[str]
    """The names of variables whose levels were replaced by `STAND_IN`."""


class Terms(NamedTuple):
    """The terms of the formula that do not contain wrong variables, and the names of these."""

    known: tuple[str, ...]
    wrong: set[str]


def require_right(text: str, wrong: set[str]) -> None:
    """Raise `WrongValueError` if a text names a wrong variable."""
    if words_of(text) & wrong:
        raise WrongValueError


def readable_variables(settings: StudyFile, text: str) -> Variables:
    """All variables of [variables.NAME], and the baseline variables in a text."""
    found = Variables({}, {}, set())
    named = {name: values for name, values in settings.participants.baseline.items() if name in words_of(text)}
    for name in [*settings.variables, *named]:
        try:
            value = baseline_variable(named[name]) if name in named else variable_of(settings, name)
            seen = "public" if name in named else settings.variables[name].seen_as
        except WrongValueError:
            value, seen = STAND_IN, "public"
            found.wrong.add(name)
        found.known[name] = check_variable(name, value)
        found.visibility[name] = seen
    return found


def readable_terms(study: "Study") -> Terms:
    """The terms of the formula that can be determined."""
    try:
        return Terms(study.terms, set())
    except WrongValueError:
        pass
    formula = study.settings.reward.formula
    variables = readable_variables(study.settings, formula)
    wrong = set(variables.wrong)
    try:
        actions = study.settings.study.actions
    except WrongValueError:
        actions = ["a", "b"]
        wrong.add("action")
    try:
        terms = term_names(formula, variables.known, actions)
    except InputError:  # the stand-ins may be the reason
        raise WrongValueError from None
    known = tuple(term for term in terms if not words_of(term) & wrong)
    if not known:
        raise WrongValueError
    return Terms(known, wrong)
