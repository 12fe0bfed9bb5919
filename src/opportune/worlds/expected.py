"""Expected features of a world with continuous contexts, for a recommender who sees only public variables.

Features are averaged over everything except the public levels, by quadrature over only those variables that a feature
depends on: a feature of one variable costs a hundred points, not a hundred to the power of the number of variables.
"""

import itertools
import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from opportune.errors import InputError
from opportune.problems.continuous import ContinuousProblem
from opportune.problems.tables import weighted_sum
from opportune.problems.variables import DayOfStudy, Variable, levels_of
from opportune.worlds.distributions import (
    CHOICE,
    LOG_NORMAL,
    RESAMPLED,
    UNIFORM,
    Distribution,
    Packed,
    Resampled,
    pack,
)

Floats = NDArray[np.float64]

PANELS = 8
NODES_PER_PANEL = 16
REACH = 12.0
"""The number of standard deviations beyond which a normal distribution has no weight."""
MOST_POINTS = 4_000_000
CHUNK = 50_000


class Nodes(NamedTuple):
    """Points and weights, [n, variables] and [n], that approximate the joint distribution of some variables."""

    variables: tuple[int, ...]
    points: Floats
    weights: Floats


def expected_features(
    problem: ContinuousProblem, distributions: Mapping[str, Distribution], *, table: Resampled | None = None
) -> Floats:
    """E[phi(S, a) | stratum], [strata, A, d], for `ContinuousProblem(known_means=...)`.

    Args:
        problem: the problem.
        distributions: the distributions of its variables, as for `pack`; days of study are equally likely.
        table: rows to draw variables from jointly. Only rows of the stratum count, or all rows if it has none.

    """
    if problem.histories:
        names = ", ".join(map(repr, problem.histories))
        raise InputError(f"the means of {names} depend on decisions; expected a problem without known means")
    packed = pack(problem.variables, distributions, table=table)
    public = [v for v, name in enumerate(problem.variables) if name in problem.stratified]
    sizes = [len(levels_of(variable) or ()) for v, variable in enumerate(problem.variables.values()) if v in public]
    expected = np.empty((problem.strata, problem.actions, problem.d))
    for stratum, levels in enumerate(itertools.product(*(range(size) for size in sizes))):
        fixed = dict(zip(public, levels, strict=True))
        nodes = _nodes(problem, packed, fixed)
        for wanted in np.unique(problem.program.depends[:, :-1], axis=0):
            columns = np.flatnonzero((problem.program.depends[:, :-1] == wanted).all(axis=1))
            read = [part for part in nodes if wanted[list(part.variables)].any()]
            expected[stratum][:, columns] = _average(problem, fixed, read)[:, columns]
    return expected


def _average(problem: ContinuousProblem, fixed: Mapping[int, int], nodes: list[Nodes]) -> Floats:
    """The features' mean over some variables, with the others fixed: [A, d]."""
    size = math.prod(part.weights.size for part in nodes)
    if size > MOST_POINTS:
        raise InputError(
            f"a feature depends on variables that need {size} points to average over; "
            f"expected at most {MOST_POINTS}, or known_means=..."
        )
    total = np.zeros((problem.actions, problem.d))
    for begin in range(0, size, CHUNK):
        chosen = np.unravel_index(np.arange(begin, min(begin + CHUNK, size)), [p.weights.size for p in nodes] or [1])
        points = np.tile(problem.middle, (chosen[0].size, 1))
        for variable, level in fixed.items():
            points[:, variable] = level
        weights = np.ones(chosen[0].size)
        for part, rows in zip(nodes, chosen, strict=False):
            points[:, list(part.variables)] = part.points[rows]
            weights *= part.weights[rows]
        total += weighted_sum(weights, problem.features(points))
    return total


def _nodes(problem: ContinuousProblem, packed: Packed, fixed: Mapping[int, int]) -> list[Nodes]:
    """Points and weights for the distribution of every variable that is not fixed, with tables jointly."""
    nodes = []
    resampled = [v for v, kind in enumerate(packed.kinds) if kind == RESAMPLED]
    if resampled:
        nodes.append(_rows(packed, resampled, fixed))
    for v, variable in enumerate(problem.variables.values()):
        if v not in fixed and v not in resampled:
            points, weights = one_variable(packed, v, variable)
            nodes.append(Nodes((v,), points[:, None], weights))
    return nodes


def _rows(packed: Packed, variables: list[int], fixed: Mapping[int, int]) -> Nodes:
    """The rows of the table that agree with the public levels; all rows if none does."""
    columns = []
    for v in variables:
        place = int(packed.places[v])
        columns.append(packed.parameters[place + 1 : place + 1 + int(packed.parameters[place])])
    points = np.stack(columns, axis=1)
    agree = np.ones(len(points), dtype=np.bool_)
    for column, v in enumerate(variables):
        agree &= points[:, column] == fixed[v] if v in fixed else True
    points = points[agree] if agree.any() else points
    free = [column for column, v in enumerate(variables) if v not in fixed]
    weights = np.full(len(points), 1.0 / len(points))
    return Nodes(tuple(variables[column] for column in free), points[:, free], weights)


def one_variable(packed: Packed, v: int, variable: Variable) -> tuple[Floats, Floats]:
    """Points and weights for the distribution of one variable."""
    if isinstance(variable, DayOfStudy) and packed.kinds[v] < 0:
        days = np.array([variable.on(day + 1) for day in range(variable.days)])
        return days, np.full(days.size, 1.0 / days.size)
    kind, numbers = packed.kinds[v], packed.parameters[packed.places[v] :]
    if kind == CHOICE:
        n = int(numbers[0])
        return numbers[1 + n : 1 + 2 * n].copy(), np.diff(numbers[1 : 1 + n], prepend=0.0)
    if kind == UNIFORM:
        points, weights = _quadrature(numbers[0], numbers[0] + numbers[1])
        return points, weights / weights.sum()
    centre, spread, low, high = numbers[0], abs(numbers[1]), numbers[4], numbers[5]
    if kind == LOG_NORMAL:
        low, high = (math.log(low) if low > 0.0 else -math.inf), math.log(high)
    z, weights = _quadrature(max((low - centre) / spread, -REACH), min((high - centre) / spread, REACH))
    weights = weights * np.exp(-0.5 * z * z)
    points = centre + spread * z
    return np.exp(points) if kind == LOG_NORMAL else points, weights / weights.sum()


def _quadrature(low: float, high: float) -> tuple[Floats, Floats]:
    """Gauss-Legendre points and weights in each of several panels."""
    nodes, weights = np.polynomial.legendre.leggauss(NODES_PER_PANEL)
    edges = np.linspace(low, high, PANELS + 1)
    half = 0.5 * np.diff(edges)[:, None]
    return (edges[:-1, None] + half * (nodes + 1.0)).ravel(), (half * weights).ravel()
