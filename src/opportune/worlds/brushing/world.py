"""The tooth-brushing world (Oralytics): fitted users, two sessions a day, a message before each or none.

What a user does is in worlds.brushing_step, where users come from in worlds.fitting; here they become worlds
for `simulate`. Contexts are not a finite set: the sensed part, `prior` and `prop`, is the user's own past.
"""

import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from opportune import checks
from opportune.core.layout import KNOWN, PLUGIN, Layout, laid_out, layout
from opportune.core.rng import PARAMETER, draw
from opportune.errors import InputError
from opportune.worlds.brushing import step
from opportune.worlds.brushing.data import BrushingData, load_robas2, load_robas3
from opportune.worlds.brushing.fitting import BrushingTable, fit_brushing, load_table, save_table
from opportune.worlds.step import BRUSHING

__all__ = [
    "BrushingData", "BrushingProblem", "BrushingTable", "BrushingWorld", "brushing_world", "fit_brushing",
    "load_robas2", "load_robas3", "load_table", "save_table",
]  # fmt: skip

Floats = NDArray[np.float64]
Users = int | Sequence[int] | NDArray[np.integer[Any]] | None

STUDIES = tuple(step.SCALES)
EFFECTS = ("heterogeneous", "population", "small")
BLIND = ("unknown", "known")
USERS = 10
"""Participants of the paper's experiment."""
CELLS = 4
"""Public cells: tod + 2*weekend."""
NOISE_SD = 0.5
"""R. Rewards Q/180 lie in [0, 1]: whatever its law, such a variable is sub-Gaussian with scale 1/2."""
THETA_BOUND = 1.0
"""W. The best linear fit of Q/180 on phi has a norm from 0.37 to 0.81 for every shipped user."""


class BrushingProblem:
    """What the agents know beforehand about a user: phi = [g; a*h], who sees what, bounds.

    Args:
        study: "robas2" or "robas3", which has the day among its features.
        blind: how the recommender fills in `prior` and `prop` without a reveal: "unknown" takes running means
            of what the agent has seen in the public cell, 0 before any; "known" takes `cell_means`.
        cell_means: E[prior | cell] and E[prop | cell], [2, 4]; needed where blind is "known".
        noise_sd: sub-Gaussian scale R of the reward's noise.
        theta_bound: W, a bound on the norm of the linear fit.
        delta: the confidence sets hold with probability 1 - delta.
        regularisation: lam; 1/W^2 unless given.

    """

    actions: ClassVar[int] = 2
    action_names: ClassVar[tuple[str, ...]] = ("no message", "message")
    cells: ClassVar[int] = CELLS
    corners: ClassVar[int] = 8  # prior and prop each at the low or high end, for both actions
    value_range: ClassVar[tuple[float, float]] = (0.0, 1.0)  # with a cost too: not sending is free
    least_distance: ClassVar[float] = 1.0  # Dmin: messages differ by a*h, and h has a 1 for the bias
    largest_gap: ClassVar[float | None] = None  # scale `gap` needs a linear truth
    reported: ClassVar[bool] = False

    def __init__(
        self,
        study: str,
        *,
        blind: str = "unknown",
        cell_means: Any = None,
        noise_sd: float = NOISE_SD,
        theta_bound: float = THETA_BOUND,
        delta: float = 0.05,
        regularisation: float | None = None,
    ) -> None:
        self.study = checks.choice("study", study, STUDIES)
        self.blind = checks.choice("blind", blind, BLIND)
        self.features = step.feature_names(self.study)
        self.hidden = step.hidden_mask(self.study)
        self.d = int(self.hidden.size)
        self.support = self.d
        if self.blind == "known" and cell_means is None:
            raise InputError("blind is 'known' without cell_means; expected means of prior and prop, [2, 4]")
        self.cell_means: Floats | None = None
        if cell_means is not None:
            self.cell_means = checks.array("cell_means", cell_means, (2, CELLS))
        self.noise_sd = checks.real("noise_sd", noise_sd, above=0.0)
        self.theta_bound = checks.real("theta_bound", theta_bound, above=0.0)
        self.delta = checks.real("delta", delta, above=0.0, below=1.0)
        lam = 1.0 / self.theta_bound**2 if regularisation is None else regularisation
        self.regularisation = checks.real("regularisation", lam, above=0.0)

    def layout(self, *, optimistic: bool = False, **form: Any) -> Layout:
        """Where the compiled step functions find things; rule_for refuses policies that are `optimistic`."""
        probabilities = KNOWN if self.blind == "known" else PLUGIN
        return layout(
            d=self.d, actions=self.actions, contexts=0, cells=self.cells, corners=self.corners,
            probabilities=probabilities, **form,
        )  # fmt: skip

    def facts(self, at: Layout, horizon: int) -> Floats:
        """What both agents know beforehand, as the flat array that the compiled step functions take."""
        head = [
            self.noise_sd, self.regularisation, math.sqrt(self.regularisation) * self.theta_bound,
            2.0 * math.log(1.0 / self.delta), self.delta, horizon,
        ]  # fmt: skip
        return laid_out(at.facts_size, [(0, head), (at.start, self.blind_start().ravel()), (at.hidden, self.hidden)])

    def blind_start(self) -> Floats:
        """Blind features before anything is counted, for good if known: [cells, A, d], hidden entries."""
        start = np.zeros((self.cells, self.actions, self.d))
        if self.blind == "known" and self.cell_means is not None:
            h = [name for name in self.features if name != "prop"]
            for name, means in zip(("prior", "prop"), self.cell_means, strict=True):
                start[:, :, self.features.index(name)] = means[:, None]
            start[:, 1, len(self.features) + h.index("prior")] = self.cell_means[0]
        return start

    def __repr__(self) -> str:
        return f"BrushingProblem({self.study}, blind features {self.blind}, d={self.d})"


class BrushingWorld:
    """One user, session by session. The outcome is seconds brushed; the reward (seconds - cost*message)/180.

    Args:
        problem: what the agents know.
        params: the user, as `brushing_step.pack_params` gives it.
        message_cost: seconds of brushing that a message must earn.
        open_rate: how probable it is that the user opens the app unasked; drawn each morning, and an opening
            holds for the evening.
        response_rate: how probable it is that a nudge is answered.
        user: the user's number in the study; -1 for one made by hand.
        name: for people.

    """

    kind: ClassVar[int] = BRUSHING
    history: ClassVar[int] = step.STATE_SIZE

    def __init__(
        self,
        problem: BrushingProblem,
        *,
        params: Any,
        message_cost: float = 0.0,
        open_rate: float = 0.0,
        response_rate: float = 1.0,
        user: int = -1,
        name: str = "",
    ) -> None:
        if not isinstance(problem, BrushingProblem):
            raise InputError(f"problem is {type(problem).__name__}; expected a BrushingProblem")
        self.problem = problem
        self.params: Floats = checks.array("params", params, (step.PARAMS_SIZE,))
        if bool(self.params[step.HAS_DAY]) != ("day" in problem.features):
            raise InputError(f"params is not of study {problem.study!r}, as the problem is: only robas3 has days")
        self.message_cost = checks.real("message_cost", message_cost, least=0.0)
        self.open_rate = checks.real("open_rate", open_rate, least=0.0, most=1.0)
        self.response_rate = checks.real("response_rate", response_rate, least=0.0, most=1.0)
        self.user = checks.whole("user", user, least=-1)
        self.name = name

    def numbers(self) -> Floats:
        """The world as the flat array that the compiled step functions take."""
        opens_daily = 1.0
        head = [0.0, self.open_rate, opens_daily, self.response_rate, self.message_cost]
        return np.concatenate([head, self.params])

    def informed_problem(self) -> BrushingProblem:
        """What the agents know; there is nothing that only the truth could add."""
        return self.problem

    def truth_table(self) -> dict[str, tuple[tuple[str, ...], Any]]:
        """Who the user is and what a message does. Regret needs a linear truth, so there is none here."""
        return {
            "user": ((), np.array(self.user)),
            "delta_b": ((), self.params[step.DELTA_B]),
            "delta_n": ((), self.params[step.DELTA_N]),
            "message_cost": ((), np.array(self.message_cost)),
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
    table: BrushingTable | str | Path | None = None,
    noise_sd: float = NOISE_SD,
    theta_bound: float = THETA_BOUND,
) -> list[BrushingWorld]:
    """The participants of a brushing study, a world each.

    Args:
        study: "robas3", the paper's experiment, or "robas2".
        users: numbers of users, or how many of the first eligible ones; ten unless given. Eligible are users
            with at least 140 sessions in robas3, all in robas2 (whose users have 56).
        effects: what a message does. "population": Delta, the same for every user; "heterogeneous": a draw
            for each user from N(Delta, sd^2) truncated at 0; "small" (robas2 only): half the smallest
            feature mean.
        message_cost: seconds of brushing that a message must earn; lowers the reward, not the outcome.
        open_rate: how probable it is, each day, that the user opens the app unasked.
        response_rate: how probable it is that a nudge is answered.
        blind: whether the means of what is sensed are "unknown" or "known" beforehand; see BrushingProblem.
        seed: of the heterogeneous effects. A user's effects depend on (seed, user number) alone.
        table: the fitted users, as `fit_brushing` gives them or in a file of `save_table`; the shipped ones
            unless given.
        noise_sd: R, as the agents believe it.
        theta_bound: W, as the agents believe it.

    """
    checks.choice("study", study, STUDIES)
    checks.choice("effects", effects, EFFECTS)
    seed = checks.whole("seed", seed, least=0, most=2**64 - 1)
    fitted = table if isinstance(table, BrushingTable) else load_table(study if table is None else table)
    if fitted.study != study:
        raise InputError(f"table is of study {fitted.study!r}; expected {study!r}, as study says")
    worlds = []
    for user in _chosen_users(fitted, users):
        problem = BrushingProblem(
            study,
            blind=blind,
            cell_means=np.stack([fitted.cell_prior[user], fitted.cell_prop[user]]),
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
        )
        worlds.append(
            BrushingWorld(
                problem,
                params=params,
                message_cost=message_cost,
                open_rate=open_rate,
                response_rate=response_rate,
                user=user,
                name=f"{study} user {user}",
            )
        )
    return worlds


def _chosen_users(table: BrushingTable, users: Users) -> list[int]:
    """The numbers of the users asked for."""
    least = step.HORIZON if table.study == "robas3" else 0
    eligible = [int(user) for user in np.flatnonzero(table.sessions >= least)]
    if users is None or isinstance(users, int | np.integer):
        if not eligible:
            raise InputError(f"no user of the table has {least} sessions; expected users=[...] by number")
        count = min(USERS, len(eligible)) if users is None else users
        return eligible[: checks.whole("users", count, least=1, most=len(eligible))]
    if isinstance(users, str) or not hasattr(users, "__iter__"):
        raise InputError(f"users is {users!r}; expected how many, or a list of user numbers")
    chosen = [checks.whole("users", user, least=0, most=table.users - 1) for user in users]
    if not chosen:
        raise InputError("users is empty; expected at least one user number")
    return chosen


def _effects_of(table: BrushingTable, user: int, effects: str, seed: int) -> tuple[float, float]:
    """(Delta_B, Delta_N) of a user."""
    e = table.effects
    if effects == "population":
        return e.delta_b, e.delta_n
    if effects == "small":
        if e.small_b is None or e.small_n is None:
            raise InputError(f"effects is 'small'; {table.study} has no such effects, only robas2 does")
        return e.small_b, e.small_n
    return (
        _truncated_normal(draw(seed, user, 0, PARAMETER), e.delta_b, e.sd_b),
        _truncated_normal(draw(seed, user, 1, PARAMETER), e.delta_n, e.sd_n),
    )


def _truncated_normal(u: float, mean: float, sd: float) -> float:
    """The quantile of u in [0, 1) of N(mean, sd^2) truncated at 0."""
    from scipy.special import ndtr, ndtri  # noqa: PLC0415  (takes long, and only drawn effects need it)

    if sd == 0.0:
        return mean
    below = ndtr(-mean / sd)
    return max(0.0, float(mean + sd * ndtri(below + u * (1.0 - below))))
