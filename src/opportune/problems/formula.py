"""Feature vectors from a formula, in the language that users of R and statsmodels know (library formulaic).

The library decides which columns exist and how variables with levels are coded. `design` computes the columns for
finitely many contexts; `program` returns a program that computes them at each decision.
"""

import itertools
from collections.abc import Mapping, Sequence
from typing import Any, Literal

import numpy as np
import pandas as pd
from formulaic import Formula
from formulaic.parser.types import Factor, Term
from numpy.typing import NDArray

from opportune import checks
from opportune.algorithm import features as op
from opportune.problems import expressions
from opportune.problems.expressions import Operations
from opportune.problems.grammar import ACTION, LIBRARY_ERRORS, CheckedFormula, plain
from opportune.problems.program import MOST_GRID, Column, Program, assemble, axes_between, trouble, variables_of
from opportune.problems.variables import Variable, entered_as_numbers

Floats = NDArray[np.float64]
Order = Literal["degree", "written"]

ORDERS = ("degree", "written")
MOST_FEATURES = 10_000
TRIED_POINTS = 64
TOLERANCE = 1e-12
"""How far a program may differ from the library, relative to a feature's largest value."""

CALLABLES: dict[str, Any] = {"log": np.log, "log1p": np.log1p, "exp": np.exp, "sqrt": np.sqrt, "abs": np.abs}
"""The functions that a formula may apply to a number."""


MOST_KEPT = 64
_PROGRAMS: dict[str, Program] = {}
"""Cached programs: all participants of a study share one."""


def design(formula: str, variables: Mapping[str, Sequence[Any]], actions: Sequence[str]) -> Floats:
    """phi[K, A, d]: one row of the formula's model matrix for each context and action.

    `action` is categorical with the first action as reference. Other variables enter as numbers if all their
    levels are numbers, else by their levels, the first again as reference.
    """
    levels = {name: tuple(values) for name, values in variables.items()}
    checked = CheckedFormula(formula, levels, actions, standardised=True)
    contexts = [dict(zip(levels, context, strict=True)) for context in itertools.product(*levels.values())]
    matrix = _ModelMatrix(checked, contexts)
    return matrix.values.reshape(len(contexts), len(actions), -1)


def program(
    formula: str, variables: Mapping[str, Variable], actions: Sequence[str], *, order: Order = "degree"
) -> Program:
    """The formula's features as a program over the variables, in their order, and the action.

    Args:
        formula: as for `design`; the features are the same, in the same order.
        variables: numbers with bounds, levels, or scheduled variables.
        actions: names of the actions.
        order: of the features: "degree" has main effects before interactions, as R does; "written" has the terms as
            the formula names them.

    """
    checks.choice("order", order, ORDERS)
    given = formula if isinstance(formula, str) else ""  # other types are rejected below, with their value
    key = repr((given, order, tuple(actions), tuple(variables.items())))  # repr tells 1, 1.0 and True apart
    if key not in _PROGRAMS:
        if len(_PROGRAMS) >= MOST_KEPT:
            _PROGRAMS.clear()
        _PROGRAMS[key] = _new_program(formula, variables, actions, order)
    return _PROGRAMS[key]


def _new_program(formula: str, variables: Mapping[str, Variable], actions: Sequence[str], order: Order) -> Program:
    checked = CheckedFormula(formula, variables, actions)
    matrix = _ModelMatrix(checked, _covering(checked))
    columns = matrix.columns()
    sizes = {"variables": len(variables), "actions": len(actions)}
    made = assemble([column for _, column in columns], tables=checked.tables, **sizes)
    _check_values(checked, made)
    _compare(matrix, made)
    if order == "degree":
        return made
    written = [str(term) for term in Formula(f"0 + {formula}", _ordering="none")]
    columns.sort(key=lambda pair: written.index(str(pair[0])))
    return assemble([column for _, column in columns], tables=checked.tables, **sizes)


class _ModelMatrix:
    """The library's model matrix of a formula at some points, for every action, points slowest.

    Like the paper's features, every variable with levels is coded against its first level. The library therefore always
    gets an intercept; without one it would code one of the variables by all its levels.
    """

    def __init__(self, formula: CheckedFormula, points: Sequence[Mapping[str, Any]]) -> None:
        self.formula = formula
        try:
            spec = Formula(f"0 + {formula.text}")
            self.terms = [term for term in spec if not _is_intercept(term)]
            self.intercept = len(self.terms) < len(spec)
            self._check_size()
            whole = Formula([Term([Factor("1", eval_method="literal")]), *self.terms])
            with np.errstate(all="ignore"):  # values that are not finite are rejected later, with their place
                self.matrix = whole.get_model_matrix(self._frame(points), na_action="ignore", context=CALLABLES)
        except LIBRARY_ERRORS as error:
            raise formula.refuse(plain(error)) from None

    @property
    def values(self) -> Floats:
        """The features at the points: [points * actions, d]."""
        return self._without_intercept(self.matrix)

    def at(self, points: Sequence[Mapping[str, Any]]) -> Floats:
        """The features at other points, coded in the same way."""
        try:
            matrix = self.matrix.model_spec.get_model_matrix(self._frame(points), context=CALLABLES)
        except LIBRARY_ERRORS as error:
            raise self.formula.refuse(plain(error)) from None
        return self._without_intercept(matrix)

    def columns(self) -> list[tuple[Term, Column]]:
        """The features in the library's order and coding: each is a product of atoms, with the term it belongs to."""
        found = []
        for entry in self.matrix.model_spec.structure:
            if _is_intercept(entry.term) and not self.intercept:
                continue
            for scoped in entry.scoped_terms:
                scale: tuple[Operations, ...] = ()
                if scoped.scale != 1:
                    scale = (((op.NUMBER, float(scoped.scale)),),)
                choices = [self._choices(factor.factor.factor, factor.reduced) for factor in scoped.factors]
                for reverse in itertools.product(*reversed(choices)):
                    names, atoms = zip(*reverse[::-1], strict=True) if reverse else ((), ())
                    found.append((entry.term, Column(":".join(names) or "intercept", (*scale, *atoms))))
        if not found:
            raise self.formula.refuse("it has no features")
        return found

    def _frame(self, points: Sequence[Mapping[str, Any]]) -> pd.DataFrame:
        """The points as a data frame for the library."""
        actions = list(self.formula.actions)
        table: dict[str, Any] = {}
        for name, levels in self.formula.levels.items():
            column = [point[name] for point in points for _ in actions]
            if levels is None or entered_as_numbers(levels):
                table[name] = np.array(column, dtype=np.float64)
            else:
                table[name] = pd.Categorical([str(v) for v in column], categories=[str(v) for v in levels])
        table[ACTION] = pd.Categorical(actions * len(points), categories=actions)
        return pd.DataFrame(table)

    def _without_intercept(self, matrix: Any) -> Floats:
        """The matrix's columns; the intercept only if the formula asks for it."""
        keep = [i for i, name in enumerate(matrix.columns) if self.intercept or name != "Intercept"]
        return np.asarray(matrix, dtype=np.float64)[:, keep]

    def _check_size(self) -> None:
        if not self.terms and not self.intercept:
            raise ValueError("it has no terms")
        sizes = [[len(self._coding(factor)[1] or [0]) for factor in term.factors] for term in self.terms]
        total = sum(float(np.prod([float(n) for n in size])) for size in sizes)
        if total > MOST_FEATURES:
            raise ValueError(f"it has up to {total:.0f} features, expected at most {MOST_FEATURES}")

    def _coding(self, factor: Factor) -> tuple[int, list[Any] | None]:
        """(variable, its levels in column order) of a factor that enters by levels, else (-1, None)."""
        name, formula = factor.expr, self.formula
        if factor.eval_method is Factor.EvalMethod.PYTHON:
            if expressions.called_name(expressions.parse(name)) != "C":
                return -1, None
            name = formula.categorical(name)
        elif factor.eval_method is not Factor.EvalMethod.LOOKUP or name in formula.numeric:
            return -1, None
        if name == ACTION:
            return len(formula.levels), list(formula.actions)
        levels = list(formula.levels[name] or ())
        return list(formula.levels).index(name), sorted(levels) if name in formula.numeric else levels

    def _choices(self, factor: Factor, reduced: bool) -> list[tuple[str, Operations]]:
        """The columns of one factor: (name, operations) each."""
        formula = self.formula
        variable, levels = self._coding(factor)
        if levels is None and factor.eval_method is Factor.EvalMethod.LOOKUP:
            return [(factor.expr, formula.numeric[factor.expr])]
        if levels is None:
            return [(factor.expr, formula.operations(factor.expr))]
        own = [*(formula.levels.values()), tuple(formula.actions)][variable] or ()
        return [
            (f"{factor.expr}={level}", ((op.VALUE, float(variable)), (op.EQUALS, float(own.index(level)))))
            for level in levels[1 if reduced else 0 :]
        ]


def _covering(formula: CheckedFormula) -> list[dict[str, Any]]:
    """The fewest points that together contain every level of every variable."""
    most = max([2, *(len(levels) for levels in formula.levels.values() if levels is not None)])
    return [
        {
            name: formula.bounds[name].middle if levels is None else levels[i % len(levels)]
            for name, levels in formula.levels.items()
        }
        for i in range(most)
    ]


def _check_values(formula: CheckedFormula, made: Program) -> None:
    """Reject a formula with an expression that is not finite somewhere within the bounds."""
    names = list(formula.levels)
    for atom in made.atom_operations:
        read = variables_of(atom)
        if not read or atom[-1][0] == op.EQUALS:
            continue
        bounds = {v: formula.bounds[names[v]] for v in read if names[v] in formula.bounds}
        sizes = {v: len(formula.levels[names[v]] or ()) for v in read - set(bounds)}
        axes = axes_between({v: (b.low, b.high) for v, b in bounds.items()}, sizes)
        points = np.prod([float(axis.size) for axis in axes.values()])
        if points > MOST_GRID:
            raise formula.refuse(
                f"{_text_of(formula, atom)!r} computes with variables that have {points:.0e} combinations of bounds "
                f"and levels, expected at most {MOST_GRID:.0e}"
            )
        wrong = trouble(atom, axes, frozenset(bounds), made.tables)
        if wrong is None:
            continue
        what, where = wrong
        place = ", ".join(f"{names[v]} = {made.tables[v][int(x)] if v in sizes else x:g}" for v, x in where.items())
        hint = ""
        if any(operation == op.LOG for operation, _ in atom):
            hint = ", while log1p(x) = log(1 + x) is finite at x = 0"
        raise formula.refuse(f"{_text_of(formula, atom)!r} {what} at or near {place}{hint}")


def _text_of(formula: CheckedFormula, atom: Operations) -> str:
    """The part of the formula that an atom comes from."""
    for term in Formula(f"0 + {formula.text}"):
        for factor in term.factors:
            is_expression = factor.eval_method is Factor.EvalMethod.PYTHON and factor.expr[:2] != "C("
            if atom == (formula.operations(factor.expr) if is_expression else formula.numeric.get(factor.expr)):
                return str(factor.expr)
    return formula.text


def _compare(matrix: _ModelMatrix, made: Program) -> None:
    """Reject a formula whose program disagrees with the library at random points within the bounds."""
    random = np.random.default_rng(1)
    formula = matrix.formula
    points: list[dict[str, Any]] = [{} for _ in range(TRIED_POINTS)]
    values = np.zeros((TRIED_POINTS, len(formula.levels) + 1))
    for v, (name, levels) in enumerate(formula.levels.items()):
        if levels is None:
            bounds = formula.bounds[name]
            values[:, v] = random.uniform(bounds.low, bounds.high, TRIED_POINTS)
        else:
            values[:, v] = random.integers(len(levels), size=TRIED_POINTS)
        for point, value in zip(points, values[:, v], strict=True):
            point[name] = value if levels is None else levels[int(value)]
    theirs = matrix.at(points)
    ours = made.features(values).reshape(len(theirs), -1)
    if ours.shape != theirs.shape or (np.abs(ours - theirs) > TOLERANCE * np.abs(theirs).max(axis=0)).any():
        raise formula.refuse("its features could not be computed reliably")


def _is_intercept(term: Term) -> bool:
    return len(term.factors) == 1 and term.factors[0].eval_method is Factor.EvalMethod.LITERAL
