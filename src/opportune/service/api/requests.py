"""What all addresses share: who asks, the key of a write, answers as bytes, problems."""

import hashlib
import re
from typing import Annotated, Any

import msgspec
import structlog
from litestar import MediaType, Request, Response
from litestar.concurrency import sync_to_thread
from litestar.connection import ASGIConnection
from litestar.datastructures import State
from litestar.exceptions import HTTPException, ValidationException
from litestar.handlers.base import BaseRouteHandler
from litestar.openapi.datastructures import ResponseSpec
from litestar.params import HeaderParameter, QueryParameter

from opportune.errors import OpportuneError
from opportune.service.accounts import sessions
from opportune.service.accounts.keys import ADMIN, Caller
from opportune.service.api.models import NAME
from opportune.service.monitoring.logs import described
from opportune.service.problems import Problem, Refused, encoded
from opportune.service.record.writer import Reply
from opportune.service.service import Service

JSON = "application/json"
PROBLEM = "application/problem+json"
CALLER = "opportune.caller"
SESSION = "opportune.session"
COOKIE = "opportune_session"
PAGE = {"page": True}
"""The option of an address that people open in a browser: they are known by their session, not by a key."""
OPEN = {"open": True}
"""The option of an address that needs no key."""
DECISION = r"^d[1-9][0-9]{0,17}$"
_DECISION = re.compile(DECISION)
_NAME = re.compile(NAME)
_ENCODE = msgspec.json.Encoder().encode
log = structlog.get_logger()

IdempotencyKey = Annotated[
    str,
    HeaderParameter(
        name="Idempotency-Key",
        min_length=1,
        max_length=200,
        pattern=r"^[\x21-\x7e]+$",
        description="An id of your choosing, new for each request: a retry with it gets the original answer.",
    ),
]
After = Annotated[str | None, QueryParameter(name="after", max_length=200, description="`next` of the page before.")]
Limit = Annotated[int, QueryParameter(name="limit", ge=1, le=1000, description="How many at most.")]

_SENTENCES = {
    400: "The body or a parameter cannot be read.",
    401: "No valid key.",
    403: "The key's role may not do this.",
    404: "There is no such thing.",
    405: "The address does not take this method.",
    409: "It does not fit what is on record; `code` says how.",
    413: "The body is too large.",
    422: "A value cannot be used.",
    429: "Too many wrong keys from this address; a valid one is never refused so.",
    500: "Something is wrong with the service.",
    503: "Nothing can be stored at the moment; try again with the same key.",
}


def refusals(*codes: int) -> dict[int, ResponseSpec]:
    """The problems that an address may answer with, for the schema."""
    return {
        code: ResponseSpec(
            data_container=Problem, description=_SENTENCES[code], generate_examples=False, media_type=PROBLEM
        )
        for code in sorted({*codes, 400, 401, 403, 429, 500})
    }


WRITING = refusals(404, 409, 413, 422, 503)
READING = refusals(404, 422)


def roles(*allowed: str) -> dict[str, Any]:
    """The option of an address that says which roles may use it."""
    return {"roles": allowed}


async def guard(connection: "ASGIConnection[Any, Any, Any, State]", handler: BaseRouteHandler) -> None:
    """Let in who may; an address that does not say who may is closed to all.

    What must be asked of the database is asked in a thread; a key that was asked about a moment ago need not be.
    """
    if handler.opt.get("open") or connection.scope["path"].startswith("/schema"):
        return
    page, allowed = handler.opt.get("page"), handler.opt.get("roles", ())
    by_itself = bool(handler.opt.get("by_itself"))
    caller = await (sync_to_thread(_by_session, connection, by_itself) if page else _by_key(connection))
    service: Service = connection.app.state.service
    everything = service.rehearsal and not page and bool(allowed) and caller.role == ADMIN
    if caller.role not in allowed and not everything:
        raise Refused("forbidden", f"the role {caller.role!r} may not do this")
    if service.rehearsal and not page:
        service.tell(connection.headers.get("rehearsal-time"))
    connection.scope[CALLER] = caller  # type: ignore[literal-required]


async def _by_key(connection: "ASGIConnection[Any, Any, Any, State]") -> Caller:
    scheme, _, key = connection.headers.get("authorization", "").partition(" ")
    service: Service = connection.app.state.service
    caller = None
    if scheme.lower() == "bearer" and key:
        key = key.strip()
        caller = service.keys.remembered(key) or await sync_to_thread(service.keys.find, key)
    if caller is None:
        if key:
            service.limits.keys.count(address_of(connection))
        raise Refused("unauthenticated", "no valid key; expected the header Authorization: Bearer KEY")
    return caller


def address_of(connection: "ASGIConnection[Any, Any, Any, State]") -> str:
    """Where a request comes from; behind a proxy on this machine, what that says."""
    return "unknown" if connection.client is None else connection.client.host


def _by_session(connection: "ASGIConnection[Any, Any, Any, State]", by_itself: bool) -> Caller:
    token = connection.cookies.get(COOKIE, "")
    service: Service = connection.app.state.service
    found = sessions.find(service.database, token, used=not by_itself) if token else None
    if found is None:
        raise Refused("unauthenticated", "nobody is signed in, or no more")
    connection.scope[SESSION] = found  # type: ignore[literal-required]
    return found.caller


def caller_of(request: "Request[Any, Any, State]") -> Caller:
    """Who asks."""
    found: Caller = request.scope[CALLER]  # type: ignore[literal-required]
    return found


def service_of(request: "Request[Any, Any, State]") -> Service:
    """The service."""
    found: Service = request.app.state.service
    return found


def received(request: "Request[Any, Any, State]") -> int:
    """The time: the clock's or, in a rehearsal, what requests say."""
    return service_of(request).now()


def write_of(request: "Request[Any, Any, State]", key: str, data: Any, path: str | None = None) -> dict[str, Any]:
    """Who writes, when, under which key and with what content."""
    content = f"{request.method}\n{path or request.scope['path']}\n".encode() + _ENCODE(data)
    fingerprint = hashlib.sha256(content).hexdigest()
    return {"who": caller_of(request).name, "received": received(request), "key": key, "fingerprint": fingerprint}


def answer(reply: Reply) -> "Response[bytes]":
    """An answer, byte for byte as it is stored."""
    return Response(reply.body, status_code=reply.status, media_type=JSON)


def known_name(name: str) -> str:
    """A participant's name from an address; one that cannot exist is not looked for."""
    if not _NAME.fullmatch(name):
        raise Refused("not_found", "no participant has such a name")
    return name


def known_decision(decision: str) -> str:
    """A decision's id from an address, likewise."""
    if not _DECISION.fullmatch(decision):
        raise Refused("not_found", "no decision has such an id")
    return decision


def problem_response(problem: Problem) -> "Response[bytes]":
    """Problem details (RFC 9457)."""
    headers = {}
    if problem.status == 401:
        headers["WWW-Authenticate"] = "Bearer"
    if problem.status == 503:
        headers["Retry-After"] = "1"
    if problem.status == 429:
        headers["Retry-After"] = "60"
    return Response(encoded(problem), status_code=problem.status, media_type=PROBLEM, headers=headers)


def on_refused(_request: "Request[Any, Any, Any]", error: Refused) -> "Response[bytes]":
    """What the service refuses."""
    return problem_response(error.problem())


def on_bad_input(_request: "Request[Any, Any, Any]", error: OpportuneError) -> "Response[bytes]":
    """What a check refuses."""
    return problem_response(Problem.of("invalid", str(error)))


_BY_STATUS = {
    401: "unauthenticated", 403: "forbidden", 404: "not_found", 405: "method_not_allowed", 413: "too_large",
    415: "unsupported", 429: "too_many", 503: "unavailable",
}  # fmt: skip


def on_http(_request: "Request[Any, Any, Any]", error: HTTPException) -> "Response[bytes]":
    """What the framework refuses: addresses, methods, bodies that are not what the schema says."""
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
    """Anything that nobody has foreseen."""
    if isinstance(error, RecursionError):
        return problem_response(Problem.of("malformed", "the body is nested too deeply"))
    if isinstance(error, UnicodeDecodeError):
        return problem_response(Problem.of("malformed", "the body is not UTF-8"))
    log.error("a request failed", method=request.method, **described(error))
    return problem_response(Problem.of("internal", "the request failed; the log says why"))


def as_json(value: Any, status: int = 200) -> "Response[bytes]":
    """Any answer."""
    return Response(msgspec.json.encode(value), status_code=status, media_type=MediaType.JSON)
