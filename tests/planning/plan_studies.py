"""Small studies to plan, and what is done with them."""

from pathlib import Path
from typing import Any

from opportune.analysis.parts import Parts
from opportune.planning.settings import Settings, settings_of
from opportune.planning.simulated import Simulations
from opportune.study import Study, parse_study

SMALL = """\
[study]
name = "small-plan"
seed = 5
horizon = 24
decisions_per_day = 2
actions = ["rest", "walk"]
budgets = [4, 8]

[variables.stress]
range = [0, 2]
probabilities = [0.5, 0.3, 0.2]

[variables.weekend]
schedule = "weekend"
first = "Wednesday"

[reward]
formula = "1 + action*stress"
noise_sd = 0.3
unit = "minutes"

[effects]
"action=walk" = { mean = -1.0, sd = 0.2 }
"action=walk:stress" = { mean = 1.2, sd = 0.2 }
"*" = 0.0

[world]
response_rate = 0.9

[nudge]
name = "call"
minutes = 6

[participants]
planned = 12
enrolment_days = 3

[[policies]]
kind = "PACE"

[[policies]]
kind = "naive"
"""


def edited(*changes: tuple[str, str]) -> Study:
    """The small study with some of its text replaced."""
    text = SMALL
    for old, new in changes:
        assert old in text
        text = text.replace(old, new, 1)
    return parse_study(text)


def small(*changes: tuple[str, str], **given: Any) -> Settings:
    """The settings of a small plan."""
    return settings_of(edited(*changes), **{"replicates": 6, **given})


def numeric(*changes: tuple[str, str], **given: Any) -> Settings:
    """The settings of a small plan in which stress may be any number, and a mood is reported."""
    return small(
        ("range = [0, 2]\nprobabilities = [0.5, 0.3, 0.2]", "range = [0, 2]\ndistribution = { kind = 'uniform' }"),
        ("[variables.weekend]", "[variables.mood]\nlevels = ['good', 'low']\nvisibility = 'reported'\n\n"
         "[variables.weekend]"),
        *changes,
        **given,
    )  # fmt: skip


def simulations(folder: Path) -> Simulations:
    """Simulations that are kept in a folder, without a progress bar."""
    return Simulations(Parts(folder, "plan", {}), lambda what, done: None)
