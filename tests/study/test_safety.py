"""Safety in a study file: forbidden actions never leave the simulation, the fallback is proved allowed; floors."""

import re

import numpy as np
import pytest
from study_files import BASE, edit, errors_of

from opportune.study import parse_study
from opportune.study.condition_words import condition_in_words
from opportune.study.examples import example
from opportune.study.outlook import outlook
from opportune.study.serving import live, live_policy
from opportune.study.simulated import baseline_at

SAFE = """
[actions.call]
never_if = 'stress == 3 or time == "pm"'
when_unknown = "forbid"
[serve]
fallback = "walk"
policy = "PD2"
budget = 4
[participants]
planned = 12
"""


def test_forbidden_actions_are_never_recommended() -> None:
    """No step has an action where the file forbids it; without the condition, the control, some do."""

    def forbidden(more: str) -> int:
        study = parse_study(BASE + more)
        data, problem = study.run(progress=False), study.worlds()[0].problem
        met = [problem.levels(int(k)) for k in data["context"].values.ravel()]
        called = data["action"].values.ravel() == 2
        never = np.array([found["stress"] == 3 or found["time"] == "pm" for found in met])
        return int((called & never).sum())

    assert forbidden(SAFE) == 0
    assert forbidden("") > 0


# fmt: off
WRONG = {
    "unknown variable": ("stress == 3", "stres == 3", "never_if of 'call': 'stres' at character 1"),
    "no level": ("stress == 3", "stress == 9", "'9' at character 11 is not one of the levels"),
    "no condition": ("stress == 3", "3 +", "which cannot be read"),
    "unknown": ('when_unknown = "forbid"\n', "", "which is not always known; expected when_unknown"),
    "doubt": ('"forbid"', '"maybe"', "when_unknown in [actions.call] is 'maybe'; expected 'forbid' or 'allow'"),
    "fallback": ('fallback = "walk"', 'fallback = "call"', "fallback in [serve] is 'call', which is forbidden where"),
}
# fmt: on


@pytest.mark.parametrize("case", WRONG)
def test_unsafe_files_are_refused(case: str) -> None:
    """A condition that cannot be read, one without an answer for what is unknown, a fallback that may be forbidden."""
    old, new, expected = WRONG[case]
    found = errors_of(BASE + SAFE.replace(old, new, 1))
    assert any(expected in text for text in found), found


def test_some_action_is_always_allowed() -> None:
    """Conditions that leave no action in some moment are refused, with the moment."""
    every = "".join(f"[actions.{name}]\nnever_if = 'time == \"pm\"'\n" for name in ("none", "walk", "call"))
    found = errors_of(BASE + every)
    assert any("no action is allowed where time = pm" in text for text in found), found


def test_actions_have_the_least_probability_of_the_file() -> None:
    """[probabilities] gives LinUCB a floor; 0 switches it off; a study that is served has one unless it says 0."""
    assert {policy.floor for policy in parse_study(BASE).policies()} == {0.0}
    assert {policy.floor for policy in parse_study(BASE + "[probabilities]\nactions = 0.05\n").policies()} == {0.05}
    new = "schema = 1\n" + BASE + SAFE
    assert live_policy(parse_study(new)).floor == 0.1  # 4/40, at most 0.1
    assert live_policy(parse_study(new + "[probabilities]\nactions = 0\n")).floor == 0.0
    assert live_policy(parse_study(BASE + SAFE)).floor == 0.0, "an older file goes on as it began"


def test_thompson_has_known_probabilities_with_a_floor() -> None:
    """With a floor, Thompson sampling goes by fixed points."""
    text = edit(('kind = "PD2"\nscale = "adaptive"', 'kind = "PD2"\nrecommender = "thompson"'))
    (*_, policy) = parse_study(text + "[probabilities]\nactions = 0.1\n").policies()
    assert (policy.recommender.points, policy.floor) == (64, 0.1)  # type: ignore[attr-defined]


def test_updates_wait_for_the_day_or_the_week() -> None:
    """[learning] update counts decisions of the participant."""
    four = edit(("horizon = 40", "horizon = 40\ndecisions_per_day = 4"))
    updates = [
        parse_study(four + f'[learning]\nupdate = "{update}"\n').policies()[0].update
        for update in ("each reward", "day", "week")
    ]
    assert updates == [1, 4, 28]


def test_arms_are_served_with_their_policies() -> None:
    """Each arm's policy under its name: one without nudges has no budget, the other has that of [serve]."""
    arms = '[arms]\na = { share = 1 }\nb = { share = 1, policy = "never", recommender = "random" }\n'
    found = live(parse_study(BASE + SAFE + arms)).policies
    assert {name: (policy.revealer.kind, policy.recommender.kind) for name, policy in found.items()} == {
        "a": ("PD2", "linucb"), "b": ("never", "random"),
    }  # fmt: skip
    budget = found["a"].budget
    assert budget is not None
    assert budget.amount == 4
    assert found["b"].budget is None
    assert list(live(parse_study(BASE + SAFE)).policies) == [""]


OUTLOOK = """
[staff]
hours = { weekdays = ["09:00", "17:00"], saturday = ["10:00", "13:00"] }
per_day = 2
[nudge]
name = "call"
per_week = 2
least_hours_between = 48
quiet = ["20:00", "08:00"]
[schedule]
times = ["11:00", "19:00"]
[arms]
calls = { share = 2 }
control = { share = 1, policy = "never" }
[probabilities]
actions = 0.05
"""


def test_what_will_happen_is_said_in_words() -> None:
    """When calls are allowed, how many people staff can serve, what is forbidden, what can be estimated."""
    text = edit(("seed = 3", "seed = 3\nrun_in_days = 3"), ("noise_sd = 0.2", "noise_sd = 0.2\nbounds = [-1, 0.5]"))
    dated = SAFE.replace("planned = 12", "planned = 12\nfirst_day = 2026-12-01\nenrolment_days = 7")
    said = outlook(parse_study(text + dated + OUTLOOK))
    expected = [
        "The first participants begin on Tuesday, 1 December 2026, the last finish on Saturday, 26 December 2026.",
        "Participants are randomised 2 : 1 to calls and control, in permuted blocks of 6.",
        "A call is allowed at 6 of 14 decision points a week: 11:00 on weekdays and Saturday.",
        "No call is ever allowed at 19:00: outside staff hours, or in quiet hours.",
        "In the first 3 days there are no calls; all allowed actions are equally likely.",
        "One person gets at most 2 in any seven days and one in 48 hours.",
        "Staff can make 12 calls a week (2 a day on 6 days): with 4 per person that is enough for 8 people at a time.",
        "“call” is never recommended where stress is 3 or time is pm, at about 62% of decision points; between "
        "contacts, when not all of this is known, it is forbidden at 100%, so it is recommended only right after a "
        "contact.",
        "The fallback, “walk”, is allowed at every moment.",
        "Every allowed action has a probability of at least 0.05: effects can be estimated.",
        "WARNING: calls are not randomised, so their effect cannot be estimated (kind = 'PACE' with [probabilities] "
        "nudge).",
        "WARNING: 12 participants are few: with fewer than 20, intervals are unreliable.",
    ]
    assert said[: len(expected)] == expected
    more = outlook(parse_study(text + dated.replace("planned = 12", "planned = 30") + OUTLOOK))
    few = [sentence for sentence in more if "are few" in sentence]
    assert few == ["WARNING: 10 participants in “control” are few: with fewer than 20, intervals are unreliable."]
    assert "of rewards lie beyond the bounds, [-1, 0.5], and are clipped" in said[-1]
    assert outlook(parse_study(BASE)) == []


@pytest.mark.parametrize(
    ("extra", "said"),
    [
        ("", "Where a nudge helps most, or nearly so, the probabilities of making and not making it are at least 0.2: "
         "its effect there can be estimated."),
        ("[probabilities]\nnudge = 0.1\n", "not making it are at least 0.1"),
        ("[probabilities]\nnudge = 0\n", "WARNING: nudges are not randomised, so their effect cannot be estimated"),
        ("[probabilities]\nactions = 0\n", "WARNING: actions are not randomised, so their effects cannot be estimated"),
    ],
)  # fmt: skip
def test_a_served_study_is_analysable_unless_its_file_says_otherwise(extra: str, said: str) -> None:
    """Nudges at candidate moments and actions have known probabilities; `check` warns where they are switched off."""
    served = "\n[participants]\nplanned = 30\n[serve]\npolicy = 'PACE'\nbudget = 4\n"
    text = "schema = 1\n" + edit(('kind = "PD2"\nscale = "adaptive"', 'kind = "PACE"')) + served + extra
    assert any(said in sentence for sentence in outlook(parse_study(text)))
    assert not any(
        "not making it are at least 0.2" in sentence
        for sentence in outlook(parse_study(text.removeprefix("schema = 1\n")))
    )


def test_the_file_to_begin_with_is_analysable() -> None:
    """The example that pages begin with randomises nudges and actions when it is served, and `check` does not warn."""
    said = "\n".join(outlook(parse_study(example("stress-messages"))))
    assert "not randomised" not in said
    assert "not making it are at least 0.2" in said


def test_shares_are_those_of_the_moments_that_people_meet() -> None:
    """Forbidden moments, alarms and clipped rewards are counted as they are drawn; labels stand for names."""
    study = parse_study(example("cardiac-calls"))
    said = "\n".join(outlook(study))
    found = re.search(r"Chest pain is strong or day of study is below 3, at about (\d+)% of decision points", said)
    assert found is not None
    assert abs(float(found[1]) / 100 - (1 - 0.95 * 82 / 84)) < 0.01
    alarms = re.search(r"“Ask for the study doctor on duty.”\): about (\d+) times a week with 60 participants", said)
    assert alarms is not None
    assert abs(int(alarms[1]) - 0.05 * 14 * 60) < 5
    data = study.replace(replicates=2).run(progress=False)
    reward = data["reward"].sel(policy="control").values
    clipped = np.mean((reward[np.isfinite(reward)] <= 0.0) | (reward[np.isfinite(reward)] >= 240.0))
    share = re.search(r"About ([\d.]+)% of rewards lie beyond the bounds", said)
    assert share is not None
    assert abs(float(share[1]) / 100 - clipped) < 0.015


def test_other_families_are_held_to_what_they_can_be() -> None:
    """Counts are not below 0 nor beyond their bounds, probabilities are within 0 and 1: as often as in simulation."""
    for family, words in (
        ("count", "of counts would lie below 0"),
        ("binary", "of rewards have a mean below 0 or above"),
    ):
        study = parse_study(edit(("noise_sd = 0.2", f"noise_sd = 0.2\nfamily = '{family}'")))
        (said,) = [text for text in outlook(study) if words in text]
        (theta,) = [world.theta for world in study.worlds()]
        means = study.problem.features @ theta
        if family == "binary":
            beyond = ((means < 0.0) | (means > 1.0)).mean(axis=1)
        else:
            draws = np.random.default_rng(1).normal(means, 0.2, (4000, *means.shape))
            beyond = (np.round(draws) < 0.0).mean(axis=(0, 2))
        share = float(study.probabilities @ beyond)
        assert share > 0.05
        told = re.search(r"About ([\d.]+)%", said)
        assert told is not None
        assert float(told[1]) / 100 == pytest.approx(share, abs=0.01)
        assert said.startswith("WARNING")


def test_weeks_in_which_clocks_differ_are_told() -> None:
    """Staff in New York and people in Berlin: for two weeks in March the staff's hours meet other decisions."""
    text = """
[staff]
timezone = "America/New_York"
hours = { weekdays = ["09:00", "13:30"] }
[nudge]
name = "Anruf"
plural = "Anrufe"
[schedule]
times = ["14:20", "18:30"]
timezone = "Europe/Berlin"
[participants]
planned = 30
first_day = 2027-03-08
enrolment_days = 30
"""
    said = "\n".join(outlook(parse_study(edit() + text)))
    assert "An Anruf is allowed at 5 of 14 decision points a week: 18:30 on weekdays." in said
    differs = (
        "From Monday, 15 March 2027 on, as clocks change on other days in America/New_York, it is 5 of 14: 14:20 on"
    )
    assert differs in said
    assert "From Monday, 29 March 2027 on" in said
    assert "No Anruf is ever allowed" not in said, "14:20 is open for two weeks"
    assert " a Anruf" not in said


def test_what_the_app_senses_counts_as_unknown_between_contacts() -> None:
    """Where a condition may be ignored while it is not known, check says that values from the phone count as such."""
    never = '\n[actions.call]\nnever_if = "stress == 3"\nwhen_unknown = "allow"\n'
    assert "(stress, sensed by the app, counts as unknown there)" in "\n".join(outlook(parse_study(BASE + never)))


def test_staff_hours_that_no_decision_meets_are_named() -> None:
    """Saturday hours are of no use where decisions are at other times."""
    study = parse_study(example("cardiac-calls"))
    assert not any("not used" in text for text in outlook(study))
    moved = parse_study(example("cardiac-calls").replace('times = ["10:00", "15:00"]', 'times = ["14:00", "15:00"]'))
    assert "Staff hours on Saturday are not used: no decision point lets a call be made then." in outlook(moved)


@pytest.mark.parametrize(
    ("condition", "words"),
    [
        ('pain == "strong" or day_of_study < 3', "Chest pain is strong or day of study is below 3"),
        (
            'not (fatigue >= 2 and pain != "none")',
            "it is not so that (Fatigue is at least 2 and Chest pain is not none)",
        ),
        ('pain in ["mild", "strong"]', "Chest pain is one of mild, strong"),
        ("3 <= day_of_study", "day of study is at least 3"),
    ],
)
def test_conditions_are_said_in_words(condition: str, words: str) -> None:
    """A condition is put into the study's words."""
    assert condition_in_words(parse_study(example("cardiac-calls")).settings, condition) == words


def test_a_trial_is_simulated_by_arm() -> None:
    """Each arm is a row of its own, and participants are randomised in blocks within their stratum."""
    arms = '[arms]\na = { share = 2 }\nb = { share = 1, policy = "never" }\nblock = 3\nstrata = ["site"]\n'
    drawn = edit(
        ("replicates = 2", "replicates = 2\ninstances = 12"), ('"stress" = -0.3', '"stress" = { mean = 0, sd = 1 }')
    )
    study = parse_study(drawn + SAFE + 'baseline = { site = ["N", "S"] }\n' + arms)
    data = study.run(progress=False)
    assert data["policy"].values.tolist() == ["a", "b"]
    assert float(data["nudges"].sel(policy="b").sum()) == 0.0
    assert float(data["nudges"].sel(policy="a").sum()) > 0.0
    sites = [baseline_at(study, i)["site"] for i in range(12)]
    for site in ("N", "S"):
        found = [arm for arm, own in zip(data["arm"].values.tolist(), sites, strict=True) if own == site]
        for block in range(0, len(found) - 2, 3):
            assert sorted(found[block : block + 3]) == ["a", "a", "b"]
