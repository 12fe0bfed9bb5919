"""Decision points: which one a time belongs to, by the participant's own clock and calendar.

If the study file has decision times, decision point (day - 1) * times + place belongs to that day and that place in
the list, whatever happened before. A time belongs to the latest decision time that has come, or to the next one if
that is nearer and less than `EARLY` away. Days are local days, and the day of enrolment is day 1. When clocks go
forward, a skipped decision time comes once the clock is past it; when they go back, a time that occurs twice is one
decision point. A participant's time zone may change (travel); day 1 remains the local date on which they enrolled.
"""

import bisect
import datetime as dt
from functools import lru_cache

from opportune.service.problems import Refused
from opportune.service.state import clock
from opportune.service.state.participant import Participant
from opportune.service.state.study import StudyInForce

QUARTER = 15 * clock.MINUTE
DAY = 24 * 60
"""Minutes."""
EARLY = 15
"""How many minutes before its time a decision point may begin."""
FAR_PAST = 366 * 24 * clock.HOUR
AHEAD = 5 * clock.MINUTE
"""How far the caller's clock may be ahead of ours, or behind the time that it gave before."""


def day_of(moment: int, began: dt.date, timezone: str) -> int:
    """The participant's day of the study: 1 is the date of enrolment."""
    return _date(moment // QUARTER, timezone) - began.toordinal() + 1


@lru_cache(maxsize=65_536)
def _date(quarter: int, timezone: str) -> int:
    """The ordinal of the local date at a quarter hour since 1970: no clock changes date or offset within one."""
    return clock.local(quarter * QUARTER, timezone).toordinal()


def step_at(running: StudyInForce, moment: int, began: dt.date, timezone: str) -> int:
    """The number of the decision point that a time belongs to; below 1 if none has come yet."""
    there = clock.local(moment, timezone)
    minutes, begins = there.hour * 60 + there.minute, _begins(running.times)
    place = bisect.bisect_right(begins, minutes) + (minutes >= begins[0] + DAY)  # the next day's first has begun
    day = day_of(moment, began, timezone)
    return (day - 1) * running.per_day + place


@lru_cache(maxsize=64)
def _begins(times: tuple[int, ...]) -> list[float]:
    """The minute of the day at which each decision point begins; below 0 if it begins on the day before."""
    before = (times[-1] - DAY, *times[:-1])
    return [time - min(EARLY, (time - last) / 2) for last, time in zip(before, times, strict=True)]


def counted_day(running: StudyInForce, day: int, step: int) -> int:
    """The day that a decision point belongs to: that of its time, if it began early, on the day before."""
    return max(day, (step - 1) // running.per_day + 1) if running.times else day


def date_of(running: StudyInForce, step: int, began: dt.date) -> dt.date:
    """The local date of a decision point; the study must have decision times."""
    return began + dt.timedelta(days=(step - 1) // running.per_day)


def time_of(running: StudyInForce, step: int, began: dt.date, timezone: str) -> int:
    """When a decision point comes, also one whose time the clock skips; the study must have decision times."""
    date, minutes = date_of(running, step, began), running.times[(step - 1) % running.per_day]
    wanted = dt.datetime.combine(date, dt.time(minutes // 60, minutes % 60))
    moment = clock.from_datetime(wanted.replace(tzinfo=clock.zone(timezone)))
    if clock.local(moment, timezone).replace(tzinfo=None) == wanted:
        return moment
    skipped = clock.from_datetime(wanted.replace(tzinfo=clock.zone(timezone), fold=1)) // QUARTER * QUARTER
    while clock.local(skipped, timezone).replace(tzinfo=None) < wanted:  # until clocks have gone forward
        skipped += QUARTER
    return skipped


def time_for(running: StudyInForce, step: int, person: Participant) -> int:
    """When a decision point comes for a participant, including a planned change of time zone."""
    return time_of(running, step, person.began, person.zone_on(date_of(running, step, person.began)))


def check_opening(moment: int, received: int, person: Participant) -> None:
    """Refuse times at which the app cannot have been opened: in the future, long past, or before enrolment."""
    if moment > received + AHEAD:
        raise Refused("invalid", f"at is {clock.iso(moment)}, which is in the future; expected a time up to now")
    if moment < received - FAR_PAST:
        raise Refused("invalid", f"at is {clock.iso(moment)}; expected a time of the last 366 days")
    if moment < person.enrolled - AHEAD:
        raise Refused("invalid", f"at is {clock.iso(moment)}; {person.name!r} enrolled on {clock.iso(person.enrolled)}")


def check_time(moment: int, received: int, person: Participant) -> None:
    """Refuse times that decision points cannot have: they come after enrolment, in order."""
    check_opening(moment, received, person)
    if person.last_decided is not None and moment < person.last_decided - AHEAD:
        after = f"expected a time after the latest decision point, {clock.iso(person.last_decided)}"
        raise Refused("invalid", f"at is {clock.iso(moment)}; {after}")
