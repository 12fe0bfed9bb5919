"""The terms of a formula under readable names: "action=call:stress", "mood=low", "intercept"."""

import itertools
import re
from collections.abc import Mapping, Sequence
from typing import Any

from opportune.problems.variables import check_variable, levels_of


def term_names(formula: str, variables: Mapping[str, Any], actions: Sequence[str]) -> tuple[str, ...]:
    """The names of a formula's features as people write them: "action=call:stress", "mood=low", "intercept".

    Each variable is a list of levels, a number with bounds, or a scheduled variable.
    """
    from opportune.problems.formula import program  # noqa: PLC0415  (slow to import)

    known = {name: check_variable(name, variable) for name, variable in variables.items()}
    levels = {name: levels_of(variable) for name, variable in known.items()}
    if None in levels.values():
        return program(formula, known, actions).names
    return _names_of_columns(formula, {name: found or () for name, found in levels.items()}, actions)


def _names_of_columns(formula: str, variables: Mapping[str, Sequence[Any]], actions: Sequence[str]) -> tuple[str, ...]:
    """The names if all variables have levels: the library's, in plain words."""
    import pandas as pd  # noqa: PLC0415  (slow to import)
    from formulaic import Formula  # noqa: PLC0415  (slow to import)

    from opportune.problems.formula import CALLABLES, design  # noqa: PLC0415  (slow to import)

    width = design(formula, variables, actions).shape[-1]  # raises if the formula is invalid
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
    """The readable name of a formulaic column: action[T.call]:stress becomes action=call:stress."""
    return re.sub(r"\[(?:T\.)?(.*?)\](?=:|$)", r"=\1", column).replace("Intercept", "intercept")


def normal_term(key: str) -> str:
    """A term's normal form for any order and spacing of its factors, and for formulaic's spelling."""
    name = re.sub(r"\s*([-+*/^(),])\s*", r"\1", _friendly(key))
    return ":".join(sorted(part.strip() for part in name.split(":")))
