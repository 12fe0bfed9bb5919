"""Events as they are read in bulk: some dozens at once, each held to its hash and its columns; and their chain."""

from collections.abc import Sequence
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np

from opportune.service import events, typed
from opportune.service.clock import from_iso
from opportune.service.tracks import Doubt

Row = tuple[int, str, str | None, str | None, str, int, str, str | bytes, int]
"""seq, kind, participant, decision, who, received, hash, body; whether it is the part's own."""
_HASH = len(events.START)
_MOMENT = len("2026-03-29T01:30:00.000000Z")
_HEAD = attrgetter(
    "seq", "kind", "participant", "decision", "who", "before", "received", "happened", "timezone", "study"
)


class Links(NamedTuple):
    """What events say of the chain: their numbers (eight bytes), their hashes, and those before (64 letters)."""

    numbers: bytes
    hashes: bytes
    befores: bytes


class Read(NamedTuple):
    """Events that are what their hashes and their columns say."""

    events: list[Any]
    seqs: tuple[int, ...]
    participants: tuple[str, ...]
    received: list[int]
    happened: list[int]
    timezones: tuple[str | None, ...]
    studies: tuple[str, ...]
    links: Links


def read(rows: Sequence[Row]) -> Read:
    """Some events, if they are what they seem; raises `Doubt`, or whatever comes of reading what is not an event."""
    seqs, kinds, participants, decisions, who, received, hashes, bodies, _own = zip(*rows, strict=True)
    if not isinstance(bodies[0], bytes):
        bodies = tuple([body.encode() for body in bodies])
    decoders = typed.DECODE
    made = [decoders.get(kind, events.decode)(body) for kind, body in zip(kinds, bodies, strict=True)]
    *columns, befores, texts, others, timezones, studies = zip(*map(_HEAD, made), strict=True)
    at = _moments(texts)
    if columns != [seqs, kinds, participants, decisions, who] or at != list(received):
        raise Doubt("an event's columns")
    if tuple(map(events.hash_of, bodies)) != hashes or {*map(len, befores)} != {_HASH}:
        raise Doubt("an event's hash")
    links = Links(np.array(seqs, dtype=np.int64).tobytes(), "".join(hashes).encode(), "".join(befores).encode())
    happened = at if others == texts else _moments(others)
    return Read(made, seqs, participants, at, happened, timezones, studies, links)


def whole(links: list[Links]) -> int:
    """How many events make one chain, each with the hash of the one before; raises `Doubt` if they do not."""
    numbers = np.frombuffer(b"".join(part.numbers for part in links), dtype=np.int64)
    order = np.argsort(numbers)
    texts = [b"".join(part.hashes for part in links), b"".join(part.befores for part in links)]
    if any(len(text) != _HASH * len(numbers) for text in texts) or not len(numbers):
        raise Doubt("the chain's hashes")
    hashes, befores = (np.frombuffer(text, dtype=np.uint8).reshape(-1, _HASH)[order] for text in texts)
    if (
        not np.array_equal(numbers[order], np.arange(1, len(numbers) + 1))
        or befores[0].tobytes() != events.START.encode()
        or not np.array_equal(befores[1:], hashes[:-1])
    ):
        raise Doubt("the chain")
    return len(numbers)


def _moments(texts: Sequence[str]) -> list[int]:
    """Times that `clock.iso` wrote, in microseconds since 1970."""
    if {*map(len, texts)} != {_MOMENT} or any(text[-1] != "Z" for text in {*texts}):
        return [from_iso(text) for text in texts]
    if texts.count(texts[0]) == len(texts):
        return [from_iso(texts[0])] * len(texts)
    letters = np.frombuffer("".join(texts).encode("ascii"), dtype=np.uint8).reshape(-1, _MOMENT)
    moments = np.ascontiguousarray(letters[:, :-1]).view(f"S{_MOMENT - 1}").ravel().astype("datetime64[us]")
    found: list[int] = moments.astype(np.int64).tolist()
    return found
