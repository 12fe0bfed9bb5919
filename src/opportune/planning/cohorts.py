"""Whole cohorts over calendar days: staggered enrolment, dropout, and staff with or without a daily cap.

A few cohorts are simulated day by day (`planning.days`). Larger cohorts are subsampled to `MOST_PEOPLE`, and caps
are scaled in proportion.
"""

import math
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
import xarray as xr

from opportune.planning.days import Days, Draws, Floats, Whole, draws_of, go_through
from opportune.planning.settings import Settings
from opportune.policy import Policy

MOST_PEOPLE = 1_000
"""The largest cohort that is simulated day by day; a shared budget ranks everybody's moments at each decision."""
STEPS = 60_000
"""About how many decisions are simulated for each policy or cap; this sets the number of cohorts."""
MOST_COHORTS = 10


class Cohorts:
    """Cohorts of a study's participants, the same ones for every policy and cap.

    Args:
        settings: the plan's settings.
        worlds: all participants.
        dropout: the share of participants who leave early; by default the file's.

    """

    def __init__(self, settings: Settings, worlds: Sequence[Any], *, dropout: float | None = None) -> None:
        self.settings = settings
        self.worlds = list(worlds[:MOST_PEOPLE])
        self.dropout = settings.study.settings.participants.dropout if dropout is None else dropout

    @property
    def share(self) -> float:
        """The share of the study's participants that a cohort contains."""
        return len(self.worlds) / self.settings.participants

    @property
    def count(self) -> int:
        """The number of cohorts."""
        return cohorts_of(self.settings)

    @cached_property
    def begins(self) -> Whole:
        """Each participant's first day, from 0."""
        return beginnings(len(self.worlds), self.settings.study.settings.participants.enrolment_days)

    @cached_property
    def lasts(self) -> list[Whole]:
        """The number of decisions of each participant, for each cohort."""
        rng = np.random.default_rng(self.settings.seed)
        return [leaving(rng, len(self.worlds), self.settings.horizon, self.dropout) for _ in range(self.count)]

    @cached_property
    def draws(self) -> list[list[Draws]]:
        """The random draws of each participant, for each cohort."""
        return [draws_of(self.settings, self.worlds, r) for r in range(self.count)]

    def run(self, policy: Policy, *, cap: float = math.inf) -> xr.Dataset:
        """Run every cohort under a policy.

        Returns:
            Whether the rule proposed a nudge and whether staff made it, [world, cohort, step], and each participant's
            outcome per day in the study, [world].

        """
        found = [
            go_through(
                self.settings, self.worlds, self.draws[r], self._sized(policy), begins=self.begins, lasts=self.lasts[r],
                cap=cap * self.share, order=r,
            )
            for r in range(self.count)
        ]  # fmt: skip
        axes = ("world", "cohort", "step")
        return xr.Dataset(
            {
                "nudged": (axes, np.stack([days.nudged for days in found], axis=1).astype(np.int8)),
                "made": (axes, np.stack([days.made for days in found], axis=1).astype(np.int8)),
                "outcome": (("world",), _outcome(found) * self.settings.per_day),
            }
        )

    def _sized(self, policy: Policy) -> Policy:
        """The policy with a shared budget scaled to the participants of one cohort."""
        if policy.budget is None or not policy.shared or self.share == 1.0:
            return policy
        amount = policy.budget.amount * self.share
        whole = round(amount) if policy.budget.hard else amount
        return replace(policy, budget=replace(policy.budget, amount=max(1.0, float(whole))))


def _outcome(found: Sequence[Days]) -> Floats:
    """Each participant's outcome per decision, over the decisions made in all cohorts."""
    every = np.concatenate([days.outcome for days in found], axis=1)
    return np.asarray(np.nanmean(every, axis=1))


def cohorts_of(settings: Settings) -> int:
    """The number of cohorts to simulate day by day."""
    people = min(settings.participants, MOST_PEOPLE)
    return max(1, min(MOST_COHORTS, STEPS // (people * settings.horizon)))


def beginnings(people: int, days: int) -> Whole:
    """The day on which each participant begins, from 0: evenly over the enrolment days."""
    return np.asarray(np.arange(people) * days // people)


def leaving(rng: np.random.Generator, people: int, horizon: int, dropout: float) -> Whole:
    """The number of decisions of each participant; participants drop out at a constant hazard."""
    if dropout <= 0.0:
        return np.full(people, horizon)
    hazard = -math.log1p(-dropout) / horizon
    return np.minimum(np.ceil(rng.exponential(1.0 / hazard, size=people)).astype(np.int64), horizon)
