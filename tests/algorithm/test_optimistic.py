"""The optimistic blind value: exact search against brute force, alternation against the exact search."""

import itertools
from typing import NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray
from scipy.optimize import linprog

from opportune.algorithm.optimistic import (
    EXACT_LIMIT,
    bernstein_box,
    greedy_fill,
    optimistic,
    optimistic_alternating,
    optimistic_exact,
    optimistic_gradient,
    optimistic_value,
    work_rows,
)

Floats = NDArray[np.float64]


class Instance(NamedTuple):
    """One action's means and gram matrix, the confidence radius, and the box of context probabilities."""

    mean: Floats
    gram: Floats
    radius: float
    lower: Floats
    upper: Floats


def draw(rng: np.random.Generator, contexts: int) -> Instance:
    """A random instance: any feature dimension, radii from small to dominating, boxes from tight to all."""
    d = int(rng.integers(1, contexts + 3))
    features = rng.normal(size=(contexts, d))
    root = rng.normal(size=(d, d))
    p = rng.dirichlet(np.full(contexts, rng.choice([0.5, 1.0, 5.0])))
    zeta = rng.uniform(0.0, rng.choice([0.05, 0.2, 1.0]), size=contexts)
    return Instance(
        mean=features @ rng.normal(size=d),
        gram=features @ (root @ root.T / d) @ features.T,
        radius=float(rng.choice([0.3, 3.0, 30.0]) * rng.uniform()),
        lower=np.maximum(0.0, p - zeta),
        upper=np.minimum(1.0, p + zeta),
    )


def solve(instance: Instance, exact: bool = True) -> tuple[float, Floats]:
    """The maximum and the maximiser, with scratch space that holds garbage to begin with."""
    contexts = instance.mean.size
    p, work = np.full(contexts, np.nan), np.full((work_rows(contexts), contexts), np.nan)
    search = optimistic_exact if exact else optimistic_alternating
    return search(*instance, p, work), p


def vertices(lower: Floats, upper: Floats) -> list[Floats]:
    """Every vertex of the box cut with the simplex, the plain way."""
    found = []
    for free in range(lower.size):
        others = [k for k in range(lower.size) if k != free]
        for ends in itertools.product((0, 1), repeat=len(others)):
            p = np.empty(lower.size)
            p[others] = [upper[k] if end else lower[k] for k, end in zip(others, ends, strict=True)]
            p[free] = 1.0 - p[others].sum()
            if lower[free] - 1e-12 <= p[free] <= upper[free] + 1e-12:
                found.append(p)
    return found


def test_exact_is_the_best_vertex() -> None:
    """The exact search finds the value of the best vertex among all of them, for up to 6 contexts."""
    rng = np.random.default_rng(1)
    for contexts in [1, 2, 3, 4, 5, 6] * 25:
        instance = draw(rng, contexts)
        best = max(
            optimistic_value(instance.mean, instance.gram, instance.radius, p)
            for p in vertices(instance.lower, instance.upper)
        )
        value, p = solve(instance)
        assert value == pytest.approx(best, rel=1e-11, abs=1e-11)
        assert value == optimistic_value(instance.mean, instance.gram, instance.radius, p)


def test_exact_beats_a_grid() -> None:
    """No point of a fine grid on the box cut with the simplex is better, and the best one comes close."""
    rng = np.random.default_rng(2)
    side = np.linspace(0.0, 1.0, 201)
    p0, p1 = (axis.ravel() for axis in np.meshgrid(side, side))
    grid = np.stack([p0, p1, 1.0 - p0 - p1], axis=1)
    for _ in range(100):
        m, G, radius, lower, upper = instance = draw(rng, 3)
        p = grid[((grid >= lower) & (grid <= upper)).all(axis=1)]
        if not p.size:
            continue
        values = p @ m + radius * np.sqrt(np.maximum(0.0, np.einsum("ni,ij,nj->n", p, G, p)))
        value, _ = solve(instance)
        steepest = np.abs(m).max() + radius * np.sqrt(np.diag(G).max())
        assert values.max() <= value + 1e-11
        assert values.max() >= value - 4 * (1 / 200) * steepest


def test_maximiser_is_a_feasible_vertex() -> None:
    """Both searches write a distribution inside the box, with at most one coordinate off its bounds."""
    rng = np.random.default_rng(3)
    for contexts in range(1, 13):
        for exact in (True, False):
            instance = draw(rng, contexts)
            _, p = solve(instance, exact)
            assert p.sum() == pytest.approx(1.0, abs=1e-12)
            assert (p >= instance.lower - 1e-12).all()
            assert (p <= instance.upper + 1e-12).all()
            inside = (p > instance.lower + 1e-12) & (p < instance.upper - 1e-12)
            assert inside.sum() <= 1


def test_alternation_against_exact() -> None:
    """The alternation never exceeds the exact maximum, and attains it in all but 1 in 100 cases.

    Measured over 45,000 such instances: it attains the maximum in 99.8% of them, at worst in 99.5% (12
    contexts, dominating radius), and where it does not it falls short by 2% at most.
    """
    rng = np.random.default_rng(4)
    short = []
    for contexts in [2, 4, 6, 8, 10] * 300:
        instance = draw(rng, contexts)
        exact, alternating = solve(instance)[0], solve(instance, exact=False)[0]
        short.append((exact - alternating) / max(1.0, abs(exact)))
    assert min(short) >= -1e-11
    assert np.mean(np.array(short) <= 1e-9) >= 0.99
    assert max(short) < 0.05


def test_alternation_climbs() -> None:
    """A round of the alternation never lowers the value, from any distribution in the box."""
    rng = np.random.default_rng(5)
    for contexts in [2, 5, 10, 20] * 20:
        m, G, radius, lower, upper = draw(rng, contexts)
        slope, p, order = np.empty(contexts), np.empty(contexts), np.empty(contexts)
        greedy_fill(rng.normal(size=contexts), lower, upper, p, order)
        value = optimistic_gradient(m, G, radius, p, slope)
        assert value == pytest.approx(optimistic_value(m, G, radius, p), rel=1e-12)
        for _ in range(5):
            greedy_fill(slope, lower, upper, p, order)
            new = optimistic_gradient(m, G, radius, p, slope)
            assert new >= value - 1e-11 * max(1.0, abs(value))
            value = new


def test_greedy_fill_is_the_linear_program() -> None:
    """Filling the largest scores first attains the linear program's optimum, and stays in the box."""
    rng = np.random.default_rng(6)
    for contexts in [1, 3, 10, 25] * 10:
        instance = draw(rng, contexts)
        p, order = np.empty(contexts), np.empty(contexts)
        value = greedy_fill(instance.mean, instance.lower, instance.upper, p, order)
        bounds = list(zip(instance.lower, instance.upper, strict=True))
        answer = linprog(-instance.mean, A_eq=np.ones((1, contexts)), b_eq=[1.0], bounds=bounds)
        assert value == pytest.approx(-answer.fun, abs=1e-7)
        assert value == pytest.approx(p @ instance.mean, rel=1e-12)
        assert p.sum() == pytest.approx(1.0, abs=1e-12)


def test_without_confidence_radius() -> None:
    """With radius 0 the optimistic value is the linear program's, by either search."""
    rng = np.random.default_rng(7)
    for _ in range(50):
        instance = draw(rng, 8)._replace(radius=0.0)
        best = greedy_fill(instance.mean, instance.lower, instance.upper, np.empty(8), np.empty(8))
        assert solve(instance)[0] == pytest.approx(best, rel=1e-12)
        assert solve(instance, exact=False)[0] == pytest.approx(best, rel=1e-12)


def test_before_any_observation() -> None:
    """The box is then all of [0, 1], and the optimistic value is that of the single best context."""
    lower, upper = np.empty(10), np.empty(10)
    bernstein_box(np.zeros(10), 0.0, 0.05, 300, lower, upper)
    np.testing.assert_array_equal(lower, np.zeros(10))
    np.testing.assert_array_equal(upper, np.ones(10))
    m, G, radius, *_ = draw(np.random.default_rng(8), 10)
    ucb = m + radius * np.sqrt(np.diag(G))
    for exact in (True, False):
        value, p = solve(Instance(m, G, radius, lower, upper), exact)
        assert value == pytest.approx(ucb.max(), rel=1e-12)
        np.testing.assert_array_equal(p, np.eye(10)[ucb.argmax()])


def test_box_holds_the_frequencies() -> None:
    """The box holds the observed frequencies and shrinks to them."""
    rng = np.random.default_rng(9)
    for total in (1, 10, 300, 10_000, 1_000_000):
        counts = rng.multinomial(total, rng.dirichlet(np.ones(6))).astype(float)
        lower, upper = np.empty((2, 6))
        bernstein_box(counts, float(total), 0.05, 300, lower, upper)
        assert (lower <= counts / total).all()
        assert (upper >= counts / total).all()
    assert (upper - lower).max() < 0.02


def test_box_of_one_point() -> None:
    """When the bounds leave one distribution, that one is the maximiser."""
    p = np.array([0.2, 0.5, 0.3])
    m, G, radius, *_ = draw(np.random.default_rng(10), 3)
    wide = np.array([0.9, 0.9, 0.9])
    for lower, upper in ((p, p), (p, wide), (np.zeros(3), p)):
        for exact in (True, False):
            value, found = solve(Instance(m, G, radius, lower, upper), exact)
            np.testing.assert_allclose(found, p, atol=1e-12)
            assert value == pytest.approx(optimistic_value(m, G, radius, p), rel=1e-12)


def test_ties_go_to_the_lowest_index() -> None:
    """Contexts that cannot be told apart are filled in the order of their index."""
    mean, gram = np.full(4, 0.5), np.full((4, 4), 0.2)
    lower, upper = np.full(4, 0.1), np.array([0.3, 0.4, 0.5, 0.6])
    for exact in (True, False):
        _, p = solve(Instance(mean, gram, 1.0, lower, upper), exact)
        np.testing.assert_allclose(p, [0.3, 0.4, 0.2, 0.1], atol=1e-12)


def test_many_contexts() -> None:
    """`optimistic` searches exactly up to its limit and alternates beyond it."""
    rng = np.random.default_rng(11)
    for contexts, exact in ((EXACT_LIMIT, True), (EXACT_LIMIT + 1, False), (60, False)):
        instance = draw(rng, contexts)
        p, work = np.empty(contexts), np.empty((work_rows(contexts), contexts))
        value = optimistic(*instance, p, work)
        assert (value, p.tolist()) == (solve(instance, exact)[0], solve(instance, exact)[1].tolist())
