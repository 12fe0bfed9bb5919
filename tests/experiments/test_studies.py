"""What experiments share: large studies run in parts, and totals do not need a trace."""

from typing import Any

import numpy as np
import pytest
import xarray as xr

from opportune.experiments import studies
from opportune.experiments.studies import paper_policies, reduce_to_totals, run_study, study_worlds
from opportune.problems.formula import program
from opportune.simulation.run import simulate

STUDY: dict[str, Any] = {"horizon": 40, "replicates": 3, "seed": 7}


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


def test_large_studies_run_in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where not all policies fit into memory together they run one after the other, to the same bits."""
    worlds, policies = study_worlds(3, 7), paper_policies(5)
    whole = run_study(worlds, policies, **STUDY)
    monkeypatch.setattr(studies, "TRACED", 1)
    assert run_study(worlds, policies, **STUDY).identical(whole)


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
