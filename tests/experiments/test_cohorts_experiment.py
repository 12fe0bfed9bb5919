"""The experiment on what patients have in common, made small."""

import json

import numpy as np
import pytest
import xarray as xr

import opportune as op
from opportune.experiments import cohorts, find
from opportune.experiments.base import Config

SMALL: Config = {"likeness": list(cohorts.LIKENESS), "budgets": [4], "studies": 2, "replications": 1, "horizon": 60}


@pytest.fixture(scope="module")
def parts() -> dict[str, xr.Dataset]:
    return {task: cohorts.run_task(SMALL, task, 1) for task in cohorts.tasks(SMALL)}


def test_all_is_finite_and_can_be_written(parts: dict[str, xr.Dataset]) -> None:
    """Numbers are finite, tables have a row for each task, and the experiment is found by its name."""
    found = cohorts.findings(SMALL, parts)
    assert json.dumps(found.numbers, allow_nan=False)
    assert all(len(table.rows) == len(parts) for table in found.tables)
    assert find("cohorts") is cohorts.EXPERIMENT
    assert set(cohorts.tasks(cohorts.config(True))) < set(cohorts.tasks(cohorts.config(False)))


def test_participants_are_as_alike_as_they_are_called() -> None:
    """Alike have one theta, half-way apart the middle between the first one's and their own, independent their own."""
    worlds = op.synthetic_worlds(3, seed=1)
    made = {name: change(worlds) for name, change in cohorts.LIKENESS.items()}
    for i, world in enumerate(worlds):
        np.testing.assert_allclose(made["alike"][i].theta, worlds[0].theta)
        np.testing.assert_allclose(made["independent"][i].theta, world.theta)
        np.testing.assert_allclose(made["half-way apart"][i].theta, 0.5 * (worlds[0].theta + world.theta))
        assert all(each[i].problem is worlds[0].problem for each in made.values())


def test_the_ways_of_pooling_differ(parts: dict[str, xr.Dataset]) -> None:
    """Own models, models pooled in part and one model are three policies; swapped, a claim that held does not."""
    for data in parts.values():
        lost = [data["final_regret"].sel(policy=cohorts.name_of("paper", pooling)) for pooling in cohorts.POOLED]
        assert not np.allclose(lost[0], lost[1])
        assert not np.allclose(lost[1], lost[2])
    names = {cohorts.name_of(v, cohorts.PARTIAL): cohorts.name_of(v, cohorts.ONE) for v in cohorts.VALUES}
    names |= {after: before for before, after in names.items()}
    swapped = {
        task: data.assign_coords(policy=[names.get(str(p), str(p)) for p in data["policy"].values])
        for task, data in parts.items()
    }
    claims = {False: cohorts.findings(SMALL, parts).claims, True: cohorts.findings(SMALL, swapped).claims}
    for plain, other in zip(claims[False], claims[True], strict=True):
        if "one model for all" in plain.statement:
            assert plain.estimates[0].mean == pytest.approx(-float(other.estimates[0].mean or 0.0))
