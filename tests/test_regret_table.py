"""The synthetic study comes out as measured by an independent program (docs/paper.md), within Monte-Carlo error."""

from itertools import pairwise

import numpy as np
import pytest
import xarray as xr

from opportune.analysis.metrics import realised_regret, regret
from opportune.policy import Policy, naive_ucb, pd1_ucb, pd2_ucb
from opportune.revealers import Always
from opportune.simulation import simulate
from opportune.worlds.linear import synthetic_worlds

pytestmark = pytest.mark.slow

INSTANCES = 50
BUDGETS = (10, 20, 30)
REGRET = {
    "naive": (418, 293, 284),
    "PD1 range": (306, 128, 142),
    "PD2 range": (138, 103, 118),
    "PD1 adaptive": (84, 76, 79),
    "PD2 adaptive": (75, 64, 66),
}
REALISED = {"PD2 range": (110, 50, 42), "PD2 adaptive": (62, 43, 39)}
REALISED_ALWAYS = 26
UNKNOWN = {"PD2 range": (134, 106, 121)}


def policy(name: str, budget: int) -> Policy:
    """A policy of the table, labelled with its budget."""
    label = f"{name} {budget}"
    if name == "naive":
        return naive_ucb(budget, name=label)
    kind, scale = name.split()
    return (pd1_ucb if kind == "PD1" else pd2_ucb)(budget, scale=scale, name=label)


def run(policies: list[Policy], *, known: bool = True) -> xr.Dataset:
    """Means over replicates for every instance of the study."""
    data = simulate(
        synthetic_worlds(INSTANCES, seed=1, known=known),
        policies,
        horizon=300,
        replicates=40 if known else 20,
        seed=1,
        trace=False,
        progress=False,
    )
    measures = {"regret": regret(data), "realised": realised_regret(data), "spent": data["spent"]}
    return xr.Dataset(measures).mean("replicate")


@pytest.fixture(scope="module")
def study() -> xr.Dataset:
    """The whole table with probabilities known, and the policy that reveals every step."""
    policies = [policy(name, budget) for name in REGRET for budget in BUDGETS]
    return run([*policies, Policy(revealer=Always(), name="always")])


def assert_comes_near(values: xr.DataArray, expected: float) -> None:
    """The mean is within 4 standard errors, both the measurement's draw of instances and this one counted."""
    error = np.sqrt(2.0) * float(values.std("world", ddof=1)) / np.sqrt(INSTANCES)
    assert float(values.mean("world")) == pytest.approx(expected, abs=4.0 * error)


def mean(study: xr.Dataset, name: str, budget: int, measure: str = "regret") -> float:
    """The mean over instances of one entry of the table."""
    return float(study[measure].sel(policy=f"{name} {budget}").mean("world"))


@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("name", REGRET)
def test_regret_table(study: xr.Dataset, name: str, budget: int) -> None:
    """Mean regret at the end is the measured one."""
    values = study["regret"].sel(policy=f"{name} {budget}")
    assert_comes_near(values, REGRET[name][BUDGETS.index(budget)])


@pytest.mark.parametrize("budget", BUDGETS)
def test_orderings(study: xr.Dataset, budget: int) -> None:
    """At each budget PD2 beats PD1 beats naive, and the adaptive scale beats the range."""
    for scale in ("range", "adaptive"):
        order = [mean(study, name, budget) for name in (f"PD2 {scale}", f"PD1 {scale}", "naive")]
        assert order == sorted(order)
    for kind in ("PD1", "PD2"):
        assert mean(study, f"{kind} adaptive", budget) < mean(study, f"{kind} range", budget)


@pytest.mark.parametrize("budget", BUDGETS)
def test_almost_instance_by_instance(study: xr.Dataset, budget: int) -> None:
    """PD2 beats naive in every instance and PD1 in nearly every one, with scale range."""
    values = study["regret"]
    pd2 = values.sel(policy=f"PD2 range {budget}", drop=True)
    assert (pd2 < values.sel(policy=f"naive {budget}", drop=True)).all()
    assert (pd2 < values.sel(policy=f"PD1 range {budget}", drop=True)).mean() >= 0.9


def test_margin_is_greatest_at_low_budget(study: xr.Dataset) -> None:
    """PD2's lead over naive and over PD1 is greatest at the least budget."""
    for other in ("naive", "PD1 range"):
        leads = [mean(study, other, budget) - mean(study, "PD2 range", budget) for budget in BUDGETS]
        assert leads[0] == max(leads)


@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("name", REALISED)
def test_realised_regret(study: xr.Dataset, name: str, budget: int) -> None:
    """What patients really lose under PD2 is as measured, and less at greater budgets."""
    values = study["realised"].sel(policy=f"{name} {budget}")
    assert_comes_near(values, REALISED[name][BUDGETS.index(budget)])
    losses = [mean(study, name, b, "realised") for b in BUDGETS]
    assert all(more > less for more, less in pairwise(losses))


def test_realised_regret_if_everything_is_revealed(study: xr.Dataset) -> None:
    """Revealing every step leaves the loss of learning alone."""
    values = study["realised"].sel(policy="always")
    assert_comes_near(values, REALISED_ALWAYS)
    assert float(values.mean("world")) < mean(study, "PD2 adaptive", 30, "realised")


def test_spending(study: xr.Dataset) -> None:
    """Scale range leaves a third of the budget unspent (6.8 of 10); adaptive spends it, and naive all of it."""
    assert mean(study, "PD1 range", 10, "spent") == pytest.approx(6.8, abs=0.3)
    assert mean(study, "PD2 range", 10, "spent") == pytest.approx(6.8, abs=0.4)
    for budget in BUDGETS:
        for name in ("PD1 adaptive", "PD2 adaptive"):
            assert 0.98 * budget < mean(study, name, budget, "spent") <= budget
        assert mean(study, "naive", budget, "spent") == pytest.approx(budget, rel=1e-9)


def test_unknown_probabilities_change_little() -> None:
    """With frequencies in place of probabilities PD2's regret is as measured."""
    values = run([policy("PD2 range", budget) for budget in BUDGETS], known=False)["regret"]
    for budget, expected in zip(BUDGETS, UNKNOWN["PD2 range"], strict=True):
        assert_comes_near(values.sel(policy=f"PD2 range {budget}"), expected)
