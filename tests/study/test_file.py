"""The study file: what it says becomes worlds and policies; what is wrong is named with its line."""

import re
import tomllib
from importlib.resources import files
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel

from opportune.errors import InputError
from opportune.policy import Always, FixedRate, LearningPrimalDual, Never, Periodic, PrimalDual
from opportune.problems.formula import design
from opportune.study.file import (
    ContextsTable,
    Effect,
    PolicyTable,
    RewardTable,
    Study,
    StudyFile,
    StudyTable,
    VariableTable,
    WorldTable,
    key_lines,
    load_study,
    parse_study,
    term_names,
)
from opportune.worlds import synthetic_worlds

BASE = """\
[study]
name = "small"
seed = 3
horizon = 40
replicates = 2
actions = ["none", "walk", "call"]
budgets = [4, 8]

[variables.time]
levels = ["am", "pm"]
visibility = "public"

[variables.stress]
range = [1, 3]
probabilities = [0.5, 0.25, 0.25]

[contexts]
known = true

[reward]
formula = "time + action*stress"
noise_sd = 0.2

[effects]
"time=pm" = 0.1
"action=walk" = 0.2
"action=call" = -0.5
"stress" = -0.3
"action=walk:stress" = 0.1
"action=call:stress" = 0.4

[world]
open_rate = 0.1

[[policies]]
kind = "naive"

[[policies]]
kind = "PD2"
scale = "adaptive"
"""
DOCS = Path(__file__).parents[2] / "docs" / "study-file.md"
EXAMPLE = files("opportune").joinpath("example_study.toml").read_text(encoding="utf-8")


def edit(*changes: tuple[str, str]) -> str:
    """The base file with some of its text replaced."""
    text = BASE
    for old, new in changes:
        assert text.count(old) >= 1
        text = text.replace(old, new, 1)
    return text


def complaints(text: str) -> list[str]:
    """What is said about a wrong file, line by line."""
    with pytest.raises(InputError) as caught:
        parse_study(text, source="study.toml")
    return str(caught.value).splitlines()


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
        "line 38: [[policies]] lacks 'kind'; expected 'naive', 'PD1', 'PD2', 'never', 'always' or 'periodic'",
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
        "line 39: kind in [[policies]] is 'pd2'; expected 'naive', 'PD1', 'PD2', 'never', 'always' or "
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
        "line 2: name in [study] is 'a/b'; expected a name of letters, digits, '.', '_' and '-' (results are "
        "saved under it)",
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
        "line 33: open_rate in [world] is 1.1; expected a probability, that a patient opens the app unasked",
    ),
    "upside-down value range": (
        ("noise_sd = 0.2", "noise_sd = 0.2\nvalue_range = [2, 1]"),
        "line 23: value_range in [reward] is [2.0, 1.0]; expected [lowest, highest] with lowest < highest",
    ),
    # parts that do not fit together
    "no levels": (
        ("range = [1, 3]\n", ""),
        "line 13: [variables.stress] lacks its values; expected levels = [...] or range = [lowest, highest]",
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
        "action, C, I, center, exp, log, scale",
    ),
    "variable with a blank": (
        ("[variables.time]", '[variables."time of day"]'),
        "line 9: a formula cannot name a variable 'time of day'; expected letters, digits and '_', and none "
        "of action, C, I, center, exp, log, scale",
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
        "line 17: joint in [contexts] has 2 numbers; expected 2 x 3 = 6, first variable slowest",
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
        "line 21: formula in [reward] names 'stres', which is no variable; did you mean 'stress'?",
    ),
    "formula that runs code": (
        ('"time + action*stress"', "'time + action + {__import__(\"os\")}'"),
        "line 21: formula in [reward] has { \" }; expected variables, numbers and + - * / : ^ ( ) ,",
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
        "line 30: [effects] has 'stress:action=call' and 'action=call:stress', which are the same term",
    ),
    "instances that cannot differ": (
        ("seed = 3", "instances = 5"),
        "line 3: instances in [study] is 5, but every effect is a number; expected 1, or a distribution in "
        "[effects]",
    ),
    "budget beyond the horizon": (
        ("[4, 8]", "[4, 80]"),
        "line 7: budgets in [study] holds 80; expected at most 40, the horizon",
    ),
    "fraction of a hard budget": (
        ("budgets = [4, 8]", 'budgets = [4.5]\nbudget_kind = "hard"'),
        "line 7: budgets in [study] holds 4.5; a hard budget counts nudges, expected a whole number",
    ),
    "budget twice": (
        ("[4, 8]", "[4, 4]"),
        "line 7: budgets in [study] holds 4 twice; expected different budgets",
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
        "line 38: two policies are called 'PD2 B=4'; expected names that tell them apart (name=...)",
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
    found = complaints(edit(*changes))  # type: ignore[arg-type]  # all but the last are pairs
    assert any(line.startswith(f"study.toml, {expected}") for line in found), found


def test_mistakes_come_one_by_one() -> None:
    """One mistake gives one complaint, even where an unknown key leaves a required one missing."""
    assert len(complaints(edit(("horizon", "horzon")))) == 1
    assert len(complaints(edit(("action=call:stress", "action=cal:stress")))) == 1


def test_all_mistakes_are_listed() -> None:
    """Several mistakes are listed together, in the order of the file."""
    found = complaints(edit(("seed = 3", "sed = 3"), ("noise_sd = 0.2", "noise_sd = 0"), ('"PD2"', '"PD3"')))
    assert [re.match(r"study\.toml, line (\d+): ", line)[1] for line in found] == ["3", "22", "39"]  # type: ignore[index]


def test_missing_section() -> None:
    """A section that is not there has no line; the complaint says what belongs in it."""
    assert complaints(BASE[: BASE.index("[[policies]]")]) == [
        "study.toml: [[policies]] is missing; expected a table [[policies]] for each policy, with double brackets"
    ]
    assert len(complaints("")) == 5


def test_unreadable_files(tmp_path: Path) -> None:
    """A file that is missing, a folder or no text is refused by its name."""
    with pytest.raises(InputError, match=r"nix\.toml does not exist; expected a study file"):
        load_study(tmp_path / "nix.toml")
    with pytest.raises(InputError, match="cannot be read"):
        load_study(tmp_path)
    (tmp_path / "latin.toml").write_bytes(b'[study]\nname = "caf\xe9"\n')
    with pytest.raises(InputError, match=r"latin\.toml, line 2: not UTF-8 text"):
        load_study(tmp_path / "latin.toml")


def test_windows_files_are_read(tmp_path: Path) -> None:
    """Line ends and byte-order mark of other systems make no difference."""
    (tmp_path / "win.toml").write_bytes(b"\xef\xbb\xbf" + BASE.replace("\n", "\r\n").encode())
    assert load_study(tmp_path / "win.toml").settings == parse_study(BASE).settings


TRICKY = (
    '''
top = """ [not.a.table]
key = "no key" # no comment \\""" still ""quoted"""""
dotted.a.b = 1; dotted."c d" = 2
'''.replace("; ", "\n")
    + """
list = [ # comment with ] and "
  "a ] b", 'c # d',

  { x = 1, "y.z" = [1, 2] },
]
lit = '''
[[also.not]]
'''
[ table . "sub.table" ]
when = 1979-05-27 07:32:00 # a date
[[array]]
k = 1
[array.inner]
k = 2
[[array]]
k = 3
[[array.deep]]
n.m = 'C:\\'
[[array.deep]]
n = "\\\\"
"""
)


def places(value: Any, at: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every place in parsed TOML."""
    pairs: Any = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    return [place for key, inner in pairs for place in [(*at, key), *places(inner, (*at, key))]]


@pytest.mark.parametrize("text", [BASE, EXAMPLE, TRICKY])
def test_every_key_has_a_line(text: str) -> None:
    """Every place that tomllib finds has a line, no other has, and the key stands on it."""
    lines = key_lines(text)
    assert set(lines) == set(places(tomllib.loads(text)))
    for place, line in lines.items():
        if isinstance(place[-1], str):
            assert place[-1] in text.splitlines()[line - 1]


def test_lines_in_tricky_places() -> None:
    """Strings, comments, dotted keys, inline tables and nested arrays of tables do not mislead the count."""
    lines = key_lines(TRICKY)
    assert lines["dotted", "c d"] == 5
    assert lines["list", 2, "y.z", 1] == 10
    assert lines["table", "sub.table", "when"] == 16
    assert lines["array", 0, "inner", "k"] == 20
    assert lines["array", 1, "deep", 0, "n", "m"] == 24
    assert lines["array", 1, "deep", 1, "n"] == 26


TOML_TEXT = st.text(st.characters(codec="utf-8", exclude_categories=["C", "Zl", "Zp"]), max_size=8)


@given(st.lists(st.tuples(st.text("abc_-", min_size=1, max_size=3), TOML_TEXT, st.booleans()), max_size=8))
@settings(deadline=None)
def test_lines_of_any_strings(entries: list[tuple[str, str, bool]]) -> None:
    """Whatever texts hold, a key is found on the line it was written to."""
    rows, expected = [], {}
    for i, (key, value, in_list) in enumerate(entries):
        quoted = '"' + value.replace("\\", "\\\\").replace('"', '\\"') + '"'
        rows.append(f"{key}{i} = " + (f"[{quoted}, {quoted}] # {value}" if in_list else quoted))
        expected[f"{key}{i}",] = i + 1
    lines = key_lines("\n".join(rows))
    assert {place: line for place, line in lines.items() if len(place) == 1} == expected


def test_worlds_hold_what_the_file_says() -> None:
    """Effects, probabilities, visibility and rates of the file are those of the world."""
    world = parse_study(BASE).worlds()[0]
    assert world.theta.tolist() == [0.1, 0.2, -0.5, -0.3, 0.1, 0.4]
    assert world.context_probs.tolist() == [0.25, 0.125, 0.125] * 2
    assert world.problem.context_probs is not None
    assert (world.open_rate, world.response_rate, world.noise_sd) == (0.1, 1.0, 0.2)
    assert world.problem.visibility == {"time": "public", "stress": "sensed"}
    assert world.problem.action_names == ("none", "walk", "call")
    value = world.values[world.problem.index({"time": "pm", "stress": 3}), 2]
    assert value == pytest.approx(0.1 - 0.5 + 3 * (-0.3 + 0.4))


def test_bounds_follow_from_the_effects() -> None:
    """theta_bound and value_range come from the truth unless the file gives them."""
    problem = parse_study(BASE).worlds()[0].problem
    world = parse_study(BASE).worlds()[0]
    assert problem.theta_bound == pytest.approx(np.linalg.norm(world.theta))
    best = world.values.max(axis=1)
    assert problem.value_range == pytest.approx((best.min(), best.max()))
    given_text = edit(("noise_sd = 0.2", "noise_sd = 0.2\ntheta_bound = 7\nvalue_range = [-9, 9]\ndelta = 0.2"))
    given_problem = parse_study(given_text).worlds()[0].problem
    assert (given_problem.theta_bound, given_problem.value_range, given_problem.delta) == (
        7.0,
        (-9.0, 9.0),
        0.2,
    )
    drawn = edit(('"stress" = -0.3', '"stress" = { mean = -3, sd = 1 }'), ('"time=pm" = 0.1', '"*" = 0'))
    assert parse_study(drawn).worlds()[0].problem.theta_bound == pytest.approx(
        np.sqrt(0.2**2 + 0.5**2 + 6.0**2 + 0.1**2 + 0.4**2)
    )


def test_the_paper_study_can_be_written_as_a_file() -> None:
    """Uniform effects on all terms give the very instances of the paper's synthetic study."""
    text = """
    [study]
    name = "synthetic"
    seed = 11
    horizon = 300
    replicates = 50
    instances = 4
    actions = ["0", "1", "2", "3", "4"]
    budgets = [10, 20, 30]
    [variables.s]
    range = [1, 10]
    [reward]
    formula = "action + s + action:s"
    noise_sd = 0.1
    [effects]
    "*" = { low = 0, high = 1 }
    [[policies]]
    kind = "PD2"
    """
    ours, theirs = parse_study(text).worlds(), synthetic_worlds(4, 11)
    for mine, other in zip(ours, theirs, strict=True):
        assert mine.theta.tolist() == other.theta.tolist()
        assert mine.problem.features.tolist() == other.problem.features.tolist()
        assert mine.problem.theta_bound == pytest.approx(other.problem.theta_bound)
        assert mine.problem.value_range == other.problem.value_range
    assert [w.name for w in ours] == ["instance 0", "instance 1", "instance 2", "instance 3"]


def test_normal_effects_have_their_mean_and_spread() -> None:
    """A normal effect is drawn anew for each instance, with its mean and sd."""
    text = edit(("seed = 3", "instances = 400"), ('"stress" = -0.3', '"stress" = { mean = 2, sd = 0.5 }'))
    thetas = np.array([world.theta for world in parse_study(text).worlds()])
    assert thetas[:, 3].mean() == pytest.approx(2.0, abs=0.1)
    assert thetas[:, 3].std() == pytest.approx(0.5, abs=0.07)
    assert np.ptp(np.delete(thetas, 3, axis=1), axis=0).max() == 0.0


def test_unknown_probabilities_stay_with_the_world() -> None:
    """With known = false the world has the probabilities and the agents do not."""
    world = parse_study(edit(("known = true", "known = false"))).worlds()[0]
    assert world.problem.context_probs is None
    assert world.context_probs.tolist() == [0.25, 0.125, 0.125] * 2


@pytest.mark.parametrize("joint", ["[[0.1, 0.2, 0.3], [0.2, 0.1, 0.1]]", "[0.1, 0.2, 0.3, 0.2, 0.1, 0.1]"])
def test_joint_probabilities(joint: str) -> None:
    """Joint probabilities are given nested or flat, first variable slowest."""
    text = edit(("probabilities = [0.5, 0.25, 0.25]\n", ""), ("known = true", f"joint = {joint}"))
    world = parse_study(text).worlds()[0]
    assert world.context_probs[world.problem.index({"time": "am", "stress": 3})] == 0.3
    assert world.context_probs[world.problem.index({"time": "pm", "stress": 1})] == 0.2


def test_policies_meet_every_budget() -> None:
    """Policies run with each budget; baselines run once, without one unless they have their own."""
    more = '[[policies]]\nkind = "never"\n[[policies]]\nkind = "always"\nbudgets = [2]\n'
    more += '[[policies]]\nkind = "periodic"\nevery = 7\n'
    more += '[[policies]]\nkind = "PD1"\nname = "mine"\nbudgets = [5]\nscale = "gap"\nunknown = "plugin"\n'
    policies = parse_study(BASE + more).policies()
    rules = [(type(p.revealer), p.budget and p.budget.amount) for p in policies]
    assert rules == [
        (FixedRate, 4.0), (FixedRate, 8.0), (LearningPrimalDual, 4.0), (LearningPrimalDual, 8.0),
        (Never, None), (Always, 2.0), (Periodic, None), (PrimalDual, 5.0),
    ]  # fmt: skip
    assert policies[6].revealer == Periodic(every=7)
    assert (policies[7].name, policies[7].scale) == ("mine", "gap")
    assert all(p.budget.hard for p in parse_study(edit(("seed = 3", 'budget_kind = "hard"'))).policies() if p.budget)


@pytest.mark.parametrize(
    "formula",
    [
        "action",
        "1 + action + stress",
        "action*stress + time",
        "action:time + action:stress",
        "(action + time + stress)**2",
        "action + action:stress - stress",
        "action*I(stress**2) + C(stress)",
        "action*log(stress) + exp(stress) + center(stress) + scale(stress)",
        "action/time",
    ],
)
def test_terms_name_the_features(formula: str) -> None:
    """There is one name for each feature, and each effect alone moves the reward by its feature."""
    variables: dict[str, list[Any]] = {"time": ["am", "pm"], "stress": [1, 2, 3]}
    actions = ["none", "walk", "call"]
    names = term_names(formula, variables, actions)
    features = design(formula, variables, actions)
    assert len(names) == len(set(names)) == features.shape[-1]
    for i, name in enumerate(names):
        if name == "action=walk:stress":
            assert features[..., i].tolist() == [[0.0, s, 0.0] for _ in "ap" for s in (1, 2, 3)]
        if name == "time=pm":
            assert features[..., i].tolist() == [[t] * 3 for t in (0.0, 1.0) for _ in range(3)]


@pytest.mark.parametrize(
    "name", ["action=walk:stress", "stress:action=walk", "action[T.walk]:stress", " stress : action=walk "]
)
def test_terms_have_several_spellings(name: str) -> None:
    """A term may be spelt in any order, and as formulaic spells it."""
    world = parse_study(edit(('"action=walk:stress" = 0.1', f'"{name}" = 0.7'))).worlds()[0]
    assert world.theta[4] == 0.7


def test_a_study_runs() -> None:
    """A run has every policy, replicate and step, and carries the file."""
    data = parse_study(BASE).run(progress=False)
    assert list(data["policy"].values) == ["naive B=4", "naive B=8", "PD2 B=4", "PD2 B=8"]
    assert (data.sizes["replicate"], data.sizes["step"]) == (2, 40)
    assert data.attrs["study"] == "small"
    assert data.attrs["study_file"] == BASE
    totals = parse_study(edit(("seed = 3", "seed = 3\ntrace = false"))).run(progress=False)
    assert "step" not in totals.dims
    assert totals["total_reward"].values == pytest.approx(data["total_reward"].values)


def test_replace_checks_again() -> None:
    """Keys of [study] can be replaced, and what does not fit is refused as in a file."""
    study = parse_study(BASE)
    assert study.replace(horizon=10, replicates=1).settings.study.horizon == 10
    with pytest.raises(InputError, match=r"budgets in \[study\] holds 8; expected at most 5"):
        study.replace(horizon=5)
    with pytest.raises(InputError, match=r"replicates in \[study\] is 0; expected a whole number >= 1"):
        study.replace(replicates=0)
    with pytest.raises(InputError, match="did you mean 'horizon'"):
        study.replace(horzon=5)


def test_more_steps_than_memory() -> None:
    """A study whose steps cannot fit into memory is refused with the way out."""
    with pytest.raises(InputError, match="expected trace = false"):
        parse_study(BASE).replace(replicates=4_000_000_000).run(progress=False)


def test_the_example_runs() -> None:
    """The example file loads and runs as it is, here with fewer runs."""
    study = parse_study(EXAMPLE)
    assert study.settings.study.horizon == 200
    visibility = [variable.visibility for variable in study.settings.variables.values()]
    assert set(visibility) == {"public", "sensed", "reported"}
    data = study.replace(horizon=30, replicates=2, instances=2).run(progress=False)
    assert data.sizes["world"] == 2
    assert bool(np.isfinite(data["total_reward"]).all())


def blocks(kind: str) -> list[str]:
    """The fenced blocks of one kind in the documentation."""
    return re.findall(rf"^```{kind}\n(.*?)^```$", DOCS.read_text(encoding="utf-8"), flags=re.DOTALL | re.MULTILINE)


def test_the_documented_files_run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The whole file in the documentation runs, every other piece fits into it, and the Python code runs."""
    whole, *pieces = blocks("toml")
    data = parse_study(whole).replace(replicates=2).run(progress=False)
    assert data.sizes["policy"] == 4
    assert len(pieces) == 3
    for piece in pieces:
        content = {**tomllib.loads(whole), **tomllib.loads(piece)}
        Study(source="docs", text=whole, settings=StudyFile.model_validate(content)).check()
    (tmp_path / "my.toml").write_text(whole, encoding="utf-8")
    monkeypatch.chdir(tmp_path)
    (code,) = blocks("python")
    exec(compile(code, str(DOCS), "exec"), {})


def test_every_key_is_documented() -> None:
    """Every section and every key of the study file is explained in the documentation."""
    parts = re.split(r"^## ", DOCS.read_text(encoding="utf-8"), flags=re.MULTILINE)
    text = {part.splitlines()[0]: part for part in parts}
    tables: dict[str, type[BaseModel]] = {
        "[study]": StudyTable, "[variables.NAME]": VariableTable, "[contexts]": ContextsTable,
        "[reward]": RewardTable, "[effects]": Effect, "[world]": WorldTable, "[[policies]]": PolicyTable,
    }  # fmt: skip
    assert len(tables) == len(StudyFile.model_fields)
    for section, table in tables.items():
        for key in set(table.model_fields) - {"value"}:
            assert f"`{key}`" in text[section], f"{key} of {section}"
