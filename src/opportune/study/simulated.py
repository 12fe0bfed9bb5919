"""The worlds of a study. Each is a participant with its own effects, baseline and first day."""

import copy
import warnings
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from opportune.algorithm.rng import PARAMETER, draw
from opportune.problems.continuous import ContinuousProblem
from opportune.problems.finite import Problem
from opportune.problems.variables import WEEKDAYS, Weekday, Weekend
from opportune.study.arrivals import baseline_of, distributions_of
from opportune.study.people import is_range
from opportune.study.rates import by_stratum
from opportune.study.timetable import begin_dates
from opportune.worlds import ContinuousWorld, LinearWorld
from opportune.worlds.common import BEYOND
from opportune.worlds.distributions import Choice

if TYPE_CHECKING:
    from opportune.study.build import Study

Floats = NDArray[np.float64]
BASELINE = 2**30 + 2
"""The purposes of draws of baseline values begin here; they differ from all purposes in `algorithm.rng`."""


def worlds_of(study: "Study") -> list[LinearWorld | ContinuousWorld]:
    """One world per instance. Instance i depends on (seed, i), and its first day on the number of instances."""
    study.require_truth()
    general = study.settings.study
    make = _continuous_world if study.continuous else _linear_world
    dates = begin_dates(study.settings, general.instances)
    worlds = []
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", message=BEYOND, category=UserWarning)  # `Study` warns once for all
        for i, date in enumerate(dates):
            draws = [float(draw(np.uint64(general.seed), i, j, PARAMETER)) for j in range(len(study.terms))]
            theta = np.array([effect.at(u) for effect, u in zip(study.effects.values(), draws, strict=True)])
            name = study.name if general.instances == 1 else f"instance {i}"
            problem = problem_beginning(study, WEEKDAYS[date.weekday()])
            worlds.append(make(study, problem, theta, name, baseline_at(study, i)))
    return worlds


def problem_beginning(study: "Study", weekday: str) -> Problem | ContinuousProblem:
    """The study's problem for a participant who begins on this weekday; each problem is built once."""
    follows = {n: v for n, v in study.variables.items() if isinstance(v, Weekday | Weekend) and v.first != weekday}
    if not follows or study.settings.participants.first_day is None:
        return study.problem
    if weekday not in study.by_weekday:
        changed = {name: type(variable)(first=weekday) for name, variable in follows.items()}
        study.by_weekday[weekday] = study.problem.replace(variables={**study.variables, **changed})
    return study.by_weekday[weekday]


def baseline_at(study: "Study", participant: int) -> dict[str, Any]:
    """The baseline of a simulated participant: levels and numbers of a range are equally likely."""
    found: dict[str, Any] = {}
    for j, (name, values) in enumerate(study.settings.participants.baseline.items()):
        u = float(draw(np.uint64(study.settings.study.seed), participant, j, BASELINE))
        found[name] = values[0] + u * (values[1] - values[0]) if is_range(values) else values[int(u * len(values))]
    return found


def happenings_of(study: "Study", problem: Any) -> dict[str, Any]:
    """The arguments of worlds that describe what happens to people."""
    world, reward = study.settings.world, study.settings.reward
    found = world.given()
    for key in world.by_level:
        found[key] = by_stratum(study, found[key], problem)
    if reward.family != "gaussian":
        found["family"] = reward.family
    if reward.bounds is not None:
        found["bounds"] = (reward.bounds[0], reward.bounds[1])
    kept = {name: table.persistence for name, table in study.settings.variables.items() if table.persistence}
    if kept:
        found["persistence"] = kept
    return found


def _continuous_world(
    study: "Study", problem: Any, theta: Floats, name: str, baseline: dict[str, Any]
) -> ContinuousWorld:
    distributions = distributions_of(study.settings)
    distributions |= {variable: Choice({baseline[variable]: 1.0}) for variable in baseline_of(study.settings)}
    return ContinuousWorld(
        problem, theta=theta, distributions=distributions, table=study.table, name=name,
        **happenings_of(study, problem),
    )  # fmt: skip


def _linear_world(study: "Study", problem: Any, theta: Floats, name: str, baseline: dict[str, Any]) -> LinearWorld:
    chances = study.probabilities
    for variable in baseline_of(study.settings):
        own = np.array([problem.levels(k)[variable] == baseline[variable] for k in range(problem.contexts)])
        chances = np.where(own, chances, 0.0)
    return LinearWorld(
        _ranged(study, problem, theta), theta=theta, context_probs=chances / chances.sum(), name=name,
        **happenings_of(study, problem),
    )  # fmt: skip


def _ranged(study: "Study", problem: Problem, theta: Floats) -> Problem:
    """The finite problem with a `value_range`, from the file or else from the truth."""
    given = study.settings.reward.value_range
    best = (problem.features @ theta).max(axis=1)
    low, high = given or (float(best.min()), float(best.max()))
    if low >= high:  # all contexts have the same value, so there is no range
        return problem
    problem = copy.copy(problem)
    problem.value_range = (low, high)
    return problem
