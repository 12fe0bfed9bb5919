"""What is plainly in order of the writes that apps make all day: decisions, answers and rewards.

A request that is in order needs little of what the framework does for all of them. `service.api.protocol` takes such
requests from the connection to the writer and back. Whatever is not plainly in order here (no key, another role, a body
that cannot be read, a header twice) goes the long way, which refuses it or not: the addresses of `writes` stay the one
place that says what is allowed.
"""

import re
from collections.abc import Callable, Mapping
from functools import lru_cache
from typing import Any, NamedTuple

import msgspec
import structlog
from litestar import Response

from opportune.errors import OpportuneError
from opportune.service.api import models
from opportune.service.api.shared import DECISION, JSON, KEY, LONGEST_KEY, problem_response, written
from opportune.service.api.writes import answer_nudge, decide, proposal, reward, rewarding, settlement
from opportune.service.auth import Caller
from opportune.service.commands import Command
from opportune.service.logs import described
from opportune.service.problems import Problem, Refused
from opportune.service.service import Service
from opportune.service.writer import Reply

_NAME, _DECISION = (pattern.removesuffix(models.END).strip("^$") for pattern in (models.NAME, DECISION))
_PATH = re.compile(rf"/api/v1/(?:participants/({_NAME})|decisions/({_DECISION}))/([a-z]+)".encode())
_KEY = re.compile(KEY.strip("^$").replace("+", f"{{1,{LONGEST_KEY}}}").encode())
_BEARER = b"Bearer "
SHORT, MOST_BODIES = 500, 2000
"""Bodies of so many bytes at most are remembered, and so many of them."""
log = structlog.get_logger()


class Kind(NamedTuple):
    """One kind of write: its operation's name, who may, how its body is read, and the command that follows."""

    operation: str
    roles: tuple[str, ...]
    read: Callable[[bytes | bytearray], Any]
    command: Callable[[str, Any, dict[str, Any]], Command]


def _kind(handler: Any, model: Any, command: Callable[[str, Any, dict[str, Any]], Command]) -> Kind:
    return Kind(handler.handler_name, handler.opt["roles"], _reader(msgspec.json.Decoder(model).decode), command)


def _reader(decode: Callable[[bytes | bytearray], Any]) -> Callable[[bytes | bytearray], Any]:
    """What reads bodies; short ones come again and again, and nobody changes what was read."""
    known = lru_cache(maxsize=MOST_BODIES)(decode)

    def read(body: bytes | bytearray) -> Any:
        return known(bytes(body)) if len(body) <= SHORT else decode(body)

    return read


_OF_PARTICIPANTS = {b"decisions": _kind(decide, models.Moment, proposal)}
_OF_DECISIONS = {
    b"answer": _kind(answer_nudge, models.NudgeAnswer, settlement),
    b"reward": _kind(reward, models.NewReward, rewarding),
}


class Asked(NamedTuple):
    """A write that someone asks for who may."""

    kind: Kind
    path: str
    about: str
    caller: Caller
    key: str


class Answer(NamedTuple):
    """What is answered, as it goes over the line; the length of the body is the last header."""

    status: int
    headers: tuple[tuple[bytes, bytes], ...]
    body: bytes


def asked_of(service: Service, url: bytes, headers: Mapping[bytes, bytes]) -> Asked | None:
    """What a POST asks for, by its address and its headers, names in lower case; None for what must go the long way."""
    found = _PATH.fullmatch(url)
    if found is None or headers.get(b"content-type") != b"application/json":
        return None
    participant, decision, word = found.groups()
    kind = _OF_DECISIONS.get(word) if participant is None else _OF_PARTICIPANTS.get(word)
    key, bearer = headers.get(b"idempotency-key", b""), headers.get(b"authorization", b"")
    if kind is None or not bearer.startswith(_BEARER) or not _KEY.fullmatch(key):
        return None
    caller = service.keys.remembered(bearer[len(_BEARER) :].decode("latin-1"))
    if caller is None or caller.role not in kind.roles:
        return None
    if service.rehearsal and b"rehearsal-time" in headers:
        try:
            service.tell(headers[b"rehearsal-time"].decode("latin-1"))
        except Refused:
            return None
    return Asked(kind, url.decode("ascii"), (participant or decision).decode("ascii"), caller, key.decode("ascii"))


def command_of(service: Service, asked: Asked, body: bytes | bytearray) -> Command | None:
    """The command, if the body is what it should be."""
    try:
        data = asked.kind.read(body)
        write = written(asked.caller.name, service.now(), asked.key, "POST", asked.path, data)
        return asked.kind.command(asked.about, data, write)
    except (msgspec.MsgspecError, OpportuneError, ValueError, OverflowError, RecursionError):
        return None


def answer_of(reply: Reply | Exception) -> Answer:
    """What a command's reply is answered with: what the long way would have."""
    if isinstance(reply, Reply):
        return Answer(reply.status, _AS_JSON, reply.body)
    if isinstance(reply, Refused):
        refused: Response[bytes] = problem_response(reply.problem())
    else:
        log.error("a request failed", method="POST", **described(reply))
        refused = problem_response(Problem.of("internal", "the request failed; the log says why"))
    more = [(name.lower().encode(), value.encode()) for name, value in refused.headers.items()]
    headers = (*more, (b"content-type", str(refused.media_type).encode()))
    return Answer(refused.status_code or 500, headers, refused.content)


_AS_JSON = ((b"content-type", JSON.encode()),)
