"""A study's timetable: the times of each participant's decision points, and where the calendar allows no nudge."""

import datetime as dt
from typing import TYPE_CHECKING

import numpy as np

from opportune.algorithm.reasons import ELIGIBLE, HOURS, QUIET
from opportune.problems.variables import WEEKDAYS
from opportune.simulation.timetable import Timetable
from opportune.study.arrivals import decisions_per_day
from opportune.study.calendar import Calendar, enrolment_dates, instant
from opportune.study.hours import DAY
from opportune.study.schema import StudyFile
from opportune.study.trial import quiet_minutes

if TYPE_CHECKING:
    from opportune.study.build import Study

REASONS = {"": ELIGIBLE, "hours": HOURS, "quiet": QUIET}
"""The codes of a calendar's reasons in decisions."""
MONDAY = dt.date(2024, 1, 1)
"""The first day of studies that begin on a Monday and have no date."""
MORNING, EVENING = 9 * 60, 18 * 60
"""Without times in the file, decision points are spread between these minutes after midnight."""


def calendar_of(settings: StudyFile) -> Calendar:
    """The calendar of staff hours, holidays and quiet hours."""
    staff, nudge = settings.staff, settings.nudge
    return Calendar(
        staff_zone=staff.timezone or settings.schedule.timezone,
        hours=None if staff.hours is None else staff.hours.weekly,
        holidays=frozenset(staff.holidays),
        quiet=None if nudge.quiet is None else quiet_minutes(nudge.quiet),
        answer=dt.timedelta(minutes=nudge.answer_minutes),
        least_window=dt.timedelta(minutes=nudge.least_window),
    )


def decision_minutes(settings: StudyFile) -> tuple[int, ...]:
    """The times of decision points in minutes after midnight: from the file, or spread over the working day."""
    if settings.schedule.times is not None:
        return tuple(time.hour * 60 + time.minute for time in settings.schedule.clock)
    per_day = decisions_per_day(settings)
    if per_day == 1:
        return (MORNING,)
    if per_day > EVENING - MORNING:
        return tuple(i * DAY // per_day for i in range(per_day))
    return tuple(MORNING + i * (EVENING - MORNING) // (per_day - 1) for i in range(per_day))


def first_date(settings: StudyFile) -> dt.date:
    """The date on which the first participants begin; without one in the file, a date with its first weekday."""
    if settings.participants.first_day is not None:
        return settings.participants.first_day
    scheduled = [v.first for v in settings.variables.values() if v.schedule in {"weekday", "weekend"}]
    weekday = settings.schedule.first or (scheduled[0] if scheduled else "Monday")
    return MONDAY + dt.timedelta(days=WEEKDAYS.index(weekday))


def begin_dates(settings: StudyFile, participants: int) -> list[dt.date]:
    """The date on which each participant begins; spread over the days of enrolment if the file has a date."""
    days = settings.participants.enrolment_days if settings.participants.first_day is not None else 1
    return enrolment_dates(first_date(settings), days, participants)


def timetable_of(study: "Study", participants: int) -> Timetable | None:
    """The timetable of simulated participants, all in the time zone of [schedule]; None if nothing depends on it."""
    settings = study.settings
    calendar, limits = calendar_of(settings), study.limits
    by_the_clock = limits is not None and (limits.by_the_clock or limits.per_day is not None)
    if calendar.always_open and not by_the_clock and settings.participants.first_day is None:
        return None
    times, zone = decision_minutes(settings), settings.schedule.timezone
    begins = begin_dates(settings, participants)
    first, horizon = begins[0], settings.study.horizon
    days = (begins[-1] - first).days + -(-horizon // len(times))
    points = [
        calendar.at(instant(first + dt.timedelta(days=day), minute, zone), zone)
        for day in range(days)
        for minute in times
    ]
    start = np.array([(date - first).days * len(times) for date in begins])
    places = start[:, np.newaxis] + np.arange(horizon)
    return Timetable(
        closed=np.array([REASONS[point.closed] for point in points])[places],
        hours=np.array([point.hours for point in points])[places],
        day=np.array([point.day for point in points])[places],
        start=start,
    )
