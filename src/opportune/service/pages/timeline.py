"""The chart of a participant's course: decisions, nudges, openings, results, notes."""

import datetime as dt
from collections.abc import Sequence
from typing import Any

from opportune.service.pages import words
from opportune.service.pages.charts import Chart, Figure, around
from opportune.service.pages.shared import View
from opportune.service.record import events
from opportune.service.state import clock
from opportune.service.state.schedule import day_of

RESULTS, CALLS, OPENINGS, NOTES, DECISIONS = 3.0, 2.0, 1.0, 0.0, -1.0


def _when(row: dict[str, Any], view: View, began: dt.date) -> float:
    """The day of the study, with the time of day as its fraction."""
    there = clock.local(row["happened"], row["timezone"])
    return day_of(row["happened"], began, row["timezone"]) + (there.hour * 60 + there.minute) / 1440.0


def picture(
    view: View, person: dict[str, Any], decisions: Sequence[dict[str, Any]], noted: Sequence[dict[str, Any]]
) -> Figure | None:
    """The chart; None before the first decision."""
    if not decisions:
        return None
    t = view.t
    _ = t.gettext
    days = [_when(row, view, person["began"]) for row in decisions]
    rewards = [row["reward"] for row in decisions if row["reward"] is not None]
    nudges = [row for row in decisions if row["nudge"]]
    answered = sum(row["outcome"] == "answered" for row in nudges)
    opened = sum(row["outcome"] == "opened" for row in decisions)
    description = _(
        "Decisions: %(decisions)s. Calls: %(nudges)s, answered: %(answered)s. App opened unasked: %(opened)s. "
        "Results: %(rewards)s. Notes: %(notes)s. The list below shows them one by one.",
        decisions=len(decisions), nudges=len(nudges), answered=answered, opened=opened, rewards=len(rewards),
        notes=len(noted),
    )  # fmt: skip
    chart = Chart(
        title=_("Course of the study"), description=description, x_range=(1.0, max(2.0, *days)),
        y_range=(-1.5, 4.6), x_label=_("day of the study"), y_label="", width=760.0, left=105.0, height=280.0,
    )  # fmt: skip
    low, high = around(rewards)
    scale = 1.6 / (high - low)
    chart.line(
        [
            (day, RESULTS - 0.1 + (row["reward"] - low) * scale)
            for day, row in zip(days, decisions, strict=True)
            if row["reward"] is not None
        ],
        "results",
    )
    for day, row in zip(days, decisions, strict=True):
        moment = t.moment(row["happened"], row["timezone"])
        advice = words.action_label(view.running, row["action"])
        kind = "made" if row["available"] else "unmade"
        chart.mark(day, DECISIONS, kind, f"{moment}: {advice}")
        if row["nudge"]:
            kind, said = {
                "answered": ("answered", _("call answered")), "unanswered": ("unanswered", _("call not answered")),
            }.get(row["outcome"] or "", ("waiting", _("call open")))  # fmt: skip
            if row["outcome"] == "opened":
                kind, said = "opened", _("app opened before the call")
            chart.mark(day, CALLS, kind, f"{moment}: {said}; {advice}", "diamond")
        elif row["outcome"] == "opened":
            chart.mark(day, OPENINGS, "opened", f"{moment}: {_('app opened')}; {advice}", "square")
    for row in noted:
        event = events.decode(row["body"])
        at = {"happened": row["received"], "timezone": person["timezone"]}
        chart.mark(_when(at, view, person["began"]), NOTES, "noted", str(event.given["text"])[:200], "triangle")
    named = {
        RESULTS + 0.6: _("results"), CALLS: _("calls"), OPENINGS: _("app"), NOTES: _("notes"),
        DECISIONS: _("decisions"),
    }  # fmt: skip
    for level, text in named.items():
        chart.text(chart.x_range[0], level, text)
    return chart.figure("timeline", y_axis=False)
