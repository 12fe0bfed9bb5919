"""All mistakes of a study file are reported at once, each with its line, and nothing that is right."""

import re
import tomllib
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from study_files import edit, errors_of, report_of

from opportune.study.examples import EXAMPLES, example

MANY = """\
schema = 1

[study]
name = "many mistakes"                          #! name in [study] is 'many mistakes'
seed = -1                                       #! seed in [study] is -1
horizon = 60
decisions_per_day = 2
actions = ["rest", "walk", "exercise"]
budgets = [10, 80]                              #! budgets in [study] contains 80; expected at most 60
replicats = 5                                   #! unknown key 'replicats' in [study]; did you mean 'replicates'?
run_in_days = 40                                #! run_in_days in [study] is 40, which is 80 decisions

[studdy]                                        #! unknown section [studdy]

[variables.time]
schedule = "time of day"
names = ["morning", "evening"]
visibility = "sensed"                           #! [variables.time] has visibility = 'sensed'; expected 'public'

[variables.pain]
levels = ["none", "mild", "strong"]
probabilities = [0.5, 0.3, 0.1]                 #! [variables.pain] has probabilities that sum to 0.9
level_labels = ["None", "Some"]                 #! [variables.pain] has level_labels = ["None", "Some"]
escalate = { severe = "Ask for the doctor." }   #! [variables.pain] has escalate for 'severe'
persistence = 1.5                               #! persistence in [variables.pain] is 1.5
question = "Does it hurt?"                      #! [variables.pain] has question; participants are asked

[variables.mood]
levels = ["good", "low"]
visibility = "reported"
digits = "two"                                  #! digits in [variables.mood] is 'two'
answers = ["Good"]                              #! [variables.mood] has answers = ["Good"]

[variables.calls]
history = { of = "nudges", summary = "sum" }    #! [variables.calls] has history without decisions or days

[variables.sleep]
range = [4, 10]
distribution = { kind = "normal", mean = 70, sd = 1 }   #! [variables.sleep]: Normal(mean=70.0, sd=1.0) has hardly any

[reward]
formula = "time + action*pain + mood"
noise_sd = 0                                    #! noise_sd in [reward] is 0
bounds = [5, -5]                                #! bounds in [reward] is [5.0, -5.0]

[effects]
"time=evening" = 0.1
"pain=mild" = { mean = -1, sd = -0.1 }          #! sd in 'pain=mild' of [effects] is -0.1
"mood=lo" = 0.5                                 #! unknown term 'mood=lo' in [effects]; did you mean 'mood=low'?
"action=walk" = "good"                          #! 'action=walk' in [effects] is 'good'
"*" = 0.0

[prior]
"action=run" = { mean = 0.4, sd = 0.3 }         #! unknown term 'action=run' in [prior]
"pain=strong" = { mean = 0.4 }                  #! 'pain=strong' of [prior] lacks 'sd'

[world]
open_rate = { noon = 0.1 }                      #! open_rate in [world] is {"noon": 0.1}; expected a rate for each level
response_rate = { morning = 0.1 }               #! by level of time; expected 'evening' as well
reward_rate = 2.0                               #! reward_rate in [world] is 2.0

[actions.walk]
label = ""                                      #! label in [actions.walk] is ''
never_if = 'pain == "severe"'                   #! at character 9 is not one of the levels

[actions.exercise]
never_if = 'pian == "strong"'                   #! never_if of 'exercise': 'pian' at character 1 is not present
when_unknown = "perhaps"                        #! when_unknown in [actions.exercise] is 'perhaps'

[actions.run]                                   #! [actions.run] is not an action in [study]
label = "Run"

[nudge]
quiet = ["20:00", "25:00"]                      #! quiet in [nudge] is ["20:00", "25:00"]
per_week = 0                                    #! per_week in [nudge] is 0

[staff]
timezone = "Europe/Berlyn"                      #! timezone in [staff] is 'Europe/Berlyn'
hours = { monday = ["17:00", "09:00"], tuesday = ["9", "17:00"] }   #! monday in hours of [staff] #! tuesday in hours
holidays = ["2026-02-30"]                       #! holidays[0] in [staff] is '2026-02-30'

[schedule]
times = ["18:00", "09:00"]                      #! times in [schedule] is ["18:00", "09:00"]

[participants]
planned = 0                                     #! planned in [participants] is 0
baseline = { site = ["Bern"], age = [40, 90] }  #! site in baseline of [participants] is ["Bern"]

[arms]
nudges = { share = 2, policy = "PD9" }          #! policy of 'nudges' in [arms] is 'PD9'
control = { policy = "never", recommender = "coin" }    #! control of [arms] lacks 'share' #! recommender of 'control'
strata = ["age"]                                #! strata in [arms] names 'age', a number in a range

[probabilities]
actions = 0.4                                   #! actions in [probabilities] is 0.4, and there are 3 actions
nudge = 0.9                                     #! nudge in [probabilities] is 0.9

[learning]
update = "month"                                #! update in [learning] is 'month'

[[policies]]
kind = "PACE"
guard = 3.0                                     #! guard in [[policies]] is 3.0
scale = "gap"                                   #! scale does not apply to kind 'PACE'

[[policies]]
name = "third"
kind = "PD3"                                    #! kind in [[policies]] is 'PD3'
kappa = -1.0                                    #! kappa in [[policies]] is -1.0

[analysis]
primary = { outcome = "rewrd", controls = "mood" }  #! outcome in primary of [analysis] #! 'mood' is reported

[serve]
budget = 70                                     #! budget in [serve] is 70; expected at most 60
fallback = "stop"                               #! fallback in [serve] is 'stop'
on_call = { sunday = ["12:00", "11:00"] }       #! sunday in on_call of [serve] is ["12:00", "11:00"]
mail = ["nobody"]                               #! mail[0] in [serve] is 'nobody'
"""


def expected_of(text: str) -> list[tuple[int, str]]:
    """The line and the words of each mistake that a comment announces."""
    lines = enumerate(text.splitlines(), start=1)
    return [(number, words.strip()) for number, line in lines for words in line.split("#!")[1:]]


def not_reported(expected: list[tuple[int, str]], found: list[str]) -> list[tuple[int, str]]:
    """The mistakes that no line of a report names with its line number."""
    return [
        (number, words)
        for number, words in expected
        if not any(line.startswith(f"study.toml, line {number}: ") and words in line for line in found)
    ]


def test_many_mistakes_are_reported_at_once() -> None:
    """One round reports more than fifty mistakes, in tables and between tables, and nothing else."""
    expected, found = expected_of(MANY), errors_of(MANY)
    assert len(expected) > 50
    assert not_reported(expected, found) == []
    assert len(found) == len(expected), found


def test_checks_that_depend_on_a_mistake_wait() -> None:
    """The levels of a variable are not compared with wrong ones; one sentence says that checks wait, if any does."""
    labels = 'level_labels = ["Low", "High"]'
    wrong, waiting = report_of(edit(("range = [1, 3]", f'levels = ["low", "low"]\n{labels}')))
    assert wrong.startswith('study.toml, line 14: [variables.stress] has levels = ["low", "low"]')
    assert re.fullmatch(r"study\.toml: \d more checks follow once this is corrected", waiting)
    (corrected,) = errors_of(edit(("range = [1, 3]", f"range = [1, 3]\n{labels}")))
    assert corrected.startswith("study.toml, line 15: [variables.stress] has level_labels")
    assert len(report_of(edit(("[world]", "[nudge]\nminutes = 0\n[world]")))) == 1, "the control: nothing waits"


def test_the_value_of_a_misspelt_key_is_read() -> None:
    """A misspelt key is one mistake; its value is read as that of the key that was meant, unless it cannot be."""
    spelt, value = errors_of(edit(("budgets = [4, 8]", "budgts = [4, 80]")))
    assert spelt == "study.toml, line 7: unknown key 'budgts' in [study]; did you mean 'budgets'?"
    assert value == "study.toml, line 7: budgets in [study] contains 80; expected at most 40, the horizon"
    assert errors_of(edit(("budgets = [4, 8]", "budgts = 4"))) == [spelt]
    section, key = errors_of(edit(("[reward]", "[rewards]"), ("noise_sd = 0.2", "noise_sd = 0")))
    assert section == "study.toml, line 20: unknown section [rewards]; did you mean [reward]?"
    assert key.startswith("study.toml, line 22: noise_sd in [reward] is 0")


class Mistake(NamedTuple):
    """A mistake to make in a file."""

    old: str
    """The first line that matches this is replaced."""
    new: str
    """What it is replaced by; "#!" ends the wrong line if it is not the last one."""
    words: str
    """Part of what is reported."""
    hides: str = "nothing"
    """Mistakes that depend on this one, whose words match this, are not made beside it."""


def below(section: str, line: str, words: str, hides: str = "nothing") -> Mistake:
    """A wrong line below the header of a section."""
    return Mistake(f"({re.escape(section)}.*)", f"\\1\n{line}", words, hides)


MISTAKES = (
    # keys and sections
    below("[study]", "colour = 1", "unknown key 'colour' in [study]"),
    below("[world]", "colour = 1", "unknown key 'colour' in [world]"),
    below("[serve]", "colour = 1", "unknown key 'colour' in [serve]"),
    below("[nudge]", "colour = 1", "unknown key 'colour' in [nudge]"),
    below("[[policies]]", "colour = 1", "unknown key 'colour' in [[policies]]"),
    below("[contexts]", "variables = 1", "unknown key 'variables' in [contexts]"),
    Mistake(r"schema = 1(.*)", r"schema = 2\1", "schema is 2; expected 1"),
    Mistake(r"replicates = (.*)", r"replicats = \1", "unknown key 'replicats' in [study]; did you mean 'replicates'?"),
    Mistake(r"formula = (.*)", r"formla = \1", "unknown key 'formla' in [reward]; did you mean 'formula'?"),
    Mistake(r"actions = \[(.*)", r"action = [\1", "unknown key 'action' in [study]; did you mean 'actions'?"),
    Mistake(r"\[participants\]", "[participant]", "unknown section [participant]; did you mean [participants]?"),
    Mistake(r"\[nudge\]", "[flavours] #!\nhot = 1\n\n[nudge]", "unknown section [flavours]"),
    # values
    below("[study]", "trace = 3", "trace in [study] is 3"),
    below("[study]", 'language = "English"', "language in [study] is 'English'"),
    below("[study]", "seed = -1", "seed in [study] is -1"),
    Mistake(r"instances = .*", 'instances = "all"', "instances in [study] is 'all'"),
    Mistake(r"noise_sd = .*", "noise_sd = 0", "noise_sd in [reward] is 0"),
    Mistake(r"unit = .*", "unit = 3", "unit in [reward] is 3"),
    below("[reward]", "value_range = [2, 1]", "value_range in [reward] is [2.0, 1.0]"),
    Mistake(r"bounds = .*", "bounds = [9, 0]", "bounds in [reward] is [9.0, 0.0]"),
    Mistake(r"reward_rate = .*", "reward_rate = 7", "reward_rate in [world] is 7"),
    Mistake(r"spells = .*", "spells = { rate = 2, days = 7 }", "rate in spells of [world] is 2"),
    below("[world]", "noise_sd = -1", "noise_sd in [world] is -1"),
    Mistake(r"planned = .*", "planned = 0", "planned in [participants] is 0"),
    Mistake(r"enrolment_days = .*", "enrolment_days = 1.5", "enrolment_days in [participants] is 1.5"),
    Mistake(r"dropout = .*", "dropout = 2.0", "dropout in [participants] is 2.0"),
    Mistake(r"first_day = .*", 'first_day = "2026-02-30"', "first_day in [participants] is '2026-02-30'"),
    Mistake(r"baseline = .*", 'baseline = { site = ["A", "B"], age = [9, 1] }', "age in baseline of [participants] is"),
    Mistake(r"minutes = .*", 'minutes = "six"', "minutes in [nudge] is 'six'"),
    Mistake(r"quiet = .*", 'quiet = ["20:00"]', 'quiet in [nudge] is ["20:00"]'),
    below("[nudge]", "least_window = -1", "least_window in [nudge] is -1"),
    Mistake(r"hours = .*", 'hours = { weekdays = ["17:00", "9:00"] }', "weekdays in hours of [staff] is"),
    Mistake(r"holidays = .*", 'holidays = ["Christmas"]', "holidays[0] in [staff] is 'Christmas'"),
    Mistake(r"times = .*", 'times = ["18:00", "7:30"]', 'times in [schedule] is ["18:00", "7:30"]'),
    below("[schedule]", "first = 'Mon'", "first in [schedule] is 'Mon'"),
    Mistake(r"control = .*", "control = { share = 0 }", "share in control of [arms] is 0", hides="^block"),
    Mistake(r"block = .*", "block = 7", "block in [arms] is 7, and shares sum to 3"),
    Mistake(r"update = .*", 'update = "monthly"', "update in [learning] is 'monthly'"),
    Mistake(r"nudge = 0.*", "nudge = 0.7", "nudge in [probabilities] is 0.7"),
    Mistake(r"persistence = .*", "persistence = 5", "persistence in [variables."),
    Mistake(r"label = .*", "label = 7", "label in ["),
    below("[serve]", 'webhook = "nowhere"', "webhook in [serve] is 'nowhere'"),
    # keys of a table that do not fit together
    Mistake(r"probabilities = \[.*", "probabilities = [0.7]", "has 1 probabilities for", hides=r"mood\] has levels"),
    Mistake(r"escalate = .*", 'escalate = { awful = "Help." }', "[variables.pain] has escalate for 'awful'"),
    Mistake(r"answers = .*", 'answers = ["Good"]', '[variables.mood] has answers = ["Good"]'),
    Mistake(r'levels = \["good", "low"\]', 'levels = ["good"]', "[variables.mood] has levels", hides="answers|mood="),
    Mistake(r'levels = \["morning".*', 'levels = ["day"]', "[variables.time_of_day] has levels", hides="response_rate"),
    Mistake(r"history = .*", 'history = { of = "nudges", summary = "sum" }', "has history without decisions or days"),
    below("[[policies]]", "every = 3", "every does not apply to kind"),
    # parts of the file that do not fit together
    Mistake(r"budgets = .*", "budgets = [2000]", "budgets in [study] contains 2000; expected at most"),
    Mistake(r"budget = .*", "budget = 2000", "budget in [serve] is 2000; expected at most"),
    Mistake(
        r"formula = .*", 'formula = "action + joy"', "names 'joy', which is not a variable", hides="unknown term|formla"
    ),
    Mistake(r'"intercept" = (.*)', r'"intercpt" = \1', "unknown term 'intercpt' in ["),
    Mistake(r'"time=evening" = (.*)', r'"time=evenin" = \1', "unknown term 'time=evenin' in ["),
    Mistake(r'"mood=low" = (.*)', r'"mood=lo" = \1', "unknown term 'mood=lo' in ["),
    Mistake(r'"pain=mild" = .*', '"pain=mild" = "much"', "'pain=mild' in [effects] is 'much'"),
    below("[effects]", '"action=nobody" = 0', "unknown term 'action=nobody' in [effects]"),
    below("[prior]", '"action=nobody" = { mean = 0, sd = 1 }', "unknown term 'action=nobody' in [prior]"),
    Mistake(r"\[nudge\]", "[actions.nobody] #!\n\n[nudge]", "[actions.nobody] is not an action in [study]"),
    Mistake(r"fallback = .*", 'fallback = "coffee"', "fallback in [serve] is 'coffee'"),
    Mistake(r"policy = .*", 'policy = "chance"', "policy in [serve] is 'chance'"),
    Mistake(r"response_rate = .*", "response_rate = { noon = 0.5 }", 'response_rate in [world] is {"noon": 0.5}'),
    Mistake(r"strata = .*", 'strata = ["clinic"]', "strata in [arms] names 'clinic'"),
    Mistake(r"never_if = .*", "never_if = 'pain == \"awful\"'", "is not one of the levels"),
    Mistake(r"primary = .*", 'primary = { outcome = "joy" }', "outcome in primary of [analysis] is 'joy'"),
)


def with_mistakes(name: str, mistakes: list[Mistake]) -> str:
    """An example with those of some mistakes that can be made in it beside each other, announced in comments."""
    text = example(name)
    made: list[Mistake] = []
    for mistake in mistakes:
        hidden = any(re.search(a.hides, b.words) for one in made for a, b in ((one, mistake), (mistake, one)))
        new = mistake.new if "#!" in mistake.new else f"{mistake.new}  #!"
        new = new.replace("#!", f"#! {mistake.words}")
        changed = re.sub(f"^{mistake.old}$", new, text, count=1, flags=re.MULTILINE)
        if changed != text and not hidden and is_toml(changed):
            text = changed
            made.append(mistake)
    return text


def is_toml(text: str) -> bool:
    """Whether no key is there twice."""
    try:
        tomllib.loads(text)
    except tomllib.TOMLDecodeError:
        return False
    return True


@pytest.mark.parametrize("name", EXAMPLES)
@given(mistakes=st.lists(st.sampled_from(MISTAKES), min_size=1, max_size=12, unique=True))
@settings(deadline=None, max_examples=25)
def test_mistakes_in_examples_are_reported_at_once(name: str, mistakes: list[Mistake]) -> None:
    """Whatever mistakes an example has, one round reports them all, each with its line, and nothing else."""
    text = with_mistakes(name, mistakes)
    expected = expected_of(text)
    found = errors_of(text) if expected else []
    assert not_reported(expected, found) == []
    assert len(found) == len(expected), found


@pytest.mark.parametrize("mistake", MISTAKES, ids=lambda mistake: mistake.words)
def test_every_mistake_can_be_made(mistake: Mistake) -> None:
    """Each mistake of the list is one in some example, and is reported alone; without it, nothing is."""
    texts = [text for name in EXAMPLES if expected_of(text := with_mistakes(name, [mistake]))]
    assert texts
    for text in texts:
        (found,) = errors_of(text)
        assert mistake.words in found
