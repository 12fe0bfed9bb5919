"""What results mean: regret by hand on a tiny world, with and without a trace; its parts."""

from typing import Any

import numpy as np
import pytest
import xarray as xr
from numpy.typing import NDArray

from opportune.analysis.metrics import (
    auxiliary_value,
    clairvoyant_value,
    decomposition,
    mean_outcome,
    realised_regret,
    regret,
    spend,
)
from opportune.errors import InputError
from opportune.policy import Budget, Policy, naive_ucb, pace_ucb, pd1_ucb, pd2_ucb
from opportune.problems.finite import Problem
from opportune.recommenders import EqualCoins, FixedAction
from opportune.revealers import Always, Never, Periodic
from opportune.simulation import simulate
from opportune.worlds.brushing.world import brushing_world
from opportune.worlds.linear import LinearWorld, synthetic_worlds

Floats = NDArray[np.float64]


def tiny_world() -> LinearWorld:
    """Two contexts, two actions, values [[1, 0], [0, 2]]: blind, action 1 is worth 1 and action 0 one half."""
    features = np.eye(4).reshape(2, 2, 4)
    problem = Problem(features, [0.5, 0.5], noise_sd=0.1, value_range=(1.0, 2.0))
    return LinearWorld(problem, theta=[1.0, 0.0, 0.0, 2.0])


def mixed_worlds() -> list[LinearWorld]:
    """Worlds with a public, a sensed and a reported variable."""
    rng = np.random.default_rng(1)
    worlds = []
    for _ in range(3):
        problem = Problem(
            rng.normal(size=(8, 3, 4)),
            rng.dirichlet(np.ones(8)),
            noise_sd=0.3,
            value_range=(-2.0, 2.0),
            variables={"hour": range(2), "place": range(2), "mood": range(2)},
            visibility={"hour": "public", "mood": "reported"},
        )
        worlds.append(LinearWorld(problem, theta=rng.normal(size=4), open_rate=0.1, response_rate=0.8))
    return worlds


POLICIES = [
    naive_ucb(6),
    pd1_ucb(6, scale="range"),
    pd2_ucb(6),
    pd2_ucb(4.5, scale="gap", name="PD2 fraction"),
    pd1_ucb(Budget(7, hard=True), name="PD1 hard"),
    Policy(revealer=Always(), name="always"),
    Policy(recommender=EqualCoins(), revealer=Periodic(every=3), budget=Budget(5), name="chance"),
]


def run(worlds: Any, policies: Any, **changes: Any) -> xr.Dataset:
    settings: dict[str, Any] = {"horizon": 50, "replicates": 4, "seed": 3, "progress": False}
    return simulate(worlds, policies, **(settings | changes))


def test_regret_by_hand() -> None:
    """One action for ever, no reveals, a budget of 2: the clairvoyant has 1 a step and 2 on the first two gaps."""
    idle = Policy(recommender=FixedAction(action=0), revealer=Never(), budget=Budget(2))
    data = run(tiny_world(), idle, horizon=12)
    for replicate in range(4):
        lost, realised, left = 0.0, 0.0, 2
        for t, context in enumerate(data["context"].values[0, 0, replicate]):
            best = 1.0
            if context == 1 and left > 0:
                best, left = 2.0, left - 1
            lost += best - 0.5  # action 0 is worth one half to one who does not see the context
            realised += 0.0 if context == 0 else 2.0
            assert regret(data).values[0, 0, replicate, t] == pytest.approx(lost, abs=1e-12)
            assert realised_regret(data).values[0, 0, replicate, t] == pytest.approx(realised, abs=1e-12)
        assert left == 0


def test_a_reveal_is_worth_its_context() -> None:
    """On a reveal the paper's value is what the action gets in that context, not its average over contexts."""
    always = Policy(recommender=FixedAction(action=0), revealer=Always())
    data = run(tiny_world(), always, horizon=12)
    context = data["context"].values[0, 0]
    np.testing.assert_allclose(data["value"].values[0, 0], np.where(context == 0, 1.0, 0.0), atol=1e-12)
    # without a limit the clairvoyant reveals every positive gap: 1 in context 0, 2 in context 1
    expected = np.cumsum(np.where(context == 0, 0.0, 2.0), axis=-1)
    np.testing.assert_allclose(regret(data).values[0, 0], expected, atol=1e-12)
    np.testing.assert_allclose(realised_regret(data).values[0, 0], expected, atol=1e-12)


@pytest.mark.parametrize("kind", ["synthetic", "mixed"])
def test_regret_without_a_trace_is_the_last_with_one(kind: str) -> None:
    """At the last step the regret of a trace is the regret of the totals, for every policy and budget."""
    worlds = synthetic_worlds(3, seed=1) if kind == "synthetic" else mixed_worlds()
    data, totals = run(worlds, POLICIES), run(worlds, POLICIES, trace=False)
    for metric in (regret, realised_regret):
        steps, last = metric(data), metric(totals)
        assert steps.dims == ("policy", "world", "replicate", "step")
        assert last.dims == ("policy", "world", "replicate")
        np.testing.assert_allclose(steps.isel(step=-1).values, last.values, rtol=1e-10, atol=1e-10)
        assert steps["policy"].values.tolist() == last["policy"].values.tolist() == data["policy"].values.tolist()


def test_nobody_beats_the_best_action() -> None:
    """Realised regret never falls, and never revealing leaves the clairvoyant's gain as regret at the least."""
    data = run(synthetic_worlds(3, seed=1), POLICIES)
    steps = np.diff(realised_regret(data).values, axis=-1)
    assert steps.min() >= -1e-10
    never = run(synthetic_worlds(3, seed=1), Policy(revealer=Never(), budget=Budget(6)))
    gain = (clairvoyant_value(never) - never["true_blind"].isel(contexts=0)).sum("step")
    assert (regret(never).isel(step=-1) >= gain - 1e-9).all()


DECOMPOSED = [naive_ucb(6), pd1_ucb(6, scale="range"), pd1_ucb(6, name="PD1 own"), pd2_ucb(4.5, scale="gap")]


def primal_dual(gaps: Floats, budget: float) -> Floats:
    """Algorithm C.1 on known gaps, written out."""
    price, spent, chosen = 0.0, 0.0, []
    c = (1.0 + 1.0 / budget) ** budget
    for gap in gaps:
        o = max(0.0, min(gap, budget - spent, 1.0)) if price < 1.0 and gap > price else 0.0
        price = price * (1.0 + o / budget) + o / ((c - 1.0) * budget)
        spent += o
        chosen.append(o)
    return np.array(chosen)


def test_auxiliary_by_hand() -> None:
    """AUX is the policy's own rule on the true gaps: B/T for naive, Algorithm C.1 on scaled gaps for the others."""
    worlds = synthetic_worlds(2, seed=1)
    data = run(worlds, DECOMPOSED)
    got = auxiliary_value(data)
    for w, world in enumerate(worlds):
        low, high = world.problem.value_range or (0.0, 1.0)
        divisors = {"PD1": high - low, "PD1 own": world.gaps.max(), "PD2": world.gaps.max()}
        for replicate in range(4):
            gaps = world.gaps[data["context"].values[0, w, replicate]]
            blind = world.blind_values.max()
            for policy in DECOMPOSED:
                assert policy.budget is not None
                if policy.name == "naive":
                    o = np.full(50, 6 / 50)
                else:
                    o = primal_dual(gaps / divisors[policy.name], policy.budget.amount)
                values = got.sel(policy=policy.name).values[w, replicate]
                np.testing.assert_allclose(values, blind + o * gaps, rtol=1e-9)


def test_decomposition_adds_up() -> None:
    """Information reveal loss and bandit learning loss are the regret, at every step."""
    data = run(synthetic_worlds(3, seed=1), DECOMPOSED)
    parts = decomposition(data)
    total = parts["information_reveal_loss"] + parts["bandit_learning_loss"]
    np.testing.assert_allclose(total.values, parts["regret"].values, atol=1e-9)
    np.testing.assert_allclose(parts["regret"].values, regret(data).values, atol=1e-9)
    assert parts["step"].values.tolist() == list(range(1, 51))
    assert (parts["information_reveal_loss"].isel(step=-1) >= -1e-9).all()  # nobody reveals better than CLV


def test_decomposition_of_a_selection() -> None:
    """Policies picked from a Dataset, in any order, keep their own auxiliary values."""
    data = run(synthetic_worlds(2, seed=1), DECOMPOSED)
    whole = decomposition(data)
    for chosen in ([2], [3, 0], [3, 2, 1, 0]):
        part = decomposition(data.isel(policy=chosen))
        xr.testing.assert_allclose(part, whole.isel(policy=chosen))
    short = auxiliary_value(data.isel(step=slice(20)))
    xr.testing.assert_allclose(short, auxiliary_value(data).isel(step=slice(20)))


def test_regret_of_a_selection_of_steps_is_refused() -> None:
    """The clairvoyant of some steps would spend the whole budget on these: it is refused, with what to do instead."""
    data = run(synthetic_worlds(2, seed=1), [naive_ucb(6), pace_ucb(6, value="paper")])
    late, first, every_other = (data.isel(step=chosen) for chosen in (slice(25, None), slice(25), slice(None, None, 2)))
    later = "compute it for the whole Dataset, then select steps$"
    for metric in (regret, clairvoyant_value, decomposition):
        for part in (late, first, every_other, data.isel(step=[])):
            with pytest.raises(InputError, match=f"needs all 50 steps of a run; got .*: {later}"):
                metric(part)
        assert metric(data).sizes["step"] == 50  # the control
    for total in (realised_regret, spend, mean_outcome):
        for part in (late, every_other):
            with pytest.raises(InputError, match=f"needs every step from the first on; got 25 of them .*: {later}"):
                total(part)
        xr.testing.assert_allclose(total(first), total(data).isel(step=slice(25)))  # sums so far are the same
    with pytest.raises(InputError, match=r"got 25 of them between steps 26 and 50"):
        regret(late)
    with pytest.raises(InputError, match=r"^the auxiliary problem of PACE needs all 50 steps"):
        auxiliary_value(first)


def test_regret_of_some_who_share_a_budget_is_refused() -> None:
    """The clairvoyant would give all of a shared budget to those selected; budgets of one's own may be selected."""
    policies = [pd2_ucb(Budget(6, shared=True), name="shared"), pd2_ucb(6)]
    data = run(synthetic_worlds(3, seed=1), policies)
    for metric in (regret, auxiliary_value, decomposition):
        with pytest.raises(InputError, match="under a shared budget needs all 3 worlds; got 2"):
            metric(data.isel(world=slice(2)))
    alone = data.isel(policy=[1])
    xr.testing.assert_allclose(regret(alone.isel(world=slice(2))), regret(alone).isel(world=slice(2)))


def test_spend_is_cumulative_probability() -> None:
    """Spending at a step is the sum of the probabilities so far."""
    data = run(synthetic_worlds(2, seed=1), POLICIES)
    result = spend(data)
    np.testing.assert_allclose(result.values, np.cumsum(data["probability"].values, axis=-1))
    np.testing.assert_allclose(result.isel(step=-1).values, data["spent"].values)


def test_mean_outcome_is_what_patients_got() -> None:
    """At every step the mean so far, and without a trace that of the whole run."""
    data = run(mixed_worlds(), naive_ucb(3))
    so_far = mean_outcome(data)
    np.testing.assert_allclose(so_far.sel(step=2), data["outcome"].isel(step=slice(0, 2)).mean("step"))
    np.testing.assert_allclose(so_far.isel(step=-1), mean_outcome(run(mixed_worlds(), naive_ucb(3), trace=False)))


def test_policies_are_measured_by_their_own_arrivals() -> None:
    """One budget means one clairvoyant only for those who met the same arrivals: results put together may differ."""
    both = run(synthetic_worlds(2, seed=3), [pd1_ucb(3), pd2_ucb(3)])
    other = run(synthetic_worlds(2, seed=3), [pd1_ucb(3), pd2_ucb(3)], seed=99)
    mixed = both.copy(deep=True)
    for name in ("context", "value", "outcome", "best", "probability"):
        mixed[name][1] = other[name][1]
    assert not np.array_equal(mixed["context"][0], mixed["context"][1])
    np.testing.assert_array_equal(regret(mixed)[0], regret(both)[0])
    np.testing.assert_array_equal(regret(mixed)[1], regret(other)[1])


def test_what_metrics_need() -> None:
    """A metric that needs a trace, the truth or a known rule says so."""
    totals = run(tiny_world(), pd2_ucb(3), trace=False)
    needs = "needs every step; run simulate with trace=True$"
    for metric, what in ((spend, "spending over time"), (decomposition, "the decomposition")):
        with pytest.raises(InputError, match=f"^{what} {needs}"):
            metric(totals)
    untold = run(tiny_world(), pd2_ucb(3)).drop_vars("true_gap")
    with pytest.raises(InputError, match=r"^regret needs the truth of a linear world; this Dataset has none$"):
        regret(untold)
    realised_regret(untold)  # needs no more than what the best action would have been worth
    for trace in (True, False):
        brushing = run(brushing_world(users=1), pd2_ucb(3), trace=trace)
        with pytest.raises(InputError, match=r"^realised regret needs to know the best action's value; these worlds "):
            realised_regret(brushing)
    for policy, name in (
        (Policy(revealer=Always(), budget=Budget(3)), "always"),
        (pace_ucb(3, value="paper", guard=0.5), "PACE"),
        (pace_ucb(3, value="paper", randomise=0.1), "PACE"),
        (pace_ucb(3), "PACE"),
    ):
        message = (
            f"^the auxiliary problem of '{name}' is not defined; expected naive, PD1, PD2, or PACE with value='paper'"
        )
        with pytest.raises(InputError, match=message):
            decomposition(run(tiny_world(), policy))
    renamed = run(tiny_world(), pd2_ucb(3)).assign_coords(policy=["other"])
    with pytest.raises(InputError, match=r"^policy 'other' is not one the Dataset was made with; expected some of"):
        decomposition(renamed)


@pytest.mark.parametrize("shared", [False, True])
def test_parts_of_pace_s_regret(shared: bool) -> None:
    """Its two parts add up to the regret, and a revealer that knows rewards and ranks moments loses little to arrivals.

    With a shared budget moments are ranked among those of all participants, and served in turn.
    """
    worlds = synthetic_worlds(3, seed=2)
    budget = Budget(30 if shared else 10, shared=shared)
    parts = decomposition(run(worlds, [pace_ucb(budget, value="paper"), pd2_ucb(budget)], horizon=100, replicates=5))
    total = parts["information_reveal_loss"] + parts["bandit_learning_loss"]
    np.testing.assert_allclose(total, parts["regret"], atol=1e-9)
    lost = parts["information_reveal_loss"].isel(step=-1)
    lost = lost.sum("world") if shared else lost
    assert (lost >= -1e-9).all()
    assert float(lost.sel(policy="PACE").mean()) < 0.3 * float(lost.sel(policy="PD2").mean())


def test_regret_of_totals_does_not_depend_on_the_order_of_axes() -> None:
    """A Dataset whose axes somebody has put in another order has the same regret, also where their sizes are alike."""
    data = simulate(
        synthetic_worlds(2, seed=1), [naive_ucb(3), pd2_ucb(5)], horizon=20, replicates=2, seed=1,
        trace=False, progress=False,
    )  # fmt: skip
    turned = data.transpose(*reversed(list(data.dims)))
    assert turned["total_value"].dims != data["total_value"].dims, "the control"
    xr.testing.assert_allclose(regret(turned).transpose(*regret(data).dims), regret(data))
