"""What experiments share: a study that was run is not run again, and totals do not need a trace."""

from typing import Any

import numpy as np
import pytest
import xarray as xr

from opportune.experiments import regret, reveal, studies
from opportune.experiments.studies import paper_policies, reduce_to_totals, run_study, study_worlds
from opportune.policy import pd2_ucb
from opportune.problems.formula import program
from opportune.simulation.run import simulate

STUDY: dict[str, Any] = {"horizon": 40, "replicates": 3, "seed": 7}


@pytest.fixture
def simulated(monkeypatch: pytest.MonkeyPatch) -> list[list[str]]:
    """The policies of each simulation from now on; nothing was run before."""
    called: list[list[str]] = []

    def counted(worlds: Any, policies: Any, **settings: Any) -> xr.Dataset:
        called.append([policy.name for policy in policies])
        return simulate(worlds, policies, **settings)

    monkeypatch.setattr(studies, "simulate", counted)
    studies._recent.clear()
    return called


def test_what_was_run_is_not_run_again(simulated: list[list[str]]) -> None:
    """Some policies of an earlier study, in another order, come without a simulation, and the same to the bit."""
    worlds = study_worlds(3, 7)
    policies = paper_policies(5)
    whole = run_study(worlds, policies, **STUDY)
    assert len(simulated) == 1
    again = run_study(worlds, [policies[4], policies[2]], **STUDY)
    assert len(simulated) == 1
    studies._recent.clear()
    alone = run_study(worlds, [policies[4], policies[2]], **STUDY)
    assert simulated[1] == ["PD2 adaptive", "PD2 range"]
    assert again.identical(alone)
    assert again.identical(whole.isel(policy=[4, 2]))


def test_the_oldest_make_room(simulated: list[list[str]], monkeypatch: pytest.MonkeyPatch) -> None:
    """Of what was run only the latest is kept: what came before it is run again, and it is not."""
    monkeypatch.setattr(studies, "MOST_RECENT", 2)
    worlds = study_worlds(3, 7)
    for budget in (3, 4, 5, 4, 3):
        run_study(worlds, [pd2_ucb(budget, name=f"B{budget}")], **STUDY)
    assert simulated == [["B3"], ["B4"], ["B5"], ["B3"]]


def test_reveal_takes_the_runs_of_regret(simulated: list[list[str]]) -> None:
    """When reveals happen is read off the runs of `regret`; alone, `reveal` runs them itself, to the same result."""
    config = {"instances": 3, "replications": 2, "horizon": 30, "budgets": [4], "known": True}
    regret.run_task(config, "B4", 7)
    count = len(simulated)
    taken = reveal.run_task(config, "B4", 7)
    assert len(simulated) == count
    studies._recent.clear()
    alone = reveal.run_task(config, "B4", 7)
    assert len(simulated) > count
    assert alone.identical(taken)


def test_reveals_by_hand() -> None:
    """Mean gaps of reveals are weighted by their probabilities, of the first and of the last third of the steps."""
    world = study_worlds(2, 7)
    data = simulate(world, paper_policies(5), horizon=30, replicates=3, seed=7, progress=False)
    found = studies.reduce_trace(data)
    for name, steps in (("early", slice(0, 10)), ("late", slice(20, 30))):
        weight, gap = data["probability"].isel(step=steps), data["gap"].isel(step=steps)
        over = ["replicate", "step"]
        gaps = (weight * gap).sum(over) / weight.sum(over)
        np.testing.assert_allclose(found[f"{name}_gap_of_instance"], gaps, rtol=1e-12)
        np.testing.assert_allclose(found[f"{name}_spend"], weight.sum(["world", *over]) / 6, rtol=1e-12)
    assert (found["price_falls"] == 0).all()
    assert set(studies.REVEALS) < set(found)


@pytest.mark.parametrize("change", [{"seed": 8}, {"replicates": 2}, {"horizon": 41}])
def test_another_study_is_run(simulated: list[list[str]], change: dict[str, Any]) -> None:
    """The control: another seed, length, number of runs, policy or world is simulated."""
    worlds, policy = study_worlds(3, 7), pd2_ucb(5)
    run_study(worlds, [policy], **STUDY)
    run_study(worlds, [policy], **{**STUDY, **change})
    assert len(simulated) == 2
    run_study(worlds, [pd2_ucb(6)], **STUDY)
    run_study(study_worlds(2, 7), [policy], **STUDY)
    run_study(worlds, [policy], **STUDY, reduce=reduce_to_totals)
    run_study(worlds, [policy], **STUDY, reduce=reduce_to_totals, trace=False)
    assert len(simulated) == 6


def test_totals_without_a_trace() -> None:
    """Totals are those of the trace, up to the rounding of a sum."""
    worlds, policies = study_worlds(3, 7), paper_policies(5)
    traced = run_study(worlds, policies, **STUDY, reduce=reduce_to_totals)
    plain = run_study(worlds, policies, **STUDY, reduce=reduce_to_totals, trace=False)
    xr.testing.assert_allclose(traced, plain, rtol=1e-12, atol=1e-10)
    assert set(traced) == set(plain)


def test_a_formula_is_translated_once() -> None:
    """Participants with the same variables share a program; levels that only compare equal do not."""
    one = program("action*x", {"x": (0, 1)}, ["a", "b"])
    assert program("action*x", {"x": (0, 1)}, ["a", "b"]) is one
    for other in ((False, True), (0.0, 1.0), (0, 2)):
        assert program("action*x", {"x": other}, ["a", "b"]) is not one
    assert program("action*x", {"x": (0, 1)}, ["a", "b"], order="written") is not one
