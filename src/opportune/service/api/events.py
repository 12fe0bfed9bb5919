"""The events of a participant, for an app: server-sent events, or long polling."""

import asyncio
import time
from collections.abc import AsyncIterator
from functools import partial
from typing import Annotated, Any

import msgspec
from litestar import Request, Response, get
from litestar.datastructures import State
from litestar.params import FromPath, HeaderParameter, QueryParameter
from litestar.response import ServerSentEvent, ServerSentEventMessage
from sqlalchemy import func, or_, select

from opportune.service.accounts.keys import APP, PHONE
from opportune.service.api import answers
from opportune.service.api.problems import refusals
from opportune.service.api.requests import (
    After,
    as_json,
    blind,
    caller_now,
    gives,
    known_name,
    number_of,
    roles,
    service_of,
)
from opportune.service.commands.base import decision_answer
from opportune.service.problems import Refused
from opportune.service.record import events, queries, tables
from opportune.service.service import Service
from opportune.service.state import clock

MOST_AT_ONCE = 100
STILL_SECONDS = 15.0
"""A stream without events sends a comment after this time, as proxies close silent connections."""
STREAM_SECONDS = 300.0
"""A stream ends after this time; the app begins another with the last id, and its token is checked again."""
RETRY_MILLISECONDS = 2000
_EVENTS, _DECISIONS = tables.events.c, tables.decisions.c
Asked = Request[Any, Any, State]
Wait = Annotated[
    int,
    QueryParameter(name="wait", ge=0, le=60, description="Seconds to wait for an event, if there is none."),
]
LastEvent = Annotated[
    str | None,
    HeaderParameter(
        name="Last-Event-ID", max_length=200, description="Like `after`; a browser sends it automatically."
    ),
]


def happened_since(service: Service, name: str, after: int | None, *, blind: bool) -> tuple[list[dict[str, Any]], int]:
    """A participant's events after event `after`, and the event from which to continue.

    If `after` is None or no longer on record, they begin with the latest decision, which shows the present state.
    """
    wanted = or_(_EVENTS.participant == name, _EVENTS.kind.in_(events.ABOUT_ALL)) & _EVENTS.kind.in_(events.FOR_APPS)
    with service.database.reading.connect() as connection:
        last = connection.execute(select(tables.study.c.seq)).scalar() or 0
        if after is None or after > last:
            decided = (_EVENTS.participant == name) & _EVENTS.kind.in_((events.PROPOSED, events.SETTLED))
            latest = connection.execute(select(func.max(_EVENTS.seq)).where(decided)).scalar()
            after = last if latest is None else latest - 1
        query = select(_EVENTS.seq, _EVENTS.kind, _EVENTS.decision, _EVENTS.received)
        query = query.where(_EVENTS.seq > after, wanted).order_by(_EVENTS.seq).limit(MOST_AT_ONCE)
        found = connection.execute(query).all()
        ids = {row.decision for row in found if row.decision is not None}
        rows = connection.execute(select(tables.decisions).where(_DECISIONS.id.in_(ids))).mappings() if ids else ()
        decisions = {row["id"]: decision_answer({**row, "nudge": bool(row["nudge"])}, blind=blind) for row in rows}
    person = queries.participant_row(service.database, name) if found else None
    items = [
        {
            "id": str(row.seq), "kind": events.FOR_APPS[row.kind], "at": clock.iso(row.received), "participant": name,
            "status": person["status"], "timezone": person["timezone"], "decision": decisions.get(row.decision),
        }
        for row in found if person is not None
    ]  # fmt: skip
    return items, found[-1].seq if found else after


@get(
    "/participants/{participant:str}/events", opt=roles(APP, PHONE) | {"by_itself": True}, tags=["participants"],
    operation_id="participant_events", responses=gives(answers.ParticipantEvents, "The events.", refusals(503)),
    summary="A participant's events, as they happen",
)  # fmt: skip
async def participant_events(
    request: Asked, participant: FromPath[str], after: After = None, wait: Wait = 0, last_event: LastEvent = None
) -> Response[Any]:
    """Server-sent events if the header Accept asks for `text/event-stream`: each is one of `items`, as JSON.

    Otherwise a single answer, at once or within `wait` seconds. Without `after`, events begin with the latest decision,
    which shows the present state.
    """
    service, name, hidden = service_of(request), known_name(participant), blind(request)
    if await service.listeners.read(lambda: queries.participant_row(service.database, name)) is None:
        raise Refused("not_found", "no participant has this name")
    given = after if after is not None else last_event
    since = None if given is None else number_of(given)
    if "text/event-stream" in request.headers.get("accept", ""):
        headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
        return ServerSentEvent(_stream(request, name, since, hidden=hidden), headers=headers)
    items, following = await _next(service, name, since, hidden=hidden, seconds=wait)
    return as_json({"items": items, "next": str(following)}, headers={"Cache-Control": "no-store"})


async def _next(
    service: Service, name: str, after: int | None, *, hidden: bool, seconds: float
) -> tuple[list[dict[str, Any]], int]:
    """The events after `after`; if there are none, those of the next `seconds`."""
    end = time.monotonic() + seconds
    with service.listeners.listening(name) as woken:
        while True:
            woken.clear()
            items, following = await service.listeners.read(partial(happened_since, service, name, after, blind=hidden))
            left = end - time.monotonic()
            if items or left <= 0.0 or service.stopping:
                return items, following
            after = following
            try:
                await asyncio.wait_for(woken.wait(), left)
            except TimeoutError:
                return items, following


async def _stream(
    request: Asked, name: str, after: int | None, *, hidden: bool
) -> AsyncIterator[ServerSentEventMessage]:
    """Events as they happen, until the stream's time is up or the caller's key is revoked."""
    service, end = service_of(request), time.monotonic() + STREAM_SECONDS
    yield ServerSentEventMessage(None, comment="Opportune", retry=RETRY_MILLISECONDS)
    while not service.stopping and time.monotonic() < end:
        items, after = await _next(service, name, after, hidden=hidden, seconds=STILL_SECONDS)
        if items and await caller_now(request) is None:
            return
        for item in items:
            body = msgspec.json.encode(item).decode()
            yield ServerSentEventMessage(id=item["id"], event=item["kind"], data=body)
        if not items:
            yield ServerSentEventMessage(None, comment="nothing new")
