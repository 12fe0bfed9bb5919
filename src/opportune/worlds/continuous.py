"""Linear worlds with continuous contexts: variables are drawn from distributions, features computed at each step."""

from collections.abc import Mapping
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from opportune import checks
from opportune.algorithm.history import write_history
from opportune.algorithm.protocol import Moment, stratum_of
from opportune.algorithm.rng import STAY, VARIABLE, draw
from opportune.algorithm.scores import write_moment
from opportune.engine.compiled import inner_function, step_function
from opportune.engine.declared import WHOLE, Declares, Numbers
from opportune.engine.hooks import WORLDS
from opportune.errors import InputError
from opportune.problems.continuous import ContinuousProblem
from opportune.worlds.common import Happenings, check_persistence, true_parameter
from opportune.worlds.distributions import Distribution, Resampled, pack, quantile
from opportune.worlds.rewards import outcome_of, reward_around

Floats = NDArray[np.float64]


class Settings(NamedTuple):
    """The truth as numbers."""

    noise_sd: Annotated[Numbers, 1]
    rows: Annotated[Numbers, 1]  # the number of rows of the schedule's table
    columns: Annotated[Numbers, 1]
    schedule: Annotated[Numbers, "rows", "columns"]
    theta: Annotated[Numbers, "d"]
    column: Annotated[Numbers, "drawn"]  # each variable's column in the schedule; -1: not scheduled
    kind: Annotated[Numbers, "drawn"]  # its kind of distribution; -1: not drawn
    place: Annotated[Numbers, "drawn"]  # the start of its parameters
    uniform: Annotated[Numbers, "drawn"]  # the index of its draw among the moment's uniform draws
    persistence: Annotated[Numbers, "drawn"]  # the probability that it keeps its value
    parameters: Annotated[Numbers, "parameters"]


@step_function
def write_values(p, own, draws, step):  # type: ignore[no-untyped-def]
    """Draw the moment's values; scheduled ones are looked up."""
    truth, values = own.settings, p.scratch.values
    row = (step - 1) % int(truth.rows[0]) * int(truth.columns[0])
    for v in range(p.sizes.variables - 1):
        if truth.column[v] >= 0.0:
            values[v] = truth.schedule[row + int(truth.column[v])]
        elif truth.kind[v] >= 0.0:
            number = int(truth.uniform[v])
            u = draw(
                draws.seed, draws.stream, last_change(draws, step, number, truth.persistence[v]), VARIABLE + number
            )
            values[v] = quantile(int(truth.kind[v]), truth.parameters, int(truth.place[v]), u)


@inner_function
def last_change(draws, step, number, stays):  # type: ignore[no-untyped-def]
    """The step at which a variable last changed, up to this one."""
    while stays > 0.0 and step > 1 and draw(draws.seed, draws.stream, step, STAY + number) < stays:
        step -= 1
    return step


@inner_function
def arrive(p, own, draws, step, arrival):  # type: ignore[no-untyped-def]
    """The moment of a step; its values and features go into the scratch."""
    n, scratch = p.sizes, p.scratch
    write_values(p, own, draws, step)
    if n.histories > 0:
        write_history(n, p.constants, p.past, scratch.values, step)
    write_moment(n, p.constants, scratch, scratch.values, scratch.x)
    return Moment(step, stratum_of(n, p.constants, scratch.values), 0, 0)


@inner_function
def respond(p, own, draws, moment, action, noise):  # type: ignore[no-untyped-def]
    """The result of an action: reward, expected reward, and that of the best allowed one; `noise` is a uniform."""
    n, x, theta, sd = p.sizes, p.scratch.x, own.settings.theta, own.settings.noise_sd[0]
    masks, first = p.scratch.forbidden, WHOLE * n.actions
    mean = 0.0
    best = -np.inf
    for a in range(n.actions):
        value = 0.0
        for i in range(n.d):
            value += theta[i] * x[a * n.d + i]
        if n.masked == 0 or masks[first + a] == 0.0:
            best = max(best, value)
        if a == action:
            mean = value
    return reward_around(p, mean, sd, noise), outcome_of(p, mean, sd), outcome_of(p, best, sd)


@inner_function
def blind_value(p, own, moment, action, outcome):  # type: ignore[no-untyped-def]
    """The actual outcome; the paper's average over contexts is defined only for finite ones."""
    return outcome


@WORLDS.add
class ContinuousWorld:
    """The truth of a problem with continuous contexts: X = <theta, phi(s, a)> + noise, as for LinearWorld.

    Args:
        problem: the agents' knowledge.
        theta: the true parameter, a number for each feature or {term: effect} (`problem.terms`; others are 0).
        distributions: {variable: Normal, LogNormal, Uniform, Truncated or Choice}, for every variable that is neither
            scheduled, nor in the table, nor the participant's own history.
        table: rows of your own data from which variables are drawn jointly, `Resampled.from_csv(...)`.
        noise_sd: standard deviation of the reward's noise; by default that of the problem.
        persistence: {variable: the probability that it keeps its value from the previous decision point}; otherwise it
            is drawn again, so that its long-run distribution is the given one. The variables of a table, which are
            drawn jointly, change together.
        happenings: as for LinearWorld: open_rate, response_rate, available_rate, family, ...
        name: a label for tables and figures.

    """

    number: ClassVar[int]
    declares: ClassVar[Declares] = Declares(settings=Settings)
    arrive: ClassVar[Any] = staticmethod(arrive)
    respond: ClassVar[Any] = staticmethod(respond)
    blind_value: ClassVar[Any] = staticmethod(blind_value)

    def __init__(
        self,
        problem: ContinuousProblem,
        *,
        theta: Any,
        distributions: Mapping[str, Distribution] | None = None,
        table: Resampled | None = None,
        noise_sd: float | None = None,
        persistence: Mapping[str, float] | None = None,
        name: str = "",
        **happenings: Any,
    ) -> None:
        if not isinstance(problem, ContinuousProblem):
            raise InputError(f"problem is {checks.brief(problem)}; expected a ContinuousProblem")
        self.problem = problem
        self.theta: Floats = true_parameter(problem, theta)
        self.noise_sd = checks.real("noise_sd", problem.noise_sd if noise_sd is None else noise_sd, least=0.0)
        expected = "{variable: Normal, LogNormal, Uniform, Truncated or Choice}"
        given = {} if distributions is None else checks.mapping("distributions", distributions, expected)
        self.distributions: dict[str, Distribution] = given
        if table is not None and not isinstance(table, Resampled):
            raise InputError(f"table is {checks.brief(table)}; expected Resampled(...)")
        self.table = table
        for drawn in (*given, *(() if table is None else table.columns)):
            if drawn in problem.histories:
                raise InputError(f"{drawn!r} has a distribution; expected none, as it is the participant's own history")
        self.packed = pack(problem.variables, self.distributions, table=table)
        self.persistence = check_persistence(
            persistence, problem.variables, {**problem.schedule.variables, **problem.histories}
        )
        if table is not None and len({self.persistence.get(name, 0.0) for name in table.columns}) > 1:
            raise InputError("persistence differs between variables of the table; expected one value, as rows persist")
        self.happenings = Happenings.checked(happenings, strata=problem.strata)
        self.name = checks.text("name of the world", name, empty=True)
        self.happenings.warn_of_theta(self.theta * problem.units, problem.theta_bound)

    def extents(self) -> dict[str, int]:
        """The lengths of dimensions that its declarations name and problems lack."""
        rows, columns = self._schedule.shape
        return {
            "rows": rows, "columns": columns, "drawn": len(self.problem.variables),
            "parameters": self.packed.parameters.size,
        }  # fmt: skip

    def numbers(self) -> dict[str, Any]:
        """The truth as numbers, for the fields of its settings."""
        packed, scheduled = self.packed, list(self.problem.schedule.variables)
        rows, columns = self._schedule.shape
        return {
            "noise_sd": self.noise_sd,
            "rows": rows,
            "columns": columns,
            "schedule": self._schedule,
            "theta": self.theta * self.problem.units,
            "column": [
                scheduled.index(name) if kind < 0 and name in scheduled else -1
                for name, kind in zip(self.problem.variables, packed.kinds, strict=True)
            ],
            "kind": packed.kinds,
            "place": packed.places,
            "uniform": packed.uniforms,
            "persistence": [self.persistence.get(name, 0.0) for name in self.problem.variables],
            "parameters": packed.parameters,
        }

    @property
    def _schedule(self) -> Floats:
        """The values of scheduled variables at each step of their period."""
        schedule = self.problem.schedule
        rows: Floats = schedule.table(schedule.period or schedule.last_step or 1)
        return rows

    def informed_problem(self) -> ContinuousProblem:
        """The agents' knowledge; the truth adds nothing to it."""
        return self.problem

    def truth_table(self) -> dict[str, tuple[tuple[str, ...], Floats]]:
        """The truth that metrics need."""
        bounds = self.problem.value_range or (np.nan, np.nan)
        return {
            **self.happenings.truth_table(),
            "value_range": (("bound",), np.array(bounds)),
            "theta": (("feature",), self.theta),
        }

    def replace(self, **changes: Any) -> "ContinuousWorld":
        """A copy with some settings changed."""
        settings: dict[str, Any] = {
            "theta": self.theta,
            "distributions": self.distributions,
            "table": self.table,
            "noise_sd": self.noise_sd,
            "persistence": self.persistence,
            **self.happenings.settings(),
            "name": self.name,
            **changes,
        }
        return ContinuousWorld(settings.pop("problem", self.problem), **settings)

    def __repr__(self) -> str:
        return f"ContinuousWorld({self.name or 'unnamed'}, {self.problem!r})"
