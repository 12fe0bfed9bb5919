"""A first study file from a handful of answers: commented, complete, ready for every command."""

import json
from dataclasses import dataclass
from datetime import time

from opportune import checks
from opportune.errors import InputError
from opportune.study.load import parse_study


@dataclass(frozen=True, kw_only=True)
class Answers:
    """What `opportune new` asks."""

    name: str = "my-study"
    actions: tuple[str, ...] = ("rest", "walk")
    per_day: int = 2
    days: int = 60
    participants: int = 50
    nudge: str = "call"
    minutes: float = 6.0
    budget: int = 12
    unit: str = "points"
    noise: float = 1.0
    effect: float = 0.5
    sensed: str = "stress"
    sensed_levels: tuple[str, ...] = ("low", "high")
    reported: str = ""
    reported_levels: tuple[str, ...] = ("good", "low")
    timezone: str = "UTC"

    def __post_init__(self) -> None:
        checks.whole("per_day", self.per_day, least=1, most=96)
        checks.whole("days", self.days, least=1, most=3660)
        checks.whole("participants", self.participants, least=1, most=1_000_000)
        checks.whole("budget", self.budget, least=1, most=self.per_day * self.days)
        checks.real("minutes", self.minutes, above=0.0)
        checks.real("noise", self.noise, above=0.0)
        checks.real("effect", self.effect, above=0.0)
        texts = (self.name, self.nudge, self.unit, self.sensed, self.reported, self.timezone, *self.actions)
        for text in (*texts, *self.sensed_levels, *self.reported_levels):
            if not text.isprintable():
                raise InputError(f"{text!r} has signs that cannot be printed; expected plain text")
        if len(self.actions) < 2:
            raise InputError(f"actions is {list(self.actions)}; expected at least two")
        for name, levels in (("sensed_levels", self.sensed_levels), ("reported_levels", self.reported_levels)):
            if len(levels) < 2:
                raise InputError(f"{name} is {list(levels)}; expected at least two")


def starter(answers: Answers) -> str:
    """The text of a study file; raises `InputError` where the answers do not make one."""
    text = "\n".join([_study(answers), _variables(answers), _reward(answers), _people(answers)])
    parse_study(text, source=f"{answers.name}.toml")
    return text


def _quoted(words: tuple[str, ...]) -> str:
    return "[" + ", ".join(_text(word) for word in words) + "]"


def _text(word: str) -> str:
    """A text as TOML has it: JSON's quotes are TOML's."""
    return json.dumps(word, ensure_ascii=False)


def _study(a: Answers) -> str:
    budgets = sorted({max(1, a.budget // 2), a.budget, min(2 * a.budget, a.per_day * a.days)})
    return f"""\
# A study for Opportune. `opportune check` says what each command needs of it,
# `opportune plan` how many {a.nudge}s are worth it, `opportune simulate` compares
# policies. What is marked GUESS decides the answers: put in what you know, or
# let `opportune calibrate` estimate it from pilot data.

[study]
name = {_text(a.name)}
horizon = {a.per_day * a.days}                  # decisions: {a.days} days, {a.per_day} per day
decisions_per_day = {a.per_day}
actions = {_quoted(a.actions)}     # others are compared with the first
budgets = {budgets}             # {a.nudge}s per participant, to try
instances = 20                  # participants that `simulate` draws
replicates = 20                 # runs of each
"""


def _variables(a: Answers) -> str:
    part = f"""\
# What can be known of a moment:
#   public    always seen by all,
#   sensed    seen by the app, which picks the moments that are worth a {a.nudge},
#   reported  known once the participant answers.

[variables.{a.sensed}]
levels = {_quoted(a.sensed_levels)}
visibility = "sensed"
probabilities = {_equal(len(a.sensed_levels))}      # GUESS
"""
    if a.reported:
        part += f"""
[variables.{a.reported}]
levels = {_quoted(a.reported_levels)}
visibility = "reported"
probabilities = {_equal(len(a.reported_levels))}      # GUESS
question = {_text(f"How is your {a.reported.replace('_', ' ')}?")}
"""
    return part


def _equal(n: int) -> str:
    share = round(1.0 / n, 4)
    return str([share] * (n - 1) + [round(1.0 - share * (n - 1), 4)])


def _reward(a: Answers) -> str:
    formula = f"1 + action*{a.sensed}" + (f" + action*{a.reported}" if a.reported else "")
    effects = ['"intercept" = 0.0']
    for i, action in enumerate(a.actions[1:]):
        effects.append(f"{_text(f'action={action}')} = {{ mean = {-a.effect / 2:g}, sd = {a.effect / 4:g} }}  # GUESS")
        level = a.sensed_levels[1 + i % (len(a.sensed_levels) - 1)]
        key = _text(f"action={action}:{a.sensed}={level}")
        effects.append(f"{key} = {{ mean = {a.effect:g}, sd = {a.effect / 4:g} }}  # GUESS")
    if a.reported:
        key = _text(f"action={a.actions[-1]}:{a.reported}={a.reported_levels[1]}")
        effects.append(f"{key} = {{ mean = {a.effect:g}, sd = {a.effect / 4:g} }}  # GUESS")
    shown = "\n".join(effects)
    return f"""\
[reward]
formula = {_text(formula)}
noise_sd = {a.noise:g}                  # GUESS: how much it varies from time to time
unit = {_text(a.unit)}

# The truth as you suppose it, in {a.unit}, compared with {_text(a.actions[0])} and with the
# first level of each variable. Each participant's own is drawn: {{ mean, sd }}.
# "*" stands for every term that is not named.

[effects]
{shown}
"*" = 0.0

[world]
response_rate = 0.8             # GUESS: a {a.nudge} is answered
open_rate = 0.02                # GUESS: the app is opened unasked, at a decision
"""


def _people(a: Answers) -> str:
    return f"""\
[nudge]
name = {_text(a.nudge)}
minutes = {a.minutes:g}                     # of staff, for each

[participants]
planned = {a.participants}
enrolment_days = 14             # they begin evenly over two weeks
dropout = 0.1                   # GUESS: the share who leave before the end

[schedule]
times = {_quoted(_times(a.per_day))}
timezone = {_text(a.timezone)}

[[policies]]
kind = "PACE"

[serve]
policy = "PACE"
budget = {a.budget}
fallback = {_text(a.actions[0])}
"""


def _times(n: int) -> tuple[str, ...]:
    """Times of day, evenly from 9 to 18 o'clock."""
    if n == 1:
        return ("09:00",)
    minutes = [9 * 60 + round(i * 9 * 60 / (n - 1)) for i in range(n)]
    return tuple(time(m // 60, m % 60).strftime("%H:%M") for m in minutes)
