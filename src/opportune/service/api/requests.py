"""What all addresses share: who asks, the key of a write, bodies as they are written, answers as bytes."""

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
"""The option of an address that people open in a browser: they are known by their session, not by a key."""
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
        description="An id of your choosing, new for each request: a retry with it gets the original answer.",
    ),
]
After = Annotated[str | None, QueryParameter(name="after", max_length=200, description="`next` of the page before.")]
Limit = Annotated[int, QueryParameter(name="limit", ge=1, le=1000, description="How many at most.")]


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
    caller = await (sync_to_thread(_by_session, connection, handler) if page else _by_key(connection))
    service: Service = connection.app.state.service
    everything = service.rehearsal and not page and bool(allowed) and caller.role == ADMIN
    if caller.role not in allowed and not everything:
        raise Refused("forbidden", f"the role {caller.role!r} may not do this")
    if caller.participant is not None:
        await sync_to_thread(_keep_to, connection, caller.participant)
    told = connection.headers.get("rehearsal-time")
    if told is not None and not page:
        if not service.rehearsal:
            raise Refused("invalid", "Rehearsal-Time is given, but the study is with people; expected no such header")
        service.set_time(told)
    if connection.scope.get("method") in _READS and not handler.opt.get("by_itself"):
        path, about = connection.scope["path"], connection.path_params
        address = address_of(connection)
        service.access.note(caller, at=clock.now(), address=address, what=path, about=about)
    connection.scope[CALLER] = caller  # type: ignore[literal-required]


def _keep_to(connection: "ASGIConnection[Any, Any, Any, State]", participant: str) -> None:
    """Refuse what is about anyone else, as if it did not exist."""
    about, service = connection.path_params, connection.app.state.service
    if "participant" in about and about["participant"] != participant:
        raise Refused("not_found", "no participant has this name")
    if "decision" in about:
        row = queries.decision_row(service.database, known_decision(str(about["decision"])))
        if row is None or row["participant"] != participant:
            raise Refused("not_found", "no decision has this id")


async def caller_now(connection: "ASGIConnection[Any, Any, Any, State]") -> Caller | None:
    """Who has the key that a request carries, as of now; None if nobody does, or no more."""
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
    """Where a request comes from; behind a proxy on this machine, what that says."""
    return "unknown" if connection.client is None else connection.client.host


def origin_of(connection: "ASGIConnection[Any, Any, Any, State]") -> dict[str, str]:
    """Where a request comes from, as the record notes it."""
    return {"from": address_of(connection)}


def _by_session(connection: "ASGIConnection[Any, Any, Any, State]", handler: BaseRouteHandler) -> Caller:
    token, service = read(connection, SIGNED_IN), connection.app.state.service
    purposes, used = handler.opt.get("purposes", (sessions.SESSION,)), not handler.opt.get("by_itself")
    found = sessions.find(service.database, token, used=used, purposes=purposes) if token else None
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


def blind(request: "Request[Any, Any, State]") -> bool:
    """Whether whoever asks is not to see by what decisions are made."""
    return service_of(request).blind(caller_of(request))


def sees_arms(request: "Request[Any, Any, State]") -> bool:
    """Whether whoever asks may see to which arms participants belong; apps have no use for it."""
    return caller_of(request).role != APP and not blind(request)


def received(request: "Request[Any, Any, State]") -> int:
    """The time: the clock's or, in a rehearsal, what requests say."""
    return service_of(request).now()


def write_of(request: "Request[Any, Any, State]", key: str, data: Any, path: str | None = None) -> dict[str, Any]:
    """Who writes, when, under which key and with what content."""
    content = f"{request.method}\n{path or request.scope['path']}\n".encode() + _ENCODE(data)
    fingerprint = hashlib.sha256(content).hexdigest()
    return {
        "who": caller_of(request).name, "received": received(request), "key": key, "fingerprint": fingerprint,
        "blind": blind(request),
    }  # fmt: skip


def answer(reply: Reply) -> "Response[bytes]":
    """An answer, byte for byte as it is stored."""
    return Response(reply.body, status_code=reply.status, media_type=JSON)


def known_name(name: str) -> str:
    """A participant's name from an address; one that cannot exist is not looked for."""
    if not _NAME.fullmatch(name):
        raise Refused("not_found", "no participant has such a name")
    return name


def known_decision(decision: str) -> str:
    """A decision's id from an address; one that cannot exist is not looked for."""
    if not _DECISION.fullmatch(decision):
        raise Refused("not_found", "no decision has such an id")
    return decision


def as_json(value: Any, status: int = 200, headers: dict[str, str] | None = None) -> "Response[bytes]":
    """Any answer."""
    return Response(msgspec.json.encode(value), status_code=status, media_type=MediaType.JSON, headers=headers)


def gives(container: Any, description: str, more: dict[int, ResponseSpec] | None = None) -> dict[int, ResponseSpec]:
    """What an address that reads may answer, for the schema."""
    found = ResponseSpec(container, description=description, generate_examples=False)
    return {**READING, **(more or {}), 200: found}


def number_of(after: str | None) -> int:
    """A page's beginning where it is a number."""
    if after is None:
        return 0
    if not after.isdecimal() or len(after) > 18 or not after.isascii():
        raise Refused("invalid", f"after is {after!r}; expected `next` of the page before")
    return int(after)


class StrictRequest(Request[Any, Any, Any]):
    """A request whose body must have the types of its schema."""

    async def json(self) -> Any:
        """The body, refused where a value would have to be converted."""
        found = await super().json()
        field = self.route_handler.parsed_data_field
        if field is not None:
            try:
                msgspec.convert(found, field.annotation, strict=True)
            except msgspec.ValidationError as error:
                raise ValidationException(_plainly(str(error))) from None
        return found


def _plainly(message: str) -> str:
    """What is wrong with which field, shortened."""
    found = _PLACE.fullmatch(message)
    reason, place = (found[1], found[2] or "body") if found else (message, "body")
    return f"{place}: {reason}"[:300]
