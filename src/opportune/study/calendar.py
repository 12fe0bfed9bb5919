"""Calendars: what day and time it is for a participant and for staff, and whether a nudge can be made then.

All of it is a function of the moment, a time zone and the study file, so that a simulation, the plan and the live
service agree. Clocks that go forward skip times: a time that a day skips has come once the clock is past it. Clocks
that go back show times twice: both count.
"""

import datetime as dt
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple
from zoneinfo import ZoneInfo

from opportune.study.hours import DAY, Spans, WeeklyHours

HOUR = dt.timedelta(hours=1)
MINUTE = dt.timedelta(minutes=1)
EPOCH = dt.datetime(1970, 1, 1, tzinfo=dt.UTC)
"""Hours and days are counted from here."""


class Opening(NamedTuple):
    """Whether a nudge can be made at a moment."""

    closed: str
    """Why not: "hours" (staff do not work, holidays included), "quiet" (the participant's quiet hours); or ""."""
    hours: float
    """Hours since 1970."""
    day: int
    """The day on the staff's calendar, in days since 1970: caps per day count by it."""
    until: dt.datetime
    """When the answer window ends; the moment itself where nothing is allowed."""


@dataclass(frozen=True, kw_only=True)
class Calendar:
    """When a nudge can be made: by the staff's clock, by the participant's, and by what is left of the day's work.

    Args:
        staff_zone: the time zone of staff.
        hours: when they work; None: at all times.
        holidays: dates on which they do not, by their own calendar.
        quiet: from when until when participants are left alone, in minutes after midnight by their own clock; it may
            cross midnight.
        answer: how long an answer is waited for, at most.
        least_window: how long there must be left for it.

    """

    staff_zone: str = "UTC"
    hours: WeeklyHours | None = None
    holidays: frozenset[dt.date] = frozenset()
    quiet: tuple[int, int] | None = None
    answer: dt.timedelta = 2 * HOUR
    least_window: dt.timedelta = 15 * MINUTE

    @property
    def always_open(self) -> bool:
        """Whether a nudge can be made at any time."""
        return self.hours is None and not self.holidays and self.quiet is None

    def at(self, moment: dt.datetime, zone: str) -> Opening:
        """Whether a nudge can be made at a moment to a participant in this time zone, and how long it may be answered.

        The answer window ends with the staff's hours and where quiet hours begin. A nudge is not allowed where less
        than `least_window` is left until then.
        """
        day = (local(moment, self.staff_zone).date() - EPOCH.date()).days
        hours = (moment - EPOCH) / HOUR
        limit = max(self.answer, self.least_window)
        staffed = self._left(moment, self.staff_zone, self._spans_of_staff, limit)
        if staffed < self.least_window or staffed == dt.timedelta(0):
            return Opening("hours", hours, day, moment)
        awake = self._left(moment, zone, self._spans_awake, limit)
        if awake < self.least_window or awake == dt.timedelta(0):
            return Opening("quiet", hours, day, moment)
        return Opening("", hours, day, moment + min(self.answer, staffed, awake))

    def hours_on(self, weekday: int) -> Spans:
        """When staff work on an ordinary weekday, Monday is 0."""
        return ((0, DAY),) if self.hours is None else self.hours.days[weekday]

    def _spans_of_staff(self, date: dt.date) -> Spans:
        if date in self.holidays:
            return ()
        return self.hours_on(date.weekday())

    def _spans_awake(self, _date: dt.date) -> Spans:
        if self.quiet is None:
            return ((0, DAY),)
        start, end = self.quiet
        return ((end, start),) if start > end else ((0, start), (end, DAY))

    @staticmethod
    def _left(moment: dt.datetime, zone: str, spans_on: Any, limit: dt.timedelta) -> dt.timedelta:
        """How long a moment's span goes on, up to a limit; nothing where the moment is in none."""
        there = local(moment, zone)
        date, minute = there.date(), there.hour * 60 + there.minute
        reached = moment
        while True:
            end = next((end for start, end in spans_on(date) if start <= minute < end), None)
            if end is None:
                return min(reached - moment, limit)
            reached = instant(date, end, zone, after=moment)
            if end < DAY or reached - moment >= limit:
                return min(reached - moment, limit)
            date, minute = date + dt.timedelta(days=1), 0


def local(moment: dt.datetime, zone: str) -> dt.datetime:
    """A moment as a clock in the time zone shows it."""
    return moment.astimezone(_zone(zone))


def instant(date: dt.date, minutes: int, zone: str, *, after: dt.datetime | None = None) -> dt.datetime:
    """The moment, in UTC, at which a clock shows a time of a date: the first one, or the first one after a moment.

    A time that the day skips comes when the clock goes past it.
    """
    wanted = dt.datetime.combine(date, dt.time()) + minutes * MINUTE
    first, second = (wanted.replace(tzinfo=_zone(zone), fold=fold).astimezone(dt.UTC) for fold in (0, 1))
    if first > second:  # clocks go forward over it: between these two, by whole minutes
        low, high = 0, int((first - second) / MINUTE)
        while low < high:
            middle = (low + high) // 2
            if local(second + middle * MINUTE, zone).replace(tzinfo=None) >= wanted:
                high = middle
            else:
                low = middle + 1
        return second + low * MINUTE
    return second if after is not None and first < after else first


@lru_cache(maxsize=1024)
def _zone(name: str) -> ZoneInfo:
    return ZoneInfo(name)


def enrolment_dates(first: dt.date, days: int, people: int) -> list[dt.date]:
    """When each participant begins: evenly over so many days from the first one on."""
    return [first + dt.timedelta(days=i * days // people) for i in range(people)]
