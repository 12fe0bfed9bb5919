"""The week ahead: how many calls to expect on each day and at each hour, so that staff can be planned.

The simulation of the study (`monitoring.forecast`) says how many nudges each decision point gets. For each participant
these numbers are scaled to the budget that is left now; without a simulation, the rest of the budget is spread evenly.
No nudge is expected where the calendar forbids one. The simulation averages over points where the calendar allows a
nudge and points where it does not, so the scaling gives the allowed ones more.
"""

import datetime as dt
import math
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sqlalchemy import Connection, select

from opportune.service.monitoring import forecast
from opportune.service.monitoring.forecast import Forecast
from opportune.service.record import tables
from opportune.service.state import clock, schedule, trial
from opportune.service.state.participant import ACTIVE
from opportune.service.state.study import StudyInForce

Floats = NDArray[np.float64]
DAYS = 7
DAY = 24 * clock.HOUR
PATTERN = 28 * DAY
"""How far back to look for the hours at which apps ask, where the study has no decision times."""
SPREAD = 1.28
"""Four of five days lie within this many standard deviations."""


@dataclass(frozen=True)
class Day:
    """The calls to expect on one day."""

    date: dt.date
    hours: dict[int, float]
    """The expected number of calls by the hour in which they appear."""
    low: int
    high: int
    """On four of five such days the number of calls lies from `low` to `high`."""

    @property
    def expected(self) -> float:
        """The expected number of calls on the whole day."""
        return math.fsum(self.hours.values())


def week(connection: Connection, running: StudyInForce, now: int, timezone: str) -> list[Day]:
    """The rest of today and the six days after it, by the clock of a time zone."""
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
    """The decision points to come: (time, probability of a nudge)."""
    table = tables.participants.c
    going = (table.status == ACTIVE) & (table.step < running.horizon) & table.calls.is_(True)
    people = [
        row for row in connection.execute(select(*tables.PARTICIPANT).where(going)).mappings()
        if running.spends(row["arm"])
    ]  # fmt: skip
    known = forecast.stored(connection, running)
    weights = _weights(running, known)
    pattern = _pattern(connection, running, now) if not running.times else {}
    to_come = _to_come(connection, running, known, people, weights)
    for row, expected in zip(people, to_come, strict=True):
        zone = row["timezone"]
        odds = weights if not running.times else weights * _opens(running, row["began"], zone)
        rest = math.fsum(odds[row["step"] :])
        if not running.times:
            rest *= _open_share(running, pattern, now, zone)
        for at, step, share in _points(running, row, now, end, pattern):
            chance = min(1.0, expected * odds[step - 1] / rest) if rest > 0.0 else 0.0
            if chance > 0.0 and (running.times or _open(running, at, zone)):
                yield at, chance * share


def _weights(running: StudyInForce, known: Forecast | None) -> Floats:
    """The nudges that each decision point gets in the simulation; without one, equal weights after the run-in."""
    if known is None:
        return np.asarray(np.arange(running.horizon) >= running.run_in, dtype=np.float64)
    found: Floats = np.diff([known.by(step)[0] for step in range(running.horizon + 1)]).clip(0.0)
    return found


def _to_come(
    connection: Connection, running: StudyInForce, known: Forecast | None, people: list[Any], weights: Floats
) -> list[float]:
    """The expected number of nudges that each participant still gets."""
    steps = [row["step"] for row in people]
    planned = [math.fsum(weights[step:]) for step in steps]
    if running.shared:  # participants who are yet to enrol draw on it too
        table = tables.study.c
        amount, spent, enrolled = connection.execute(select(table.amount, table.spent, table.enrolled)).one()
        others = max(0, running.participants - enrolled)
        if known is None:
            total = math.fsum(planned) + others * math.fsum(weights)
            return [(amount - spent) * own / total if total > 0.0 else 0.0 for own in planned]
        factor = forecast.scale(known, amount / running.participants, [*steps, *[0] * others], amount - spent)
        return [factor * own for own in planned]
    left = [max(0.0, (row["amount"] or 0.0) - row["spent"]) for row in people]
    if known is None:
        return left
    return [
        own * forecast.scale(known, row["amount"] or 0.0, [row["step"]], rest)
        for row, own, rest in zip(people, planned, left, strict=True)
    ]


def _opens(running: StudyInForce, date: dt.date, timezone: str) -> Floats:
    """1 for each decision point where the calendar allows a nudge, else 0, for participants who enrolled on a date."""
    if running.calendar is None:
        return np.ones(running.horizon)
    left = trial.open_points(running, date, timezone)
    return np.asarray(left - np.append(left[1:], 0), dtype=np.float64)


def _open_share(running: StudyInForce, pattern: Mapping[int, float], now: int, timezone: str) -> float:
    """The share of decisions that come while the calendar allows a nudge, given the hours at which apps ask."""
    midnight, total, opened = now - now % DAY, 0.0, 0.0
    for day in range(DAYS):
        for hour, share in pattern.items():
            total += share
            opened += share * _open(running, midnight + day * DAY + hour * clock.HOUR, timezone)
    return opened / total if total > 0.0 else 1.0


def _points(
    running: StudyInForce, row: Mapping[Any, Any], now: int, end: int, pattern: Mapping[int, float]
) -> Iterator[tuple[int, int, float]]:
    """A participant's decision points to come: (time, number, share of the decision point that falls on that time)."""
    if running.times:
        current = schedule.step_at(running, now, row["began"], row["timezone"])
        for step in range(max(row["step"] + 1, current), running.horizon + 1):
            zone = _zone_on(row, schedule.date_of(running, step, row["began"]))
            at = schedule.time_of(running, step, row["began"], zone)
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


def _zone_on(row: Mapping[Any, Any], date: dt.date) -> str:
    """A participant's time zone on a date, from a row of `participants` (Participant.zone_on)."""
    zone: str = row["timezone"] if row["next_from"] is None or date < row["next_from"] else row["next_timezone"]
    return zone


def _pattern(connection: Connection, running: StudyInForce, now: int) -> dict[int, float]:
    """The mean number of decisions of one participant per day, by the hour in UTC, over the last four weeks."""
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
