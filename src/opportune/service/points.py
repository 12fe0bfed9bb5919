"""Decision points: which one a time belongs to, by the participant's own clock and calendar.

Where the study file has decision times, decision point number (day - 1) * times + place is the one of that day and
place in the list, whatever happened at those before it. A time belongs to the latest decision time that has come, or
comes within `EARLY`. Days are local days: that of enrolment is day 1. Where clocks go forward, a decision time that
the day skips has come once the clock is past it; where they go back, one that comes twice is the same.
"""

import bisect
from functools import lru_cache

from opportune.service import clock
from opportune.service.problems import Refused
from opportune.service.running import Running

QUARTER = 15 * clock.MINUTE
EARLY = 15
"""Minutes before its time at which a decision point is taken for the next."""
FAR_PAST = 366 * 24 * clock.HOUR
AHEAD = 5 * clock.MINUTE
"""How far the caller's clock may be ahead of ours."""


def day_of(moment: int, enrolled: int, timezone: str) -> int:
    """The participant's day of the study: 1 is the local day of enrolment."""
    return _date(moment // QUARTER, timezone) - _date(enrolled // QUARTER, timezone) + 1


@lru_cache(maxsize=65_536)
def _date(quarter: int, timezone: str) -> int:
    """The local date at a quarter of an hour since 1970, as a number: no clock changes date or offset within one."""
    return clock.local(quarter * QUARTER, timezone).toordinal()


def step_at(running: Running, moment: int, enrolled: int, timezone: str) -> int:
    """The number of the decision point that a time belongs to; below 1 if none has come yet."""
    there = clock.local(moment, timezone)
    minutes = there.hour * 60 + there.minute
    place = bisect.bisect_right(running.times, minutes + EARLY)
    day = day_of(moment, enrolled, timezone)
    return (day - 1) * running.per_day + place


def check_time(moment: int, received: int) -> None:
    """Refuse times that cannot be right."""
    if moment > received + AHEAD:
        raise Refused("invalid", f"at is {clock.iso(moment)}, which is still to come; expected a time up to now")
    if moment < received - FAR_PAST:
        raise Refused("invalid", f"at is {clock.iso(moment)}; expected a time of the last 366 days")
