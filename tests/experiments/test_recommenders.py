"""Thompson sampling beside LinUCB on a few instances: who runs, what is claimed, what is drawn."""

import math

import pytest
import xarray as xr

from opportune.experiments import find, recommenders
from opportune.experiments.base import Config, Findings
from opportune.experiments.claims import Verdict
from opportune.experiments.recommenders import LINUCB, MATCHED, POSTERIOR, thompson
from opportune.experiments.studies import paper_policies, run_study, study_worlds

SMALL: Config = {**recommenders.config(True), "instances": 4, "replications": 2, "horizon": 40, "budgets": [3, 6]}


@pytest.fixture(scope="module")
def parts() -> dict[str, xr.Dataset]:
    return {task: recommenders.run_task(SMALL, task, 1) for task in recommenders.tasks(SMALL)}


@pytest.fixture(scope="module")
def found(parts: dict[str, xr.Dataset]) -> Findings:
    return recommenders.findings(SMALL, parts)


def test_the_grid() -> None:
    """The paper's budgets on its 50 instances, and draws of three widths."""
    config = recommenders.config(False)
    assert (config["instances"], config["horizon"], config["budgets"]) == (50, 300, [10, 20, 30])
    assert config["inflations"] == [POSTERIOR, MATCHED, 10]
    problem = study_worlds(1, 1)[0].problem
    assert 1.0 / (problem.noise_sd * math.sqrt(problem.d)) == pytest.approx(MATCHED, abs=0.5)
    assert find("recommenders") is recommenders.EXPERIMENT


def test_linucb_is_the_paper_s_pd2(parts: dict[str, xr.Dataset]) -> None:
    """PD2 with LinUCB here is PD2 of the other experiments, and every recommender keeps the budget."""
    worlds = study_worlds(4, 1)
    usual = run_study(worlds, paper_policies(3, ("adaptive",)), horizon=40, replicates=2, seed=1)
    ours = parts["B3"]["final_regret"].sel(policy=LINUCB).values
    assert ours.tolist() == usual["final_regret"].sel(policy="PD2").values.tolist()
    for task, data in parts.items():
        assert float(data["spent"].max()) <= int(task[1:]) + 1e-9


def test_recommenders_differ(parts: dict[str, xr.Dataset]) -> None:
    """LinUCB and Thompson sampling of each width are four different recommenders."""
    regrets = parts["B6"]["final_regret"]
    assert list(regrets["policy"].values) == [LINUCB, *(thompson(i) for i in (1, 3, 10))]
    assert len({float(regrets.sel(policy=p).sum()) for p in regrets["policy"].values}) == 4


def test_findings(found: Findings) -> None:
    """Two claims with evidence, one figure with a panel per budget on one scale, one table."""
    assert len(found.claims) == 2
    assert all(c.estimates and "nan" not in c.evidence for c in found.claims)
    (picture,), (table,) = found.pictures, found.tables
    assert [axes.get_title() for axes in picture.figure.axes] == ["B = 3", "B = 6"]
    assert len({axes.get_ylim() for axes in picture.figure.axes}) == 1
    assert len(table.rows) == 8


@pytest.mark.parametrize(("shift", "verdict"), [(-500.0, Verdict.HELD), (500.0, Verdict.NOT_HELD)])
def test_claims_follow_the_numbers(shift: float, verdict: Verdict, parts: dict[str, xr.Dataset]) -> None:
    """Where Thompson sampling is put ahead the claims hold, where it is put behind they do not."""
    moved = {}
    for task, data in parts.items():
        theirs = data["policy"] != LINUCB
        moved[task] = data.assign(final_regret=data["final_regret"] + shift * theirs)
    assert [c.verdict for c in recommenders.findings(SMALL, moved).claims] == [verdict, verdict]
