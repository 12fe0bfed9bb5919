"""Signing in and out: password, second factor, invitations; and the person's settings."""

import hmac
import re
import secrets
from typing import Annotated, Any

from litestar import Response, get, post
from litestar.params import QueryParameter

from opportune.service.accounts import people, second_factor, sessions
from opportune.service.accounts.changes import Actor
from opportune.service.accounts.keys import ADMIN, ANALYST, STAFF, Caller
from opportune.service.accounts.sessions import Session
from opportune.service.api.cookies import BROWSER, FORM, SIGNED_IN, cookie, forget, read
from opportune.service.api.requests import OPEN, PAGE, SESSION, address_of, origin_of, roles, service_of
from opportune.service.pages.forms import Form, Wrong, form_of, raw_form
from opportune.service.pages.refusals import stays_on
from opportune.service.pages.shared import NAVIGATION, Asked, Page, View, go, html, in_thread, language_of, view_of
from opportune.service.pages.texts import languages
from opportune.service.problems import Refused

_TOKEN = re.compile(r"[A-Za-z0-9_-]{22}")
EVERYONE = roles(STAFF, ANALYST, ADMIN) | PAGE
HALFWAY = EVERYONE | {"purposes": (sessions.CODE, sessions.SET_UP)}
"""Pages for people who gave the right password and must still give or set up a second factor."""
Next = Annotated[str, QueryParameter(name="next", max_length=200)]
Link = Annotated[str, QueryParameter(name="link", max_length=200)]
Token = Annotated[str, QueryParameter(name="token", max_length=200)]
Done = Annotated[str, QueryParameter(name="done", max_length=40)]


def home_of(role: str) -> str:
    """The start page of a role."""
    return "/today" if role in NAVIGATION["today"] else "/study"


def _page_of(path: str, role: str) -> str:
    """The page to continue with: a page of this site that the role may see."""
    first = path.removeprefix("/").split("/")[0]
    return path if path.startswith("/") and role in NAVIGATION.get(first, ()) else home_of(role)


def open_page(request: Asked, template: str, status: int = 200, **content: Any) -> Page:
    """A page for a person who is not signed in, with a form that is tied to this browser."""
    mine = read(request, FORM)  # other windows may show the same form
    token = mine if _TOKEN.fullmatch(mine) else secrets.token_urlsafe(16)
    page = html(language_of(request), template, status, token=token, **content)
    page.set_cookie(cookie(request, FORM, token))
    return page


def sign_in_page(request: Asked, status: int = 200, **content: Any) -> Page:
    """The sign-in page."""
    elsewhere = service_of(request).institution
    shown: dict[str, Any] = {"institution": elsewhere and elsewhere.name}
    shown |= {
        "institution": elsewhere and elsewhere.name,
        "failed": False,
        "ended": False,
        "next": "",
        "name": "",
        "unknown": "",
        **content,
    }
    return open_page(request, "signin.html", status, **shown)


async def browser_form(request: Asked) -> Form:
    """The form of a request, which must come from a page that `open_page` made for this browser."""
    form, mine = await raw_form(request), read(request, FORM)
    if not mine or not hmac.compare_digest(form.text("token", most=100).encode(), mine.encode()):
        raise Refused("forbidden", "the form does not belong to this browser")
    return form


def enter(request: Asked, caller: Caller, *, going: str = "", timezone: str | None = None) -> Response[Any]:
    """Continue after the password: to the pages, or to the second factor if one is needed."""
    service = service_of(request)
    of = service.running.study.settings.serve.second_factor
    if second_factor.confirmed(service.database, caller.name):
        token = sessions.new(service.database, caller.name, sessions.CODE, timezone=timezone)
        answer = go("/signin/code")
    elif second_factor.required(of, caller.role):
        token = sessions.new(service.database, caller.name, sessions.SET_UP, timezone=timezone)
        answer = go("/signin/second")
    else:
        return admit(request, caller, going=going, timezone=timezone)
    answer.set_cookie(cookie(request, SIGNED_IN, token))
    return answer


def admit(request: Asked, caller: Caller, *, going: str = "", timezone: str | None = None) -> Response[Any]:
    """Sign a person in and remember this browser as theirs."""
    database = service_of(request).database
    known = read(request, BROWSER) or secrets.token_urlsafe(32)
    people.succeeded(database, caller, address_of(request), known, origin_of(request))
    token = sessions.new(database, caller.name, timezone=timezone)
    answer = go(_page_of(going, caller.role))
    answer.set_cookie(cookie(request, SIGNED_IN, token))
    answer.set_cookie(cookie(request, BROWSER, known, lasts=90 * 24 * 3600))
    return answer


@get("/signin", opt=OPEN, sync_to_thread=True, include_in_schema=False)
def show_sign_in(request: Asked, going: Next = "", link: Link = "") -> Response[Any]:
    """The sign-in page; in a rehearsal, a link signs in once without a second factor."""
    if link and service_of(request).rehearsal:
        service_of(request).limits.sign_in.check(address_of(request))
        database = service_of(request).database
        token = sessions.use_link(database, link)
        found = sessions.find(database, token) if token is not None else None
        if token is not None and found is not None:
            answer = go(home_of(found.caller.role))
            answer.set_cookie(cookie(request, SIGNED_IN, token))
            return answer
        service_of(request).limits.sign_in.count(address_of(request))
        return sign_in_page(request, 401, ended=True)
    return sign_in_page(request, next=going)


@post("/signin", opt=OPEN, include_in_schema=False, status_code=200)
async def sign_in(request: Asked) -> Response[Any]:
    """Check the name and the password."""
    form = await browser_form(request)
    name, going = form.text("name", most=64), form.text("next", most=200)
    password, address = form.secret("password"), address_of(request)
    database, limits = service_of(request).database, service_of(request).limits
    limits.sign_in.check(address)
    limits.sign_in.count(address)  # before the check, because others may try at the same time
    known = read(request, BROWSER) or None
    caller = await in_thread(lambda: people.sign_in(database, name, password, address=address, browser=known))
    if caller is None:
        return sign_in_page(request, 401, failed=True, next=going, name=name)
    limits.sign_in.take_back(address)
    timezone = zone_of(form)
    return await in_thread(lambda: enter(request, caller, going=going, timezone=timezone))


def zone_of(form: Form) -> str | None:
    """The browser's time zone; None if it is not valid."""
    try:
        return form.zone("timezone") or None
    except Wrong:
        return None


@get("/invitation", opt=OPEN, sync_to_thread=True, include_in_schema=False)
def show_invitation(request: Asked, token: Token = "") -> Response[Any]:
    """The page where an invited person chooses a password, once."""
    limits, address = service_of(request).limits, address_of(request)
    limits.sign_in.check(address)
    name = sessions.holder(service_of(request).database, token, sessions.INVITATION)
    if name is None:
        limits.sign_in.count(address)
        return sign_in_page(request, 401, unknown="invitation")
    return open_page(request, "invitation.html", name=name, invitation=token, failed=None)


@post("/invitation", opt=OPEN, include_in_schema=False, status_code=200)
async def use_invitation(request: Asked) -> Response[Any]:
    """Set the chosen password and sign the person in, or continue with the second factor."""
    form = await browser_form(request)
    token, password = form.text("invitation", most=200), form.secret("password")
    database, limits, address = service_of(request).database, service_of(request).limits, address_of(request)
    limits.sign_in.check(address)
    name = await in_thread(sessions.holder, database, token, sessions.INVITATION)
    if name is not None and not people.LEAST_LENGTH <= len(password) <= people.MOST_LENGTH:
        return open_page(request, "invitation.html", 422, name=name, invitation=token, failed="short")
    chosen = await in_thread(people.choose_password, database, token, password, origin_of(request)) if name else None
    if chosen is None:
        limits.sign_in.count(address)
        return sign_in_page(request, 401, unknown="invitation")
    role = next(person["role"] for person in people.list_people(database) if person["name"] == chosen)
    return await in_thread(lambda: enter(request, Caller(chosen, role), timezone=zone_of(form)))


@get("/signin/code", opt=HALFWAY, sync_to_thread=True, include_in_schema=False)
def show_code(request: Asked) -> Page:
    """The page that asks for the code of the second factor."""
    return _halfway(request, "code.html", failed=False)


@post("/signin/code", opt=HALFWAY, include_in_schema=False, status_code=200)
async def give_code(request: Asked) -> Response[Any]:
    """Check a code of the authenticator, or a recovery code."""
    form, session = await form_of(request), _session(request)
    if session.purpose != sessions.CODE:
        raise Refused("forbidden", "the second factor is to be set up first")

    def check() -> Response[Any]:
        if not second_step(request, session.caller, form.text("code", most=40)):
            return _halfway(request, "code.html", 401, failed=True)
        sessions.end(service_of(request).database, read(request, SIGNED_IN))
        return admit(request, session.caller, timezone=session.timezone)

    return await in_thread(check)


def second_step(request: Asked, caller: Caller, code: str) -> bool:
    """Whether the code is right; a wrong code counts like a wrong password."""
    database, address = service_of(request).database, address_of(request)
    known = read(request, BROWSER)
    where = people.open_places(database, caller.name, address, known or None)
    if where is None:
        return False
    if second_factor.check(database, caller.name, code, Actor(caller.name, origin_of(request))):
        return True
    people.failed(database, caller.name, caller.role, where, origin_of(request))
    return False


@get("/signin/second", opt=HALFWAY, sync_to_thread=True, include_in_schema=False)
def show_set_up(request: Asked) -> Page:
    """The page that sets up the second factor."""
    return _set_up_page(request)


@post("/signin/second", opt=HALFWAY, include_in_schema=False, status_code=200)
async def finish_set_up(request: Asked) -> Response[Any]:
    """Check the first code, which proves that the authenticator has the secret; show the recovery codes once."""
    form, session = await form_of(request), _session(request)
    if session.purpose != sessions.SET_UP:
        raise Refused("forbidden", "the second factor is set up")

    def finish() -> Response[Any]:
        database, caller = service_of(request).database, session.caller
        by = Actor(caller.name, origin_of(request))
        codes = second_factor.set_up(database, caller.name, "".join(form.text("code", most=40).split()), by)
        if codes is None:
            return _set_up_page(request, 401, failed=True)
        sessions.end(database, read(request, SIGNED_IN))
        entered = admit(request, caller, timezone=session.timezone)
        page = html(language_of(request), "recovery.html", codes=codes, going=home_of(caller.role))
        for each in entered.cookies:
            page.set_cookie(each)
        return page

    return await in_thread(finish)


def _set_up_page(request: Asked, status: int = 200, *, failed: bool = False) -> Page:
    service, session = service_of(request), _session(request)
    secret = second_factor.begin(service.database, session.caller.name)
    address = second_factor.address(secret, session.caller.name, service.running.study.name)
    spaced = " ".join(secret[i : i + 4] for i in range(0, len(secret), 4))
    return _halfway(request, "second.html", status, secret=spaced, address=address, failed=failed)


def _session(request: Asked) -> Session:
    found: Session = request.scope[SESSION]  # type: ignore[literal-required]
    return found


def _halfway(request: Asked, template: str, status: int = 200, **content: Any) -> Page:
    session = _session(request)
    language = session.language or language_of(request)
    return html(language, template, status, form_token=session.form, who=session.caller.name, **content)


@post("/signout", opt=EVERYONE, include_in_schema=False, status_code=200)
async def sign_out(request: Asked) -> Response[Any]:
    """End the session."""
    await form_of(request)
    await in_thread(sessions.end, service_of(request).database, read(request, SIGNED_IN))
    return forget(request, go("/signin"))


@get("/settings", opt=EVERYONE, sync_to_thread=True, include_in_schema=False)
def show_settings(request: Asked, done: Done = "") -> Page:
    """The page of a person's settings."""
    return _settings(view_of(request), done=done)


def _settings(view: View, form: Form | None = None, status: int = 200, *, done: str = "", failed: str = "") -> Page:
    second = second_factor.confirmed(view.service.database, view.who)
    return view.show("settings.html", status, done=done, failed=failed, second=second)


@post("/settings", opt=EVERYONE, include_in_schema=False, status_code=200)
@stays_on(_settings)
async def save_settings(request: Asked) -> Response[Any]:
    """Save the language and the time zone."""
    form = await form_of(request)
    view = await in_thread(view_of, request)
    language, timezone = form.choice("language", languages()), form.zone("timezone")
    database, token = view.service.database, read(request, SIGNED_IN)
    await in_thread(lambda: sessions.prefer(database, token, language=language, timezone=timezone or None))
    return go("/settings?done=saved")


@post("/settings/second", opt=EVERYONE, include_in_schema=False, status_code=200)
async def begin_set_up(request: Asked) -> Response[Any]:
    """Begin to set up a second factor that the study does not require."""
    await form_of(request)
    session = _session(request)

    def begin() -> Response[Any]:
        database = service_of(request).database
        if not session.fresh or second_factor.confirmed(database, session.caller.name):
            raise Refused("forbidden", "sign in again first, or ask an admin for an invitation")
        token = sessions.new(database, session.caller.name, sessions.SET_UP)
        sessions.end(database, read(request, SIGNED_IN))
        answer = go("/signin/second")
        answer.set_cookie(cookie(request, SIGNED_IN, token))
        return answer

    return await in_thread(begin)


@post("/password", opt=EVERYONE, include_in_schema=False, status_code=200)
async def save_password(request: Asked) -> Response[Any]:
    """Change the password; all sessions of this account end, including this one."""
    form = await form_of(request)
    view = await in_thread(view_of, request)
    known, new = await in_thread(proved, request, view.who, form), form.secret("new")
    if not known:
        return await in_thread(lambda: _settings(view, status=422, failed="old"))
    if not people.LEAST_LENGTH <= len(new) <= people.MOST_LENGTH:
        return await in_thread(lambda: _settings(view, status=422, failed="short"))
    by = Actor(view.who, origin_of(request))
    await in_thread(people.change_password, view.service.database, view.who, new, by)
    return forget(request, go("/signin?next=/settings"))


def proved(request: Asked, name: str, form: Form) -> bool:
    """Whether the form contains the person's current password, and the code if they have a second factor."""
    database, known = service_of(request).database, read(request, BROWSER) or None
    caller = people.sign_in(database, name, form.secret("old"), address=address_of(request), browser=known)
    if caller is None:
        return False
    return not second_factor.confirmed(database, name) or second_step(request, caller, form.text("code", most=40))


SIGNING = [
    show_sign_in, sign_in, show_invitation, use_invitation, show_code, give_code, show_set_up, finish_set_up, sign_out,
    show_settings, save_settings, begin_set_up, save_password,
]  # fmt: skip
