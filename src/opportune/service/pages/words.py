"""The study's words for variables, values, actions, outcomes and the time that is left."""

import datetime as dt
from collections.abc import Mapping, Sequence
from typing import Any

from opportune.service.pages.texts import Texts
from opportune.service.state import clock
from opportune.service.state.fold import WAS_PAST
from opportune.service.state.study import StudyInForce
from opportune.study.naming import digits_of, level_name


def label_of(running: StudyInForce, variable: str) -> str:
    """The label of a variable."""
    table = running.study.settings.variables.get(variable)
    return (table.label if table is not None else None) or variable.replace("_", " ")


def action_label(running: StudyInForce, action: str) -> str:
    """The label of an action."""
    table = running.study.settings.actions.get(action)
    return (table.label if table is not None else None) or action


def action_description(running: StudyInForce, action: str) -> str | None:
    """The description of an action, for staff."""
    table = running.study.settings.actions.get(action)
    return None if table is None else table.description


def value_label(running: StudyInForce, variable: str, value: Any, t: Texts) -> str:
    """The words for a value: the study's label for the level, or a number with the study's digits."""
    settings = running.study.settings
    found = level_name(settings, variable, value)
    if found is not None:
        return found
    if isinstance(value, int | float) and not isinstance(value, bool):
        return t.number(value, digits_of(settings, variable))
    return str(value)


def listed(running: StudyInForce, values: Mapping[str, Any], t: Texts) -> str:
    """Variables with their values, in one line; a dash for values that are missing."""
    return " · ".join(with_value(running, name, value, t) for name, value in values.items())


def with_value(running: StudyInForce, variable: str, value: Any, t: Texts) -> str:
    """A variable with its value."""
    shown = "–" if value is None else value_label(running, variable, value, t)
    return t.gettext("%(variable)s: %(value)s", variable=capital(label_of(running, variable)), value=shown)


def days_between(earlier: int, now: int, timezone: str) -> int:
    """Days between two times by the participant's calendar."""
    return (clock.local(now, timezone).date() - clock.local(earlier, timezone).date()).days


def outcome(row: dict[str, Any], why: str, t: Texts) -> str:
    """A past decision in plain words; `why` is the reason for the call, if there was one."""
    _ = t.gettext
    if not row["available"]:
        return _("No decision was made here; the advice stands.")
    if row["mode"] == "fallback":
        return _("The study's fallback decided, because the learned policy could not be used.")
    if not row["nudge"] and row["outcome"] == "opened":
        return _("The app was opened, so the advice is for this moment.")
    if not row["nudge"] and row["why"].startswith(WAS_PAST):
        return _("No call: this moment had passed before the service learned of it.")
    if not row["nudge"]:
        return _("No call: later moments may matter more. The advice stands.")
    became = {
        "opened": _("The app was opened before the call, so the advice is for this moment."),
        "answered": _("The call was answered, so the advice is for this moment."),
        "unanswered": _("The call was not answered; the advice stands."),
    }
    return f"{why} {became.get(row['outcome'], '')}".strip()


def became(outcome: str, t: Texts) -> str:
    """The words for the outcome of a call."""
    _ = t.gettext
    return {
        "opened": _("app opened"), "answered": _("call answered"), "unanswered": _("call not answered"),
    }[outcome]  # fmt: skip


def cause(code: str, t: Texts) -> str:
    """The words for the cause with which a call ended; empty for causes that need none."""
    _ = t.gettext
    return {
        "window": _("the window closed without an answer"),
        "next": _("the next decision came before an answer"),
        "reached": _("reached"),
        "unreachable": _("could not be reached"),
        "declined": _("declined"),
        "wrong person": _("reached the wrong person"),
        "no calls": _("wants no calls any more"),
        "paused": _("paused"),
        "withdrawn": _("withdrawn"),
        "completed": _("completed"),
        "closed": _("the study was closed"),
        "overdue": _("did not arrive"),
        "default": _("the study's default, because none arrived"),
    }.get(code, "")


def severity(code: str, t: Texts) -> str:
    """The words for the severity of an adverse event."""
    _ = t.gettext
    return {
        "mild": _("mild"), "moderate": _("moderate"), "severe": _("severe"), "life-threatening": _("life-threatening"),
        "fatal": _("fatal"),
    }.get(code, code)  # fmt: skip


def role(code: str, t: Texts) -> str:
    """The words for a role."""
    _ = t.gettext
    return {"staff": _("staff"), "analyst": _("analyst"), "admin": _("admin"), "app": _("app")}.get(code, code)


def adverse(given: Mapping[str, Any], t: Texts) -> str:
    """The severity, beginning and cause of an adverse event, in words."""
    _ = t.gettext
    return "; ".join([
        *([_("serious")] if given["serious"] else []), severity(given["severity"], t),
        *([_("began: %(when)s", when=given["began"])] if given["began"] else []),
        *([_("related to the study: %(related)s", related=given["related"])] if given["related"] else []),
    ])  # fmt: skip


def left_words(expires: int, now: int, t: Texts) -> str:
    """The time until a window closes, in words."""
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
    """The time of the next decisions and its time zone; None if the study has no decision times."""
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


def capital(text: str) -> str:
    """A text that begins with a capital letter."""
    return text[:1].upper() + text[1:]
