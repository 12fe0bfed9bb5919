"""The launch checklist: tasks before the first participant; who completed each is on record."""

from typing import Any

import msgspec
from litestar import Response, get, post
from sqlalchemy import func, select

from opportune.service.accounts.changes import Administer
from opportune.service.accounts.keys import ADMIN
from opportune.service.api.requests import PAGE, roles
from opportune.service.pages.forms import Form, command_fields, form_of
from opportune.service.pages.refusals import stays_on
from opportune.service.pages.shared import Asked, Page, View, carry_out, go, in_thread, view_of
from opportune.service.pages.texts import Texts
from opportune.service.record import events, outbox, queries, tables
from opportune.service.state import clock

ADMINS = roles(ADMIN) | PAGE
ITEMS = ("hours", "safety", "randomisation", "accounts", "backups", "alerts", "rehearsal")
TEST = "test"
"""The level and code of a test alert."""


def items(t: Texts) -> dict[str, tuple[str, str]]:
    """The name of each item, and what to check."""
    _ = t.gettext
    return {
        "hours": (_("Hours"), _("Staff hours, holidays, quiet hours and the answer window match the protocol.")),
        "safety": (
            _("Safety"),
            _("The forbidden actions and the urgent values are right; everyone knows whom to inform."),
        ),
        "randomisation": (
            _("Randomisation"), _("Arms, blocks, strata and blinding match the protocol."),
        ),
        "accounts": (_("Accounts"), _("Everyone who needs access was invited and has signed in; nobody else can.")),
        "backups": (_("Backups"), _("A backup was made, restored on another machine, and verified there.")),
        "alerts": (_("Alerts"), _("A test alert reached the person on call by every channel in the study file.")),
        "rehearsal": (
            _("Rehearsal"), _("The people who call have rehearsed for some days with simulated participants."),
        ),
    }  # fmt: skip


def state(view: View) -> dict[str, dict[str, Any]]:
    """The items that are done: by whom, when, and with which note."""
    table = tables.events.c
    query = select(table.body, table.received).where(table.kind == events.CHECKED).order_by(table.seq)
    found: dict[str, dict[str, Any]] = {}
    for row in queries.rows(view.service.database, query):
        event = msgspec.json.decode(row["body"])
        given = event["given"]
        if given["done"]:
            found[given["item"]] = {
                "who": view.named(event["who"]), "at": view.t.moment(row["received"], view.timezone),
                "note": given["note"],
            }  # fmt: skip
        else:
            found.pop(given["item"], None)
    return found


def missing(view: View) -> list[str]:
    """The names of the items that are still to do; a rehearsal needs none."""
    if view.service.rehearsal:
        return []
    done = state(view)
    return [name for item, (name, _) in items(view.t).items() if item not in done]


def _ways(view: View) -> list[str]:
    """The channels that alerts go to, besides these pages."""
    serve = view.running.study.settings.serve
    return [*(["webhook"] if serve.webhook else []), *serve.mail]


def _findings(view: View) -> dict[str, str]:
    """Facts about the items that the service knows itself."""
    _ = view.t.gettext
    people, record = tables.people.c, tables.events.c
    with view.service.database.reading.connect() as connection:
        by_role = select(people.role, func.count()).where(people.revoked.is_(None)).group_by(people.role)
        counts = {row.role: row[1] for row in connection.execute(by_role)}
        unused = connection.execute(
            select(func.count()).where(people.revoked.is_(None), people.used.is_(None))
        ).scalar_one()
        kept = select(func.max(record.received)).where(
            record.kind == events.ACCESS, record.body.contains('"what":"backed up"', autoescape=True)
        )
        backup = connection.execute(kept).scalar()
    ways = _ways(view)
    return {
        "accounts": _(
            "Accounts: %(n)s. Never signed in: %(unused)s.", n=sum(counts.values()), unused=unused
        ),
        "backups": _("Last backup: %(at)s.", at=view.t.moment(backup, view.timezone)) if backup
        else _("No backup was made yet."),
        "alerts": _("Alerts go to: %(ways)s.", ways=", ".join(ways)) + _tested(view) if ways
        else _("The study file names no mail and no webhook: alerts appear on these pages only."),
    }  # fmt: skip


@get("/checklist", opt=ADMINS, sync_to_thread=True, include_in_schema=False)
def show_checklist(request: Asked) -> Page:
    """The checklist, with what is done and what is missing."""
    return _page(view_of(request))


def _page(view: View, form: Form | None = None) -> Page:
    done, findings = state(view), _findings(view)
    rows = [
        {"item": item, "name": name, "text": text, "done": done.get(item), "fact": findings.get(item, "")}
        for item, (name, text) in items(view.t).items()
    ]
    return view.show("checklist.html", rows=rows, left=len(rows) - len(done), ways=_ways(view))


@post("/checklist", opt=ADMINS, include_in_schema=False, status_code=200)
@stays_on(_page)
async def check(request: Asked) -> Response[Any]:
    """Mark an item as done, or undo that."""
    form = await form_of(request)
    view = await in_thread(view_of, request)
    item, done = form.choice("item", ITEMS), form.required("done", most=5) == "yes"
    given = {"item": item, "done": done, "note": form.required("note", most=500) if done else form.text("note")}
    await carry_out(view, Administer(kind=events.CHECKED, given=given, **command_fields(view, form)))
    return go(f"/checklist#{item}")


@post("/checklist/alert", opt=ADMINS, include_in_schema=False, status_code=200)
async def try_alerts(request: Asked) -> Response[Any]:
    """Send a test alert by every channel in the study file."""
    await form_of(request)
    view = await in_thread(view_of, request)
    await in_thread(_send_test, view)
    return go("/checklist#alerts")


def _send_test(view: View) -> None:
    content = {"level": TEST, "code": TEST, "text": "This is a test: nothing has happened."}
    with view.service.database.writing.begin() as connection:
        outbox.put(connection, view.running, [(outbox.ALERT, content)], clock.now())


def _tested(view: View) -> str:
    """Whether the latest test alert was sent; empty if there was none."""
    _, table = view.t.gettext, tables.outbox.c
    tests = (table.kind == outbox.ALERT) & table.body.contains(f'"code":"{TEST}"', autoescape=True)
    with view.service.database.reading.connect() as connection:
        sent = connection.execute(select(func.max(table.created)).where(tests)).scalar()
        latest = select(table.delivered).where(tests, table.created == sent)
        delivered = [] if sent is None else list(connection.execute(latest).scalars())
    if sent is None:
        return ""
    at = view.t.moment(sent, view.timezone)
    if None in delivered:
        return " " + _("The test alert of %(at)s is not sent yet.", at=at)
    return " " + _("The test alert of %(at)s was sent; ask whether it was read.", at=at)


CHECKLIST = [show_checklist, check, try_alerts]
