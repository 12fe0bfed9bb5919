"""The paper's guarantees as functions of their constants, for comparison with the results of runs.

Symbols as in the paper: horizon T, dimension d, budget B, c = (1 + 1/B)^B, `norm_bound` W >= ||theta||,
`feature_bound` L >= ||phi||, noise scale R (1 in the paper's proofs), and delta the probability of failure. Every
function takes numbers or arrays that broadcast against each other.
"""

from collections.abc import Callable

import numpy as np
from numpy.typing import ArrayLike, NDArray

from opportune import checks
from opportune.algorithm import model
from opportune.algorithm.optimistic import bernstein_width
from opportune.errors import InputError
from opportune.revealers.learning_primal_dual import paper_tolerance

Floats = NDArray[np.float64]


def confidence_radius(
    log_det: ArrayLike,
    *,
    dimension: ArrayLike,
    regularisation: ArrayLike,
    norm_bound: ArrayLike,
    delta: ArrayLike,
    noise_scale: ArrayLike = 1.0,
) -> Floats:
    """Concentration (proposition of Appendix E): the distance of theta from its estimate, with probability 1 - delta.

        ||theta - theta_bar||_V <= R sqrt(2 ln(1/delta) + ln det V - d ln lam) + sqrt(lam) W

    `log_det` is ln det V, `regularisation` is lam. The paper's R is 1; for any other, noise divided by R is
    1-sub-Gaussian, and multiplying back gives the bound above.
    """
    d, lam = _positive("dimension", dimension), _positive("regularisation", regularisation)
    growth = checks.numbers("log_det", log_det, "numbers") - d * np.log(lam)
    if not (growth >= -1e-9 * np.maximum(1.0, d)).all():
        raise InputError(
            f"log_det is {growth.min():.6g} above d ln lam; expected at least 0, since V = lam I + sum x x'"
        )
    R, W = _at_least_0("noise_scale", noise_scale), _at_least_0("norm_bound", norm_bound)
    return _each(model.confidence_radius, R, 2.0 * _log_odds(delta), np.maximum(growth, 0.0), np.sqrt(lam) * W)


def radius_bound(
    horizon: ArrayLike,
    *,
    dimension: ArrayLike,
    norm_bound: ArrayLike,
    feature_bound: ArrayLike,
    delta: ArrayLike,
    noise_scale: ArrayLike = 1.0,
) -> Floats:
    """The largest confidence radius up to time T, gamma of Proposition 2.

        gamma = 1 + R sqrt(2 ln(1/delta) + d ln(1 + T W^2 L^2 / d)),   with lam = 1/W^2

    The paper's R is 1.
    """
    d = _positive("dimension", dimension)
    R = _at_least_0("noise_scale", noise_scale)
    spread = d * _log_volume(horizon, d, norm_bound, feature_bound)
    return np.asarray(1.0 + R * np.sqrt(2.0 * _log_odds(delta) + spread))


def bandit_learning_loss_bound(
    horizon: ArrayLike,
    *,
    dimension: ArrayLike,
    budget: ArrayLike,
    radius: ArrayLike,
    tolerance_sum: ArrayLike,
    largest_gap: ArrayLike,
    norm_bound: ArrayLike,
    feature_bound: ArrayLike,
    context_ratio: ArrayLike = 1.0,
) -> Floats:
    """Proposition 2: the cost of learning theta, AUX - ALG, with probability 1 - 2 delta.

        BLL_T <= max(c_max, 1) sqrt(8 T d gamma^2 ln((d + T W^2 L^2) / d)) + W sum_t beta_t + 2 B pi_max

    `radius` is gamma (`radius_bound`), `tolerance_sum` the sum of the beta_t after the rule has adapted them,
    `largest_gap` is pi_max = max_s |u*_s - v*|, and `context_ratio` is c_max of Assumption 2.
    """
    T, d = _at_least_0("horizon", horizon), _positive("dimension", dimension)
    gamma, W = _at_least_0("radius", radius), _at_least_0("norm_bound", norm_bound)
    learning = np.sqrt(8.0 * T * d * gamma**2 * _log_volume(T, d, W, feature_bound))
    stale = W * _at_least_0("tolerance_sum", tolerance_sum)
    timing = 2.0 * _positive("budget", budget) * _at_least_0("largest_gap", largest_gap)
    ratio = np.maximum(_at_least_0("context_ratio", context_ratio), 1.0)
    return np.asarray(ratio * learning + stale + timing)


def regret_bound(
    learning_loss: ArrayLike, *, budget: ArrayLike, least_gap: ArrayLike, clairvoyant_value: ArrayLike
) -> Floats:
    """Theorem 1: the regret of the whole algorithm against the clairvoyant, with probability 1 - 2 delta.

        Regret_T <= BLL_T + (1 - alpha) E[V^CLV],   alpha = pi_min (1 - 1/c)

    `learning_loss` is the bound of Proposition 2, `clairvoyant_value` the clairvoyant's gain sum_t o_t gap_t
    (the baseline v* cancels). The paper prints alpha upside down, as (1 + 1/(c - 1)) / pi_min; Corollary 1
    proves V^AUX >= pi_min (1 - 1/c) V^CLV, which is the alpha above.
    """
    alpha = competitive_bound(budget, least_gap)
    value = _at_least_0("clairvoyant_value", clairvoyant_value)
    return np.asarray(_at_least_0("learning_loss", learning_loss) + (1.0 - alpha) * value)


def context_width(
    frequency: ArrayLike, sample: ArrayLike, *, contexts: ArrayLike, horizon: ArrayLike, delta: ArrayLike
) -> Floats:
    """Lemma F.2 and Proposition F.1: the distance of a context's probability from its frequency, zeta_t.

        zeta = sqrt(2 p (1 - p) l / max(n, 1)) + 7 l / (3 max(n - 1, 1)),   l = ln(2 K T / delta)

    `frequency` is p, `contexts` is K. The paper prints n = m(k, t), the number of times context k was seen; the
    underlying inequality (Lemma F.1) holds with n the number of all contexts seen, which is narrower.
    """
    p, n = _at_least_0("frequency", frequency), _at_least_0("sample", sample)
    if not (p <= 1.0).all():
        raise InputError(f"frequency holds the value {p.max():.6g}; expected numbers from 0 to 1")
    size = _positive("contexts", contexts) * _positive("horizon", horizon)
    return _each(bernstein_width, p, n, np.log(2.0 * size) + _log_odds(delta))


def unknown_context_loss_bound(
    learning_loss: ArrayLike, *, width_sum: ArrayLike, norm_bound: ArrayLike, feature_bound: ArrayLike
) -> Floats:
    """Proposition F.1: the cost of learning theta and the context distribution, with probability 1 - 4 delta.

        BLL_T <= (the bound of Proposition 2) + (W L + 1) sum_t sum_k zeta_t

    `learning_loss` is the bound of Proposition 2, `width_sum` the sum of `context_width` over times and
    contexts.
    """
    factor = _at_least_0("norm_bound", norm_bound) * _at_least_0("feature_bound", feature_bound) + 1.0
    return np.asarray(_at_least_0("learning_loss", learning_loss) + factor * _at_least_0("width_sum", width_sum))


def tolerance(step: ArrayLike, budget: ArrayLike, least_distance: ArrayLike) -> Floats:
    """Section 5: the initial tolerance of the learning constraint at time t = 1, 2, ...

        beta_t = 1.2 Dmin ln(10) sqrt(10) / (ln(B) sqrt(t))

    `least_distance` is Dmin, the least ||phi(k, a) - phi(k, a')|| over contexts and pairs of actions.
    Infinite for B <= 1, where ln(B) is no longer positive: then no disagreement causes a reveal.
    """
    t, B = _positive("step", step), _positive("budget", budget)
    first = _each(paper_tolerance, _at_least_0("least_distance", least_distance), B)
    return np.asarray(first / np.sqrt(t))


def price_floor(spent: ArrayLike, budget: ArrayLike) -> Floats:
    """Appendices C.1 and D.2: the least price after `spent` of the budget was spent.

        y >= (c^(spent/B) - 1) / (c - 1)

    It reaches 1, where the rules stop, as the budget runs out, so no rule can overspend.
    """
    gone, B = _at_least_0("spent", spent), _positive("budget", budget)
    rate = np.log1p(1.0 / B)  # c^(spent/B) = (1 + 1/B)^spent
    return np.asarray(np.expm1(gone * rate) / np.expm1(B * rate))


def competitive_bound(budget: ArrayLike, least_gap: ArrayLike) -> Floats:
    """Proposition C.1 (PD1) and Corollary 1 (PD2): the guaranteed share of the clairvoyant's gain.

        alpha = pi_min (1 - 1/c),   which tends to pi_min (1 - 1/e) as B grows

    `least_gap` is pi_min, the least positive gap, with gaps scaled to at most 1.
    """
    B, least = _positive("budget", budget), _at_least_0("least_gap", least_gap)
    return np.asarray(-least * np.expm1(-B * np.log1p(1.0 / B)))


def _each(function: Callable[..., float], *arguments: Floats) -> Floats:
    """Apply one of the algorithm's own functions to every entry of arrays that broadcast against each other."""
    return np.asarray(np.vectorize(function, otypes=[np.float64])(*arguments))


def _log_volume(horizon: ArrayLike, d: Floats, norm_bound: ArrayLike, feature_bound: ArrayLike) -> Floats:
    """The logarithm in Proposition 2 and in gamma, ln(1 + T W^2 L^2 / d)."""
    size = _at_least_0("norm_bound", norm_bound) * _at_least_0("feature_bound", feature_bound)
    return np.asarray(np.log1p(_at_least_0("horizon", horizon) * size**2 / d))


def _log_odds(delta: ArrayLike) -> Floats:
    """The term ln(1/delta)."""
    chance = _positive("delta", delta)
    if not (chance < 1.0).all():
        raise InputError(f"delta holds the value {chance.max():.6g}; expected numbers between 0 and 1")
    return np.asarray(-np.log(chance))


def _at_least_0(name: str, value: ArrayLike) -> Floats:
    array = checks.numbers(name, value, "numbers")
    wrong = ~(array >= 0.0)  # NaN is never at least 0
    if wrong.any():
        raise InputError(f"{name} holds the value {array[wrong][0]:.6g}; expected numbers of at least 0")
    return array


def _positive(name: str, value: ArrayLike) -> Floats:
    array = checks.numbers(name, value, "numbers")
    wrong = ~((array > 0.0) & np.isfinite(array))
    if wrong.any():
        raise InputError(f"{name} holds the value {array[wrong][0]:.6g}; expected finite numbers above 0")
    return array
