"""A small study file with numbers, a schedule and a table of rows, to change and to break."""

from pathlib import Path

from study_files import errors_of

from opportune.study import Study, load_study

WALKS = """\
[study]
name = "walks"
horizon = 28
replicates = 2
instances = 2
actions = ["none", "walk"]
budgets = [4]
decisions_per_day = 2

[variables.time]
schedule = "time of day"
names = ["morning", "evening"]

[variables.day]
schedule = "weekend"
first = "Friday"

[variables.steps]
range = [0, 20000]
distribution = { kind = "lognormal", median = 4000, sigma = 0.7 }

[variables.sleep]
range = [3, 11]
table = "pilot.csv"

[variables.mood]
levels = ["good", "low"]
visibility = "reported"
table = "pilot.csv"

[contexts]
known = true

[reward]
formula = "time + day + action*I(steps/1000) + action:sleep + action:mood"
noise_sd = 0.3

[effects]
"action=walk" = { mean = 0.5, sd = 0.2 }
"action=walk:I(steps/1000)" = -0.2
"*" = 0.05

[world]
open_rate = 0.05
response_rate = 0.9
available_rate = 0.8
reward_rate = 0.7
reward_delay = 3

[[policies]]
kind = "naive"

[[policies]]
kind = "PD2"
pooled = true
"""
PILOT = "id,sleep,mood\n1,7.5,good\n2,5,low\n3,6.5,good\n4,8,low\n"


def edit(*changes: tuple[str, str]) -> str:
    """The file with some of its text replaced."""
    text = WALKS
    for old, new in changes:
        assert text.count(old) >= 1, old
        text = text.replace(old, new, 1)
    return text


def study_in(folder: Path, text: str = WALKS, pilot: str = PILOT) -> Study:
    """The study of a file in a folder, with its table beside it."""
    (folder / "pilot.csv").write_text(pilot, encoding="utf-8")
    (folder / "study.toml").write_text(text, encoding="utf-8")
    return load_study(folder / "study.toml")


def errors_in(folder: Path, text: str, pilot: str = PILOT) -> list[str]:
    """What is said about a wrong file in a folder, line by line, as of study.toml."""
    (folder / "pilot.csv").write_text(pilot, encoding="utf-8")
    found = errors_of(text, source=str(folder / "study.toml"))
    return [line.replace(f"{folder}/", "") for line in found]
