"""The web application: addresses, guards, problems, the schema."""

import os
import re
from typing import Any

from litestar import Litestar, Request, Response, Router
from litestar.config.cors import CORSConfig
from litestar.exceptions import HTTPException
from litestar.openapi import OpenAPIConfig
from litestar.openapi.spec import Components, SecurityScheme

from opportune._version import __version__
from opportune.errors import InputError, OpportuneError
from opportune.service.api import problems, requests
from opportune.service.api.health import HEALTH, Measured
from opportune.service.api.reads import READS
from opportune.service.api.requests import StrictRequest
from opportune.service.api.schema import WithExamples
from opportune.service.api.writes import WRITES
from opportune.service.pages import errors
from opportune.service.pages.app import PAGES
from opportune.service.pages.shared import HEADERS, NO_STORE, Sealed
from opportune.service.problems import Refused
from opportune.service.service import Service

MOST_BYTES = 2 * 1024 * 1024
ORIGINS = "OPPORTUNE_APP_ORIGINS"
"""The variable with the origins of pages that may call the API in a browser, separated by commas; none by default."""
_ORIGIN = re.compile(r"https?://[A-Za-z0-9.-]+(:[0-9]{1,5})?")


def create_app(service: Service, *others: Router) -> Litestar:
    """The application for a service, with further routers; the service starts and stops with it."""

    def start(_app: Litestar) -> None:
        service.start()

    def stop(_app: Litestar) -> None:
        service.stop()

    app = Litestar(
        route_handlers=[
            Router("/api/v1", route_handlers=[*WRITES, *READS], request_class=StrictRequest),
            *HEALTH,
            PAGES,
            *others,
        ],
        guards=[requests.guard],
        middleware=[Measured(), Sealed()],
        on_startup=[start],
        on_shutdown=[stop],
        exception_handlers=_handlers(),
        request_max_body_size=MOST_BYTES,
        cors_config=_other_origins(),
        logging_config=None,
        openapi_config=OpenAPIConfig(
            title="Opportune",
            version=__version__,
            description="Decisions of a live study: when to nudge, what to recommend.",
            path="/schema",
            use_handler_docstrings=True,
            render_plugins=[WithExamples(path=["/", "/openapi.json"])],
            components=Components(security_schemes={"key": SecurityScheme(type="http", scheme="bearer")}),
            security=[{"key": []}],
        ),
    )
    app.state.service = service
    return app


def _other_origins() -> CORSConfig | None:
    """The origins whose pages may call the API; tokens travel in a header, so no cookies need be allowed."""
    given = [origin.strip() for origin in os.environ.get(ORIGINS, "").split(",") if origin.strip()]
    for origin in given:
        if not _ORIGIN.fullmatch(origin):
            raise InputError(f"{ORIGINS} contains {origin!r}; expected an origin, such as https://app.example.org")
    if not given:
        return None
    headers = ["Authorization", "Content-Type", "Idempotency-Key", "If-None-Match", "Last-Event-ID", "Rehearsal-Time"]
    return CORSConfig(allow_origins=given, allow_headers=headers, expose_headers=["ETag", "Date", "Retry-After"])


def _on_http(request: "Request[Any, Any, Any]", error: HTTPException) -> "Response[Any]":
    """Answer an error of the framework: programs get a problem, people a page."""
    for_people = not request.scope["path"].startswith("/api/") and "text/html" in request.headers.get("accept", "")
    if not for_people:
        return problems.on_http(request, error)
    page = errors.on_http(request, error)  # no middleware handles an unknown address
    page.headers |= {name.decode(): value.decode() for name, value in (*HEADERS, NO_STORE)}
    return page


def _handlers() -> dict[Any, Any]:
    return {
        Refused: problems.on_refused,
        OpportuneError: problems.on_bad_input,
        HTTPException: _on_http,
        Exception: problems.on_fault,
    }
