"""The week ahead: how many calls to expect on each day and at each hour, so that staff can be planned.

Each participant's coming decision points have the nudges that simulating the study gives them (`monitoring.forecast`),
scaled to what is left of the budget now; without a simulation, what is left is spread evenly. Where the calendar
allows no nudge none is expected.
"""

import datetime as dt
import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

from sqlalchemy import Connection, select

from opportune.service.monitoring import forecast
from opportune.service.monitoring.forecast import Forecast
from opportune.service.record import tables
from opportune.service.state import clock
from opportune.service.state.participant import ACTIVE
from opportune.service.state.study import StudyInForce

DAYS = 7
DAY = 24 * clock.HOUR
PATTERN = 28 * DAY
"""Where apps ask when they like, so much of the past tells at which hours they do."""
MOST_FACTOR = 3.0
"""What is left of a budget may speed up what the simulation had by no more than this."""
SPREAD = 1.28
"""Standard deviations within which four of five days lie."""


@dataclass(frozen=True)
class Day:
    """What to expect of a day."""

    date: dt.date
    hours: dict[int, float]
    """Calls by the hour at which they come up."""
    low: int
    high: int
    """Between which the number of calls lies on four of five such days."""

    @property
    def expected(self) -> float:
        """Calls in all."""
        return math.fsum(self.hours.values())


def week(connection: Connection, running: StudyInForce, now: int, timezone: str) -> list[Day]:
    """The next seven days, today's rest included, by the clock of a time zone."""
    first = clock.local(now, timezone).date()
    days = [first + dt.timedelta(days=i) for i in range(DAYS)]
    hours: dict[dt.date, dict[int, float]] = {date: defaultdict(float) for date in days}
    variance: dict[dt.date, float] = dict.fromkeys(days, 0.0)
    for at, probability in _coming(connection, running, now, now + DAYS * DAY):
        there = clock.local(at, timezone)
        if there.date() in hours:
            hours[there.date()][there.hour] += probability
            variance[there.date()] += probability * (1.0 - probability)
    found = []
    for date in days:
        mean, sd = math.fsum(hours[date].values()), math.sqrt(variance[date])
        low, high = max(0, math.floor(mean - SPREAD * sd)), math.ceil(mean + SPREAD * sd)
        found.append(Day(date, dict(sorted(hours[date].items())), low, high))
    return found


def _coming(connection: Connection, running: StudyInForce, now: int, end: int) -> Iterator[tuple[int, float]]:
    """The decision points to come and how probable a nudge is at each: (time, probability)."""
    table = tables.participants.c
    going = (table.status == ACTIVE) & (table.step < running.horizon) & table.calls.is_(True)
    people = [
        row
        for row in connection.execute(select(*tables.PARTICIPANT).where(going)).mappings()
        if not row["arm"] or running.policies[row["arm"]].revealer.spends
    ]
    known = forecast.stored(connection, running)
    shared = _shared_left(connection, running)
    pattern = _pattern(connection, running, now) if not running.times else {}
    planned = math.fsum(_planned(running, known, row["step"]) for row in people)
    for row in people:
        left = shared if shared is not None else (row["amount"] or 0.0) - row["spent"]
        of = planned if shared is not None else _planned(running, known, row["step"])
        factor = min(MOST_FACTOR, max(0.0, left) / of) if of > 0 else 0.0
        for at, step, share in _points(running, row, now, end, pattern):
            chance = min(1.0, factor * _increment(known, step))
            if chance > 0.0 and _open(running, at, row["timezone"]):
                yield at, chance * share


def _shared_left(connection: Connection, running: StudyInForce) -> float | None:
    """What is left of a budget that all share."""
    if not running.shared:
        return None
    amount, spent = connection.execute(select(tables.study.c.amount, tables.study.c.spent)).one()
    return float((amount or 0.0) - spent)


def _increment(known: Forecast | None, step: int) -> float:
    return 1.0 if known is None else max(0.0, known.by(step)[0] - known.by(step - 1)[0])


def _planned(running: StudyInForce, known: Forecast | None, step: int) -> float:
    """What is to be expected from the decision points after one, before it is scaled to what is left."""
    return (
        float(running.horizon - step) if known is None else max(0.0, known.by(running.horizon)[0] - known.by(step)[0])
    )


def _points(
    running: StudyInForce, row: Mapping[Any, Any], now: int, end: int, pattern: Mapping[int, float]
) -> Iterator[tuple[int, int, float]]:
    """A participant's decision points to come: time, number, and which share of it falls on that time."""
    if running.times:
        for step in range(row["step"] + 1, running.horizon + 1):
            at = _time_of(running.times, row["began"], row["timezone"], step, running.per_day)
            if at > end:
                return
            if at >= now:
                yield at, step, 1.0
        return
    per_day = math.fsum(pattern.values())
    for day in range(DAYS):
        step = row["step"] + 1 + math.floor(day * per_day)
        if step > running.horizon:
            return
        for hour, share in pattern.items():
            midnight = now - now % DAY + day * DAY
            at = midnight + hour * clock.HOUR
            if now <= at <= end:
                yield at, step, share


@lru_cache(maxsize=65_536)
def _time_of(times: tuple[int, ...], date: dt.date, timezone: str, step: int, per_day: int) -> int:
    """When a decision point comes (state.schedule.time_of), worked out once for all who enrolled on a day."""
    day, place = divmod(step - 1, per_day)
    there = dt.datetime.combine(date + dt.timedelta(days=day), dt.time(times[place] // 60, times[place] % 60))
    return clock.from_datetime(there.replace(tzinfo=clock.zone(timezone)))


def _pattern(connection: Connection, running: StudyInForce, now: int) -> dict[int, float]:
    """Decisions of one participant in a day, by the hour in UTC, over the last weeks."""
    table = tables.decisions.c
    query = select(table.happened, table.participant).where(table.happened > now - PATTERN, table.available.is_(True))
    counts: Counter[int] = Counter()
    days: set[tuple[str, int]] = set()
    for happened, participant in connection.execute(query):
        counts[happened % DAY // clock.HOUR] += 1
        days.add((participant, happened // DAY))
    return {hour: count / len(days) for hour, count in sorted(counts.items())} if days else {}


def _open(running: StudyInForce, at: int, timezone: str) -> bool:
    """Whether the calendar allows a nudge at a time."""
    if running.calendar is None:
        return True
    return not running.calendar.at(dt.datetime.fromtimestamp(at / 1e6, dt.UTC), timezone).closed
