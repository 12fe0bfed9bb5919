"""The paper's bounds: values worked out by hand, directions and limits."""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from opportune.algorithm.optimistic import bernstein_box
from opportune.analysis import bounds
from opportune.errors import InputError

E = math.e


def test_confidence_radius_by_hand() -> None:
    """The radius is R sqrt(2 ln(1/delta) + ln det V - d ln lam) + sqrt(lam) W."""
    # delta = e^-2, lam = 1/4, d = 2 and det V = e^12 / 16: the root is sqrt(4 + 12) = 4.
    radius = bounds.confidence_radius(
        12.0 - math.log(16.0), dimension=2, regularisation=0.25, norm_bound=6.0, delta=E**-2, noise_scale=0.5
    )
    assert radius == pytest.approx(0.5 * 4.0 + 0.5 * 6.0, rel=1e-12)


def test_confidence_radius_without_data() -> None:
    """Before any observation, with noise scale 1, the radius is sqrt(2 ln(1/delta)) + sqrt(lam) W."""
    lam = 1.0 / 9.0
    radius = bounds.confidence_radius(9 * math.log(lam), dimension=9, regularisation=lam, norm_bound=3.0, delta=0.05)
    assert radius == pytest.approx(math.sqrt(2.0 * math.log(20.0)) + 1.0, rel=1e-12)


def test_radius_bound_by_hand() -> None:
    """Gamma is 1 + R sqrt(2 ln(1/delta) + d ln(1 + T W^2 L^2 / d))."""
    # T W^2 L^2 / d = e - 1, so the root is sqrt(2 * 8 + 9) = 5.
    gamma = bounds.radius_bound(
        9.0 * (E - 1.0) / 36.0,
        dimension=9,
        norm_bound=2.0,
        feature_bound=3.0,
        delta=E**-8,
        noise_scale=[1.0, 0.1],
    )
    np.testing.assert_allclose(gamma, [6.0, 1.5], rtol=1e-12)


@settings(max_examples=100, deadline=None)
@given(st.integers(0, 2**32 - 1), st.integers(1, 60), st.integers(1, 6))
def test_radius_bound_holds(seed: int, horizon: int, dimension: int) -> None:
    """Gamma bounds the confidence radius of every run of T steps with ||x|| <= L and lam = 1/W^2."""
    rng = np.random.default_rng(seed)
    W, L = rng.uniform(0.1, 5.0, size=2)
    x = rng.normal(size=(horizon, dimension))
    x *= L / np.linalg.norm(x, axis=1, keepdims=True)
    log_det = np.linalg.slogdet(np.eye(dimension) / W**2 + x.T @ x)[1]
    radius = bounds.confidence_radius(
        log_det, dimension=dimension, regularisation=1.0 / W**2, norm_bound=W, delta=0.05, noise_scale=0.3
    )
    gamma = bounds.radius_bound(
        horizon, dimension=dimension, norm_bound=W, feature_bound=L, delta=0.05, noise_scale=0.3
    )
    assert radius <= gamma + 1e-9


def test_bandit_learning_loss_by_hand() -> None:
    """Proposition 2 adds what learning, stale advice and mistimed reveals may cost."""
    common = {"dimension": 2.0, "norm_bound": 1.0, "feature_bound": 1.0, "radius": 3.0}
    T = 2.0 * (E - 1.0)  # the logarithm is 1
    learning = math.sqrt(8.0 * T * 2.0 * 9.0)
    plain = bounds.bandit_learning_loss_bound(T, budget=5, tolerance_sum=7.0, largest_gap=0.5, **common)
    assert plain == pytest.approx(learning + 7.0 + 5.0, rel=1e-12)
    wide = bounds.bandit_learning_loss_bound(
        T, budget=5, tolerance_sum=7.0, largest_gap=0.5, context_ratio=[0.2, 2.0], **common
    )
    np.testing.assert_allclose(wide, [learning + 12.0, 2.0 * learning + 12.0], rtol=1e-12)


def test_regret_bound_by_hand() -> None:
    """Theorem 1 adds (1 - alpha) of the clairvoyant's gain; alpha = pi_min (1 - 1/c), not its inverse."""
    bound = bounds.regret_bound(10.0, budget=1.0, least_gap=0.5, clairvoyant_value=8.0)  # c = 2
    assert bound == pytest.approx(10.0 + 0.75 * 8.0, rel=1e-12)


def test_regret_bound_covers_reveal_loss() -> None:
    """The reveal part of the regret bound is never negative and never more than the clairvoyant's gain."""
    budget = np.geomspace(0.01, 1e4, 30)
    part = bounds.regret_bound(0.0, budget=budget, least_gap=0.3, clairvoyant_value=2.0)
    assert (part >= 0.0).all()
    assert (part <= 2.0).all()


def test_context_width_by_hand() -> None:
    """Zeta is sqrt(2 p (1 - p) l / n) + 7 l / (3 (n - 1)), with n and n - 1 at least 1."""
    # l = ln(2 K T / delta) = 6
    delta = 2.0 * 10.0 * 3.0 * E**-6
    width = bounds.context_width([0.5, 0.0, 0.5], [12.0, 15.0, 0.0], contexts=10, horizon=3, delta=delta)
    np.testing.assert_allclose(width, [0.5 + 14.0 / 11.0, 1.0, math.sqrt(3.0) + 14.0], rtol=1e-12)


def test_context_width_shrinks() -> None:
    """More observations narrow zeta to nothing; more contexts, times or certainty widen it."""
    width = bounds.context_width(0.3, [1, 10, 100, 1e4, 1e8], contexts=10, horizon=300, delta=0.05)
    assert (np.diff(width) < 0.0).all()
    assert width[-1] < 1e-2
    base = bounds.context_width(0.3, 50, contexts=10, horizon=300, delta=0.05)
    assert bounds.context_width(0.3, 50, contexts=20, horizon=300, delta=0.05) > base
    assert bounds.context_width(0.3, 50, contexts=10, horizon=600, delta=0.05) > base
    assert bounds.context_width(0.3, 50, contexts=10, horizon=300, delta=0.01) > base


def test_context_width_is_the_boxes_width() -> None:
    """The box that the optimistic agents use is the frequencies plus and minus `context_width`."""
    counts = np.array([400.0, 300.0, 290.0, 10.0])
    total = counts.sum()
    lower, upper = np.empty((2, 4))
    bernstein_box(counts, total, 0.05, 1000, lower, upper)
    width = bounds.context_width(counts / total, total, contexts=4, horizon=1000, delta=0.05)
    np.testing.assert_allclose(lower, np.maximum(0.0, counts / total - width), rtol=1e-12, atol=1e-15)
    np.testing.assert_allclose(upper, np.minimum(1.0, counts / total + width), rtol=1e-12)
    printed = bounds.context_width(counts / total, counts, contexts=4, horizon=1000, delta=0.05)
    assert (printed > width).all(), "with m(k, t) in its place, as Lemma F.2 prints it, the box is wider"


def test_unknown_context_loss_by_hand() -> None:
    """Proposition F.1 adds (W L + 1) times the summed widths to Proposition 2."""
    bound = bounds.unknown_context_loss_bound(10.0, width_sum=4.0, norm_bound=3.0, feature_bound=2.0)
    assert bound == pytest.approx(10.0 + 7.0 * 4.0, rel=1e-12)


def test_tolerance_by_hand() -> None:
    """At B = 10 and t = 10 the constants cancel to 1.2 Dmin, and beta_t falls as 1/sqrt(t)."""
    np.testing.assert_allclose(bounds.tolerance([10, 40], budget=10, least_distance=2.0), [2.4, 1.2], rtol=1e-12)


def test_tolerance_small_budget() -> None:
    """For budgets up to 1 the tolerance is infinite, just above 1 it is large and finite."""
    beta = bounds.tolerance(4.0, budget=[0.5, 1.0, 1.001, 2.0], least_distance=1.0)
    assert np.isinf(beta).tolist() == [True, True, False, False]
    assert beta[2] > 1000.0


def test_price_floor_by_hand() -> None:
    """The floor is 0 with nothing spent, 1 with everything spent, and (2^(1/2) - 1) half way at B = 1."""
    np.testing.assert_allclose(
        bounds.price_floor([0.0, 0.5, 1.0], budget=1.0), [0.0, math.sqrt(2.0) - 1.0, 1.0], atol=1e-15
    )
    for budget in (1e-6, 0.3, 12.5, 1e9):
        assert bounds.price_floor(budget, budget) == pytest.approx(1.0, rel=1e-12)


def test_price_floor_grows() -> None:
    """The floor rises with what is spent, faster and faster."""
    floor = bounds.price_floor(np.linspace(0.0, 20.0, 50), budget=20.0)
    assert (np.diff(floor) > 0.0).all()
    assert (np.diff(floor, n=2) > 0.0).all()


def test_competitive_bound_limits() -> None:
    """The certain share grows with B, is pi_min / 2 at B = 1 and tends to pi_min (1 - 1/e)."""
    share = bounds.competitive_bound([0.1, 1.0, 10.0, 1e3, 1e12], least_gap=0.5)
    assert (np.diff(share) > 0.0).all()
    assert share[1] == pytest.approx(0.25, rel=1e-12)
    assert share[-1] == pytest.approx(0.5 * (1.0 - 1.0 / E), rel=1e-9)


def test_bad_constants() -> None:
    """A constant outside its range is refused by name, with the value given."""
    with pytest.raises(InputError, match=r"delta holds the value 1; expected numbers between 0 and 1"):
        bounds.radius_bound(10, dimension=2, norm_bound=1.0, feature_bound=1.0, delta=1.0)
    with pytest.raises(InputError, match=r"budget holds the value 0; expected finite numbers above 0"):
        bounds.competitive_bound([5.0, 0.0], least_gap=0.1)
    with pytest.raises(InputError, match=r"spent holds the value -1"):
        bounds.price_floor(-1.0, budget=2.0)
    with pytest.raises(InputError, match=r"frequency holds the value 1.5"):
        bounds.context_width(1.5, 3, contexts=2, horizon=10, delta=0.1)
    with pytest.raises(InputError, match=r"log_det is -1 above d ln lam"):
        bounds.confidence_radius(-1.0, dimension=3, regularisation=1.0, norm_bound=1.0, delta=0.1)
    with pytest.raises(InputError, match=r"norm_bound holds the value nan"):
        bounds.confidence_radius(0.0, dimension=3, regularisation=1.0, norm_bound=np.nan, delta=0.1)
