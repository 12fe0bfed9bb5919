"""A sample of participants' moments, from which `check` computes shares.

A finite set of contexts is included completely, with probabilities; other contexts are drawn. Variables from a person's
own past are set to the middle of their range, because no decisions exist yet.
"""

from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

from opportune.engine.declared import PUBLIC_PART, SENSED_PART, WHOLE
from opportune.problems.continuous import ContinuousProblem
from opportune.problems.finite import Problem
from opportune.problems.variables import levels_of
from opportune.study.arrivals import distributions_of
from opportune.worlds.distributions import RESAMPLED, pack
from opportune.worlds.expected import one_variable

if TYPE_CHECKING:
    from opportune.study.build import Study

Floats = NDArray[np.float64]
DRAWS = 20_000
SEED = 1


class Sample(NamedTuple):
    """Moments with weights that sum to 1."""

    weights: Floats
    features: Floats
    """Features, [moment, action, term]."""
    forbidden: dict[int, NDArray[np.bool_]]
    """Whether actions are forbidden, [moment, action], for each view of a moment (`engine.declared`)."""
    levels: dict[str, NDArray[np.int64]]
    """Level numbers of each variable with levels, [moment]."""


def sample_of(study: "Study") -> Sample:
    """Sample the moments of a study."""
    problem = study.problem
    return _contexts(study, problem) if isinstance(problem, Problem) else _drawn(study, problem)


def _contexts(study: "Study", problem: Problem) -> Sample:
    """All contexts of a finite problem."""
    sizes = {name: levels_of(variable) or () for name, variable in problem.variables.items()}
    numbers = np.unravel_index(np.arange(problem.contexts), [len(levels) for levels in sizes.values()])
    masks = problem.masks
    rows = {
        PUBLIC_PART: masks.public[problem.stratum_of],
        SENSED_PART: masks.sensed[problem.sense_of],
        WHOLE: masks.whole,
    }
    return Sample(study.probabilities, problem.features, rows, dict(zip(sizes, numbers, strict=True)))


def _drawn(study: "Study", problem: ContinuousProblem) -> Sample:
    """Draw moments: decision points are equally likely, variables independent, and rows of a table stay together."""
    rng = np.random.default_rng(SEED)
    values = np.tile(problem.middle, (DRAWS, 1)).astype(np.float64)
    names = list(problem.variables)
    schedule = problem.schedule
    if schedule.variables:
        table = schedule.table(study.settings.study.horizon)
        rows = table[rng.integers(len(table), size=DRAWS)]
        for column, name in enumerate(schedule.variables):
            values[:, names.index(name)] = rows[:, column]
    packed = pack(problem.variables, distributions_of(study.settings), table=study.table)
    drawn = rng.integers(2**31, size=DRAWS)
    for v, variable in enumerate(problem.variables.values()):
        if packed.kinds[v] == RESAMPLED:
            found = packed.parameters[packed.places[v] + 1 :][: int(packed.parameters[packed.places[v]])]
            values[:, v] = found[drawn % found.size]
        elif packed.kinds[v] >= 0:
            points, weights = one_variable(packed, v, variable)
            values[:, v] = rng.choice(points, size=DRAWS, p=weights / weights.sum())
    forbidden = {view: problem.conditions.forbidden(values, view) for view in (PUBLIC_PART, SENSED_PART, WHOLE)}
    levels = {
        name: values[:, v].astype(np.int64)
        for v, (name, variable) in enumerate(problem.variables.items())
        if levels_of(variable) is not None
    }
    return Sample(np.full(DRAWS, 1.0 / DRAWS), problem.features(values), forbidden, levels)
