"""The page of the week ahead: calls to expect on each day and at each hour."""

from typing import Any

from litestar import get

from opportune.service.accounts.keys import ADMIN, ANALYST, STAFF
from opportune.service.api.requests import PAGE, roles
from opportune.service.monitoring import forecast
from opportune.service.monitoring.week import week
from opportune.service.pages.shared import Asked, Page, view_of
from opportune.service.state import clock

READERS = roles(STAFF, ANALYST, ADMIN) | PAGE
LEAST = 0.05
"""Expected numbers below this are shown as a dash."""


@get("/week", opt=READERS, sync_to_thread=True, include_in_schema=False)
def show_week(request: Asked) -> Page:
    """The calls to expect in the next seven days."""
    view = view_of(request)
    t = view.t
    with view.service.database.reading.connect() as connection:
        days = week(connection, view.running, view.now, view.timezone)
        simulated = forecast.stored(connection, view.running) is not None
    hours = sorted({hour for day in days for hour, expected in day.hours.items() if expected >= LEAST})
    rows: list[dict[str, Any]] = [
        {
            "day": t.weekday_of(day.date), "date": t.day(day.date), "expected": day.expected, "low": day.low,
            "high": day.high, "hours": [day.hours.get(hour, 0.0) for hour in hours],
        }
        for day in days
    ]  # fmt: skip
    total = sum(day.expected for day in days)
    busiest = max(
        ((expected, day.date, hour) for day in days for hour, expected in day.hours.items()), default=None
    )  # fmt: skip
    minutes = view.running.study.settings.nudge.minutes
    return view.show(
        "week.html", rows=rows, hours=hours, total=round(total), least=LEAST,
        simulated=simulated,
        busiest=None if busiest is None or round(busiest[0]) < 1
        else {"n": round(busiest[0]), "day": t.weekday_of(busiest[1]), "hour": f"{busiest[2]:02d}:00"},
        work=None if minutes is None else round(total * minutes),
        since=t.moment(view.now, view.timezone), zone=t.zone(view.timezone), shown=clock.iso(view.now),
    )  # fmt: skip


WEEK = [show_week]
