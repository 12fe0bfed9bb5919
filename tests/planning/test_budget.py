"""The value of the budget: against brute force in a small case, and by hand."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from plan_studies import simulations, small

import opportune as op
from opportune.planning import simulated
from opportune.planning.budget import crossing, find_least, find_values, shares, value_table
from opportune.planning.settings import Settings
from opportune.planning.worlds import participants_of


def brute_force(settings: Settings, policy: op.Policy, name: str = "outcome") -> float:
    """The mean outcome, or another variable, per day, from single calls of simulate, participant by participant."""
    outcomes = []
    for world in participants_of(settings):
        data = op.simulate([world], [policy], horizon=settings.horizon, replicates=60, seed=99, progress=False)
        outcomes.append(float(data[name].mean()) * settings.per_day)
    return float(np.mean(outcomes))


def test_values_are_those_of_simulations_one_by_one(tmp_path: Path) -> None:
    """What a plan says of each budget, of never and of always is what simulating it by itself gives, but for chance."""
    settings = small(replicates=60)
    values = find_values(settings, simulations(tmp_path))
    expected = {
        0.0: op.Policy(recommender=op.LinUCB(**op.Pace.suits), revealer=op.Never()),
        4.0: op.pace_ucb(4),
        8.0: op.pace_ucb(8),
        24.0: op.pace_ucb(24),
    }
    assert sorted(values.outcome["PACE"]) == sorted(expected)
    for budget, policy in expected.items():
        assert values.outcome["PACE"][budget].mean() == pytest.approx(brute_force(settings, policy), abs=0.05)
    always = op.Policy(recommender=op.LinUCB(**op.Pace.suits), revealer=op.Always())
    assert values.always.mean() == pytest.approx(brute_force(settings, always), abs=0.05)
    nudged = brute_force(settings, expected[4.0], "nudged")
    assert values.nudges["PACE"][4.0].mean() == pytest.approx(nudged * settings.horizon / settings.per_day, abs=0.1)
    assert 3.0 < values.nudges["PACE"][4.0].mean() < 4.0 + 1e-9, "none where nothing is gained"


def test_on_a_gpu_all_policies_are_one_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """One part with the same numbers, so that few kernels are built; what is kept step by step stays on the CPU."""
    here = find_values(small(), simulations(tmp_path / "cpu"))
    devices: list[tuple[str, bool]] = []

    def on_cpu(*given: Any, device: str, trace: bool, **named: Any) -> Any:
        devices.append((device, trace))
        return op.simulate(*given, device="cpu", trace=trace, **named)

    monkeypatch.setattr(simulated, "simulate", on_cpu)
    settings = small(device="cuda")
    there = find_values(settings, simulations(tmp_path / "gpu"))
    assert [len(list((tmp_path / name).rglob("*.nc"))) for name in ("cpu", "gpu")] == [2, 1]
    assert list(there.outcome) == list(here.outcome)
    for policy, curve in here.outcome.items():
        for budget, outcome in curve.items():
            assert np.array_equal(there.outcome[policy][budget], outcome)
            assert np.array_equal(there.nudges[policy][budget], here.nudges[policy][budget])
    assert np.array_equal(there.always, here.always)
    next(simulated.steps(settings, settings.worlds, [op.pace_ucb(4)], 2))
    assert devices == [("cuda", False), ("cpu", True)]


def test_the_least_budget_is_that_of_trying_every_number(tmp_path: Path) -> None:
    """The search finds the least whole number whose simulated share reaches the target."""
    settings = small(replicates=100, target=0.5, budgets=[4, 12])
    found = find_values(settings, simulations(tmp_path / "a"))
    least = find_least(settings, found, simulations(tmp_path / "a"))
    every = small(replicates=100, target=0.5, budgets=range(13))
    values = find_values(every, simulations(tmp_path / "b"))
    reached = [
        b
        for b in range(13)
        if shares(values.outcome["PACE"][float(b)].mean(), values.never.mean(), values.always.mean()) >= 0.5
    ]
    assert least.reached
    assert abs(least.budget - reached[0]) <= 1
    assert least.low <= least.budget <= math.ceil(least.high)


def test_targets_that_no_budget_reaches_are_said_to_be_so(tmp_path: Path) -> None:
    """Where even the whole horizon falls short, the answer is for the share of the most that can be had."""
    settings = small(("response_rate = 0.9", "response_rate = 0.4"), target=0.995, replicates=20)
    least = find_least(settings, find_values(settings, simulations(tmp_path)), simulations(tmp_path))
    assert not least.reached
    assert least.share == pytest.approx(0.995 * least.most)
    assert 1 <= least.budget <= 24


def test_nudges_that_bring_nothing(tmp_path: Path) -> None:
    """Where neither end of the scale is better than no nudges, that is said, and no budget is made up."""
    settings = small()
    values = find_values(settings, simulations(tmp_path))
    assert find_least(settings, values, simulations(tmp_path)).useful  # the control
    outcome = {"PACE": {0.0: values.never, 24.0: values.never - 0.1}}
    around = np.where(np.arange(len(values.never)) % 2, values.never + 1.0, values.never - 0.9)
    for always in (values.never.copy(), values.never - 0.5, around):
        nothing = values._replace(always=always, outcome=outcome)
        least = find_least(settings, nothing, simulations(tmp_path))
        assert not least.useful
        assert math.isnan(least.low)
        assert np.isnan(nothing.most).all()


def test_shares_are_of_the_better_end(tmp_path: Path) -> None:
    """Where a nudge at every decision is worse than the rule, the rule without a limit on its budget is the 100%."""
    settings = small()
    values = find_values(settings, simulations(tmp_path))
    assert np.array_equal(values.most, values.always)  # the control: nothing makes every decision the worse
    worse = values._replace(always=values.never + 0.01)
    table = value_table(settings, worse).set_index(["policy", "budget"])["share"]
    assert table["PACE", 24.0] == 1.0
    assert 0.0 < table["PACE", 8.0] <= 1.1
    assert 0.0 < table["always"].iloc[0] < 0.1
    least = find_least(settings, worse, simulations(tmp_path))
    assert least.reached
    assert least.most < 1.1
    old = shares(worse.outcome["PACE"][8.0].mean(), worse.never.mean(), worse.always.mean())
    assert old > 5.0, "against the worse end the share would be many times 100%"


def test_crossing_by_hand() -> None:
    """The first point where the line through the points reaches the target; never is infinite."""
    budgets = np.array([0.0, 10.0, 20.0])
    assert crossing(budgets, np.array([0.0, 0.5, 1.0]), 0.75) == 15.0
    assert crossing(budgets, np.array([0.8, 0.5, 1.0]), 0.75) == 0.0
    assert crossing(budgets, np.array([0.0, 0.5, 0.6]), 0.75) == math.inf


def test_intervals_come_from_the_draws_of_effects(tmp_path: Path) -> None:
    """Participants who differ more make wider intervals, however many replications there are."""
    wide = ('"action=walk:stress" = { mean = 1.2, sd = 0.2 }', '"action=walk:stress" = { mean = 1.2, sd = 0.6 }')
    widths = []
    for changes in ((), (wide,)):
        settings = small(*changes, replicates=60)
        table = value_table(settings, find_values(settings, simulations(tmp_path / f"{len(changes)}")))
        row = table[(table["policy"] == "PACE") & (table["budget"] == 8.0)].iloc[0]
        widths.append(row["high"] - row["low"])
        assert row["share_low"] <= row["share"] <= row["share_high"]
    assert widths[1] > 1.5 * widths[0]
