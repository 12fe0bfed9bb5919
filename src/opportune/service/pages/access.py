"""The access log for admins: who looked at what."""

from typing import Any

from litestar import get, post

from opportune.service.accounts.keys import ADMIN
from opportune.service.api.requests import PAGE, roles
from opportune.service.pages.forms import form_of
from opportune.service.pages.shared import Asked, Page, View, in_thread, view_of
from opportune.service.record import queries

ADMINS = roles(ADMIN) | PAGE
PER_PAGE = 100


def _show(view: View, asked: dict[str, str]) -> Page:
    before = int(asked["before"]) if asked["before"].isdecimal() and len(asked["before"]) < 18 else None
    log = view.service.access
    log.write()
    found = log.read(before=before, who=asked["who"], participant=asked["participant"], limit=PER_PAGE + 1)
    rows, more = queries.page(found, PER_PAGE)
    shown: list[dict[str, Any]] = [{**row, "at": view.t.exact(row["at"], view.timezone)} for row in rows]
    return view.show("access.html", rows=shown, asked=asked, before=rows[-1]["id"] if more else None)


@get("/access", opt=ADMINS, sync_to_thread=True, include_in_schema=False)
def show_access(request: Asked) -> Page:
    """The latest entries of the access log."""
    return _show(view_of(request), {"who": "", "participant": "", "before": ""})


@post("/access", opt=ADMINS, include_in_schema=False, status_code=200)
async def search_access(request: Asked) -> Page:
    """The entries of a person, or about a participant."""
    form = await form_of(request)
    view = await in_thread(view_of, request)
    return await in_thread(_show, view, {name: form.text(name, most=64) for name in ("who", "participant", "before")})


ACCESS = [show_access, search_access]
