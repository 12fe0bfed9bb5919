"""The short way for the writes that apps make all day: decisions, answers and rewards.

A request that is in order needs little of what the framework does for all of them, and that little takes less than
half of the time. Whatever is not plainly in order here (no key, another role, a body that cannot be read, a header
twice) goes the long way, which refuses it or not: the addresses of `writes` stay the one place that says what is
allowed.
"""

import re
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec
import structlog
from litestar import Litestar, Response
from litestar.types import Receive

from opportune.errors import OpportuneError
from opportune.service.api import models
from opportune.service.api.shared import DECISION, JSON, KEY, LONGEST_KEY, problem_response, written
from opportune.service.api.watching import note
from opportune.service.api.writes import answer_nudge, decide, proposal, reward, rewarding, settlement
from opportune.service.auth import Caller
from opportune.service.commands import Command
from opportune.service.logs import described
from opportune.service.problems import Problem, Refused
from opportune.service.service import Service

_NAME, _DECISION = (pattern.strip("^$") for pattern in (models.NAME, DECISION))
_PATH = re.compile(rf"/api/v1/(?:participants/({_NAME})|decisions/({_DECISION}))/([a-z]+)")
_KEY = re.compile(KEY)
log = structlog.get_logger()


class Kind(NamedTuple):
    """One kind of write: its operation's name, who may, how its body is read, and the command that follows."""

    operation: str
    roles: tuple[str, ...]
    read: Callable[[bytes], Any]
    command: Callable[[str, Any, dict[str, Any]], Command]


def _kind(handler: Any, model: Any, command: Callable[[str, Any, dict[str, Any]], Command]) -> Kind:
    return Kind(handler.handler_name, handler.opt["roles"], msgspec.json.Decoder(model).decode, command)


_OF_PARTICIPANTS = {"decisions": _kind(decide, models.Moment, proposal)}
_OF_DECISIONS = {
    "answer": _kind(answer_nudge, models.NudgeAnswer, settlement),
    "reward": _kind(reward, models.NewReward, rewarding),
}


class Asked(NamedTuple):
    """A write that someone asks for who may."""

    kind: Kind
    about: str
    caller: Caller
    key: str


class Application(Litestar):
    """The web application, with a short way for what comes most."""

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        """Answer a request."""
        service: Service = self.state.service
        asked = _asked(scope, service) if scope["type"] == "http" else None
        if asked is None:
            await super().__call__(scope, receive, send)
            return
        began = time.perf_counter()
        message = await receive()
        command = _command(service, scope["path"], asked, message)
        if command is None:
            await super().__call__(scope, _again(message, receive), send)
            return
        status, headers, body = await _carried_out(service, command)
        note(asked.kind.operation, status, time.perf_counter() - began)
        await send({"type": "http.response.start", "status": status, "headers": headers})
        await send({"type": "http.response.body", "body": body})


def _asked(scope: Any, service: Service) -> Asked | None:
    """What is asked for, by whom; None for whatever must go the long way."""
    found = _PATH.fullmatch(scope["path"])
    if found is None or scope["method"] != "POST" or scope.get("root_path"):
        return None
    participant, decision, word = found.groups()
    kind = _OF_DECISIONS.get(word) if participant is None else _OF_PARTICIPANTS.get(word)
    headers: dict[bytes, bytes] = dict(scope["headers"])
    if kind is None or len(headers) < len(scope["headers"]) or headers.get(b"content-type") != b"application/json":
        return None
    scheme, _, token = headers.get(b"authorization", b"").partition(b" ")
    key = headers.get(b"idempotency-key", b"").decode("latin-1")
    if scheme != b"Bearer" or len(key) > LONGEST_KEY or not _KEY.fullmatch(key):
        return None
    caller = service.keys.remembered(token.decode("latin-1"))
    if caller is None or caller.role not in kind.roles:
        return None
    if service.rehearsal and b"rehearsal-time" in headers:
        try:
            service.tell(headers[b"rehearsal-time"].decode("latin-1"))
        except Refused:
            return None
    return Asked(kind, participant or decision, caller, key)


def _command(service: Service, path: str, asked: Asked, message: Any) -> Command | None:
    """The command, if the whole body is here and is what it should be."""
    if message["type"] != "http.request" or message.get("more_body"):
        return None
    try:
        data = asked.kind.read(message["body"])
        write = written(asked.caller.name, service.now(), asked.key, "POST", path, data)
        return asked.kind.command(asked.about, data, write)
    except (msgspec.MsgspecError, OpportuneError, ValueError, OverflowError, RecursionError):
        return None


def _again(message: Any, receive: Receive) -> Receive:
    """What was received already, and then what follows."""
    first = [message]

    async def replayed() -> Any:
        return first.pop() if first else await receive()

    return replayed


async def _carried_out(service: Service, command: Command) -> tuple[int, list[tuple[bytes, bytes]], bytes]:
    """The answer: the status, the headers and the body."""
    try:
        reply = await service.carry_out(command)
    except Refused as error:
        refused: Response[bytes] = problem_response(error.problem())
    except Exception as error:
        log.error("a request failed", method="POST", **described(error))
        refused = problem_response(Problem.of("internal", "the request failed; the log says why"))
    else:
        return reply.status, _headers(JSON, reply.body), reply.body
    more = [(name.lower().encode(), value.encode()) for name, value in refused.headers.items()]
    content: bytes = refused.content
    return refused.status_code or 500, [*_headers(str(refused.media_type), content), *more], content


def _headers(media_type: str, body: bytes) -> list[tuple[bytes, bytes]]:
    return [(b"content-type", media_type.encode()), (b"content-length", b"%d" % len(body))]
