"""Writes a first study file from a few answers: commented, complete and ready for every command."""

import json
import math
from typing import Any

from opportune.study.load import parse_study
from opportune.study.naming import article
from opportune.study.questions import Answers


def starter(answers: Answers) -> str:
    """The text of a study file; raises `InputError` if the answers do not fit together."""
    parts = [_study, _variables, _reward, _safety, _people, _running]
    text = "\n".join(part(answers) for part in parts)
    parse_study(text, source=f"{answers['name']}.toml")
    return text


def _quoted(words: Any) -> str:
    return "[" + ", ".join(_text(word) for word in words) + "]"


def _text(word: str) -> str:
    """A text in TOML; JSON strings are TOML strings."""
    return json.dumps(word, ensure_ascii=False)


def _study(a: Answers) -> str:
    horizon, budget = a["per_day"] * a["days"], a["budget"]
    budgets = sorted({max(1, budget // 2), budget, min(2 * budget, horizon)})
    return f"""\
# A study for Opportune. `opportune check` says what each command needs of it and
# what will happen, `opportune plan` how many {a["nudge"]}s are worth it, `opportune
# simulate` compares policies. Values marked GUESS decide the answers: replace them
# by what you know, or let `opportune calibrate` estimate them from pilot data.

schema = 1

[study]
name = {_text(a["name"])}
horizon = {horizon}                  # decisions: {a["days"]} days, {a["per_day"]} per day
decisions_per_day = {a["per_day"]}
actions = {_quoted(a["actions"])}     # others are compared with the first
budgets = {budgets}             # {a["nudge"]}s per participant, to try
budget_kind = "hard"            # never {article(a["nudge"])} beyond the budget
instances = 20                  # participants that `simulate` draws
replicates = 20                 # runs of each
"""


def _variables(a: Answers) -> str:
    parts = [
        """\
# What is known at a moment:
#   public    always seen by all,
#   sensed    seen by the app, which picks the moments that are worth a nudge,
#   reported  known once the participant answers.
"""
    ]
    if not a["sensed"] and not a["reported"]:
        parts.append(_variable("time", ("early", "late"), "public"))
    for name, levels in zip(a["sensed"], a["sensed_levels"], strict=True):
        parts.append(_variable(name, levels, "sensed"))
    for name, levels in zip(a["reported"], a["reported_levels"], strict=True):
        question = _text(f"How is your {name.replace('_', ' ')}?")
        parts.append(_variable(name, levels, "reported") + f"question = {question}\n")
    return "\n".join(parts)


def _variable(name: str, levels: tuple[Any, ...], visibility: str) -> str:
    values = f"levels = {_quoted(levels)}" if isinstance(levels[0], str) else f"range = [{levels[0]}, {levels[-1]}]"
    return f"""\
[variables.{name}]
{values}
visibility = "{visibility}"
probabilities = {_equal(len(levels))}      # GUESS
"""


def _equal(n: int) -> str:
    share = math.floor(1e4 / n) / 1e4
    return str([share] * (n - 1) + [round(1.0 - share * (n - 1), 4)])


def _reward(a: Answers) -> str:
    names = [*a["sensed"], *a["reported"]] or ["time"]
    formula = " + ".join(["1", *(f"action*{name}" for name in names)])
    shown = "\n".join(_effects(a))
    return f"""\
[reward]
formula = {_text(formula)}
noise_sd = {a["noise"]:g}                  # GUESS: how much it varies from time to time
unit = {_text(a["unit"])}

# The true effects as you suppose them, in {a["unit"]}, compared with {_text(a["actions"][0])} and with the
# first level of each variable. Each participant draws its own from {{ mean, sd }}.
# "*" stands for every term that is not named.

[effects]
{shown}
"*" = 0.0

[world]
response_rate = 0.8             # GUESS: {article(a["nudge"])} is answered
open_rate = 0.02                # GUESS: the app is opened unasked, at a decision
"""


def _effects(a: Answers) -> list[str]:
    """For each action its effect, and a level at which it is better."""
    mean, sd = a["effect"], a["effect"] / 4
    found = ['"intercept" = 0.0']
    sensed = list(zip(a["sensed"], a["sensed_levels"], strict=True))
    for i, action in enumerate(a["actions"][1:]):
        found.append(f"{_text(f'action={action}')} = {{ mean = {-mean / 2:g}, sd = {sd:g} }}  # GUESS")
        if sensed:
            found.append(_better(action, *sensed[i % len(sensed)], i, mean, sd))
    for name, levels in zip(a["reported"], a["reported_levels"], strict=True):
        found.append(_better(a["actions"][-1], name, levels, 0, mean, sd))
    return found


def _better(action: str, name: str, levels: tuple[Any, ...], i: int, mean: float, sd: float) -> str:
    """An effect by which an action helps more at a level or, with numbers, at higher values."""
    if isinstance(levels[0], str):
        term, scale = f"action={action}:{name}={levels[1 + i % (len(levels) - 1)]}", 1.0
    else:
        term, scale = f"action={action}:{name}", 1.0 / (levels[-1] - levels[0])
    return f"{_text(term)} = {{ mean = {mean * scale:.3g}, sd = {sd * scale:.3g} }}  # GUESS"


def _safety(a: Answers) -> str:
    """Labels of the actions, and conditions that forbid them."""
    parts = []
    for action in a["actions"]:
        lines = [f"[actions.{_text(action)}]", f"label = {_text(action)}              # shown to people"]
        if action in a["forbidden"]:
            lines.append(f"never_if = {_text(a['never_if'][a['forbidden'].index(action)])}")
            lines.append('when_unknown = "forbid"         # while that is not known')
        parts.append("\n".join(lines) + "\n")
    return "\n".join(parts)


def _people(a: Answers) -> str:
    quiet = f"quiet = {_quoted(a['quiet'])}      # by the participant's own clock\n" if a["quiet"] else ""
    first = f"first_day = {a['first_day']}\n" if a["first_day"] else ""
    return f"""\
[nudge]
name = {_text(a["nudge"])}
minutes = {a["minutes"]:g}                     # of staff time for each
{quiet}{_staff(a)}
[participants]
planned = {a["participants"]}
{first}enrolment_days = 14             # they begin evenly over two weeks
dropout = 0.1                   # GUESS: the share who leave before the end

[schedule]
times = {_quoted(a["times"])}
timezone = {_text(a["timezone"])}
"""


def _staff(a: Answers) -> str:
    """Staff hours and the daily cap, if there are any."""
    lines = []
    if a["hours"]:
        saturday = f", saturday = {_quoted(a['saturday'])}" if a["saturday"] else ""
        lines += [
            f"hours = {{ weekdays = {_quoted(a['hours'])}{saturday} }}   # other days are days off",
            'holidays = []                   # such as "2026-12-25"',
        ]
    if a["staff_per_day"]:
        lines.append(f"per_day = {a['staff_per_day']}                    # at most, by all staff together")
    return "\n[staff]\n" + "\n".join(lines) + "\n" if lines else ""


def _running(a: Answers) -> str:
    floor = "least probability of every action that is allowed"
    return f"""\
[probabilities]
actions = {a["floor"]:g}                   # {floor}
nudge = {a["nudge_floor"]:g}                     # and of {article(a["nudge"])}, and of none, at candidate moments

[[policies]]
kind = "PACE"
pooled = "partial"              # own effects, shrunk towards those of all

[serve]
policy = "PACE"
budget = {a["budget"]}
fallback = {_text(a["fallback"])}
"""
