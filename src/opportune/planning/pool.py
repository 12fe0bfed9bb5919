"""Fresh participants and their records, with the columns of a served study's exports.

Each participant has their own effects, arrivals, noise and coins, and appears once. Rows end when a participant leaves.
"""

from collections.abc import Iterator
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from opportune.inference.questions import ARM, CHANCE, ELIGIBLE, NUDGE, PARTICIPANT, TIME
from opportune.inference.wcls import LEAST_PROBABILITY
from opportune.planning.cohorts import leaving
from opportune.planning.moments import Moments, seen_variables
from opportune.planning.settings import Settings
from opportune.planning.simulated import steps
from opportune.policy import Policy
from opportune.study.arms import arm_entries

PEOPLE = 3_000
MOST_ROWS = 6_000_000
"""The memory limit: studies of more than 2,000 decisions get fewer participants."""
MOST_TOGETHER = 10_000
"""The largest cohort that shares a budget or a model; larger ones are simulated in proportion."""
MOST_COHORTS = 60
"""The most cohorts of participants who share something; very small studies therefore get fewer participants."""
SEED = 7_919
"""Added to the study's seed, so that these are not the participants that the plan was made with."""


class Pool(NamedTuple):
    """Participants under one policy: their rows, and each one's outcome per day in the study."""

    frame: pd.DataFrame
    outcome: NDArray[np.float64]


def pools(settings: Settings, policies: list[Policy], people: int = PEOPLE, cohorts: int = MOST_COHORTS) -> list[Pool]:
    """Fresh participants, the same under each policy; those who share a budget or a model do so in planned cohorts.

    Args:
        settings: the plan's settings.
        policies: the policies.
        people: the least number of participants, memory permitting.
        cohorts: the most cohorts of participants who share something.

    """
    people = min(people, max(100, MOST_ROWS // settings.horizon))
    size = people
    if settings.shared or any(policy.together for policy in policies):
        size = min(settings.participants, MOST_TOGETHER)
        people = min(-(-people // size), cohorts) * size
    worlds = renewed(settings, SEED, people).worlds
    found: list[list[Pool]] = [[] for _ in policies]
    for first in range(0, people, size):
        fresh = renewed(settings, SEED + first, size)
        for made, one in zip(found, _records(fresh, worlds[first : first + size], policies, first), strict=True):
            made.append(one)
    return [
        Pool(pd.concat([one.frame for one in made], ignore_index=True), np.concatenate([one.outcome for one in made]))
        for made in found
    ]


def in_arms(settings: Settings, budget: float, people: int = PEOPLE, cohorts: int = MOST_COHORTS) -> Pool:
    """Fresh participants in the arms of the file, one arm each, assigned in blocks by the arms' shares."""
    arms = settings.study.settings.arms
    assert arms is not None
    entries = arm_entries(settings.study.settings).policies
    policies = [settings.policy_of(entry, budget) for entry in entries.values()]
    block = np.repeat(np.arange(len(entries)), [arms.named[name].share for name in entries])
    made, frames = pools(settings, policies, people, cohorts), []
    outcome = np.empty_like(made[0].outcome)
    for j, (name, pool) in enumerate(zip(entries, made, strict=True)):
        frames.append(pool.frame[block[pool.frame[PARTICIPANT] % len(block)] == j].assign(**{ARM: name}))
        mine = block[np.arange(len(outcome)) % len(block)] == j
        outcome[mine] = pool.outcome[mine]
    return Pool(pd.concat(frames, ignore_index=True), outcome)


def renewed(settings: Settings, other: int, participants: int) -> Settings:
    """The plan of this study with other participants."""
    general = settings.study.settings.study
    general = general.model_copy(update={"seed": (general.seed + other) % 2**63})
    file = settings.study.settings.model_copy(update={"study": general})
    return replace(settings, study=replace(settings.study, settings=file), participants=participants)


def _records(settings: Settings, worlds: list[Any], policies: list[Policy], first: int) -> Iterator[Pool]:
    moments = Moments(settings, worlds, 1)
    rng = np.random.default_rng(settings.seed)
    dropout = settings.study.settings.participants.dropout
    lasts = leaving(rng, len(worlds), settings.horizon, dropout)
    for data in steps(settings, worlds, policies, 1):
        yield Pool(frame_of(settings, data, moments, lasts, first), _outcome(settings, data, lasts))


def _outcome(settings: Settings, data: xr.Dataset, lasts: NDArray[np.int64]) -> NDArray[np.float64]:
    there = np.arange(settings.horizon) < lasts[:, None]
    mean = np.where(there, data["outcome"].values[:, 0], 0.0).sum(axis=1) / lasts
    return np.asarray(mean * settings.per_day)


def frame_of(
    settings: Settings, data: xr.Dataset, moments: Moments, lasts: NDArray[np.int64], first: int = 0
) -> pd.DataFrame:
    """The rows of one simulated cohort, one for each decision point before the participant left.

    Args:
        settings: the plan's settings.
        data: every step of one policy and one replication, [world, replicate, step].
        moments: the contexts of these steps.
        lasts: the number of decisions of each participant.
        first: the number of the first participant.

    """
    people, horizon = data.sizes["world"], data.sizes["step"]
    number = np.repeat(np.arange(people), horizon)
    step = np.tile(np.arange(1, horizon + 1), people)
    flat = {name: data[name].values.reshape(people * horizon) for name in ("reward", "nudged", "probability", "action")}
    open_ = data["eligible"].values.reshape(-1) > 0 if "eligible" in data else np.ones(len(step), dtype=np.bool_)
    p = flat["probability"]
    columns: dict[str, Any] = {
        PARTICIPANT: first + number,
        TIME: step,
        "day": (step - 1) // settings.per_day + 1,
        ELIGIBLE: (open_ & (p >= LEAST_PROBABILITY) & (p <= 1.0 - LEAST_PROBABILITY)).astype(np.int8),
        NUDGE: flat["nudged"].astype(np.int8),
        CHANCE: p,
        "action": pd.Categorical.from_codes(flat["action"], settings.study.settings.study.actions),
        "reward": flat["reward"],
    }
    if "action_probability" in data:
        chances = data["action_probability"].values.reshape(people * horizon, -1)
        for j, name in enumerate(settings.study.settings.study.actions):
            columns[f"action_probability_{name}"] = chances[:, j]
    values = moments.of(data)
    for name, value in known(settings, values).items():
        columns[f"variable_{name}" if name in columns else name] = value
    return pd.DataFrame(columns)[step <= lasts[number]].reset_index(drop=True)


def known(settings: Settings, moments: Any) -> dict[str, Any]:
    """The value of every public or sensed variable: texts as categories, numbers as they are."""
    found: dict[str, Any] = {}
    names = list(settings.study.variables)
    for seen in seen_variables(settings, moments):
        levels = settings.levels(seen.name)
        if levels is None:
            found[seen.name] = moments[..., names.index(seen.name)]
        elif all(isinstance(level, int | float) and not isinstance(level, bool) for level in levels):
            found[seen.name] = np.asarray(levels, dtype=np.float64)[seen.place]
        else:
            found[seen.name] = pd.Categorical.from_codes(seen.place, [str(level) for level in levels])
    return found
