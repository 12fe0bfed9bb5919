"""Events as they are read in bulk: some dozens at once, each held to its hash and its columns; and their chain."""

from collections.abc import Sequence
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from opportune.service import events, typed
from opportune.service.clock import from_iso
from opportune.service.tracks import Doubt

Row = tuple[int, str, str | None, str | None, str, int, str, str | bytes, int]
"""seq, kind, participant, decision, who, received, hash, body; whether it is the part's own."""
_HASH = len(events.START)
_WORDS = _HASH // 16
_MOMENT = len("2026-03-29T01:30:00.000000Z")
_HEAD = attrgetter(
    "seq", "kind", "participant", "decision", "who", "before", "received", "happened", "timezone", "study"
)


class Links(NamedTuple):
    """What events say of the chain: their numbers (eight bytes each), their hashes and those before (32 bytes)."""

    numbers: bytes
    hashes: bytes
    befores: bytes


class Read(NamedTuple):
    """Events that are what their hashes and their columns say."""

    events: list[Any]
    kinds: tuple[str, ...]
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
    digests, before = b"".join(map(events.digest_of, bodies)), "".join(befores)
    if {*map(len, hashes), *map(len, befores)} != {_HASH} or digests.hex() != "".join(hashes):
        raise Doubt("an event's hash")
    links = Links(np.array(seqs, dtype=np.int64).tobytes(), digests, bytes.fromhex(before))
    if links.befores.hex() != before:
        raise Doubt("the hash before, in other letters")
    happened = at if others == texts else _moments(others)
    return Read(made, kinds, seqs, participants, at, happened, timezones, studies, links)


def whole(links: list[Links]) -> int:
    """How many events make one chain, each with the hash of the one before; raises `Doubt` if they do not."""
    parts = [(np.frombuffer(part.numbers, dtype=np.int64), _words(part.hashes), _words(part.befores)) for part in links]
    count = sum(len(numbers) for numbers, _hashes, _befores in parts)
    there, chain = np.zeros(count + 1, dtype=np.bool_), np.zeros((count + 1, _WORDS), dtype=np.uint64)
    chain[0] = _words(bytes.fromhex(events.START))
    for numbers, hashes, _befores in parts:
        if np.any((numbers < 1) | (numbers > count)):
            raise Doubt("the chain's numbers")
        there[numbers], chain[numbers] = True, hashes
    if not there[1:].all() or any(not np.array_equal(chain[numbers - 1], befores) for numbers, _, befores in parts):
        raise Doubt("the chain")
    return count


def _words(digests: bytes) -> NDArray[np.uint64]:
    """Hashes as rows of numbers, which are compared faster than letters."""
    return np.frombuffer(digests, dtype=np.uint64).reshape(-1, _WORDS)


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
