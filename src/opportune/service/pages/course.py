"""The study's course, day by day: budget, calls, answers and results, beside what was to be expected."""

import datetime as dt
import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from sqlalchemy import Integer, case, cast, func, select

from opportune.service import clock, tables
from opportune.service.pages.shared import View

DAY = 24 * clock.HOUR
LEAST_DAYS = 3
"""Fewer days than this tell nothing about those to come."""
_D, _P = tables.decisions, tables.participants


@dataclass(frozen=True)
class Course:
    """What happened each day, and what may be expected."""

    dates: list[dt.date]
    nudges: list[int]
    spent: list[float]
    answered: list[int]
    settled: list[int]
    rewards: list[float | None]
    decisions: list[int]
    budget: float | None
    """Of all participants who are enrolled, together."""
    even: list[float]
    """What an even pace would have spent by each day: the budget in the share of decision points that have come."""
    per_day: float
    """Calls a day at an even pace."""
    forecast: list[tuple[int, float, float]]
    """Days from the first, and the range that spending may lie in then, going on as in the days before."""
    enrolled: int
    planned: int
    total_decisions: int


def _offset(view: View) -> int:
    """What to add to a time so that days begin at midnight of the study's time zone."""
    found = clock.local(view.now, view.running.timezone).utcoffset()
    return 0 if found is None else int(found.total_seconds()) * clock.MICROSECONDS


def course(view: View) -> Course:
    """The course so far."""
    offset = _offset(view)
    day = cast((_D.c.happened + offset - (_D.c.happened + offset) % DAY) / DAY, Integer)
    query = (
        select(
            day.label("day"), func.count().label("decisions"), func.sum(cast(_D.c.nudge, Integer)).label("nudges"),
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
        enrolled = int(connection.execute(select(func.count()).select_from(_P)).scalar_one())
        ended = int(
            connection.execute(
                select(func.coalesce(func.sum(_P.c.step), 0)).where(_P.c.status.in_(["withdrawn", "completed"]))
            ).scalar_one()
        )
        left = int(
            connection.execute(
                select(func.count()).select_from(_P).where(_P.c.status.in_(["withdrawn", "completed"]))
            ).scalar_one()
        )
    first = min(found, default=0)
    last = max([*found, (view.now + offset) // DAY]) if found else -1
    days = range(first, last + 1) if found else range(0)

    def of(name: str, otherwise: Any) -> list[Any]:
        return [found[d][name] if d in found and found[d][name] is not None else otherwise for d in days]

    running = view.running
    amount = running.amount
    budget = None if amount is None else amount if running.policy.shared else amount * enrolled
    total = running.horizon * (running.participants if running.policy.shared else enrolled)
    total -= left * running.horizon - ended if not running.policy.shared else 0
    decisions = of("decisions", 0)
    spent = np.cumsum(of("spent", 0.0), dtype=float).tolist()
    even = []
    if budget is not None and total:
        even = (np.cumsum(decisions, dtype=float) * (budget / total)).tolist()
    usual = float(np.mean(decisions[-7:])) if decisions else 0.0
    return Course(
        dates=[dt.date(1970, 1, 1) + dt.timedelta(days=d) for d in days], nudges=[int(n) for n in of("nudges", 0)],
        spent=spent, answered=[int(n) for n in of("answered", 0)], settled=[int(n) for n in of("settled", 0)],
        rewards=of("reward", None), decisions=decisions, budget=budget, even=even,
        per_day=0.0 if budget is None or not total else usual * budget / total,
        forecast=_forecast(spent, decisions, budget, total), enrolled=enrolled, planned=running.participants,
        total_decisions=int(np.sum(decisions)) if decisions else 0,
    )  # fmt: skip


def _forecast(
    spent: list[float], decisions: list[int], budget: float | None, total: int
) -> list[tuple[int, float, float]]:
    """Where spending may lie: going on as before, give or take what days differ by; never beyond the budget."""
    days = len(spent) - 1  # today is not over
    if budget is None or days < LEAST_DAYS or not total:
        return []
    steps = np.diff([0.0, *spent[:days]])[-14:]
    per_day = max(1.0, float(np.mean(decisions[:days][-7:])))
    remaining = max(0, math.ceil((total - sum(decisions[:days])) / per_day))
    mean, spread = float(np.mean(steps)), float(np.std(steps, ddof=1)) if len(steps) > 1 else 0.0
    found = []
    for ahead in range(0, min(remaining, 3650) + 1, max(1, remaining // 40)):
        # the mean of the days before is itself uncertain, and each day differs from it
        band = 1.96 * spread * math.sqrt(ahead + ahead**2 / len(steps))
        now = spent[days - 1] + mean * ahead
        found.append((days - 1 + ahead, max(spent[days - 1], min(now - band, budget)), min(now + band, budget)))
    return found
