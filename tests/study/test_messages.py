"""What is wrong with a study file is named with its line, what was given and what was expected."""

import re

import pytest
from study_files import edit, errors_of

WRONG = {
    # keys
    "key": (
        ("budgets = [4, 8]", "budgts = [4, 8]"),
        "line 7: unknown key 'budgts' in [study]; did you mean 'budgets'?",
    ),
    "key of a variable": (
        ("visibility", "visiblity"),
        "line 11: unknown key 'visiblity' in [variables.time]; did you mean 'visibility'?",
    ),
    "key of a policy": (
        ("scale =", "scael ="),
        "line 40: unknown key 'scael' in [[policies]]; did you mean 'scale'?",
    ),
    "key of another section": (
        ("seed = 3", "open_rate = 0.5"),
        "line 3: unknown key 'open_rate' in [study]; it belongs in [world]",
    ),
    "key like no other": (
        ("known = true", "zzz = 1"),
        "line 18: unknown key 'zzz' in [contexts]; expected one of known, joint",
    ),
    "section": (("[reward]", "[rewards]"), "line 20: unknown section [rewards]; did you mean [reward]?"),
    "section of policies": (
        ("[world]", "[[worlds]]"),
        "line 32: unknown section [worlds]; did you mean [world]?",
    ),
    "missing key": (
        ("horizon = 40\n", ""),
        "line 1: [study] lacks 'horizon'; expected a whole number >= 1, the decisions in a run",
    ),
    "missing key of a policy": (
        ('kind = "PD2"\n', ""),
        "line 38: [[policies]] lacks 'kind'; expected 'naive', 'PD1', 'PD2', 'PACE', 'never', 'always' or 'periodic'",
    ),
    "key of a distribution": (
        ('"stress" = -0.3', '"stress" = { low = 0, hihg = 1 }'),
        "line 28: unknown key 'hihg' in 'stress' of [effects]; did you mean 'high'?",
    ),
    # values
    "number too small": (
        ("horizon = 40", "horizon = 0"),
        "line 4: horizon in [study] is 0; expected a whole number >= 1, the decisions in a run",
    ),
    "text for a number": (
        ("noise_sd = 0.2", 'noise_sd = "0.2"'),
        "line 22: noise_sd in [reward] is '0.2'; expected a number > 0, the sd of the reward's noise",
    ),
    "fraction for a whole number": (
        ("seed = 3", "seed = 3.5"),
        "line 3: seed in [study] is 3.5; expected a whole number >= 0",
    ),
    "truth for a number": (
        ("seed = 3", "seed = true"),
        "line 3: seed in [study] is true; expected a whole number >= 0",
    ),
    "not a number": (
        ("noise_sd = 0.2", "noise_sd = nan"),
        "line 22: noise_sd in [reward] is NaN; expected a number > 0, the sd of the reward's noise",
    ),
    "word": (
        ('"adaptive"', '"adaptiv"'),
        "line 40: scale in [[policies]] is 'adaptiv'; expected 'adaptive', 'range' or 'gap'; "
        "did you mean 'adaptive'?",
    ),
    "word in the wrong case": (
        ('"PD2"', '"pd2"'),
        "line 39: kind in [[policies]] is 'pd2'; expected 'naive', 'PD1', 'PD2', 'PACE', 'never', 'always' or "
        "'periodic'; did you mean 'PD2'?",
    ),
    "entry of a list": (
        ("[4, 8]", "[\n  4,\n  -8,\n]"),
        "line 9: budgets[1] in [study] is -8; expected a list of numbers > 0, such as [10, 20]",
    ),
    "number for a list": (
        ("[4, 8]", "4"),
        "line 7: budgets in [study] is 4; expected a list of numbers > 0, such as [10, 20]",
    ),
    "name that is no file name": (
        ('"small"', '"a/b"'),
        "line 2: name in [study] is 'a/b'; expected a name of letters, digits, '.', '_' and '-', at most 100 "
        "(results are saved under it)",
    ),
    "one action": (
        ('["none", "walk", "call"]', '["none"]'),
        "line 6: actions in [study] is [\"none\"]; expected a list of at least two different names, such as "
        "['rest', 'call']",
    ),
    "table for a list": (
        ('[[policies]]\nkind = "naive"\n\n[[policies]]', "[policies]"),
        'line 35: policies is {"kind": "PD2", "scale": "adaptive"}; expected a table [[policies]] for each '
        "policy, with double brackets",
    ),
    "value for a variable": (
        ("[variables.time]\nlevels", "[variables]\ntime = 3\nlevels"),
        "line 10: time in [variables] is 3; expected a table [variables.time]",
    ),
    "text for an effect": (
        ('"stress" = -0.3', '"stress" = "big"'),
        "line 28: 'stress' in [effects] is 'big'; expected a number, { low = ..., high = ... } or "
        "{ mean = ..., sd = ... }",
    ),
    "half a distribution": (
        ('"stress" = -0.3', '"stress" = { low = 0 }'),
        "line 28: 'stress' in [effects] has low; expected a number, { low = ..., high = ... } or "
        "{ mean = ..., sd = ... }",
    ),
    "upside-down distribution": (
        ('"stress" = -0.3', '"stress" = { low = 1, high = 0 }'),
        "line 28: 'stress' in [effects] has low = 1 and high = 0; expected low <= high",
    ),
    "negative spread": (
        ('"stress" = -0.3', '"stress" = { mean = 1, sd = -1 }'),
        "line 28: sd in 'stress' of [effects] is -1; expected a number >= 0",
    ),
    "rate above one": (
        ("open_rate = 0.1", "open_rate = 1.1"),
        "line 33: open_rate in [world] is 1.1; expected the probability that a patient opens the app unasked",
    ),
    "upside-down value range": (
        ("noise_sd = 0.2", "noise_sd = 0.2\nvalue_range = [2, 1]"),
        "line 23: value_range in [reward] is [2.0, 1.0]; expected [lowest, highest] with lowest < highest",
    ),
    # parts that do not fit together
    "no levels": (
        ("range = [1, 3]\n", ""),
        "line 13: [variables.stress] lacks its values; expected levels = [...], range = [lowest, highest] or "
        "schedule = ...",
    ),
    "levels twice": (
        ("range = [1, 3]", "range = [1, 3]\nlevels = [1, 2, 3]"),
        "line 14: [variables.stress] has levels and range; expected only one of them",
    ),
    "step without range": (
        ('levels = ["am", "pm"]', 'levels = ["am", "pm"]\nstep = 2'),
        "line 11: [variables.time] has step without range; expected range = [lowest, highest] with it",
    ),
    "levels of two kinds": (
        ('["am", "pm"]', '["am", 1]'),
        'line 10: [variables.time] has levels = ["am", 1]; expected a list of at least two different texts, '
        "or of two different numbers",
    ),
    "range that steps miss": (
        ("range = [1, 3]", "range = [1, 3]\nstep = 0.7"),
        "line 14: [variables.stress] has range = [1.0, 3.0] in steps of 0.7; expected lowest < highest, a "
        "whole number of steps apart",
    ),
    "too few probabilities": (
        ("[0.5, 0.25, 0.25]", "[0.5, 0.5]"),
        "line 15: [variables.stress] has 2 probabilities for 3 levels; expected one for each level",
    ),
    "probabilities that do not sum": (
        ("[0.5, 0.25, 0.25]", "[0.5, 0.25, 0.2]"),
        "line 15: [variables.stress] has probabilities that sum to 0.95; expected 1",
    ),
    "variable called action": (
        ("[variables.time]", "[variables.action]"),
        "line 9: a formula cannot name a variable 'action'; expected letters, digits and '_', and none of "
        "action, C, I, abs, center, exp, log, log1p, scale, sqrt",
    ),
    "variable with a blank": (
        ("[variables.time]", '[variables."time of day"]'),
        "line 9: a formula cannot name a variable 'time of day'; expected letters, digits and '_', and none "
        "of action, C, I, abs, center, exp, log, log1p, scale, sqrt",
    ),
    "too many contexts": (
        ('levels = ["am", "pm"]', "range = [1, 20000]"),
        "line 9: variables have 60,000 combinations; expected at most 32,000",
    ),
    "joint beside probabilities": (
        ("known = true", "joint = [0.2, 0.2, 0.1, 0.1, 0.2, 0.2]"),
        "line 15: [variables.stress] has probabilities, and [contexts] has joint; expected one of them",
    ),
    "joint of the wrong size": (
        ("probabilities = [0.5, 0.25, 0.25]\n\n[contexts]\n", "\n[contexts]\njoint = [0.5, 0.5]\n"),
        "line 17: joint in [contexts] contains 2 numbers; expected 2 x 3 = 6, first variable slowest",
    ),
    "joint of words": (
        ("probabilities = [0.5, 0.25, 0.25]\n\n[contexts]\n", '\n[contexts]\njoint = ["a"]\n'),
        "line 17: joint in [contexts] is not an array of numbers; expected 2 x 3 = 6 probabilities",
    ),
    "joint that does not sum": (
        (
            "probabilities = [0.5, 0.25, 0.25]\n\n[contexts]\n",
            "\n[contexts]\njoint = [[0.2, 0.2, 0.2], [0.2, 0.2, 0.2]]\n",
        ),
        "line 17: joint in [contexts] sums to 1.2; expected 1 within 1e-9",
    ),
    "formula with a wrong word": (
        ("action*stress", "action*stres"),
        "line 21: formula in [reward] names 'stres', which is not a variable; did you mean 'stress'?",
    ),
    "formula that runs code": (
        ('"time + action*stress"', "'time + action + {__import__(\"os\")}'"),
        "line 21: formula in [reward] contains { \" }; expected variables, numbers and + - * / : ^ ( ) ,",
    ),
    "formula without action": (
        ("time + action*stress", "time + stress"),
        "line 21: formula in [reward] does not name action; expected it, or every action would be worth the "
        "same",
    ),
    "effect of an unknown term": (
        ('"action=call:stress"', '"action=cal:stress"'),
        "line 30: unknown term 'action=cal:stress' in [effects]; did you mean 'action=call:stress'?",
    ),
    "missing effect": (
        ('"stress" = -0.3\n', ""),
        "line 24: [effects] lacks 'stress'; expected a number, { low = ..., high = ... } or "
        "{ mean = ..., sd = ... }, or '*' for all the rest",
    ),
    "effect given twice": (
        ('"stress" = -0.3', '"stress:action=call" = 1'),
        "line 30: [effects] contains 'stress:action=call' and 'action=call:stress', which are the same term",
    ),
    "instances that cannot differ": (
        ("seed = 3", "instances = 5"),
        "line 3: instances in [study] is 5, but every effect is a number; expected 1, or a distribution in "
        "[effects]",
    ),
    "budget beyond the horizon": (
        ("[4, 8]", "[4, 80]"),
        "line 7: budgets in [study] contains 80; expected at most 40, the horizon",
    ),
    "fraction of a hard budget": (
        ("budgets = [4, 8]", 'budgets = [4.5]\nbudget_kind = "hard"'),
        "line 7: budgets in [study] contains 4.5; a hard budget counts nudges, expected a whole number",
    ),
    "budget twice": (
        ("[4, 8]", "[4, 4]"),
        "line 7: budgets in [study] contains 4 twice; expected different budgets",
    ),
    "policy without a budget": (
        ("budgets = [4, 8]\n", ""),
        "line 34: policy 'naive' has no budgets, here or in [study]; expected a list of numbers > 0, such as "
        "[10, 20]",
    ),
    "key of another kind of policy": (
        ('kind = "naive"', 'kind = "naive"\nscale = "gap"'),
        "line 37: scale does not apply to kind 'naive' in [[policies]]; it is for 'PD1' or 'PD2'",
    ),
    "periodic without every": (
        ('kind = "naive"', 'kind = "periodic"'),
        "line 35: [[policies]] of kind 'periodic' lacks 'every'; expected a whole number >= 1",
    ),
    "optimism about what is known": (
        ('scale = "adaptive"', 'unknown = "optimistic"'),
        "line 40: unknown = 'optimistic' is for probabilities that agents must learn; expected known = false "
        "in [contexts] with it",
    ),
    "optimism with public variables": (
        ('known = true', 'known = false'),
        ('scale = "adaptive"', 'unknown = "optimistic"'),
        "line 40: unknown = 'optimistic' needs variables that are all sensed; here time is public",
    ),
    "policy twice": (
        ('kind = "naive"', 'kind = "PD2"'),
        "line 38: two policies are called 'PD2 B=4'; expected different names (name=...)",
    ),
    # words for people, and the live study
    "action that is none": (
        ("[contexts]", "[actions.wlak]\nlabel = 'Walk'\n[contexts]"),
        "line 17: [actions.wlak] is not an action in [study]; expected 'none', 'walk' or 'call'; did you mean 'walk'?",
    ),
    "key of an action": (
        ("[contexts]", "[actions.walk]\nlabl = 'Walk'\n[contexts]"),
        "line 18: unknown key 'labl' in [actions.walk]; did you mean 'label'?",
    ),
    "text for an action": (
        ("[variables.time]", "[actions]\nwalk = 'Walk'\n[variables.time]"),
        "line 10: walk in [actions] is 'Walk'; expected a table [actions.walk]",
    ),
    "minutes of a nudge": (
        ("[contexts]", "[nudge]\nminutes = 0\n[contexts]"),
        "line 18: minutes in [nudge] is 0; expected a number > 0, the minutes of staff time per nudge",
    ),
    "everyone drops out": (
        ("[contexts]", "[participants]\ndropout = 1.0\n[contexts]"),
        "line 18: dropout in [participants] is 1.0; expected a number from 0 to less than 1",
    ),
    "times out of order": (
        ("[contexts]", "[schedule]\ntimes = ['18:00', '09:00']\n[contexts]"),
        "line 18: times in [schedule] is [\"18:00\", \"09:00\"]; expected a list of times of day in order",
    ),
    "time that is none": (
        ("[contexts]", "[schedule]\ntimes = ['24:00']\n[contexts]"),
        "line 18: times in [schedule] is [\"24:00\"]; expected a list of times of day in order",
    ),
    "times that do not fit": (
        ("seed = 3", "decisions_per_day = 3\nschedule = 1"),
        "line 4: unknown key 'schedule' in [study]",
    ),
    "as many times as decisions": (
        ("seed = 3", "decisions_per_day = 3"),
        ("[contexts]", "[schedule]\ntimes = ['09:00', '18:00']\n[contexts]"),
        "line 3: times in [schedule] has 2 times, and decisions_per_day in [study] is 3; expected as many",
    ),
    "time zone": (
        ("[contexts]", "[schedule]\ntimezone = 'Europe/Atlantis'\n[contexts]"),
        "line 18: timezone in [schedule] is 'Europe/Atlantis'; expected a time zone by its IANA name",
    ),
    "path for a time zone": (
        ("[contexts]", "[schedule]\ntimezone = '../etc/passwd'\n[contexts]"),
        "line 18: timezone in [schedule] is '../etc/passwd'; expected a time zone by its IANA name",
    ),
    "fallback": (
        ("[contexts]", "[serve]\nfallback = 'sleep'\n[contexts]"),
        "line 18: fallback in [serve] is 'sleep'; expected 'none', 'walk' or 'call'",
    ),
    "policy to serve": (
        ("[contexts]", "[serve]\npolicy = 'PD1'\n[contexts]"),
        "line 18: policy in [serve] is 'PD1'; expected 'naive' or 'PD2', as [[policies]] has them",
    ),
    "budget to serve": (
        ("[contexts]", "[serve]\nbudget = 41\n[contexts]"),
        "line 18: budget in [serve] is 41; expected at most 40, the horizon",
    ),
    "question about what is sensed": (
        ("range = [1, 3]", "range = [1, 3]\nquestion = 'Stress?'"),
        "line 15: [variables.stress] has question; participants are asked for reported variables only",
    ),
    "too few answers": (
        ("range = [1, 3]", "range = [1, 3]\nvisibility = 'reported'\nanswers = ['a', 'b']"),
        'line 16: [variables.stress] has answers = ["a", "b"]; expected 3 different texts, one for each level',
    ),
    "default reward out of bounds": (
        ("noise_sd = 0.2", "noise_sd = 0.2\nbounds = [0, 1]\ndefault = 2"),
        "line 24: default in [reward] is 2; expected a number within bounds, [0.0, 1.0]",
    ),
    "upside-down bounds": (
        ("noise_sd = 0.2", "noise_sd = 0.2\nbounds = [1, 0]"),
        "line 23: bounds in [reward] is [1.0, 0.0]; expected [lowest, highest] with lowest < highest",
    ),
    # no TOML at all
    "no TOML": (
        ("horizon = 40", "horizon 40"),
        "line 4: not TOML: expected '=' after a key in a key/value pair at column 9",
    ),
    "key twice": (("seed = 3", 'name = "b"'), "line 3: not TOML: cannot overwrite a value"),
}  # fmt: skip


@pytest.mark.parametrize("case", WRONG)
def test_mistakes_have_their_line(case: str) -> None:
    """Every kind of wrong key and wrong value is named with its line and what was expected."""
    *changes, expected = WRONG[case]
    found = errors_of(edit(*changes))  # type: ignore[arg-type]  # all but the last are pairs
    assert any(line.startswith(f"study.toml, {expected}") for line in found), found


def test_mistakes_come_one_by_one() -> None:
    """One mistake gives one error, even where an unknown key leaves a required one missing."""
    assert len(errors_of(edit(("horizon", "horzon")))) == 1
    assert len(errors_of(edit(("action=call:stress", "action=cal:stress")))) == 1


def test_all_mistakes_are_listed() -> None:
    """Several mistakes are listed together, in the order of the file."""
    found = errors_of(edit(("seed = 3", "sed = 3"), ("noise_sd = 0.2", "noise_sd = 0"), ('"PD2"', '"PD3"')))
    assert [re.match(r"study\.toml, line (\d+): ", line)[1] for line in found] == ["3", "22", "39"]  # type: ignore[index]


def test_missing_section() -> None:
    """A section that is not there has no line; the error says what belongs in it."""
    assert errors_of(edit(('[reward]\nformula = "time + action*stress"\nnoise_sd = 0.2\n', ""))) == [
        "study.toml: [reward] is missing; expected a table [reward]"
    ]
    assert len(errors_of("")) == 3
