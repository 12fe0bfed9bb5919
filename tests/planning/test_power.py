"""Power: nothing can be found without a coin, more with more participants, and a coin has its price."""

import math
from pathlib import Path

import numpy as np
import pytest
from plan_studies import numeric, simulations, small

from opportune.planning.power import Power, _summary, designs, find_power
from opportune.planning.settings import Settings
from opportune.planning.wcls import Estimate

STRONG = ('"action=walk:stress" = { mean = 1.2, sd = 0.2 }', '"action=walk:stress" = { mean = 2.5, sd = 0.2 }')


@pytest.fixture(scope="module")
def settings() -> Settings:
    return small(STRONG, ("seed = 5", "seed = 6"), replicates=40, budgets=[8], participants=24)


@pytest.fixture(scope="module")
def power(settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> Power:
    return find_power(settings, simulations(tmp_path_factory.mktemp("power")), 8)


def test_without_a_coin_the_effect_of_a_nudge_cannot_be_told(power: Power) -> None:
    """PACE as it is leaves probabilities of 0 and 1: no power to speak of, and no usable decision."""
    table = power.table[power.table["effect"] == "nudge"].set_index("design")
    assert table.loc["PACE", "power"].isna().all()
    assert (table.loc["PACE", "usable"] == 0.0).all()


def test_a_coin_buys_power_and_costs_outcome(power: Power) -> None:
    """With a coin the effect can be found, the more surely the more of it there is and the more participants."""
    table = power.table[power.table["effect"] == "nudge"].set_index(["design", "participants"])["power"]
    for n in (24, 48):
        assert table["PACE, randomise 0.3", n] >= table["PACE, randomise 0.1", n] - 0.1
    assert table["PACE, randomise 0.3", 48] > table["PACE, randomise 0.3", 6]
    assert table["PACE, randomise 0.3", 48] > 0.5
    coins = power.coins.set_index("design")
    assert coins.loc["PACE", "lost"] == 0.0
    assert coins.loc["PACE, randomise 0.3", "lost"] > coins.loc["PACE, randomise 0.1", "lost"] - 0.05
    assert coins.loc["PACE, randomise 0.3", "usable"] > 0.5


def test_the_best_action_is_found_by_the_studys_formula(power: Power) -> None:
    """Walking is worth 2.5 times the mean stress of 0.7 less 1: the estimate comes near, and power is high."""
    assert power.best_action == "walk"
    table = power.table[(power.table["effect"] == "best action") & (power.table["participants"] == 48)]
    assert (table["power"] > 0.9).all()
    assert table["estimate"].to_numpy() == pytest.approx(2.5 * 0.7 - 1.0, abs=0.25)


def test_numbers_among_the_variables_are_no_hindrance(tmp_path: Path) -> None:
    """With stress uniform on 0 to 2 walking is worth 2.5 - 1 on average: found by the study's formula."""
    settings = numeric(STRONG, replicates=40, budgets=[8], participants=24)
    found = find_power(settings, simulations(tmp_path), 8)
    assert found.best_action == "walk"
    table = found.table[found.table["participants"] == 48].set_index(["effect", "design"])
    best = table.loc["best action"]
    assert (best["power"] > 0.9).all()
    assert best["estimate"].to_numpy() == pytest.approx(2.5 * 1.0 - 1.0, abs=0.25)
    assert math.isnan(table.loc[("nudge", "PACE"), "power"])
    assert math.isfinite(table.loc[("nudge", "PACE, randomise 0.3"), "power"])


def test_actions_alike_are_not_told_apart_among_numbers(tmp_path: Path) -> None:
    """The control: where no action is better, the best one is found about one time in twenty."""
    alike = ('"action=walk:stress" = { mean = 1.2, sd = 0.2 }', '"action=walk:stress" = 0.0')
    same = ('"action=walk" = { mean = -1.0, sd = 0.2 }', '"action=walk" = 0.0')
    table = find_power(
        numeric(alike, same, replicates=40, budgets=[8], participants=24), simulations(tmp_path), 8
    ).table
    here = table[(table["effect"] == "best action") & (table["participants"] >= 24)]
    assert (here["power"] < 0.2).all()


def test_no_effect_is_found_no_more_often_than_the_level(tmp_path: Path) -> None:
    """Where actions are all alike a nudge changes nothing, and it is found about one time in twenty."""
    alike = ('"action=walk:stress" = { mean = 1.2, sd = 0.2 }', '"action=walk:stress" = 0.0')
    same = ('"action=walk" = { mean = -1.0, sd = 0.2 }', '"action=walk" = 0.0')
    nothing = small(alike, same, replicates=40, budgets=[8], participants=24)
    table = find_power(nothing, simulations(tmp_path), 8).table
    here = table[(table["effect"] == "nudge") & (table["design"] == "PACE, randomise 0.3")]
    assert (here.loc[here["participants"] >= 24, "power"] < 0.16).all()


def test_shares_have_wilsons_interval() -> None:
    """Of ten cohorts with five finds the interval is 24% to 76%; with too few that could tell there is none."""
    yes, no = Estimate(1, 0.1, 0.8, 1.2, 0.001), Estimate(0, 1, -2, 2, 0.9)
    found = _summary([yes] * 5 + [no] * 5)
    assert (found["power"], round(found["low"], 3), round(found["high"], 3)) == (0.5, 0.237, 0.763)
    assert math.isnan(_summary([yes] * 5 + [None] * 5)["power"])


def test_designs_have_the_plans_budget(settings: Settings) -> None:
    """Every design is tried at the plan's budget and at those of the grid."""
    for chosen in designs(settings, 5).values():
        assert list(chosen) == [5.0, 8.0]
        assert all(policy.budget is not None and policy.budget.amount == b for b, policy in chosen.items())
    assert np.isfinite([p.budget.amount for p in designs(settings, 5)["PACE"].values() if p.budget]).all()
