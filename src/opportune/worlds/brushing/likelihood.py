"""The posterior of a user's weights given their sessions: log density, gradient and curvature.

The likelihood is the zero-inflated Poisson one of the uncapped outcome, the priors are independent N(0, 1).
"""

import numpy as np
from numpy.typing import NDArray

FloatArray = NDArray[np.float64]


def log_posterior(weights: FloatArray, g: FloatArray, y: FloatArray) -> tuple[float, FloatArray]:
    """Log posterior density of weights = [w_b; w_p] given rows g and outcomes y, and its gradient.

    y = 0: log(p0 + (1 - p0) e^-lam);  y > 0: log(1 - p0) - lam + y log lam - log y!.
    """
    width = g.shape[1]
    log_odds, log_rate, lam = predictors(weights, g)
    zero = y == 0
    each = np.where(zero, np.logaddexp(log_odds, -lam), -lam + y * log_rate - _log_factorial(y))
    value = np.sum(each - np.logaddexp(0.0, log_odds))
    value -= 0.5 * (weights @ weights) + width * np.log(2.0 * np.pi)
    idle = np.where(zero, sigmoid(log_odds + lam), 0.0)  # the probability that this zero meant no brushing at all
    by_odds = idle - sigmoid(log_odds)
    by_rate = np.where(zero, -(1.0 - idle) * lam, y - lam)
    return float(value), np.concatenate((g.T @ by_odds, g.T @ by_rate)) - weights


def sigmoid(v: FloatArray) -> FloatArray:
    """1 / (1 + e^-v), without overflow."""
    return np.asarray(np.exp(-np.logaddexp(0.0, -v)))


def _log_factorial(y: FloatArray) -> FloatArray:
    logs = np.log(np.arange(1.0, y.max() + 1.0))
    return np.asarray(np.concatenate(([0.0], np.cumsum(logs)))[y.astype(np.int64)])


def predictors(weights: FloatArray, g: FloatArray) -> tuple[FloatArray, FloatArray, FloatArray]:
    """Log odds of not brushing, log rate, rate; absurd rates, which occur only in line searches, are kept finite."""
    width = g.shape[1]
    log_rate = np.minimum(g @ weights[width:], 100.0)
    return g @ weights[:width], log_rate, np.exp(log_rate)


def curvature(weights: FloatArray, g: FloatArray, y: FloatArray) -> FloatArray:
    """Minus the Hessian of the log posterior."""
    log_odds, _, lam = predictors(weights, g)
    zero = y == 0
    idle = np.where(zero, sigmoid(log_odds + lam), 0.0)
    doubt = idle * (1.0 - idle)
    p0 = sigmoid(log_odds)
    odds_odds = p0 * (1.0 - p0) - doubt
    odds_rate = -doubt * lam
    rate_rate = np.where(zero, (1.0 - idle) * lam - doubt * lam**2, lam)
    off = (g.T * odds_rate) @ g
    blocks = np.block([[(g.T * odds_odds) @ g, off], [off.T, (g.T * rate_rate) @ g]])
    return np.asarray(blocks + np.eye(weights.size))
