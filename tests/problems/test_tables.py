"""Functions of arrays that keep their results: the same numbers as without, and never those of something else."""

import numpy as np
import pytest
from numpy.typing import NDArray

from opportune.problems import tables
from opportune.problems.finite import Problem

Floats = NDArray[np.float64]
FEATURES = np.random.default_rng(1).normal(size=(4, 3, 2))
LABELS = np.array([0, 0, 1, 1])
PROBS = np.array([0.1, 0.2, 0.3, 0.4])


def test_means_are_computed_once_for_equal_arguments_only() -> None:
    """Equal arrays find the kept result; whatever differs, also in place, is computed."""
    first = tables.part_means(FEATURES, LABELS, 2, PROBS)
    np.testing.assert_allclose(first[1], (0.3 * FEATURES[2] + 0.4 * FEATURES[3]) / 0.7)
    assert tables.part_means(FEATURES.copy(), LABELS.copy(), 2, PROBS.copy()) is first
    changed = FEATURES.copy()
    changed[2] += 1.0
    np.testing.assert_allclose(tables.part_means(changed, LABELS, 2, PROBS)[1], first[1] + 0.3 / 0.7)
    changed[2] -= 1.0
    changed[3] += 1.0
    np.testing.assert_allclose(tables.part_means(changed, LABELS, 2, PROBS)[1], first[1] + 0.4 / 0.7)
    np.testing.assert_allclose(tables.part_means(FEATURES, LABELS, 2, None)[1], FEATURES[2:].mean(axis=0))
    np.testing.assert_allclose(
        tables.part_means(FEATURES, np.array([0, 1, 1, 0]), 2, None)[1], FEATURES[1:3].mean(axis=0)
    )


@pytest.mark.parametrize("shape", [(7, 3, 5), (300, 4, 9), (40, 2, 1), (3, 1, 1), (33, 17)])
def test_sums_are_taken_in_order(shape: tuple[int, ...]) -> None:
    """To the last bit what adding one after the other gives, on whatever processor: equal columns have equal sums."""
    rng = np.random.default_rng(5)
    weights, values = rng.random(shape[0]), rng.normal(size=shape)
    expected = np.zeros(shape[1:])
    for weight, value in zip(weights, values, strict=True):
        expected += weight * value
    np.testing.assert_array_equal(tables.weighted_sum(weights, values), expected)


def test_kept_results_cannot_be_written_to() -> None:
    """What is shared is read-only; what a problem hands out is one's own."""
    kept = tables.part_means(FEATURES, LABELS, 2, PROBS)
    with pytest.raises(ValueError, match="read-only"):
        kept[0] = 0.0
    problem = Problem(FEATURES, PROBS)
    own = problem.means(LABELS, 2, PROBS)
    own[:] = 0.0
    np.testing.assert_array_equal(problem.means(LABELS, 2, PROBS), kept)


def test_what_is_large_is_not_kept_and_what_is_kept_is_bounded() -> None:
    """Long arrays are computed each time, and of short ones only so many results are kept."""
    calls: list[int] = []

    @tables.remembered
    def doubled(values: Floats) -> Floats:
        calls.append(values.size)
        return 2.0 * values

    large = np.zeros(tables.LARGEST // 8 + 1)
    doubled(large)
    doubled(large)
    assert len(calls) == 2
    for _ in range(2):
        doubled(np.zeros(1))
    assert len(calls) == 3
    for i in range(tables.MOST):
        doubled(np.full(1, 1.0 + i))
    doubled(np.zeros(1))
    assert len(calls) == 3 + tables.MOST + 1


def test_problems_that_differ_in_bounds_share_their_tables() -> None:
    """Constants are those of a problem by itself, whichever came before it."""
    first, other = (Problem(FEATURES, PROBS, theta_bound=bound) for bound in (1.0, 3.0))
    at = first.layout(horizon=10)
    apart = first.constants(at, 10), other.constants(at, 10)
    assert (~np.isclose(*apart, rtol=1e-12)).sum() == 2 * first.d  # lam of each feature, for either kind of radius
    tilted = Problem(FEATURES, PROBS[::-1])
    assert (tilted.constants(at, 10) != apart[0]).sum() > 1
