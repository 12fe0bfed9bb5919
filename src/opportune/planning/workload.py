"""Workload: how many nudges per day the whole cohort needs, how many hours that takes, and what a cap would cost.

Participants begin evenly over the enrolment days and leave early with the file's dropout rate. With individual
budgets a run does not depend on whether its participant leaves later, so cohorts are resampled from simulated
participants, and their spread includes that of the effects. With a shared budget or a cap, cohorts are simulated day by
day.
"""

import math
from dataclasses import replace
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from opportune.analysis.intervals import interval
from opportune.planning.cohorts import MOST_PEOPLE, Cohorts, beginnings, cohorts_of, leaving
from opportune.planning.days import Whole
from opportune.planning.settings import Settings
from opportune.planning.simulated import Simulations
from opportune.policy import Budget
from opportune.problems.variables import WEEKDAYS

Floats = NDArray[np.float64]
COHORTS = 200
SLOWER = 50.0
"""About how many times longer a decision takes in a day-by-day cohort than in a simulation."""


class Work(NamedTuple):
    """Nudges of the whole cohort on each day of the study, for each simulated cohort: [cohort, day]."""

    daily: Floats
    first_weekday: int

    @property
    def usual(self) -> float:
        """Nudges on a usual day: the median over days."""
        return float(np.median(self.daily))

    @property
    def busy(self) -> float:
        """Nudges on the busiest day in twenty."""
        return float(np.quantile(self.daily, 0.95))

    @property
    def total(self) -> float:
        """The mean total number of nudges."""
        return float(self.daily.sum(axis=1).mean())


class Workload(NamedTuple):
    """The workload that staff should expect."""

    work: Work
    shared: Work
    summary: pd.DataFrame
    course: pd.DataFrame
    weekdays: pd.DataFrame
    caps: pd.DataFrame


def find_workload(
    settings: Settings, simulations: Simulations, cohorts: Cohorts, budget: int, nudged: Floats, together: Floats
) -> Workload:
    """Workload at a budget.

    Args:
        settings: the plan's settings.
        simulations: runs the simulations.
        cohorts: simulated day by day, for shared budgets and caps.
        budget: nudges per participant.
        nudged: whether there was a nudge under the plan's policy, [participant, replicate, step].
        together: whether there was a nudge in day-by-day cohorts that share one budget, [participant, cohort, step].

    """
    shared = together_work(settings, cohorts, together)
    work = shared if settings.shared else daily_work(settings, nudged)
    return Workload(
        work=work,
        shared=shared,
        summary=_summary(settings, work, shared),
        course=_course(work),
        weekdays=_weekdays(work),
        caps=_caps(settings, simulations, cohorts, budget, work),
    )


def shared_steps(settings: Settings, simulations: Simulations, cohorts: Cohorts, budget: int) -> Floats:
    """Whether there was a nudge, [participant, cohort, step], when all participants share one budget."""
    own = settings.policy(settings.main, budget)
    assert own.budget is not None
    amount = float(budget * settings.participants)
    policy = replace(own, budget=Budget(amount, hard=own.budget.hard, shared=True))
    data = simulations.run(
        f"shared-{budget}", "one budget for all", day_steps(settings), lambda: cohorts.run(policy)[["nudged"]]
    )
    return np.asarray(data["nudged"].values, dtype=np.float64)


def day_steps(settings: Settings) -> float:
    """About how many simulated steps take as long as one pass through all cohorts."""
    people = min(settings.participants, MOST_PEOPLE)
    return SLOWER * people * settings.horizon * cohorts_of(settings)


def together_work(settings: Settings, cohorts: Cohorts, nudged: Floats) -> Work:
    """Nudges per day of cohorts that were simulated day by day, from [participant, cohort, step]."""
    last = int(cohorts.begins.max())
    daily = np.stack([_by_day(settings, cohorts.begins, nudged[:, c], last=last) for c in range(nudged.shape[1])])
    return Work(daily * settings.nudged_share / cohorts.share, settings.first_weekday)


def daily_work(settings: Settings, nudged: Floats) -> Work:
    """The cohort's nudges per day of the study, from those of each participant [participant, replicate, step].

    Each simulated participant keeps the day of enrolment, as the calendar decides when a nudge is allowed. With arms,
    only the share of participants in arms with nudges counts.
    """
    people, replicates, horizon = nudged.shape
    rng = np.random.default_rng(settings.seed)
    table = settings.study.settings.participants
    begins = beginnings(people, table.enrolment_days)
    step = np.arange(horizon)
    daily = []
    for _ in range(COHORTS):
        there = step < leaving(rng, people, horizon, table.dropout)[:, None]
        who, run = rng.integers(people, size=people), rng.integers(replicates, size=people)
        daily.append(_by_day(settings, begins[who], nudged[who, run] * there, last=int(begins.max())))
    return Work(np.stack(daily) * settings.nudged_share, settings.first_weekday)


def _by_day(settings: Settings, begins: Whole, nudged: Floats, *, last: int) -> Floats:
    """A cohort's nudges on each day of the study, from the nudges at each participant's steps [participant, step].

    `last` is the latest day on which anybody may begin.
    """
    people, horizon = nudged.shape
    days = math.ceil(horizon / settings.per_day)
    padded = np.zeros((people, days * settings.per_day))
    padded[:, :horizon] = nudged
    each = padded.reshape(people, days, settings.per_day).sum(axis=2)
    daily = np.zeros(last + days)
    for begin in np.unique(begins):
        daily[begin : begin + days] += each[begins == begin].sum(axis=0)
    return daily


def _summary(settings: Settings, work: Work, shared: Work) -> pd.DataFrame:
    """Nudges on mean, usual and busy days, for own and shared budgets, with intervals over cohorts."""
    minutes = settings.study.settings.nudge.minutes
    rows = []
    kinds = {"shared": work} if settings.shared else {"own": work, "shared": shared}
    for kind, one in kinds.items():
        measures = {
            "mean": one.daily.mean(axis=1),
            "usual day": np.median(one.daily, axis=1),
            "busiest day in twenty": np.quantile(one.daily, 0.95, axis=1),
            "busiest day": one.daily.max(axis=1),
            "whole study": one.daily.sum(axis=1),
        }
        for name, values in measures.items():
            found = interval(values)
            low, high = np.quantile(values, [0.025, 0.975])
            hours = math.nan if minutes is None else found.mean * minutes / 60.0
            rows.append(
                {
                    "budget": kind, "measure": name, "nudges": found.mean, "low": found.low, "high": found.high,
                    "cohorts_low": low, "cohorts_high": high, "hours": hours,
                }
            )  # fmt: skip
    return pd.DataFrame(rows)


def _course(work: Work) -> pd.DataFrame:
    days = np.arange(1, work.daily.shape[1] + 1)
    return pd.DataFrame(
        {"day": days, "mean": work.daily.mean(axis=0), "percentile_95": np.quantile(work.daily, 0.95, axis=0)}
    )


def _weekdays(work: Work) -> pd.DataFrame:
    """Nudges by weekday: the mean with its interval over cohorts, and the 95th percentile over such days."""
    weekday = (np.arange(work.daily.shape[1]) + work.first_weekday) % 7
    rows = []
    for i, name in enumerate(WEEKDAYS):
        here = work.daily[:, weekday == i]
        if here.shape[1] == 0:
            continue
        mean = interval(here.mean(axis=1))
        rows.append(
            {
                "weekday": name, "nudges": mean.mean, "low": mean.low, "high": mean.high,
                "percentile_95": float(np.quantile(here, 0.95)),
            }
        )  # fmt: skip
    return pd.DataFrame(rows)


def _caps(settings: Settings, simulations: Simulations, cohorts: Cohorts, budget: int, work: Work) -> pd.DataFrame:
    """The cost of a cap on nudges per day: the same cohorts day by day, with staff who can make no more.

    A nudge is charged when it is proposed. Staff make nudges in the order of proposals; one that does not fit into its
    day is dropped and counts as unanswered.
    """
    given = settings.study.settings.staff.per_day or settings.study.settings.nudge.per_day
    candidates = {math.ceil(float(np.quantile(work.daily, q))) for q in (0.5, 0.75, 0.95)}
    policy = settings.policy(settings.main, budget)
    if policy.limits is not None:
        policy = replace(policy, limits=replace(policy.limits, per_day=None))  # the cap is what is varied
    reference: Floats | None = None
    rows = []
    for cap in [math.inf, *sorted({max(1, c) for c in candidates} | ({given} if given else set()), reverse=True)]:
        data = simulations.run(
            f"cap-{budget}-{cap:g}",
            "no cap" if math.isinf(cap) else f"at most {cap:g} {settings.nudges} per day",
            day_steps(settings),
            lambda cap=cap: cohorts.run(policy, cap=cap / settings.nudged_share),  # type: ignore[misc]
        )
        outcome = data["outcome"].values
        reference = outcome if reference is None else reference
        lost = interval(reference - outcome)
        wanted, made = float(data["nudged"].sum()), float(data["made"].sum())
        rows.append(
            {
                "cap": cap, "undone": 1.0 - made / wanted if wanted else 0.0, "outcome": float(outcome.mean()),
                "lost": lost.mean, "low": lost.low, "high": lost.high,
            }
        )  # fmt: skip
    return pd.DataFrame(rows)
