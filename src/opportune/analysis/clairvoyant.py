"""The best possible reveals: the clairvoyant, the auxiliary problem and the competitive ratio.

Gaps are `u*_{s_t} - v*`, time is the last axis, and the leading axes count sequences. A budget may be
one number or an array, one number for each sequence. The equations are in docs/paper.md, and in
Section 3 and Appendices C and D of the paper.
"""

import math

import numpy as np
from numpy.typing import ArrayLike, NDArray

from opportune import checks
from opportune.algorithm.budget import LEAST_LEFT, growth, next_price
from opportune.engine.compiled import driver_function
from opportune.errors import InputError
from opportune.revealers.gains import rank_among
from opportune.revealers.learning_primal_dual import learning_primal_dual
from opportune.revealers.primal_dual import primal_dual
from opportune.revealers.ranking import affordable, served, standing

Floats = NDArray[np.float64]

_ROUNDING = 1e-9  # lower bounds are infeasible only if they exceed the budget by more than this share of it


def clairvoyant(gaps: ArrayLike, budget: ArrayLike) -> Floats:
    """The revealer that knows every arrival (CLV): o = 1 on the `budget` largest positive gaps.

        max_o sum_t o_t gap_t   subject to   sum_t o_t <= B,   0 <= o_t <= 1.

    The last gap served may get a fraction; among equal gaps the earlier one is served first.
    """
    return _largest(*_sequences(gaps, budget))


def modified_clairvoyant(gaps: ArrayLike, budget: ArrayLike, disagreement: ArrayLike, tolerance: ArrayLike) -> Floats:
    """The clairvoyant under the learning constraint (Modified CLV, Appendix D.1).

        max_o sum_t o_t gap_t   subject to   sum_t o_t <= B,   0 <= o_t <= 1,   n_t (1 - o_t) <= beta_t.

    The constraint is a lower bound, o_t >= max(0, 1 - beta_t / n_t) where n_t > 0. It binds steps with a
    negative gap too: they get their lower bound and no more. The remainder goes to the largest positive gaps.
    Raises `InputError` if the lower bounds alone exceed the budget: then no o satisfies them.
    """
    n = _steps("disagreement", disagreement)
    beta = _steps("tolerance", tolerance, largest=np.inf)
    gap, limit = _sequences(gaps, budget, n.shape, beta.shape)
    with np.errstate(over="ignore"):  # a tolerance far above the disagreement does not bind
        share = np.divide(beta, n, out=np.ones_like(gap), where=np.broadcast_to(n > 0.0, gap.shape))
    least = np.maximum(0.0, 1.0 - share)
    needed = least.sum(axis=-1)
    short = needed > limit + _ROUNDING * np.maximum(1.0, limit)
    if short.any():
        where = tuple(int(i) for i in np.argwhere(short)[0])
        place = f" in sequence {where}" if where else ""
        raise InputError(
            f"infeasible: the learning constraint requires {needed[where]:.6g} reveals{place}, the budget is "
            f"{limit[where]:.6g}; expected a larger budget or tolerance"
        )
    return _fill(gap, limit, least)


def auxiliary(
    gaps: ArrayLike,
    budget: ArrayLike,
    *,
    disagreement: ArrayLike | None = None,
    tolerance: ArrayLike | None = None,
) -> Floats:
    """The revealer's own rule with theta known and arrivals unknown (AUX): one online pass over the gaps.

    Algorithm C.1 (PD1) without `disagreement`; with it Algorithm 1 (PD2), where `disagreement` is the sequence n_t and
    `tolerance` the initial beta_t. The rules are those that run live, from `opportune.revealers`. They are
    designed for gaps of at most 1 (docs/paper.md, scales).
    """
    if (disagreement is None) != (tolerance is None):
        given = "disagreement" if tolerance is None else "tolerance"
        raise InputError(f"{given} was given alone; expected disagreement and tolerance together, or neither")
    n = _steps("disagreement", 0.0 if disagreement is None else disagreement)
    beta = _steps("tolerance", 0.0 if tolerance is None else tolerance, largest=np.inf)
    gap, limit = _sequences(gaps, budget, n.shape, beta.shape)
    wrong = ~(np.isfinite(limit) & (limit > 0.0))
    if wrong.any():
        raise InputError(f"budget holds the value {limit[wrong][0]:.6g}; expected finite numbers above 0")
    rows = (limit.size, gap.shape[-1])
    out = np.empty(rows)
    _run_rule(
        gap.reshape(rows), _rows(n, gap.shape), _rows(beta, gap.shape), limit.reshape(-1), disagreement is not None, out
    )
    return out.reshape(gap.shape)


def paced_auxiliary(ranks: ArrayLike, budget: ArrayLike) -> Floats:
    """PACE with theta and p known and arrivals unknown (AUX): one online pass over the moments' ranks.

        o_t = min(1, left)   if   rank_t <= rho,   rho = left / future decisions, this one included.

    With theta known there is no debt, so this is the whole rule: the budget-ratio policy of Arlotto and Gurvich
    (2019). The rank of a moment, from `pace_ranks`, is the share of moments that are better; 0 is always served.
    """
    rank, limit = _sequences(_steps("ranks", ranks), budget)
    rows = (limit.size, rank.shape[-1])
    out = np.empty(rows)
    _run_pace(rank.reshape(rows), limit.reshape(-1), out)
    return out.reshape(rank.shape)


def pace_ranks(gaps: ArrayLike, probabilities: ArrayLike) -> Floats:
    """The rank of each context under PACE: above + tied/4, 0 if none is above, and 2 (never served) without a gain.

    `gaps` and `probabilities` have the contexts on their last axis; above = P(G > g), tied = P(G = g).
    """
    gap, weight = np.broadcast_arrays(_gaps(gaps), _steps("probabilities", probabilities))
    rows = (math.prod(gap.shape[:-1]), gap.shape[-1])
    out = np.empty(rows)
    _run_ranks(np.ascontiguousarray(gap).reshape(rows), np.ascontiguousarray(weight).reshape(rows), out)
    return out.reshape(gap.shape)


def competitive_ratio(o: ArrayLike, gaps: ArrayLike, budget: ArrayLike) -> Floats:
    """The share of the clairvoyant's gain that a revealer got: sum_t o_t gap_t / sum_t o^CLV_t gap_t.

    The baseline v* is excluded from both sums (docs/paper.md). If nothing can be gained, the ratio is 1.
    """
    probability = _steps("o", o)
    gap, limit = _sequences(gaps, budget, probability.shape)
    got = (probability * gap).sum(axis=-1)
    best = (_largest(gap, limit) * gap).sum(axis=-1)
    return np.asarray(np.divide(got, best, out=np.ones_like(best), where=best > 0.0), dtype=np.float64)


def minimum_gap(gaps: ArrayLike) -> Floats:
    """The least positive gap of each sequence, pi_min; 0 if none is positive, and then nothing is guaranteed."""
    gap = _gaps(gaps)
    least = np.min(gap, axis=-1, where=gap > 0.0, initial=np.inf)
    return np.where(np.isfinite(least), least, 0.0)


def _largest(gap: Floats, budget: Floats) -> Floats:
    """The result of `_fill` from zero, by one sort: which gaps are served, without their order."""
    steps = gap.shape[-1]
    if steps == 0:
        return np.zeros_like(gap)
    served = np.minimum(np.ceil(budget), steps).astype(np.int64)[..., np.newaxis]
    ordered = np.sort(gap, axis=-1)
    last = np.take_along_axis(ordered, np.minimum(steps - served, steps - 1), axis=-1)
    last = np.where(served > 0, np.maximum(last, 0.0), np.inf)  # the least gap served
    out = (gap > last).astype(np.float64)
    tied = (gap == last) & (gap > 0.0)
    before = out.sum(axis=-1, keepdims=True) + np.cumsum(tied, axis=-1) - 1.0
    return np.asarray(np.where(tied, np.clip(budget[..., np.newaxis] - before, 0.0, 1.0), out), dtype=np.float64)


def _fill(gap: Floats, budget: Floats, least: Floats) -> Floats:
    """Raise o from `least` towards 1 at the largest positive gaps, as far as the budget allows."""
    order = np.argsort(-gap, axis=-1, kind="stable")
    wanted = np.take_along_axis(np.where(gap > 0.0, 1.0 - least, 0.0), order, axis=-1)
    before = np.cumsum(wanted, axis=-1) - wanted
    left = (budget - least.sum(axis=-1))[..., np.newaxis] - before
    out = np.empty_like(gap)
    np.put_along_axis(out, order, np.clip(left, 0.0, wanted), axis=-1)
    return np.asarray(out + least, dtype=np.float64)


@driver_function
def _run_rule(gaps, disagreement, tolerance, budgets, learning, out):  # type: ignore[no-untyped-def]
    """Run PD1, or PD2 if `learning`, over each row of gaps; writes the probabilities to `out`.

    A single row of disagreements or tolerances applies to all rows.
    """
    for row in range(gaps.shape[0]):
        n = disagreement[min(row, disagreement.shape[0] - 1)]
        beta = tolerance[min(row, tolerance.shape[0] - 1)]
        budget = budgets[row]
        c = growth(budget)
        price = 0.0
        spent = 0.0
        for t in range(gaps.shape[1]):
            if learning:
                o, _, _, _ = learning_primal_dual(gaps[row, t], n[t], beta[t], price, spent, budget)
            else:
                o, _ = primal_dual(gaps[row, t], price, spent, budget)
            price = next_price(price, o, budget, c)
            spent += o
            out[row, t] = o


@driver_function
def _run_ranks(gaps, odds, out):  # type: ignore[no-untyped-def]
    """Rank each row's contexts among themselves."""
    contexts = gaps.shape[1]
    for row in range(gaps.shape[0]):
        for k in range(contexts):
            above, tied, _ = rank_among(gaps[row], odds[row], 1, contexts, gaps[row, k], -1)
            out[row, k] = standing(gaps[row, k], above, tied, True)


@driver_function
def _run_pace(ranks, budgets, out):  # type: ignore[no-untyped-def]
    """Serve a moment if its rank is at most the share of future moments that the budget can pay for."""
    steps = ranks.shape[1]
    for row in range(ranks.shape[0]):
        left = budgets[row]
        for t in range(steps):
            share = affordable(left, float(steps - t))
            out[row, t] = min(served(ranks[row, t], share), left) if left > LEAST_LEFT else 0.0
            left -= out[row, t]


def _gaps(gaps: ArrayLike) -> Floats:
    gap = checks.numbers("gaps", gaps, "numbers, time the last axis")
    if gap.ndim == 0:
        raise InputError(f"gaps is the single number {gap:.6g}; expected an array whose last axis is time")
    if not np.isfinite(gap).all():
        raise InputError("gaps holds NaN or infinite values; expected finite numbers")
    return gap


def _steps(name: str, values: ArrayLike, largest: float = np.finfo(np.float64).max) -> Floats:
    array = checks.numbers(name, values, "numbers")
    wrong = ~((array >= 0.0) & (array <= largest))  # NaN fails both
    if wrong.any():
        kind = "finite numbers" if largest < np.inf else "numbers"
        raise InputError(f"{name} holds the value {array[wrong][0]:.6g}; expected {kind} of at least 0")
    return array


def _sequences(gaps: ArrayLike, budget: ArrayLike, *others: tuple[int, ...]) -> tuple[Floats, Floats]:
    """Gaps and budgets broadcast to one shape: (..., time) and (...)."""
    gap = _gaps(gaps)
    limit = _steps("budget", budget, largest=np.inf)
    try:
        shape = np.broadcast_shapes(gap.shape, (*limit.shape, 1), *others)
    except ValueError:
        shape = ()
    if not shape or shape[-1] != gap.shape[-1]:
        given = "".join(f", {other}" for other in others)
        raise InputError(
            f"the shapes {gap.shape} of gaps, {limit.shape} of budget{given} do not fit together; expected "
            "shapes that broadcast, with time the last axis of all but budget"
        )
    return _spread(gap, shape), _spread(limit, shape[:-1])


def _spread(values: Floats, shape: tuple[int, ...]) -> Floats:
    """The values broadcast to a shape; unchanged if they have it, as they are already a copy of the input."""
    return values if values.shape == shape else np.array(np.broadcast_to(values, shape))


def _rows(values: Floats, shape: tuple[int, ...]) -> Floats:
    """Values of every step as rows: one for all if they are the same for all sequences, else one for each."""
    if values.ndim <= 1:
        return _spread(values, shape[-1:])[np.newaxis]
    return _spread(values, shape).reshape(-1, shape[-1])
