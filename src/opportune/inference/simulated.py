"""The value of policies that learn, by simulating a model fitted to the record.

A policy with a budget cannot be valued by weighting, as its later decisions depend on its earlier ones. Instead, the
study's linear model, with coefficients that differ between participants, is fitted to the record (`inference.mixed`)
and simulated. Each of many draws takes, with z normal and chi2 of n - 1 degrees of freedom,

    theta* = theta_hat + se z sqrt((n - 1) / chi2),     tau* = tau_hat sqrt(chi2 / (n - 1)),

then participants from N(theta*, T*), and runs every policy on them. Intervals use the draws' mean and spread with
Student's t, as quantiles of few draws would be too close to each other. The result depends on the formula, so a formula
that does not fit the record is refused: within participants, means by context and action must agree with it (F test,
1%).
"""

import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
from scipy.special import fdtrc

from opportune import checks
from opportune.errors import InputError
from opportune.inference.estimates import Estimates, estimates
from opportune.inference.mixed import Fitted, fit, root_of
from opportune.inference.record import Record, check_participants, column, read
from opportune.inference.sandwich import Floats, Ints, Sandwich
from opportune.policy import Policy
from opportune.problems.finite import Problem
from opportune.simulation import simulate
from opportune.worlds import LinearWorld

DRAWS = 200
REJECTED = 0.01


class Fit(NamedTuple):
    """A lack-of-fit test: F, its degrees of freedom, and the p-value."""

    statistic: float
    df: tuple[int, int]
    p: float


def simulated_value(
    frame: pd.DataFrame,
    problem: Problem,
    policies: Policy | Sequence[Policy],
    *,
    horizon: int,
    outcome: str = "y",
    action: str = "action",
    participant: str = "id",
    time: str | None = None,
    imputed: str | None = None,
    cohort: int | None = None,
    draws: int = DRAWS,
    seed: int = 0,
    **happenings: Any,
) -> Estimates:
    """The mean outcome per decision under policies that learn, and the differences from the first policy.

    Args:
        frame: one row for each decision point, with a column for each variable of the problem.
        problem: the study's finite problem: its formula, variables and actions.
        policies: the policies, each with its budget; the others are compared with the first.
        horizon: decisions per participant.
        outcome: the column with the reward; rows in which it is empty are left out.
        action: the column with the name of the action taken.
        participant: the column that identifies the participant.
        time: the column with the number of the decision point, from 1; needed if variables follow a schedule.
        imputed: the column that is 1 if the outcome was filled in; such rows are left out.
        cohort: the number of participants simulated in each draw; by default that of the record.
        draws: the number of draws; standard errors are the spread of their values.
        seed: of all draws.
        happenings: settings of the world, such as `response_rate` and `open_rate`, as `LinearWorld` takes them.

    """
    if not isinstance(problem, Problem):
        raise InputError(f"problem is {checks.brief(problem)}; expected a Problem with finitely many contexts")
    given = [policies] if isinstance(policies, Policy) else checks.listed("policies", policies, "policies", most=100)
    draws, seed = checks.whole("draws", draws, least=40, most=100_000), checks.seed("seed", seed)
    record = read(frame, outcome, participant, imputed=imputed)
    place, taken = _places(record.rows, problem, action, time)
    x = problem.features[place, taken]
    check_participants(record.n, 1)
    tested = lack_of_fit(x, record.y, record.who, place * problem.actions + taken)
    if tested.p < REJECTED:
        raise InputError(
            "the study's formula does not fit its record: mean outcomes by context and action differ from it by more "
            f"than chance (F({tested.df[0]}, {tested.df[1]}) = {tested.statistic:.3g}, p = {tested.p:.2g}); expected a "
            "formula with the terms that are missing, as policies would otherwise be valued in a different world"
        )
    fitted = fit(x, record.y, record.who, [f"feature {j + 1}" for j in range(problem.d)], correlated=True)
    probs = problem.context_probs
    if probs is None:
        probs = np.bincount(place, minlength=problem.contexts) / len(place)
    size = record.n if cohort is None else checks.whole("cohort", cohort, least=2, most=1_000_000)
    rng = np.random.default_rng(seed)
    values = np.empty((draws, len(given)))
    for i in range(draws):
        thetas = _people(fitted, size, rng)
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message="theta has norm")  # some drawn participants exceed the bound
            worlds = [
                LinearWorld(problem, theta=theta, noise_sd=fitted.sigma, context_probs=probs, **happenings)
                for theta in thetas
            ]
        data = simulate(worlds, given, horizon=horizon, replicates=1, seed=seed + i, trace=False, progress=False)
        values[i] = data["total_outcome"].mean(["world", "replicate"]).to_numpy() / horizon
    names = [str(name) for name in data["policy"].to_numpy()]
    return _summary(record, values, names, outcome, horizon, tested)


def lack_of_fit(x: Floats, y: Floats, who: Ints, cell: Ints) -> Fit:
    """Test whether means by cell differ from the features' fit, with separate coefficients for each participant.

    Args:
        x: features of each row.
        y: outcomes.
        who: the number of each row's participant.
        cell: the number of each row's context and action.

    """
    sums, free = np.zeros(2), np.zeros(2)
    for i in range(int(who.max()) + 1):
        mine = who == i
        own = pd.get_dummies(cell[mine]).to_numpy(dtype=np.float64)
        for j, design in enumerate((x[mine], own)):
            fitted, _, rank, _ = np.linalg.lstsq(design, y[mine], rcond=None)
            sums[j] += float(np.sum((y[mine] - design @ fitted) ** 2))
            free[j] += mine.sum() - rank
    first, second = int(free[0] - free[1]), int(free[1])
    if second < 10:
        raise InputError(
            f"whether the formula fits cannot be checked with {second} repetitions of a context and action within "
            "participants; expected at least 10"
        )
    if first == 0:
        return Fit(0.0, (0, second), 1.0)
    statistic = (sums[0] - sums[1]) / first / (sums[1] / second)
    return Fit(statistic, (first, second), float(fdtrc(first, second, statistic)))


def _places(rows: pd.DataFrame, problem: Problem, action: str, time: str | None) -> tuple[Ints, Ints]:
    """The numbers of each row's context and action."""
    names = [name for name in problem.variables if name in rows.columns]
    for name in problem.variables:
        if name not in problem.schedule.variables:
            column(rows, name)  # refuses a frame without it
    steps = np.ones(len(rows), dtype=np.int64) if time is None else column(rows, time).to_numpy(dtype=np.int64)
    place = np.empty(len(rows), dtype=np.int64)
    for i, values in enumerate(zip(*(rows[name] for name in names), strict=True)):
        context = {name: None if pd.isna(v) else v for name, v in zip(names, values, strict=True)}
        place[i] = problem.locate(context, int(steps[i])).context
    if (place < 0).any():
        raise InputError(
            f"{int((place < 0).sum()):,} rows lack a variable of the problem; expected {', '.join(problem.variables)} "
            "in every row with an outcome"
        )
    order = {name: j for j, name in enumerate(problem.action_names)}
    taken = column(rows, action).astype(str).map(order)
    if taken.isna().any():
        odd = rows[action][taken.isna()].iloc[0]
        raise InputError(f"column {action} holds {checks.brief(odd)}; expected one of {', '.join(order)}")
    return place, taken.to_numpy(dtype=np.int64)


def _people(fitted: Fitted, size: int, rng: np.random.Generator) -> Floats:
    """Coefficients of `size` participants, after one draw of the common part: [size, d].

    Their mean equals the common part exactly: draws differ by what is unknown, not by which participants were drawn.
    """
    d, free = len(fitted.theta), fitted.participants - 1
    ratio = rng.chisquare(free) / free
    theta = fitted.theta + root_of(fitted.covariance) @ rng.standard_normal(d) / np.sqrt(ratio)
    own = rng.standard_normal((size, d))
    own = (own - own.mean(axis=0)) * np.sqrt(size / (size - 1))
    return np.asarray(theta + np.sqrt(ratio) * own @ root_of(fitted.spread).T)


def _summary(record: Record, values: Floats, names: list[str], outcome: str, horizon: int, tested: Fit) -> Estimates:
    """The policies' values and differences from the first, with their draws.

    Draws have the variance of Student's t, (n - 1) / (n - 3), which is divided out here, as the interval's own t
    includes it.
    """
    whole = np.column_stack([values, values[:, 1:] - values[:, :1]])
    spread = (whole - whole.mean(axis=0)) * np.sqrt((record.n - 3) / (record.n - 1) / (len(whole) - 1))
    return estimates(
        record,
        whole.mean(axis=0),
        Sandwich(spread, spread),
        freedom=min(record.n, len(whole)) - 1,
        method=f"Simulated value of policies for {outcome}",
        estimand=(
            f"mean {outcome} per decision if participants like these had been in the study for {horizon} decisions "
            "under the policy, by the study's formula"
            + (f"; differences are from {names[0]}" if len(names) > 1 else "")
        ),
        names=(*names, *(f"{name} - {names[0]}" for name in names[1:])),
        effects=max(1, len(names) - 1),
        least_probability=float("nan"),
        draws=whole,
        details={"lack of fit: F": tested.statistic, "lack of fit: p": tested.p},
    )
