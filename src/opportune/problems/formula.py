"""Feature vectors from a formula, in the language that users of R and statsmodels know (library formulaic)."""

import itertools
import re
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pandas as pd
from formulaic import Formula
from formulaic.errors import FormulaicError
from numpy.typing import NDArray

from opportune.errors import InputError


def design(formula: str, variables: Mapping[str, Sequence[Any]], actions: Sequence[str]) -> NDArray[np.float64]:
    """phi[K, A, d]: one row of the formula's model matrix for every context and action.

    `action` is categorical with the first action as reference. Other variables enter as numbers if all their
    levels are numbers, else by their levels, the first again as reference.
    """
    if "action" in variables:
        raise InputError("a context variable is called 'action'; that name stands for the action in a formula")
    contexts = list(itertools.product(*variables.values()))
    table: dict[str, Any] = {
        name: [context[i] for context in contexts for _ in actions] for i, name in enumerate(variables)
    }
    table["action"] = pd.Categorical([a for _ in contexts for a in actions], categories=list(actions))
    for name, levels in variables.items():
        if not all(isinstance(level, int | float) for level in levels):
            table[name] = pd.Categorical([str(v) for v in table[name]], categories=[str(v) for v in levels])
    frame = pd.DataFrame(table)
    try:
        spec = Formula(formula if _has_intercept_term(formula) else f"0 + {formula}")
        matrix = _reduced(spec, frame)
    except (FormulaicError, KeyError, SyntaxError, ValueError, TypeError) as error:
        known = ", ".join([*variables, "action"])
        raise InputError(f"formula {formula!r} cannot be used: {_plain(error)}; its variables may be {known}") from None
    return matrix.reshape(len(contexts), len(actions), -1)


def _has_intercept_term(formula: str) -> bool:
    terms = [term.strip() for term in formula.replace("-", "+").split("+")]
    return "0" in terms or "1" in terms


def _reduced(spec: Formula, frame: pd.DataFrame) -> NDArray[np.float64]:
    """The model matrix with every categorical coded against its first level, intercept or not.

    A formula without intercept would get a column for every level of its first categorical; the reference level
    is dropped here as well, as the paper's features do.
    """
    with_intercept = Formula("1 + " + " + ".join(str(term) for term in spec if str(term) not in {"0", "1"}))
    matrix = with_intercept.get_model_matrix(frame, na_action="ignore")
    values = np.asarray(matrix, dtype=np.float64)
    keep = [i for i, name in enumerate(matrix.columns) if name != "Intercept"]
    if any(str(term) == "1" for term in spec):
        return values
    return values[:, keep]


def _plain(error: Exception) -> str:
    """An error's text without the colours that a terminal would show."""
    return re.sub(r"\x1b\[[0-9;]*m", "", str(error))
