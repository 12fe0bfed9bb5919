"""What a formula may contain: every word is checked before the library that parses formulas sees it.

A formula may name variables and `action`, join them by + - * / : ** ^, do arithmetic (`problems.expressions`), and
treat a variable with numeric levels as categorical: C(stress).
"""

import ast
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from formulaic.errors import FormulaicError
from formulaic.parser import DefaultFormulaParser
from formulaic.parser.algos.tokenize import tokenize
from formulaic.parser.types import Token
from numpy.typing import NDArray

from opportune import checks
from opportune.algorithm import features as op
from opportune.errors import InputError
from opportune.problems import expressions
from opportune.problems.expressions import Operations
from opportune.problems.variables import Number, Variable, bounds_of, entered_as_numbers, levels_of

Floats = NDArray[np.float64]

ACTION = "action"
MOST_CHARACTERS = 2_000
MOST_WORDS = 500
MOST_TERMS = 1_000
MOST_POWER = 8
LIBRARY_ERRORS = (FormulaicError, KeyError, SyntaxError, ValueError, TypeError, ArithmeticError, RecursionError)
"""The exceptions that the library raises for input it cannot parse or evaluate."""

_OPERATORS = "+ - * / : ** ^"
_STANDARDISED = ("center", "scale")


@dataclass(frozen=True)
class CheckedFormula:
    """A formula and the variables it may name; every part of it is allowed.

    Args:
        text: the formula.
        variables: numbers with bounds, levels, or scheduled variables.
        actions: names of the actions.
        standardised: whether `center` and `scale` are allowed; their result depends on the set of contexts.

    """

    text: str
    variables: Mapping[str, Variable]
    actions: Sequence[str]
    standardised: bool = False

    def __post_init__(self) -> None:
        if ACTION in self.variables:
            raise InputError("a context variable is called 'action'; this name is reserved for the action in a formula")
        self._check()

    @property
    def levels(self) -> dict[str, tuple[Any, ...] | None]:
        """Each variable's levels, None for numbers."""
        return {name: levels_of(variable) for name, variable in self.variables.items()}

    @property
    def bounds(self) -> dict[str, Number]:
        """The bounds of the numeric variables."""
        found = {name: bounds_of(variable) for name, variable in self.variables.items()}
        return {name: bounds for name, bounds in found.items() if bounds is not None}

    @property
    def tables(self) -> dict[int, Floats]:
        """The levels of variables with levels that enter as numbers."""
        return {
            v: np.array(levels, dtype=np.float64)
            for v, levels in enumerate(self.levels.values())
            if levels is not None and entered_as_numbers(levels)
        }

    @property
    def numeric(self) -> dict[str, Operations]:
        """The operations that fetch each variable that enters as a number."""
        fetched: dict[str, Operations] = {}
        for v, (name, levels) in enumerate(self.levels.items()):
            if levels is None:
                fetched[name] = ((op.VALUE, float(v)),)
            elif v in self.tables:
                fetched[name] = ((op.VALUE, float(v)), (op.TABLE, float(v)))
        return fetched

    def refuse(self, reason: str) -> InputError:
        """The error for a formula that cannot be used."""
        known = ", ".join([*self.variables, ACTION])
        return InputError(f"formula {self.text!r} cannot be used: {reason}; its variables may be {known}")

    def _check(self) -> None:
        """Reject a formula with a part that is not allowed."""
        if not isinstance(self.text, str):
            raise InputError(f"formula is {checks.brief(self.text)}; expected text such as 'action + action:stress'")
        if len(self.text) > MOST_CHARACTERS:
            raise InputError(
                f"formula {self.text[:40] + '...'!r} has {len(self.text)} characters; "
                f"expected at most {MOST_CHARACTERS}"
            )
        if not self.text.strip():
            raise self.refuse("it is empty")
        try:
            tokens = list(tokenize(self.text))
            if len(tokens) > MOST_WORDS:
                raise ValueError(f"it has {len(tokens)} words and signs, expected at most {MOST_WORDS}")
            for before, token in zip([None, *tokens], tokens, strict=False):
                self._check_token(token, before)
            tree = DefaultFormulaParser().get_ast(f"0 + {self.text}", context={})
            terms = _count_terms(tree)
        except LIBRARY_ERRORS as error:
            raise self.refuse(plain(error)) from None
        if terms > MOST_TERMS:
            raise self.refuse(f"it has about {terms:.0e} terms, expected at most {MOST_TERMS}")

    def _check_token(self, token: Token, before: Token | None) -> None:
        """Raise a ValueError if a word or sign of the formula is not allowed."""
        text, kind = token.token, token.kind
        after_power = before is not None and before.kind is Token.Kind.OPERATOR and before.token in {"**", "^"}
        if after_power and not (text.isdecimal() and 1 <= int(text) <= MOST_POWER):
            raise ValueError(f"the power {text!r} is not a whole number from 1 to {MOST_POWER}")
        if kind is Token.Kind.OPERATOR and not re.fullmatch(r"[-+]+|\*\*?|[/:^]", text):
            raise ValueError(f"{text!r} is not allowed between terms, expected {_OPERATORS}")
        if kind is Token.Kind.CONTEXT and text not in {"(", ")"}:
            raise ValueError(f"{text!r} is not allowed, expected ( )")
        if kind is Token.Kind.VALUE and not _is_number(text):
            raise ValueError(f"{text!r} is not a number up to {expressions.LARGEST:g}")
        if kind is Token.Kind.NAME and text not in self.variables and text != ACTION:
            raise ValueError(f"`{text}` is not present among the variables")
        if kind is Token.Kind.PYTHON:
            self._check_expression(text)

    def _check_expression(self, text: str) -> None:
        """Raise a ValueError if an expression is not allowed."""
        node = expressions.parse(text)
        name = expressions.called_name(node)
        if name == "C" and name not in self.variables:
            self.categorical(text)
        elif self.standardised and name in _STANDARDISED and name not in self.variables:
            if argument_of(node) not in self.numeric:
                raise ValueError(f"{text!r} is not allowed, expected {name} of a variable whose levels are numbers")
        else:
            self.operations(text)

    def operations(self, text: str) -> Operations:
        """The operations of an expression, in which every name must be a numeric variable."""
        for node in ast.walk(expressions.parse(text)):
            if isinstance(node, ast.Name) and node.id in {*self.variables, ACTION} - set(self.numeric):
                raise ValueError(f"{text!r} computes with {node.id!r}, which is not a number")
        return expressions.compile_expression(text, self.numeric)

    def categorical(self, text: str) -> str:
        """The variable v of C(v)."""
        name = argument_of(expressions.parse(text))
        if name != ACTION and (name is None or self.levels.get(name) is None):
            raise ValueError(f"{text!r} is not allowed, expected C of a variable with levels")
        return name


def argument_of(node: ast.expr) -> str | None:
    """The name passed to a function, if that is its only argument."""
    if isinstance(node, ast.Call) and len(node.args) == 1 and not node.keywords and isinstance(node.args[0], ast.Name):
        return node.args[0].id
    return None


def plain(error: BaseException) -> str:
    """An error's first paragraph, in one line and without terminal colours."""
    text = re.sub(r"\x1b\[[0-9;]*m", "", str(error)).split("\n\n", maxsplit=1)[0]
    return " ".join(text.split()) or type(error).__name__


def _is_number(text: str) -> bool:
    return bool(re.fullmatch(r"\d+\.?\d*|\.\d+", text, re.ASCII)) and float(text) <= expressions.LARGEST


def _count_terms(tree: Any) -> float:
    """An upper estimate of the number of terms of a formula once it is expanded."""
    if tree is None or isinstance(tree, Token):
        return 1.0
    sizes = [_count_terms(part) for part in tree.args]
    symbol = tree.operator.symbol
    if symbol in {"**", "^"}:
        if not isinstance(tree.args[1], Token):
            raise ValueError("a power has a power as its exponent, expected a number")
        return float(sizes[0] ** int(tree.args[1].token))
    if symbol == "*":
        return sizes[0] + sizes[1] + sizes[0] * sizes[1]
    return sizes[0] * sizes[1] if symbol == ":" else sum(sizes)
