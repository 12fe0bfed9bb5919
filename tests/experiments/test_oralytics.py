"""The brushing experiment on a few trials: its numbers, claims, files, and the formulas behind them."""

import json
import math
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import xarray as xr

import opportune as op
from opportune.analysis.intervals import interval
from opportune.experiments import find, oralytics
from opportune.experiments.base import Config, Findings
from opportune.experiments.claims import Verdict
from opportune.experiments.oralytics import verdicts
from opportune.experiments.oralytics.grid import CHOICES, MODELS, REFERENCES, REVEALED, THREE, UNREVEALED
from opportune.experiments.oralytics.informed import INFORMED
from opportune.experiments.oralytics.numbers import lead, lead_by_trial, summarise
from opportune.experiments.runner import reproduce
from opportune.simulation import simulate
from opportune.worlds.brushing.world import brushing_world

TRIALS = 4
COSTS = [10, 200]


def small(quick: bool) -> Config:
    return oralytics.config(quick) | {"trials": TRIALS, "costs": COSTS}


@pytest.fixture(scope="module")
def parts() -> dict[str, xr.Dataset]:
    config = small(True)
    return {task: oralytics.run_task(config, task, 1) for task in oralytics.tasks(config)}


@pytest.fixture(scope="module")
def found(parts: dict[str, xr.Dataset]) -> Findings:
    return oralytics.findings(small(True), parts)


def test_the_paper_s_setting() -> None:
    """Ten users, 140 decisions, B = 30, 50 trials of every task or 5 if quick, seven times to measure at."""
    config = oralytics.config(False)
    assert (config["users"], config["horizon"], config["budget"], config["trials"]) == (10, 140, 30, 50)
    assert config["times"] == [20, 40, 60, 80, 100, 120, 140]
    assert oralytics.config(True)["trials"] == 5
    assert find("oralytics") is oralytics.EXPERIMENT
    assert json.loads(json.dumps(config)) == config


def test_results_are_small_and_whole(parts: dict[str, xr.Dataset]) -> None:
    """Every task gives means at each time for every user and trial, all finite, outcomes from 0 to 180."""
    for task, data in parts.items():
        assert data["outcome"].dims == ("policy", "world", "replicate", "time"), task
        assert data["outcome"].shape[1:] == (10, TRIALS, 7), task
        assert data["time"].values.tolist() == list(range(20, 141, 20))
        for name in data.data_vars:
            assert np.isfinite(data[name]).all(), (task, name)
        assert ((data["outcome"] >= 0) & (data["outcome"] <= 180)).all()
        assert data.nbytes < 2_000_000 * TRIALS / 50
        assert "step" not in data.dims


def test_the_metric_is_the_mean_so_far(parts: dict[str, xr.Dataset]) -> None:
    """At t0 it is the mean of the first t0 outcomes of a user's course."""
    data = simulate(
        brushing_world(),
        op.pd2_ucb(30, scale="range"),
        horizon=140,
        replicates=TRIALS,
        seed=1,
        progress=False,
    )
    outcome = data["outcome"].isel(policy=0)
    for time in (20, 140):
        expected = outcome.isel(step=slice(0, time)).mean("step")
        kept = parts["base"]["outcome"].sel(policy="PD2", time=time)
        np.testing.assert_allclose(kept, expected, rtol=1e-12)


def test_net_is_the_outcome_less_the_cost_of_messages(parts: dict[str, xr.Dataset]) -> None:
    """Without a cost net and outcome are the same; with one they differ by cost times messages."""
    base, dear = parts["base"], parts["cost-10"]
    np.testing.assert_allclose(base["net"], base["outcome"], rtol=1e-9)
    lost = (dear["outcome"] - dear["net"]).isel(time=-1)
    np.testing.assert_allclose(lost, 10 * dear["sent"], rtol=1e-9, atol=1e-9)
    assert (lost.sel(policy="always send") > 9.99).all()


def test_standard_errors() -> None:
    """By the paper's formula users' errors add up; our interval is that of the users' means."""
    values = xr.DataArray([[1.0, 3.0, 5.0], [10.0, 10.0, 10.0], [0.0, 6.0, 0.0]], dims=("world", "replicate"))
    found = summarise(values)
    sds = [2.0, 0.0, math.sqrt(12)]
    assert found["mean"] == pytest.approx(5.0)
    assert found["se_paper"] == pytest.approx(sum(sds) / (3 * math.sqrt(3)))
    assert found["half_width"] == pytest.approx(interval([3.0, 10.0, 2.0]).half_width)


def test_leads_are_taken_user_by_user() -> None:
    """Differences are taken on the same draws, so what both policies share drops out."""
    shared = np.array([[100.0, 0.0, 50.0], [7.0, 8.0, 9.0]])
    gain = np.array([[1.0, 2.0, 3.0], [1.0, 2.0, 6.0]])
    values = np.stack([shared + gain, shared])[..., np.newaxis]
    data = xr.Dataset({"net": (("policy", "world", "replicate", "time"), values)}, coords={"policy": ["a", "b"]})
    np.testing.assert_allclose(lead(data, "a", "b"), [2.0, 3.0])


def test_nothing_revealed_is_always_sending(parts: dict[str, xr.Dataset]) -> None:
    """The recommender to whom nothing is revealed never stops sending."""
    base = parts["base"]
    np.testing.assert_array_equal(base["outcome"].sel(policy=UNREVEALED), base["outcome"].sel(policy="always send"))


def test_the_informed_sender(parts: dict[str, xr.Dataset]) -> None:
    """It meets the policies' draws: free messages are always worth sending, those that cost 200 s never."""
    free, dear = parts["base"]["outcome"], parts["cost-200"]["net"]
    np.testing.assert_allclose(free.sel(policy=INFORMED), free.sel(policy="always send"))
    np.testing.assert_allclose(dear.sel(policy=INFORMED), dear.sel(policy="never send"))
    some = parts["cost-10"]["sent"].sel(policy=INFORMED)
    assert 0.0 < float(some.mean()) < 1.0


def test_budgets_are_kept(parts: dict[str, xr.Dataset], found: Findings) -> None:
    """No run spends more than its budget, and the claim about it says so."""
    for task, data in parts.items():
        if task != "pooled" and task not in MODELS:
            three = data["spent"].sel(policy=list(THREE))
            assert (three <= 30 + 1e-9).all(), task
    pooled = parts["pooled"]
    for policy in THREE:
        assert (pooled["spent"].sel(policy=f"{policy} 300 shared").sum("world") <= 300 + 1e-9).all()
        assert (pooled["nudges"].sel(policy=f"{policy} 300 shared, hard").sum("world") <= 300).all()
        assert (pooled["nudges"].sel(policy=f"{policy} 30 each, hard") <= 30).all()
    assert next(c for c in found.claims if c.statement.startswith("No budget is exceeded")).verdict is Verdict.HELD


def test_findings(found: Findings) -> None:
    """Numbers are finite; every claim has evidence; pictures and tables are complete."""
    assert len(json.dumps(found.numbers, allow_nan=False)) > 5_000  # which refuses what is not finite
    assert {*THREE, *REFERENCES, INFORMED} <= set(found.numbers["base"])
    assert len(found.claims) == 13
    assert all(c.estimates and len(c.evidence) > 20 for c in found.claims)
    assert all("nan" not in c.evidence for c in found.claims)
    assert len({p.name for p in found.pictures}) == len(found.pictures) == 5
    assert all(axes.get_title() for p in found.pictures for axes in p.figure.axes)
    assert all(len(row) == len(t.columns) for t in found.tables for row in t.rows)


def test_claims_follow_the_numbers(parts: dict[str, xr.Dataset]) -> None:
    """Where PD2 is put behind, the claims that it is ahead no longer hold."""
    ahead, behind = dict(parts), dict(parts)
    for task in CHOICES:
        for changed, shift in ((ahead, 60.0), (behind, -60.0)):
            is_pd2 = parts[task]["policy"] == "PD2"
            changed[task] = parts[task].assign(net=parts[task]["net"] + shift * is_pd2)
    for changed, verdict in ((ahead, Verdict.HELD), (behind, Verdict.NOT_HELD)):
        claims = oralytics.findings(small(True), changed).claims
        assert [c.verdict for c in claims[:4]] == [verdict, Verdict.NOT_HELD, verdict, verdict]


@pytest.mark.parametrize(("ahead", "held"), [({10, 20}, True), ({10}, False), ({20, 40}, False), (set(), False)])
def test_a_cost_at_which_pd2_is_behind_counts(parts: dict[str, xr.Dataset], ahead: set[int], held: bool) -> None:
    """That PD2 earns more at every cost up to 20 s holds only if it does at each of them."""
    task = parts["cost-10"]
    is_pd2 = task["policy"] == "PD2"
    changed = {
        f"cost-{c}": task.assign(net=xr.zeros_like(task["net"]) + is_pd2 * (1.0 if c in ahead else -1.0))
        for c in (10, 20, 40)
    }
    expected = Verdict.HELD if held else Verdict.NOT_HELD
    assert verdicts._cost_claim({"costs": [10, 20, 40]}, changed).verdict is expected


def test_what_chance_could_do_is_not_decided(parts: dict[str, xr.Dataset]) -> None:
    """Whether sharing helps is decided only where the difference exceeds its interval."""
    for shift, verdict in ((60.0, Verdict.HELD), (-60.0, Verdict.NOT_HELD), (0.0, Verdict.NOT_DECIDED)):
        pooled = parts["pooled"]
        own = pooled["net"].sel(policy="PD2 30 each").values
        noise = np.linspace(-1.0, 1.0, 10).reshape(-1, 1, 1)
        net = pooled["net"].copy()
        net.loc[{"policy": "PD2 300 shared"}] = own + shift + noise
        claims = oralytics.findings(small(True), parts | {"pooled": pooled.assign(net=net)}).claims
        (sharing,) = [c for c in claims if c.statement.startswith("One shared budget")]
        assert sharing.verdict is verdict


def test_own_models_are_the_paper_s(parts: dict[str, xr.Dataset]) -> None:
    """With a model for each user the policies are those of the paper's experiment; with one for all they are not."""
    base, models = parts["base"], parts["models"]
    for policy in (*THREE, REVEALED):
        np.testing.assert_array_equal(models["outcome"].sel(policy=f"{policy} own"), base["outcome"].sel(policy=policy))
        assert (models["outcome"].sel(policy=f"{policy} pooled") != base["outcome"].sel(policy=policy)).any()
    for task in MODELS:
        assert (parts[task]["spent"].sel(policy=[f"{p} pooled" for p in THREE]) <= 30 + 1e-9).all()


def test_leads_of_users_who_learn_together_are_taken_trial_by_trial() -> None:
    """What all users of a trial have in common counts once, not once per user."""
    gain = np.array([[1.0, 2.0, 3.0], [3.0, 4.0, 11.0]])
    values = np.stack([gain, np.zeros_like(gain)])[..., np.newaxis]
    data = xr.Dataset({"net": (("policy", "world", "replicate", "time"), values)}, coords={"policy": ["a", "b"]})
    np.testing.assert_allclose(lead_by_trial(data, "a", "b"), [2.0, 3.0, 7.0])


@pytest.mark.parametrize(
    ("by_user", "by_trial", "verdict"),
    [(0.1, 0.1, Verdict.HELD), (9.0, 0.1, Verdict.NOT_DECIDED), (0.1, 9.0, Verdict.NOT_DECIDED)],
)
def test_pooling_must_be_clear_over_users_and_trials(
    by_user: float, by_trial: float, verdict: Verdict, parts: dict[str, xr.Dataset], found: Findings
) -> None:
    """A pooled model is said to do better only if neither users nor trials could have done it by chance."""
    data = parts["models"]
    spread = by_user * np.linspace(-1.0, 1.0, 10).reshape(-1, 1, 1) + by_trial * np.linspace(-1.0, 1.0, TRIALS).reshape(
        1, -1, 1
    )
    net = data["net"].copy()
    net.loc[{"policy": "PD2 pooled"}] = net.sel(policy="PD2 own").values + 1.0 + spread
    claim = verdicts._model_claim("these", data.assign(net=net), found.numbers["models"])
    assert claim.verdict is verdict


def test_files_of_the_experiment(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The runner writes JSON of the usual shape, figures, data and a report; a second run keeps them."""
    monkeypatch.setattr(oralytics, "EXPERIMENT", replace(oralytics.EXPERIMENT, config=small))
    report = reproduce(["oralytics"], out=tmp_path, quick=True, seed=2)
    result = json.loads((tmp_path / "oralytics.json").read_text())
    assert set(result) >= {"experiment", "title", "about", "config", "numbers", "claims", "figures", "tables"}
    assert result["config"]["trials"] == TRIALS
    assert {"statement", "verdict", "evidence", "estimates"} == set(result["claims"][0])
    for figure in result["figures"]:
        assert (tmp_path / figure["png"]).stat().st_size > 10_000
        assert (tmp_path / figure["svg"]).is_file()
    assert op.load(tmp_path / "oralytics.nc")["base.outcome"].shape == (9, 10, TRIALS, 7)
    assert "Tooth brushing" in report.read_text()
    written = (tmp_path / "oralytics.json").stat().st_mtime_ns
    reproduce(["oralytics"], out=tmp_path, quick=True, seed=2)
    assert (tmp_path / "oralytics.json").stat().st_mtime_ns == written
