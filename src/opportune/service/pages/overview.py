"""The summary of the study page: whether the trial is all right today, the arms, and changes since last week."""

from typing import Any, NamedTuple

from sqlalchemy import case, func, select

from opportune.service.accounts.keys import ANALYST
from opportune.service.pages import checklist
from opportune.service.pages.shared import View
from opportune.service.record import events, tables
from opportune.service.state import clock
from opportune.service.state.participant import ACTIVE, WITHDRAWN

DAY = 24 * clock.HOUR
WEEK = 7 * DAY
OLD = 2 * DAY
"""A backup older than this needs a new one."""
_D, _P, _E, _A = tables.decisions.c, tables.participants.c, tables.events.c, tables.alerts.c


class Verdict(NamedTuple):
    """The answer to the page's question: its level, its text and the reasons."""

    level: str
    text: str
    reasons: list[str]


def last_backup(view: View) -> int | None:
    """The time of the last backup on record."""
    kept = _E.body.contains('"what":"backed up"', autoescape=True)
    query = select(_E.received).where(_E.kind == events.ACCESS, kept).order_by(_E.seq.desc()).limit(1)
    with view.service.database.reading.connect() as connection:
        found = connection.execute(query).scalar()
    return None if found is None else int(found)


def age_of(view: View, backup: int | None) -> str:
    """The age of the last backup, in words."""
    _, ngettext = view.t.gettext, view.t.ngettext
    if backup is None:
        return _("never")
    days = (view.now - backup) // DAY
    return _("less than a day ago") if days < 1 else ngettext("%(num)s day ago", "%(num)s days ago", days)


def verdict(view: View, alerts: list[dict[str, Any]], undelivered: int, backup: int | None) -> Verdict:
    """Whether the trial is all right today."""
    _, ngettext = view.t.gettext, view.t.ngettext
    red, yellow = (sum(alert["level"] == level for alert in alerts) for level in ("red", "yellow"))
    with view.service.database.reading.connect() as connection:
        query = select(func.count()).where(tables.escalations.c.acknowledged.is_(None))
        urgent = int(connection.execute(query).scalar_one())
    bad, look = [], []
    if urgent:
        bad.append(ngettext("%(num)s urgent item on the page Today",
                            "%(num)s urgent items on the page Today", urgent))  # fmt: skip
    if red:
        bad.append(ngettext("%(num)s red alert", "%(num)s red alerts", red))
    if yellow:
        look.append(ngettext("%(num)s yellow alert", "%(num)s yellow alerts", yellow))
    missing = checklist.missing(view)
    if missing:
        look.append(_("missing from the launch checklist: %(items)s", items=", ".join(missing)))
    if not view.service.rehearsal and (backup is None or view.now - backup > OLD):
        look.append(_("last backup: %(age)s", age=age_of(view, backup)))
    if undelivered:
        look.append(ngettext("%(num)s message was not delivered", "%(num)s messages were not delivered", undelivered))
    if view.study["status"] != "open":
        return Verdict("closed", _("The study is closed."), [*bad, *look])
    if bad:
        return Verdict("bad", _("No: act now."), [*bad, *look])
    if look:
        return Verdict("look", _("Nothing urgent, but look at this today:"), look)
    return Verdict("good", _("Yes, the trial is all right today."), [])


def arms(view: View) -> list[dict[str, Any]]:
    """A row for each arm; empty without arms and for blinded people. Only analysts get mean results."""
    names = view.running.study.settings.arms
    if names is None or view.blind:
        return []
    people = select(
        _P.arm, func.count().label("enrolled"), func.sum(case((_P.status == ACTIVE, 1), else_=0)).label("active")
    ).group_by(_P.arm)
    made = (
        select(
            _P.arm, func.count().label("decisions"), func.sum(case((_D.nudge, 1), else_=0)).label("calls"),
            func.sum(case((_D.nudge & (_D.outcome == "answered"), 1), else_=0)).label("answered"),
            func.avg(_D.reward).label("mean"),
        )
        .join(tables.participants, _P.name == _D.participant)
        .group_by(_P.arm)
    )  # fmt: skip
    with view.service.database.reading.connect() as connection:
        counts = {row["arm"]: dict(row) for row in connection.execute(people).mappings()}
        done = {row["arm"]: dict(row) for row in connection.execute(made).mappings()}
    nothing = {"enrolled": 0, "active": 0, "decisions": 0, "calls": 0, "answered": 0, "mean": None}
    rows = [{**nothing, "arm": arm, **counts.get(arm, {}), **done.get(arm, {})} for arm in view.running.policies]
    return rows if view.role == ANALYST else [{**row, "mean": None} for row in rows]


def since_last_week(view: View) -> list[tuple[str, int, int]]:
    """Counts for the last seven days and the seven days before: (what, now, before)."""
    _ = view.t.gettext
    now = view.now

    def both(column: Any, *only: Any) -> tuple[int, int]:
        lately = func.sum(case((column > now - WEEK, 1), else_=0))
        before = func.sum(case((column <= now - WEEK, 1), else_=0))
        query = select(lately, before).where(column > now - 2 * WEEK, column <= now, *only)
        with view.service.database.reading.connect() as connection:
            first, second = connection.execute(query).one()
        return int(first or 0), int(second or 0)

    left = _E.body.contains(f'"status":"{WITHDRAWN}"', autoescape=True)
    return [
        (_("participants enrolled"), *both(_P.enrolled)),
        (_("participants withdrawn"), *both(_E.received, _E.kind == events.STATUS, left)),
        (_("decisions"), *both(_D.happened)),
        (_("calls"), *both(_D.happened, _D.nudge)),
        (_("calls answered"), *both(_D.happened, _D.nudge, _D.outcome == "answered")),
        (_("results received"), *both(_D.reward_received)),
        (_("adverse events"), *both(_E.received, _E.kind == events.ADVERSE)),
        (_("alerts raised"), *both(_A.raised)),
        (_("amendments"), *both(_E.received, _E.kind == events.AMENDED)),
    ]
