"""`Program`: a formula as data that compiled code runs (`algorithm.features`), and that NumPy runs for many points."""

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opportune.algorithm import features as op
from opportune.problems.expressions import LARGEST, Operations, run

Floats = NDArray[np.float64]

GRID = 20_000
"""The approximate number of points within the bounds at which an expression is tested."""
MOST_GRID = 1_000_000
"""The most points at which an expression is tested."""


@dataclass(frozen=True)
class Column:
    """One feature: a product of atoms, each given by its operations; no atoms mean the intercept."""

    name: str
    atoms: tuple[Operations, ...]


@dataclass(frozen=True, eq=False)
class Program:
    """All features of a formula, as the arrays that `algorithm.features.write_features` reads.

    `values` below contains one number per variable (the level's number for variables with levels), and the action's
    number at the end.
    """

    names: tuple[str, ...]
    """The names of the features for readers: "action=call:stress"."""
    code: Floats
    atom_end: Floats
    factors: Floats
    shared: int
    """The number of atoms, all at the front, that do not depend on the action."""
    atoms: int
    width: int
    """The most atoms in any feature."""
    stack: int
    """The greatest depth of the stack."""
    actions: int
    depends: NDArray[np.bool_]
    """Which variables a feature depends on, the action last: [d, variables + 1]."""
    atom_operations: tuple[Operations, ...]
    tables: Mapping[int, Floats]
    """The numbers of a variable's levels, for variables with numeric levels that enter as numbers."""

    @property
    def d(self) -> int:
        """The number of features."""
        return len(self.names)

    @property
    def action_variable(self) -> int:
        """The index of the action in `values`."""
        return int(self.depends.shape[1]) - 1

    @property
    def room(self) -> int:
        """The amount of scratch space, in numbers, that `write_features` needs."""
        return self.atoms + self.stack

    def features(self, values: Any) -> Floats:
        """The features at some points: values[..., variables + 1], the last entry unread, give [..., A, d]."""
        points = np.asarray(values, dtype=np.float64)
        x = np.ones((*points.shape[:-1], self.actions, self.d))
        slots: list[Any] = [points[..., v] for v in range(self.action_variable)]
        factors = self.factors.reshape(self.d, self.width).astype(int)
        for action in range(self.actions):
            atoms = [run(operations, [*slots, float(action)], self.tables) for operations in self.atom_operations]
            for j, i in itertools.product(range(self.d), range(self.width)):
                if factors[j, i]:
                    x[..., action, j] *= atoms[factors[j, i] - 1]
        return x

    def largest(self, bounds: Mapping[int, tuple[float, float]], levels: Mapping[int, int]) -> Floats:
        """A bound on each feature's size, from the bounds and levels of all variables including the action: [d]."""
        sizes = [1.0]
        for operations in self.atom_operations:
            read = variables_of(operations)
            axes = axes_between({v: bounds[v] for v in read & set(bounds)}, {v: levels[v] for v in read & set(levels)})
            values: list[Any] = [0.0] * (self.action_variable + 1)
            for v, axis in zip(axes, np.meshgrid(*axes.values(), indexing="ij", sparse=True), strict=True):
                values[v] = axis
            sizes.append(float(np.abs(run(operations, values, self.tables)).max()))
        return np.asarray(np.array(sizes)[self.factors.reshape(self.d, self.width).astype(int)].prod(axis=1))

    def divided(self, units: Floats) -> "Program":
        """The program with each feature divided by its unit."""
        if (units == 1.0).all():
            return self
        factors = self.factors.reshape(self.d, self.width).astype(int)
        columns = []
        for name, numbers, unit in zip(self.names, factors, units.tolist(), strict=True):
            atoms = tuple(self.atom_operations[i - 1] for i in numbers if i)
            share: tuple[Operations, ...] = (((op.NUMBER, 1.0 / unit),),) if unit != 1.0 else ()
            columns.append(Column(name, atoms + share))
        return assemble(columns, variables=self.action_variable, actions=self.actions, tables=self.tables)


def assemble(columns: Sequence[Column], *, variables: int, actions: int, tables: Mapping[int, Floats]) -> Program:
    """The program for these features of `variables` variables; `tables` contains the numbers of variables' levels."""
    unique = list(dict.fromkeys(atom for column in columns for atom in column.atoms))
    ordered = sorted(unique, key=lambda atom: variables in variables_of(atom))  # stable: atoms with the action last
    number = {atom: i for i, atom in enumerate(ordered)}
    width = max(1, *(len(column.atoms) for column in columns))
    factors = np.zeros((len(columns), width))
    depends = np.zeros((len(columns), variables + 1), dtype=np.bool_)
    for j, column in enumerate(columns):
        for i, atom in enumerate(column.atoms):
            factors[j, i] = number[atom] + 1
            depends[j, list(variables_of(atom))] = True
    code, ends = _written(ordered, tables)
    return Program(
        names=tuple(column.name for column in columns),
        code=code,
        atom_end=ends,
        factors=factors.ravel(),
        shared=sum(variables not in variables_of(atom) for atom in ordered),
        atoms=len(ordered),
        width=width,
        stack=max((depth_of(atom) for atom in ordered), default=0),
        actions=actions,
        depends=depends,
        atom_operations=tuple(ordered),
        tables=dict(tables),
    )


def variables_of(operations: Operations) -> frozenset[int]:
    """The indices of the values that an atom reads."""
    return frozenset(int(argument) for operation, argument in operations if operation == op.VALUE)


def depth_of(operations: Operations) -> int:
    """The greatest depth of the stack while an atom is evaluated."""
    depth = most = 0
    for operation, _ in operations:
        depth += 1 if operation <= op.VALUE else -1 if operation >= op.ADD else 0
        most = max(most, depth)
    return most


def trouble(operations: Operations, axes: Mapping[int, Floats], numeric: frozenset[int],
            tables: Mapping[int, Floats]) -> tuple[str, dict[int, float]] | None:  # fmt: skip
    """A fault of an atom somewhere within the bounds of its variables, and its place; None if there is none.

    Args:
        operations: the atom.
        axes: the values at which each variable is tested.
        numeric: the variables that may also lie anywhere between these values.
        tables: the numbers of variables' levels.

    """
    names = sorted(variables_of(operations))
    grid = np.meshgrid(*(axes[v] for v in names), indexing="ij", sparse=True)
    shape = tuple(axis.size for axis in (axes[v] for v in names))
    values: list[Any] = [0.0] * (max(axes) + 1)
    for v, axis in zip(names, grid, strict=True):
        values[v] = axis
    between = tuple(i for i, v in enumerate(names) if v in numeric)
    changes = []

    def remember(divisor: Any) -> None:
        spread = np.broadcast_to(divisor, shape)
        crossing = (spread.min(axis=between) < 0.0) & (spread.max(axis=between) > 0.0)
        if crossing.any():
            changes.append(np.abs(spread))

    result = np.broadcast_to(run(operations, values, tables, remember), shape)
    if changes:
        return "divides by 0", _at(np.argmin(changes[0]), shape, names, axes)
    if not np.isfinite(result).all():
        return "is not finite", _at(np.argmin(np.isfinite(result)), shape, names, axes)
    if np.abs(result).max() > LARGEST:
        return f"is beyond {LARGEST:g}", _at(np.argmax(np.abs(result)), shape, names, axes)
    return None


def axes_between(bounds: Mapping[int, tuple[float, float]], levels: Mapping[int, int]) -> dict[int, Floats]:
    """The values at which variables are tested: evenly spaced between the bounds, both included, and every level."""
    room = GRID / max(1, int(np.prod([float(n) for n in levels.values()])))
    each = max(3, int(max(room, 1.0) ** (1.0 / max(1, len(bounds)))))
    axes = {v: np.linspace(low, high, each) for v, (low, high) in bounds.items()}
    if np.prod([float(axis.size) for axis in axes.values()]) > MOST_GRID:
        axes = {v: axis[[0, -1]] for v, axis in axes.items()}
    return axes | {v: np.arange(float(n)) for v, n in levels.items()}


def _written(atoms: Sequence[Operations], tables: Mapping[int, Floats]) -> tuple[Floats, Floats]:
    """(code, atom_end): the operations of all atoms, followed by the tables in which they look numbers up."""
    ends = np.cumsum([len(atom) for atom in atoms], dtype=np.float64)
    begin: dict[int, int] = {}
    after = 2 * int(ends[-1]) if atoms else 0
    for variable, table in tables.items():
        begin[variable] = after
        after += table.size
    code = [
        entry
        for atom in atoms
        for operation, argument in atom
        for entry in (operation, begin[int(argument)] if operation == op.TABLE else argument)
    ]
    return np.array([*code, *(number for table in tables.values() for number in table)], dtype=np.float64), ends


def _at(place: Any, shape: tuple[int, ...], names: Sequence[int], axes: Mapping[int, Floats]) -> dict[int, float]:
    """The values of the variables at an index of the grid."""
    index = np.unravel_index(int(place), shape)
    return {v: float(axes[v][i]) for v, i in zip(names, index, strict=True)}
