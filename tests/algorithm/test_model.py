"""Ridge regression one observation at a time, against a fresh solve (docs/paper.md, Learning)."""

import math
from typing import Any

import numpy as np
import pytest
from numba import njit
from numpy.typing import NDArray

from opportune.algorithm.model import adjust, best, largest_in_table, observe, reset, score, set_radius
from opportune.algorithm.scores import score_block
from opportune.engine.declared import ARRAYS, POINTWISE, UNIFORM
from opportune.engine.pointers import aligned
from opportune.engine.views import handle_of, participant_at
from opportune.problems.finite import Problem
from opportune.worlds.linear import synthetic_worlds

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


@njit
def begin(handle):  # type: ignore[no-untyped-def]
    """The step functions are called from compiled code only; these are the doors to them."""
    p = participant_at(handle)
    reset(p)


@njit
def observe_rows(handle, rows, counts, totals):  # type: ignore[no-untyped-def]
    p = participant_at(handle)
    n, constants = p.sizes, p.constants
    for i in range(rows.shape[0]):
        observe(
            n, constants, p.model, p.scratch.w, n.support, constants.rows, constants.lists, rows[i] * n.d,
            counts[i], totals[i],
        )  # fmt: skip
        set_radius(p)


@njit
def adjust_row(handle, row, difference):  # type: ignore[no-untyped-def]
    p = participant_at(handle)
    n, rows, lists = p.sizes, p.constants.rows, p.constants.lists
    adjust(n, p.constants, p.model, p.scratch.w, n.support, rows, lists, row * n.d, difference)
    set_radius(p)


@njit
def score_row(handle, row):  # type: ignore[no-untyped-def]
    p = participant_at(handle)
    rows, model = p.constants.rows, p.model
    return score(p.sizes, model.theta, model.cov, model.radius[0], p.scratch.w, 0, rows, rows, row * p.sizes.d)


@njit
def best_in_block(handle, block):  # type: ignore[no-untyped-def]
    p = participant_at(handle)
    score_block(p, block, p.model.radius[0])
    return best(p.sizes, p.scratch.ucb)


@njit
def best_of(handle, values):  # type: ignore[no-untyped-def]
    p = participant_at(handle)
    return best(p.sizes, values)


@njit
def largest(handle, end):  # type: ignore[no-untyped-def]
    return largest_in_table(participant_at(handle).model, end)


class Learner:
    """The compiled learner on a problem's rows, and the same observations for a fresh solve."""

    def __init__(self, problem: Problem, *, radius: int = UNIFORM, **form: Any) -> None:
        at = problem.layout(**form)
        self.problem = problem
        self.sizes = at.sizes
        constants = problem.constants(at, 300)
        state = {name: aligned(at.length(name)) for name in ARRAYS if name != "constants"}
        for array in state.values():
            array[:] = np.nan
        at.views("rule", state["rule"]).radius[0] = radius
        self._kept = at.numbers(), {"constants": constants, **state}
        self.handle: Ints = handle_of(*self._kept)
        self.model: Any = at.views("model", state["model"])
        blocks = len(problem.features) + (problem.strata if problem.context_probs is not None else 0)
        rows: Floats = at.views("constants", constants).rows[: blocks * problem.actions * problem.d]
        self.rows = rows.reshape(-1, problem.d)
        begin(self.handle)

    def observe(self, rows: Any, totals: Any, counts: Any = None) -> None:
        """Learn from rows, each seen `counts` times with rewards that sum to `totals`."""
        counted = np.ones(len(rows)) if counts is None else np.asarray(counts, dtype=np.float64)
        observe_rows(self.handle, np.asarray(rows), counted, np.asarray(totals, dtype=np.float64))

    @property
    def means(self) -> Floats:
        """<x, theta> of every row, as kept."""
        return np.asarray(self.model.mean[: len(self.rows)])

    @property
    def widths(self) -> Floats:
        """sqrt(x' V^-1 x) of every row, as kept."""
        width2: Floats = self.model.width2[: len(self.rows)]
        return np.sqrt(width2)

    @property
    def theta(self) -> Floats:
        """The estimate."""
        return np.asarray(self.model.theta[: self.problem.d])

    @property
    def cov(self) -> Floats:
        """V^-1."""
        d, stride = self.problem.d, self.sizes.stride
        return np.asarray(self.model.cov[: d * stride].reshape(d, stride)[:, :d])

    @property
    def radius(self) -> float:
        """The confidence radius."""
        return float(self.model.radius[0])


class Solved:
    """The same from the formulas of docs/paper.md, all observations at once."""

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


@pytest.mark.parametrize("given", [None, 0.3])
def test_pointwise_radius(given: float | None) -> None:
    """It has sqrt(||theta||^2 + R^2 tr V^-1) in place of W, with lam = d R^2/W^2 unless lam was given.

    A correction of a reward changes theta, and with it the radius.
    """
    rng = np.random.default_rng(18)
    problem = random_problem(rng, contexts=4, actions=3, d=5).replace(regularisation=given)
    lam = 5 * 0.3**2 / 2.0**2 if given is None else given
    learner, noise = Learner(problem, radius=POINTWISE), 0.3 * math.sqrt(2 * math.log(20))
    assert problem.pointwise_regularisation == pytest.approx(lam, rel=1e-14)
    np.testing.assert_allclose(learner.cov, np.eye(5) / lam, rtol=1e-14)
    assert learner.radius == pytest.approx(noise + math.sqrt(lam) * 2.0, rel=1e-14)
    shown, rewards = rng.integers(0, 12, size=30), rng.normal(size=30)

    def expected() -> float:
        x = learner.rows[shown]
        V = lam * np.eye(5) + x.T @ x
        theta = np.linalg.solve(V, x.T @ rewards)
        return noise + math.sqrt(lam * float(theta @ theta + 0.3**2 * np.trace(np.linalg.inv(V))))

    learner.observe(shown, rewards)
    before = expected()
    assert learner.radius == pytest.approx(before, rel=1e-10)
    rewards[3] += 2.0
    adjust_row(learner.handle, shown[3], 2.0)
    assert learner.radius == pytest.approx(expected(), rel=1e-10)
    assert abs(expected() - before) > 1e-3


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


@pytest.mark.parametrize("support", [0, 3])
def test_a_corrected_reward_counts_as_if_it_had_been_right(support: int) -> None:
    """A reward corrected later, between other observations, leaves the knowledge that the right one would have."""
    problem = synthetic_worlds(1, seed=5)[0].problem
    rng = np.random.default_rng(17)
    shown, rewards = rng.integers(0, 50, size=40), rng.normal(size=40)
    right, corrected = Learner(problem, support=support), Learner(problem, support=support)
    right.observe(shown, rewards)
    wrong = rewards.copy()
    wrong[[3, 7]] += [2.0, -0.5]
    corrected.observe(shown[:30], wrong[:30])
    adjust_row(corrected.handle, shown[3], -2.0)
    corrected.observe(shown[30:], wrong[30:])
    assert np.abs(corrected.theta - right.theta).max() > 1e-4  # one is wrong still
    adjust_row(corrected.handle, shown[7], 0.5)
    for name in ("means", "widths", "theta", "cov"):
        np.testing.assert_allclose(getattr(corrected, name), getattr(right, name), rtol=1e-9, atol=1e-11)
    assert corrected.radius == right.radius


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
    assert spot.sizes.table == 0
    ucb = kept.means + kept.radius * kept.widths
    for row, expected in enumerate(ucb):
        assert score_row(kept.handle, row) == pytest.approx(expected, rel=1e-11)
        assert score_row(spot.handle, row) == pytest.approx(expected, rel=1e-11)
    for context in range(problem.contexts + 1):
        scores = ucb[3 * context : 3 * context + 3]
        for learner in (kept, spot):
            top, action = best_in_block(learner.handle, context)
            assert (top, action) == (pytest.approx(scores.max(), rel=1e-11), scores.argmax())


@pytest.mark.parametrize("known", [True, False])
def test_listed_rows_learn_and_score_as_whole_ones(known: bool) -> None:
    """Where rows are listed by what is not zero in them, what is learned and every score are the same."""
    problem = synthetic_worlds(1, seed=3, known=known)[0].problem
    rng = np.random.default_rng(15)
    shown, rewards = rng.integers(0, 50, size=60), rng.normal(size=60)
    whole, listed = Learner(problem, table=False), Learner(problem, table=False, support=problem.support)
    assert (whole.sizes.support, listed.sizes.support) == (0, 3)
    for learner in (whole, listed):
        learner.observe(shown, rewards)
    np.testing.assert_array_equal(listed.theta, whole.theta)
    np.testing.assert_array_equal(listed.cov, whole.cov)
    for context in range(problem.contexts + (problem.strata if known else 0)):
        scores = [best_in_block(x.handle, context) for x in (whole, listed)]
        assert scores[1] == pytest.approx(scores[0], rel=1e-13)


def test_rows_without_many_zeros_are_not_listed() -> None:
    """Lists take two numbers for each one that is not zero, and pay only where most are."""
    rng = np.random.default_rng(16)
    dense = random_problem(rng, contexts=5, actions=3, d=4)
    assert dense.support == 4
    assert dense.layout(support=4).sizes.support == 0
    features = rng.normal(size=(5, 3, 4)) * [1.0, 0.0, 1.0, 0.0]
    sparse = Problem(features, rng.dirichlet(np.ones(5)), noise_sd=0.3, theta_bound=2.0)
    assert sparse.support == 2
    assert sparse.layout(support=2).sizes.support == 2


def test_largest_score_in_the_table() -> None:
    """The largest score among the first rows is theirs alone, whatever the rows behind them score."""
    problem = random_problem(np.random.default_rng(13), contexts=9, actions=3, d=4)
    rng = np.random.default_rng(14)
    learner = Learner(problem)
    learner.observe(rng.integers(0, 27, size=40), rng.normal(size=40))
    ucb = learner.means + learner.radius * learner.widths
    for end in (1, 2, 5, 20, 27):
        assert largest(learner.handle, end) == pytest.approx(ucb[:end].max(), rel=1e-14)


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
        assert best_of(learner.handle, np.array(values)) == (max(values), action)


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
            assert best_in_block(learner.handle, context)[1] in {0, 1}


def exact_widths(rows: Floats, seen: Ints, regularisation: float) -> Floats:
    """Every row's x' V^-1 x by elimination in extended precision, V from how often each row was seen."""
    x = rows.astype(np.longdouble)
    v = np.longdouble(regularisation) * np.eye(rows.shape[1], dtype=np.longdouble) + (x.T * seen) @ x
    d = len(v)
    joint = np.concatenate([v, x.T], axis=1)
    for i in range(d):
        joint[i] /= joint[i, i]
        others = np.arange(d) != i
        joint[others] -= np.outer(joint[others, i], joint[i])
    return np.asarray((joint[:, d:] * x.T).sum(axis=0), dtype=np.float64)


def raw_steps(largest: float) -> Problem:
    """A problem with raw counts up to `largest` and what they make together with the action and another variable."""
    steps: list[float] = np.linspace(0.0, largest, 9).tolist()
    return Problem.from_formula(
        "1 + action * (steps + mood)",
        {"steps": steps, "mood": [-1.0, 0.0, 1.0]},
        ["rest", "walk"],
        context_probs=np.full(27, 1 / 27),
        noise_sd=0.5,
    )


def width_error(problem: Problem, steps: int, **form: Any) -> float:
    """The largest relative error of width^2 after so many observations."""
    learner = Learner(problem, **form)
    rows = np.random.default_rng(3).integers(0, problem.contexts * problem.actions, steps)
    learner.observe(rows, np.zeros(steps))
    seen = np.bincount(rows, minlength=len(learner.rows))
    exact = exact_widths(learner.rows, seen, problem.regularisation)
    on_the_spot = np.einsum("ij,jk,ik->i", learner.rows, learner.cov, learner.rows)
    found = learner.widths**2 if learner.sizes.table else on_the_spot
    return float(np.abs(found / exact - 1.0).max())


@pytest.mark.parametrize("table", [True, False])
@pytest.mark.parametrize("largest", [1.0, 32.0, 33.0, 20_000.0, 1e6])
def test_widths_keep_their_digits_whatever_the_features_units(largest: float, table: bool) -> None:
    """After 10,000 steps, with features of up to a million: x' V^-1 x to 1e-8."""
    assert width_error(raw_steps(largest), 10_000, table=table) < 1e-8


def test_without_units_the_digits_would_be_lost() -> None:
    """The control: the same counts as they are."""
    problem = raw_steps(1e6)
    problem.units = np.ones(problem.d)
    assert width_error(problem, 3_000) > 1e-4
