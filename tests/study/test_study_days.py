"""A study's timetable: simulated participants begin on real days, and are nudged where its calendar allows it."""

import datetime as dt
import itertools

import numpy as np
import xarray as xr
from study_files import BASE, edit

from opportune.algorithm import reasons
from opportune.limits import Limits
from opportune.study import Study, live, parse_study
from opportune.study.timetable import begin_dates, decision_minutes

POLICIES = '[[policies]]\nkind = "naive"\n\n[[policies]]\nkind = "PD2"\nscale = "adaptive"\n'
TRIAL = """
[staff]
hours = { weekdays = ["09:00", "17:00"], saturday = ["10:00", "13:00"] }
holidays = ["2026-12-03"]
timezone = "Europe/Berlin"
per_day = 3

[nudge]
quiet = ["20:00", "08:00"]
per_week = 3
least_hours_between = 30

[participants]
first_day = 2026-12-01
enrolment_days = 9

[schedule]
times = ["11:00", "19:00"]
timezone = "Europe/Berlin"
"""
ALWAYS = '[[policies]]\nkind = "always"\n'


def trial(*changes: tuple[str, str], more: str = TRIAL) -> Study:
    drawn = ('"stress" = -0.3', '"stress" = { mean = -0.3, sd = 0.1 }')
    calendar = ('levels = ["am", "pm"]\nvisibility = "public"', 'schedule = "weekend"')
    named = ('"time=pm"', '"time=weekend"')
    sized = ("replicates = 2", "replicates = 2\ninstances = 6\nrun_in_days = 2\ndecisions_per_day = 2")
    return parse_study(edit((POLICIES, ALWAYS), drawn, calendar, named, sized, *changes) + more)


def nudges(data: xr.Dataset) -> np.ndarray:
    """Nudges as [replicate, participant, step]."""
    return np.asarray(data["nudged"].isel(policy=0).transpose("replicate", "world", "step").values).astype(bool)


def test_simulated_participants_keep_the_calendar() -> None:
    """A policy that would always nudge nudges in staff hours alone, and within all caps: a control does not."""
    study = trial()
    data = study.run(progress=False)
    begins = begin_dates(study.settings, 6)
    made = nudges(data)
    assert made.sum() > 20
    for run in made:
        days: dict[dt.date, int] = {}
        for begin, steps in zip(begins, run, strict=True):
            own = [(begin + dt.timedelta(days=int(t) // 2), 11 + 8 * (int(t) % 2)) for t in np.flatnonzero(steps)]
            assert all(t >= 4 for t in np.flatnonzero(steps)), "the run-in"
            for date, hour in own:
                assert hour == 11
                assert date.weekday() < 6
                assert date != dt.date(2026, 12, 3)
                days[date] = days.get(date, 0) + 1
            assert all(b - a >= dt.timedelta(hours=30) for (a, _), (b, _) in itertools.pairwise(own))
            for first, _ in own:
                assert sum(first <= date < first + dt.timedelta(days=7) for date, _ in own) <= 3
        assert max(days.values()) <= 3
    control = nudges(trial(more="").run(progress=False))
    assert control[:, :, 4:].mean() > 0.8, "without a calendar there is a nudge wherever the app is not opened"
    assert not control[:, :, :4].any()


def test_every_point_says_why_it_is_closed() -> None:
    """Closed points have the calendar's reason: evenings, Sundays and holidays are outside staff hours."""
    data = trial(("open_rate = 0.1", "open_rate = 0.0")).run(progress=False)
    found = data["reason"].isel(policy=0, replicate=0).transpose("world", "step").values
    assert np.isin(found[:, :4], [reasons.RUN_IN, reasons.HOURS]).all()
    assert (found[0, 5::2] == reasons.HOURS).all(), "evenings"
    assert found[0, 10] == reasons.HOURS, "Sunday, 6 December"


def test_weekends_are_those_of_each_participants_calendar() -> None:
    """Participants begin on different weekdays, and the variable follows the date of each."""
    study = trial()
    data, begins = study.run(progress=False), begin_dates(study.settings, 6)
    problem = study.worlds()[0].problem
    for i, begin in enumerate(begins):
        contexts = data["context"].isel(policy=0, replicate=0, world=i).values
        for t, context in enumerate(contexts):
            date = begin + dt.timedelta(days=t // 2)
            expected = "weekend" if date.weekday() >= 5 else "weekday"
            assert problem.levels(int(context))["time"] == expected, (i, t)
    assert len({date.weekday() for date in begins}) > 3


def test_no_timetable_where_nothing_depends_on_one() -> None:
    """A study without hours, caps and dates runs as ever."""
    study = parse_study(BASE)
    assert study.timetable(10) is None
    assert study.limits is None
    assert study.policies()[0].limits is None
    assert trial().limits == Limits(run_in=4, per_week=3, least_hours_between=30.0, per_day=3)


def test_staff_have_as_much_time_for_each_who_is_simulated() -> None:
    """A cap for 24 of 36 planned participants is a third as large for 8 who are simulated; live it is the file's."""
    arms = '[arms]\ncalls = { share = 2 }\ncontrol = { share = 1, policy = "never" }\n'
    more = TRIAL.replace("[participants]", "[participants]\nplanned = 36").replace("per_day = 3", "per_day = 12")
    study = trial(("instances = 6", "instances = 8"), more=more + arms)
    calls = next(policy for policy in study.policies() if policy.revealer.spends)
    assert calls.limits is not None
    assert calls.limits.per_day == 4
    served = live(study).policy.limits
    assert served is not None
    assert served.per_day == 12


def test_times_are_spread_where_there_are_none() -> None:
    """Without times in the file, decisions are spread over the working day."""
    assert decision_minutes(parse_study(BASE).settings) == (540,)
    two = parse_study(edit(("horizon = 40", "horizon = 40\ndecisions_per_day = 3")))
    assert decision_minutes(two.settings) == (540, 810, 1080)
