"""The course of the study by day: budget, calls, answers and results, next to the expected values."""

import datetime as dt
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from sqlalchemy import Integer, case, cast, func, select

from opportune.service.monitoring import forecast
from opportune.service.monitoring.forecast import Forecast
from opportune.service.pages.shared import View
from opportune.service.record import tables
from opportune.service.state import clock
from opportune.service.state.study import StudyInForce

DAY = 24 * clock.HOUR
LEAST_DAYS = 3
"""No forecast is made from fewer days than this."""
MOST_DAYS = 3650
POINTS = 40
_D, _P = tables.decisions, tables.participants
Rows = list[tuple[Any, ...]]
People = list[dict[str, Any]]
"""Participants who may be called: their step, status, budget and spending."""
_LEFT = ("withdrawn", "completed")


@dataclass(frozen=True)
class Course:
    """What happened on each day, with the expected values and the forecast."""

    dates: list[dt.date]
    nudges: list[int]
    spent: list[float]
    answered: list[int]
    settled: list[int]
    rewards: list[float | None]
    decisions: int
    budget: float | None
    """The budget of all enrolled participants together."""
    planned_spent: list[float]
    """The expected spending up to each day."""
    planned_nudges: list[float]
    """The expected number of nudges on each day."""
    simulated: bool
    """Whether the expected values come from a simulation of the study; otherwise from an even pace."""
    forecast: list[tuple[int, float, float]]
    """The likely range of spending: (days since the first, lowest, highest)."""
    enrolled: int
    planned: int


def _day(view: View, first: int) -> Any:
    """The day of a decision in the study's time zone, counted from 1970, with the clock's offset at that time."""
    zone, moment = view.running.timezone, first
    changes: list[tuple[int, int]] = []  # (until when, which offset)
    offset = _offset(moment, zone)
    while moment < view.now:
        later = min(moment + DAY, view.now)
        if _offset(later, zone) != offset:
            low, high = moment, later
            while high - low > clock.MINUTE:
                middle = (low + high) // 2
                low, high = (middle, high) if _offset(middle, zone) == offset else (low, middle)
            changes.append((high, offset))
            offset = _offset(later, zone)
        moment = later
    happened = _D.c.happened
    shifted: Any = happened + offset
    if changes:
        shifted = happened + case(*((happened < until, held) for until, held in changes), else_=offset)
    return cast((shifted - shifted % DAY) / DAY, Integer)


def _offset(moment: int, zone: str) -> int:
    found = clock.local(moment, zone).utcoffset()
    return 0 if found is None else int(found.total_seconds()) * clock.MICROSECONDS


def course(view: View) -> Course:
    """The course of the study so far."""
    running = view.running
    day = _day(view, view.study["launched"] - DAY)
    query = (
        select(
            day.label("day"), func.sum(cast(_D.c.nudge, Integer)).label("nudges"),
            func.sum(_D.c.probability).label("spent"),
            func.sum(case((_D.c.outcome == "answered", 1), else_=0)).label("answered"),
            func.sum(case((_D.c.nudge & (_D.c.status == "settled"), 1), else_=0)).label("settled"),
            func.avg(_D.c.reward).label("reward"),
        )
        .group_by(day)
        .order_by(day)
    )  # fmt: skip
    with view.service.database.reading.connect() as connection:
        found = {int(row["day"]): dict(row) for row in connection.execute(query).mappings()}
        calling = [arm for arm in running.policies if running.spends(arm)]
        by_step = select(day, _D.c.step, func.count()).join(_P, _P.c.name == _D.c.participant)
        by_step = by_step.where(_P.c.arm.in_(calling)).group_by(day, _D.c.step)
        steps = [tuple(row) for row in connection.execute(by_step)]
        people = [
            dict(row) for row in connection.execute(
                select(_P.c.step, _P.c.status, _P.c.calls, _P.c.amount, _P.c.spent).where(_P.c.arm.in_(calling))
            ).mappings()
        ]  # fmt: skip
        decisions, enrolled = (
            int(connection.execute(select(func.count()).select_from(table)).scalar_one()) for table in (_D, _P)
        )
        own = connection.execute(select(func.sum(_P.c.amount))).scalar()
        known = forecast.stored(connection, running)
    first = min(found, default=0)
    last = max([*found, (view.now + _offset(view.now, running.timezone)) // DAY]) if found else -1
    days = range(first, last + 1) if found else range(0)

    def of(name: str, otherwise: Any) -> list[Any]:
        return [found[d][name] if d in found and found[d][name] is not None else otherwise for d in days]

    amount = running.amount
    budget = None if amount is None else amount if running.shared else float(own or 0.0)
    spent = np.cumsum(of("spent", 0.0), dtype=float).tolist()
    each = _planned(running, known, budget, people, steps, days)
    return Course(
        dates=[dt.date(1970, 1, 1) + dt.timedelta(days=d) for d in days], nudges=[int(n) for n in of("nudges", 0)],
        spent=spent, answered=[int(n) for n in of("answered", 0)], settled=[int(n) for n in of("settled", 0)],
        rewards=of("reward", None), decisions=decisions, budget=budget,
        planned_spent=np.cumsum(each).tolist(), planned_nudges=each, simulated=known is not None,
        forecast=_forecast(view, known, budget, people, spent, [row[2] for row in steps]), enrolled=enrolled,
        planned=running.participants,
    )  # fmt: skip


def _total(running: StudyInForce, people: People) -> int:
    """The number of decision points, without those lost because a participant left."""
    lost: int = sum(running.horizon - row["step"] for row in people if row["status"] in _LEFT)
    return running.horizon * (running.participants if running.shared else len(people)) - lost


def _planned(
    running: StudyInForce, known: Forecast | None, budget: float | None, people: People, steps: Rows, days: range
) -> list[float]:  # fmt: skip
    """The expected number of nudges on each day, given the decision points that have come."""
    if budget is None or not days:
        return []
    rate = budget / max(1, _total(running, people))
    each = [0.0] * len(days)
    for day, step, number in steps:
        one = rate if known is None else known.by(step)[0] - known.by(step - 1)[0]
        each[int(day) - days.start] += one * number
    return each


def _forecast(
    view: View, known: Forecast | None, budget: float | None, people: People, spent: list[float],
    counts: list[int],
) -> list[tuple[int, float, float]]:  # fmt: skip
    """The range in which spending will lie on later days, 95 times in 100; never beyond the budget."""
    days = len(spent)
    running, going = view.running, [row for row in people if row["status"] not in _LEFT and row["calls"]]
    active = [row["step"] for row in going]
    if running.shared:  # participants who are yet to enrol draw on it too
        active += [0] * (running.participants - len(people))
    if view.study["status"] != "open" or budget is None or days < LEAST_DAYS or not active or not counts:
        return []
    pace = running.per_day or max(1.0, sum(counts) / days / len(people))
    remaining = min(MOST_DAYS, math.ceil((running.horizon - min(active)) / pace))
    now, before = spent[-1], np.diff([0.0, *spent[:-1]])[-14:]  # without today, which is not over
    factors = _factors(running, known, going, active, budget - now) if known is not None else []
    found = []
    for ahead in np.unique(np.linspace(0, remaining, POINTS).round().astype(int)).tolist():
        if known is not None:
            steps = [known.between(step, min(running.horizon, step + round(ahead * pace))) for step in active]
            mean = math.fsum(factor * mean for factor, (mean, _) in zip(factors, steps, strict=True))
            sd = math.sqrt(math.fsum(sd**2 for _, sd in steps))
        else:  # as in the days before: their mean is uncertain, and each day varies around it
            mean = float(np.mean(before)) * ahead
            sd = float(np.std(before, ddof=1)) * math.sqrt(ahead + ahead**2 / len(before)) if len(before) > 1 else 0.0
        low, high = now + mean - 1.96 * sd, now + mean + 1.96 * sd
        found.append((days - 1 + ahead, max(now, min(low, budget)), max(now, min(high, budget))))
    return found


def _factors(running: StudyInForce, known: Forecast, going: People, steps: list[int], left: float) -> list[float]:
    """What participants have left of their budget, relative to the simulation at the same step (monitoring.week)."""
    if running.shared:
        return [forecast.scale(known, (running.amount or 0.0) / running.participants, steps, left)] * len(steps)
    return [forecast.scale(known, row["amount"], [row["step"]], row["amount"] - row["spent"]) for row in going]
