"""The log posterior of a user's weights is its definition, and its derivatives are derivatives."""

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy import stats

from opportune.worlds.brushing.likelihood import curvature, log_posterior

Array = NDArray[np.float64]


def independent_log_posterior(weights: Array, g: Array, y: Array) -> float:
    """The log posterior straight from its definition, with scipy's distributions."""
    width = g.shape[1]
    p0 = 1 / (1 + np.exp(-g @ weights[:width]))
    lam = np.exp(g @ weights[width:])
    zero = np.log(p0 + (1 - p0) * np.exp(-lam))
    positive = np.log(1 - p0) + stats.poisson.logpmf(y, lam)
    return float(np.where(y == 0, zero, positive).sum() + stats.norm.logpdf(weights).sum())


def test_log_posterior_is_the_definition() -> None:
    """The log posterior equals the zero-inflated Poisson likelihood times N(0, 1) priors."""
    source = np.random.default_rng(5)
    g = source.normal(size=(40, 6))
    y = np.where(source.random(40) < 0.4, 0, source.poisson(3.0, size=40)).astype(np.float64)
    for scale in (0.1, 0.5, 1.0):
        weights = scale * source.normal(size=12)
        value = log_posterior(weights, g, y)[0]
        assert value == pytest.approx(independent_log_posterior(weights, g, y), rel=1e-12)


def test_gradient_and_curvature_are_derivatives() -> None:
    """The gradient and the Hessian agree with finite differences, also where zeros could be either kind."""
    source = np.random.default_rng(6)
    g = source.normal(size=(40, 5))
    y = np.where(source.random(40) < 0.4, 0, source.poisson(1.5, size=40)).astype(np.float64)
    weights = 0.5 * source.normal(size=10)
    gradient = log_posterior(weights, g, y)[1]
    hessian = curvature(weights, g, y)
    for j, direction in enumerate(1e-5 * np.eye(10)):
        above, below = (log_posterior(weights + s * direction, g, y) for s in (1, -1))
        assert (above[0] - below[0]) / 2e-5 == pytest.approx(gradient[j], rel=1e-6, abs=1e-6)
        np.testing.assert_allclose((below[1] - above[1]) / 2e-5, hessian[j], rtol=1e-6, atol=1e-6)
