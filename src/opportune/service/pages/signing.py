"""Signing in and out, the password, the language and the time zone."""

import hmac
import re
import secrets
from typing import Annotated, Any

from litestar import Response, get, post
from litestar.datastructures import Cookie
from litestar.params import QueryParameter

from opportune.service.accounts import people, sessions
from opportune.service.accounts.keys import ADMIN, ANALYST, STAFF
from opportune.service.api.requests import COOKIE, OPEN, PAGE, address_of, roles, service_of
from opportune.service.pages.shared import (
    FORM_COOKIE,
    NAVIGATION,
    Asked,
    Page,
    form_of,
    go,
    html,
    in_thread,
    language_of,
    raw_form,
    view_of,
)
from opportune.service.pages.texts import languages
from opportune.service.problems import Refused
from opportune.service.state import clock

_TOKEN = re.compile(r"[A-Za-z0-9_-]{22}")
EVERYONE = roles(STAFF, ANALYST, ADMIN) | PAGE
Next = Annotated[str, QueryParameter(name="next", max_length=200)]
Link = Annotated[str, QueryParameter(name="link", max_length=200)]
Done = Annotated[str, QueryParameter(name="done", max_length=40)]


def _cookie(request: Asked, name: str, value: str, lasts: int | None = None) -> Cookie:
    return Cookie(
        key=name, value=value, httponly=True, samesite="lax", secure=request.url.scheme == "https", path="/",
        max_age=lasts,
    )  # fmt: skip


def home_of(role: str) -> str:
    """Where someone begins."""
    return "/today" if role in NAVIGATION["today"] else "/study"


def _page_of(path: str, role: str) -> str:
    """The page to go on to: only ours, and only one that the role may see."""
    first = path.removeprefix("/").split("/")[0]
    return path if path.startswith("/") and role in NAVIGATION.get(first, ()) else home_of(role)


def sign_in_page(request: Asked, status: int = 200, **content: Any) -> Page:
    """The page to sign in on."""
    mine = request.cookies.get(FORM_COOKIE, "")  # other windows may show the same page
    token = mine if _TOKEN.fullmatch(mine) else secrets.token_urlsafe(16)
    shown = {"failed": False, "ended": False, "next": "", "name": "", **content}
    page = html(language_of(request), "signin.html", status, token=token, **shown)
    page.set_cookie(_cookie(request, FORM_COOKIE, token))
    return page


@get("/signin", opt=OPEN, sync_to_thread=True, include_in_schema=False)
def show_sign_in(request: Asked, going: Next = "", link: Link = "") -> Response[Any]:
    """The page to sign in on; a link signs in once."""
    if link:
        service_of(request).limits.sign_in.check(address_of(request))
        database = service_of(request).database
        token = sessions.use_link(database, link)
        found = sessions.find(database, token) if token is not None else None
        if token is not None and found is not None:
            answer = go(home_of(found.caller.role))
            answer.set_cookie(_cookie(request, COOKIE, token))
            return answer
        service_of(request).limits.sign_in.count(address_of(request))
        return sign_in_page(request, 401, ended=True)
    return sign_in_page(request, next=going)


@post("/signin", opt=OPEN, include_in_schema=False, status_code=200)
async def sign_in(request: Asked) -> Response[Any]:
    """Name and password."""
    form = await raw_form(request)
    mine = request.cookies.get(FORM_COOKIE, "")
    if not mine or not hmac.compare_digest(form.text("token", most=100).encode(), mine.encode()):
        raise Refused("forbidden", "the form does not belong to this browser")
    name, going = form.text("name", most=64), form.text("next", most=200)
    password = form.secret("password")
    database, limits = service_of(request).database, service_of(request).limits
    limits.sign_in.check(address_of(request))
    limits.sign_in.count(address_of(request))  # beforehand, as others may try at the same time
    caller = await in_thread(people.sign_in, database, name, password)
    if caller is None:
        return sign_in_page(request, 401, failed=True, next=going, name=name)
    limits.sign_in.take_back(address_of(request))
    timezone: str | None = form.text("timezone", most=64)
    try:
        clock.zone(timezone or "")
    except Exception:
        timezone = None
    token = await in_thread(lambda: sessions.start(database, caller.name, timezone=timezone or None))
    answer = go(_page_of(going, caller.role))
    answer.set_cookie(_cookie(request, COOKIE, token))
    return answer


@post("/signout", opt=EVERYONE, include_in_schema=False, status_code=200)
async def sign_out(request: Asked) -> Response[Any]:
    """The session ends."""
    await form_of(request)
    await in_thread(sessions.end, service_of(request).database, request.cookies[COOKIE])
    answer = go("/signin")
    answer.set_cookie(_cookie(request, COOKIE, "", 0))
    return answer


@get("/settings", opt=EVERYONE, sync_to_thread=True, include_in_schema=False)
def show_settings(request: Asked, done: Done = "") -> Page:
    """Password, language, time zone."""
    return view_of(request).show("settings.html", done=done, failed=None)


@post("/settings", opt=EVERYONE, include_in_schema=False, status_code=200)
async def save_settings(request: Asked) -> Response[Any]:
    """Language and time zone."""
    form = await form_of(request)
    view = await in_thread(view_of, request)
    language, timezone = form.text("language", most=20), form.text("timezone", most=64)
    if language not in languages():
        raise Refused("invalid", f"language is {language!r}; expected one of {', '.join(languages())}")
    if timezone:
        clock.zone(timezone)
    database, token = view.service.database, request.cookies[COOKIE]
    await in_thread(lambda: sessions.prefer(database, token, language=language, timezone=timezone or None))
    return go("/settings?done=saved")


@post("/password", opt=EVERYONE, include_in_schema=False, status_code=200)
async def save_password(request: Asked) -> Response[Any]:
    """Another password: everyone signed in by this name is signed out, here too."""
    form = await form_of(request)
    view = await in_thread(view_of, request)
    database = view.service.database
    known = await in_thread(people.sign_in, database, view.who, form.secret("old"))
    new = form.secret("new")
    if known is None:
        return await in_thread(lambda: view.show("settings.html", 422, done="", failed="old"))
    if not people.LEAST_LENGTH <= len(new) <= 256:
        return await in_thread(lambda: view.show("settings.html", 422, done="", failed="short"))
    await in_thread(people.change_password, database, view.who, new)
    answer = go("/signin?next=/settings")
    answer.set_cookie(_cookie(request, COOKIE, "", 0))
    return answer


SIGNING = [show_sign_in, sign_in, sign_out, show_settings, save_settings, save_password]
