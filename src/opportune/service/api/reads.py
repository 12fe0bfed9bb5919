"""The addresses that read: participants, decisions, calls, the study, the record, in pages."""

from typing import Any

import msgspec
from litestar import Request, Response, get
from litestar.datastructures import State
from litestar.openapi.datastructures import ResponseSpec
from litestar.params import FromPath
from litestar.response import Stream

from opportune.service.accounts.keys import ADMIN, ANALYST, APP, STAFF
from opportune.service.accounts.pseudonyms import labels
from opportune.service.api import models
from opportune.service.api.problems import READING, refusals
from opportune.service.api.requests import (
    After,
    Limit,
    answer,
    as_json,
    caller_of,
    known_decision,
    known_name,
    received,
    roles,
    service_of,
)
from opportune.service.commands.base import NOT_ASKED, decision_answer, reward_answer
from opportune.service.commands.participants import FetchBundle
from opportune.service.export import exports
from opportune.service.problems import Refused
from opportune.service.record import queries
from opportune.service.state import clock
from opportune.service.state.projection import known_of

Asked = Request[Any, Any, State]


def _shown(container: Any, description: str) -> dict[int, ResponseSpec]:
    return {**READING, 200: ResponseSpec(container, description=description, generate_examples=False)}


def participant_details(row: dict[str, Any], study: dict[str, Any]) -> dict[str, Any]:
    """A participant's row as the API shows it."""
    spending = study if study["amount"] is not None else row
    left = None
    if spending["amount"] is not None:
        left = spending["amount"] - spending["spent"]
        if spending["hard"]:
            left = min(left, spending["amount"] - spending["nudges"])
    return {
        "participant": row["name"], "status": row["status"], "reason": row["reason"], "timezone": row["timezone"],
        "number": row["number"], "stream": row["stream"], "enrolled": clock.iso(row["enrolled"]), "step": row["step"],
        "budget_left": left, "open_decision": row["open_decision"],
        "last_decided": None if row["last_decided"] is None else clock.iso(row["last_decided"]),
        "last_reveal": None if row["last_reveal"] is None else clock.iso(row["last_reveal"]),
        "nudges": row["nudges"],
    }  # fmt: skip


def decision_details(row: dict[str, Any]) -> dict[str, Any]:
    """A decision's row as the API shows it."""
    told, sensed = known_of(row), {} if row["reason"] == NOT_ASKED else msgspec.json.decode(row["sensed"])
    return {
        **decision_answer({**row, "nudge": bool(row["nudge"])}),
        "day": row["day"], "happened": clock.iso(row["happened"]), "received": clock.iso(row["received"]),
        "available": bool(row["available"]), "reason": row["reason"], "sensed": sensed,
        "reported": None if told is None else msgspec.json.decode(told),
        **{name: reward_answer(row)[name] for name in ("reward", "learned", "skipped", "changes")},
    }  # fmt: skip


def _study(request: Asked) -> dict[str, Any]:
    found = queries.study_row(service_of(request).database)
    if found is None:
        raise Refused("not_found", "no study is launched in this database")
    return found


def _number(after: str | None) -> int:
    """A page's beginning where it is a number."""
    if after is None:
        return 0
    if not after.isdecimal() or len(after) > 18 or not after.isascii():
        raise Refused("invalid", f"after is {after!r}; expected `next` of the page before")
    return int(after)


@get(
    "/participants", opt=roles(STAFF, ANALYST, ADMIN), sync_to_thread=True, responses=_shown(models.Page, "A page."),
    tags=["participants"], operation_id="list_participants", summary="All participants",
)  # fmt: skip
def list_participants(request: Asked, after: After = None, limit: Limit = 100) -> Response[bytes]:
    """Participants in the order of their names."""
    study = _study(request)
    start = "" if after is None else known_name(after)
    found = queries.participant_rows(service_of(request).database, after=start, limit=limit + 1)
    rows, more = queries.page(found, limit)
    items = [participant_details(row, study) for row in rows]
    return as_json({"items": items, "next": rows[-1]["name"] if more else None})


@get(
    "/participants/{participant:str}", opt=roles(APP, STAFF, ANALYST, ADMIN), sync_to_thread=True,
    tags=["participants"], responses=_shown(dict[str, Any], "The participant."),
    operation_id="get_participant", summary="One participant",
)  # fmt: skip
def get_participant(request: Asked, participant: FromPath[str]) -> Response[bytes]:
    """Status, budget and progress."""
    row = queries.participant_row(service_of(request).database, known_name(participant))
    if row is None:
        raise Refused("not_found", "no participant has this name")
    return as_json(participant_details(row, _study(request)))


@get(
    "/participants/{participant:str}/decisions", opt=roles(STAFF, ANALYST, ADMIN), sync_to_thread=True,
    responses=_shown(models.Page, "A page."), tags=["decisions"], operation_id="list_decisions",
    summary="A participant's decisions",
)  # fmt: skip
def list_decisions(
    request: Asked, participant: FromPath[str], after: After = None, limit: Limit = 100
) -> Response[bytes]:
    """Decisions in their order."""
    database, name = service_of(request).database, known_name(participant)
    if queries.participant_row(database, name) is None:
        raise Refused("not_found", "no participant has this name")
    found = queries.decision_rows(database, name, after=min(_number(after), 2**31 - 1), limit=limit + 1)
    rows, more = queries.page(found, limit)
    return as_json({"items": [decision_details(row) for row in rows], "next": str(rows[-1]["step"]) if more else None})


@get(
    "/participants/{participant:str}/bundle", opt=roles(APP, STAFF), tags=["participants"], operation_id="bundle",
    responses={**_shown(dict[str, Any], "The bundle."), **refusals(404, 409, 503)}, summary="What to show offline",
)  # fmt: skip
async def bundle(request: Asked, participant: FromPath[str]) -> Response[bytes]:
    """What the phone can show at the coming decision points while it is offline, until the next reveal."""
    command = FetchBundle(who=caller_of(request).name, received=received(request), participant=known_name(participant))
    return answer(await service_of(request).carry_out(command))


@get(
    "/decisions/{decision:str}", opt=roles(APP, STAFF, ANALYST, ADMIN), sync_to_thread=True, tags=["decisions"],
    responses=_shown(dict[str, Any], "The decision."), operation_id="get_decision", summary="One decision",
)  # fmt: skip
def get_decision(request: Asked, decision: FromPath[str]) -> Response[bytes]:
    """A decision as it stands."""
    row = queries.decision_row(service_of(request).database, known_decision(decision))
    if row is None:
        raise Refused("not_found", "no decision has this id")
    if caller_of(request).role in {STAFF, ADMIN}:
        service_of(request).alerts.viewed.note([row])
    return as_json(decision_details(row))


@get(
    "/calls", opt=roles(STAFF, ADMIN), sync_to_thread=True, responses=_shown(models.Page, "A page."),
    tags=["decisions"], operation_id="calls", summary="Whom to reach now",
)  # fmt: skip
def calls(request: Asked, after: After = None, limit: Limit = 100) -> Response[bytes]:
    """Nudges that wait for an answer, the most urgent first."""
    start = (0, "")
    if after is not None:
        expires, _, decision = after.partition(".")
        start = (_number(expires), known_decision(decision))
    found = queries.open_nudges(service_of(request).database, after=start, limit=limit + 1)
    rows, more = queries.page(found, limit)
    following = f"{rows[-1]['expires']}.{rows[-1]['id']}" if more else None
    service_of(request).alerts.viewed.note(rows)
    return as_json({"items": [decision_details(row) for row in rows], "next": following})


@get(
    "/study", opt=roles(APP, STAFF, ANALYST, ADMIN), sync_to_thread=True, tags=["study"], operation_id="study",
    responses=_shown(dict[str, Any], "The study."), summary="The study",
)  # fmt: skip
def study(request: Asked) -> Response[bytes]:
    """Name, status, size, budget, open alerts; what time it is there, and what role the key has."""
    row = _study(request)
    database = service_of(request).database
    spent, nudges = queries.spent(database, row)
    alerts = [
        {"level": alert["level"], "code": alert["code"], "participant": alert["participant"], "text": alert["text"],
         "raised": clock.iso(alert["raised"])}
        for alert in queries.alert_rows(database)
    ]  # fmt: skip
    shown = {
        "study": row["name"], "status": row["status"], "launched": clock.iso(row["launched"]), "hash": row["hash"],
        "enrolled": row["enrolled"], "amendments": row["amendments"], "events": row["seq"], "head": row["head"],
        "shared_budget": row["amount"], "spent": spent, "nudges": nudges,
        "rehearsal": service_of(request).rehearsal, "now": clock.iso(service_of(request).now()),
        "role": caller_of(request).role,
    }  # fmt: skip
    if caller_of(request).role == APP:
        return as_json(shown)
    return as_json({**shown, "alerts": alerts})


@get(
    "/events", opt=roles(STAFF, ANALYST, ADMIN), sync_to_thread=True, responses=_shown(models.Page, "A page."),
    tags=["study"], operation_id="events", summary="The record",
)  # fmt: skip
def events(request: Asked, after: After = None, limit: Limit = 100) -> Response[bytes]:
    """Events in their order, as they are stored and hashed; for analysts without the names of people."""
    database = service_of(request).database
    found = queries.event_rows(database, after=_number(after), limit=limit + 1)
    rows, more = queries.page(found, limit)
    if caller_of(request).role == ANALYST:
        label = labels(database)
        told = [msgspec.json.decode(row["body"]) for row in rows]
        shown: list[Any] = [{**event, "who": label(event["who"])} for event in told]
    else:
        shown = [msgspec.Raw(row["body"].encode()) for row in rows]
    items = [{"hash": row["hash"], "event": event} for row, event in zip(rows, shown, strict=True)]
    return as_json({"items": items, "next": str(rows[-1]["seq"]) if more else None})


@get(
    "/exports/{name:str}", opt=roles(ANALYST, ADMIN), sync_to_thread=True, tags=["exports"], operation_id="export",
    responses={
        **READING,
        200: ResponseSpec(bytes, description="The file.", generate_examples=False, media_type="text/csv"),
    },
    summary="decisions.csv, participants.csv, nudges.csv, rewards.csv, events.csv or dictionary.json",
)  # fmt: skip
def export(request: Asked, name: FromPath[str]) -> Response[Any]:
    """A table of the study, with pseudonyms only; `dictionary.json` explains every column."""
    database = service_of(request).database
    if name == "dictionary.json":
        return as_json(exports.dictionary(database))
    stem, dot, ending = name.rpartition(".")
    if stem not in exports.NAMES or (dot, ending) != (".", "csv"):
        raise Refused("not_found", f"no export has this name; expected one of {', '.join(exports.NAMES)}, as .csv")

    headers = {"Content-Disposition": f'attachment; filename="{name}"', "Cache-Control": "no-store"}
    return Stream(exports.whole_file(database, stem), media_type="text/csv", headers=headers)


READS = [list_participants, get_participant, list_decisions, bundle, get_decision, calls, study, events, export]
