"""Studies with numbers, schedules and tables of rows: what the file says is what the worlds do."""

from pathlib import Path

import numpy as np
import pytest
from numeric_files import WALKS, edit, errors_in, study_in
from study_files import BASE
from study_files import edit as edit_base

from opportune.problems.continuous import ContinuousProblem
from opportune.problems.variables import DayOfStudy, Number, TimeOfDay, Weekend
from opportune.study import parse_study
from opportune.worlds import ContinuousWorld, LinearWorld
from opportune.worlds.distributions import Choice, LogNormal, Normal, Uniform

USUAL = {"response_spread": 0.0, "habituation": 1.0, "spells": None, "family": "gaussian", "bounds": None}


def test_numbers_make_a_continuous_study(tmp_path: Path) -> None:
    """Variables, distributions, rows, effects and happenings of the file are those of the worlds."""
    study = study_in(tmp_path)
    first, second = study.worlds()
    assert isinstance(first, ContinuousWorld)
    assert first.problem is second.problem
    assert first.problem.variables == {
        "time": TimeOfDay(["morning", "evening"]), "day": Weekend(first="Friday"), "steps": Number(0, 20_000),
        "sleep": Number(3, 11), "mood": ("good", "low"),
    }  # fmt: skip
    assert first.problem.visibility == {
        "time": "public", "day": "public", "steps": "sensed", "sleep": "sensed", "mood": "reported",
    }  # fmt: skip
    assert first.distributions == {"steps": LogNormal(4000, 0.7)}
    assert first.table is not None
    assert first.table.columns == {"sleep": (7.5, 5, 6.5, 8), "mood": ("good", "low", "good", "low")}
    assert first.happenings.settings() == {
        "open_rate": 0.05, "response_rate": 0.9, "available_rate": 0.8, "reward_rate": 0.7, "reward_delay": 3, **USUAL,
    }  # fmt: skip
    effects = dict(zip(study.terms, first.theta, strict=True))
    assert effects["action=walk:I(steps / 1000)"] == -0.2
    assert effects["time=evening"] == 0.05
    assert first.theta[2] != second.theta[2]
    assert [p.pooled for p in study.policies()] == [False, True]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ('{ kind = "normal", mean = 7, sd = 1.5 }', Normal(7, 1.5)),
        ('{ kind = "lognormal", median = 6, sigma = 0.2 }', LogNormal(6, 0.2)),
        ('{ kind = "lognormal", mean = 6, sd = 2 }', LogNormal.from_mean(6, 2)),
        ('{ kind = "uniform", low = 4, high = 5 }', Uniform(4, 5)),
        ('{ kind = "uniform" }', Uniform(3, 11)),
    ],
)
def test_distributions(text: str, expected: object, tmp_path: Path) -> None:
    """Every kind of distribution is drawn from as the file says."""
    study = study_in(
        tmp_path, edit(('range = [3, 11]\ntable = "pilot.csv"', f"range = [3, 11]\ndistribution = {text}"))
    )
    assert study.worlds()[0].distributions["sleep"] == expected


def test_levels_stay_levels_among_numbers(tmp_path: Path) -> None:
    """Beside numbers, levels are drawn with their probabilities, or all alike."""
    own = 'levels = ["good", "low"]\nprobabilities = [0.9, 0.1]\n'
    text = edit(('levels = ["good", "low"]\n', own), ('"reported"\ntable = "pilot.csv"', '"reported"'))
    assert study_in(tmp_path, text).worlds()[0].distributions["mood"] == Choice({"good": 0.9, "low": 0.1})
    plain = edit(('"reported"\ntable = "pilot.csv"', '"reported"'))
    assert study_in(tmp_path, plain).worlds()[0].distributions["mood"] == Choice({"good": 0.5, "low": 0.5})


def test_a_range_with_steps_has_levels(tmp_path: Path) -> None:
    """A table's column is any number of a range, or with `step` one of its levels."""
    stepped = edit(("range = [3, 11]", "range = [3, 11]\nstep = 0.5"))
    assert study_in(tmp_path, stepped).worlds()[0].problem.variables["sleep"][:3] == (3, 3.5, 4)
    found = errors_in(tmp_path, edit(("range = [3, 11]", "range = [3, 11]\nstep = 1")))
    assert found == ["study.toml, line 25: 'sleep' in the table has 7.5; expected one of [3, 4, 5, 6, 7, 8, 9, 10, 11]"]


def test_agents_know_the_means_or_learn_them(tmp_path: Path) -> None:
    """With known = true the expected features are those of the file's distributions; else agents start without."""
    problem = study_in(tmp_path).worlds()[0].problem
    assert isinstance(problem, ContinuousProblem)
    assert problem.known_means is not None
    sleep = study_in(tmp_path).terms.index("action=walk:sleep")
    np.testing.assert_allclose(problem.known_means[:, 1, sleep], 6.75)
    unknown = study_in(tmp_path, edit(("known = true", "known = false"))).worlds()[0].problem
    assert unknown.known_means is None


def test_the_schedule_is_followed(tmp_path: Path) -> None:
    """Mornings and evenings alternate, and the weekend comes when it comes."""
    schedule = study_in(tmp_path).worlds()[0].problem.schedule
    values = [schedule.values(step) for step in range(1, 8)]
    assert [v["time"] for v in values[:4]] == ["morning", "evening", "morning", "evening"]
    assert [v["day"] for v in values] == ["weekday"] * 2 + ["weekend"] * 4 + ["weekday"]


@pytest.mark.parametrize(("more", "expected"), [("", DayOfStudy(14)), ("scaled = true\n", DayOfStudy.scaled(14))])
def test_the_day_of_study_follows_the_horizon(more: str, expected: DayOfStudy, tmp_path: Path) -> None:
    """The days are those that the horizon has, counted from 1 or scaled to -1..1."""
    text = edit(('schedule = "weekend"\nfirst = "Friday"\n', f'schedule = "day of study"\n{more}'))
    study = study_in(tmp_path, text)
    assert study.variables["day"] == expected
    assert study.replace(horizon=29).variables["day"].days == 15
    assert study.worlds()[0].problem.schedule.last_step == 28


def test_schedules_of_levels_stay_finite() -> None:
    """Without numbers a scheduled study is a finite one whose contexts have the schedule's shares."""
    text = edit_base(('levels = ["am", "pm"]\nvisibility = "public"', 'schedule = "weekend"\nfirst = "Sunday"'))
    text = text.replace('"time=pm"', '"time=weekend"')
    (world,) = parse_study(text).worlds()
    assert isinstance(world, LinearWorld)
    assert world.problem.visibility["time"] == "public"
    np.testing.assert_allclose(world.context_probs.reshape(2, 3).sum(axis=1), [5 / 7, 2 / 7])
    np.testing.assert_allclose(world.context_probs.reshape(2, 3).sum(axis=0), [0.5, 0.25, 0.25])
    data = parse_study(text).run(progress=False)
    weekend = np.array([world.problem.levels(k)["time"] == "weekend" for k in range(world.problem.contexts)])
    days = weekend[data["context"].values]
    assert (days[..., :9] == [1, 0, 0, 0, 0, 0, 1, 1, 0]).all()
    assert world.problem.value_range is not None


def test_variables_that_are_known_together_have_shares_together() -> None:
    """No context has Monday and a weekend, as no step has."""
    more = '[variables.day]\nschedule = "weekday"\n[variables.end]\nschedule = "weekend"\n[variables.stress]'
    text = edit_base(('formula = "time', 'formula = "end + time'), ("[variables.stress]", more), ('"time=pm"', '"*"'))
    (world,) = parse_study(text).worlds()
    shares = world.context_probs.reshape(2, 7, 2, 3).sum(axis=(0, 3))
    np.testing.assert_allclose(shares, [[1 / 7, 0.0]] * 5 + [[0.0, 1 / 7]] * 2, atol=1e-15)


def test_a_table_of_levels_gives_joint_probabilities(tmp_path: Path) -> None:
    """Where all variables have levels, rows become joint probabilities of those that are in the table."""
    (tmp_path / "pilot.csv").write_text("stress,time\n1,am\n1,am\n2,am\n3,pm\n", encoding="utf-8")
    text = edit_base(("[0.5, 0.25, 0.25]", "[0]"), ("probabilities = [0]", 'step = 1\ntable = "pilot.csv"'))
    text = text.replace('visibility = "public"', 'visibility = "public"\ntable = "pilot.csv"')
    (world,) = parse_study(text, source=str(tmp_path / "study.toml")).worlds()
    assert isinstance(world, LinearWorld)
    np.testing.assert_allclose(world.context_probs.reshape(2, 3), [[0.5, 0.25, 0.0], [0.0, 0.0, 0.25]])


def test_happenings_reach_finite_worlds() -> None:
    """Availability, lost and late rewards of the file are the world's."""
    rates = "open_rate = 0.1\navailable_rate = 0.5\nreward_rate = 0.25\nreward_delay = 2"
    (world,) = parse_study(edit_base(("open_rate = 0.1", rates))).worlds()
    assert world.happenings.settings() == {
        "open_rate": 0.1, "response_rate": 1.0, "available_rate": 0.5, "reward_rate": 0.25, "reward_delay": 2, **USUAL,
    }  # fmt: skip


def test_alike_patients_may_be_pooled() -> None:
    """Several instances with the same effects make sense where they learn together."""
    text = edit_base(("seed = 3", "instances = 3"), ('scale = "adaptive"', "pooled = true"))
    assert len(parse_study(text).worlds()) == 3


def test_a_study_with_numbers_runs(tmp_path: Path) -> None:
    """A run has every policy, instance and step; features follow the values that were drawn."""
    data = study_in(tmp_path).run(progress=False)
    assert list(data["policy"].values) == ["naive", "PD2"]
    assert dict(data.sizes) | {"step": 28, "world": 2, "replicate": 2} == dict(data.sizes)
    assert bool(np.isfinite(data["total_outcome"]).all())
    assert bool((data["best"] >= data["outcome"] - 1e-12).all())
    assert data.attrs["study_file"] == WALKS
    again = study_in(tmp_path).run(progress=False)
    assert again["total_reward"].equals(data["total_reward"])


WRONG = {
    "unknown kind": (
        ('kind = "lognormal"', 'kind = "log-normal"'),
        "line 20: kind in distribution of [variables.steps] is 'log-normal'; expected 'normal', 'lognormal' or "
        "'uniform'; did you mean 'lognormal'?",
    ),
    "parameters of another kind": (
        ('kind = "lognormal"', 'kind = "normal"'),
        "line 20: [variables.steps] has a normal distribution with median and sigma; expected mean and sd",
    ),
    "unknown parameter": (
        ("sigma = 0.7", "sgma = 0.7"),
        "line 20: unknown key 'sgma' in distribution of [variables.steps]; did you mean 'sigma'?",
    ),
    "parameter out of range": (
        ("sigma = 0.7", "sigma = 0"),
        "line 20: sigma in distribution of [variables.steps] is 0; expected a number > 0, the sd of the logarithm",
    ),
    "missing kind": (
        ('kind = "lognormal", ', ""),
        "line 20: distribution of [variables.steps] lacks 'kind'; expected 'normal', 'lognormal' or 'uniform'",
    ),
    "no distribution": (
        ('{ kind = "lognormal", median = 4000, sigma = 0.7 }', "4000"),
        "line 20: distribution in [variables.steps] is 4000; expected a table such as { kind = 'normal', mean = 7, "
        "sd = 1.5 }",
    ),
    "upside-down uniform": (
        ('kind = "lognormal", median = 4000, sigma = 0.7', 'kind = "uniform", low = 5, high = 1'),
        "line 20: [variables.steps] has a uniform distribution with low = 5 and high = 1; expected low < high",
    ),
    "lognormal below zero": (
        ("median = 4000, sigma = 0.7", "mean = -1, sd = 2"),
        "line 20: [variables.steps] has a lognormal distribution with mean = -1; expected a number > 0",
    ),
    "outside the range": (
        ("median = 4000", "median = 4e9"),
        "line 20: [variables.steps]: LogNormal(median=4000000000.0, sigma=0.7) has hardly any mass from 0 to 20000",
    ),
    "upside-down range": (
        ("range = [0, 20000]", "range = [20000, 0]"),
        "line 19: [variables.steps] has range = [20000.0, 0.0]; expected lowest < highest",
    ),
    "distribution of levels": (
        ("range = [0, 20000]", "levels = [1, 2]"),
        "line 20: [variables.steps] has distribution and levels; a distribution is for any number of a range",
    ),
    "distribution of steps": (
        ("range = [0, 20000]", "range = [0, 20000]\nstep = 10"),
        "line 21: [variables.steps] has distribution and step; a distribution is for any number of a range",
    ),
    "two ways to draw": (
        ("range = [3, 11]", 'range = [3, 11]\ndistribution = { kind = "uniform" }'),
        "line 25: [variables.sleep] has distribution and table; expected only one of them",
    ),
    "no such table": (
        ('table = "pilot.csv"', 'table = "pilt.csv"'),
        ('table = "pilot.csv"', 'table = "pilt.csv"'),
        "line 24: pilt.csv cannot be read",
    ),
    "two tables": (
        ('table = "pilot.csv"', 'table = "other.csv"'),
        "line 29: [variables.mood] has table = 'pilot.csv', and [variables.sleep] has 'other.csv'; expected one table",
    ),
    "no such column": (
        ("[variables.sleep]", "[variables.slept]"),
        "line 24: column of pilot.csv is 'slept'; expected one of 'id', 'sleep', 'mood'",
    ),
    "rows outside the range": (
        ("range = [3, 11]", "range = [9, 11]"),
        "line 24: no row of the table lies between the bounds of its variables; expected at least one",
    ),
    "level that rows do not know": (
        ('levels = ["good", "low"]', 'levels = ["good", "bad"]'),
        "line 24: 'mood' in the table has 'low'; expected one of ['good', 'bad']",
    ),
    "unknown schedule": (
        ('"weekend"', '"weekends"'),
        "line 15: schedule in [variables.day] is 'weekends'; expected 'time of day', 'weekday', 'weekend' or 'day of "
        "study'; did you mean 'weekend'?",
    ),
    "unknown weekday": (
        ('"Friday"', '"friday"'),
        "line 16: first in [variables.day] is 'friday'; expected the weekday on which the study begins",
    ),
    "times without names": (
        ('names = ["morning", "evening"]\n', ""),
        "line 11: [variables.time] has schedule = 'time of day' without names; expected one for each decision",
    ),
    "names twice": (
        ('"evening"]', '"morning"]'),
        "line 12: [variables.time] has names = [\"morning\", \"morning\"]; expected a list of different names",
    ),
    "names without times": (
        ('schedule = "weekend"', 'schedule = "weekend"\nnames = ["a", "b"]'),
        "line 16: [variables.day] has names without schedule = 'time of day'; expected both",
    ),
    "schedule and levels": (
        ('schedule = "weekend"', 'schedule = "weekend"\nlevels = ["a", "b"]'),
        "line 15: [variables.day] has levels and schedule; expected only one of them",
    ),
    "schedule that is drawn": (
        ('first = "Friday"', "probabilities = [0.5, 0.5]"),
        "line 16: [variables.day] has probabilities and schedule; nothing is drawn, expected only schedule",
    ),
    "schedule that is hidden": (
        ('first = "Friday"', 'visibility = "sensed"'),
        "line 16: [variables.day] has visibility = 'sensed'; expected 'public', as everyone knows the schedule",
    ),
    "times that do not agree": (
        ("decisions_per_day = 2", "decisions_per_day = 3"),
        "line 8: variable 'time' has 2 times of day; expected 3, one for each decision of the day",
    ),
    "a study of one day": (
        ('schedule = "weekend"\nfirst = "Friday"', 'schedule = "day of study"'),
        ("horizon = 28", "horizon = 2"), ("budgets = [4]", "budgets = [2]"),
        "line 15: variable 'day' is the day of a study of 1 day; expected 2 days or more",
    ),
    "joint probabilities": (
        ("known = true", "joint = [0.5, 0.5]"),
        "line 32: joint in [contexts] is for variables with levels, and steps may be any number",
    ),
    "standardised numbers": (
        ("action:sleep", "action:scale(sleep)"),
        "line 35: formula 'time + day + action*I(steps/1000) + action:scale(sleep) + action:mood' cannot be used",
    ),
    "infinite features": (
        ("I(steps/1000)", "log(steps)"), ("I(steps/1000)", "log(steps)"),
        "line 35: formula 'time + day + action*log(steps) + action:sleep + action:mood' cannot be used",
    ),
    "scale without the truth": (
        ("pooled = true", 'scale = "gap"'),
        "line 53: scale 'gap' needs the truth",
    ),
    "scale without bounds": (
        ("pooled = true", 'scale = "range"'),
        "line 53: scale 'range' needs value_range",
    ),
    "contexts for variables": (
        ("[variables.steps]", "[contexts.steps]"), ("[contexts]\nknown = true\n", "\n"),
        "line 18: unknown table [contexts.steps]; did you mean [variables.steps]?",
    ),
    "lateness that is no number of steps": (
        ("reward_delay = 3", "reward_delay = 2.5"),
        "line 48: reward_delay in [world] is 2.5; expected a whole number from 0 to 10000, the longest delay of a",
    ),
    "word for pooled": (
        ("pooled = true", 'pooled = "yes"'),
        "line 55: pooled in [[policies]] is 'yes'; expected true (all instances learn one model), false (one each)"
        " or 'partial'",
    ),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_mistakes_have_their_line(case: str, tmp_path: Path) -> None:
    """Every mistake about numbers, schedules and tables is named with its line and what was expected."""
    *changes, expected = WRONG[case]
    found = errors_in(tmp_path, edit(*changes))  # type: ignore[arg-type]  # all but the last are pairs
    assert any(line.startswith(f"study.toml, {expected}") for line in found), found


def test_bad_rows_have_their_line(tmp_path: Path) -> None:
    """A row without a value is named with its line in the table."""
    found = errors_in(tmp_path, WALKS, pilot="sleep,mood\n7,good\n,low\n")
    assert found == ["study.toml, line 24: pilot.csv has no sleep in line 3; expected a value"]


def test_too_many_combinations(tmp_path: Path) -> None:
    """What a decision would have to go through is bounded, and said so."""
    more = "".join(f'[variables.x{i}]\nrange = [0, 1]\ndistribution = {{ kind = "uniform" }}\n' for i in range(9))
    text = edit(("[contexts]", f"{more}[contexts]"), ("+ action:mood", "+ action:mood + " + " + ".join(
        f"action:x{i}" for i in range(9))))  # fmt: skip
    assert any("combinations of bounds and levels; expected at most 256" in line for line in errors_in(tmp_path, text))


def test_the_base_file_has_no_numbers() -> None:
    """A range alone stands for its levels, as ever."""
    study = parse_study(BASE)
    assert not study.continuous
    assert study.variables["stress"] == [1, 2, 3]
