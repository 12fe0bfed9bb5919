"""Calendars: the day and time for participants and staff, and whether a nudge is possible.

Everything is a function of the moment, a time zone and the study file, so simulations, plans and the live service
agree. When clocks go forward, a skipped time arrives as soon as the clock has passed it. When clocks go back, times
occur twice and both count.
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
"""The origin of hours and days."""


class Opening(NamedTuple):
    """Whether a nudge is possible at a moment."""

    closed: str
    """The reason against it: "hours" (no staff hours, or a holiday), "quiet" (quiet hours), or "" for none."""
    hours: float
    """Hours since 1970."""
    day: int
    """The day on the staff's calendar, in days since 1970; daily caps are counted by it."""
    until: dt.datetime
    """The end of the answer window; the moment itself if no nudge is possible."""


@dataclass(frozen=True, kw_only=True)
class Calendar:
    """When nudges are possible, by the staff's clock, the participant's clock and the time left in the shift.

    Args:
        staff_zone: the time zone of staff.
        hours: their weekly hours; None if they always work.
        holidays: dates without work, on the staff's calendar.
        quiet: start and end of participants' quiet hours, in minutes after midnight on their own clock; they may
            cross midnight.
        answer: the longest answer window.
        least_window: the shortest answer window.

    """

    staff_zone: str = "UTC"
    hours: WeeklyHours | None = None
    holidays: frozenset[dt.date] = frozenset()
    quiet: tuple[int, int] | None = None
    answer: dt.timedelta = 2 * HOUR
    least_window: dt.timedelta = 15 * MINUTE

    @property
    def always_open(self) -> bool:
        """Whether nudges are possible at all times."""
        return self.hours is None and not self.holidays and self.quiet is None

    def at(self, moment: dt.datetime, zone: str) -> Opening:
        """Whether a nudge is possible for a participant in this time zone, and how long it can be answered.

        The answer window ends with staff hours and when quiet hours begin. No nudge is possible with less than
        `least_window` left.
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
        """Staff hours on an ordinary weekday; Monday is 0."""
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
        """The time left in the span that contains a moment, up to a limit; 0 if no span contains it."""
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
    """The local time at a moment."""
    return moment.astimezone(_zone(zone))


def instant(date: dt.date, minutes: int, zone: str, *, after: dt.datetime | None = None) -> dt.datetime:
    """The moment in UTC at which a local clock shows a time: the first, or the first after a given moment.

    A skipped time arrives as soon as the clock has passed it.
    """
    wanted = dt.datetime.combine(date, dt.time()) + minutes * MINUTE
    first, second = (wanted.replace(tzinfo=_zone(zone), fold=fold).astimezone(dt.UTC) for fold in (0, 1))
    if first > second:  # clocks skip it: search between these two by whole minutes
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
    """The date on which each participant begins, spread evenly over a number of days."""
    return [first + dt.timedelta(days=i * days // people) for i in range(people)]
