"""Corrections by staff: the time zone, a withdrawal, reported values, the outcome of a call."""

import datetime as dt
from typing import Annotated, Any

import msgspec
from litestar import Response, get, post
from litestar.params import FromPath, QueryParameter

from opportune.service.accounts.keys import STAFF
from opportune.service.api.requests import PAGE, known_decision, roles
from opportune.service.commands.base import Command
from opportune.service.commands.corrections import (
    MOST_AHEAD,
    OUTCOMES,
    CorrectOutcome,
    CorrectReported,
    CorrectZone,
    Reinstate,
)
from opportune.service.pages import words
from opportune.service.pages.forms import Form, Wrong, command_fields, form_of
from opportune.service.pages.participants import row_of
from opportune.service.pages.questions import Question, questions, reported_of
from opportune.service.pages.refusals import stays_on
from opportune.service.pages.shared import Asked, Page, View, carry_out, go, in_thread, view_of
from opportune.service.problems import Refused
from opportune.service.record import queries
from opportune.service.state import clock
from opportune.service.state.participant import COMPLETED, WITHDRAWN
from opportune.service.state.projection import known_of

CALLERS = roles(STAFF) | PAGE
Decision = Annotated[str, QueryParameter(name="decision", max_length=20)]


def _decision(view: View, name: str, decision: str) -> dict[str, Any]:
    found = queries.decision_row(view.service.database, known_decision(decision))
    if found is None or found["participant"] != name:
        raise Refused("not_found", "the participant has no such decision")
    return found


def _asked(view: View, about: dict[str, Any]) -> list[Question]:
    """The questions that were answered at a decision."""
    found = about["reported_corrected"] or about["reported"]
    answered = () if found is None else msgspec.json.decode(found)
    return [question for question in questions(view.running) if question.variable in answered]


@get("/participants/{number:int}/correct", opt=CALLERS, sync_to_thread=True, include_in_schema=False)
def show_corrections(request: Asked, number: FromPath[int], decision: Decision = "") -> Page:
    """The forms for corrections: of the participant or, if one is named, of a decision."""
    return _page(view_of(request), number, decision)


def _page(view: View, number: int, decision: str) -> Page:
    row = row_of(view, number)
    about = _decision(view, row["name"], decision) if decision else None
    return view.show(
        "correct.html", p=row, gone=row["status"] in {WITHDRAWN, COMPLETED}, decision=about,
        **({} if about is None else _present(view, about)),
    )  # fmt: skip


def _present(view: View, about: dict[str, Any]) -> dict[str, Any]:
    """The values on record for a decision, in words and as the fields show them."""
    asked, known = _asked(view, about), known_of(about)
    stands: dict[str, Any] = {} if known is None else msgspec.json.decode(known)
    return {
        "at": view.both(about["happened"], about["timezone"]),
        "asked": asked,
        "fields": {one.field: one.shown(stands[one.variable], view.t) for one in asked if one.variable in stands},
        "reported": words.listed(view.running, stands, view.t),
        "outcome": about["outcome_corrected"] or about["outcome"],
        "outcomes": {outcome: words.became(outcome, view.t) for outcome in OUTCOMES},
    }


def _command(view: View, form: Form, row: dict[str, Any]) -> Command:
    """The correction that the form asks for."""
    name, what, reason = row["name"], form.required("what", most=20), form.required("reason", most=500)
    fields = {**command_fields(view, form), "reason": reason.replace("\n", " ")}
    if what == "timezone":
        form.required("timezone", most=64)
        zone = form.zone("timezone")
        return CorrectZone(participant=name, timezone=zone, from_date=_from_date(view, form, zone), **fields)
    if what == "status":
        return Reinstate(participant=name, **fields)
    about = _decision(view, name, form.required("decision", most=20))
    if what == "outcome":
        return CorrectOutcome(decision=about["id"], outcome=form.choice("outcome", OUTCOMES), **fields)
    if what == "reported":
        asked = _asked(view, about)
        for question in asked:
            form.required(question.field)
        return CorrectReported(decision=about["id"], reported=reported_of(asked, form, view.t), **fields)
    raise Refused("invalid", "this cannot be corrected")


def _from_date(view: View, form: Form, zone: str) -> dt.date | None:
    """The date from which a time zone holds; None: from now on."""
    date, today = form.date("from_date"), clock.local(view.now, zone).date()
    first, last = today + dt.timedelta(days=1), today + MOST_AHEAD
    if date is not None and not first <= date <= last:
        raise Wrong("from_date", "days", first=first, last=last)
    return date


@post("/participants/{number:int}/correct", opt=CALLERS, include_in_schema=False, status_code=200)
@stays_on(lambda view, form, number: _page(view, number, form.text("decision")))
async def send_correction(request: Asked, number: FromPath[int]) -> Response[Any]:
    """A correction, with the reason; the first value stays on record."""
    form = await form_of(request)
    view = await in_thread(view_of, request)
    row = await in_thread(row_of, view, number)
    command = await in_thread(_command, view, form, row)
    await carry_out(view, command)
    return go(f"/participants/{number}?done=changed#{form.text('decision', most=20)}")


CORRECTIONS = [show_corrections, send_correction]
