"""The terms of a reward formula by the names that people write: "action=call:stress", "mood=low", "intercept"."""

import difflib
import itertools
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from opportune.problems.variables import check_variable, levels_of
from opportune.study.messages import did_you_mean

FUNCTIONS = ("C", "I", "abs", "center", "exp", "log", "log1p", "scale", "sqrt")
"""What a formula may apply to a variable."""


def term_names(formula: str, variables: Mapping[str, Any], actions: Sequence[str]) -> tuple[str, ...]:
    """The features of a formula by names that people write: "action=call:stress", "mood=low", "intercept".

    Variables are levels, numbers with bounds, or scheduled ones.
    """
    from opportune.problems.formula import program  # noqa: PLC0415  (slow to import)

    known = {name: check_variable(name, variable) for name, variable in variables.items()}
    levels = {name: levels_of(variable) for name, variable in known.items()}
    if None in levels.values():
        return program(formula, known, actions).names
    return _names_of_columns(formula, {name: found or () for name, found in levels.items()}, actions)


def _names_of_columns(formula: str, variables: Mapping[str, Sequence[Any]], actions: Sequence[str]) -> tuple[str, ...]:
    """The names where all variables have levels: the library's, in plain words."""
    import pandas as pd  # noqa: PLC0415  (slow to import)
    from formulaic import Formula  # noqa: PLC0415  (slow to import)

    from opportune.problems.formula import CALLABLES, design  # noqa: PLC0415  (slow to import)

    width = design(formula, variables, actions).shape[-1]  # refuses what is no formula
    frame = pd.DataFrame(list(itertools.product(*variables.values(), actions)), columns=[*variables, "action"])
    for name, levels in {**variables, "action": actions}.items():
        if any(isinstance(level, str) for level in levels):
            frame[name] = pd.Categorical(frame[name], categories=list(levels))
    terms = [str(term) for term in Formula(f"0 + {formula}") if str(term) not in {"0", "1"}]
    columns = list(Formula(" + ".join(["1", *terms])).get_model_matrix(frame, context=CALLABLES).columns)
    if len(columns) > width:
        columns.remove("Intercept")
    names = tuple(_friendly(column) for column in columns)
    return names if len(set(names)) == len(names) else tuple(columns)


def _friendly(column: str) -> str:
    """What people call a column of formulaic: action[T.call]:stress is action=call:stress."""
    return re.sub(r"\[(?:T\.)?(.*?)\](?=:|$)", r"=\1", column).replace("Intercept", "intercept")


def normal_term(key: str) -> str:
    """A term's name whatever the order and spacing of its factors, and in formulaic's spelling as well."""
    name = re.sub(r"\s*([-+*/^(),])\s*", r"\1", _friendly(key))
    return ":".join(sorted(part.strip() for part in name.split(":")))


def nearest_term(key: str, terms: Sequence[str]) -> tuple[str, str]:
    """A hint at the term that was meant, and that term."""
    normal_terms = {normal_term(term): term for term in terms}
    near = difflib.get_close_matches(normal_term(key), normal_terms, n=1)
    if near:
        return f"did you mean {normal_terms[near[0]]!r}?", normal_terms[near[0]]
    return f"expected one of {', '.join(map(repr, terms))}", ""


def formula_errors(formula: str, variables: list[str]) -> Iterator[str]:
    """What is wrong with a formula's words and signs: it names variables and a few functions, no code."""
    words = re.findall(r"[^\W\d]\w*|\d+(?:\.\d+)?|[-+*/:^(),\s]|.", formula)
    for word in dict.fromkeys(words):
        if word.isidentifier() and word not in (*variables, "action", *FUNCTIONS):
            hint = did_you_mean(word, [*variables, "action"])
            yield f"formula in [reward] names {word!r}, which is no variable{hint}"
    signs = [sign for sign in dict.fromkeys(words) if not re.fullmatch(r"\w+|\d+\.\d+|[-+*/:^(),\s]", sign)]
    if signs:
        yield f"formula in [reward] has {' '.join(signs)}; expected variables, numbers and + - * / : ^ ( ) ,"
    if "action" not in words:
        yield "formula in [reward] does not name action; expected it, or every action would be worth the same"
