"""Accounts: who may sign in, and the keys of apps; for admins."""

import threading
import time
from typing import Any

import structlog
from litestar import get, post

from opportune.errors import InputError
from opportune.service.accounts import keys, people, sessions
from opportune.service.accounts.keys import ADMIN, ROLES
from opportune.service.api.requests import PAGE, roles
from opportune.service.pages.shared import Asked, Form, Page, View, form_of, in_thread, view_of
from opportune.service.problems import Refused

ADMINS = roles(ADMIN) | PAGE
log = structlog.get_logger()
KEPT_SECONDS = 60.0
_lock = threading.Lock()
_answered: dict[str, tuple[float, dict[str, Any]]] = {}
"""What was shown once, by the form that asked for it: sent twice, it must not be lost. For a minute only."""


def _shown(view: View, **content: Any) -> Page:
    database, t = view.service.database, view.t

    def dated(row: dict[str, Any]) -> dict[str, Any]:
        when = {name: None if row[name] is None else t.moment(row[name], view.timezone) for name in ("created", "used")}
        return {**row, **when}

    found = {"secret": None, "secret_of": "", "secret_kind": "", "done": "", **content}
    return view.show(
        "accounts.html", people=[dated(row) for row in people.list_people(database)],
        keys=[dated(row) for row in keys.list_keys(database)], all_roles=ROLES, **found,
    )  # fmt: skip


@get("/accounts", opt=ADMINS, sync_to_thread=True, include_in_schema=False)
def show_accounts(request: Asked) -> Page:
    """People and keys."""
    return _shown(view_of(request))


def _change(view: View, form: Form) -> dict[str, Any]:
    """What an admin asks for; hands back what to show, a password or key among it."""
    database, what, name = view.service.database, form.required("what", most=20), form.required("name", most=64)
    if what == "add_person":
        secret = people.add_person(database, name, form.required("role", most=20))
        return {"secret": secret, "secret_of": name, "secret_kind": "password"}
    if what == "add_key":
        return {"secret": keys.add_key(database, name, form.required("role", most=20)), "secret_of": name,
                "secret_kind": "key"}  # fmt: skip
    if what == "reset_password":
        secret = people.new_password()
        people.change_password(database, name, secret)
        return {"secret": secret, "secret_of": name, "secret_kind": "password"}
    if what == "revoke_person":
        if name == view.who:
            raise InputError("you cannot revoke yourself; expected another person")
        people.revoke_person(database, name)
        sessions.end_all(database, name)
        return {"done": "revoked"}
    if what == "revoke_key":
        keys.revoke_key(database, name)
        return {"done": "revoked"}
    raise Refused("invalid", "this cannot be done")


@post("/accounts", opt=ADMINS, include_in_schema=False, status_code=200)
async def change_accounts(request: Asked) -> Page:
    """Add, reset, revoke."""
    form = await form_of(request)
    view = await in_thread(view_of, request)
    key = f"{view.who}:{form.required('once', most=64)}"

    def change() -> Page:
        with _lock:
            now = time.monotonic()
            for old in [name for name, (until, _) in _answered.items() if until < now]:
                del _answered[old]
            if key not in _answered:
                done = _change(view, form)
                log.info("an account was changed", what=form.text("what"), account=form.text("name"), who=view.who)
                _answered[key] = now + KEPT_SECONDS, done
            done = _answered[key][1]
        return _shown(view, **done)

    return await in_thread(change)


ACCOUNTS = [show_accounts, change_accounts]
