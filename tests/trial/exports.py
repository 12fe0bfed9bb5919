"""Exports of simulated studies, as `opportune export` writes them."""

from pathlib import Path

import numpy as np
import pandas as pd

from opportune.planning.pool import pools
from opportune.planning.power import designs
from opportune.planning.settings import settings_of
from opportune.study import parse_study

STUDY = """\
[study]
name = "walks"
seed = 5
horizon = 40
decisions_per_day = 2
actions = ["rest", "walk"]
budgets = [12]

[variables.stress]
levels = ["low", "high"]
visibility = "sensed"

[reward]
formula = "1 + action*stress"
noise_sd = 0.5
theta_bound = 4.0
unit = "minutes"

[effects]
"action=walk" = { mean = -1.0, sd = 0.2 }
"action=walk:stress=high" = { mean = 2.5, sd = 0.2 }
"*" = 0.0

[participants]
planned = 40
dropout = 0.2

[serve]
budget = 12

[analysis]
primary = { estimand = "nudge", controls = "stress" }
lag = 4
"""


ARMS = (
    STUDY.replace("dropout = 0.2", "dropout = 0.2\nbaseline = { age = [30, 36] }")
    + """
[arms]
"with calls" = { share = 1 }
without = { share = 1, policy = "never" }
block = 4

[[policies]]
kind = "PACE"
"""
)
"""The study with two arms, in one of which there are no nudges, and a baseline."""


def frame(text: str = STUDY, people: int = 40) -> pd.DataFrame:
    """The decisions of simulated participants."""
    settings = settings_of(parse_study(text), replicates=2)
    return pools(settings, [designs(settings, 12)["PACE, candidates 0.2"][12.0]], people=people)[0].frame


def write(
    folder: Path, decisions: pd.DataFrame, text: str | None = STUDY, *, arms: bool = False, control: str = "usual care"
) -> Path:
    """The folder of an export; with `arms` every other participant is in an arm without nudges."""
    folder.mkdir(parents=True, exist_ok=True)
    names = [f"P{number:03}" for number in decisions["participant"]]
    decisions = decisions.assign(participant=names, available=1, mode="learned")
    people = pd.DataFrame({"participant": sorted(set(names)), "status": "completed"})
    people["age"] = np.arange(len(people)) % 7 + 30
    if arms:
        people["arm"] = np.where(np.arange(len(people)) % 2 == 0, "with calls", control)
        control = decisions["participant"].isin(people.loc[people["arm"] == control, "participant"])
        decisions = decisions.assign(
            nudge=decisions["nudge"].mask(control, 0),
            nudge_probability=decisions["nudge_probability"].mask(control, 0.0),
            eligible=decisions["eligible"].mask(control, 0),
        )  # fmt: skip
    decisions.to_csv(folder / "decisions.csv", index=False)
    people.to_csv(folder / "participants.csv", index=False)
    if text is not None:
        (folder / "study.toml").write_text(text, encoding="utf-8")
    return folder
