"""Accounts of people and keys for programs; for admins only."""

import threading
import time
from collections.abc import Callable, Iterable
from typing import Any

from litestar import Response, get, post

from opportune.errors import InputError
from opportune.service.accounts import keys, people, second_factor, sessions
from opportune.service.accounts.changes import Actor
from opportune.service.accounts.keys import ADMIN, APP, ROLES
from opportune.service.api.cookies import SIGNED_IN, read
from opportune.service.api.requests import PAGE, origin_of, roles
from opportune.service.pages import words
from opportune.service.pages.forms import Form, Wrong, form_of
from opportune.service.pages.refusals import stays_on
from opportune.service.pages.shared import Asked, Page, View, go, in_thread, view_of
from opportune.service.pages.signing import proved
from opportune.service.problems import Refused
from opportune.service.record.database import Database

ADMINS = roles(ADMIN) | PAGE
PEOPLE = tuple(role for role in ROLES if role != APP)
"""The roles of people; the others are for programs."""
KEPT_SECONDS = 60.0
_lock = threading.Lock()
_answered: dict[str, tuple[float, dict[str, Any]]] = {}
"""Secrets that were shown once, by form, for a minute: a form that is sent twice shows the same secret again."""


def _shown(view: View, form: Form | None = None, **content: Any) -> Page:
    database, t = view.service.database, view.t

    def dated(row: dict[str, Any]) -> dict[str, Any]:
        when = {name: None if row[name] is None else t.moment(row[name], view.timezone) for name in ("created", "used")}
        return {**row, **when}

    def roles_of(codes: Iterable[str]) -> list[tuple[str, str]]:
        return [(code, words.role(code, t)) for code in codes]

    found = {"secret": None, "secret_of": "", "secret_kind": "", "done": "", **content}
    return view.show(
        "accounts.html", people=[dated(row) for row in people.list_people(database)],
        keys=[dated(row) for row in keys.list_keys(database)], all_roles=roles_of(ROLES),
        people_roles=roles_of(PEOPLE), **found,
    )  # fmt: skip


@get("/accounts", opt=ADMINS, sync_to_thread=True, include_in_schema=False)
def show_accounts(request: Asked) -> Page:
    """The lists of people and keys."""
    view = view_of(request)
    return _shown(view) if view.session.fresh else ask_again(view)


def ask_again(view: View, status: int = 200, *, failed: bool = False) -> Page:
    """The page that asks an admin for the password again, so that an open browser is not enough to change accounts."""
    second = second_factor.confirmed(view.service.database, view.who)
    return view.show("prove.html", status, failed=failed, second=second)


@post("/accounts/confirm", opt=ADMINS, include_in_schema=False, status_code=200)
async def confirm(request: Asked) -> Response[Any]:
    """Check the password again, and the code if the admin has a second factor."""
    form = await form_of(request)
    view = await in_thread(view_of, request)

    def check() -> Response[Any]:
        if not proved(request, view.who, form):
            return ask_again(view, 401, failed=True)
        sessions.confirm(view.service.database, read(request, SIGNED_IN))
        return go("/accounts")

    return await in_thread(check)


def _change(view: View, form: Form) -> dict[str, Any]:
    """Make the change that an admin asks for; returns what the page shows, such as an invitation or a key."""
    database, what, name = view.service.database, form.required("what", most=20), form.required("name", most=64)
    by = Actor(view.who, origin_of(view.request))
    if what in {"add_person", "add_key"}:
        role = form.choice("role", ROLES if what == "add_key" else PEOPLE)
        try:
            if what == "add_key":
                secret = keys.add_key(database, name, role, by)
                return {"secret": secret, "secret_of": name, "secret_kind": "key"}
            people.add_person(database, name, role, by=by)
        except InputError:  # the name is taken or looks like another
            raise Wrong("name", "account") from None
        return _invited(view, name, by)
    if what == "invite":
        return _invited(view, name, by)
    if what == "revoke_person" and name == view.who:
        raise InputError("you cannot revoke yourself; expected another person")
    if what in _CHANGES:
        change, done = _CHANGES[what]
        change(database, name, by)
        return {"done": done}
    raise Refused("invalid", "this cannot be done")


def _invited(view: View, name: str, by: Actor) -> dict[str, Any]:
    address = f"{view.request.base_url}invitation?token={people.invite(view.service.database, name, by)}"
    return {"secret": address, "secret_of": name, "secret_kind": "invitation"}


_CHANGES: dict[str, tuple[Callable[[Database, str, Actor], None], str]] = {
    "revoke_person": (people.revoke_person, "revoked"), "revoke_key": (keys.revoke_key, "revoked"),
    "resume_person": (people.resume_person, "resumed"), "resume_key": (keys.resume_key, "resumed"),
    "unlock": (people.release_person, "unlocked"),
}  # fmt: skip


@post("/accounts", opt=ADMINS, include_in_schema=False, status_code=200)
@stays_on(_shown)
async def change_accounts(request: Asked) -> Page:
    """Add, invite, unlock or revoke a person or a key."""
    form = await form_of(request)
    view = await in_thread(view_of, request)
    if not view.session.fresh:
        return await in_thread(ask_again, view, 401)
    key = f"{view.who}:{form.required('once', most=64)}"

    def change() -> Page:
        with _lock:
            now = time.monotonic()
            for old in [name for name, (until, _) in _answered.items() if until < now]:
                del _answered[old]
            if key not in _answered:
                done = _change(view, form)
                _answered[key] = now + KEPT_SECONDS, done
            done = _answered[key][1]
        return _shown(view, **done)

    return await in_thread(change)


ACCOUNTS = [show_accounts, confirm, change_accounts]
