"""Power: the formula gives published numbers and those of fresh cohorts; without an effect little is found."""

import math
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pandas as pd
import pytest
from plan_studies import numeric, simulations, small
from scipy.special import stdtrit

from opportune.errors import InputError
from opportune.inference.least_squares import add_up, solve
from opportune.inference.questions import CHANCE, ELIGIBLE, NUDGE, Question
from opportune.planning.pool import in_arms, pools
from opportune.planning.power import (
    BARE,
    Power,
    designs,
    find_power,
    holm_power,
    participants_for,
    power_of,
    questions,
)
from opportune.planning.settings import Settings
from opportune.planning.words import learned

STRONG = ('"action=walk:stress" = { mean = 1.2, sd = 0.2 }', '"action=walk:stress" = { mean = 2.5, sd = 0.2 }')
NOISY = ("noise_sd = 0.3", "noise_sd = 0.9")
ALIKE = (
    ('"action=walk:stress" = { mean = 1.2, sd = 0.2 }', '"action=walk:stress" = 0.0'),
    ('"action=walk" = { mean = -1.0, sd = 0.2 }', '"action=walk" = 0.0'),
)
MOST_OFTEN = "PACE, candidates 0.2"


@pytest.fixture(scope="module")
def settings() -> Settings:
    return small(STRONG, NOISY, ("seed = 5", "seed = 6"), replicates=40, budgets=[8], participants=24)


@pytest.fixture(scope="module")
def power(settings: Settings, tmp_path_factory: pytest.TempPathFactory) -> Power:
    return find_power(settings, simulations(tmp_path_factory.mktemp("power")), 8)


def test_the_published_example() -> None:
    """Liao et al. (2016): effect 0.1, available half the time, p = 0.4, 210 points, 3 controls: 34 participants."""
    variance = 1.0 / (210 * 0.5 * 0.4 * 0.6)
    found = {n: power_of(n, 0.1, variance, df=n - 4) for n in (33, 34)}
    assert found[33] == pytest.approx(0.7959, abs=5e-5)
    assert found[34] == pytest.approx(0.8085, abs=5e-5)
    assert participants_for(lambda n: power_of(n, 0.1, variance, df=n - 4)) == 34
    assert participants_for(lambda n: power_of(n, -0.1, variance, df=n - 4)) == 34


def test_the_power_is_none_where_the_analysis_refuses() -> None:
    """With k coefficients the analysis takes more than k + 5 participants: no effect makes fewer enough."""
    assert power_of(9, 50.0, 1.0, df=5) == 0.0
    assert (holm_power(9, np.array([50.0, 50.0]), np.eye(2), df=5) == 0.0).all()
    assert participants_for(lambda n: power_of(n, 50.0, 1.0, df=n - 4)) == 10


def test_large_studies_have_the_power_of_the_normal_distribution() -> None:
    """No jump where noncentral t gives way to its approximation, and no number of participants breaks it."""
    below, above = (power_of(n, 0.05, 1.0, df=n - 4) for n in (304, 305))
    assert 0.0 < above - below < 0.002
    assert power_of(100_000, 5.0, 1.0, df=99_996) == pytest.approx(1.0)
    assert math.isinf(participants_for(lambda n: power_of(n, 1e-4, 1.0, df=n - 4)))


def test_without_an_effect_only_the_right_sign_counts() -> None:
    """An effect of next to nothing is found with its own sign in 2.5% of studies, not in 5."""
    assert power_of(50, 1e-9, 1.0, df=46) == pytest.approx(0.025, abs=1e-6)


def test_several_contrasts_are_adjusted() -> None:
    """One contrast has the power of the formula; of two equal ones each has less, more than by halving the level."""
    alone = holm_power(40, np.array([0.5]), np.array([[1.0]]), df=36)
    assert alone[0] == pytest.approx(power_of(40, 0.5, 1.0, df=36), abs=0.01)
    two = holm_power(40, np.array([0.5, 0.5]), np.eye(2), df=36)
    assert (two < alone[0]).all()
    assert two[0] == pytest.approx(two[1], abs=0.01)
    assert two[0] > holm_power(40, np.array([0.5, 0.0]), np.eye(2), df=36)[0]


def test_without_a_coin_the_effect_of_a_nudge_cannot_be_told(power: Power) -> None:
    """PACE as it is leaves probabilities of 0 and 1: no power, and a sentence that says why."""
    here = power.table[(power.table["design"] == "PACE") & (power.table["question"] == power.primary)]
    assert here["power"].isna().all()
    assert (here["eligible"] == 0.0).all()
    assert here["why"].iloc[0].startswith("a nudge was never left to chance")


def test_a_coin_buys_power_and_costs_outcome(power: Power) -> None:
    """With a coin the effect can be found, the more surely the more participants there are, and outcome is lost."""
    table = power.table[power.table["question"] == power.primary].set_index(["design", "participants"])
    assert power.primary == "effect of a nudge on the reward"
    curve = table.loc[MOST_OFTEN, "power"]
    assert curve.is_monotonic_increasing
    assert curve.iloc[-1] > 0.9
    needed = table.loc[(MOST_OFTEN, 24), "participants_for_80"]
    assert 8 < needed < 96
    assert np.interp(needed, curve.index, curve) == pytest.approx(0.8, abs=0.03)
    coins = power.coins.set_index("design")
    assert coins.loc["PACE", "lost"] == 0.0
    assert (coins["low"] <= coins["lost"]).all()
    assert (coins["lost"] <= coins["high"]).all()
    assert coins.loc[MOST_OFTEN, "eligible"] > 0.25


@pytest.mark.slow
def test_the_formula_agrees_with_fresh_cohorts(settings: Settings, power: Power) -> None:
    """Of 1,500 fresh cohorts of as many participants as 80% need, at least 20, 80% find it, within three points."""
    table = power.table[(power.table["question"] == power.primary) & (power.table["participants"] == 24)]
    needed = int(table.set_index("design").loc[MOST_OFTEN, "participants_for_80"])
    assert needed >= 20
    cohorts = needed
    row = table.set_index("design").loc[MOST_OFTEN]
    variance = row["se"] ** 2 * 24
    frame = pools(settings, [designs(settings, 8)[MOST_OFTEN][8.0]], people=1_500 * cohorts)[0].frame
    question = questions(settings, frame, 8.0)[0]
    found = [
        question.answer(part) for _, part in frame.groupby(frame["participant"] // cohorts) if len(part) > 20 * cohorts
    ]
    assert len(found) == 1_500
    right = [one.p[-1] < 0.05 and one.estimate[-1] * row["estimate"] > 0 for one in found]
    expected = power_of(cohorts, row["estimate"], variance, df=cohorts - len(found[0].names))
    assert np.mean(right) == pytest.approx(expected, abs=0.03)


def test_no_effect_is_found_no_more_often_than_the_level(tmp_path: Path) -> None:
    """Where actions are all alike a nudge changes nothing: no number of participants is named."""
    nothing = small(*ALIKE, replicates=40, budgets=[8], participants=24)
    table = find_power(nothing, simulations(tmp_path), 8).table
    here = table[(table["design"] == MOST_OFTEN) & (table["participants"] == 24) & table["power"].notna()]
    assert here["participants_for_80"].isna().all()
    assert (here["power"] < 0.15).all()
    assert here["why"].str.contains("not detectable even among all").all()


def test_numbers_among_the_variables_are_no_hindrance(tmp_path: Path) -> None:
    """A numeric variable is a control as it is, and a reported one, which is not known beforehand, is none."""
    settings = numeric(STRONG, replicates=40, budgets=[8], participants=24)
    frame = pools(settings, [designs(settings, 8)[MOST_OFTEN][8.0]], people=100)[0].frame
    assert questions(settings, frame, 8.0)[0].controls == "stress"  # a tenth as many coefficients as people
    assert "mood" not in frame
    found = find_power(settings, simulations(tmp_path), 8).table
    here = found[(found["participants"] == 24) & (found["effect"] == "effect of a nudge on the reward")]
    assert math.isfinite(here.set_index("design").loc[MOST_OFTEN, "power"])


def test_participants_are_fresh_and_some_leave() -> None:
    """Nobody is taken twice, and those who leave have no rows from then on; the control: nobody leaves."""
    leaving = small(("planned = 12", "planned = 12\ndropout = 0.5"))
    policy = designs(leaving, 8)[MOST_OFTEN][8.0]
    rows = pools(leaving, [policy], people=400)[0].frame.groupby("participant").size()
    assert len(rows) == 400
    assert 0.4 < (rows < 24).mean() < 0.6
    stay = small()
    frame = pools(stay, [designs(stay, 8)[MOST_OFTEN][8.0]], people=50)[0].frame
    assert (frame.groupby("participant").size() == 24).all()
    coins = frame.pivot_table(index="participant", columns="step", values=CHANCE, observed=True)
    assert len(coins.round(9).drop_duplicates()) == 50
    drawn = frame[frame[ELIGIBLE] == 1]
    assert abs((drawn[NUDGE] - drawn[CHANCE]).sum()) < 4.0 * math.sqrt((drawn[CHANCE] * (1 - drawn[CHANCE])).sum())


def test_designs_have_the_plans_budget(settings: Settings) -> None:
    """Every design is tried at the plan's budget and at those of the grid."""
    for chosen in designs(settings, 5).values():
        assert list(chosen) == [5.0, 8.0]
        assert all(policy.budget is not None and policy.budget.amount == b for b, policy in chosen.items())


def test_a_study_with_a_coin_is_compared_with_one_without() -> None:
    """Where the file mixes a coin in, what it costs is seen against the same policy without; no other coin is tried."""
    own = designs(small(('kind = "PACE"', 'kind = "PACE"\nrandomise = 0.2')), 8)
    assert list(own) == ["PACE", BARE]
    assert [policy.revealer.randomised for chosen in own.values() for policy in chosen.values()] == [True] * 2 + [
        False
    ] * 2


def test_questions_of_a_study_without_arms() -> None:
    """A question that the record cannot answer says what is missing."""
    settings = small()
    frame = pools(settings, [designs(settings, 8)[MOST_OFTEN][8.0]], people=30)[0].frame
    with pytest.raises(InputError, match="the study has no arms"):
        Question(estimand="arms").answer(frame)
    bare = frame.drop(columns=[name for name in frame if name.startswith("action_probability_")])
    with pytest.raises(InputError, match="no probabilities of actions"):
        Question(estimand="actions").answer(bare)


def test_a_baseline_among_the_controls_is_no_hindrance() -> None:
    """It is not simulated, so the plan goes without it: with fewer controls power is rather too low than too high."""
    people = ("planned = 12", "planned = 12\nbaseline = { age = [40, 85] }")
    for text, controls in (("controls = 'age'", "stress"), ("controls = 'stress + step'", "stress + step")):
        settings = small(people, ("[world]", f"[analysis]\nprimary = {{ {text} }}\n\n[world]"), participants=24)
        frame = pools(settings, [designs(settings, 8)[MOST_OFTEN][8.0]], people=50)[0].frame
        first = questions(settings, frame, 8.0)[0]
        assert first.controls == controls
        assert first.answer(frame).effects == 1


def floored(*changes: tuple[str, str]) -> Settings:
    """A study whose recommender takes every action with a probability of at least 0.1."""
    return small(('kind = "PACE"\n\n[[policies]]', 'kind = "PACE"\nfloor = 0.1\n\n[[policies]]'), *changes)


def test_actions_that_are_left_to_chance_have_power(tmp_path: Path) -> None:
    """With a floor the effect of an action is found: walking is worth 2.5 times the mean stress of 0.7, less 1."""
    settings = floored(STRONG)
    table = find_power(settings, simulations(tmp_path), 8).table
    here = table[(table["question"] == "effect of each action on the reward") & (table["participants"] == 12)]
    here = here[here["budget"] == 8.0]
    assert here.set_index("design").loc["PACE", "power"] > 0.5
    assert here.set_index("design").loc["PACE", "estimate"] == pytest.approx(2.5 * 0.7 - 1.0, abs=0.3)


@pytest.mark.slow
def test_actions_that_help_some_and_harm_others_are_found_in_5_percent_of_studies() -> None:
    """Mean effect 0, sd 1, actions following each one's own, 1,000 cohorts of 50: found in 3.5 to 6.5% of them.

    The control: least squares on what was done, the rule of the first version, finds an effect in nearly all.
    """
    settings = floored(
        ('"action=walk" = { mean = -1.0, sd = 0.2 }', '"action=walk" = { mean = 0.0, sd = 1.0 }'), ALIKE[0]
    )
    frame = pools(settings, [settings.policy(settings.main, 8.0)], people=50_000)[0].frame
    question, found, as_done = Question(estimand="actions"), [], []
    for _, part in frame.groupby(frame["participant"] // 50):
        found.append(question.answer(part).p[-1] < 0.05)
        walked = (part["action"] == "walk").to_numpy(dtype=np.float64)
        who = pd.factorize(part["participant"])[0].astype(np.int64)
        x = np.column_stack([np.ones(len(part)), walked])
        beta, one = solve(add_up(x, part["reward"].to_numpy(), np.ones(len(part)), who, 50))
        as_done.append(abs(beta[-1]) > stdtrit(48, 0.975) * math.sqrt(one.covariance[-1, -1]))
    assert len(found) == 1000
    assert 0.035 <= np.mean(found) <= 0.065
    assert np.mean(as_done) > 0.9


def test_arms_have_power(tmp_path: Path) -> None:
    """Each participant is in one arm; the arms are compared, and a nudge's effect comes from the arm with nudges."""
    arms = "\n[arms]\ncalls = { share = 2, policy = 'PACE' }\nusual = { share = 1, policy = 'never' }\n\n[world]"
    settings = small(STRONG, ("[world]", arms), ('kind = "PACE"\n', 'kind = "PACE"\nrandomise = 0.3\n'))
    frame = in_arms(settings, 8.0).frame
    people = frame.groupby("participant")["arm"].agg(["nunique", "first"])
    assert (people["nunique"] == 1).all()
    assert people["first"].value_counts().to_dict() == {"calls": 2000, "usual": 1000}
    assert frame.loc[frame["arm"] == "usual", "nudge"].sum() == 0
    table = find_power(settings, simulations(tmp_path), 8).table
    here = table[(table["design"] == "PACE") & (table["participants"] == 12) & (table["budget"] == 8.0)]
    assert "effect of the arms on the reward" in set(here["question"])
    nudge = here.set_index("question").loc["effect of a nudge on the reward"]
    assert nudge["df"] <= 12 * 2 / 3


def said_of(settings: Settings, found: Power) -> str:
    """What the plan says can be learned."""
    plan: Any = SimpleNamespace(settings=settings, values=SimpleNamespace(main="PACE"), budget=8, power=found)
    return learned(plan)


def test_a_primary_analysis_with_moderators_is_planned(tmp_path: Path) -> None:
    """Each coefficient has a row, and the words say what it is about; the coin is judged by the weakest of them."""
    primary = '[analysis]\nprimary = { moderators = "stress" }\n\n[world]'
    settings = small(STRONG, ("[world]", primary), budgets=[8])
    found = find_power(settings, simulations(tmp_path), 8)
    here = found.table[(found.table["question"] == found.primary) & (found.table["participants"] == 12)]
    assert list(here.loc[here["design"] == MOST_OFTEN, "effect"]) == ["nudge", "nudge:stress"]
    assert "with probability " in said_of(settings, found)


def test_actions_are_compared_with_their_sign_and_reference(tmp_path: Path) -> None:
    """An action that does harm is said to be worse than the reference, by how much; the better one, better."""
    primary = '[analysis]\nprimary = { estimand = "actions" }\n\n[world]'
    three = ('actions = ["rest", "walk"]', 'actions = ["rest", "walk", "run"]')
    harm = ('"*" = 0.0', '"action=run" = { mean = -2.0, sd = 0.1 }\n"action=run:stress" = 0.0\n"*" = 0.0')
    settings = floored(("[world]", primary), three, harm, ("mean = -1.0, sd = 0.2", "mean = 1.0, sd = 0.2"))
    text = said_of(settings, find_power(settings, simulations(tmp_path), 8))
    assert "that run is worse than rest (by 2" in text
    assert "that walk is better than rest (by 1" in text
