"""The reference app for participants, served beside the pages of a demonstration, from files without a build step."""

from importlib.resources import files
from typing import Any

from litestar import Response, Router, get
from litestar.params import FromPath
from litestar.response import Redirect

from opportune.service.api.requests import OPEN
from opportune.service.problems import Refused

APP = "/app"
"""The app's path on the service."""
TYPES = {
    "html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml", "png": "image/png",
    "webmanifest": "application/manifest+json",
}  # fmt: skip
POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; "
    "manifest-src 'self'; worker-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


def content(name: str) -> bytes:
    """A file of the app; raises `Refused` for other names."""
    known = {entry.name: entry for entry in files("opportune.rehearsal").joinpath("app").iterdir()}
    if name not in known or name.rpartition(".")[2] not in TYPES:
        raise Refused("not_found", "the app has no file with this name")
    return known[name].read_bytes()


@get("/", opt=OPEN, include_in_schema=False, sync_to_thread=False)
def begin() -> Redirect:
    """Redirect to the page below this path, so that its service worker controls only what is below."""
    return Redirect(f"{APP}/index.html")


@get("/{name:str}", opt=OPEN, include_in_schema=False, sync_to_thread=True)
def file(name: FromPath[str]) -> Response[Any]:
    """The app's page, and the files that it loads."""
    headers = {"Cache-Control": "no-cache", "Content-Security-Policy": POLICY}
    return Response(content(name), media_type=TYPES[name.rpartition(".")[2]], headers=headers)


PARTICIPANT_APP = Router(APP, route_handlers=[begin, file])
