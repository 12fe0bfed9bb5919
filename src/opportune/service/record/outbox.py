"""The outbox: messages about alerts, calls, decisions and the end of the record, stored with what they are about.

They are written in the transaction of what they tell, so none is lost, and none tells what was not stored. They name
participants by their pseudonyms and hold no health data.
"""

from collections.abc import Iterable
from typing import Any

import msgspec
from sqlalchemy import Connection, insert

from opportune.service.record import events, tables
from opportune.service.record.events import Event
from opportune.service.state import clock
from opportune.service.state.study import StudyInForce

ALERT, CALL, SETTLED, HEAD, UNATTENDED, CHANGED = "alert", "call", "settled", "head", "unattended", "changed"
FOLLOWED = "followed"
"""What an app's server is told, so that it wakes a participant's phone; within, `kind` is what apps call it."""
WEBHOOK, MAIL, REDCAP, APP = "webhook", "mail", "redcap", "app"
MAILED = {ALERT, UNATTENDED}
"""What people are written to about; programs may want the rest."""


def put(
    connection: Connection, running: StudyInForce, messages: Iterable[tuple[str, dict[str, Any]]], now: int, *,
    rehearsal: bool = False,
) -> None:  # fmt: skip
    """Store messages, given as (kind, content), for each channel that the study file has for them.

    What is rehearsed is not written to REDCap, which holds what happened to people.
    """
    head = {"study": running.study.name, "at": clock.iso(now)}
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    for kind, content in messages:
        body = msgspec.json.encode({**head, "kind": kind, **content}).decode()
        row = {"kind": kind, "created": now, "attempts": 0, "due": now, "body": body}
        for channel in _channels(running, kind):
            if channel != REDCAP or not rehearsal:
                rows[channel, body] = {**row, "channel": channel}
    if rows:
        connection.execute(insert(tables.outbox), list(rows.values()))


def _channels(running: StudyInForce, kind: str) -> list[str]:
    serve = running.study.settings.serve
    if kind == CHANGED:
        return [] if running.study.settings.redcap is None else [REDCAP]
    if kind == FOLLOWED:
        return [APP] if serve.app_webhook else []
    if kind not in {ALERT, HEAD, UNATTENDED, *serve.messages}:
        return []
    mailed = bool(serve.mail) and (kind in MAILED or kind in serve.messages)
    return [channel for channel, wanted in ((WEBHOOK, serve.webhook), (MAIL, mailed)) if wanted]


_CHANGING = {
    events.ENROLLED, events.PROPOSED, events.SETTLED, events.ANSWERED_LATE, events.REWARDED, events.CORRECTED,
    events.SKIPPED, events.REPORTED_CORRECTED, events.OUTCOME_CORRECTED, events.ZONE_CORRECTED, events.REINSTATED,
    events.STATUS,
}  # fmt: skip
"""Events that change what is written to REDCap of a participant or a decision."""


def messages_about(event: Event) -> list[tuple[str, dict[str, Any]]]:
    """What an event is worth telling: that a call is due or was settled, that there is something new about someone."""
    about = {"participant": event.participant, "decision": event.decision}
    found: list[tuple[str, dict[str, Any]]] = []
    if event.kind == events.PROPOSED and event.answer["nudged"] and "settled" not in event.answer:
        found.append((CALL, {**about, "path": "/today"}))
    elif event.kind == events.SETTLED:
        found.append((SETTLED, {**about, "outcome": event.answer["outcome"]}))
    if event.kind in _CHANGING and not (found and found[0][0] == CALL):
        found.append((CHANGED, about))
    if event.kind in events.FOR_APPS:
        found.append((FOLLOWED, {**about, "kind": events.FOR_APPS[event.kind], "event": str(event.seq)}))
    return found
