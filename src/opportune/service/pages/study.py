"""The study page: budget, calls and results over time, alerts with what to do, completeness of the data."""

import math
import threading
import time
from dataclasses import replace
from datetime import timedelta
from typing import Any

from litestar import get
from sqlalchemy import func, select

from opportune.service.accounts.keys import ADMIN, ANALYST, STAFF
from opportune.service.accounts.pseudonyms import shown_hashes
from opportune.service.api.requests import PAGE, roles
from opportune.service.monitoring.alerts import CODES
from opportune.service.monitoring.anchors import DAY, latest
from opportune.service.monitoring.delivery import dead
from opportune.service.pages import checklist, overview
from opportune.service.pages.charts import Chart, Figure, around, room
from opportune.service.pages.course import Course, course
from opportune.service.pages.participants import late
from opportune.service.pages.shared import Asked, Page, View, view_of
from opportune.service.pages.texts import Texts
from opportune.service.record import queries, tables
from opportune.service.record.events import PROPOSED

KEPT_SECONDS = 60.0
_lock = threading.Lock()
_known: dict[str, tuple[float, int, float, tuple[Course, dict[str, int], int | None]]] = {}
READERS = roles(STAFF, ANALYST, ADMIN) | PAGE


def advice(t: Texts) -> dict[str, str]:
    """What to do about each alert."""
    _ = t.gettext
    return {
        "fallback": _("Participants are advised by the study's fallback. Tell whoever looks after the service today."),
        "undecided": _("A participant got no advice. Tell whoever looks after the service now."),
        "unrecorded": _("Something that staff entered was not recorded. Tell whoever looks after the service now."),
        "rebuilt": _("It was repaired automatically. Have the record verified on the page Record."),
        "verify": _("Do not use the data until this is understood. Tell the study's statistician now."),
        "silent": _("Ask the participant whether the app works, or pause the participation."),
        "rewards": _(
            "The service no longer waits for them. Tell whoever looks after the app that results do not arrive."
        ),
        "unshown": _("Someone should have been called and was not. Look at the list of calls, and at who is on duty."),
        "escalation": _("Open the page Today, do what it says, and write there what was done."),
        "clock": _("Nothing is recorded until the clock is confirmed. Tell whoever looks after the service now."),
        "redcap": _("Correct the record in REDCap; it is read again every five minutes."),
        "pacing": _("More or fewer calls are made than planned. Tell the study's statistician."),
        "overspent": _("More calls were made than there is budget for. Tell the study's statistician now."),
    }  # fmt: skip


def _ticks(found: Course, t: Texts, last: int) -> list[tuple[float, str]]:
    """The dates on the x axis."""
    every = max(1, -(-(last + 1) // 5))
    return [(float(i), t.day(found.dates[0] + timedelta(days=i))) for i in range(0, last + 1, every)]


def _budget(view: View, found: Course) -> Figure | None:
    _ = view.t.gettext
    if found.budget is None or not found.dates:
        return None
    last = found.forecast[-1][0] if found.forecast else len(found.dates) - 1
    values = [found.budget, *found.spent, *found.planned_spent, *(high for _, _, high in found.forecast)]
    numbers = {
        "spent": view.t.number(found.spent[-1]), "budget": view.t.number(found.budget),
        "planned": view.t.number(found.planned_spent[-1]),
    }  # fmt: skip
    if found.simulated:
        described = _("%(spent)s of %(budget)s are used; %(planned)s were expected by now.", **numbers)
    else:
        described = _("%(spent)s of %(budget)s are used; an even pace would have used %(planned)s.", **numbers)
    if found.forecast:
        _day, low, high = found.forecast[-1]
        if low >= 0.995 * found.budget:
            described += " " + _("The whole budget will probably be used.")
        else:
            described += " " + _(
                "At the end, %(low)s to %(high)s will probably be used.", low=view.t.number(low),
                high=view.t.number(high),
            )  # fmt: skip
    chart = Chart(
        title=_("Budget used"), description=described, x_range=(0.0, max(1.0, last)), y_range=room(values),
        x_label=_("date"), y_label=_("calls"), x_ticks=_ticks(found, view.t, last),
    )  # fmt: skip
    chart.line([(0.0, found.budget), (max(1.0, last), found.budget)], "limit")
    chart.band([(float(day), low, high) for day, low, high in found.forecast], "band")
    chart.line([(float(i), value) for i, value in enumerate(found.planned_spent)], "expected")
    chart.line([(float(i), value) for i, value in enumerate(found.spent)], "actual")
    return chart.figure("budget")


def _calls(view: View, found: Course) -> Figure | None:
    _ = view.t.gettext
    if not found.dates:
        return None
    calls = view.t.ngettext("%(num)s call", "%(num)s calls", sum(found.nudges))
    days = view.t.ngettext("%(num)s day", "%(num)s days", len(found.nudges))
    described = _("%(calls)s in %(days)s; %(most)s on the busiest day.", calls=calls, days=days, most=max(found.nudges))
    if found.planned_nudges:
        expected = sum(found.planned_nudges) / len(found.planned_nudges)
        if found.simulated:
            described += " " + _("%(planned)s per day were expected.", planned=view.t.number(expected))
        else:
            described += " " + _("At an even pace there would be %(planned)s per day.", planned=view.t.number(expected))
    chart = Chart(
        title=_("Calls each day"), description=described, x_range=(-0.5, max(1.0, len(found.dates) - 0.5)),
        y_range=room([float(n) for n in found.nudges] + found.planned_nudges), x_label=_("date"), y_label=_("calls"),
        x_ticks=_ticks(found, view.t, len(found.dates) - 1),
    )  # fmt: skip
    chart.bars([(float(i), float(n)) for i, n in enumerate(found.nudges)], "bar", 0.7)
    chart.bars([(float(i), float(n)) for i, n in enumerate(found.answered)], "bar-answered", 0.7)
    chart.line([(float(i), value) for i, value in enumerate(found.planned_nudges)], "expected")
    return chart.figure("calls")


def _results(view: View, found: Course) -> Figure | None:
    _ = view.t.gettext
    points = [(float(i), value) for i, value in enumerate(found.rewards) if value is not None]
    if not points:
        return None
    unit = view.running.study.settings.reward.unit or _("result")
    week = [(x, sum(v for _, v in points[max(0, i - 6) : i + 1]) / min(7, i + 1)) for i, (x, _v) in enumerate(points)]
    described = _(
        "Mean of the last seven days: %(last)s; of the first seven: %(first)s.", last=view.t.number(week[-1][1]),
        first=view.t.number(week[min(6, len(week) - 1)][1]),
    )  # fmt: skip
    chart = Chart(
        title=_("Mean result each day"), description=described, x_range=(0.0, max(1.0, len(found.dates) - 1)),
        y_range=around([value for _, value in points]), x_label=_("date"), y_label=unit,
        x_ticks=_ticks(found, view.t, len(found.dates) - 1),
    )  # fmt: skip
    for x, value in points:
        chart.mark(x, value, "dot", f"{view.t.day(found.dates[int(x)])}: {view.t.number(value)}")
    chart.line(week, "actual")
    return chart.figure("results")


def _health(view: View) -> dict[str, int]:
    """Counts of received, awaited and missing results."""
    table = tables.decisions
    with view.service.database.reading.connect() as connection:
        query = select(table.c.reward_status, func.count()).group_by(table.c.reward_status)
        rewards = {row[0]: row[1] for row in connection.execute(query)}
        overdue = table.c.reward_due.is_not(None) & (table.c.happened < late(view))
        waiting = connection.execute(select(func.count()).select_from(table).where(overdue)).scalar_one()
        unavailable = connection.execute(
            select(func.count()).select_from(table).where(table.c.available.is_(False))
        ).scalar_one()
    counts = {name: rewards.get(name, 0) for name in ("learned", "waiting", "skipped")}
    return {
        **counts,
        "late": int(waiting), "unavailable": int(unavailable), "decisions": sum(rewards.values()),
    }  # fmt: skip


def _worked_out(view: View) -> tuple[Course, dict[str, int], int | None]:
    """The course, the counts of results and the time of the last backup.

    They are cached for a while, because computing them reads all decisions.
    """
    with _lock:
        database, now = view.service.database.url, time.monotonic()
        known = _known.get(database)
        if known is None or known[0] < now or (known[1] != view.study["seq"] and known[2] < now):
            began = time.monotonic()
            found = course(view), _health(view), overview.last_backup(view)
            took = time.monotonic() - began
            known = now + KEPT_SECONDS, view.study["seq"], now + 20 * took, found
            _known.clear()
            _known[database] = known
        return known[3]


@get("/study", opt=READERS, sync_to_thread=True, include_in_schema=False)
def show_study(request: Asked) -> Page:
    """The study page."""
    view = view_of(request)
    (found, health, backup), t = _worked_out(view), view.t
    if view.blind:  # two looks would reveal the probability of a decision between them
        found = replace(found, spent=[float(math.floor(value)) for value in found.spent])
    said, translated = advice(t), t.gettext
    alerts = [
        {
            **alert,
            "at": t.moment(alert["raised"], view.timezone),
            "todo": said.get(alert["code"], ""),
            "said": translated(CODES[alert["code"]][1]) if alert["code"] in CODES else alert["text"],
        }
        for alert in queries.alert_rows(view.service.database)
    ]
    answered, settled = sum(found.answered), sum(found.settled)
    with view.service.database.reading.connect() as connection:
        names = select(tables.participants.c.name, tables.participants.c.number)
        numbers = {row[0]: row[1] for row in connection.execute(names)}
        record, made = tables.events.c, tables.decisions.c
        latest = select(record.decision).where(record.kind == PROPOSED).order_by(record.seq.desc()).limit(1)
        price = connection.execute(select(made.price).where(made.id == latest.scalar_subquery())).scalar()
    undelivered = _given_up(view)
    content: dict[str, Any] = {
        "verdict": overview.verdict(view, alerts, len(undelivered), backup), "arms": overview.arms(view),
        "changes": overview.since_last_week(view), "backup": overview.age_of(view, backup),
        "missing": checklist.missing(view),
        "course": found, "alerts": alerts, "numbers": numbers, "health": health,
        "price": price if view.running.policy.revealer.priced and not view.blind else None,
        "answered_share": None if not settled else answered / settled, "settled": settled,
        "launched": t.moment(view.study["launched"], view.timezone), "anchor": _anchored(view),
        "undelivered": undelivered, "file_hash": _file_hash(view),
        "pictures": [p for p in (_budget(view, found), _calls(view, found), _results(view, found)) if p is not None],
    }  # fmt: skip
    return view.show("study.html", **content)


def _file_hash(view: View) -> str:
    """The hash of the study file; analysts get the hash of the file as they see it."""
    found = str(view.study["hash"])
    return shown_hashes(view.service.database)[found] if view.session.caller.role == ANALYST else found


def _anchored(view: View) -> dict[str, Any] | None:
    """The latest anchor of the record, in words."""
    with view.service.database.reading.connect() as connection:
        found = latest(connection)
    return None if found is None else {"day": view.t.date(found.day * DAY, "UTC"), "seq": found.seq, "head": found.head}


def _given_up(view: View) -> list[dict[str, Any]]:
    """Messages that could not be delivered and were given up."""
    return [
        {**row, "at": view.t.moment(row["created"], view.timezone), "failure": row["failure"] or ""}
        for row in dead(view.service.database)
    ]


STUDY = [show_study]
