"""Participants' phones: a token for a new phone is shown once; all tokens are revoked when a phone is lost."""

from litestar import get, post
from litestar.params import FromPath

from opportune.service.accounts import tokens
from opportune.service.accounts.changes import Actor
from opportune.service.accounts.keys import ADMIN, STAFF
from opportune.service.api.requests import PAGE, origin_of, roles
from opportune.service.pages.forms import form_of
from opportune.service.pages.participants import row_of
from opportune.service.pages.shared import Asked, Page, View, in_thread, view_of
from opportune.service.problems import Refused

WRITERS = roles(STAFF, ADMIN) | PAGE


def _show(view: View, number: int, *, token: str | None = None, revoked: bool = False) -> Page:
    row = row_of(view, number)
    phones = tokens.phones(view.service.database, row["name"])
    return view.show("phones.html", p=row, phones=phones, token=token, revoked=revoked)


@get("/participants/{number:int}/phones", opt=WRITERS, sync_to_thread=True, include_in_schema=False)
def show_phones(request: Asked, number: FromPath[int]) -> Page:
    """The number of phones that have a token."""
    return _show(view_of(request), number)


@post("/participants/{number:int}/phones", opt=WRITERS, include_in_schema=False, status_code=200)
async def change_phones(request: Asked, number: FromPath[int]) -> Page:
    """Issue a token for another phone, or revoke all tokens."""
    form = await form_of(request)
    view = await in_thread(view_of, request)
    what, by = form.required("what", most=20), Actor(view.who, origin_of(request))
    if what not in {"issue", "revoke"}:
        raise Refused("invalid", "this cannot be done")

    def change() -> Page:
        name = row_of(view, number)["name"]
        if what == "revoke":
            tokens.revoke(view.service.database, name, by)
            return _show(view, number, revoked=True)
        return _show(view, number, token=tokens.issue(view.service.database, name, by).refresh)

    return await in_thread(change)


PHONES = [show_phones, change_phones]
