"""Opponents in `benchmarks/` do the same work as the package: the same totals from the same draws."""

import io
import json
import sys
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))  # where `benchmarks` is; it is not installed

from benchmarks import batched, jaxed, plain, show, straightforward
from benchmarks.__main__ import MEASUREMENTS, run
from benchmarks.measure import OURS, SCALES, Sizes, operations
from benchmarks.study import Floats, Study, make_study, simulated

TINY = Sizes(
    worlds=2, replicates=2, horizon=20, repetitions=1, plain_runs=6, batched_runs=6, runs=(1, 10), shape_runs=2,
    dimensions=(3, 4), actions=(2, 3), contexts=(2, 3), growth_runs=10, decisions=20, starts=1, sweeps=10, product=10,
    sweep_runs=10, engines=("processes",),
)  # fmt: skip


@pytest.fixture(params=SCALES, scope="module")
def study(request: pytest.FixtureRequest) -> Study:
    return make_study(worlds=3, replicates=3, horizon=120, adaptive=request.param == "adaptive")


@pytest.fixture(scope="module")
def ours(study: Study) -> Floats:
    return simulated(study)


def assert_same(values: Floats, ours: Floats) -> None:
    np.testing.assert_allclose(values, ours, rtol=1e-10)


def test_policies_of_the_study_differ(ours: Floats) -> None:
    """Naive, PD1 and PD2 end differently, so that agreement below says something about each rule."""
    naive, pd1, pd2 = ours.reshape(3, -1)
    assert not np.allclose(naive, pd1)
    assert not np.allclose(pd1, pd2)


def test_straightforward_loop_has_our_totals(study: Study, ours: Floats) -> None:
    """The compiled loop that recomputes every quadratic form makes our decisions."""
    assert_same(straightforward.total_values(study), ours)


def test_plain_numpy_has_our_totals(study: Study, ours: Floats) -> None:
    """Plain NumPy, one run after another, makes our decisions."""
    assert_same(plain.total_values(study, study.runs, jobs=1), ours)


@pytest.mark.parametrize("batch", [4, 250])
def test_batched_numpy_has_our_totals(study: Study, ours: Floats, batch: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """NumPy with all runs in step makes our decisions, in one batch or in several."""
    monkeypatch.setattr(batched, "BATCH", batch)
    assert_same(batched.total_values(study, study.runs, jobs=1), ours)


@pytest.mark.skipif(not jaxed.AVAILABLE, reason="JAX is not installed")
def test_jax_has_our_totals(study: Study, ours: Floats) -> None:
    """JAX makes our decisions."""
    assert_same(jaxed.total_values(study, study.runs), ours)


def test_a_share_of_the_runs_is_a_share_of_the_totals(study: Study, ours: Floats) -> None:
    """Contestants that run a sample are compared with the right runs, and the sample has every policy."""
    share = study.sample(6)
    assert_same(batched.total_values(study, study.runs.pick(share), jobs=1), ours[share])
    assert set(share // (study.size // 3)) == {0, 1, 2}


def test_operations_grow_as_the_matrix_does() -> None:
    """The count is that of a rank-one update by hand: d = 1, one action, one context, a table of two rows."""
    # w 2, x'w and fit 4, theta 2, V^-1 3, table 2 x (2 + 5), scores 3 x 2, adaptive 3 more
    assert operations(1, 1, 1, 1.0, adaptive=False) == 2 + 4 + 2 + 3 + 14 + 6
    assert operations(1, 1, 1, 1.0, adaptive=True) == 2 + 4 + 2 + 3 + 14 + 6 + 3


@pytest.mark.slow
def test_the_whole_benchmark_runs(tmp_path: Path) -> None:
    """Every measurement runs, its table prints, and results and figure are written."""
    text = io.StringIO()
    run(TINY, tmp_path, list(MEASUREMENTS), Console(file=text, width=120))
    saved = json.loads((tmp_path / "bench.json").read_text())
    assert set(MEASUREMENTS) < set(saved)
    for scale in SCALES:
        assert all(found["agreeing_runs"] == found["measured_runs"] for found in saved["study"][scale].values())
        assert saved["study"][scale][OURS]["times_ours"] == 1.0
    assert (tmp_path / "bench.png").stat().st_size > 0
    assert (tmp_path / "bench.svg").stat().st_size > 0
    for goal in show.GOALS.values():
        assert f"= {goal:g}" in text.getvalue()
