"""A design matrix from a formula such as "pre + day", in the notation of R.

Only columns, + - * / : ** and a few functions are allowed, so that a formula cannot run code.
"""

import ast
import re
from typing import Any

import numpy as np
import pandas as pd
from formulaic import Formula, model_matrix
from formulaic.parser.algos.tokenize import tokenize
from formulaic.parser.types import Token

from opportune import checks
from opportune.errors import InputError
from opportune.inference.sandwich import Floats
from opportune.problems.grammar import LIBRARY_ERRORS, plain

FUNCTIONS = {"log": np.log, "log1p": np.log1p, "exp": np.exp, "sqrt": np.sqrt, "abs": np.abs}
TRANSFORMS = ("I", "C", "center", "scale", "poly", "bs", "cs")
"""Functions of a column that formulaic provides."""
_ALLOWED = (
    ast.Expression, ast.Name, ast.Call, ast.keyword, ast.Constant, ast.BinOp, ast.UnaryOp, ast.operator, ast.unaryop,
    ast.expr_context,
)  # fmt: skip


def design(name: str, formula: str, frame: pd.DataFrame, *, outcome: str = "") -> tuple[Floats, list[str]]:
    """The formula's columns and their names, with an intercept unless the formula begins with 0.

    Args:
        name: of the argument, for errors.
        formula: the right-hand side of a formula in R.
        frame: the rows.
        outcome: a column that the formula must not contain: controlling for it would explain the effect away.

    """
    text = checks.text(name, formula).strip().removeprefix("~")
    try:
        _refuse_missing(name, text, frame, outcome)
        found = model_matrix(f"~ {text}", frame, context=dict(FUNCTIONS), na_action="ignore")
        values = np.asarray(found, dtype=np.float64)
        names = [str(column) for column in found.columns]
    except InputError:
        raise
    except (*LIBRARY_ERRORS, AttributeError) as error:
        known = ", ".join(map(str, frame.columns[:20])) + (", ..." if len(frame.columns) > 20 else "")
        raise InputError(f"{name} {text.strip()!r} cannot be used: {plain(error)}; the columns are {known}") from None
    for column, missing in zip(names, (~np.isfinite(values)).sum(axis=0), strict=True):
        if missing:
            raise _missing(name, text, column, missing, len(values))
    if name == "moderators" and not names:
        raise InputError(f"moderators {text.strip()!r} has no column; expected '1' for the effect on average")
    return values, names


def columns_of(formula: str) -> list[str]:
    """The columns that a formula names; raises formulaic's errors, or a ValueError, if the formula is invalid."""
    text, found = formula.strip().removeprefix("~"), []
    for token in tokenize(text):
        _check(token)
        if token.kind is Token.Kind.NAME:
            found.append(token.token.strip("`"))
        elif token.kind is Token.Kind.PYTHON:
            found += re.findall(r"`([^`]*)`", token.token)
            tree = ast.parse(re.sub(r"`[^`]*`", "0", token.token), mode="eval")
            found += [node.id for node in ast.walk(tree) if isinstance(node, ast.Name)]
    Formula(f"~ {text}")
    return [name for name in dict.fromkeys(found) if name not in {*FUNCTIONS, *TRANSFORMS}]


def _refuse_missing(name: str, text: str, frame: pd.DataFrame, outcome: str) -> None:
    """Refuse the outcome, and columns with empty cells, which would silently count as the first level."""
    for column in columns_of(text):
        if column == outcome:
            raise InputError(f"{name} {text.strip()!r} contains the outcome; expected columns known beforehand")
        if column in frame.columns and (missing := int(frame[column].isna().sum())):
            raise _missing(name, text, column, missing, len(frame))


def _missing(name: str, text: str, column: str, missing: int, rows: int) -> InputError:
    return InputError(
        f"{name} {text.strip()!r}: {column} has no value in {missing} of {rows} eligible rows; expected one in each: "
        "fill in values that were known before the decision, or use another variable"
    )


def _check(token: Token) -> None:
    """Raise a ValueError for an expression that does more than arithmetic with columns."""
    if token.kind is not Token.Kind.PYTHON:
        return
    for node in ast.walk(ast.parse(re.sub(r"`[^`]*`", "column", token.token), mode="eval")):
        if not isinstance(node, _ALLOWED):
            raise ValueError(f"{token.token!r} is not allowed, expected columns, numbers and {_functions()}")
        if isinstance(node, ast.Call):
            called: Any = node.func
            if not isinstance(called, ast.Name) or called.id not in {*FUNCTIONS, *TRANSFORMS}:
                raise ValueError(f"{token.token!r} calls something other than {_functions()}")


def _functions() -> str:
    return ", ".join((*FUNCTIONS, *TRANSFORMS))
