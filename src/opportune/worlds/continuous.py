"""Linear worlds with continuous contexts: variables drawn from distributions, features computed at the moment."""

from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from opportune import checks
from opportune.algorithm.protocol import Moment, stratum_of
from opportune.algorithm.rng import VARIABLE, draw, normal
from opportune.algorithm.scores import write_moment
from opportune.engine.compiled import inner_function, step_function
from opportune.errors import InputError
from opportune.problems.continuous import ContinuousProblem
from opportune.worlds.common import HEAD, NOISE_SD, Happenings
from opportune.worlds.distributions import Distribution, Resampled, pack, quantile

Floats = NDArray[np.float64]

# After the numbers that every world has: the rows and columns of the schedule's table, and where it, theta and the
# distributions' parameters begin; then, for each variable, its column in the schedule (-1: drawn), its kind of
# distribution, the place of its parameters, and which of the moment's uniform draws is its own.
ROWS, COLUMNS, SCHEDULE, THETA, PARAMETERS = range(HEAD, HEAD + 5)
VARIABLES = HEAD + 5
COLUMN, KIND, PLACE, UNIFORM = range(4)


@inner_function
def start(world, history):  # type: ignore[no-untyped-def]
    """Contexts arrive independently: the world keeps no state of its own."""


@step_function
def write_values(world, n, values, draws, step):  # type: ignore[no-untyped-def]
    """Draw the moment's values; scheduled ones are looked up."""
    row = int(world[SCHEDULE]) + (step - 1) % int(world[ROWS]) * int(world[COLUMNS])
    for v in range(n.variables - 1):
        about = VARIABLES + 4 * v
        if world[about + COLUMN] >= 0.0:
            values[v] = world[row + int(world[about + COLUMN])]
        else:
            u = draw(draws.seed, draws.stream, step, VARIABLE + int(world[about + UNIFORM]))
            place = int(world[PARAMETERS] + world[about + PLACE])
            values[v] = quantile(int(world[about + KIND]), world, place, u)


@inner_function
def arrive(world, history, p, draws, step, arrival):  # type: ignore[no-untyped-def]
    """The moment of a step: its values and features go into the scratch."""
    n, scratch = p.sizes, p.scratch
    write_values(world, n, scratch.values, draws, step)
    write_moment(n, p.constants, scratch, scratch.values, scratch.x)
    return Moment(step, stratum_of(n, p.constants, scratch.values), 0, 0)


@inner_function
def respond(world, history, p, draws, moment, action, noise):  # type: ignore[no-untyped-def]
    """What comes of an action: reward, expected reward, that of the best action; `noise` is a uniform."""
    n, x, theta = p.sizes, p.scratch.x, int(world[THETA])
    mean = 0.0
    best = -np.inf
    for a in range(n.actions):
        value = 0.0
        for i in range(n.d):
            value += world[theta + i] * x[a * n.d + i]
        best = max(best, value)
        if a == action:
            mean = value
    return mean + world[NOISE_SD] * normal(noise), mean, best


@inner_function
def blind_value(world, p, moment, action, outcome):  # type: ignore[no-untyped-def]
    """What the patient really gets: the paper's average over contexts is for finite ones."""
    return outcome


class ContinuousWorld:
    """The truth of a problem with continuous contexts: X = <theta, phi(s, a)> + normal noise.

    Args:
        problem: what the agents know.
        theta: the true parameter, in the order of the problem's features.
        distributions: {variable: Normal, LogNormal, Uniform, Truncated or Choice}, for every variable that is neither
            scheduled nor in the table.
        table: rows of one's own data from which variables are drawn jointly, `Resampled.from_csv(...)`.
        noise_sd: the noise; the problem's unless given.
        happenings: as for LinearWorld: open_rate, response_rate, available_rate, reward_rate, reward_delay.
        name: for people.

    """

    number: ClassVar[int]
    history: ClassVar[int] = 0
    start: ClassVar[Any] = staticmethod(start)
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
        name: str = "",
        **happenings: Any,
    ) -> None:
        if not isinstance(problem, ContinuousProblem):
            raise InputError(f"problem is {checks.shown(problem)}; expected a ContinuousProblem")
        self.problem = problem
        self.theta: Floats = checks.array("theta", theta, (problem.d,))
        self.noise_sd = checks.real("noise_sd", problem.noise_sd if noise_sd is None else noise_sd, least=0.0)
        expected = "{variable: Normal, LogNormal, Uniform, Truncated or Choice}"
        given = {} if distributions is None else checks.mapping("distributions", distributions, expected)
        self.distributions: dict[str, Distribution] = given
        if table is not None and not isinstance(table, Resampled):
            raise InputError(f"table is {checks.shown(table)}; expected Resampled(...)")
        self.table = table
        self.packed = pack(problem.variables, self.distributions, table=table)
        self.happenings = Happenings.checked(happenings)
        self.name = checks.text("name of the world", name, empty=True)
        self.happenings.warn_of_theta(self.theta * problem.units, problem.theta_bound)

    def numbers(self) -> Floats:
        """The world as the flat array that the compiled step functions take."""
        schedule, packed = self.problem.schedule, self.packed
        columns = list(schedule.variables)
        rows = schedule.table(schedule.period or schedule.last_step or 1)
        about = [
            [columns.index(name) if kind < 0 else -1, kind, place, uniform]
            for name, kind, place, uniform in zip(
                self.problem.variables, packed.kinds, packed.places, packed.uniforms, strict=True
            )
        ]
        first = VARIABLES + 4 * len(about)
        places = [first, first + rows.size, first + rows.size + self.problem.d]
        return np.concatenate(
            [
                self.happenings.head(self.noise_sd), [len(rows), len(columns)], places,
                np.ravel(about), rows.ravel(), self.theta * self.problem.units, packed.parameters,
            ]
        )  # fmt: skip

    def informed_problem(self) -> ContinuousProblem:
        """What the agents know; there is nothing that only the truth could add."""
        return self.problem

    def truth_table(self) -> dict[str, tuple[tuple[str, ...], Floats]]:
        """What metrics need of the truth."""
        bounds = self.problem.value_range or (np.nan, np.nan)
        return {"value_range": (("bound",), np.array(bounds)), "theta": (("feature",), self.theta)}

    def replace(self, **changes: Any) -> "ContinuousWorld":
        """The same world with some settings changed."""
        settings: dict[str, Any] = {
            "theta": self.theta,
            "distributions": self.distributions,
            "table": self.table,
            "noise_sd": self.noise_sd,
            **self.happenings.settings(),
            "name": self.name,
            **changes,
        }
        return ContinuousWorld(settings.pop("problem", self.problem), **settings)

    def __repr__(self) -> str:
        return f"ContinuousWorld({self.name or 'unnamed'}, {self.problem!r})"
