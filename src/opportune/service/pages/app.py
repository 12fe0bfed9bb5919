"""The addresses of the pages, and what belongs to them: the style sheet, the script, errors that people can read."""

from typing import Any

from litestar import Response, Router, get
from litestar.exceptions import HTTPException
from litestar.params import FromPath

from opportune.errors import OpportuneError
from opportune.service.api.requests import OPEN, caller_of
from opportune.service.pages import errors
from opportune.service.pages.accounts import ACCOUNTS
from opportune.service.pages.participants import PARTICIPANTS
from opportune.service.pages.record import RECORD
from opportune.service.pages.shared import STATIC, Asked, go
from opportune.service.pages.signing import EVERYONE, SIGNING, home_of
from opportune.service.pages.study import STUDY
from opportune.service.pages.today import TODAY
from opportune.service.problems import Refused

_TYPES = {".css": "text/css", ".js": "text/javascript", ".svg": "image/svg+xml"}


@get("/", opt=EVERYONE, include_in_schema=False, sync_to_thread=False)
def home(request: Asked) -> Response[Any]:
    """Where someone begins."""
    return go(home_of(caller_of(request).role))


@get("/static/{name:str}", opt=OPEN, include_in_schema=False, sync_to_thread=True)
def static(name: FromPath[str]) -> Response[bytes]:
    """The style sheet, the script, the icon."""
    known = {file.name: file for file in STATIC.iterdir()}
    if name not in known:
        raise Refused("not_found", "there is no such file")
    file = known[name]
    headers = {"Cache-Control": "public, max-age=31536000, immutable"}
    return Response(file.read_bytes(), media_type=_TYPES[file.suffix], headers=headers)


PAGES = Router(
    "/",
    route_handlers=[home, static, *SIGNING, *TODAY, *PARTICIPANTS, *STUDY, *RECORD, *ACCOUNTS],
    exception_handlers={
        Refused: errors.on_refused,
        OpportuneError: errors.on_bad_input,
        HTTPException: errors.on_http,
        Exception: errors.on_fault,
    },
)
