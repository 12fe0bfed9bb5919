"""The mixed model with its whole covariance: what participants' coefficients have to do with each other."""

import numpy as np
import pytest
import statsmodels.api as sm

from opportune.inference.mixed import fit


def rows(seed: int, people: int = 60) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    rng = np.random.default_rng(seed)
    who = np.repeat(np.arange(people), 25)
    x = np.column_stack([np.ones(len(who)), rng.normal(size=len(who))])
    own = np.array([1.0, -0.5]) + rng.multivariate_normal([0, 0], [[0.36, 0.24], [0.24, 0.25]], size=people)
    return x, (x * own[who]).sum(axis=1) + rng.normal(0.0, 0.8, len(who)), who


def test_statsmodels_agrees() -> None:
    """Coefficients, their errors, the whole covariance and the noise are those of restricted likelihood."""
    x, y, who = rows(1)
    found = fit(x, y, who, ["a", "b"], correlated=True)
    result = sm.MixedLM(y, x, groups=who, exog_re=x).fit(reml=True)
    assert found.theta == pytest.approx(result.fe_params, abs=1e-4)
    assert found.se == pytest.approx(result.bse_fe, rel=1e-3)
    assert found.spread == pytest.approx(np.asarray(result.cov_re), abs=2e-3)
    assert found.sigma**2 == pytest.approx(result.scale, rel=1e-3)


def test_without_correlation_the_covariance_is_diagonal() -> None:
    """The control: told that coefficients have nothing to do with each other, the fit finds no covariance."""
    found = fit(*rows(1), ["a", "b"])
    assert found.spread[0, 1] == 0.0
    assert found.tau == pytest.approx([0.6, 0.5], abs=0.15)
