"""The record: search events, download the tables, verify."""

import re
import threading
from typing import Any

import msgspec
from litestar import Response, get, post
from litestar.params import FromPath
from litestar.response import Stream
from sqlalchemy import and_, or_, select

from opportune.service.accounts.changes import Actor, note_access
from opportune.service.accounts.keys import ADMIN, ANALYST, STAFF
from opportune.service.accounts.pseudonyms import without_names
from opportune.service.api.requests import PAGE, origin_of, roles
from opportune.service.export import exports
from opportune.service.export.download import whole_file
from opportune.service.monitoring.alerts import CODES
from opportune.service.pages.forms import Form, form_of
from opportune.service.pages.shared import Asked, Page, View, in_thread, view_of
from opportune.service.problems import Refused
from opportune.service.record import events, queries, tables
from opportune.service.state import clock
from opportune.service.verify.check import verify_beside

READERS = roles(STAFF, ANALYST, ADMIN) | PAGE
ANALYSTS = roles(ANALYST, ADMIN) | PAGE
PER_PAGE = 100
_ONE = threading.Lock()
"""Held while the record is being verified."""


def _search(view: View, form: Form | None) -> dict[str, Any]:
    """The events that match the form, latest first."""
    table = tables.events
    query = select(table)
    asked = {"kind": "", "participant": "", "who": "", "text": "", "before": ""}
    if form is not None:
        asked = {name: form.text(name, most=200) for name in asked}
    if asked["kind"] in events.KINDS:
        query = query.where(table.c.kind == asked["kind"])
    if asked["participant"]:
        query = query.where(table.c.participant == asked["participant"])
    if asked["who"]:
        names = [asked["who"]]
        if view.role == ANALYST:  # analysts know people by role and number
            wrote = queries.rows(view.service.database, select(table.c.who).distinct())
            names = [row["who"] for row in wrote if view.named(row["who"]) == asked["who"]]
        query = query.where(table.c.who.in_(names))
    if asked["text"]:
        query = query.where(_has_text(asked["text"], named=view.role != ANALYST, blind=view.blind))
    if asked["before"].isdecimal() and len(asked["before"]) < 18:
        query = query.where(table.c.seq < int(asked["before"]))
    found = queries.rows(view.service.database, query.order_by(table.c.seq.desc()).limit(PER_PAGE + 1))
    rows, more = queries.page(found, PER_PAGE)
    shown = []
    for row in rows:
        event = msgspec.json.decode(row["body"])
        if view.role == ANALYST:
            event = without_names(event, view.named)
        elif view.role == STAFF:
            event = events.for_staff(event, blind=view.blind)
        answer, about = event["answer"], {key: value for key, value in event["given"].items() if key != "file"}
        if asked["text"] and view.role != ADMIN and not _shows(event, about, asked["text"]):
            continue  # a match in hidden text would reveal that text
        shown.append({
            "seq": row["seq"], "kind": row["kind"], "participant": row["participant"] or "",
            "who": view.named(row["who"]),
            "at": view.t.exact(row["received"], view.timezone), "hash": "" if view.role == ANALYST else row["hash"],
            "given": msgspec.json.format(msgspec.json.encode(about), indent=2).decode(),
            "answer": msgspec.json.format(msgspec.json.encode(answer), indent=2).decode(),
        })  # fmt: skip
    return {"rows": shown, "asked": asked, "before": rows[-1]["seq"] if more else None, "kinds": events.KINDS}


def _shows(event: dict[str, Any], about: dict[str, Any], text: str) -> bool:
    """Whether the visible part of an event contains a text."""
    named = (event["kind"], event["participant"], event["decision"], event["who"])
    parts = [word or "" for word in named] + [msgspec.json.encode(each).decode() for each in (about, event["answer"])]
    return any(text.lower() in part.lower() for part in parts)


def _has_text(text: str, *, named: bool, blind: bool) -> Any:
    """A condition: an event contains a text in the part that the searcher may see, without names or answers."""
    table = tables.events.c
    if blind:  # the answer is the last part of an event
        return table.body.like("%" + re.sub(r"([/%_])", r"/\1", text) + '%"answer":{%', escape="/")
    if named:
        return table.body.contains(text, autoescape=True)
    # The name stands before `received`. Quotes in it are escaped, so it cannot imitate what follows.
    after = table.body.like('%"received":"%' + re.sub(r"([/%_])", r"/\1", text) + "%", escape="/")
    about_accounts = table.kind.in_(events.ADMINISTRATION)  # they name accounts
    others = (table.kind, table.participant, table.decision)
    return or_(and_(after, ~about_accounts), *(c.contains(text, autoescape=True) for c in others))


@get("/record", opt=READERS, sync_to_thread=True, include_in_schema=False)
def show_record(request: Asked) -> Page:
    """The latest events."""
    view = view_of(request)
    return view.show("record.html", verdict=None, names=exports.NAMES, **_search(view, None))


@post("/record", opt=READERS, include_in_schema=False, status_code=200)
async def search_record(request: Asked) -> Page:
    """The events that match a search."""
    form = await form_of(request)
    view = await in_thread(view_of, request)
    return await in_thread(lambda: view.show("record.html", verdict=None, names=exports.NAMES, **_search(view, form)))


@post("/record/verify", opt=ANALYSTS, include_in_schema=False, status_code=200)
async def verify_record(request: Asked) -> Page:
    """Recompute everything from the record and compare."""
    await form_of(request)
    view = await in_thread(view_of, request)

    def look() -> Page:
        if not _ONE.acquire(blocking=False):
            raise Refused("too_many", "the record is being verified at this moment")
        try:
            found = verify_beside(view.service.database.url)
        finally:
            _ONE.release()
        by, database = Actor(view.who, origin_of(request)), view.service.database
        note_access(database, by, "verified", holds=found.holds, events=found.count, head=found.head)
        if found.holds:
            view.service.alerts.clear("verify")
        else:
            view.service.alerts.raise_alert(CODES["verify"][0], "verify", None, CODES["verify"][1])
        return view.show("record.html", verdict=found, names=exports.NAMES, **_search(view, None))

    return await in_thread(look)


@get("/exports/{name:str}", opt=ANALYSTS, sync_to_thread=True, include_in_schema=False)
def download(request: Asked, name: FromPath[str]) -> Response[Any]:
    """Download a table; the download is on record."""
    view = view_of(request)
    database = view.service.database
    day = clock.iso(clock.now())[:10]
    if name == "dictionary.json":
        note_access(database, Actor(view.who, origin_of(request)), "exported", files=[name])
        body = msgspec.json.format(msgspec.json.encode(exports.dictionary(database)), indent=2)
        headers = {"Content-Disposition": f'attachment; filename="dictionary-{day}.json"'}
        return Response(body, media_type="application/json", headers=headers)
    stem, dot, ending = name.rpartition(".")
    if stem not in exports.NAMES or (dot, ending) != (".", "csv"):
        raise Refused("not_found", "no export has this name")
    note_access(database, Actor(view.who, origin_of(request)), "exported", files=[name])
    headers = {"Content-Disposition": f'attachment; filename="{stem}-{day}.csv"'}
    return Stream(whole_file(database, stem), media_type="text/csv", headers=headers)


RECORD = [show_record, search_record, verify_record, download]
