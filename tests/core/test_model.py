"""Ridge regression one observation at a time, against a fresh solve (SPEC section 2)."""

import math
from typing import Any

import numpy as np
import pytest
from numba import njit
from numpy.typing import NDArray

from opportune.core import layout as L  # noqa: N812  (at[L.THETA]: where theta lies)
from opportune.core import model as ridge
from opportune.core.model import best, largest_in_table, observe, score, set_radius
from opportune.core.protocol import score_block
from opportune.problems.finite import Problem
from opportune.worlds.linear import synthetic_worlds

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@njit
def begin(at, facts, s):  # type: ignore[no-untyped-def]
    """The step functions are called from compiled code only; these are the doors to them."""
    ridge.reset(at, facts, s)


@njit
def observe_rows(at, facts, s, rows, counts, totals):  # type: ignore[no-untyped-def]
    for i in range(rows.shape[0]):
        observe(at, facts, s, facts, at[L.ROWS] + rows[i] * at[L.D], counts[i], totals[i])
        set_radius(at, facts, s)


@njit
def score_row(at, facts, s, row):  # type: ignore[no-untyped-def]
    return score(at, s, at[L.THETA], at[L.COV], s[at[L.RADIUS]], 0, facts, at[L.ROWS] + row * at[L.D])


@njit
def best_in_block(at, facts, s, block):  # type: ignore[no-untyped-def]
    score_block(at, facts, s, block)
    return best(at, s)


@njit
def best_of(at, s, values):  # type: ignore[no-untyped-def]
    for a in range(at[L.ACTIONS]):
        s[at[L.UCB] + a] = values[a]
    return best(at, s)


@njit
def largest(at, s, first, last):  # type: ignore[no-untyped-def]
    return largest_in_table(at, s, first, last)


class Learner:
    """The compiled learner on a problem's rows, and the same observations for a fresh solve."""

    def __init__(self, problem: Problem, **form: Any) -> None:
        layout = problem.layout(**form)
        self.problem = problem
        self.at: Ints = np.array(layout)
        self.facts = problem.facts(layout, 300)
        self.s: Floats = np.full(layout.size, np.nan)
        size = len(problem.features) + problem.cells + (problem.senses if problem.reported else 0)
        rows = self.facts[layout.rows : layout.rows + size * problem.actions * problem.d]
        self.rows: Floats = rows.reshape(-1, problem.d)
        begin(self.at, self.facts, self.s)

    def observe(self, rows: Any, totals: Any, counts: Any = None) -> None:
        """Learn from rows, each seen `counts` times with rewards that sum to `totals`."""
        counted = np.ones(len(rows)) if counts is None else np.asarray(counts, dtype=np.float64)
        observe_rows(self.at, self.facts, self.s, np.asarray(rows), counted, np.asarray(totals, dtype=np.float64))

    def part(self, place: int, size: int) -> Floats:
        """A stretch of the state."""
        begin = self.at[place]
        return self.s[begin : begin + size]

    @property
    def means(self) -> Floats:
        """<x, theta> of every row, as kept."""
        return self.part(L.MEAN, len(self.rows))

    @property
    def widths(self) -> Floats:
        """sqrt(x' V^-1 x) of every row, as kept."""
        return np.sqrt(self.part(L.WIDTH2, len(self.rows)))

    @property
    def theta(self) -> Floats:
        """The estimate."""
        return self.part(L.THETA, self.problem.d)

    @property
    def cov(self) -> Floats:
        """V^-1."""
        d, stride = self.problem.d, self.at[L.STRIDE]
        return self.part(L.COV, d * stride).reshape(d, stride)[:, :d]

    @property
    def radius(self) -> float:
        """The confidence radius."""
        return float(self.s[self.at[L.RADIUS]])


class Solved:
    """The same from SPEC's formulas, all observations at once."""

    def __init__(self, problem: Problem, rows: Floats, x: Floats, rewards: Floats) -> None:
        lam, d = problem.regularisation, problem.d
        V = lam * np.eye(d) + x.T @ x
        self.theta = np.linalg.solve(V, x.T @ rewards)
        self.cov = np.linalg.inv(V)
        self.means = rows @ self.theta
        self.widths = np.sqrt(np.einsum("ij,ji->i", rows, np.linalg.solve(V, rows.T)))
        inside = 2.0 * math.log(1.0 / problem.delta) + np.linalg.slogdet(V)[1] - d * math.log(lam)
        self.radius = problem.noise_sd * math.sqrt(inside) + math.sqrt(lam) * problem.theta_bound


def random_problem(rng: np.random.Generator, *, contexts: int, actions: int, d: int) -> Problem:
    return Problem(
        rng.normal(size=(contexts, actions, d)),
        rng.dirichlet(np.ones(contexts)),
        noise_sd=0.3,
        theta_bound=2.0,
    )


def problems() -> list[Any]:
    rng = np.random.default_rng(1)
    shapes = [(2, 2, 2), (6, 3, 5), (4, 4, 17), (30, 2, 9), (3, 2, 33)]
    some = [
        pytest.param(random_problem(rng, contexts=k, actions=a, d=d), id=f"random {k}x{a}x{d}") for k, a, d in shapes
    ]
    synthetic = [pytest.param(world.problem, id=f"synthetic, {world.name}") for world in synthetic_worlds(2, 1)]
    return [*synthetic, *some]


def compare(learner: Learner, shown: Ints, rng: np.random.Generator) -> None:
    """Learn from these rows, and hold everything kept incrementally to a fresh solve: relative error 1e-8."""
    theta = rng.uniform(size=learner.problem.d)
    rewards = learner.rows[shown] @ theta + 0.1 * rng.normal(size=shown.size)
    learner.observe(shown, rewards)
    fresh = Solved(learner.problem, learner.rows, learner.rows[shown], rewards)
    np.testing.assert_allclose(learner.means, fresh.means, rtol=1e-8)
    np.testing.assert_allclose(learner.widths, fresh.widths, rtol=1e-8)
    np.testing.assert_allclose(learner.theta, fresh.theta, rtol=1e-8, atol=1e-8 * np.abs(fresh.theta).max())
    np.testing.assert_allclose(learner.cov, fresh.cov, rtol=1e-8, atol=1e-8 * np.abs(fresh.cov).max())
    assert learner.radius == pytest.approx(fresh.radius, rel=1e-9)


@pytest.mark.parametrize("problem", problems())
def test_no_drift_in_ten_thousand_steps(problem: Problem) -> None:
    """After 10,000 observations means, widths, estimate and covariance are a fresh solve's to 1e-8."""
    rng = np.random.default_rng(2)
    shown = rng.integers(0, problem.contexts * problem.actions, size=10_000)
    compare(Learner(problem), shown, rng)


@pytest.mark.parametrize("others", [0.0, 0.001])
def test_no_drift_once_the_bandit_has_settled(others: float) -> None:
    """Nor if nearly all 10,000 observations are of one action, where the covariance is worst conditioned."""
    problem = synthetic_worlds(1, 1)[0].problem
    rng = np.random.default_rng(3)
    context = rng.integers(0, problem.contexts, size=10_000)
    action = np.where(rng.random(10_000) < others, rng.integers(0, problem.actions, size=10_000), 3)
    compare(Learner(problem), context * problem.actions + action, rng)


def test_no_drift_at_any_time() -> None:
    """The kept means and widths follow a fresh solve all the way, not only at the end."""
    problem = random_problem(np.random.default_rng(4), contexts=4, actions=3, d=5)
    rng = np.random.default_rng(5)
    for steps in (1, 2, 5, 20, 100, 1000):
        compare(Learner(problem), rng.integers(0, 12, size=steps), rng)


def test_before_any_data() -> None:
    """Without data the estimate is 0, V is lam I and the radius has no term for data."""
    problem = random_problem(np.random.default_rng(6), contexts=4, actions=3, d=5)
    learner = Learner(problem)
    np.testing.assert_array_equal(learner.theta, np.zeros(5))
    np.testing.assert_array_equal(learner.means, np.zeros(len(learner.rows)))
    np.testing.assert_allclose(learner.cov, np.eye(5) / problem.regularisation, rtol=1e-15)
    np.testing.assert_allclose(learner.widths, np.linalg.norm(learner.rows, axis=1) * 2.0, rtol=1e-14)
    assert learner.radius == pytest.approx(0.3 * math.sqrt(2 * math.log(20)) + 1.0, rel=1e-14)


def test_weighted_observation_equals_repeated_ones() -> None:
    """One observation of weight n whose rewards sum to X is worth n observations whose rewards sum to X."""
    problem = random_problem(np.random.default_rng(7), contexts=5, actions=3, d=4)
    rng = np.random.default_rng(8)
    rewards = rng.normal(size=(15, 7))
    repeated, weighted = Learner(problem), Learner(problem)
    for row in range(15):
        repeated.observe(np.full(7, row), rewards[row])
    weighted.observe(np.arange(15), rewards.sum(axis=1), np.full(15, 7.0))
    for name in ("means", "widths", "theta", "cov"):
        np.testing.assert_allclose(getattr(weighted, name), getattr(repeated, name), rtol=1e-11, atol=1e-13)
    assert weighted.radius == pytest.approx(repeated.radius, rel=1e-12)


def test_order_does_not_matter() -> None:
    """The same observations in another order give the same knowledge."""
    problem = random_problem(np.random.default_rng(9), contexts=5, actions=3, d=4)
    rng = np.random.default_rng(10)
    shown, rewards = rng.integers(0, 15, size=200), rng.normal(size=200)
    order = rng.permutation(200)
    first, second = Learner(problem), Learner(problem)
    first.observe(shown, rewards)
    second.observe(shown[order], rewards[order])
    np.testing.assert_allclose(second.means, first.means, rtol=1e-10, atol=1e-13)
    np.testing.assert_allclose(second.widths, first.widths, rtol=1e-10)


def test_scores_on_the_spot_equal_kept_ones() -> None:
    """A row's score is the same read from the table and computed from the estimates."""
    problem = random_problem(np.random.default_rng(11), contexts=5, actions=3, d=4)
    rng = np.random.default_rng(12)
    shown, rewards = rng.integers(0, 15, size=50), rng.normal(size=50)
    kept, spot = Learner(problem), Learner(problem, table=False)
    kept.observe(shown, rewards)
    spot.observe(shown, rewards)
    assert spot.at[L.TABLE] == 0
    ucb = kept.means + kept.radius * kept.widths
    for row, expected in enumerate(ucb):
        assert score_row(kept.at, kept.facts, kept.s, row) == pytest.approx(expected, rel=1e-11)
        assert score_row(spot.at, spot.facts, spot.s, row) == pytest.approx(expected, rel=1e-11)
    for context in range(problem.contexts + 1):
        scores = ucb[3 * context : 3 * context + 3]
        for learner in (kept, spot):
            top, action = best_in_block(learner.at, learner.facts, learner.s, context)
            assert (top, action) == (pytest.approx(scores.max(), rel=1e-11), scores.argmax())


@pytest.mark.parametrize("known", [True, False])
def test_listed_rows_learn_and_score_as_whole_ones(known: bool) -> None:
    """Where rows are listed by what is not zero in them, what is learned and every score are the same."""
    problem = synthetic_worlds(1, seed=3, known=known)[0].problem
    rng = np.random.default_rng(15)
    shown, rewards = rng.integers(0, 50, size=60), rng.normal(size=60)
    whole, listed = Learner(problem, table=False), Learner(problem, table=False, support=problem.support)
    assert (whole.at[L.SUPPORT], listed.at[L.SUPPORT]) == (0, 3)
    for learner in (whole, listed):
        learner.observe(shown, rewards)
    np.testing.assert_array_equal(listed.theta, whole.theta)
    np.testing.assert_array_equal(listed.cov, whole.cov)
    for context in range(problem.contexts + (problem.cells if known else 0)):
        scores = [best_in_block(x.at, x.facts, x.s, context) for x in (whole, listed)]
        assert scores[1] == pytest.approx(scores[0], rel=1e-13)


def test_rows_without_many_zeros_are_not_listed() -> None:
    """Lists take two numbers for each one that is not zero, and pay only where most are."""
    rng = np.random.default_rng(16)
    dense = random_problem(rng, contexts=5, actions=3, d=4)
    assert dense.support == 4
    assert dense.layout(support=4).support == 0
    features = rng.normal(size=(5, 3, 4)) * [1.0, 0.0, 1.0, 0.0]
    sparse = Problem(features, rng.dirichlet(np.ones(5)), noise_sd=0.3, theta_bound=2.0)
    assert sparse.support == 2
    assert sparse.layout(support=2).support == 2


def test_largest_score_in_the_table() -> None:
    """The largest score among some rows is theirs alone, whatever the rows around them score."""
    problem = random_problem(np.random.default_rng(13), contexts=9, actions=3, d=4)
    rng = np.random.default_rng(14)
    learner = Learner(problem)
    learner.observe(rng.integers(0, 27, size=40), rng.normal(size=40))
    ucb = learner.means + learner.radius * learner.widths
    for first, last in [(0, 27), (0, 1), (5, 6), (3, 20), (26, 27)]:
        assert largest(learner.at, learner.s, first, last) == pytest.approx(ucb[first:last].max(), rel=1e-14)


def test_ties_go_to_the_lowest_action() -> None:
    """Scores within 1e-12 of the largest count as equal, and the lowest action among them is taken."""
    problem = random_problem(np.random.default_rng(15), contexts=2, actions=4, d=3)
    learner = Learner(problem)
    cases = [
        ([1.0, 1.0, 1.0, 1.0], 0),
        ([0.0, 1.0, 1.0, 0.5], 1),
        ([1.0 - 5e-13, 1.0, 0.0, 0.0], 0),
        ([1.0 - 2e-12, 1.0, 0.0, 1.0], 1),
        ([0.0, 1.0 - 1.5e-12, 1.0 - 8e-13, 1.0], 2),
        ([-3.0, -2.0, -2.0, -2.0 - 1e-13], 1),
        ([0.0, 0.0, 0.0, 1e-11], 3),
    ]
    for values, action in cases:
        assert best_of(learner.at, learner.s, np.array(values)) == (max(values), action)


def test_actions_that_cannot_be_told_apart_stay_tied() -> None:
    """Actions with equal features keep equal scores whatever is learned; the lower one is taken."""
    rng = np.random.default_rng(16)
    features = rng.normal(size=(4, 3, 5))
    features[:, 2] = features[:, 1]
    learner = Learner(Problem(features, np.full(4, 0.25)))
    for _ in range(300):
        learner.observe(rng.integers(0, 12, size=1), rng.normal(size=1))
        for context in range(5):
            rows = 3 * context + np.array([1, 2])
            assert len(set(learner.means[rows])) == 1
            assert len(set(learner.widths[rows])) == 1
            assert best_in_block(learner.at, learner.facts, learner.s, context)[1] in {0, 1}
