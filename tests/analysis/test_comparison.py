"""Policies side by side: what can be compared is, by paired differences; what cannot stands apart."""

import numpy as np
import pytest
import xarray as xr

import opportune as op
from opportune.analysis.comparison import compare_policies, digits_for, pick_reference
from opportune.analysis.intervals import Interval, interval
from opportune.analysis.metrics import clairvoyants
from opportune.errors import InputError

POLICIES = [
    op.naive_ucb(4),
    op.pd2_ucb(4),
    op.pd2_ucb(8, name="PD2 B=8"),
    op.Policy(revealer=op.Never(), name="never"),
    op.Policy(revealer=op.Always(), name="always"),
]


@pytest.fixture(scope="module")
def data() -> xr.Dataset:
    """A small study with budgets of 4 and 8, and policies without one."""
    worlds = op.synthetic_worlds(3, seed=1)
    return op.simulate(worlds, POLICIES, horizon=30, replicates=4, seed=1, trace=False, progress=False)


def test_differences_are_paired(data: xr.Dataset) -> None:
    """The difference to the reference is taken world by world: its interval is that of the differences."""
    rows = {row.policy: row for row in compare_policies(data)}
    means = data["total_outcome"].mean("replicate") / 30
    paired = (means.sel(policy="PD2") - means.sel(policy="never")).values
    assert rows["PD2"].difference == pytest.approx(interval(paired))
    assert rows["never"].difference is None
    assert rows["PD2"].outcome == pytest.approx(interval(means.sel(policy="PD2").values))
    unpaired = np.hypot(rows["PD2"].outcome.half_width, rows["never"].outcome.half_width)
    assert rows["PD2"].difference is not None
    assert rows["PD2"].difference.half_width != pytest.approx(unpaired)


def test_regret_is_against_one_clairvoyant(data: xr.Dataset) -> None:
    """Each regret says whose budget its clairvoyant has; without a budget there is none beside those who have one."""
    rows = {row.policy: row for row in compare_policies(data)}
    assert {name: row.clairvoyant for name, row in rows.items()} == {
        "naive": "4 nudges", "PD2": "4 nudges", "PD2 B=8": "8 nudges", "never": None, "always": None,
    }  # fmt: skip
    assert rows["always"].regret is None
    assert rows["PD2"].regret is not None
    assert all(row.realised_regret is not None for row in rows.values())
    only_free = data.sel(policy=["never", "always"])
    assert clairvoyants(only_free) == {"no limit": ["never", "always"]}
    assert all(row.regret is not None for row in compare_policies(only_free))


def test_shared_budgets_have_a_clairvoyant_of_their_own() -> None:
    """A budget for all together is not that of one, though the numbers are equal."""
    policies = [op.pd2_ucb(4), op.pd2_ucb(op.Budget(4, shared=True), name="shared")]
    worlds = op.synthetic_worlds(2, seed=1)
    data = op.simulate(worlds, policies, horizon=10, replicates=2, seed=1, progress=False)
    assert clairvoyants(data) == {"4 nudges": ["PD2"], "4 nudges for all together": ["shared"]}
    rows = {row.policy: row for row in compare_policies(data)}
    spent = float(data["spent"].sel(policy="shared").sum("world").mean())
    assert rows["shared"].budget_left == pytest.approx(4.0 - spent)


def test_the_reference(data: xr.Dataset) -> None:
    """The one wanted; else the first that never nudges; else the first. A wrong name is refused."""
    assert pick_reference(data) == "never"
    assert pick_reference(data, "naive") == "naive"
    assert pick_reference(data.sel(policy=["PD2", "always"])) == "PD2"
    with pytest.raises(InputError, match="reference is 'nobody'; expected one of 'naive'"):
        pick_reference(data, "nobody")


def test_digits() -> None:
    """Two digits that count of the least uncertainty."""
    assert digits_for([Interval(100.0, 12.0), None, Interval(3.0, 30.0)]) == 0
    assert digits_for([Interval(1.0, 0.12)]) == 2
    assert digits_for([Interval(5.0, np.nan)]) == 2
    assert digits_for([Interval(0.0, 0.0)]) == 1


def test_names_of_actions_and_contexts_are_in_the_data() -> None:
    """Results say what actions and contexts are called, and how many decisions a day has."""
    variables = {"tod": op.TimeOfDay(["am", "pm"]), "stress": (0, 1)}
    problem = op.Problem.from_formula("1 + action * stress + tod", variables, ["rest", "walk"], [0.25] * 4)
    assert isinstance(problem, op.Problem)
    world = op.LinearWorld(problem, theta=[0.1] * problem.d)
    data = op.simulate(world, op.pd2_ucb(2), horizon=6, replicates=1, seed=1, progress=False)
    assert data["action_name"].values.tolist() == ["rest", "walk"]
    assert data["context_name"].values.tolist()[1] == "tod=am, stress=1"
    assert data.attrs["decisions_per_day"] == 2
    plain = op.simulate(op.synthetic_worlds(1, seed=1), op.pd2_ucb(2), horizon=3, replicates=1, seed=1, progress=False)
    assert "decisions_per_day" not in plain.attrs
