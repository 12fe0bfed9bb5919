"""The experiment on answers, made small: its worlds are what they are called, and its claims can be refuted."""

import json

import numpy as np
import pytest
import xarray as xr

import opportune as op
from opportune.experiments import answers, find
from opportune.experiments.base import Config, Findings

SMALL: Config = {"settings": list(answers.SETTINGS), "budgets": [5], "studies": 2, "replications": 1, "horizon": 40}


@pytest.fixture(scope="module")
def parts() -> dict[str, xr.Dataset]:
    return {task: answers.run_task(SMALL, task, 1) for task in answers.tasks(SMALL)}


@pytest.fixture(scope="module")
def found(parts: dict[str, xr.Dataset]) -> Findings:
    return answers.findings(SMALL, parts)


def test_all_is_finite_and_can_be_written(found: Findings) -> None:
    """Numbers are finite, every setting has its row, and the experiment is found by its name."""
    assert json.dumps(found.numbers, allow_nan=False)
    assert len(found.tables[0].rows) == len(answers.SETTINGS)
    assert find("answers") is answers.EXPERIMENT
    whole = answers.config(False)
    assert json.loads(json.dumps(whole)) == whole
    assert set(answers.tasks(answers.config(True))) < set(answers.tasks(whole))


@pytest.mark.parametrize(
    ("name", "expected"),
    [("certain", 1.0), ("half", 0.5), ("third", 0.3), ("strata", 0.5), ("persons", 0.5), ("away", 0.7)],
)
def test_so_many_calls_are_answered(name: str, expected: float) -> None:
    """The share of nudges that are answered is the setting's; where calls tire people, the more calls the fewer."""
    worlds = answers.SETTINGS[name].change(op.synthetic_worlds(120, seed=2))
    share = answered(worlds)
    assert share == pytest.approx(expected, abs=0.06)


def answered(worlds: object, every: int = 5) -> float:
    policy = op.Policy(revealer=op.Periodic(every=every), name="now and then")
    data = op.simulate(worlds, policy, horizon=200, replicates=1, seed=3, progress=False, trace=False)  # type: ignore[arg-type]
    return float(data["reveals"].sum() / data["nudges"].sum())


def test_calls_tire_people() -> None:
    """The more calls there were lately, the fewer are answered."""
    worlds = answers.SETTINGS["habituation"].change(op.synthetic_worlds(20, seed=2))
    assert answered(worlds, every=20) == pytest.approx(0.9, abs=0.03)
    assert answered(worlds, every=2) < 0.3


def test_mornings_are_of_no_other_importance() -> None:
    """Where answers go by the time of day, rewards and contexts do not."""
    (plain,) = op.synthetic_worlds(1, seed=2)
    (timed,) = answers.SETTINGS["strata"].change([plain])
    np.testing.assert_array_equal(timed.problem.features[:10], plain.problem.features)
    np.testing.assert_array_equal(timed.problem.features[10:], plain.problem.features)
    np.testing.assert_allclose(timed.context_probs[:10] + timed.context_probs[10:], plain.context_probs)


def test_claims_can_be_refuted(parts: dict[str, xr.Dataset]) -> None:
    """With and without exchanged, what is lower becomes higher."""
    swapped = {}
    for task, data in parts.items():
        names = [
            str(p).replace("with", "x").replace("xout", "with").replace(" x", " without") for p in data["policy"].values
        ]
        swapped[task] = data.assign_coords(policy=names)
    for task, data in parts.items():
        for value in answers.VALUES:
            np.testing.assert_allclose(answers._less(data, value), -answers._less(swapped[task], value))
