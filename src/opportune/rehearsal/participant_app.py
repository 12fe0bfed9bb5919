"""The reference app for participants, served beside the pages of a demonstration: files as they are, no build step."""

from importlib.resources import files
from typing import Any

from litestar import Response, Router, get
from litestar.params import FromPath
from litestar.response import Redirect

from opportune.service.api.requests import OPEN
from opportune.service.problems import Refused

APP = "/app"
"""Where it is, below the service's address."""
TYPES = {
    "html": "text/html", "css": "text/css", "js": "text/javascript", "svg": "image/svg+xml", "png": "image/png",
    "webmanifest": "application/manifest+json",
}  # fmt: skip
POLICY = (
    "default-src 'none'; style-src 'self'; script-src 'self'; img-src 'self'; connect-src 'self'; "
    "manifest-src 'self'; worker-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)


def content(name: str) -> bytes:
    """A file of the app; raises `Refused` for what is none."""
    known = {entry.name: entry for entry in files("opportune.rehearsal").joinpath("app").iterdir()}
    if name not in known or name.rpartition(".")[2] not in TYPES:
        raise Refused("not_found", "there is no such file")
    return known[name].read_bytes()


@get("/", opt=OPEN, include_in_schema=False, sync_to_thread=False)
def begin() -> Redirect:
    """The page is below, so that its service worker has what is below, and nothing else."""
    return Redirect(f"{APP}/index.html")


@get("/{name:str}", opt=OPEN, include_in_schema=False, sync_to_thread=True)
def file(name: FromPath[str]) -> Response[Any]:
    """The page and what belongs to it."""
    headers = {"Cache-Control": "no-cache", "Content-Security-Policy": POLICY}
    return Response(content(name), media_type=TYPES[name.rpartition(".")[2]], headers=headers)


PARTICIPANT_APP = Router(APP, route_handlers=[begin, file])
