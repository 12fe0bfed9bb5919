"""The tooth-brushing world (Oralytics): fitted users, two sessions a day, a message before each or none.

The behaviour of a user is in worlds.brushing.step, the fit of users in worlds.brushing.fitting; here they become worlds
for `simulate`. The sensed part of a context, `prior` and `prop`, is the user's own past.
"""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from opportune import checks
from opportune.algorithm.protocol import Moment, stratum_of
from opportune.algorithm.rng import PARAMETER, ZERO, draw
from opportune.algorithm.scores import write_moment
from opportune.engine.compiled import inner_function
from opportune.engine.declared import Declares
from opportune.engine.hooks import WORLDS
from opportune.errors import InputError
from opportune.problems.continuous import ContinuousProblem
from opportune.worlds.brushing import step
from opportune.worlds.brushing.problem import BLIND, NOISE_SD, STUDIES, THETA_BOUND, brushing_problem
from opportune.worlds.brushing.step import DAY, NAMES, PRIOR, PROP, TOD, WEEKEND, Settings, State
from opportune.worlds.common import Happenings

if TYPE_CHECKING:
    from opportune.worlds.brushing.table import BrushingTable

__all__ = ["BrushingWorld", "brushing_problem", "brushing_world"]

Floats = NDArray[np.float64]
Users = int | Sequence[int] | NDArray[np.integer[Any]] | None

EFFECTS = ("heterogeneous", "population", "small")
USERS = 10
"""Participants of the paper's experiment."""
MOST_USERS = 1_000_000

SESSIONS_PER_DAY = 2


@inner_function
def arrive(p, own, draws, now, arrival):  # type: ignore[no-untyped-def]
    """The moment of a step; its values and features go into the scratch."""
    user, n, scratch, values = own.settings, p.sizes, p.scratch, p.scratch.values
    prior, prop = step.sensed(user, own.state, now - 1)
    values[WEEKEND] = step.weekend(user, now - 1)
    values[TOD] = (now - 1) % 2
    values[PRIOR] = prior
    values[PROP] = prop
    values[DAY] = step.scaled_day(user, now - 1)
    write_moment(n, p.constants, scratch, values, scratch.x)
    return Moment(now, stratum_of(n, p.constants, values), 0, 0)


@inner_function
def respond(p, own, draws, moment, action, noise):  # type: ignore[no-untyped-def]
    """The result of an action: the reward to learn from and the seconds brushed; `noise` is a uniform."""
    x = p.scratch.x[0 : p.sizes.block].reshape((p.sizes.actions, p.sizes.d))
    zero = draw(draws.seed, draws.stream, moment.step, ZERO)
    outcome = step.outcome(own.settings, x, action, zero, noise)
    step.advance(own.state, moment.step - 1, outcome)
    return (outcome - own.settings.message_cost[0] * action) / step.CAP, outcome, np.nan


@inner_function
def blind_value(p, own, moment, action, outcome):  # type: ignore[no-untyped-def]
    """The actual outcome; the paper's average over contexts is defined only for finite ones."""
    return outcome


@WORLDS.add
class BrushingWorld:
    """One user, session by session. The outcome is seconds brushed; the reward (seconds - cost*message)/180.

    Args:
        problem: the agents' knowledge, from `brushing_problem`.
        params: the user, and the cost of a message, from `brushing.step.pack_params`.
        happenings: as for LinearWorld; an opening of the app is drawn each morning and lasts until the evening.
        user: the user's number in the study; -1 for a user made by hand.
        name: a label for tables and figures.

    """

    number: ClassVar[int]
    declares: ClassVar[Declares] = Declares(settings=Settings, state=State)
    opens_hold: ClassVar[int] = SESSIONS_PER_DAY
    arrive: ClassVar[Any] = staticmethod(arrive)
    respond: ClassVar[Any] = staticmethod(respond)
    blind_value: ClassVar[Any] = staticmethod(blind_value)

    def __init__(
        self,
        problem: ContinuousProblem,
        *,
        params: Settings,
        user: int = -1,
        name: str = "",
        **happenings: Any,
    ) -> None:
        if not isinstance(problem, ContinuousProblem) or list(problem.variables) != list(NAMES):
            raise InputError(f"problem is {checks.brief(problem)}; expected one from brushing_problem")
        self.problem = problem
        if not isinstance(params, Settings):
            raise InputError(f"params is {checks.brief(params)}; expected a user from pack_params")
        self.params = params
        if bool(params.has_day[0]) != ("day" in problem.program.names):
            raise InputError("params and problem are of different studies; only robas3 has the day among its features")
        for setting in ("family", "bounds"):
            if setting in happenings:
                raise InputError(f"{setting} is given; expected none, since users brush as they were fitted")
        self.happenings = Happenings.checked(happenings, strata=problem.strata)
        self.user = checks.whole("user", user, least=-1, most=2**31)
        self.name = checks.text("name of the world", name, empty=True)

    def extents(self) -> dict[str, int]:
        """The lengths of dimensions that its declarations name and problems lack."""
        return {}

    def numbers(self) -> dict[str, Any]:
        """The user as numbers, for the fields of the settings."""
        return self.params._asdict()

    def informed_problem(self) -> ContinuousProblem:
        """The agents' knowledge; the truth adds nothing to it."""
        return self.problem

    def truth_table(self) -> dict[str, tuple[tuple[str, ...], Any]]:
        """The user's number and the effects of a message. Regret needs a linear truth, so there is none here."""
        return {
            "user": ((), np.array(self.user)),
            **{name: ((), getattr(self.params, name)[0]) for name in ("delta_b", "delta_n", "message_cost")},
        }

    def __repr__(self) -> str:
        return f"BrushingWorld({self.name or 'unnamed'}, {self.problem!r})"


def brushing_world(
    study: str = "robas3",
    *,
    users: Users = None,
    effects: str = "heterogeneous",
    message_cost: float = 0.0,
    open_rate: float = 0.0,
    response_rate: float = 1.0,
    blind: str = "unknown",
    seed: int = 0,
    table: "BrushingTable | str | Path | None" = None,
    noise_sd: float = NOISE_SD,
    theta_bound: float = THETA_BOUND,
) -> list[BrushingWorld]:
    """The participants of a brushing study, one world each.

    Args:
        study: "robas3", the paper's experiment, or "robas2".
        users: numbers of users, or how many of the first eligible ones; by default ten. Eligible are users
            with at least 140 sessions in robas3, all in robas2 (whose users have 56).
        effects: the effects of a message. "population": Delta, the same for every user; "heterogeneous": a draw
            for each user from N(Delta, sd^2) truncated at 0; "small" (robas2 only): half the smallest
            feature mean.
        message_cost: seconds of brushing that a message must earn; lowers the reward, not the outcome.
        open_rate: the probability, each day, that the user opens the app unasked.
        response_rate: the probability that a nudge is answered.
        blind: whether the means of sensed values are "unknown" or "known" beforehand; see `brushing_problem`.
        seed: the seed of the heterogeneous effects. A user's effects depend only on (seed, user number).
        table: the fitted users, from `fit_brushing` or in a file of `save_table`; by default the shipped ones.
        noise_sd: R, as the agents believe it.
        theta_bound: W, as the agents believe it.

    """
    from opportune.worlds.brushing.table import BrushingTable, load_table  # noqa: PLC0415  (slow to import)

    checks.choice("study", study, STUDIES)
    checks.choice("effects", effects, EFFECTS)
    checks.choice("blind", blind, BLIND)
    seed = checks.whole("seed", seed, least=0, most=2**64 - 1)
    fitted = table if isinstance(table, BrushingTable) else load_table(study if table is None else table)
    if fitted.study != study:
        raise InputError(f"table is of study {fitted.study!r}; expected {study!r}, as in the argument study")
    worlds = []
    for user in _chosen_users(fitted, users):
        problem = brushing_problem(
            study,
            blind=blind,
            means=None if blind == "unknown" else np.stack([fitted.cell_prior[user], fitted.cell_prop[user]]),
            noise_sd=noise_sd,
            theta_bound=theta_bound,
        )
        delta_b, delta_n = _effects_of(fitted, user, effects, seed)
        params = step.pack_params(
            study,
            w_b=fitted.w_b[user],
            w_p=fitted.w_p[user],
            first_weekend=int(fitted.first_weekend[user]),
            delta_b=delta_b,
            delta_n=delta_n,
            message_cost=message_cost,
        )
        worlds.append(
            BrushingWorld(
                problem,
                params=params,
                open_rate=open_rate,
                response_rate=response_rate,
                user=user,
                name=f"{study} user {user}",
            )
        )
    return worlds


def _chosen_users(table: "BrushingTable", users: Users) -> list[int]:
    """The numbers of the requested users."""
    least = step.HORIZON if table.study == "robas3" else 0
    eligible = [int(user) for user in np.flatnonzero(table.sessions >= least)]
    if users is None or (isinstance(users, int | np.integer) and not isinstance(users, bool)):
        if not eligible:
            raise InputError(f"no user of the table has {least} sessions; expected users=[...] by number")
        count = min(USERS, len(eligible)) if users is None else users
        return eligible[: checks.whole("users", count, least=1, most=len(eligible))]
    given = checks.listed("users", users, "how many, or a list of user numbers", most=MOST_USERS)
    chosen = [checks.whole("users", user, least=0, most=table.users - 1) for user in given]
    if not chosen:
        raise InputError("users is empty; expected at least one user number")
    return chosen


def _effects_of(table: "BrushingTable", user: int, effects: str, seed: int) -> tuple[float, float]:
    """(Delta_B, Delta_N) of a user."""
    e = table.effects
    if effects == "population":
        return e.delta_b, e.delta_n
    if effects == "small":
        if e.small_b is None or e.small_n is None:
            raise InputError(f"effects is 'small'; {table.study} has no such effects, only robas2 does")
        return e.small_b, e.small_n
    key = np.uint64(seed)  # also for seeds above 2^63
    return (
        _truncated_normal(draw(key, user, 0, PARAMETER), e.delta_b, e.sd_b),
        _truncated_normal(draw(key, user, 1, PARAMETER), e.delta_n, e.sd_n),
    )


def _truncated_normal(u: float, mean: float, sd: float) -> float:
    """The quantile of u in [0, 1) of N(mean, sd^2) truncated at 0."""
    from scipy.special import ndtr, ndtri  # noqa: PLC0415  (slow to import, and only drawn effects need it)

    if sd == 0.0:
        return mean
    below = ndtr(-mean / sd)
    return max(0.0, float(mean + sd * ndtri(below + u * (1.0 - below))))
