"""The guarantees that the paper proves (docs/paper.md), on every input.

Any gaps in [-1, 1], disagreements and budget above 0.
"""

from typing import NamedTuple

import numpy as np
from hypothesis import example, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from opportune.algorithm.budget import growth, next_price
from opportune.analysis.bounds import competitive_bound, price_floor
from opportune.analysis.clairvoyant import clairvoyant, minimum_gap
from opportune.revealers.learning_primal_dual import learning_primal_dual
from opportune.revealers.primal_dual import primal_dual

Floats = NDArray[np.float64]
EXACT = 1e-9

gap = st.one_of(st.floats(-1.0, 1.0), st.sampled_from([-1.0, 0.0, 1e-6, 0.1, 0.5, 1.0 - 1e-9, 1.0]))
disagreement = st.one_of(st.just(0.0), st.floats(0.0, 20.0), st.floats(0.0, 1e-6))
tolerance = st.one_of(st.floats(0.0, 20.0), st.just(0.0), st.just(float("inf")))
budget = st.one_of(st.floats(0.01, 1.0), st.floats(1.0, 60.0), st.integers(1, 40).map(float), st.floats(1e-6, 1e6))
steps = st.lists(st.tuples(gap, disagreement, tolerance), min_size=1, max_size=30)
everything = settings(max_examples=120, deadline=None)
ALWAYS_ON = [(1.0, 3.0, 0.0)] * 50


class Trace(NamedTuple):
    """One pass of a rule: what it did, and the dual it built on the way."""

    gap: Floats
    n: Floats
    o: Floats
    z: Floats
    boost: Floats  # n_t e_t
    beta: Floats
    price: Floats  # y before each step, and after the last one
    spent: Floats  # likewise


def run(sequence: list[tuple[float, float, float]], budget: float, learning: bool) -> Trace:
    """Run PD2 (or PD1) over a sequence of (gap, disagreement, initial tolerance)."""
    price, spent, rows = [0.0], [0.0], []
    c = growth(budget)
    for gap, n, initial in sequence:
        if learning:
            o, z, boost, beta = learning_primal_dual(gap, n, initial, price[-1], spent[-1], budget)
        else:
            (o, z), boost, beta = primal_dual(gap, price[-1], spent[-1], budget), 0.0, n
        rows.append((gap, n, o, z, boost, beta))
        price.append(next_price(price[-1], o, budget, c))
        spent.append(spent[-1] + o)
    gaps, n_t, o_t, z_t, boosts, betas = np.array(rows).T
    return Trace(gaps, n_t, o_t, z_t, boosts, betas, np.array(price), np.array(spent))


def both(sequence: list[tuple[float, float, float]], budget: float) -> list[Trace]:
    return [run(sequence, budget, learning) for learning in (False, True)]


@everything
@given(steps, budget)
@example(ALWAYS_ON, 0.3)
@example(ALWAYS_ON, 7.7)
@example(ALWAYS_ON, 1.0)
def test_budget(sequence: list[tuple[float, float, float]], budget: float) -> None:
    """No rule spends more than the budget, and each probability lies in [0, 1]."""
    for trace in both(sequence, budget):
        assert trace.o.sum() <= budget + EXACT
        assert (trace.o >= 0.0).all()
        assert (trace.o <= 1.0).all()


@everything
@given(steps, budget)
@example(ALWAYS_ON, 0.3)
@example(ALWAYS_ON, 40.0)
def test_price(sequence: list[tuple[float, float, float]], budget: float) -> None:
    """The price never falls, and stays at or above (c^(spent/B) - 1) / (c - 1)."""
    for trace in both(sequence, budget):
        assert (np.diff(trace.price) >= 0.0).all()
        floor = price_floor(trace.spent, budget)
        assert (trace.price >= floor - EXACT * np.maximum(1.0, floor)).all()


@everything
@given(steps, budget)
@example(ALWAYS_ON, 0.3)
def test_dual_feasibility(sequence: list[tuple[float, float, float]], budget: float) -> None:
    """The dual that the rule builds is feasible: z >= 0, e >= 0 and y_T + z_t - n_t e_t >= gap_t."""
    for trace in both(sequence, budget):
        assert (trace.z >= 0.0).all()
        assert (trace.boost >= 0.0).all()
        assert (trace.price[-1] + trace.z - trace.boost >= trace.gap - EXACT).all()


@everything
@given(steps, budget)
@example(ALWAYS_ON, 0.3)
@example(ALWAYS_ON, 2.5)
def test_learning_constraint(sequence: list[tuple[float, float, float]], budget: float) -> None:
    """PD2 keeps the learning constraint n_t (1 - o_t) <= beta_t with the beta_t it ends up with."""
    trace = run(sequence, budget, learning=True)
    assert (trace.n * (1.0 - trace.o) <= trace.beta + EXACT * np.maximum(1.0, trace.n)).all()


@everything
@given(steps, budget)
def test_tolerance_only_grows_to_the_disagreement(sequence: list[tuple[float, float, float]], budget: float) -> None:
    """PD2 relaxes a binding tolerance only as far as the disagreement, where the constraint is void."""
    trace = run(sequence, budget, learning=True)
    initial = np.array([beta for _, _, beta in sequence])
    assert (trace.beta >= np.minimum(initial, trace.n)).all()
    assert (trace.beta <= trace.n + EXACT).all()


@everything
@given(steps, budget)
@example([(0.01, 0.0, 0.0), *ALWAYS_ON], 0.3)
@example([(0.5, 5.0, 0.1)] * 30 + ALWAYS_ON, 4.0)
def test_competitive_ratio(sequence: list[tuple[float, float, float]], budget: float) -> None:
    """The gain is at least pi_min (1 - 1/c) times the clairvoyant's."""
    for trace in both(sequence, budget):
        best = float((clairvoyant(trace.gap, budget) * trace.gap).sum())
        certain = float(competitive_bound(budget, minimum_gap(trace.gap)))
        assert (trace.o * trace.gap).sum() >= certain * best - EXACT * max(1.0, certain * best)


@everything
@given(st.lists(st.tuples(gap, tolerance), min_size=1, max_size=30), budget)
def test_no_disagreement(sequence: list[tuple[float, float]], budget: float) -> None:
    """Without disagreement PD2 is PD1, step by step and to the last bit."""
    plain, learning = both([(gap, 0.0, beta) for gap, beta in sequence], budget)
    np.testing.assert_array_equal(plain.o, learning.o)
    np.testing.assert_array_equal(plain.z, learning.z)
    np.testing.assert_array_equal(plain.price, learning.price)


@everything
@given(steps, budget)
def test_infinite_tolerance(sequence: list[tuple[float, float, float]], budget: float) -> None:
    """With an infinite tolerance (B <= 1 in the paper's formula) PD2 falls back to PD1."""
    plain, learning = both([(gap, n, float("inf")) for gap, n, _ in sequence], budget)
    np.testing.assert_array_equal(plain.o, learning.o)


@everything
@given(steps, budget)
def test_no_gain_no_reveal(sequence: list[tuple[float, float, float]], budget: float) -> None:
    """A step whose gap does not beat the price is never revealed, however far the stale action is off."""
    for trace in both(sequence, budget):
        assert (trace.o[trace.gap <= trace.price[:-1]] == 0.0).all()
