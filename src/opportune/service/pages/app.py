"""The router of the pages, with the style sheet, the script and the error handlers."""

from typing import Any

from litestar import Response, Router, get, post
from litestar.exceptions import HTTPException
from litestar.params import FromPath

from opportune.errors import OpportuneError
from opportune.service.accounts.sessions import Session
from opportune.service.api.requests import OPEN, SESSION, caller_of
from opportune.service.pages import errors
from opportune.service.pages.access import ACCESS
from opportune.service.pages.accounts import ACCOUNTS
from opportune.service.pages.checklist import CHECKLIST
from opportune.service.pages.corrections import CORRECTIONS
from opportune.service.pages.forms import form_of
from opportune.service.pages.institution import INSTITUTION
from opportune.service.pages.participants import PARTICIPANTS
from opportune.service.pages.phones import PHONES
from opportune.service.pages.record import RECORD
from opportune.service.pages.safety import SAFETY
from opportune.service.pages.shared import STATIC, Asked, go
from opportune.service.pages.signing import EVERYONE, SIGNING, home_of
from opportune.service.pages.study import STUDY
from opportune.service.pages.today import TODAY
from opportune.service.pages.week import WEEK
from opportune.service.problems import Refused

_TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}


@get("/", opt=EVERYONE, include_in_schema=False, sync_to_thread=False)
def home(request: Asked) -> Response[Any]:
    """Go to the start page of the person's role."""
    return go(home_of(caller_of(request).role))


@get("/session", opt=EVERYONE | {"by_itself": True}, include_in_schema=False, sync_to_thread=True)
def show_session(request: Asked) -> Response[Any]:
    """The form token of the session, for the script that checks whether the person is still signed in."""
    session: Session = request.scope[SESSION]  # type: ignore[literal-required]
    return Response({"form": session.form, "who": session.caller.name}, media_type="application/json")


@post("/session", opt=EVERYONE, include_in_schema=False, status_code=204)
async def keep_session(request: Asked) -> None:
    """Extend the session: the person did something on an open page."""
    await form_of(request)


@get("/icon/{count:int}", opt=OPEN, include_in_schema=False, sync_to_thread=True)
def icon(count: FromPath[int]) -> Response[bytes]:
    """The icon with the number of waiting calls."""
    text = "9+" if count > 9 else str(max(0, count))
    drawn = (STATIC / "icon.svg").read_text(encoding="utf-8")
    badge = (
        '<circle cx="22" cy="10" r="10" fill="#a3291b"/><text x="22" y="15" font-size="14" font-weight="700" '
        f'font-family="sans-serif" fill="#fff" text-anchor="middle">{text}</text></svg>'
    )
    headers = {"Cache-Control": "public, max-age=86400"}
    return Response(
        drawn.strip().removesuffix("</svg>").encode() + badge.encode(), media_type="image/svg+xml", headers=headers
    )


@get("/static/{name:str}", opt=OPEN, include_in_schema=False, sync_to_thread=True)
def static(name: FromPath[str]) -> Response[bytes]:
    """A static file: the style sheet, the script or the icon."""
    known = {file.name: file for file in STATIC.iterdir()}
    if name not in known:
        raise Refused("not_found", "there is no such file")
    file = known[name]
    headers = {"Cache-Control": "public, max-age=31536000, immutable"}
    return Response(file.read_bytes(), media_type=_TYPES[file.suffix], headers=headers)


PAGES = Router(
    "/",
    route_handlers=[
        home,
        show_session,
        keep_session,
        icon,
        static,
        *SIGNING,
        *INSTITUTION,
        *TODAY,
        *PARTICIPANTS,
        *CORRECTIONS,
        *PHONES,
        *SAFETY,
        *WEEK,
        *CHECKLIST,
        *STUDY,
        *RECORD,
        *ACCOUNTS,
        *ACCESS,
    ],
    exception_handlers={
        Refused: errors.on_refused,
        OpportuneError: errors.on_bad_input,
        HTTPException: errors.on_http,
        Exception: errors.on_fault,
    },
)
