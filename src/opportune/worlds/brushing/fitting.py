"""Fitting the brushing world to data: each user's weights, and the resulting effects of a message.

A user's weights (w_b, w_p) are the maximum a posteriori estimate, the peak of `likelihood.log_posterior`.
"""

import datetime
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from opportune._version import __version__
from opportune.errors import DataError
from opportune.worlds.brushing import step
from opportune.worlds.brushing.data import BrushingData
from opportune.worlds.brushing.likelihood import curvature, log_posterior, predictors, sigmoid
from opportune.worlds.brushing.strata import COURSES, SEED, stratum_means
from opportune.worlds.brushing.table import BrushingTable, Effects, Provenance, load_table, save_table

__all__ = ["BrushingTable", "design", "effects", "fit_brushing", "load_table", "save_table"]

FloatArray = NDArray[np.float64]

STARTS = 4
"""Starting points of each user's fit."""
SAME_OPTIMUM = 1e-6
"""Starts whose weights end this close to each other count as having reached the same optimum."""
GRADIENT_TOLERANCE = 1e-6
"""A fit has converged when the norm of its gradient is below this."""

_EFFECT_FEATURES = ("tod", "prior", "prop", "weekend")
_RECIPE = (
    "Per user, maximum a posteriori estimate of the zero-inflated Poisson weights w_b (not brushing) and "
    f"w_p (rate) under independent N(0, 1) priors, by L-BFGS-B from {STARTS} starts, then Newton steps; stratum "
    f"means of prior and prop from {COURSES} simulated courses of {step.HORIZON} sessions without "
    f"messages, seed {SEED}."
)


@dataclass(frozen=True)
class _Fit:
    """The best of a user's starts."""

    weights: FloatArray
    log_posterior: float
    gradient_norm: float
    starts_agree: bool


def fit_brushing(
    data: BrushingData,
    *,
    progress: Callable[[int, int], None] | None = None,
    date: datetime.date | None = None,
) -> BrushingTable:
    """Fit every user of a study.

    `progress(done, users)` is called after each user; `date` goes into the provenance (default: today).
    """
    g = design(data)
    width = g.shape[1]
    fits: list[_Fit] = []
    first_weekend = np.zeros(data.users, dtype=np.int64)
    strata = np.zeros((data.users, 2, 4))
    for user in range(data.users):
        rows = data.user == user
        weekends = np.flatnonzero(data.weekend[rows])
        if weekends.size == 0:
            raise DataError(f"user {user} has no weekend session among {rows.sum()}; expected at least one")
        first_weekend[user] = weekends[0]
        fit = _fit_user(g[rows], data.y[rows].astype(np.float64))
        fits.append(fit)
        params = step.pack_params(
            data.study,
            w_b=fit.weights[:width],
            w_p=fit.weights[width:],
            first_weekend=int(first_weekend[user]),
        )
        strata[user] = stratum_means(params, stream=user * COURSES)
        if progress is not None:
            progress(user + 1, data.users)
    weights = np.array([fit.weights for fit in fits])
    norms = np.array([fit.gradient_norm for fit in fits])
    return BrushingTable(
        study=data.study,
        w_b=weights[:, :width],
        w_p=weights[:, width:],
        first_weekend=first_weekend,
        sessions=np.bincount(data.user).astype(np.int64),
        log_posterior=np.array([fit.log_posterior for fit in fits]),
        gradient_norm=norms,
        converged=norms < GRADIENT_TOLERANCE,
        starts_agree=np.array([fit.starts_agree for fit in fits]),
        cell_prior=strata[:, 0],
        cell_prop=strata[:, 1],
        effects=effects(data.study, weights[:, :width], weights[:, width:]),
        provenance=Provenance(
            source=data.source,
            sha256=data.sha256,
            recipe=_RECIPE,
            date=(date or datetime.date.today()).isoformat(),
            version=__version__,
        ),
    )


def design(data: BrushingData) -> FloatArray:
    """The rows g of the fit, [sessions, entries of g].

    They differ from the simulated world's in three ways: prior is 0 on day 1; for ROBAS 3 its (m, s) are the
    file's own mean and population sd of the daily totals; and day runs from -1 to 1 over the user's own days.
    """
    names = step.feature_names(data.study)
    totals = data.y[0::2] + data.y[1::2]  # a user's sessions come in pairs: morning, evening
    mean, sd = step.SCALES[data.study]
    if "day" in names:
        mean, sd = float(totals.mean()), float(totals.std())
    if sd == 0.0:
        raise DataError(f"every day of the file has the same outcome, {mean:g} s; expected some variation")
    yesterday = np.zeros(data.y.size)
    yesterday[2:] = np.repeat(totals, 2)[:-2]
    last_day = np.array([data.day[data.user == user].max() for user in range(data.users)])[data.user]
    columns = {
        "tod": data.tod,
        "prior": np.where(data.day == 1, 0.0, (yesterday - mean) / sd),
        "day": (data.day - (last_day + 1) / 2) / np.maximum((last_day - 1) / 2, 0.5),
        "prop": data.prop,
        "weekend": data.weekend,
        "bias": np.ones(data.y.size),
    }
    return np.stack([columns[name] for name in names], axis=1).astype(np.float64)


def _starting_points(g: FloatArray, y: FloatArray) -> list[FloatArray]:
    """The optimiser's starting points: at 0, at the user's own share of zeros and mean, and scattered around."""
    width = g.shape[1]
    plain = np.zeros(2 * width)
    plain[width - 1] = np.log((np.sum(y == 0) + 0.5) / (np.sum(y > 0) + 0.5))
    plain[-1] = np.log((y.sum() + 0.5) / (np.sum(y > 0) + 0.5))
    scatter = np.random.default_rng(0).normal(size=(STARTS - 2, 2 * width))
    return [np.zeros(2 * width), plain, *(plain + offset for offset in scatter)]


def _fit_user(g: FloatArray, y: FloatArray) -> _Fit:
    """The best of several starts, and whether all of them ended there."""
    from scipy.optimize import minimize  # noqa: PLC0415 - slow to import, and not needed to read a table

    starts = _starting_points(g, y)
    scaling = _scaling(starts[1], g, y)

    def loss(scaled: FloatArray) -> tuple[float, FloatArray]:
        value, gradient = log_posterior(scaling @ scaled, g, y)
        return -value, -(gradient @ scaling)

    ends = []
    for start in starts:
        found = minimize(
            loss,
            np.linalg.solve(scaling, start),
            jac=True,
            method="L-BFGS-B",
            options={"maxiter": 1000, "ftol": 1e-7, "gtol": 1e-3},
        )
        ends.append(_polish(np.asarray(scaling @ found.x), g, y))
    values = [log_posterior(end, g, y)[0] for end in ends]
    best = ends[int(np.argmax(values))]
    value, gradient = log_posterior(best, g, y)
    return _Fit(
        weights=best,
        log_posterior=value,
        gradient_norm=float(np.linalg.norm(gradient)),
        starts_agree=bool(all(np.abs(end - best).max() < SAME_OPTIMUM for end in ends)),
    )


def _scaling(weights: FloatArray, g: FloatArray, y: FloatArray) -> FloatArray:
    """A matrix from well-conditioned coordinates to weights, which saves the optimiser most of its steps.

    It is the inverse root of the posterior's information if every zero counts as a session without brushing.
    """
    width = g.shape[1]
    log_odds, _, lam = predictors(weights, g)
    p0 = sigmoid(log_odds)
    information = np.eye(2 * width)
    information[:width, :width] += (g.T * (p0 * (1.0 - p0))) @ g
    information[width:, width:] += (g.T * np.where(y > 0, lam, 0.0)) @ g
    return np.asarray(np.linalg.inv(np.linalg.cholesky(information)).T)


def _polish(weights: FloatArray, g: FloatArray, y: FloatArray) -> FloatArray:
    """Newton steps as long as each makes the gradient smaller, to the limit of double precision."""
    gradient = log_posterior(weights, g, y)[1]
    for _ in range(50):
        hessian = curvature(weights, g, y)
        if np.linalg.eigvalsh(hessian)[0] <= 0.0:
            break  # not near a maximum: keep the optimiser's result
        trial = weights + np.linalg.solve(hessian, gradient)
        trial_gradient = log_posterior(trial, g, y)[1]
        if not np.linalg.norm(trial_gradient) < np.linalg.norm(gradient):
            break
        weights, gradient = trial, trial_gradient
    return weights


def effects(study: str, w_b: FloatArray, w_p: FloatArray) -> Effects:
    """The effects of a message, scaled by the weights: W[u, f] = |weight| over tod, prior, prop, weekend.

    Delta is the average over features of the mean over users; sd is the population sd over users of the
    average over features; small is half the smallest feature mean.
    """
    names = step.feature_names(study)
    chosen = [names.index(name) for name in _EFFECT_FEATURES]
    sizes_b, sizes_n = np.abs(w_b[:, chosen]), np.abs(w_p[:, chosen])
    has_small = study == "robas2"
    return Effects(
        delta_b=float(sizes_b.mean(axis=0).mean()),
        delta_n=float(sizes_n.mean(axis=0).mean()),
        sd_b=float(sizes_b.mean(axis=1).std()),
        sd_n=float(sizes_n.mean(axis=1).std()),
        small_b=float(sizes_b.mean(axis=0).min() / 2) if has_small else None,
        small_n=float(sizes_n.mean(axis=0).min() / 2) if has_small else None,
    )
