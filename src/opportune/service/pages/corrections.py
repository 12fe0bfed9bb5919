"""What staff correct about a participant: the time zone, a withdrawal, what was reported, what became of a call."""

from typing import Annotated, Any

from litestar import Response, get, post
from litestar.params import FromPath, QueryParameter

from opportune.service.accounts.keys import STAFF
from opportune.service.api.requests import PAGE, known_decision, roles
from opportune.service.commands.base import Command
from opportune.service.commands.corrections import CorrectOutcome, CorrectReported, CorrectZone, Reinstate
from opportune.service.pages.participants import row_of
from opportune.service.pages.questions import questions, reported_of
from opportune.service.pages.shared import (
    Asked,
    Form,
    Page,
    View,
    carry_out,
    command_fields,
    form_of,
    go,
    in_thread,
    view_of,
)
from opportune.service.problems import Refused
from opportune.service.record import queries
from opportune.service.state.participant import COMPLETED, WITHDRAWN

CALLERS = roles(STAFF) | PAGE
Decision = Annotated[str, QueryParameter(name="decision", max_length=20)]


def _decision(view: View, name: str, decision: str) -> dict[str, Any]:
    found = queries.decision_row(view.service.database, known_decision(decision))
    if found is None or found["participant"] != name:
        raise Refused("not_found", "the participant has no such decision")
    return found


@get("/participants/{number:int}/correct", opt=CALLERS, sync_to_thread=True, include_in_schema=False)
def show_corrections(request: Asked, number: FromPath[int], decision: Decision = "") -> Page:
    """What can be corrected: of the participant or, if one is named, of a decision."""
    view = view_of(request)
    row = row_of(view, number)
    about = _decision(view, row["name"], decision) if decision else None
    return view.show(
        "correct.html", p=row, gone=row["status"] in {WITHDRAWN, COMPLETED}, decision=about,
        at=None if about is None else view.both(about["happened"], about["timezone"]),
        questions=questions(view.running) if about is not None and about["reported"] is not None else [],
    )  # fmt: skip


def _command(view: View, form: Form, name: str) -> Command:
    """What the form corrects."""
    what, reason = form.required("what", most=20), form.required("reason", most=500)
    fields = {**command_fields(view, form), "reason": reason.replace("\n", " ")}
    if what == "timezone":
        zone, date = form.required("timezone", most=64), form.date("from_date")
        return CorrectZone(participant=name, timezone=zone, from_date=date, **fields)
    if what == "status":
        return Reinstate(participant=name, **fields)
    decision = _decision(view, name, form.required("decision", most=20))["id"]
    if what == "outcome":
        return CorrectOutcome(decision=decision, outcome=form.required("outcome", most=20), **fields)
    if what == "reported":
        return CorrectReported(decision=decision, reported=reported_of(view.running, form) or {}, **fields)
    raise Refused("invalid", "this cannot be corrected")


@post("/participants/{number:int}/correct", opt=CALLERS, include_in_schema=False, status_code=200)
async def send_correction(request: Asked, number: FromPath[int]) -> Response[Any]:
    """A correction, with the reason; what was said first stays on record."""
    form = await form_of(request)
    view = await in_thread(view_of, request)
    row = await in_thread(row_of, view, number)
    command = await in_thread(_command, view, form, row["name"])
    await carry_out(view, command)
    return go(f"/participants/{number}?done=changed#{form.text('decision', most=20)}")


CORRECTIONS = [show_corrections, send_correction]
