"""What all addresses share: who is calling, idempotency keys, strict bodies, answers as bytes."""

import hashlib
import re
from typing import Annotated, Any

import msgspec
from litestar import MediaType, Request, Response
from litestar.concurrency import sync_to_thread
from litestar.connection import ASGIConnection
from litestar.datastructures import State
from litestar.exceptions import ValidationException
from litestar.handlers.base import BaseRouteHandler
from litestar.openapi.datastructures import ResponseSpec
from litestar.params import HeaderParameter, QueryParameter

from opportune.service.accounts import sessions
from opportune.service.accounts.keys import ADMIN, APP, Caller
from opportune.service.api.cookies import SIGNED_IN, read
from opportune.service.api.models import NAME
from opportune.service.api.problems import READING
from opportune.service.problems import Refused
from opportune.service.record import queries
from opportune.service.record.writer import Reply
from opportune.service.service import Service
from opportune.service.state import clock

JSON = "application/json"
CALLER = "opportune.caller"
SESSION = "opportune.session"
PAGE = {"page": True}
"""The option of an address that people open in a browser: they are identified by a session, not by a key."""
OPEN = {"open": True}
"""The option of an address that needs no key."""
DECISION = r"^d[1-9][0-9]{0,17}$"
_DECISION = re.compile(DECISION)
_NAME = re.compile(NAME)
_READS = ("GET", "HEAD")
_ENCODE = msgspec.json.Encoder().encode
_PLACE = re.compile(r"(.*) - at `\$\.?(.*)`$", re.DOTALL)

IdempotencyKey = Annotated[
    str,
    HeaderParameter(
        name="Idempotency-Key",
        min_length=1,
        max_length=200,
        pattern=r"^[\x21-\x7e]+$",
        description="An id that you choose, new for each request: a retry with the same id gets the original answer.",
    ),
]
After = Annotated[str | None, QueryParameter(name="after", max_length=200, description="`next` of the previous page.")]
Limit = Annotated[int, QueryParameter(name="limit", ge=1, le=1000, description="The most items of a page.")]


def roles(*allowed: str) -> dict[str, Any]:
    """The option of an address that names the roles that may use it."""
    return {"roles": allowed}


async def guard(connection: "ASGIConnection[Any, Any, Any, State]", handler: BaseRouteHandler) -> None:
    """Admit callers with an allowed role; an address that names no roles is closed to all.

    Database queries run in a thread; a key that was looked up a moment ago needs none.
    """
    if handler.opt.get("open") or connection.scope["path"].startswith("/schema"):
        return
    page, allowed = handler.opt.get("page"), handler.opt.get("roles", ())
    caller = await (sync_to_thread(_by_session, connection, handler) if page else _by_key(connection))
    service: Service = connection.app.state.service
    everything = service.rehearsal and not page and bool(allowed) and caller.role == ADMIN
    if caller.role not in allowed and not everything:
        raise Refused("forbidden", f"the role {caller.role!r} may not do this")
    if caller.participant is not None:
        await sync_to_thread(_keep_to, connection, caller.participant)
    rehearsed = connection.headers.get("rehearsal-time")
    if rehearsed is not None and not page:
        if not service.rehearsal:
            raise Refused("invalid", "Rehearsal-Time is given, but this is no rehearsal; expected no such header")
        service.set_time(rehearsed)
    if connection.scope.get("method") in _READS and not handler.opt.get("by_itself"):
        path, about = connection.scope["path"], connection.path_params
        address = address_of(connection)
        service.access.note(caller, at=clock.now(), address=address, what=path, about=about)
    connection.scope[CALLER] = caller  # type: ignore[literal-required]


def _keep_to(connection: "ASGIConnection[Any, Any, Any, State]", participant: str) -> None:
    """Refuse addresses about other participants, as if they did not exist."""
    about, service = connection.path_params, connection.app.state.service
    if "participant" in about and about["participant"] != participant:
        raise Refused("not_found", "no participant has this name")
    if "decision" in about:
        row = queries.decision_row(service.database, known_decision(str(about["decision"])))
        if row is None or row["participant"] != participant:
            raise Refused("not_found", "no decision has this id")


async def caller_now(connection: "ASGIConnection[Any, Any, Any, State]") -> Caller | None:
    """The owner of the request's key; None if it is missing, unknown or revoked."""
    scheme, _, key = connection.headers.get("authorization", "").partition(" ")
    service: Service = connection.app.state.service
    key = key.strip()
    if scheme.lower() != "bearer" or not key:
        return None
    return service.keys.remembered(key) or await sync_to_thread(service.keys.find, key)


async def _by_key(connection: "ASGIConnection[Any, Any, Any, State]") -> Caller:
    caller = await caller_now(connection)
    if caller is None:
        service: Service = connection.app.state.service
        if connection.headers.get("authorization", "").partition(" ")[2]:
            service.limits.keys.count(address_of(connection))
        raise Refused("unauthenticated", "no valid key; expected the header Authorization: Bearer KEY")
    return caller


def address_of(connection: "ASGIConnection[Any, Any, Any, State]") -> str:
    """The client's address; behind a trusted proxy, the address that the proxy reports."""
    return "unknown" if connection.client is None else connection.client.host


def origin_of(connection: "ASGIConnection[Any, Any, Any, State]") -> dict[str, str]:
    """The origin of a request, for the record."""
    return {"from": address_of(connection)}


def _by_session(connection: "ASGIConnection[Any, Any, Any, State]", handler: BaseRouteHandler) -> Caller:
    token, service = read(connection, SIGNED_IN), connection.app.state.service
    purposes, used = handler.opt.get("purposes", (sessions.SESSION,)), not handler.opt.get("by_itself")
    found = sessions.find(service.database, token, used=used, purposes=purposes) if token else None
    if found is None:
        raise Refused("unauthenticated", "you are not signed in, or the session has ended")
    connection.scope[SESSION] = found  # type: ignore[literal-required]
    return found.caller


def caller_of(request: "Request[Any, Any, State]") -> Caller:
    """Who made the request."""
    found: Caller = request.scope[CALLER]  # type: ignore[literal-required]
    return found


def service_of(request: "Request[Any, Any, State]") -> Service:
    """The service that handles the request."""
    found: Service = request.app.state.service
    return found


def blind(request: "Request[Any, Any, State]") -> bool:
    """Whether the caller must not see the numbers behind decisions."""
    return service_of(request).blind(caller_of(request))


def sees_arms(request: "Request[Any, Any, State]") -> bool:
    """Whether the caller may see participants' arms; apps do not need them."""
    return caller_of(request).role != APP and not blind(request)


def received(request: "Request[Any, Any, State]") -> int:
    """The time at which a request counts as received: now, or the rehearsal's time."""
    return service_of(request).now()


def write_of(request: "Request[Any, Any, State]", key: str, data: Any, path: str | None = None) -> dict[str, Any]:
    """The common fields of a command: who, when, under which idempotency key, and a fingerprint of the content."""
    content = f"{request.method}\n{path or request.scope['path']}\n".encode() + _ENCODE(data)
    fingerprint = hashlib.sha256(content).hexdigest()
    return {
        "who": caller_of(request).name, "received": received(request), "key": key, "fingerprint": fingerprint,
        "blind": blind(request),
    }  # fmt: skip


def answer(reply: Reply) -> "Response[bytes]":
    """The response for a reply, byte for byte as it is stored."""
    return Response(reply.body, status_code=reply.status, media_type=JSON)


def known_name(name: str) -> str:
    """Check a participant's name in an address; a malformed name is refused without a query."""
    if not _NAME.fullmatch(name):
        raise Refused("not_found", "no participant has such a name")
    return name


def known_decision(decision: str) -> str:
    """Check a decision's id in an address; a malformed id is refused without a query."""
    if not _DECISION.fullmatch(decision):
        raise Refused("not_found", "no decision has such an id")
    return decision


def as_json(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> "Response[bytes]":
    """A response with any value as JSON."""
    return Response(msgspec.json.encode(value), status_code=status, media_type=MediaType.JSON, headers=headers)


def gives(container: Any, description: str, more: dict[int, ResponseSpec] | None = None) -> dict[int, ResponseSpec]:
    """The responses of an address for reading, for the schema."""
    found = ResponseSpec(container, description=description, generate_examples=False)
    return {**READING, **(more or {}), 200: found}


def number_of(after: str | None) -> int:
    """The number after which a page begins; 0 without one."""
    if after is None:
        return 0
    if not after.isdecimal() or len(after) > 18 or not after.isascii():
        raise Refused("invalid", f"after is {after!r}; expected `next` of the previous page")
    return int(after)


class StrictRequest(Request[Any, Any, Any]):
    """A request whose body must have the types of its schema."""

    async def json(self) -> Any:
        """The body; refused if a value would have to be converted."""
        found = await super().json()
        field = self.route_handler.parsed_data_field
        if field is not None:
            try:
                msgspec.convert(found, field.annotation, strict=True)
            except msgspec.ValidationError as error:
                raise ValidationException(_plainly(str(error))) from None
        return found


def _plainly(message: str) -> str:
    """A validation error as `field: reason`, shortened."""
    found = _PLACE.fullmatch(message)
    reason, place = (found[1], found[2] or "body") if found else (message, "body")
    return f"{place}: {reason}"[:300]
