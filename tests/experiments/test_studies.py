"""What experiments share: a study that was run is not run again, and totals do not need a trace."""

from typing import Any

import pytest
import xarray as xr

from opportune.experiments import studies
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
    assert len(simulated) == 5


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
