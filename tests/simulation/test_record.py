"""What is kept of a run: one declaration for the trace, the totals and the Dataset."""

from typing import Any

import numpy as np
import pytest
import xarray as xr

import opportune as op
from opportune.simulation.record import FIELDS, MARKS, NUMBERS, TOTALS, Record, Totals
from opportune.worlds.brushing.world import brushing_world

KINDS = {float: "f", int: "i", bool: "b"}


@pytest.fixture(scope="module")
def data() -> xr.Dataset:
    rates: dict[str, Any] = {"open_rate": 0.2, "response_rate": 0.6, "available_rate": 0.8, "reward_rate": 0.7}
    worlds = [world.replace(**rates) for world in op.synthetic_worlds(2, seed=4)]
    return op.simulate(worlds, [op.pd2_ucb(8), op.naive_ucb(8)], horizon=50, replicates=3, seed=1, progress=False)


def test_the_trace_has_every_field_of_a_record(data: xr.Dataset) -> None:
    """Each field is a variable over steps, of the kind declared, and says what it is."""
    traced = {str(name) for name in data.data_vars if "step" in data[name].dims}
    assert traced == set(Record._fields) == set(FIELDS)
    assert (*NUMBERS, *MARKS) == Record._fields  # numbers first, as they are written
    for name, (kind, text) in FIELDS.items():
        assert data[name].dtype.kind == KINDS[kind]
        assert data[name].attrs["long_name"] == text
        assert data[name].dims == ("policy", "world", "replicate", "step")


def test_the_dataset_has_every_total(data: xr.Dataset) -> None:
    """Each total is a variable per run, of the kind declared."""
    for name, (kind, _) in TOTALS.items():
        assert data[name].dtype.kind == KINDS[kind]
        assert data[name].dims == ("policy", "world", "replicate")
        assert data[name].attrs["long_name"]
    assert set(TOTALS) == set(Totals._fields)
    assert not set(TOTALS) & set(FIELDS)


def test_totals_are_sums_of_their_fields(data: xr.Dataset) -> None:
    """What a total is declared to sum it sums; a reward that never arrives counts for nothing."""
    for name, (_, of) in TOTALS.items():
        if of:
            np.testing.assert_allclose(data[name], data[of].sum("step", skipna=True), rtol=1e-12, err_msg=name)
    assert data["reward"].isnull().any()
    assert not data["total_reward"].isnull().any()


def test_every_field_holds_something(data: xr.Dataset) -> None:
    """No field is a place that nobody writes to: in this run each takes more than one value."""
    for name in FIELDS:
        values = data[name].values
        assert len(np.unique(values[~np.isnan(values)] if values.dtype.kind == "f" else values)) > 1, name


def test_totals_alone_are_the_same(data: xr.Dataset) -> None:
    """Without a trace there are the same totals and no steps."""
    worlds = [w.replace(open_rate=0.2, response_rate=0.6, available_rate=0.8, reward_rate=0.7)
              for w in op.synthetic_worlds(2, seed=4)]  # fmt: skip
    bare = op.simulate(
        worlds, [op.pd2_ucb(8), op.naive_ucb(8)], horizon=50, replicates=3, seed=1, progress=False, trace=False
    )
    assert "step" not in bare.dims
    for name in TOTALS:
        np.testing.assert_array_equal(bare[name], data[name])


def test_worlds_of_every_kind_fill_the_same_record() -> None:
    """A brushing world's trace has the same fields; what it cannot know is NaN."""
    data = op.simulate(brushing_world(users=1), op.pd2_ucb(8), horizon=20, replicates=1, seed=1, progress=False)
    assert set(FIELDS) <= set(data.data_vars)
    assert data["best"].isnull().all()
    assert data["total_best"].isnull().all()
    assert not data["outcome"].isnull().any()
