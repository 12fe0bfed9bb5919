"""The clairvoyants against linear programming, and the auxiliary problem against steps done by hand."""

import math

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from scipy.optimize import linprog

from opportune.analysis.clairvoyant import (
    auxiliary,
    clairvoyant,
    competitive_ratio,
    minimum_gap,
    modified_clairvoyant,
    pace_ranks,
    paced_auxiliary,
)
from opportune.errors import InputError

Floats = NDArray[np.float64]

gap = st.one_of(st.floats(-1.0, 1.0).map(lambda x: round(x, 6)), st.sampled_from([-0.5, 0.0, 0.25, 0.5, 1.0]))
gaps = st.lists(gap, min_size=1, max_size=25)
budget = st.one_of(st.floats(0.05, 12.0), st.integers(1, 30).map(float))
often = settings(max_examples=120, deadline=None)


def best_value(gap: Floats, budget: float, least: Floats | float = 0.0) -> float | None:
    """The linear program's answer, straight from scipy; None where it has none."""
    bounds = [(low, 1.0) for low in np.broadcast_to(least, gap.shape)]
    answer = linprog(-gap, A_ub=np.ones((1, gap.size)), b_ub=[budget], bounds=bounds, method="highs")
    return -float(answer.fun) if answer.status == 0 else None


def assert_feasible(o: Floats, budget: float, least: Floats | float = 0.0) -> None:
    """Each o lies between its bounds, and all of them together within the budget."""
    assert o.sum() <= budget + 1e-9
    assert (o >= np.asarray(least) - 1e-12).all()
    assert (o <= 1.0).all()


@often
@given(gaps, budget)
def test_clairvoyant_is_the_linear_program(sequence: list[float], budget: float) -> None:
    """The closed form of CLV is feasible and worth as much as the linear program's answer."""
    gap = np.array(sequence)
    o = clairvoyant(gap, budget)
    assert_feasible(o, budget)
    assert o @ gap == pytest.approx(best_value(gap, budget), abs=1e-8)


@often
@given(st.data(), gaps, budget)
def test_modified_clairvoyant_is_the_linear_program(data: st.DataObject, sequence: list[float], budget: float) -> None:
    """The closed form of Modified CLV is feasible, keeps the learning constraint and is the optimum."""
    size = len(sequence)
    gap = np.array(sequence)
    distance = st.sampled_from([0.0, 0.0, 0.5, 2.0, 7.0])
    n = np.array(data.draw(st.lists(distance, min_size=size, max_size=size)))
    beta = np.array(data.draw(st.lists(st.floats(0.0, 8.0), min_size=size, max_size=size)))
    least = np.array([max(0.0, 1.0 - b / m) if m > 0.0 else 0.0 for m, b in zip(n, beta, strict=True)])
    assume(abs(least.sum() - budget) > 1e-6)  # on the edge scipy's own tolerance decides
    best = best_value(gap, budget, least)
    if best is None:
        with pytest.raises(InputError, match="infeasible"):
            modified_clairvoyant(gap, budget, n, beta)
        return
    o = modified_clairvoyant(gap, budget, n, beta)
    assert_feasible(o, budget, least)
    assert (n * (1.0 - o) <= beta + 1e-9).all()
    assert o @ gap == pytest.approx(best, abs=1e-8)


def test_clairvoyant_ties_go_to_the_earlier_time() -> None:
    """Of equal gaps the earlier is served first, and the last one served gets what is left."""
    np.testing.assert_array_equal(clairvoyant([0.5, 0.9, 0.5, 0.5, -0.5], 2.5), np.array([1.0, 1.0, 0.5, 0.0, 0.0]))


def test_clairvoyant_leaves_budget_unspent() -> None:
    """Gaps of 0 and below get nothing, however large the budget."""
    np.testing.assert_array_equal(clairvoyant([0.0, -0.1, 0.3], np.inf), [0.0, 0.0, 1.0])
    np.testing.assert_array_equal(clairvoyant([0.2, 0.3], 0.0), [0.0, 0.0])


def test_modified_clairvoyant_negative_gap() -> None:
    """The learning constraint binds a step with a negative gap too: it gets its lower bound, no more."""
    o = modified_clairvoyant([-0.4, 0.2, 0.8], 1.5, [4.0, 0.0, 0.0], [3.0, 0.0, 0.0])
    np.testing.assert_allclose(o, [0.25, 0.25, 1.0])


def test_modified_clairvoyant_without_disagreement() -> None:
    """Where the actions agree or the tolerance is generous nothing changes: Modified CLV is CLV."""
    rng = np.random.default_rng(1)
    gap = rng.uniform(-1.0, 1.0, size=(3, 20))
    np.testing.assert_array_equal(modified_clairvoyant(gap, 4.5, 0.0, 0.0), clairvoyant(gap, 4.5))
    np.testing.assert_array_equal(modified_clairvoyant(gap, 4.5, 3.0, 3.0), clairvoyant(gap, 4.5))
    np.testing.assert_array_equal(modified_clairvoyant(gap, 4.5, 3.0, np.inf), clairvoyant(gap, 4.5))


@often
@given(st.lists(st.lists(gap, min_size=12, max_size=12), min_size=1, max_size=4), budget)
def test_clairvoyant_is_the_modified_one_that_nothing_binds(sequences: list[list[float]], budget: float) -> None:
    """Both serve the same moments, to the bit: the one by a sort of values, the other by an order of moments."""
    some = np.array(sequences)
    for amount in (budget, 0.0, math.inf, 2.5):
        np.testing.assert_array_equal(clairvoyant(some, amount), modified_clairvoyant(some, amount, 0.0, 0.0))


def test_modified_clairvoyant_infeasible() -> None:
    """Lower bounds above the budget are refused, with both numbers and the sequence at fault."""
    gap = np.full((2, 4), 0.5)
    n = np.array([[0.0] * 4, [2.0] * 4])
    with pytest.raises(InputError, match=r"requires 3 reveals in sequence \(1,\), the budget is 2"):
        modified_clairvoyant(gap, 2.0, n, 0.5)
    with pytest.raises(InputError, match=r"requires 3 reveals, the budget is 2"):
        modified_clairvoyant(gap[0], 2.0, n[1], 0.5)


def test_sequences_and_budgets_broadcast() -> None:
    """Leading axes are independent sequences, and each may have its own budget."""
    rng = np.random.default_rng(2)
    gap = rng.uniform(-1.0, 1.0, size=(4, 3, 30))
    n, beta = rng.uniform(0.0, 3.0, size=(2, 3, 30))
    budgets = np.array([[2.0], [4.5], [8.0], [0.5]])
    every_clv = clairvoyant(gap, budgets)
    every_aux = auxiliary(gap, budgets, disagreement=n, tolerance=beta)
    every_ratio = competitive_ratio(every_aux, gap, budgets)
    every_least = minimum_gap(gap)
    assert every_clv.shape == every_aux.shape == gap.shape
    assert every_ratio.shape == every_least.shape == (4, 3)
    for i, j in np.ndindex(4, 3):
        B = float(budgets[i, 0])
        np.testing.assert_array_equal(every_clv[i, j], clairvoyant(gap[i, j], B))
        aux = auxiliary(gap[i, j], B, disagreement=n[j], tolerance=beta[j])
        np.testing.assert_array_equal(every_aux[i, j], aux)
        assert every_ratio[i, j] == pytest.approx(competitive_ratio(aux, gap[i, j], B), rel=1e-14)
        assert every_least[i, j] == minimum_gap(gap[i, j])


def test_one_sequence_many_budgets() -> None:
    """One sequence against a list of budgets gives one row for each budget."""
    o = clairvoyant([0.3, 0.2, 0.1], [1.0, 2.0, 9.0])
    np.testing.assert_array_equal(o, [[1, 0, 0], [1, 1, 0], [1, 1, 1]])


def test_auxiliary_by_hand() -> None:
    """PD1 reveals in proportion to the gap while it beats the price, which follows its recursion."""
    B = 2.0
    c = (1.0 + 1.0 / B) ** B  # 2.25
    y1 = 0.5 / ((c - 1.0) * B)  # 0.2 after the first step
    y2 = y1 * (1.0 + 1.0 / B) + 1.0 / ((c - 1.0) * B)  # 0.7 after the third
    assert (y1, y2) == pytest.approx((0.2, 0.7))
    o = auxiliary([0.5, 0.2 - 1e-9, 1.0, 0.7 - 1e-9, -0.3, 0.9, 1.0], B)
    np.testing.assert_allclose(o, [0.5, 0.0, 1.0, 0.0, 0.0, 0.5, 0.0], atol=1e-12)


def test_auxiliary_with_disagreement_by_hand() -> None:
    """PD2 adds 1 - beta/n where the stale action is further off than the tolerance, within the budget."""
    o = auxiliary([0.2, 0.3, -0.1, 0.9], 2.0, disagreement=[4.0, 1.0, 9.0, 4.0], tolerance=[1.0, 2.0, 0.0, 1.0])
    # 0.2 + 3/4; then y = 0.38 beats a gap of 0.3; then no gain; then min(0.9 + 3/4, 2 - 0.95, 1)
    np.testing.assert_allclose(o, [0.95, 0.0, 0.0, 1.0], atol=1e-12)


@often
@given(gaps, budget)
def test_auxiliary_without_disagreement(sequence: list[float], budget: float) -> None:
    """PD2 with no disagreement at all is PD1."""
    np.testing.assert_array_equal(
        auxiliary(sequence, budget), auxiliary(sequence, budget, disagreement=0.0, tolerance=0.0)
    )


@often
@given(gaps, budget)
def test_no_revealer_beats_the_clairvoyant(sequence: list[float], budget: float) -> None:
    """The competitive ratio of the auxiliary problem lies between 0 and 1, and is never NaN."""
    ratio = competitive_ratio(auxiliary(sequence, budget), sequence, budget)
    assert 0.0 <= ratio <= 1.0 + 1e-12


def test_competitive_ratio_by_hand() -> None:
    """The ratio leaves the baseline out, and is 1 where there is nothing to gain."""
    assert competitive_ratio([0.0, 1.0, 0.5], [0.4, 0.2, 0.2], 1.0) == pytest.approx(0.3 / 0.4)
    assert competitive_ratio(0.0, [-0.4, 0.0], 1.0) == 1.0
    assert competitive_ratio(clairvoyant([0.4, 0.2], 1.0), [0.4, 0.2], 1.0) == 1.0


def test_competitive_ratio_grows_with_the_budget() -> None:
    """On plain random arrivals PD1's ratio is above 1 - 1/e on average and grows with the budget."""
    gap = np.random.default_rng(3).choice([-0.5, 0.1, 0.4, 0.7, 1.0], size=(200, 300))
    budgets = np.array([2.0, 8.0, 32.0])[:, np.newaxis]
    mean = competitive_ratio(auxiliary(gap, budgets), gap, budgets).mean(axis=-1)
    assert (mean > 1.0 - 1.0 / math.e).all()
    assert (np.diff(mean) > 0.0).all()


def test_minimum_gap() -> None:
    """The least positive gap of each sequence, and 0 where there is none."""
    np.testing.assert_array_equal(minimum_gap([[0.5, -0.1, 0.2], [0.0, -1.0, -2.0]]), [0.2, 0.0])


def test_empty_sequences() -> None:
    """No time steps, or no sequences at all, is an answer of that shape rather than an error."""
    assert clairvoyant(np.empty((2, 0)), 3.0).shape == (2, 0)
    assert auxiliary(np.empty((0, 5)), 3.0).shape == (0, 5)
    np.testing.assert_array_equal(competitive_ratio(np.empty((2, 0)), np.empty((2, 0)), 3.0), [1.0, 1.0])


def test_bad_input() -> None:
    """Bad input is refused with what was given and what was expected."""
    with pytest.raises(InputError, match=r"gaps holds NaN or infinite values"):
        clairvoyant([0.1, np.nan], 1.0)
    with pytest.raises(InputError, match=r"gaps is the single number 0.1"):
        clairvoyant(0.1, 1.0)
    with pytest.raises(InputError, match=r"budget holds the value -1; expected numbers of at least 0"):
        clairvoyant([0.1], -1.0)
    with pytest.raises(InputError, match=r"budget holds the value 0; expected finite numbers above 0"):
        auxiliary([0.1], 0.0)
    with pytest.raises(InputError, match=r"disagreement was given alone"):
        auxiliary([0.1], 1.0, disagreement=[0.1])
    with pytest.raises(InputError, match=r"tolerance was given alone"):
        auxiliary([0.1], 1.0, tolerance=[0.1])
    with pytest.raises(InputError, match=r"disagreement holds the value inf; expected finite numbers"):
        auxiliary([0.1], 1.0, disagreement=[np.inf], tolerance=[0.1])
    with pytest.raises(InputError, match=r"shapes \(2,\) of gaps, \(\) of budget, \(3,\), \(\) do not fit"):
        modified_clairvoyant([0.1, 0.2], 1.0, [1.0, 2.0, 3.0], 0.5)
    with pytest.raises(InputError, match=r"shapes \(1,\) of gaps"):
        modified_clairvoyant([0.1], 1.0, [1.0, 2.0, 3.0], 0.5)


def by_hand(gaps: list[float], probs: list[float], contexts: list[int], budget: float) -> list[float]:
    """PACE with theta known, as section 10 of the specification has it, read literally."""
    left, out = budget, []
    for t, k in enumerate(contexts):
        above = sum(p for p, g in zip(probs, gaps, strict=True) if g > gaps[k])
        tied = sum(p for p, g in zip(probs, gaps, strict=True) if g == gaps[k])
        rho = min(1.0, left / (len(contexts) - t))
        served = gaps[k] > 0.0 and (above + tied / 4 <= rho + 1e-9 or above == 0.0) and left > 1e-9
        out.append(min(1.0, left) if served else 0.0)
        left -= out[-1]
    return out


@pytest.mark.parametrize("budget", [1.0, 3.5, 8.0, 30.0])
def test_pace_with_theta_known(budget: float) -> None:
    """The pass over ranks serves the moments that the rule serves, ties, worthless ones and fractions included."""
    rng = np.random.default_rng(int(budget))
    gaps, probs = [0.5, 2.0, 0.0, 2.0, -1.0, 0.75], [0.2, 0.1, 0.2, 0.1, 0.2, 0.2]
    contexts = rng.choice(6, p=probs, size=(20, 40))
    served = paced_auxiliary(pace_ranks(gaps, probs)[contexts], budget)
    for row, chosen in zip(served, contexts, strict=True):
        np.testing.assert_allclose(row, by_hand(gaps, probs, list(chosen), budget))
    assert (served.sum(axis=1) <= budget + 1e-9).all()


def test_pace_with_theta_known_loses_a_bounded_amount() -> None:
    """At B = T/10 the loss against the clairvoyant does not grow with T, while the price's does (docs/pace.md)."""
    rng = np.random.default_rng(1)
    gaps, probs = np.linspace(0.1, 1.0, 10), np.full(10, 0.1)
    lost: dict[str, list[float]] = {"pace": [], "price": []}
    for horizon in (300, 3000):
        contexts = rng.choice(10, p=probs, size=(200, horizon))
        moments, budget = gaps[contexts], horizon / 10
        best = (clairvoyant(moments, budget) * moments).sum(axis=1)
        for rule, o in (
            ("pace", paced_auxiliary(pace_ranks(gaps, probs)[contexts], budget)),
            ("price", auxiliary(moments, budget)),
        ):
            lost[rule].append(float((best - (o * moments).sum(axis=1)).mean()))
    assert max(lost["pace"]) < 0.5
    assert lost["price"][1] > 5 * lost["price"][0]
