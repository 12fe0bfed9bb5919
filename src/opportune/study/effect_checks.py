"""Checks of the formula and of the terms in [effects] and [prior]."""

from typing import TYPE_CHECKING

from opportune.errors import InputError
from opportune.problems.terms import normal_term
from opportune.study.messages import Errors
from opportune.study.readable import Terms, readable_terms, require_right
from opportune.study.schema import REST
from opportune.study.terms import formula_errors, nearest_term
from opportune.study.truth import EFFECT

if TYPE_CHECKING:
    from opportune.study.build import Study


def check_formula(study: "Study") -> Errors:
    """The formula must name known variables and have terms."""
    settings, place = study.settings, ("reward", "formula")
    known = [*settings.variables, *settings.participants.baseline]
    found = list(formula_errors(settings.reward.formula, known))
    yield from ((place, text) for text in found)
    if found:
        return
    try:
        if not study.terms:
            yield place, "formula in [reward] has no terms; expected some, such as action"
    except InputError as error:
        yield place, str(error)


def check_effects(study: "Study") -> Errors:
    """[effects] must name terms of the formula, each once; without '*', all of them."""
    effects = study.settings.effects
    if not effects:
        return
    terms = readable_terms(study)
    given = {normal_term(key) for key in effects}
    near: set[str] = set()
    seen: dict[str, str] = {}
    for key in effects:
        yield _check_effect(key, terms, near, seen)
    missing = [repr(term) for term in terms.known if normal_term(term) not in given and term not in near]
    if missing and REST not in given:
        text = f"[effects] lacks {', '.join(missing)}; expected {EFFECT}"
        yield ("effects",), f"{text}, or '{REST}' for all the rest"


def _check_effect(key: str, terms: Terms, near: set[str], seen: dict[str, str]) -> Errors:
    term = normal_term(key)
    same = seen.setdefault(term, key)
    require_right(key, terms.wrong)
    if term != REST and term not in map(normal_term, terms.known):
        hint, guess = nearest_term(key, terms.known)
        near.add(guess)
        yield ("effects", key), f"unknown term {key!r} in [effects]; {hint}"
    elif same != key:
        yield ("effects", key), f"[effects] contains {same!r} and {key!r}, which are the same term"


def check_instances(study: "Study") -> Errors:
    """Several instances need effects that differ."""
    settings = study.settings
    instances = settings.study.instances
    if instances <= 1 or not settings.effects:
        return
    alike = not any(effect.drawn for effect in settings.effects.values())
    if alike and not any(policy.pooled for policy in settings.policies):
        text = f"instances in [study] is {instances}, but every effect is a number"
        yield ("study", "instances"), f"{text}; expected 1, or a distribution in [effects]"


def check_prior(study: "Study") -> Errors:
    """[prior] must name terms of the formula, each once."""
    prior = study.settings.prior
    if not prior:
        return
    terms = readable_terms(study)
    seen: dict[str, str] = {}
    for key in prior:
        yield _check_prior_of(key, terms, seen)


def _check_prior_of(key: str, terms: Terms, seen: dict[str, str]) -> Errors:
    term = normal_term(key)
    same = seen.setdefault(term, key)
    require_right(key, terms.wrong)
    if term != REST and term not in map(normal_term, terms.known):
        yield ("prior", key), f"unknown term {key!r} in [prior]; {nearest_term(key, terms.known)[0]}"
    elif same != key:
        yield ("prior", key), f"[prior] contains {same!r} and {key!r}, which are the same term"
