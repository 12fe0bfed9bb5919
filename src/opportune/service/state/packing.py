"""The state of a live agent as bytes, and back: what a service stores with every decision.

`live.saving` describes a whole agent as JSON and checks all of it; `packing` takes microseconds. The bytes contain the
participant's own part of the state, by name and without padding, the open proposal, and a checksum. Steps are stored
elsewhere, one by one, and passed to `unpack`.
"""

import json
import struct
import zlib
from array import array
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
import numpy as np
from numpy.typing import NDArray

from opportune import checks
from opportune.errors import StateError
from opportune.live import corrections, learning
from opportune.live.agent import Agent
from opportune.live.cohort import Cohort
from opportune.live.numbers import Numbers, is_sound
from opportune.live.point import Step
from opportune.live.saving import careful, describe_proposal, restore_proposal

FORMAT = b"OPS2"
_HEAD = struct.Struct("<4sIIII")  # the format, checksum of the rest, lengths of the text, the names and the numbers
MOVED = b"moved"
"""The text of a shared state whose prior was updated (`Cohort.moved`)."""


class Unsound(StateError):  # noqa: N818  (a state is)
    """A state is not finite, or its variances are not positive: it must not be stored."""


def pack(agent: Agent) -> bytes:
    """Pack what is an agent's own, without its steps; raises `Unsound` if that must not be stored."""
    made = agent.open_proposal
    proposal = "null" if made is None else json.dumps(describe_proposal(made))
    order = agent.pending.order_bytes()
    opened, withdrawn = json.dumps(agent.opened_since), _yes(agent.withdrawn)
    updates = f"{sorted(agent.pending.waiting)}, " if agent.policy.update > 1 else ""
    text = f"[{agent.step}, {opened}, {withdrawn}, {len(order) // 8}, {updates}{proposal}]"
    return _sealed(text.encode(), agent.numbers, agent.numbers.own, order)


def unpack(agent: Agent, data: bytes, steps: Iterable[Step]) -> None:
    """Restore an agent's packed state; `steps` are those that the agent lacks, or that have changed."""
    text, names, numbers = content_of(data)
    with careful():
        step, opened_since, withdrawn, waiting, *updates, proposal = json.loads(text)
        agent.step = checks.whole("step", step, least=0, most=agent.horizon)
        agent.opened_since = corrections.reported_between(agent, opened_since)
        agent.withdrawn = checks.yes_no("withdrawn", withdrawn)
        held = 8 * checks.whole("rewards that wait", waiting, least=0, most=agent.step)
        agent.pending.set_order(array("q", numbers[:held]))
        for known in steps:
            agent.steps[known.step] = known
            agent.pending.note(known)
        if len(agent.steps) != agent.step:
            stored = len(agent.steps)
            raise StateError(f"the state cannot be resumed: it has {agent.step} steps, and {stored} are stored")
        agent.pending.waiting = learning.restore_waiting(agent, updates[0] if updates else [])
        _fill(agent.numbers, agent.numbers.own, names, numbers[held:])
        agent.open_proposal = restore_proposal(agent, proposal)
    if not agent.numbers.sound():
        raise StateError("the state cannot be resumed: it has a variance that is not positive")


def pack_shared(cohorts: Mapping[str, Cohort]) -> bytes:
    """Pack what the participants of each arm share: the model, the budget, the partially pooled prior, or nothing."""
    packed = {
        arm: _sealed(MOVED if cohort.moved else b"", cohort.common, shared_arrays(cohort))
        for arm, cohort in cohorts.items()
    }
    return packed[""] if list(packed) == [""] else msgspec.msgpack.encode(packed)


def shared_parts(cohorts: Mapping[str, Cohort], data: bytes) -> dict[str, bytes]:
    """The packed state of each arm, from the bytes of `pack_shared`."""
    if list(cohorts) == [""]:
        return {"": data}
    try:
        found = msgspec.msgpack.decode(data, type=dict[str, bytes])
    except msgspec.MsgspecError:
        found = {}
    if found.keys() != cohorts.keys():
        raise StateError("the state cannot be resumed: its arms are not those of this study")
    return found


def unpack_shared(cohorts: Mapping[str, Cohort], data: bytes) -> None:
    """Restore the shared state that `pack_shared` packed."""
    for arm, part in shared_parts(cohorts, data).items():
        text, names, numbers = content_of(part)
        cohort = cohorts[arm]
        _fill(cohort.common, shared_arrays(cohort), names, numbers)
        cohort.moved = text == MOVED


def shared_arrays(cohort: Cohort) -> tuple[str, ...]:
    """The arrays that participants share; with partial pooling also the model of the cohort's placeholder."""
    return (*cohort.common.shared, *(["model"] if cohort.policy.partial else []))


def _yes(value: bool) -> str:
    return "true" if value else "false"


def _sealed(text: bytes, numbers: Numbers, arrays: tuple[str, ...], order: bytes = b"") -> bytes:
    row, places = numbers.row(arrays), numbers.places(arrays)
    if not is_sound(row, places):
        raise Unsound("the state of a participant is no longer finite")
    return seal(text, msgspec.json.encode(places.sizes), order + row.tobytes())


def seal(text: bytes, names: bytes, numbers: bytes) -> bytes:
    """Join text, names and numbers, with a checksum; `content_of` splits them again."""
    content = b"".join((text, names, numbers))
    return _HEAD.pack(FORMAT, zlib.crc32(content), len(text), len(names), len(numbers)) + content


def content_of(data: bytes) -> tuple[bytes, bytes, bytes]:
    """Split a packed state into text, names and numbers; raises `StateError` if it is damaged."""
    if len(data) < _HEAD.size:
        raise StateError(f"the state cannot be resumed: it is {len(data)} bytes; expected at least {_HEAD.size}")
    found, check, *lengths = _HEAD.unpack_from(data)
    if found != FORMAT or len(data) != _HEAD.size + sum(lengths):
        raise StateError("the state cannot be resumed: it was cut, or written in another format")
    content = data[_HEAD.size :]
    if zlib.crc32(content) != check:
        raise StateError("the state cannot be resumed: its checksum does not fit its contents")
    text, names = lengths[0], lengths[0] + lengths[1]
    return content[:text], content[text:names], content[names:]


def parts_of(names: bytes, numbers: bytes) -> dict[str, NDArray[np.float64]]:
    """The parts of a packed state by name, as flat arrays."""
    with careful():
        sizes: Mapping[str, Any] = checks.mapping("names", json.loads(names), "{name: how many numbers}")
        known = {name: checks.whole(name, size, least=0, most=len(numbers)) for name, size in sizes.items()}
    if 8 * sum(known.values()) != len(numbers):
        expected = 8 * sum(known.values())
        raise StateError(f"the state cannot be resumed: it has {len(numbers)} bytes of numbers; expected {expected}")
    found, first, given = {}, 0, np.frombuffer(numbers, dtype=np.float64)
    for name, size in known.items():
        found[name] = given[first : first + size]
        first += size
    return found


def _fill(into: Numbers, arrays: tuple[str, ...], names: bytes, numbers: bytes) -> None:
    """Copy a packed state into existing arrays, whose addresses compiled code holds."""
    parts, given = into.parts(arrays), parts_of(names, numbers)
    if {name: part.size for name, part in parts.items()} != {name: part.size for name, part in given.items()}:
        raise StateError("the state cannot be resumed: its parts are not those of this study")
    for name, part in parts.items():
        if not np.isfinite(given[name]).all():
            raise StateError("the state cannot be resumed: it holds NaN or infinity")
        part[...] = given[name].reshape(part.shape)
