"""One budget for all participants: what is spent, by whom, in which order."""

from collections.abc import Sequence
from typing import Any

import numba
import numpy as np
import pytest
import xarray as xr
from numpy.typing import NDArray

import opportune as op
from opportune.errors import InputError
from opportune.simulation import run as api
from opportune.simulation import simulate
from opportune.worlds import SimulatedWorld
from opportune.worlds.brushing.world import brushing_world

HORIZON = 60
PARTICIPANTS = 5
REPLICATES = 12


def worlds_of(kind: str) -> Sequence[SimulatedWorld]:
    if kind == "linear":
        return op.synthetic_worlds(PARTICIPANTS, seed=2)
    if kind == "unknown":
        return op.synthetic_worlds(PARTICIPANTS, seed=2, known=False)
    return brushing_world(users=PARTICIPANTS)


def policies_of(budget: op.Budget) -> list[op.Policy]:
    scales = ("range", "adaptive")
    return [
        op.naive_ucb(budget),
        *(op.pd1_ucb(budget, scale=s, name=f"PD1 {s}") for s in scales),
        *(op.pd2_ucb(budget, scale=s, name=f"PD2 {s}") for s in scales),
        op.Policy(revealer=op.Always(), budget=budget, name="always"),
        op.Policy(revealer=op.Periodic(every=3), budget=budget, name="periodic"),
    ]


def run(worlds: Any, policies: Any, **changes: Any) -> xr.Dataset:
    settings: dict[str, Any] = {"horizon": HORIZON, "replicates": REPLICATES, "seed": 3, "progress": False}
    return simulate(worlds, policies, **(settings | changes))


def in_order(data: xr.Dataset, name: str) -> NDArray[Any]:
    """[policy, replicate, decision], decisions ordered by step and, within a step, by participant."""
    values = data[name].transpose("policy", "replicate", "step", "world").values
    return values.reshape(*values.shape[:2], -1)


def assert_equal(first: xr.Dataset, second: xr.Dataset) -> None:
    assert set(first.data_vars) == set(second.data_vars)
    for name in first.data_vars:
        np.testing.assert_array_equal(first[name].values, second[name].values, err_msg=str(name))


kinds = pytest.mark.parametrize("kind", ["linear", "unknown", "brushing"])


@kinds
@pytest.mark.parametrize("amount", [0.5, 7.25, 40.0])
def test_probabilities_of_all_sum_to_the_budget_at_most(kind: str, amount: float) -> None:
    """Over all participants and steps, no policy's probabilities sum to more than B."""
    data = run(worlds_of(kind), policies_of(op.Budget(amount, shared=True)))
    spent = data["probability"].sum(("world", "step"))
    assert (spent <= amount + 1e-9).all()
    np.testing.assert_allclose(data["spent"].sum("world"), spent)
    assert ((data["probability"] >= 0) & (data["probability"] <= 1)).all()
    assert (spent.sel(policy="always") > amount - 1e-9).all()  # so the limit is met


@kinds
@pytest.mark.parametrize("amount", [1, 9, 40])
def test_a_hard_budget_is_never_exceeded(kind: str, amount: int) -> None:
    """With a hard budget there are never more than B nudges of all participants together."""
    data = run(worlds_of(kind), policies_of(op.Budget(amount, shared=True, hard=True)))
    nudges = data["nudged"].sum(("world", "step"))
    assert (nudges <= amount).all()
    np.testing.assert_array_equal(nudges, data["nudges"].sum("world"))
    assert (nudges.sel(policy="always") == amount).all()
    assert (data["probability"].sum(("world", "step")) <= amount + 1e-9).all()


def test_an_expected_budget_can_be_exceeded_in_nudges() -> None:
    """Without `hard` chance may bring more nudges than B; so the test above can fail."""
    data = run(worlds_of("linear"), op.naive_ucb(op.Budget(9, shared=True)), replicates=50)
    assert (data["nudges"].sum("world") > 9).any()


@kinds
@pytest.mark.parametrize("hard", [False, True])
def test_one_participant_alone_shares_with_nobody(kind: str, hard: bool) -> None:
    """With one participant a shared budget is that participant's own, to the last bit."""
    world = worlds_of(kind)[1]
    shared = run(world, policies_of(op.Budget(8, shared=True, hard=hard)))
    own = run(world, policies_of(op.Budget(8, hard=hard)))
    assert_equal(shared, own)


@kinds
def test_decisions_are_taken_in_participant_order(kind: str) -> None:
    """The price each participant meets follows from the probabilities of those before it, and never falls."""
    budget = 12.0
    data = run(worlds_of(kind), policies_of(op.Budget(budget, shared=True)))
    data = data.sel(policy=[p for p in data["policy"].values if p.startswith("PD")])
    price, probability = in_order(data, "price"), in_order(data, "probability")
    assert (price[..., 0] == 0.0).all()
    assert (np.diff(price) >= 0.0).all()
    c = (1 + 1 / budget) ** budget
    following = price * (1 + probability / budget) + probability / ((c - 1) * budget)
    np.testing.assert_allclose(price[..., 1:], following[..., :-1], rtol=1e-12)
    for w in range(PARTICIPANTS):
        np.testing.assert_allclose(data["final_price"].values[:, w], following[..., -1], rtol=1e-12)
    assert (np.diff(price) > 0.0).any()


@kinds
def test_participants_feel_each_other(kind: str) -> None:
    """A shared budget is not the same as a share of it each."""
    worlds = worlds_of(kind)
    shared = run(worlds, op.pd2_ucb(op.Budget(10, shared=True)))
    own = run(worlds, op.pd2_ucb(op.Budget(10 / PARTICIPANTS)))
    assert (shared["probability"] != own["probability"]).any()


@kinds
def test_early_participants_do_not_feel_late_ones_at_the_first_step(kind: str) -> None:
    """Without the last participant the others decide alike at the first step, and differently later."""
    worlds = worlds_of(kind)
    policy = op.pd2_ucb(op.Budget(10, shared=True))
    everyone, fewer = run(worlds, policy), run(worlds[:-1], policy)
    first = everyone["probability"].isel(world=slice(0, -1))
    np.testing.assert_array_equal(first.isel(step=0), fewer["probability"].isel(step=0))
    assert (first != fewer["probability"]).any()


@kinds
def test_the_same_numbers_every_time(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Repetition, threads, chunks and whether there is a trace change nothing."""
    worlds, policies = worlds_of(kind), policies_of(op.Budget(12, shared=True))
    data = run(worlds, policies)
    assert_equal(data, run(worlds, policies))
    threads = numba.get_num_threads()
    try:
        numba.set_num_threads(1)
        assert_equal(data, run(worlds, policies))
    finally:
        numba.set_num_threads(threads)
    monkeypatch.setattr(api, "CHUNK_STEPS", HORIZON * PARTICIPANTS * len(policies) * 5)
    assert_equal(data, run(worlds, policies))
    bare = run(worlds, policies, trace=False)
    for name in bare.data_vars:
        np.testing.assert_array_equal(bare[name].values, data[name].values)


@kinds
def test_shared_and_own_budgets_in_one_call(kind: str) -> None:
    """Policies with shared and with own budgets beside each other do what they do alone."""
    worlds = worlds_of(kind)
    shared, own = op.pd2_ucb(op.Budget(20, shared=True)), op.pd2_ucb(4)
    both = run(worlds, [own, shared])
    assert both["policy"].values.tolist() == ["PD2 B=4", "PD2 B=20"]
    for i, policy in enumerate((own, shared)):
        alone = run(worlds, policy)
        for name in ("probability", "action", "price", "reward", "nudged"):
            np.testing.assert_array_equal(both[name].values[i], alone[name].values[0])


@kinds
def test_fixed_rate_is_spread_over_participants_and_steps(kind: str) -> None:
    """The naive revealer's rate is B/(N T) at every decision."""
    data = run(worlds_of(kind), op.naive_ucb(op.Budget(30, shared=True)))
    np.testing.assert_allclose(data["probability"], 30 / (PARTICIPANTS * HORIZON), rtol=1e-9)
    np.testing.assert_allclose(data["spent"].sum("world"), 30.0)


def test_a_shared_budget_may_exceed_the_horizon() -> None:
    """Its limit is the number of all decisions, not of one participant's."""
    worlds = worlds_of("linear")
    most = PARTICIPANTS * HORIZON
    data = run(worlds, op.naive_ucb(op.Budget(most, shared=True)))
    np.testing.assert_allclose(data["probability"], 1.0)
    with pytest.raises(InputError, match=f"budget is {most + 1}; expected at most {most}"):
        run(worlds, op.naive_ucb(op.Budget(most + 1, shared=True)))
    with pytest.raises(InputError, match=f"budget is {most}; expected at most {HORIZON}"):
        run(worlds, op.naive_ucb(most))


def test_openings_cost_nobody_anything() -> None:
    """What users open unasked costs nobody anything: with every day opened, nothing is spent."""
    budget = op.Budget(20, shared=True, hard=True)
    data = run(brushing_world(users=3, open_rate=1.0), policies_of(budget))
    assert data["revealed"].all()
    assert not data["probability"].any()
    assert not data["final_price"].any()
