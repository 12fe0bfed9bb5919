"""The experiment on PACE, made small: every task, its orders of arrivals, its policies, numbers, claims and figures."""

import json

import numpy as np
import pytest
import xarray as xr

import opportune as op
from opportune.experiments import find, pace
from opportune.experiments.base import Config, Findings
from opportune.experiments.pace import grid, orders, policies, verdicts
from opportune.experiments.pace.growth import run_growth
from opportune.experiments.pace.settings import SETTINGS, run_setting

SMALL: Config = {
    "instances": 3, "replications": 2, "horizon": 40, "budgets": [4, 8], "horizons": [40, 80], "sequences": 2,
    "floor_instances": 3, "floor_replications": 1,
    "growth_instances": 2, "growth_replications": 1, "settings": list(SETTINGS), "robust_budgets": [4],
    "robust_instances": 20, "robust_replications": 1, "long_instances": 2, "costs": [0, 60], "trials": 2,
    "studies": ["robas3"],
}  # fmt: skip


@pytest.fixture(scope="module")
def parts() -> dict[str, xr.Dataset]:
    return {task: pace.run_task(SMALL, task, 1) for task in pace.tasks(SMALL)}


@pytest.fixture(scope="module")
def found(parts: dict[str, xr.Dataset]) -> Findings:
    return pace.findings(SMALL, parts)


def test_the_grid_is_that_of_the_paper() -> None:
    """Fifty instances, T = 300, B = 10, 20, 30, horizons to 10,000; `quick` runs a part of the tasks."""
    whole, quick = pace.config(False), pace.config(True)
    assert (whole["instances"], whole["horizon"], whole["budgets"]) == (50, 300, [10, 20, 30])
    assert whole["horizons"][-1] == 10_000
    assert set(pace.tasks(quick)) < set(pace.tasks(whole))
    assert find("pace") is pace.EXPERIMENT
    assert json.loads(json.dumps(whole)) == whole


def test_all_is_finite_and_can_be_written(found: Findings) -> None:
    """Numbers are finite, tables complete, every panel has a title, and no text has a backtick."""
    assert json.dumps(found.numbers, allow_nan=False)  # which refuses what is not finite
    assert len({p.name for p in found.pictures}) == 6
    for picture in found.pictures:
        assert all(axes.get_title() for axes in picture.figure.axes), picture.name
        assert "`" not in picture.caption + picture.alt
    assert all("`" not in c.statement + c.evidence for c in found.claims)


def test_every_idea_can_be_left_out(parts: dict[str, xr.Dataset]) -> None:
    """Without debt, rotation or pace a policy decides differently, so the ablation compares what it says."""
    data = parts["known-B4"]
    whole = data["regret"].sel(policy=policies.PACE)
    for without in (policies.NO_DEBT, policies.NO_ROTATION, policies.ROTATED):
        assert not np.allclose(whole, data["regret"].sel(policy=without)), without


def test_the_two_parts_add_up(parts: dict[str, xr.Dataset]) -> None:
    """With theta known PACE loses less to arrivals than PD2 does, and never less than nothing."""
    lost = parts["known-B4"]["information_reveal_loss"].mean(["world", "replicate"])
    assert float(lost.sel(policy=policies.PACE)) >= -1e-9
    assert float(lost.sel(policy=policies.PACE)) < float(lost.sel(policy=policies.PRINTED))
    assert bool(lost.sel(policy=policies.BOLD).isnull())


@pytest.mark.parametrize("name", orders.ORDERS)
def test_orders_are_probabilities_with_the_right_long_run(name: str) -> None:
    """Rows are probabilities; agents are told their mean, but where the change is unforeseen."""
    world = op.synthetic_worlds(1, seed=5)[0]
    drifting = orders.ORDERS[name](world, 60)
    np.testing.assert_allclose(drifting.course.sum(axis=1), 1.0)
    told = drifting.problem.context_probs
    assert told is not None
    if name == "unforeseen":
        np.testing.assert_allclose(told, world.context_probs)
    else:
        np.testing.assert_allclose(told, drifting.course.mean(axis=0))
    if name == "stop" or name.startswith("persist"):
        np.testing.assert_allclose(drifting.context_probs, world.context_probs)
    gap = drifting.course @ world.gaps
    if name in {"trend-down", "stop", "unforeseen"}:
        assert gap[:20].mean() > gap[20:].mean()
    elif name == "trend-up":
        assert gap[:20].mean() < gap[20:].mean()
    elif name == "cycle":
        assert len(gap) == 7


def test_told_twice_stops_half_way() -> None:
    """Who is told twice the horizon still has most of the budget when the study ends."""
    told, right = (run_setting(SMALL, name, 20, 1)["spent"].sel(policy="PACE") for name in ("told-twice", "study"))
    assert float(told.mean()) < 0.8 * float(right.mean())


def test_together_is_one_observation_per_study(parts: dict[str, xr.Dataset]) -> None:
    """Ten who share a budget or a model count once."""
    for name in ("shared", "pooled-alike", "pooled-differ"):
        assert parts[f"{name}-B4"].sizes["world"] == 2
    assert parts["study-B4"].sizes["world"] == 20


def test_arrivals_are_those_of_a_simulation() -> None:
    """The loss with theta known, worked out from arrivals alone, is that of the decomposition of a simulation."""
    config = SMALL | {"instances": 2, "sequences": 3}
    lost = run_growth(config, 40, seed=7)["lost"].sel(rule="PACE").values
    worlds = op.synthetic_worlds(2, seed=7)
    data = op.simulate(worlds, op.pace_ucb(4, value="paper"), horizon=40, replicates=3, seed=7, progress=False)
    expected = op.decomposition(data)["information_reveal_loss"].isel(policy=0, step=-1).mean("replicate")
    np.testing.assert_allclose(lost, expected, atol=1e-9)


def test_claims_can_be_refuted(parts: dict[str, xr.Dataset]) -> None:
    """With PACE and PD2 exchanged no claim about the study is held."""
    names = {policies.PACE: policies.PRINTED, policies.PRINTED: policies.PACE, policies.ADAPTIVE: policies.PACE}
    swapped = dict(parts)
    for task in ("known-B4", "known-B8", "unknown-B4", "unknown-B8"):
        data = parts[task]
        chosen = [names.get(str(p), str(p)) for p in data["policy"].values]
        swapped[task] = data.sel(policy=chosen).assign_coords(policy=data["policy"].values)
    share, *instances = [str(c.verdict) for c in verdicts.all_claims(SMALL, swapped)[:3]]
    assert share != "held"
    assert instances == ["not held", "not held"]
    assert grid.brushing_task("robas3", 60) in parts
