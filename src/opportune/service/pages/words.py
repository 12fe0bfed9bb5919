"""Why someone should be called now, in plain words: what is unlike other days, and how old the advice is.

These are facts from the participant's record. By which numbers the rule decided stands beside them, folded away.
"""

import datetime as dt
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median_low
from typing import Any

from opportune.service.pages.texts import Texts
from opportune.service.state import clock
from opportune.service.state.fold import WAS_PAST
from opportune.service.state.study import StudyInForce

RARE = 1 / 3
"""A value that was there at fewer of the earlier decision points than this is unlike other days."""
LEAST_HISTORY = 4
_NOON, _EVENING = 12, 18


@dataclass(frozen=True)
class Unusual:
    """A variable that is unlike other days: its value now, its usual one, and since when."""

    variable: str
    value: Any
    usual: Any
    since: int | None


def label_of(running: StudyInForce, variable: str) -> str:
    """What people call a variable."""
    table = running.study.settings.variables.get(variable)
    return (table.label if table is not None else None) or variable.replace("_", " ")


def action_label(running: StudyInForce, action: str) -> str:
    """What people call an action."""
    table = running.study.settings.actions.get(action)
    return (table.label if table is not None else None) or action


def action_description(running: StudyInForce, action: str) -> str | None:
    """What staff may add about an action."""
    table = running.study.settings.actions.get(action)
    return None if table is None else table.description


def value_label(running: StudyInForce, variable: str, value: Any, t: Texts) -> str:
    """What people call a value."""
    table = running.study.settings.variables.get(variable)
    if table is not None and table.answers and table.levels and value in table.levels:
        return table.answers[table.levels.index(value)]
    if isinstance(value, int | float) and not isinstance(value, bool):
        return t.number(value)
    return str(value)


def unusual(
    running: StudyInForce, sensed: dict[str, Any], earlier: Sequence[tuple[int, dict[str, Any]]]
) -> Unusual | None:
    """What stands out most among the sensed variables; `earlier` are moments and values, the latest first."""
    found: list[tuple[float, Unusual]] = []
    for name, table in running.study.settings.variables.items():
        value = sensed.get(name)
        if table.visibility != "sensed" or table.schedule is not None or value is None:
            continue
        before = [(at, values[name]) for at, values in earlier if values.get(name) is not None]
        if len(before) < LEAST_HISTORY:
            continue
        values = [value_before for _, value_before in before]
        if isinstance(value, str):
            share = sum(other == value for other in values) / len(values)
            usual: Any = Counter(values).most_common(1)[0][0]
            alike = [other == value for other in values]
        else:
            above, below = sum(v >= value for v in values), sum(v <= value for v in values)
            share, usual = min(above, below) / len(values), median_low(values)
            alike = [v == value for v in values]
        if share < RARE and usual != value:
            streak = next((i for i, same in enumerate(alike) if not same), len(alike))
            since = before[streak - 1][0] if streak else None
            found.append((share, Unusual(name, value, usual, since)))
    return min(found, key=lambda entry: entry[0])[1] if found else None


def since_words(moment: int, now: int, timezone: str, t: Texts) -> str:
    """Since when: this morning, yesterday, Tuesday, 3 May."""
    _ = t.gettext
    then, today = clock.local(moment, timezone), clock.local(now, timezone)
    days = (today.date() - then.date()).days
    if days == 0:
        if then.hour < _NOON:
            return _("this morning")
        return _("this afternoon") if then.hour < _EVENING else _("this evening")
    if days == 1:
        return _("yesterday evening") if then.hour >= _EVENING else _("yesterday")
    return t.weekday(moment, timezone) if days < 7 else t.date(moment, timezone)


def days_between(earlier: int, now: int, timezone: str) -> int:
    """Whole days by the participant's calendar."""
    return (clock.local(now, timezone).date() - clock.local(earlier, timezone).date()).days


def age_words(last_reveal: int | None, now: int, timezone: str, t: Texts) -> str:
    """How old the advice is."""
    _, ngettext = t.gettext, t.ngettext
    if last_reveal is None:
        return _("there has been no contact yet")
    days = days_between(last_reveal, now, timezone)
    if days == 0:
        return _("the advice is from today")
    return ngettext("the advice is %(num)s day old", "the advice is %(num)s days old", days)


def why_now(
    running: StudyInForce, row: dict[str, Any], sensed: dict[str, Any], earlier: Sequence[tuple[int, dict[str, Any]]],
    last_reveal: int | None, now: int, t: Texts,
) -> str:  # fmt: skip
    """Why a participant should be reached now, in a sentence."""
    _ = t.gettext
    timezone, age = row["timezone"], age_words(last_reveal, now, row["timezone"], t)
    found = unusual(running, sensed, earlier)
    if found is not None:
        values = {
            "variable": _capital(label_of(running, found.variable)),
            "value": value_label(running, found.variable, found.value, t),
            "usual": value_label(running, found.variable, found.usual, t), "age": age,
        }  # fmt: skip
        if found.since is None:
            return _("%(variable)s is %(value)s now (usually %(usual)s), and %(age)s.", **values)
        since = since_words(found.since, now, timezone, t)
        return _(
            "%(variable)s has been %(value)s since %(since)s (usually %(usual)s), and %(age)s.", since=since, **values
        )
    if row["fresh_action"] != row["stale_action"]:
        return _("What was learned since the last contact speaks for other advice, and %(age)s.", age=age)
    return _("What the participant tells us could change the advice, and %(age)s.", age=age)


def outcome(row: dict[str, Any], why: str, t: Texts) -> str:
    """A decision of the past in plain words; `why` is why there was a call, if there was one."""
    _ = t.gettext
    if not row["available"]:
        return _("No decision was made here; the advice stands.")
    if row["mode"] == "fallback":
        return _("The study's fallback decided, as the learned policy could not be used.")
    if not row["nudge"] and row["outcome"] == "opened":
        return _("The app was opened, so that the advice is for this moment.")
    if not row["nudge"] and row["why"].startswith(WAS_PAST):
        return _("No call: this moment was past when it became known.")
    if not row["nudge"]:
        return _("No call: moments to come may matter more. The advice stands.")
    became = {
        "opened": _("The app was opened before the call, so that the advice is for this moment."),
        "answered": _("The call was answered, so that the advice is for this moment."),
        "unanswered": _("The call was not answered; the advice stands."),
    }
    return f"{why} {became.get(row['outcome'], '')}".strip()


def cause(code: str, t: Texts) -> str:
    """How a call ended, in words; nothing for what says itself."""
    _ = t.gettext
    return {
        "window": _("the window closed without an answer"),
        "next": _("the next decision came before an answer"),
        "reached": _("reached"),
        "unreachable": _("could not be reached"),
        "declined": _("declined"),
        "paused": _("paused"),
        "withdrawn": _("withdrawn"),
        "completed": _("completed"),
        "closed": _("the study was closed"),
        "overdue": _("did not arrive"),
        "default": _("the study's default, as none came"),
    }.get(code, "")


def left_words(expires: int, now: int, t: Texts) -> str:
    """How long a window stays open."""
    _, ngettext = t.gettext, t.ngettext
    minutes = max(0, (expires - now) // clock.MINUTE)
    if minutes < 1:
        return _("closes now")
    if minutes < 120:
        return ngettext("%(num)s minute left", "%(num)s minutes left", minutes)
    hours = minutes // 60
    if hours < 48:
        return ngettext("%(num)s hour left", "%(num)s hours left", hours)
    return ngettext("%(num)s day left", "%(num)s days left", hours // 24)


def next_due(running: StudyInForce, timezones: Sequence[str], now: int) -> tuple[int, str] | None:
    """When the next decisions are due, and in which time zone; None where apps ask when they like."""
    moments = []
    for timezone in timezones:
        today = clock.local(now, timezone)
        for days in (0, 1):
            for minutes in running.times:
                date = today.date() + dt.timedelta(days=days)
                at = dt.datetime.combine(date, dt.time(minutes // 60, minutes % 60), clock.zone(timezone))
                if at > today:
                    moments.append((clock.from_datetime(at), timezone))
    return min(moments) if moments else None


def _capital(text: str) -> str:
    return text[:1].upper() + text[1:]
