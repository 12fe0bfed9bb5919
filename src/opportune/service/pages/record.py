"""Record and export: search what happened, download the tables, verify the record."""

import re
import threading
from typing import Any

import msgspec
from litestar import Response, get, post
from litestar.params import FromPath
from litestar.response import Stream
from sqlalchemy import or_, select

from opportune.service.accounts.keys import ADMIN, ANALYST, STAFF
from opportune.service.api.requests import PAGE, roles
from opportune.service.export import exports
from opportune.service.monitoring.alerts import CODES
from opportune.service.pages.shared import Asked, Form, Page, View, form_of, in_thread, view_of
from opportune.service.problems import Refused
from opportune.service.record import events, queries, tables
from opportune.service.state import clock
from opportune.service.verify.check import verify_beside

READERS = roles(STAFF, ANALYST, ADMIN) | PAGE
ANALYSTS = roles(ANALYST, ADMIN) | PAGE
PER_PAGE = 100
_ONE = threading.Lock()
"""Who verifies."""


def _search(view: View, form: Form | None) -> dict[str, Any]:
    """Events that fit, the latest first."""
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
        if view.role == ANALYST:  # who knows people by role and number
            wrote = queries.rows(view.service.database, select(table.c.who).distinct())
            names = [row["who"] for row in wrote if view.named(row["who"]) == asked["who"]]
        query = query.where(table.c.who.in_(names))
    if asked["text"]:
        query = query.where(_has_text(asked["text"], named=view.role != ANALYST))
    if asked["before"].isdecimal() and len(asked["before"]) < 18:
        query = query.where(table.c.seq < int(asked["before"]))
    found = queries.rows(view.service.database, query.order_by(table.c.seq.desc()).limit(PER_PAGE + 1))
    rows, more = queries.page(found, PER_PAGE)
    shown = []
    for row in rows:
        event = events.decode(row["body"])
        about = {key: value for key, value in event.given.items() if key != "file"}
        shown.append({
            "seq": row["seq"], "kind": row["kind"], "participant": row["participant"] or "",
            "who": view.named(row["who"]),
            "at": view.t.exact(row["received"], view.timezone), "hash": row["hash"],
            "given": msgspec.json.format(msgspec.json.encode(about), indent=2).decode(),
            "answer": msgspec.json.format(msgspec.json.encode(event.answer), indent=2).decode(),
        })  # fmt: skip
    return {"rows": shown, "asked": asked, "before": rows[-1]["seq"] if more else None, "kinds": events.KINDS}


def _has_text(text: str, *, named: bool) -> Any:
    """Whether an event has a text; without names, only in what does not say who did it."""
    table = tables.events.c
    if named:
        return table.body.contains(text, autoescape=True)
    # The name ends before `received`. Quotes in it are escaped, so that it cannot look like what follows.
    after = table.body.like('%"received":"%' + re.sub(r"([/%_])", r"/\1", text) + "%", escape="/")
    return or_(after, *(c.contains(text, autoescape=True) for c in (table.kind, table.participant, table.decision)))


@get("/record", opt=READERS, sync_to_thread=True, include_in_schema=False)
def show_record(request: Asked) -> Page:
    """The latest of what happened."""
    view = view_of(request)
    return view.show("record.html", verdict=None, names=exports.NAMES, **_search(view, None))


@post("/record", opt=READERS, include_in_schema=False, status_code=200)
async def search_record(request: Asked) -> Page:
    """Search what happened."""
    form = await form_of(request)
    view = await in_thread(view_of, request)
    return await in_thread(lambda: view.show("record.html", verdict=None, names=exports.NAMES, **_search(view, form)))


@post("/record/verify", opt=ANALYSTS, include_in_schema=False, status_code=200)
async def verify_record(request: Asked) -> Page:
    """Work everything out again from the record, and compare."""
    await form_of(request)
    view = await in_thread(view_of, request)

    def look() -> Page:
        if not _ONE.acquire(blocking=False):
            raise Refused("too_many", "the record is being verified at this moment")
        try:
            found = verify_beside(view.service.database.url)
        finally:
            _ONE.release()
        if found.holds:
            view.service.alerts.clear("verify")
        else:
            view.service.alerts.raise_alert(CODES["verify"][0], "verify", None, CODES["verify"][1])
        return view.show("record.html", verdict=found, names=exports.NAMES, **_search(view, None))

    return await in_thread(look)


@get("/exports/{name:str}", opt=ANALYSTS, sync_to_thread=True, include_in_schema=False)
def download(request: Asked, name: FromPath[str]) -> Response[Any]:
    """A table as a file."""
    database = view_of(request).service.database
    day = clock.iso(clock.now())[:10]
    if name == "dictionary.json":
        body = msgspec.json.format(msgspec.json.encode(exports.dictionary(database)), indent=2)
        headers = {"Content-Disposition": f'attachment; filename="dictionary-{day}.json"'}
        return Response(body, media_type="application/json", headers=headers)
    stem, dot, ending = name.rpartition(".")
    if stem not in exports.NAMES or (dot, ending) != (".", "csv"):
        raise Refused("not_found", "no export has this name")
    headers = {"Content-Disposition": f'attachment; filename="{stem}-{day}.csv"'}
    return Stream(exports.whole_file(database, stem), media_type="text/csv", headers=headers)


RECORD = [show_record, search_record, verify_record, download]
