"""The addresses for reading: participants, decisions, calls, the study, the record, in pages."""

from typing import Annotated, Any

import msgspec
from litestar import Request, Response, get
from litestar.datastructures import State
from litestar.openapi.datastructures import ResponseSpec
from litestar.params import FromPath, HeaderParameter
from litestar.response import Stream

from opportune.service.accounts.changes import Actor, note_access
from opportune.service.accounts.keys import ADMIN, ANALYST, APP, PHONE, STAFF
from opportune.service.accounts.pseudonyms import labels, shown_hashes, without_names
from opportune.service.api import answers, study_answers
from opportune.service.api.events import participant_events
from opportune.service.api.problems import READING, refusals
from opportune.service.api.requests import (
    After,
    Limit,
    answer,
    as_json,
    blind,
    caller_of,
    gives,
    known_decision,
    known_name,
    number_of,
    origin_of,
    received,
    roles,
    sees_arms,
    service_of,
)
from opportune.service.commands.base import NOT_ASKED, decision_answer, reward_answer
from opportune.service.commands.participants import FetchBundle
from opportune.service.export import exports
from opportune.service.export.download import whole_file
from opportune.service.problems import Refused
from opportune.service.record import queries
from opportune.service.record.events import for_staff
from opportune.service.state import clock
from opportune.service.state.content import content_of, content_version
from opportune.service.state.projection import known_of
from opportune.service.state.study import StudyInForce

Asked = Request[Any, Any, State]
IfNoneMatch = Annotated[
    str | None,
    HeaderParameter(name="If-None-Match", max_length=1000, description="The ETag of the version that the caller has."),
]


def participant_details(
    row: dict[str, Any], study: dict[str, Any], *, blind: bool = False, arms: bool = True
) -> dict[str, Any]:
    """A participant's row as the API shows it; `blind` hides the budget, and `arms=False` the arm."""
    spending = study if study["amount"] is not None else row
    left = None
    if spending["amount"] is not None and not blind:
        left = spending["amount"] - spending["spent"]
        if spending["hard"]:
            left = min(left, spending["amount"] - spending["nudges"])
    return {
        "participant": row["name"], "status": row["status"], "reason": row["reason"], "timezone": row["timezone"],
        "next_timezone": row["next_timezone"],
        "next_from": None if row["next_from"] is None else row["next_from"].isoformat(),
        "number": row["number"], "arm": (row["arm"] or None) if arms else None,
        "baseline": None if row["baseline"] is None else msgspec.json.decode(row["baseline"]),
        "enrolled": clock.iso(row["enrolled"]), "step": row["step"],
        "budget_left": left, "open_decision": row["open_decision"],
        "last_decided": None if row["last_decided"] is None else clock.iso(row["last_decided"]),
        "last_reveal": None if row["last_reveal"] is None else clock.iso(row["last_reveal"]),
        "nudges": row["nudges"],
    }  # fmt: skip


def decision_details(row: dict[str, Any], *, blind: bool = False) -> dict[str, Any]:
    """A decision's row as the API shows it."""
    reported, sensed = known_of(row), {} if row["reason"] == NOT_ASKED else msgspec.json.decode(row["sensed"])
    return {
        **decision_answer({**row, "nudge": bool(row["nudge"])}, blind=blind),
        "day": row["day"], "happened": clock.iso(row["happened"]), "received": clock.iso(row["received"]),
        "available": bool(row["available"]), "reason": row["reason"], "sensed": sensed,
        "reported": None if reported is None else msgspec.json.decode(reported),
        **{name: reward_answer(row)[name] for name in ("reward", "learned", "skipped", "changes")},
    }  # fmt: skip


def _study(request: Asked) -> dict[str, Any]:
    found = queries.study_row(service_of(request).database)
    if found is None:
        raise Refused("not_found", "no study is launched in this database")
    return found


@get(
    "/participants", opt=roles(STAFF, ANALYST, ADMIN), sync_to_thread=True,
    responses=gives(answers.ParticipantPage, "A page."), tags=["participants"],
    operation_id="list_participants", summary="All participants",
)  # fmt: skip
def list_participants(request: Asked, after: After = None, limit: Limit = 100) -> Response[bytes]:
    """All participants, in the order of their names."""
    study = _study(request)
    start = "" if after is None else known_name(after)
    found = queries.participant_rows(service_of(request).database, after=start, limit=limit + 1)
    rows, more = queries.page(found, limit)
    items = [participant_details(row, study, blind=blind(request), arms=sees_arms(request)) for row in rows]
    return as_json({"items": items, "next": rows[-1]["name"] if more else None})


@get(
    "/participants/{participant:str}", opt=roles(APP, PHONE, STAFF, ANALYST, ADMIN), sync_to_thread=True,
    tags=["participants"], responses=gives(answers.ParticipantDetails, "The participant."),
    operation_id="get_participant", summary="One participant",
)  # fmt: skip
def get_participant(request: Asked, participant: FromPath[str]) -> Response[bytes]:
    """Status, budget and progress."""
    row = queries.participant_row(service_of(request).database, known_name(participant))
    if row is None:
        raise Refused("not_found", "no participant has this name")
    return as_json(participant_details(row, _study(request), blind=blind(request), arms=sees_arms(request)))


@get(
    "/participants/{participant:str}/decisions", opt=roles(STAFF, ANALYST, ADMIN), sync_to_thread=True,
    responses=gives(answers.DecisionPage, "A page."), tags=["decisions"], operation_id="list_decisions",
    summary="A participant's decisions",
)  # fmt: skip
def list_decisions(
    request: Asked, participant: FromPath[str], after: After = None, limit: Limit = 100
) -> Response[bytes]:
    """A participant's decisions, by decision point."""
    database, name = service_of(request).database, known_name(participant)
    if queries.participant_row(database, name) is None:
        raise Refused("not_found", "no participant has this name")
    found = queries.decision_rows(database, name, after=min(number_of(after), 2**31 - 1), limit=limit + 1)
    rows, more = queries.page(found, limit)
    items = [decision_details(row, blind=blind(request)) for row in rows]
    return as_json({"items": items, "next": str(rows[-1]["step"]) if more else None})


@get(
    "/participants/{participant:str}/bundle", opt=roles(APP, PHONE), tags=["participants"],
    operation_id="bundle",
    responses=gives(answers.Bundle, "The bundle.", refusals(404, 409, 503)), summary="What to show offline",
)  # fmt: skip
async def bundle(request: Asked, participant: FromPath[str]) -> Response[bytes]:
    """The advice that a phone can show while it is offline, at the coming decision points, until the next reveal.

    Not for staff: if actions are drawn at random, the bundle contains future draws.
    """
    command = FetchBundle(who=caller_of(request).name, received=received(request), participant=known_name(participant))
    return answer(await service_of(request).carry_out(command))


@get(
    "/decisions/{decision:str}", opt=roles(APP, PHONE, STAFF, ANALYST, ADMIN), sync_to_thread=True, tags=["decisions"],
    responses=gives(answers.DecisionDetails, "The decision."), operation_id="get_decision", summary="One decision",
)  # fmt: skip
def get_decision(request: Asked, decision: FromPath[str]) -> Response[bytes]:
    """One decision, as it is now."""
    row = queries.decision_row(service_of(request).database, known_decision(decision))
    if row is None:
        raise Refused("not_found", "no decision has this id")
    if caller_of(request).role in {STAFF, ADMIN}:
        service_of(request).alerts.viewed.note([row])
    return as_json(decision_details(row, blind=blind(request)))


@get(
    "/calls", opt=roles(STAFF, ADMIN), sync_to_thread=True, responses=gives(answers.DecisionPage, "A page."),
    tags=["decisions"], operation_id="calls", summary="Whom to reach now",
)  # fmt: skip
def calls(request: Asked, after: After = None, limit: Limit = 100) -> Response[bytes]:
    """Nudges that wait for an answer, the most urgent first."""
    start = (0, "")
    if after is not None:
        expires, _, decision = after.partition(".")
        start = (number_of(expires), known_decision(decision))
    found = queries.open_nudges(service_of(request).database, after=start, limit=limit + 1)
    rows, more = queries.page(found, limit)
    following = f"{rows[-1]['expires']}.{rows[-1]['id']}" if more else None
    service_of(request).alerts.viewed.note(rows)
    items = [decision_details(row, blind=blind(request)) for row in rows]
    return as_json({"items": items, "next": following})


@get(
    "/study", opt=roles(APP, PHONE, STAFF, ANALYST, ADMIN), sync_to_thread=True, tags=["study"], operation_id="study",
    responses=gives(study_answers.StudyState, "The study."), summary="The study",
)  # fmt: skip
def study(request: Asked) -> Response[bytes]:
    """The study's name, status, size, budget and open alerts; the service's time, and the caller's role."""
    row = _study(request)
    database = service_of(request).database
    texts = {
        name: {"label": action.label}
        for name, action in StudyInForce.from_text(row["file"]).study.settings.actions.items()
    }
    if caller_of(request).role == PHONE:
        mine = {"study": row["name"], "status": row["status"], "hash": row["hash"], "actions": texts}
        now = clock.iso(service_of(request).now())
        return as_json({**mine, "rehearsal": service_of(request).rehearsal, "now": now, "role": PHONE})
    if caller_of(request).role == ANALYST:
        row["hash"] = shown_hashes(database)[row["hash"]]
    spent, nudges = queries.spent(database, row)
    alerts = [
        {"level": alert["level"], "code": alert["code"], "participant": alert["participant"], "text": alert["text"],
         "raised": clock.iso(alert["raised"])}
        for alert in queries.alert_rows(database)
    ]  # fmt: skip
    state = {
        "study": row["name"], "status": row["status"], "launched": clock.iso(row["launched"]), "hash": row["hash"],
        "enrolled": row["enrolled"], "amendments": row["amendments"], "events": row["seq"], "head": row["head"],
        "shared_budget": row["amount"], "spent": None if blind(request) else spent, "nudges": nudges,
        "rehearsal": service_of(request).rehearsal, "now": clock.iso(service_of(request).now()),
        "role": caller_of(request).role, "actions": texts,
    }  # fmt: skip
    if caller_of(request).role == APP:
        return as_json(state)
    return as_json({**state, "alerts": alerts})


@get(
    "/study/content", opt=roles(APP, PHONE, STAFF, ANALYST, ADMIN), sync_to_thread=True, tags=["study"],
    operation_id="study_content",
    responses=gives(
        study_answers.StudyContent, "The content.", {304: ResponseSpec(None, description="It is unchanged.")}
    ),
    summary="What an app shows and asks",
)  # fmt: skip
def study_content(request: Asked, known: IfNoneMatch = None) -> Response[Any]:
    """Texts of actions, questions and answers, times, and the language; the ETag changes whenever they may have."""
    _study(request)
    running = service_of(request).running
    tag = f'"{content_version(running)}"'
    headers = {"ETag": tag, "Cache-Control": "private, no-cache"}
    if known is not None and (
        known.strip() == "*" or tag in {part.strip().removeprefix("W/") for part in known.split(",")}
    ):
        return Response(None, status_code=304, headers=headers)
    return as_json(content_of(running), headers=headers)


@get(
    "/events", opt=roles(STAFF, ANALYST, ADMIN), sync_to_thread=True, tags=["study"],
    responses=gives(study_answers.RecordPage, "A page."), operation_id="events", summary="The record",
)  # fmt: skip
def events(request: Asked, after: After = None, limit: Limit = 100) -> Response[bytes]:
    """Events in order, as they are stored and hashed.

    Analysts get them without the names of people, blinded staff without the numbers behind decisions.
    """
    database = service_of(request).database
    found = queries.event_rows(database, after=number_of(after), limit=limit + 1)
    rows, more = queries.page(found, limit)
    decoded = (msgspec.json.decode(row["body"]) for row in rows)
    if caller_of(request).role == ANALYST:
        label, files = labels(database), shown_hashes(database)
        items: list[Any] = [{"event": without_names(event, label, files)} for event in decoded]
    elif caller_of(request).role == STAFF:
        shown = (for_staff(event, blind=blind(request)) for event in decoded)
        items = [{"hash": row["hash"], "event": event} for row, event in zip(rows, shown, strict=True)]
    else:
        items = [{"hash": row["hash"], "event": msgspec.Raw(row["body"].encode())} for row in rows]
    return as_json({"items": items, "next": str(rows[-1]["seq"]) if more else None})


@get(
    "/exports/{name:str}", opt=roles(ANALYST, ADMIN), sync_to_thread=True, tags=["exports"], operation_id="export",
    responses={
        **READING,
        200: ResponseSpec(bytes, description="The file.", generate_examples=False, media_type="text/csv"),
    },
    summary=f"{', '.join(f'{name}.csv' for name in exports.NAMES)} or dictionary.json",
)  # fmt: skip
def export(request: Asked, name: FromPath[str]) -> Response[Any]:
    """A table of the study, which contains pseudonyms only; `dictionary.json` explains every column."""
    database = service_of(request).database
    by = Actor(caller_of(request).name, origin_of(request))
    if name == "dictionary.json":
        note_access(database, by, "exported", files=[name])
        return as_json(exports.dictionary(database))
    stem, dot, ending = name.rpartition(".")
    if stem not in exports.NAMES or (dot, ending) != (".", "csv"):
        raise Refused("not_found", f"no export has this name; expected one of {', '.join(exports.NAMES)}, as .csv")
    note_access(database, by, "exported", files=[name])
    headers = {"Content-Disposition": f'attachment; filename="{name}"', "Cache-Control": "no-store"}
    return Stream(whole_file(database, stem), media_type="text/csv", headers=headers)


@get(
    "/access", opt=roles(ADMIN), sync_to_thread=True, responses=gives(answers.AccessPage, "A page."), tags=["study"],
    operation_id="access", summary="Who looked at what",
)  # fmt: skip
def access(request: Asked, after: After = None, limit: Limit = 100) -> Response[bytes]:
    """Reads by people and keys, the latest first; writes and exports are in the record instead."""
    log = service_of(request).access
    log.write()
    found = log.read(before=number_of(after) or None, limit=limit + 1)
    rows, more = queries.page(found, limit)
    items = [{**row, "at": clock.iso(row["at"])} for row in rows]
    return as_json({"items": items, "next": str(rows[-1]["id"]) if more else None})


READS = [
    list_participants, get_participant, list_decisions, bundle, participant_events, get_decision, calls, study,
    study_content, events, export, access,
]  # fmt: skip
