"""The page that people see when a request is refused and no page with a form can be shown again."""

from typing import Any

from litestar import Response
from litestar.exceptions import HTTPException

from opportune.errors import OpportuneError
from opportune.service.accounts.sessions import Session
from opportune.service.api import problems as api
from opportune.service.api.requests import SESSION
from opportune.service.pages.refusals import detail, said
from opportune.service.pages.shared import Asked, go, html, language_of
from opportune.service.pages.signing import sign_in_page
from opportune.service.pages.texts import texts
from opportune.service.problems import TITLES, Refused


def on_refused(request: Asked, error: Refused) -> "Response[Any]":
    """Answer a request that the service has refused: by the page to sign in on, or by one that says why."""
    session: Session | None = request.scope.get(SESSION)  # type: ignore[assignment]
    if error.code == "unauthenticated":
        wants_page = "text/html" in request.headers.get("accept", "")
        if request.method == "GET" and wants_page:
            return go(f"/signin?next={request.scope['path']}")
        if not wants_page:
            return api.problem_response(error.problem())
        return sign_in_page(request, 401, ended=True)
    t = texts(session.language if session is not None and session.language else language_of(request))
    return html(
        t.language, "message.html", error.status, said=said(t, error), detail=detail(error),
        back=request.method == "POST",
    )  # fmt: skip


def on_bad_input(request: Asked, error: OpportuneError) -> "Response[Any]":
    """Answer input that a check has refused."""
    return on_refused(request, Refused("invalid", str(error)))


def on_http(request: Asked, error: HTTPException) -> "Response[Any]":
    """Answer what the framework has refused, such as an address that does not exist."""
    response = api.on_http(request, error)
    codes = [code for code, (status, _) in TITLES.items() if status == response.status_code]
    return on_refused(request, Refused(codes[0] if codes else "internal", ""))


def on_fault(request: Asked, error: Exception) -> "Response[Any]":
    """Answer an error that nobody foresaw."""
    answered = api.on_fault(request, error)
    return on_refused(request, Refused("unavailable" if answered.status_code == 503 else "internal", ""))
