"""The calendar of a rehearsal: when each participant begins, and which decision points come when."""

import datetime as dt
from collections.abc import Iterator, Sequence
from typing import NamedTuple
from zoneinfo import ZoneInfo

from opportune.service.state.study import StudyInForce
from opportune.study.timetable import decision_minutes


class Moment(NamedTuple):
    """A time with decision points, the next such time, and the step of each participant who has one."""

    at: dt.datetime
    following: dt.datetime
    steps: dict[int, int]
    """{participant's place in the rehearsal: the step}."""


def first_days(people: int, running: StudyInForce) -> list[int]:
    """The day on which each participant begins, from 0: spread evenly over the study's days of enrolment.

    Participants who share a budget or a model all begin on the first day, as in `simulate`, unless the study file sets
    a first date of enrolment.
    """
    settings = running.study.settings.participants
    days = 1 if running.together and settings.first_day is None else settings.enrolment_days
    return [i * days // people for i in range(people)]


class Calendar:
    """The days of a rehearsal, in the study's time zone."""

    def __init__(self, running: StudyInForce, first: dt.date, begins: Sequence[int]) -> None:
        self.first, self.begins = first, list(begins)
        self._horizon = running.horizon
        self._zone = ZoneInfo(running.timezone)
        self._times = running.times or decision_minutes(running.study.settings)

    @property
    def per_day(self) -> int:
        """Decision points per day."""
        return len(self._times)

    def at(self, day: int, place: int) -> dt.datetime:
        """When a decision point comes; places beyond the last of a day belong to the next day."""
        day, place = day + place // self.per_day, place % self.per_day
        date, minutes = self.first + dt.timedelta(days=day), self._times[place]
        there = dt.datetime(date.year, date.month, date.day, minutes // 60, minutes % 60, tzinfo=self._zone)
        return there.astimezone(dt.UTC)

    def date_of(self, moment: dt.datetime) -> dt.date:
        """The local date of a time."""
        return moment.astimezone(self._zone).date()

    def last_step(self, person: int, days: int) -> int:
        """The last step of a participant within the first `days` days."""
        return max(0, min(self._horizon, (days - self.begins[person]) * self.per_day))

    def moments(self, days: int) -> Iterator[Moment]:
        """All moments within the first `days` days, in order."""
        for day in range(days):
            for place in range(self.per_day):
                steps = {
                    person: step
                    for person, begin in enumerate(self.begins)
                    if day >= begin and (step := (day - begin) * self.per_day + place + 1) <= self._horizon
                }
                if steps:
                    yield Moment(self.at(day, place), self.at(day, place + 1), steps)
