"""The tables of a trial: staff, arms, baseline, safety, priors; and all mistakes of a file at once."""

import datetime as dt
from collections import Counter

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from study_files import BASE, edit, errors_of

from opportune.study import parse_study
from opportune.study.arms import arm_at, arm_entries
from opportune.study.rates import by_stratum
from opportune.study.trial import ArmsTable

TRIAL = """
[staff]
timezone = "Europe/Berlin"
hours = { weekdays = ["09:00", "17:00"], saturday = ["10:00", "13:00"] }
holidays = ["2026-12-25", 2027-01-01]
per_day = 10

[nudge]
name = "call"
quiet = ["20:00", "08:00"]
per_week = 2
least_hours_between = 48

[participants]
planned = 60
first_day = 2026-12-01
baseline = { site = ["Berlin", "Bern"], age = [18, 90] }

[arms]
nudges = { share = 2, policy = "PD2" }
control = { share = 1, policy = "never", recommender = "random" }
block = 6
strata = ["site"]

[probabilities]
actions = 0.1
nudge = 0.2

[learning]
update = "day"

[prior]
"action=walk" = { mean = 0.4, sd = 0.3 }
"""


def test_the_tables_of_a_trial_are_read() -> None:
    """What the file says stands in the settings, dates as dates whether they are quoted or not."""
    settings = parse_study("schema = 1\n" + BASE + TRIAL).settings
    assert settings.staff.holidays == [dt.date(2026, 12, 25), dt.date(2027, 1, 1)]
    assert settings.staff.hours is not None
    assert settings.staff.hours.weekly.days[5] == ((600, 780),)
    assert settings.nudge.quiet == ["20:00", "08:00"]
    assert settings.participants.first_day == dt.date(2026, 12, 1)
    assert settings.arms is not None
    assert list(settings.arms.named) == ["nudges", "control"]
    assert settings.prior["action=walk"].sd == 0.3


# fmt: off
WRONG = {
    "hours": ('saturday = ["10:00", "13:00"]', 'saturday = ["13:00", "10:00"]', 5, 'saturday in hours of [staff]'),
    "day": ("saturday =", "saterday =", 5, "unknown key 'saterday' in hours of [staff]; did you mean 'saturday'?"),
    "holiday": ('"2026-12-25"', '"2026-02-30"', 6, "holidays[0] in [staff] is '2026-02-30'; expected a list of dates"),
    "zone": ('"Europe/Berlin"', '"localtime"', 4, "timezone in [staff] is 'localtime'; expected a time zone"),
    "quiet": ('["20:00", "08:00"]', '["20:00"]', 11, 'quiet in [nudge] is ["20:00"]; expected start and end'),
    "share": ("share = 2", "share = 0", 21, "share in nudges of [arms] is 0; expected a whole number >= 1"),
    "key of an arm": ("share = 2", "shar = 2", 21, "unknown key 'shar' in nudges of [arms]; did you mean 'share'?"),
    "one arm": ('control = { share = 1, policy = "never", recommender = "random" }\n', "", 20, "[arms] contains only"),
    "no arm": ("block = 6", "blok = 6", 23, "unknown key 'blok' in [arms]; did you mean 'block'?"),
    "no table": ("block = 6", "size = 6", 23, "unknown key 'size' in [arms]; expected one of block, strata, or an arm"),
    "block": ("block = 6", "block = 7", 23, "block in [arms] is 7, and shares sum to 3; expected a multiple of 3"),
    "policy": ('"PD2"', '"PACE"', 21, "policy of 'nudges' in [arms] is 'PACE'; expected 'naive', 'PD2' or 'never'"),
    "recommender": ('"random"', '"coin"', 22, "recommender of 'control' in [arms] is 'coin'; expected 'linucb'"),
    "fixed": ('"random"', '"fixed"', 22, "'control' in [arms] has recommender = 'fixed'; expected action"),
    "strata": ('strata = ["site"]', 'strata = ["sit"]', 24, "strata in [arms] names 'sit'; expected 'site'"),
    "range": ('strata = ["site"]', 'strata = ["age"]', 24, "strata in [arms] names 'age', a number in a range"),
    "baseline": ("site =", "stress =", 18, "baseline of [participants] contains 'stress', as does [variables.stress]"),
    "too probable": ("actions = 0.1", "actions = 0.4", 27, "actions in [probabilities] is 0.4, and there are 3"),
    "update": ('"day"', '"dayly"', 31, "update in [learning] is 'dayly'; expected 'each reward', 'day' or 'week'"),
    "prior": ('"action=walk"', '"action=wolk"', 34, "unknown term 'action=wolk' in [prior]; did you mean 'action"),
    "sd": ("sd = 0.3", "sd = 0", 34, "sd in 'action=walk' of [prior] is 0; expected a number > 0"),
}
# fmt: on


@pytest.mark.parametrize("case", WRONG)
def test_mistakes_in_a_trial_have_their_line(case: str) -> None:
    """A mistake is named with its line, what was given and what was expected."""
    old, new, line, expected = WRONG[case]
    assert TRIAL.count(old) >= 1
    found = errors_of(BASE + TRIAL.replace(old, new, 1))
    offset = BASE.count("\n") - 1
    assert any(text.startswith(f"study.toml, line {line + offset}: {expected}") for text in found), found


VARIABLE = {
    "level_labels": ("level_labels = ['a']", "has level_labels"),
    "escalate": ("escalate = { 9 = 'Call.' }", "has escalate for '9'"),
    "history": ("history = { of = 'nudges', summary = 'sum', days = 7 }", "has probabilities and history"),
    "window": ("history = { of = 'nudges', summary = 'sum' }", "has history without decisions or days"),
    "initial": ("initial = 1", "has initial without history"),
}


@pytest.mark.parametrize("case", VARIABLE)
def test_mistakes_in_a_variable(case: str) -> None:
    """Labels and escalations belong to levels; a history has a window and nothing that is drawn."""
    line, expected = VARIABLE[case]
    (found,) = errors_of(edit(("range = [1, 3]", f"range = [1, 3]\n{line}")))
    assert expected in found


def test_all_mistakes_come_at_once() -> None:
    """An unknown key, an unknown term, a wrong policy and a wrong hour do not hide each other."""
    text = edit(
        ("seed = 3", "sead = 3"), ('"stress" = -0.3', '"strass" = -0.3'), ('"adaptive"', '"adaptiv"'),
        ("known = true", 'known = "yes"'), ("open_rate = 0.1", "open_rate = { am = 0.1 }"),
    )  # fmt: skip
    found = errors_of(text + '\n[serve]\nfallback = "run"\n[staff]\nhours = { monday = ["9", "17"] }\n')
    words = ("'sead'", "'adaptiv'", "known in [contexts]", "monday in hours", "fallback in [serve] is 'run'")
    for word in words:
        assert any(word in text for text in found), (word, found)


def test_mistakes_beside_each_other_do_not_hide_each_other() -> None:
    """A wrong block hides no wrong policy of an arm, a wrong share no unknown term, a wrong cap no wrong hour."""
    text = edit(("range = [1, 3]", "range = [1, 3]\nlevel_labels = ['a']"), ("action*stress", "action*strass"))
    trial = TRIAL.replace("block = 6", "block = 7").replace('"PD2"', '"PD3"').replace("per_week = 2", "per_week = 0")
    trial = trial.replace('["10:00", "13:00"]', '["13:00", "10:00"]').replace('strata = ["site"]', 'strata = ["age"]')
    found = errors_of(text + trial)
    for word in ("level_labels", "'strass'", "block in", "'PD3'", "per_week", "saturday in hours", "strata in [arms]"):
        assert any(word in one for one in found), (word, found)
    assert len(found) == 7, found


PAST = """
[variables.dose]
history = { of = "nudges", summary = "sum", days = 7 }
[variables.days_since_contact]
history = { of = "contact", summary = "days since" }
[variables.recent]
history = { of = "reward", summary = "mean", decisions = 14, discount = 0.95 }
"""


def test_the_persons_own_past_has_a_natural_range() -> None:
    """A count goes up to the decision points it looks back on, days to 28, a mean of rewards over their bounds."""
    study = parse_study(BASE.replace("[reward]", "[reward]\nbounds = [0, 5]") + PAST)
    past = study.variables
    found = {name: (past[name].low, past[name].high) for name in ("dose", "recent")}
    assert found == {"dose": (0.0, 7.0), "recent": (0.0, 5.0)}
    without_rewards = PAST[: PAST.index("[variables.recent]")]
    twice = parse_study(edit(("[study]", "[study]\ndecisions_per_day = 2")) + without_rewards)
    assert twice.variables["dose"].high == 14.0
    assert study.variables["days_since_contact"].high == 28.0
    (said,) = errors_of(BASE + PAST)
    assert "mean of rewards without range; expected range = [lowest, highest], or bounds in [reward]" in said


def test_what_follows_from_a_mistake_is_not_reported() -> None:
    """Where a variable is wrong, formula and effects that name it are not called wrong as well."""
    (found,) = errors_of(edit(("range = [1, 3]", "rage = [1, 3]")))
    assert "did you mean 'range'?" in found


def test_rates_by_level_are_rates_by_stratum() -> None:
    """A rate for each level of a public variable holds in the strata that have the level."""
    study = parse_study(edit(("open_rate = 0.1", "available_rate = 1.0")))
    assert by_stratum(study, {"am": 0.4, "pm": 0.8}, study.problem).tolist() == [0.4, 0.8]  # type: ignore[union-attr]
    assert by_stratum(study, 0.3, study.problem) == 0.3
    (found,) = errors_of(edit(("open_rate = 0.1", "open_rate = { am = 0.1 }")))
    assert "expected 'pm' as well" in found
    (found,) = errors_of(edit(("open_rate = 0.1", "open_rate = { noon = 0.1 }")))
    assert "expected a rate for each level of one public variable (time: am, pm)" in found


def test_arms_have_policies_of_their_own() -> None:
    """An arm runs the policy that it names, under its own name, with the recommender that it names."""
    entries = arm_entries(parse_study(BASE + TRIAL).settings).policies
    assert {name: (entry.kind, entry.recommender, entry.name) for name, entry in entries.items()} == {
        "nudges": ("PD2", "linucb", "nudges"),
        "control": ("never", "random", "control"),
    }
    assert entries["nudges"].scale == "adaptive"


arms = st.lists(st.integers(1, 3), min_size=2, max_size=4).flatmap(
    lambda shares: st.tuples(st.just(shares), st.integers(1, 4))
)


@settings(deadline=None)
@given(arms, st.integers(0, 2**64 - 1), st.integers(0, 5), st.integers(0, 40))
def test_blocks_are_balanced(shares_and_times: tuple[list[int], int], seed: int, stratum: int, block: int) -> None:
    """Within each block every arm has its share, whatever the seed, the stratum and the block."""
    shares, times = shares_and_times
    content = {f"arm{i}": {"share": share} for i, share in enumerate(shares)}
    table = ArmsTable.model_validate({**content, "block": max(2, sum(shares) * times)})
    size = table.block_size
    found = Counter(arm_at(table, seed, stratum=stratum, place=block * size + i) for i in range(size))
    assert found == {f"arm{i}": share * size // sum(shares) for i, share in enumerate(shares)}


def test_every_order_of_a_block_is_equally_likely() -> None:
    """The permutations are uniform: all six orders of three arms, in 3,000 blocks (chi-square at 99.9%)."""
    table = ArmsTable.model_validate({"a": {"share": 1}, "b": {"share": 1}, "c": {"share": 1}, "block": 3})
    found = Counter(tuple(arm_at(table, 5, stratum=0, place=3 * i + j) for j in range(3)) for i in range(3000))
    assert len(found) == 6
    assert sum((count - 500.0) ** 2 / 500.0 for count in found.values()) < 20.5
    other = [arm_at(table, 5, stratum=1, place=i) for i in range(30)]
    assert other != [arm_at(table, 5, stratum=0, place=i) for i in range(30)]
    assert np.mean([arm == "a" for arm in other]) == pytest.approx(1 / 3)


def test_baseline_variables_enter_where_they_are_named() -> None:
    """A baseline variable is a public variable of the problem if the formula names it, and is left out otherwise."""
    baseline = '\n[participants]\nbaseline = { site = ["Berlin", "Bern"], age = [18, 90] }\n'
    assert set(parse_study(BASE + baseline).problem.variables) == {"time", "stress"}
    named = edit(
        ("time + action*stress", "time + site + action*stress"), ('"stress" = -0.3', '"stress" = -0.3\n"*" = 0')
    )
    problem = parse_study(named + baseline).problem
    assert problem.visibility["site"] == "public"
    assert len(problem.public_levels()) == 4
    (found,) = errors_of(named.replace("site", "sites") + baseline)
    assert "formula in [reward] names 'sites', which is not a variable; did you mean 'site'?" in found


def test_priors_are_what_agents_start_from() -> None:
    """Means and sds of the file stand at their terms; "*" is for the rest, and without it the bound's."""
    prior = '[prior]\n"action=walk" = { mean = 0.4, sd = 0.3 }\n'
    study = parse_study(BASE + prior)
    place = study.terms.index("action=walk")
    mean, sd = study.problem.prior_mean, study.problem.prior_sd
    assert mean is not None
    assert sd is not None
    assert (mean[place], sd[place]) == (0.4, 0.3)
    assert mean.sum() == 0.4
    assert np.delete(sd, place) == pytest.approx(study.problem.theta_bound / np.sqrt(study.problem.d))
    rest = parse_study(BASE + prior + '"*" = { mean = 0.1, sd = 2 }\n').problem.prior_sd
    assert rest is not None
    assert np.delete(rest, place).tolist() == [2.0] * (len(rest) - 1)
    assert parse_study(BASE).problem.prior_mean is None


@pytest.mark.parametrize(
    "zone", ["localtime", "posixrules", "Factory", "", "Mars/Olympus", "../../etc/passwd", "+01:00"]
)
def test_a_time_zone_is_that_of_a_place(zone: str) -> None:
    """A name that means another zone on another machine is refused for the study's schedule, too."""
    assert parse_study(f'{BASE}\n[schedule]\ntimezone = "Europe/Berlin"\n').settings.schedule.timezone
    assert any("timezone in [schedule]" in error for error in errors_of(f'{BASE}\n[schedule]\ntimezone = "{zone}"\n'))


def test_independent_mistakes_of_a_trial_come_at_once() -> None:
    """A wrong value hides no mistake that has nothing to do with it: one round names them all."""
    text = edit(
        ('levels = ["am", "pm"]', 'levels = ["am", "pm"]\nescalate = { Am = "Call." }\npersistance = 0.5'),
        ('formula = "time', 'formula = "tine'),
        ("noise_sd = 0.2", "noise_sd = 0.2\nbounds = [240, 0]"),
    )
    said = "\n".join(
        errors_of(
            text
            + '\n[participants]\nbaseline = { site = ["Berlin"], age = [90, 18] }\n'
            + '[arms]\na = { share = 1 }\nb = { share = 1, policy = "nevr" }\nstrata = ["sites"]\nblock = 3\n'
            + "[serve]\npolicy = 'naive'\n"
        )
    )
    mistakes = ("'tine'", "'persistance'", "'Am'", "bounds in", "site in", "age in", "'nevr'", "'sites'", "block in")
    assert all(mistake in said for mistake in mistakes), said
