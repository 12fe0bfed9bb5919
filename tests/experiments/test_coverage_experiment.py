"""Coverage: rehearsals of shipped studies are analysed, and intervals that are too short do not pass."""

import pytest
import xarray as xr

from opportune.experiments.claims import Verdict
from opportune.experiments.coverage import EXPERIMENT, config, findings, run_task, tasks

SMALL = {"examples": ["stress-messages"], "rehearsals": 20}


@pytest.fixture(scope="module")
def part() -> xr.Dataset:
    return run_task(SMALL, "stress-messages", 1)


def test_every_shipped_study_is_rehearsed() -> None:
    """Each has a task; in full there are 100 rehearsals."""
    assert tasks(config(False)) == tasks(config(True))
    assert "stress-messages" in tasks(config(False))
    assert config(False)["rehearsals"] == 100


def test_rehearsals_differ_and_are_about_the_truth(part: xr.Dataset) -> None:
    """Twenty estimates with intervals around one truth for each question, none like the other."""
    assert part.sizes["rehearsal"] == 20
    for name in part["question"].values:
        found = part["values"].sel(question=name)
        assert len(set(found.sel(value="estimate").values.round(9))) == 20
        assert len(set(found.sel(value="truth").values)) == 1
        assert (found.sel(value="low") < found.sel(value="high")).all()


def test_intervals_that_are_too_short_do_not_pass(part: xr.Dataset) -> None:
    """The control: with intervals a third as long the claim is not held."""
    good = findings(SMALL, {"stress-messages": part})
    assert min(good.numbers.values()) >= 0.8
    middle = part["values"].sel(value="estimate")
    short = part.assign(values=middle + (part["values"] - middle) / 3.0)
    short["values"].loc[{"value": "truth"}] = part["values"].sel(value="truth")
    assert findings(SMALL, {"stress-messages": short}).claims[0].verdict is Verdict.NOT_HELD


def test_refused_rehearsals_are_counted(part: xr.Dataset) -> None:
    """They are no intervals: the share is of the others, and the table says how many there were."""
    lost = part.copy(deep=True)
    lost["values"][{"rehearsal": slice(0, 4)}].loc[{"value": ["estimate", "low", "high"]}] = float("nan")
    found = findings(SMALL, {"stress-messages": lost})
    assert found.tables[0].rows[0][3] == 16
    assert min(found.numbers.values()) >= 0.8


def test_its_name() -> None:
    """It is run by name, as the others are."""
    assert EXPERIMENT.name == "coverage"
