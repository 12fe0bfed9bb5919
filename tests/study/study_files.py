"""A small study file to change and to break, and what is said about it."""

from importlib.resources import files

import pytest

from opportune.errors import InputError
from opportune.study import parse_study

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
WAITING = "more check"
EXAMPLE = files("opportune.study.examples").joinpath("stress-messages.toml").read_text(encoding="utf-8")


def edit(*changes: tuple[str, str]) -> str:
    """The base file with some of its text replaced."""
    text = BASE
    for old, new in changes:
        assert text.count(old) >= 1
        text = text.replace(old, new, 1)
    return text


def errors_of(text: str, source: str = "study.toml") -> list[str]:
    """The mistakes that are reported for a wrong file, one per line."""
    return [line for line in report_of(text, source) if WAITING not in line]


def report_of(text: str, source: str = "study.toml") -> list[str]:
    """All that is reported for a wrong file, line by line."""
    with pytest.raises(InputError) as caught:
        parse_study(text, source=source)
    return str(caught.value).splitlines()
