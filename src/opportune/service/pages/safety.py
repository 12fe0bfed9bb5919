"""Safety at the desk: adverse events, escalations, and participants who want no more calls."""

from typing import Any

import msgspec
from litestar import Response, get, post
from litestar.params import FromPath
from sqlalchemy import select

from opportune.service.accounts.keys import ADMIN, STAFF
from opportune.service.api.requests import PAGE, roles
from opportune.service.commands.safety import SEVERITIES, ReportAdverse, WantCalls
from opportune.service.pages import words
from opportune.service.pages.forms import Form, command_fields, form_of
from opportune.service.pages.participants import row_of
from opportune.service.pages.refusals import stays_on
from opportune.service.pages.shared import Asked, Page, View, carry_out, go, in_thread, view_of
from opportune.service.problems import Refused
from opportune.service.record import events, queries, tables
from opportune.service.state.escalations import ADVERSE, WRONG_PERSON
from opportune.service.state.participant import COMPLETED, WITHDRAWN

WRITERS = roles(STAFF, ADMIN) | PAGE
MOST = 200
_E, _P = tables.escalations, tables.participants


def open_escalations(view: View) -> list[dict[str, Any]]:
    """Escalations that nobody has acknowledged yet: serious adverse events first, then the latest.

    Equal values of one participant are combined into one entry.
    """
    query = (
        select(_E, _P.c.number)
        .join(_P, _P.c.name == _E.c.participant)
        .where(_E.c.acknowledged.is_(None))
        .order_by(_E.c.raised.desc(), _E.c.id.desc())
        .limit(MOST)
    )
    rows = queries.rows(view.service.database, query)
    reported = _reported(view, [row["seq"] for row in rows if row["kind"] == ADVERSE])
    found: dict[Any, dict[str, Any]] = {}
    for row in rows:
        once = row["id"] if row["variable"] is None else (row["participant"], row["variable"], row["value"])
        same = found.setdefault(once, {**row, "times": 0, "said": _said(view, row, reported.get(row["seq"]))})
        same["times"] += 1
        same["since"] = view.both(row["raised"], view.timezone)
    return sorted(found.values(), key=lambda row: not reported.get(row["seq"], {}).get("serious"))


def _reported(view: View, numbers: list[int]) -> dict[int, dict[str, Any]]:
    """The reports of adverse events, by the number of the event."""
    query = select(tables.events.c.seq, tables.events.c.body).where(tables.events.c.seq.in_(numbers))
    rows = queries.rows(view.service.database, query) if numbers else []
    return {row["seq"]: events.decode(row["body"]).given for row in rows}


def _said(view: View, row: dict[str, Any], reported: dict[str, Any] | None) -> str:
    """An escalation in words."""
    _ = view.t.gettext
    if row["kind"] == ADVERSE:
        return _("Adverse event") + (f" ({words.adverse(reported, view.t)})" if reported else "")
    if row["kind"] == WRONG_PERSON:
        return _("A call reached the wrong person: check the telephone number, and tell whoever is responsible.")
    return words.with_value(view.running, row["variable"], msgspec.json.decode(row["value"]), view.t)


@get("/participants/{number:int}/adverse", opt=WRITERS, sync_to_thread=True, include_in_schema=False)
def show_adverse(request: Asked, number: FromPath[int]) -> Page:
    """The form for an adverse event."""
    return _adverse_page(view_of(request), None, number)


def _adverse_page(view: View, form: Form | None, number: int) -> Page:
    severities = [("", ""), *((code, words.severity(code, view.t)) for code in SEVERITIES)]
    return view.show("adverse.html", p=row_of(view, number), severities=severities)


@post("/participants/{number:int}/adverse", opt=WRITERS, include_in_schema=False, status_code=200)
@stays_on(_adverse_page)
async def report_adverse(request: Asked, number: FromPath[int]) -> Response[Any]:
    """Report an adverse event: it goes on record and appears on the page Today."""
    form = await form_of(request)
    view = await in_thread(view_of, request)
    row = await in_thread(row_of, view, number)
    command = ReportAdverse(
        participant=row["name"], text=form.required("text"), severity=form.choice("severity", SEVERITIES),
        serious=form.text("serious", most=5) == "yes", began=form.required("began", most=200),
        related=form.text("related", most=200), **command_fields(view, form),
    )  # fmt: skip
    await carry_out(view, command)
    return go(f"/participants/{number}?done=adverse")


@get("/participants/{number:int}/calls", opt=WRITERS, sync_to_thread=True, include_in_schema=False)
def show_calls(request: Asked, number: FromPath[int]) -> Page:
    """The form that ends or resumes the calls to a participant."""
    return _calls_page(view_of(request), None, number)


def _calls_page(view: View, form: Form | None, number: int) -> Page:
    row = row_of(view, number)
    if row["status"] in {WITHDRAWN, COMPLETED}:
        raise Refused("not_found", "the participant has left the study")
    return view.show("wanted.html", p=row)


@post("/participants/{number:int}/calls", opt=WRITERS, include_in_schema=False, status_code=200)
@stays_on(_calls_page)
async def want_calls(request: Asked, number: FromPath[int]) -> Response[Any]:
    """End or resume the calls to a participant."""
    form = await form_of(request)
    view = await in_thread(view_of, request)
    row = await in_thread(row_of, view, number)
    wanted, reason = form.required("wanted", most=5) == "yes", form.required("reason", most=500)
    await carry_out(
        view, WantCalls(participant=row["name"], wanted=wanted, reason=reason, **command_fields(view, form))
    )
    return go(f"/participants/{number}?done={'calls' if wanted else 'nocalls'}")


SAFETY = [show_adverse, report_adverse, show_calls, want_calls]
