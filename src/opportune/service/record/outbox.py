"""The outbox: messages about alerts, calls, decisions and the end of the record.

Each is written in the transaction of the event that it reports, so that none is lost and none reports what was not
stored. Messages name participants by their pseudonyms and contain no health data.
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
"""A message to an app's server, so that it wakes a participant's phone; `kind` in its body is the app's word."""
WEBHOOK, MAIL, REDCAP, APP = "webhook", "mail", "redcap", "app"
MAILED = {ALERT, UNATTENDED}
"""Kinds that are always mailed; the study file may name others."""


def put(
    connection: Connection, running: StudyInForce, messages: Iterable[tuple[str, dict[str, Any]]], now: int, *,
    rehearsal: bool = False,
) -> None:  # fmt: skip
    """Store messages, given as (kind, content), for each channel that the study file sets up for them.

    A rehearsal writes nothing to REDCap, which holds what happened to people.
    """
    head = {"study": running.study.name, "at": clock.iso(now)}
    rows: dict[tuple[str, str], dict[str, Any]] = {}
    for kind, content in messages:
        for channel in _channels(running, kind):
            if channel != REDCAP or not rehearsal:
                body = msgspec.json.encode({**head, "kind": kind, **content}).decode()
                rows[channel, body] = {
                    "kind": kind,
                    "created": now,
                    "attempts": 0,
                    "due": now,
                    "body": body,
                    "channel": channel,
                }
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
"""Events that change what REDCap holds about a participant or a decision."""


def messages_about(event: Event) -> list[tuple[str, dict[str, Any]]]:
    """The messages that an event gives rise to: a call is due or settled, or something about a participant changed."""
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
