"""Workload: how many nudges a day the whole cohort needs, how many hours that is, and what a cap a day would cost.

Participants begin evenly over the enrolment days and leave early with the file's dropout rate; until then a run goes
as if they stayed. With own budgets, each simulated cohort is made of participants drawn again, so that its spread is
that of the draws of effects as well; with a shared budget a cohort is simulated as a whole, all beginning together.
"""

import math
from typing import NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from opportune.analysis.intervals import interval
from opportune.planning.settings import Settings
from opportune.planning.simulated import means, steps
from opportune.planning.tasks import Tasks
from opportune.planning.worlds import Assumption, participants_of
from opportune.policy import Budget, Policy
from opportune.problems.variables import WEEKDAYS

Floats = NDArray[np.float64]
COHORTS = 200
SHARED_COHORTS = 10


class Work(NamedTuple):
    """Nudges of the whole cohort on each day of the study, for each simulated cohort: [cohort, day]."""

    daily: Floats
    first_weekday: int

    @property
    def usual(self) -> float:
        """Nudges on a usual day: half of all days have fewer."""
        return float(np.median(self.daily))

    @property
    def busy(self) -> float:
        """Nudges on the busiest day in twenty."""
        return float(np.quantile(self.daily, 0.95))

    @property
    def total(self) -> float:
        """Nudges in all, on average."""
        return float(self.daily.sum(axis=1).mean())


class Workload(NamedTuple):
    """What staff must expect."""

    work: Work
    shared: Work
    summary: pd.DataFrame
    course: pd.DataFrame
    weekdays: pd.DataFrame
    caps: pd.DataFrame


def find_workload(settings: Settings, tasks: Tasks, budget: int, nudged: Floats, together: Floats) -> Workload:
    """Workload at a budget.

    Args:
        settings: the plan's.
        tasks: where simulations are kept.
        budget: nudges per participant.
        nudged: whether there was a nudge, [participant, replicate, step], under the policy that the plan is for.
        together: the same where participants share one budget.

    """
    work = daily_work(settings, nudged, whole=settings.shared)
    shared = work if settings.shared else daily_work(settings, together, whole=True)
    return Workload(
        work=work,
        shared=shared,
        summary=_summary(settings, work, shared),
        course=_course(work),
        weekdays=_weekdays(work),
        caps=_caps(settings, tasks, budget, work),
    )


def shared_steps(settings: Settings, tasks: Tasks, budget: int) -> Floats:
    """Whether there was a nudge, [participant, replicate, step], where participants share what they have together."""
    own = settings.policy(settings.main, budget)
    assert own.budget is not None
    together = Budget(own.budget.amount * settings.participants, hard=own.budget.hard, shared=True)
    policy = Policy(
        recommender=own.recommender, revealer=own.revealer, budget=together, pooled=own.pooled, name=own.name
    )
    replicates = min(settings.traced, SHARED_COHORTS)
    data = tasks.run(
        f"shared-{budget}",
        "one budget for all",
        4.0 * settings.horizon * settings.participants * replicates,
        lambda: next(steps(settings, participants_of(settings), [policy], replicates))[["nudged"]].astype(np.int8),
    )
    return np.asarray(data["nudged"].values, dtype=np.float64)


def daily_work(settings: Settings, nudged: Floats, *, whole: bool) -> Work:
    """The cohort's nudges by day of the study, from those of each participant [participant, replicate, step]."""
    people, replicates, horizon = nudged.shape
    rng = np.random.default_rng(settings.seed)
    dropout = settings.study.settings.participants.dropout
    begins = np.arange(people) * settings.study.settings.participants.enrolment_days // people
    days = math.ceil(horizon / settings.per_day)
    cohorts = replicates if whole else COHORTS
    daily = np.zeros((cohorts, int(begins.max()) + days))
    padded = np.zeros((people, days * settings.per_day))
    step = np.arange(horizon)
    for c in range(cohorts):
        last = leaving(rng, people, horizon, dropout)
        who = np.arange(people) if whole else rng.integers(people, size=people)
        run = np.full(people, c) if whole else rng.integers(replicates, size=people)
        padded[:, :horizon] = nudged[who, run] * (step < last[:, None])
        each = padded.reshape(people, days, settings.per_day).sum(axis=2)
        for begin in np.unique(begins):
            daily[c, begin : begin + days] += each[begins == begin].sum(axis=0)
    return Work(daily, settings.first_weekday)


def leaving(rng: np.random.Generator, people: int, horizon: int, dropout: float) -> NDArray[np.int64]:
    """How many decisions each participant makes: all of them, or fewer for those who leave, the hazard constant."""
    if dropout <= 0.0:
        return np.full(people, horizon)
    hazard = -math.log1p(-dropout) / horizon
    return np.minimum(np.ceil(rng.exponential(1.0 / hazard, size=people)).astype(np.int64), horizon)


def _summary(settings: Settings, work: Work, shared: Work) -> pd.DataFrame:
    """Mean, usual and busy days and the busiest, with intervals over cohorts, for own and shared budgets."""
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
    """Nudges by weekday: mean with its interval over cohorts, and the 95th percentile of such days."""
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


def beyond(daily: Floats, cap: float) -> float:
    """The share of nudges that a cap a day leaves undone."""
    total = float(daily.sum())
    return float(np.maximum(daily - cap, 0.0).sum()) / total if total > 0.0 else 0.0


def _caps(settings: Settings, tasks: Tasks, budget: int, work: Work) -> pd.DataFrame:
    """What a cap on nudges a day would cost: those beyond it are spent and not answered.

    The simulation knows no cap. How many nudges are beyond it is counted on the days of the simulated cohorts; then
    the study is simulated with answers rarer by that share. That is the worst case, since staff would make up for
    some of them on other days.
    """
    given = settings.study.settings.nudge.per_day
    candidates = {math.ceil(float(np.quantile(work.daily, q))) for q in (0.5, 0.75, 0.95)}
    policy = settings.policy(settings.main, budget)
    reference: Floats | None = None
    rows = []
    for cap in [math.inf, *sorted({max(1, c) for c in candidates} | ({given} if given else set()), reverse=True)]:
        undone = beyond(work.daily, cap)
        worlds = participants_of(settings, Assumption(name="cap", text="", answers=1.0 - undone))
        data = tasks.run(
            f"cap-{budget}-{undone:.6f}",
            "no cap" if math.isinf(cap) else f"at most {cap:g} {settings.nudges} a day",
            float(settings.horizon * settings.participants * settings.fewest),
            lambda worlds=worlds: means(settings, worlds, [policy], settings.fewest),  # type: ignore[misc]
        )
        outcome = data["outcome"].values[0]
        reference = outcome if reference is None else reference
        lost = interval(reference - outcome)
        rows.append(
            {
                "cap": cap, "undone": undone, "outcome": float(outcome.mean()), "lost": lost.mean,
                "low": lost.low, "high": lost.high,
            }
        )  # fmt: skip
    return pd.DataFrame(rows)
