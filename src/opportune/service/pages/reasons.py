"""The reason for a call in the study's words, from the numbers behind the decision (state.occasion)."""

from collections.abc import Mapping
from typing import Any

from opportune.service.pages import words
from opportune.service.pages.texts import Texts
from opportune.service.state.participant import FALLBACK_MODE
from opportune.service.state.study import StudyInForce

Because = dict[str, Any]
"""An `Occasion` as it is stored in the record."""
ALMOST, HALF = 0.95, 0.5


def contact(last_reveal: int | None, now: int, timezone: str, t: Texts) -> str:
    """When the last contact with the participant was."""
    _, ngettext = t.gettext, t.ngettext
    if last_reveal is None:
        return _("No contact yet")
    days = words.days_between(last_reveal, now, timezone)
    if days == 0:
        return _("Last contact today")
    return ngettext("Last contact %(num)s day ago", "Last contact %(num)s days ago", days)


def why(running: StudyInForce, row: Mapping[str, Any], because: Because | None, days: int | None, t: Texts) -> str:
    """The reason for a call in one or two sentences; `days` since the last contact, None if there was none."""
    _ = t.gettext
    if because is None and row["mode"] == FALLBACK_MODE:
        return _("The study's fallback has chosen this moment.")
    if because is None:
        return _("The reason for this call is not on record.")
    occasion = _no_special_reason(t) if because["chance"] else _occasion(running, because, days, t)
    return f"{occasion} {_advice(running, because, t)}"


def _occasion(running: StudyInForce, because: Because, days: int | None, t: Texts) -> str:
    _ = t.gettext
    if because["overdue"]:
        return _("It is time for a call: only the participant can report what the study learns from.")
    if because["debt"]:
        other = because["instead"] != because["present"] and because["better"] and because["sure"] >= HALF
        return _speaks_for_other_advice(days, t) if other else _more_is_known(days, t)
    if because["variables"]:
        named = [f"{_named(running, one, t)}." for one in because["variables"]]
        return " ".join([*named, _("That makes a call matter more now.")])
    if because["together"]:
        return _("Taken together, the phone's measurements suggest a call.")
    if because["by_context"]:
        return _no_special_reason(t)
    return _("In this study calls follow a plan, whatever the phone measures.")


def _no_special_reason(t: Texts) -> str:
    _ = t.gettext
    return _("There is no special reason: the study also calls at ordinary moments, to learn what calls do.")


def _speaks_for_other_advice(days: int | None, t: Texts) -> str:
    """A sentence: results since the last contact show that other advice helps more."""
    _, ngettext = t.gettext, t.ngettext
    if days is None:
        return _("What the study has learned so far suggests different advice.")
    if days == 0:
        return _("What the study has learned since the last contact (today) suggests different advice.")
    return ngettext(
        "What the study has learned since the last contact (%(num)s day ago) suggests different advice.",
        "What the study has learned since the last contact (%(num)s days ago) suggests different advice.", days,
    )  # fmt: skip


def _more_is_known(days: int | None, t: Texts) -> str:
    """A sentence: the app's advice does not reflect everything that the study has learned since."""
    _, ngettext = t.gettext, t.ngettext
    if days is None:
        return _("The study has learned more than the app's advice reflects.")
    if days == 0:
        return _("Since the last contact (today) the study has learned more than the app's advice reflects.")
    return ngettext(
        "Since the last contact (%(num)s day ago) the study has learned more than the app's advice reflects.",
        "Since the last contact (%(num)s days ago) the study has learned more than the app's advice reflects.", days,
    )  # fmt: skip


def _named(running: StudyInForce, one: dict[str, Any], t: Texts) -> str:
    """A sentence: a variable is not at its usual value."""
    _ = t.gettext
    name, value, usual = one["variable"], one["value"], one["usual"]
    label = words.capital(words.label_of(running, name))
    shown = words.value_label(running, name, value, t)
    mostly = {
        "time": _("at this time of day usually %(usual)s"),
        "own": _("usually %(usual)s"),
        "study": _("in this study usually %(usual)s"),
    }[one["by"]] % {"usual": words.value_label(running, name, usual, t)}
    values = {"variable": label, "value": shown, "mostly": mostly}
    table = running.study.settings.variables.get(name)
    numbers = (
        isinstance(value, int | float) and not isinstance(value, bool) and not (table is not None and table.answers)
    )
    if numbers and value > usual:
        return _("%(variable)s is higher than usual (%(value)s; %(mostly)s)", **values)
    if numbers:
        return _("%(variable)s is lower than usual (%(value)s; %(mostly)s)", **values)
    return _("%(variable)s is “%(value)s” now (%(mostly)s)", **values)


def _advice(running: StudyInForce, because: Because, t: Texts) -> str:
    """A sentence: the probable advice, and how sure it is."""
    _, sure = t.gettext, because["sure"]
    instead, present = (words.action_label(running, because[name]) for name in ("instead", "present"))
    n = max(1, round(10 * sure))
    if sure < HALF:
        return _("What will be advised depends on the answers; most often “%(instead)s” (in about %(n)s of 10 calls).",
                 instead=instead, n=n)  # fmt: skip
    if instead == present:
        if sure >= ALMOST:
            return _("The call will hardly change the advice “%(present)s”; it tells the study how the participant is.",
                     present=present)  # fmt: skip
        return _("In about %(n)s of 10 such calls the advice stays “%(present)s”; the answers decide.",
                 present=present, n=n)  # fmt: skip
    return _other_advice(instead, present, because, n, t)


def _other_advice(instead: str, present: str, because: Because, n: int, t: Texts) -> str:
    _, sure = t.gettext, because["sure"]
    values = {"instead": instead, "present": present}
    if because["better"] and sure >= ALMOST:
        return _("“%(instead)s” will almost certainly be advised instead of “%(present)s”, "
                 "and would probably help more.", **values)  # fmt: skip
    if because["better"]:
        return _("In about %(n)s of 10 such calls “%(instead)s” is advised instead of “%(present)s”, and would "
                 "probably help more; the answers decide.", n=n, **values)  # fmt: skip
    if sure >= ALMOST:
        return _("“%(instead)s” will almost certainly be advised instead of “%(present)s”, "
                 "also to learn how well it works.", **values)  # fmt: skip
    return _("In about %(n)s of 10 such calls “%(instead)s” is advised instead of “%(present)s”, also to learn how "
             "well it works; the answers decide.", n=n, **values)  # fmt: skip


def unless(running: StudyInForce, because: Because | None, t: Texts) -> str:
    """What would have changed the decision; empty if nothing simple would have."""
    _ = t.gettext
    if because is None or because["chance"]:
        return ""
    found = []
    if because["unless_usual"] and not because["debt"] and not because["overdue"]:  # else no variable is named
        name = because["variables"][0]["variable"]
        found.append(_("Had “%(variable)s” been as usual, we would have waited.",
                       variable=words.label_of(running, name)))  # fmt: skip
    if because["least_left"] is not None:
        found.append(_("With fewer than %(n)s calls left we would have waited.", n=because["least_left"]))
    return " ".join(found)
