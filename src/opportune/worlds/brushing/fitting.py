"""Fitting the brushing world to data: each user's weights, what follows from them, and the shipped tables.

A user's weights (w_b, w_p) are the maximum a posteriori estimate under independent N(0, 1) priors and the
zero-inflated Poisson likelihood of the uncapped outcome.
"""

import datetime
import importlib.resources
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

import numpy as np
from numba import njit
from numpy.typing import NDArray
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from opportune._version import __version__
from opportune.core import rng
from opportune.errors import DataError, InputError
from opportune.worlds.brushing import step
from opportune.worlds.brushing.data import BrushingData

FloatArray = NDArray[np.float64]

STARTS = 4
"""Starting points of each user's fit."""
SAME_OPTIMUM = 1e-6
"""Starts whose weights end within this of each other count as having reached the same optimum."""
GRADIENT_TOLERANCE = 1e-6
"""A fit has converged when the norm of its gradient is below this."""
CELL_REPLICATES = 2000
"""Simulated no-action courses of 140 sessions behind each user's cell means."""
CELL_SEED = 20240502
"""Seed of those courses; the user's number and the course make the stream."""

_EFFECT_FEATURES = ("tod", "prior", "prop", "weekend")
_RECIPE = (
    "Per user, maximum a posteriori estimate of the zero-inflated Poisson weights w_b (not brushing) and "
    f"w_p (rate) under independent N(0, 1) priors, by L-BFGS-B from {STARTS} starts, then Newton steps; cell "
    f"means of prior and prop from {CELL_REPLICATES} simulated courses of {step.HORIZON} sessions without "
    f"messages, seed {CELL_SEED}."
)


_AtLeast0 = Annotated[float, Field(ge=0.0)]
_Cells = Annotated[list[float], Field(min_length=4, max_length=4)]


class _Record(BaseModel):
    """A part of a table's file: nothing missing, nothing unknown, nothing converted, no NaN."""

    model_config = ConfigDict(frozen=True, strict=True, extra="forbid", allow_inf_nan=False)


class Effects(_Record):
    """What a message does on average: Delta for not brushing (b) and for the rate (n), and sds over users."""

    delta_b: _AtLeast0
    delta_n: _AtLeast0
    sd_b: _AtLeast0
    sd_n: _AtLeast0
    small_b: _AtLeast0 | None
    """Half the smallest feature mean (ROBAS 2 only)."""
    small_n: _AtLeast0 | None
    """Likewise, for the rate."""


class Provenance(_Record):
    """Where a table comes from: file, its checksum, how it was fitted, when, and by which version."""

    source: str
    sha256: str
    recipe: str
    date: str
    version: str


@dataclass(frozen=True, kw_only=True, eq=False)
class BrushingTable:
    """The fitted users of a study: row u of every array is user u. Cells are tod + 2*weekend."""

    study: str
    w_b: FloatArray
    """Weights of g for not brushing, [users, entries of g]."""
    w_p: FloatArray
    """Weights of g for the log rate, likewise."""
    first_weekend: NDArray[np.int64]
    """Session w0 at which the user's first weekend begins."""
    sessions: NDArray[np.int64]
    """How many sessions the fit rests on."""
    log_posterior: FloatArray
    """Log likelihood plus log prior density at the weights."""
    gradient_norm: FloatArray
    """Euclidean norm of its gradient there."""
    converged: NDArray[np.bool_]
    """Whether that norm is below 1e-6."""
    starts_agree: NDArray[np.bool_]
    """Whether every start reached these weights, to 1e-6."""
    cell_prior: FloatArray
    """Mean of `prior` in each cell when no message is ever sent, [users, 4]."""
    cell_prop: FloatArray
    """Mean of `prop`, likewise."""
    effects: Effects
    provenance: Provenance

    @property
    def users(self) -> int:
        """How many users there are."""
        return int(self.w_b.shape[0])


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
    cells = np.zeros((data.users, 2, 4))
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
        cells[user] = cell_means(params, stream=user * CELL_REPLICATES)
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
        cell_prior=cells[:, 0],
        cell_prop=cells[:, 1],
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


def log_posterior(weights: FloatArray, g: FloatArray, y: FloatArray) -> tuple[float, FloatArray]:
    """Log posterior density of weights = [w_b; w_p] given rows g and outcomes y, and its gradient.

    y = 0: log(p0 + (1 - p0) e^-lam);  y > 0: log(1 - p0) - lam + y log lam - log y!.
    """
    width = g.shape[1]
    log_odds, log_rate, lam = _predictors(weights, g)
    zero = y == 0
    each = np.where(zero, np.logaddexp(log_odds, -lam), -lam + y * log_rate - _log_factorial(y))
    value = np.sum(each - np.logaddexp(0.0, log_odds))
    value -= 0.5 * (weights @ weights) + width * np.log(2.0 * np.pi)
    idle = np.where(zero, _sigmoid(log_odds + lam), 0.0)  # chance that this zero was no brushing at all
    by_odds = idle - _sigmoid(log_odds)
    by_rate = np.where(zero, -(1.0 - idle) * lam, y - lam)
    return float(value), np.concatenate((g.T @ by_odds, g.T @ by_rate)) - weights


def _sigmoid(v: FloatArray) -> FloatArray:
    return np.asarray(np.exp(-np.logaddexp(0.0, -v)))


def _log_factorial(y: FloatArray) -> FloatArray:
    logs = np.log(np.arange(1.0, y.max() + 1.0))
    return np.asarray(np.concatenate(([0.0], np.cumsum(logs)))[y.astype(np.int64)])


def _predictors(weights: FloatArray, g: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Log odds of not brushing, log rate, rate; an absurd rate, met only in a line search, is held finite."""
    width = g.shape[1]
    log_rate = np.minimum(g @ weights[width:], 100.0)
    return g @ weights[:width], log_rate, np.exp(log_rate)


def _curvature(weights: FloatArray, g: FloatArray, y: FloatArray) -> FloatArray:
    """Minus the Hessian of the log posterior."""
    log_odds, _, lam = _predictors(weights, g)
    zero = y == 0
    idle = np.where(zero, _sigmoid(log_odds + lam), 0.0)
    doubt = idle * (1.0 - idle)
    p0 = _sigmoid(log_odds)
    odds_odds = p0 * (1.0 - p0) - doubt
    odds_rate = -doubt * lam
    rate_rate = np.where(zero, (1.0 - idle) * lam - doubt * lam**2, lam)
    off = (g.T * odds_rate) @ g
    blocks = np.block([[(g.T * odds_odds) @ g, off], [off.T, (g.T * rate_rate) @ g]])
    return np.asarray(blocks + np.eye(weights.size))


def _starting_points(g: FloatArray, y: FloatArray) -> list[FloatArray]:
    """Where the optimiser starts: at 0, at the user's own share of zeros and mean, and scattered about."""
    width = g.shape[1]
    plain = np.zeros(2 * width)
    plain[width - 1] = np.log((np.sum(y == 0) + 0.5) / (np.sum(y > 0) + 0.5))
    plain[-1] = np.log((y.sum() + 0.5) / (np.sum(y > 0) + 0.5))
    scatter = np.random.default_rng(0).normal(size=(STARTS - 2, 2 * width))
    return [np.zeros(2 * width), plain, *(plain + offset for offset in scatter)]


def _fit_user(g: FloatArray, y: FloatArray) -> _Fit:
    """The best of several starts, and whether all of them ended there."""
    from scipy.optimize import minimize  # noqa: PLC0415 - takes long, and reading a table does without it

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

    It is the inverse root of the posterior's information, had every zero been a session without brushing.
    """
    width = g.shape[1]
    log_odds, _, lam = _predictors(weights, g)
    p0 = _sigmoid(log_odds)
    information = np.eye(2 * width)
    information[:width, :width] += (g.T * (p0 * (1.0 - p0))) @ g
    information[width:, width:] += (g.T * np.where(y > 0, lam, 0.0)) @ g
    return np.asarray(np.linalg.inv(np.linalg.cholesky(information)).T)


def _polish(weights: FloatArray, g: FloatArray, y: FloatArray) -> FloatArray:
    """Newton steps for as long as each makes the gradient shorter: to the limit of double precision."""
    gradient = log_posterior(weights, g, y)[1]
    for _ in range(50):
        curvature = _curvature(weights, g, y)
        if np.linalg.eigvalsh(curvature)[0] <= 0.0:
            break  # not near a maximum: leave the optimiser's answer as it is
        trial = weights + np.linalg.solve(curvature, gradient)
        trial_gradient = log_posterior(trial, g, y)[1]
        if not np.linalg.norm(trial_gradient) < np.linalg.norm(gradient):
            break
        weights, gradient = trial, trial_gradient
    return weights


def cell_means(
    params: FloatArray, *, stream: int, replicates: int = CELL_REPLICATES, horizon: int = step.HORIZON
) -> FloatArray:
    """Means of prior (row 0) and prop (row 1) in each cell tod + 2*weekend when no message is ever sent.

    The courses use the streams from `stream` on, so that the answer is the same every time.
    """
    sums = np.zeros((2, 4))
    counts = np.zeros(4)
    width = 5 + int(params[step.HAS_DAY])
    x = np.zeros((2, 2 * width - 1))
    _sum_cells(params, stream, replicates, horizon, np.zeros(step.STATE_SIZE), x, sums, counts)
    return np.asarray(sums / np.maximum(counts, 1.0))


@njit(cache=True)
def _sum_cells(params, stream, replicates, horizon, state, x, sums, counts):  # type: ignore[no-untyped-def]
    """Add up prior and prop, cell by cell, over courses without messages."""
    for replicate in range(replicates):
        step.reset(params, state)
        for t in range(horizon):
            cell = step.arrive(params, state, t, x)
            prior, prop = step.sensed(params, state, t)
            sums[0, cell] += prior
            sums[1, cell] += prop
            counts[cell] += 1.0
            u_zero = rng.draw(CELL_SEED, stream + replicate, t, rng.ZERO)
            u_poisson = rng.draw(CELL_SEED, stream + replicate, t, rng.NOISE)
            step.advance(params, state, t, step.outcome(params, x, 0, u_zero, u_poisson))


def effects(study: str, w_b: FloatArray, w_p: FloatArray) -> Effects:
    """The effects of a message, sized by the weights: W[u, f] = |weight| over tod, prior, prop, weekend.

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


class _UserEntry(_Record):
    """One user in a table's file; the names are those of the table's arrays."""

    user: int
    sessions: int = Field(ge=1)
    first_weekend: int = Field(ge=0)
    w_b: list[float]
    w_p: list[float]
    log_posterior: float
    gradient_norm: float = Field(ge=0.0)
    converged: bool
    starts_agree: bool
    cell_prior: _Cells
    cell_prop: _Cells


class _TableFile(_Record):
    """A table's file."""

    study: Literal["robas2", "robas3"]
    provenance: Provenance
    features: list[str]
    effects: Effects
    users: list[_UserEntry] = Field(min_length=1)


_USER_ARRAYS = tuple(name for name in _UserEntry.model_fields if name != "user")


def save_table(table: BrushingTable, path: str | Path) -> None:
    """Write a table as JSON that people can read: users numbered, one line a field."""
    users = []
    for user in range(table.users):
        entry = {"user": user} | {name: getattr(table, name)[user].tolist() for name in _USER_ARRAYS}
        users.append(f"    {_json_block(entry, 4)}")
    parts = (
        f'  "study": {json.dumps(table.study)}',
        f'  "provenance": {_json_block(table.provenance.model_dump(), 2)}',
        f'  "features": {json.dumps(step.feature_names(table.study))}',
        f'  "effects": {_json_block(table.effects.model_dump(), 2)}',
        '  "users": [\n' + ",\n".join(users) + "\n  ]",
    )
    Path(path).write_text("{\n" + ",\n".join(parts) + "\n}\n", encoding="utf-8")


def _json_block(entry: dict[str, Any], indent: int) -> str:
    """A JSON object with one line a field; lists stay on their line."""
    pad = " " * indent
    rows = [f"{pad}  {json.dumps(name)}: {json.dumps(value)}" for name, value in entry.items()]
    return "{\n" + ",\n".join(rows) + f"\n{pad}}}"


def load_table(study: str | Path) -> BrushingTable:
    """The table shipped for a study (`robas2`, `robas3`), or the one in a file written by `save_table`."""
    try:
        if study in step.SCALES:
            folder = importlib.resources.files("opportune.worlds.brushing")
            text = folder.joinpath("tables", f"{study}.json").read_text(encoding="utf-8")
        else:
            text = Path(study).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as problem:
        known = ", ".join(step.SCALES)
        raise InputError(f"no table {str(study)!r}; expected one of {known}, or a readable file") from problem
    try:
        content = _TableFile.model_validate_json(text)
    except ValidationError as problem:
        first = problem.errors()[0]
        where = ".".join(str(part) for part in first["loc"]) or "the file"
        raise DataError(f"{study}: {where}: {first['msg']}; found {first['input']!r:.80}") from problem
    _check_table(str(study), content)
    arrays = {name: np.array([getattr(user, name) for user in content.users]) for name in _USER_ARRAYS}
    return BrushingTable(study=content.study, effects=content.effects, provenance=content.provenance, **arrays)


def _check_table(source: str, content: _TableFile) -> None:
    """Refuse a table whose parts do not fit together."""
    names = step.feature_names(content.study)
    if content.features != list(names):
        raise DataError(f"{source}: features: found {content.features}; expected {list(names)}")
    for number, entry in enumerate(content.users):
        if entry.user != number:
            raise DataError(f"{source}: users.{number}.user: found {entry.user}; expected {number}")
        for label, weights in (("w_b", entry.w_b), ("w_p", entry.w_p)):
            if len(weights) != len(names):
                raise DataError(
                    f"{source}: users.{number}.{label}: found {len(weights)} weights; expected {len(names)}"
                )
    given = {content.effects.small_b is not None, content.effects.small_n is not None}
    if given != {content.study == "robas2"}:
        raise DataError(f"{source}: effects: small_b and small_n belong to robas2 and to no other study")
