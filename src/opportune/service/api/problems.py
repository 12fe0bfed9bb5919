"""Problem details (RFC 9457) as responses, and as the schema lists them."""

from typing import Any

import structlog
from litestar import Request, Response
from litestar.exceptions import HTTPException, ValidationException
from litestar.openapi.datastructures import ResponseSpec

from opportune.errors import OpportuneError
from opportune.service.monitoring.logs import described, log_sparingly
from opportune.service.problems import Problem, Refused, encoded
from opportune.service.record.database import is_away

PROBLEM = "application/problem+json"
log = structlog.get_logger()

_SENTENCES = {
    400: "The body or a parameter cannot be read.",
    401: "No valid key.",
    403: "The key's role may not do this.",
    404: "Not found.",
    405: "This address does not accept this method.",
    409: "The request conflicts with the record; `code` says how.",
    413: "The body is too large.",
    422: "A value is invalid.",
    429: "Too many wrong keys from this address; a valid key is never refused for this reason.",
    500: "Internal error.",
    503: "Nothing can be stored at the moment; try again with the same key.",
}


def refusals(*codes: int) -> dict[int, ResponseSpec]:
    """The problems with which an address may answer, for the schema."""
    return {
        code: ResponseSpec(
            data_container=Problem, description=_SENTENCES[code], generate_examples=False, media_type=PROBLEM
        )
        for code in sorted({*codes, 400, 401, 403, 429, 500})
    }


WRITING = refusals(404, 409, 413, 422, 503)
READING = refusals(404, 422)


def problem_response(problem: Problem) -> "Response[bytes]":
    """The response for a problem, with the headers that its status requires."""
    headers = {}
    if problem.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    if problem.status == 503:
        headers["Retry-After"] = "1"
    if problem.status == 429:
        headers["Retry-After"] = "60"
    return Response(encoded(problem), status_code=problem.status, media_type=PROBLEM, headers=headers)


def on_refused(_request: "Request[Any, Any, Any]", error: Refused) -> "Response[bytes]":
    """Answer a request that the service refused."""
    return problem_response(error.problem())


def on_bad_input(_request: "Request[Any, Any, Any]", error: OpportuneError) -> "Response[bytes]":
    """Answer a request that a check of its values refused."""
    return problem_response(Problem.of("invalid", str(error)))


_BY_STATUS = {
    401: "unauthenticated", 403: "forbidden", 404: "not_found", 405: "method_not_allowed", 413: "too_large",
    415: "unsupported", 429: "too_many", 503: "unavailable",
}  # fmt: skip


def on_http(_request: "Request[Any, Any, Any]", error: HTTPException) -> "Response[bytes]":
    """Answer a request that the framework refused: unknown addresses, wrong methods, bodies that break the schema."""
    if error.status_code >= 500 and error.status_code != 503:
        return on_fault(_request, error)
    code, detail = _BY_STATUS.get(error.status_code, "malformed"), error.detail
    if isinstance(error, ValidationException) and isinstance(error.extra, list):
        parts = [part for part in error.extra if isinstance(part, dict)]
        if any(part.get("source") == "header" for part in parts):
            code = "key_missing"
        detail = "; ".join(f"{part.get('key', 'body')}: {part.get('message', '')}" for part in parts) or detail
    if code == "malformed" and "'Idempotency-Key'" in detail:
        code = "key_missing"
    return problem_response(Problem.of(code, detail[:1000]))


def on_fault(request: "Request[Any, Any, Any]", error: Exception) -> "Response[bytes]":
    """Answer a request that failed with an unexpected error."""
    if isinstance(error, RecursionError):
        return problem_response(Problem.of("malformed", "the body is nested too deeply"))
    if isinstance(error, UnicodeDecodeError):
        return problem_response(Problem.of("malformed", "the body is not UTF-8"))
    if is_away(error):
        log_sparingly("a request failed", method=request.method, **described(error))
        return problem_response(Problem.of("unavailable", "the database cannot be reached at the moment; try again"))
    log.error("a request failed", method=request.method, **described(error))
    return problem_response(Problem.of("internal", "the request failed; the log says why"))
