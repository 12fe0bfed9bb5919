"""The page Today: whom to call and why, the outcomes of calls, and the advice to read out."""

import asyncio
from collections.abc import AsyncIterator, Mapping
from typing import Annotated, Any

from litestar import Response, get, post
from litestar.params import QueryParameter
from litestar.response import ServerSentEvent, ServerSentEventMessage
from sqlalchemy import select

from opportune.service.accounts import sessions
from opportune.service.accounts.keys import ADMIN, STAFF
from opportune.service.api.cookies import SIGNED_IN, read
from opportune.service.api.requests import PAGE, known_decision, roles, service_of
from opportune.service.commands import calls
from opportune.service.commands.safety import Acknowledge
from opportune.service.pages import reasons, words
from opportune.service.pages.forms import Form, command_fields, form_of
from opportune.service.pages.questions import questions, reported_of
from opportune.service.pages.refusals import stays_on
from opportune.service.pages.safety import open_escalations
from opportune.service.pages.shared import Asked, Page, View, carry_out, fragment, go, in_thread, view_of, waiting_of
from opportune.service.problems import Refused
from opportune.service.record import queries, tables
from opportune.service.service import Service
from opportune.service.state import clock

DESK = roles(STAFF, ADMIN) | PAGE
BY_ITSELF = DESK | {"by_itself": True}
"""The option of requests that the page's script makes by itself; they do not extend the session."""
CALLING = roles(STAFF) | PAGE
MOST_CALLS = 1000
MOST_DONE = 200
LOOK_SECONDS = 1.0
Done = Annotated[str, QueryParameter(name="done", max_length=40)]
About = Annotated[str, QueryParameter(name="d", max_length=20)]
_D, _P, _C = tables.decisions, tables.participants, tables.calls


def _rows(view: View, *conditions: Any, order: Any, limit: int) -> list[dict[str, Any]]:
    query = (
        select(
            _D.c.id, _D.c.participant, _D.c.step, _D.c.day, _D.c.happened, _D.c.timezone, _D.c.status,
            _D.c.outcome, _D.c.settled, _D.c.expires, _D.c.action, _D.c.mode, _D.c.why,
            _D.c.answered_late, _P.c.number, _P.c.last_reveal, _C.c.taken_by, _C.c.taken_until, _C.c.tries, _C.c.tried,
            _C.c.outcome.label("said"), _C.c.done_by, _C.c.done, _C.c.due,
        )
        .join(_P, _P.c.name == _D.c.participant)
        .outerjoin(_C, _C.c.decision == _D.c.id)
        .where(_D.c.nudge, *conditions)
    )  # fmt: skip
    return queries.rows(view.service.database, query.order_by(*order).limit(limit))


def _entry(view: View, row: Mapping[str, Any]) -> dict[str, Any]:
    """A call's row with the texts that the page shows."""
    t, held = view.t, row["taken_until"] is not None and row["taken_until"] > view.now
    return {
        **row,
        "tries": row["tries"] or 0,
        "taken_by": row["taken_by"] if held else None,
        "mine": held and row["taken_by"] == view.who,
        "since": max(0, (view.now - row["taken_until"] + calls.TAKEN) // clock.MINUTE) if held else 0,
        "advice": words.action_label(view.running, row["action"]),
        "more": words.action_description(view.running, row["action"]),
        "can_undo": row["due"] is not None and row["due"] > view.now and row["done_by"] == view.who,
        "at": None if row["settled"] is None else t.time(row["settled"], view.timezone),
    }


def _reason(view: View, row: Mapping[str, Any], because: reasons.Because | None) -> dict[str, str]:
    """The reason for a call, what would have changed the decision, and the last contact."""
    last, timezone = row["last_reveal"], row["timezone"]
    days = None if last is None else words.days_between(last, view.now, timezone)
    return {
        "why_now": reasons.why(view.running, row, because, days, view.t),
        "unless": reasons.unless(view.running, because, view.t),
        "contact": reasons.contact(last, view.now, timezone, view.t),
    }  # fmt: skip


def open_calls(view: View) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """The open calls, the most urgent first; and outcomes that can still be undone."""
    found = _rows(view, tables.open_nudge, order=(_D.c.expires, _D.c.id), limit=MOST_CALLS)
    view.service.alerts.viewed.note(found)
    because = queries.occasions(view.service.database, [row["id"] for row in found])
    waiting, held = [], []
    for row in found:
        entry = _entry(view, row)
        if row["due"] is not None:
            held.append(entry)
            continue
        entry |= _reason(view, row, because.get(row["id"]))
        entry["left"] = words.left_words(row["expires"], view.now, view.t)
        entry["until"] = view.both(row["expires"], row["timezone"])
        entry["urgent"] = row["expires"] - view.now < 30 * clock.MINUTE
        waiting.append(entry)
    return waiting, held


def done_today(view: View) -> list[dict[str, Any]]:
    """Calls that were settled today, the latest first."""
    midnight = clock.local(view.now, view.timezone).replace(hour=0, minute=0, second=0, microsecond=0)
    since = _D.c.settled >= clock.from_datetime(midnight)
    found = _rows(view, since, order=(_D.c.settled.desc(),), limit=MOST_DONE)  # uses the index of settled nudges
    return [_entry(view, row) for row in found]


def _timezones(view: View) -> list[str]:
    with view.service.database.reading.connect() as connection:
        going_on = (_P.c.status == "active") & (_P.c.step < view.running.horizon)
        query = select(_P.c.timezone).where(going_on).distinct()
        return list(connection.execute(query).scalars())


def _content(view: View) -> dict[str, Any]:
    waiting, held = open_calls(view)
    following = None
    if not waiting:
        due = words.next_due(view.running, _timezones(view), view.now) if view.study["status"] == "open" else None
        following = None if due is None else view.both(*due)
    return {
        "waiting_calls": waiting, "held": held, "done_calls": done_today(view), "following": following,
        "questions": questions(view.running), "version_now": _version(view.service),
        "escalations": open_escalations(view), "others": _others(view),
        "today": view.t.weekday(view.now, view.timezone) + ", " + view.t.date(view.now, view.timezone),
        "printed": view.t.time(view.now, view.timezone),
        "nudge": view.running.study.settings.nudge,
    }  # fmt: skip


def _others(view: View) -> list[str]:
    """The other people who have the list open."""
    return [name for name in sessions.watching(view.service.database) if name != view.who]


def _version(service: Service) -> str:
    """A text that changes whenever the page may."""
    return f"{calls.version(service.database)}.{','.join(sessions.watching(service.database))}"


def _waiting(service: Service) -> str:
    """The number of waiting items, as the script reads it."""
    return " ".join(map(str, waiting_of(service)))


def _advised(view: View, decision: str) -> dict[str, Any] | None:
    """The advice to read out after a participant was reached."""
    row = queries.decision_row(view.service.database, known_decision(decision)) if decision else None
    if row is None or not row["nudge"]:
        return None
    return {
        "participant": row["participant"], "id": row["id"], "late": row["answered_late"] is not None,
        "revealed": row["revealed"], "advice": words.action_label(view.running, row["action"]),
        "more": words.action_description(view.running, row["action"]),
    }  # fmt: skip


@get("/today", opt=DESK, sync_to_thread=True, include_in_schema=False)
def show_today(request: Asked, done: Done = "", about: About = "") -> Page:
    """The list of calls."""
    view = view_of(request)
    return _page(view, done=done, advised=_advised(view, about))


def _page(view: View, form: Form | None = None, *, done: str = "", advised: dict[str, Any] | None = None) -> Page:
    content = _content(view)
    return view.show(
        "today.html", done=done, advised=advised, unsent=_unsent(view, content["waiting_calls"]), **content
    )


def _unsent(view: View, waiting: list[dict[str, Any]]) -> str:
    """The note in a form that was refused and has left the list, so that nobody types it again."""
    sent = {} if view.refused is None else view.refused.sent
    return "" if any(call["id"] == sent.get("decision") for call in waiting) else sent.get("note", "")


@get("/today/list", opt=BY_ITSELF, sync_to_thread=True, include_in_schema=False)
def show_list(request: Asked) -> Page:
    """The list of calls alone, for the script that refreshes it."""
    view = view_of(request)
    return fragment(view, "calls.html", **_content(view))


@get("/today/changes", opt=BY_ITSELF, include_in_schema=False)
async def changes(request: Asked) -> ServerSentEvent:
    """Server-sent events that report changes of the list."""
    service, token = service_of(request), read(request, SIGNED_IN)

    async def versions() -> AsyncIterator[ServerSentEventMessage]:
        await in_thread(sessions.watch, service.database, token)
        known = await in_thread(_version, service)
        yield ServerSentEventMessage(event="version", data=known, retry=2000)
        yield ServerSentEventMessage(event="count", data=await in_thread(_waiting, service))
        quiet = 0
        while not service.stopping:
            await asyncio.sleep(LOOK_SECONDS)
            found = await in_thread(_version, service)
            quiet += 1
            if found != known or quiet >= 20:  # also to notice a closed connection or an ended session
                known, quiet = found, 0
                if await in_thread(lambda: sessions.find(service.database, token, used=False)) is None:
                    return
                await in_thread(sessions.watch, service.database, token)
                yield ServerSentEventMessage(event="version", data=known)
                yield ServerSentEventMessage(
                    event="count", data=" ".join(map(str, await in_thread(waiting_of, service)))
                )

    return ServerSentEvent(versions(), headers={"Cache-Control": "no-store", "X-Accel-Buffering": "no"})


def _open_row(view: View, form: Form) -> dict[str, Any]:
    row = queries.decision_row(view.service.database, known_decision(form.required("decision", most=20)))
    if row is None or not row["nudge"]:
        raise Refused("not_found", "no call has this id")
    return row


async def _asked(request: Asked) -> tuple[View, Form, dict[str, Any]]:
    form = await form_of(request)
    view = await in_thread(view_of, request)
    return view, form, await in_thread(_open_row, view, form)


@post("/today/take", opt=CALLING, include_in_schema=False, status_code=200)
@stays_on(_page)
async def take(request: Asked) -> Response[Any]:
    """Take a call."""
    view, _, row = await _asked(request)
    if row["status"] != "nudge":
        raise Refused("settled_already", "the call is no longer needed")
    holder = await in_thread(calls.take, view.service.database, row["id"], row["participant"], view.who, view.now)
    if holder != view.who:
        raise Refused("taken", f"{holder} has taken this call")
    return go(f"/today#{row['id']}")


@post("/today/release", opt=CALLING, include_in_schema=False, status_code=200)
@stays_on(_page)
async def release(request: Asked) -> Response[Any]:
    """Return a call to the list."""
    view, _, row = await _asked(request)
    await in_thread(calls.release, view.service.database, row["id"], view.who, view.now)
    return go("/today")


@post("/today/outcome", opt=CALLING, include_in_schema=False, status_code=200)
@stays_on(_page)
async def outcome(request: Asked) -> Response[Any]:
    """Record the outcome of a call."""
    view, form, row = await _asked(request)
    said, note = form.choice("outcome", (calls.REACHED, "again", *calls.GIVEN_UP)), form.text("note") or None
    fields = {**command_fields(view, form), "decision": row["id"], "note": note}
    if said == calls.REACHED:
        reported = reported_of(questions(view.running), form, view.t)
        await carry_out(view, calls.Reach(reported=reported or None, **fields))
        return go(f"/today?done=reached&d={row['id']}#said")
    if said == "again":
        await carry_out(view, calls.Try(**fields))
        return go(f"/today?done=again&d={row['id']}#said")
    await carry_out(view, calls.GiveUpCall(outcome=said, **fields))
    return go(f"/today?done={said.replace(' ', '-')}&d={row['id']}#said")


@post("/today/undo", opt=CALLING, include_in_schema=False, status_code=200)
@stays_on(_page)
async def undo(request: Asked) -> Response[Any]:
    """Undo an outcome that is not on record yet, or a try, which is."""
    view, form, row = await _asked(request)
    if form.text("what", most=20) == "again":
        await carry_out(view, calls.Try(undone=True, decision=row["id"], **command_fields(view, form)))
        return go(f"/today?done=undone&d={row['id']}#{row['id']}")
    if not await in_thread(calls.undo, view.service.database, row["id"], view.who, view.now):
        raise Refused("settled_already", "it is on record by now")
    return go(f"/today?done=undone&d={row['id']}#{row['id']}")


@post("/escalations/acknowledge", opt=DESK, include_in_schema=False, status_code=200)
@stays_on(_page)
async def acknowledge(request: Asked) -> Response[Any]:
    """Acknowledge an escalation, with what was done."""
    form = await form_of(request)
    view = await in_thread(view_of, request)
    name, note = form.required("escalation", most=40), form.required("note")
    await carry_out(view, Acknowledge(escalation=name, note=note, **command_fields(view, form)))
    return go("/today?done=acknowledged#said")


TODAY = [show_today, show_list, changes, take, release, outcome, undo, acknowledge]
