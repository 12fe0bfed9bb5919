"""Workload: nudges by day against counting by hand, dropout, weekdays, caps."""

import math
from pathlib import Path

import numpy as np
import pytest
from plan_studies import simulations, small

import opportune as op
from opportune.planning.cohorts import Cohorts, beginnings, leaving
from opportune.planning.workload import daily_work, find_workload, shared_steps, together_work
from opportune.planning.worlds import participants_of


def test_days_are_counted_by_hand() -> None:
    """A cohort's nudges on a day are those of the participants who have begun, two decisions a day."""
    settings = small(participants=3)  # they begin on days 0, 1 and 2
    nudged = np.zeros((3, 1, 24))
    nudged[0, 0, [0, 1, 5]] = 1.0  # days 0, 0, 2
    nudged[1, 0, [0, 23]] = 1.0  # days 1, 12
    nudged[2, 0, [3]] = 1.0  # day 2 + 1 = 3
    daily = together_work(settings, Cohorts(settings, participants_of(settings)), nudged).daily
    expected = np.zeros(14)
    expected[[0, 1, 2, 3, 12]] = [2, 1, 1, 1, 1]
    assert daily.shape == (1, 14)
    assert daily[0] == pytest.approx(expected)


def test_those_who_leave_need_no_more_nudges() -> None:
    """With dropout the same nudges are fewer, in the proportion that a constant hazard gives."""
    nudged = np.ones((40, 5, 24))
    stay = daily_work(small(participants=40), nudged)
    settings = small(("enrolment_days = 3", "enrolment_days = 3\ndropout = 0.5"), participants=40)
    leave = daily_work(settings, nudged)
    hazard = math.log(2.0) / 24
    expected = (1.0 - math.exp(-hazard * 24)) / hazard / 24  # the mean share of time spent in the study
    assert leave.total / stay.total == pytest.approx(expected, abs=0.03)
    last = leaving(np.random.default_rng(1), 100_000, 24, 0.5)
    assert np.mean(last == 24) == pytest.approx(math.exp(-hazard * 23), abs=0.01)
    assert last.min() >= 1


def test_cohorts_are_made_of_many_participants_in_proportion(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of very many participants some are gone through day by day: budgets and caps in proportion, days scaled up."""
    monkeypatch.setattr("opportune.planning.cohorts.MOST_PEOPLE", 6)
    settings = small(("response_rate = 0.9", "response_rate = 1.0"))
    half = Cohorts(settings, participants_of(settings))
    assert (len(half.worlds), half.share) == (6, 0.5)
    data = half.run(op.pace_ucb(op.Budget(72, shared=True)))
    spent = data["nudged"].sum(["world", "step"]).values  # of half of 72
    assert spent.max() == 36
    assert spent.min() >= 34
    work = together_work(settings, half, data["nudged"].values.astype(float))
    assert work.total == pytest.approx(2 * spent.mean())
    capped = half.run(op.pace_ucb(op.Budget(72, shared=True)), cap=4)["made"].values
    assert together_work(settings, half, capped.astype(float)).daily.max() <= 4


def test_cohorts_end_as_participants_leave() -> None:
    """Everyone decides at least once; the share who stay is the file's; own budgets of leavers are left unspent."""
    settings = small(("enrolment_days = 3", "enrolment_days = 3\ndropout = 0.5"), participants=200)
    cohorts = Cohorts(settings, participants_of(settings))
    lasts = np.concatenate(cohorts.lasts)
    assert np.mean(lasts == 24) == pytest.approx(0.5 ** (23 / 24), abs=0.05)
    assert lasts.min() >= 1
    made = cohorts.run(op.pace_ucb(8))
    for c, last in enumerate(cohorts.lasts):
        assert not (made["nudged"].values[:, c] * (np.arange(24) >= last[:, None])).any()
    assert np.isfinite(made["outcome"].values).all()


def test_the_whole_workload(tmp_path: Path) -> None:
    """Own and shared budgets spend the same in all; hours follow from the minutes; tighter caps cost more."""
    settings = small(("minutes = 6", "minutes = 6\nper_day = 1"), replicates=60)
    keep = simulations(tmp_path)
    nudged = np.zeros((12, 4, 24))
    nudged[:, :, ::4] = 1.0
    cohorts = Cohorts(settings, participants_of(settings))
    together = shared_steps(settings, keep, cohorts, 6)
    assert together.sum(axis=(0, 2)) == pytest.approx(72.0, abs=1e-9)  # 6 each, 12 participants
    found = find_workload(settings, keep, cohorts, 6, nudged, together)
    summary = found.summary.set_index(["budget", "measure"])
    assert summary.loc[("own", "whole study"), "nudges"] == pytest.approx(72.0)
    assert summary.loc[("own", "whole study"), "hours"] == pytest.approx(7.2)
    assert summary.loc[("shared", "whole study"), "nudges"] == pytest.approx(72.0)
    assert found.weekdays["weekday"].tolist()[:2] == ["Monday", "Tuesday"]
    caps = found.caps
    assert caps["cap"].iloc[-1] == 1
    assert caps["undone"].is_monotonic_increasing
    assert caps["undone"].iloc[0] == 0.0
    assert caps["low"].iloc[-1] > 0.0


def test_weekdays_begin_where_the_study_says(tmp_path: Path) -> None:
    """A nudge on each participant's first day falls on the study's first weekday and those after it."""
    settings = small(("[nudge]", "[schedule]\nfirst = 'Saturday'\n[nudge]"))
    cohorts = Cohorts(settings, participants_of(settings))
    nudged = np.zeros((12, 2, 24))
    nudged[:, :, 0] = 1.0
    weekdays = find_workload(settings, simulations(tmp_path), cohorts, 4, nudged, nudged).weekdays.set_index("weekday")[
        "nudges"
    ]
    assert weekdays["Saturday"] > 0  # four of twelve begin on the first day, a Saturday
    assert weekdays["Wednesday"] == 0.0
    assert weekdays[["Saturday", "Sunday", "Monday"]].sum() > 0


def test_participants_keep_their_weekdays() -> None:
    """If the calendar lets everybody be called on one day of the study only, no other day has calls."""
    settings = small()
    per_day = settings.per_day
    nudged = np.zeros((12, 2, 24))
    for person, begin in enumerate(beginnings(12, 3)):
        nudged[person, :, (3 - begin) * per_day] = 1.0
    daily = daily_work(settings, nudged).daily
    assert (daily[:, 3] == 12.0).all()
    assert (np.delete(daily, 3, axis=1) == 0.0).all()
