"""What people see when something is refused: a page that says what happened, and what to do."""

from typing import Any

from litestar import Request, Response
from litestar.exceptions import HTTPException

from opportune.errors import OpportuneError
from opportune.service.accounts.sessions import Session
from opportune.service.api import problems as api
from opportune.service.api.requests import SESSION
from opportune.service.pages.shared import Asked, go, html, language_of
from opportune.service.pages.signing import sign_in_page
from opportune.service.pages.texts import Texts, texts
from opportune.service.problems import TITLES, Problem, Refused

_BACK = {
    "taken",
    "settled_already",
    "not_settled",
    "exists",
    "full",
    "not_active",
    "invalid",
    "reward_differs",
    "closed",
}


def sentences(t: Texts) -> dict[str, str]:
    """What each refusal means for people."""
    _ = t.gettext
    return {
        "taken": _("Someone else has taken this call. Nothing was recorded."),
        "settled_already": _("This call is no longer needed, or its outcome is on record. Nothing was changed."),
        "not_settled": _("The call is still open. Its result comes after that."),
        "exists": _("This name is in use already. Nothing was changed."),
        "full": _("All planned participants are enrolled."),
        "not_active": _("The participant has left the study or completed it. If that is a mistake, correct it."),
        "invalid": _("Something in the form cannot be used. Nothing was recorded."),
        "unasked": _("Some questions were answered and others not. Answer all, or none. Nothing was recorded."),
        "malformed": _("The form could not be read. Nothing was recorded."),
        "closed": _("The study is closed."),
        "forbidden": _("You may not do this, or the page is too old. Nothing was recorded."),
        "not_found": _("Page not found."),
        "key_reused": _("This form was sent before, with other content. Open the page again."),
        "too_many": _("Too many attempts. Wait a few minutes."),
        "unavailable": _("Nothing can be stored at the moment. What you entered was not recorded; try again soon."),
        "internal": _("Something went wrong. What you entered was not recorded. Tell whoever looks after the service."),
    }


def _page(request: Asked, problem: Problem) -> "Response[Any]":
    session: Session | None = request.scope.get(SESSION)  # type: ignore[assignment]
    if problem.code == "unauthenticated":
        wants_page = "text/html" in request.headers.get("accept", "")
        if request.method == "GET" and wants_page:
            return go(f"/signin?next={request.scope['path']}")
        if not wants_page:
            return api.problem_response(problem)
        return sign_in_page(request, 401, ended=True)
    t = texts(session.language if session is not None and session.language else language_of(request))
    said = sentences(t)
    otherwise = said["internal" if problem.status >= 500 else "invalid"]
    return html(
        t.language, "message.html", problem.status, said=said.get(problem.code, otherwise),
        detail=problem.detail if problem.code in _BACK else None, back=request.method == "POST",
    )  # fmt: skip


def on_refused(request: "Request[Any, Any, Any]", error: Refused) -> "Response[Any]":
    """What the service refuses."""
    return _page(request, error.problem())


def on_bad_input(request: "Request[Any, Any, Any]", error: OpportuneError) -> "Response[Any]":
    """What a check refuses."""
    return _page(request, Problem.of("invalid", str(error)))


def on_http(request: "Request[Any, Any, Any]", error: HTTPException) -> "Response[Any]":
    """What the framework refuses."""
    response = api.on_http(request, error)
    codes = [code for code, (status, _) in TITLES.items() if status == response.status_code]
    return _page(request, Problem.of(codes[0] if codes else "internal", ""))


def on_fault(request: "Request[Any, Any, Any]", error: Exception) -> "Response[Any]":
    """Anything that nobody has foreseen."""
    answered = api.on_fault(request, error)
    return _page(request, Problem.of("unavailable" if answered.status_code == 503 else "internal", ""))
