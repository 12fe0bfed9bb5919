"""The numbers of a live agent as bytes, and back: what a service stores at every decision.

`saving` describes a whole agent as JSON and checks all of it; this is for the case that costs must be microseconds.
The bytes hold what is a participant's own of the state, the open proposal and a checksum; steps are stored elsewhere,
one by one, and handed back to `unpack`.
"""

import json
import math
import struct
import weakref
import zlib
from array import array
from collections.abc import Iterable
from typing import Any

import numpy as np

from opportune import checks
from opportune.errors import StateError
from opportune.live.agent import Agent
from opportune.live.cohort import Cohort
from opportune.live.point import STATE, Step
from opportune.live.saving import careful, describe_proposal, restore_proposal

MAGIC = b"OPS1"
_HEAD = struct.Struct("<4sIII")  # magic, checksum of the rest, length of the text, length of the numbers


def pack(agent: Agent) -> bytes:
    """What is an agent's own, but for its steps."""
    proposal = "null" if agent._proposal is None else json.dumps(describe_proposal(agent._proposal))
    order = agent._pending.order_bytes()  # rewards that wait for a reveal
    text = f"[{agent.step}, {_yes(agent._late_answer)}, {_yes(agent.withdrawn)}, {len(order) // 8}, {proposal}]"
    return _sealed(text.encode(), order, agent._block)


def unpack(agent: Agent, data: bytes, steps: Iterable[Step]) -> None:
    """Bring an agent to where `pack` found it; `steps` are those that it does not have yet, or that have changed."""
    text, numbers = _opened(data)
    with careful():
        step, late_answer, withdrawn, waiting, proposal = json.loads(text)
        agent.step = checks.whole("step", step, least=0, most=agent.horizon)
        agent._late_answer = checks.yes_no("late_answer", late_answer)
        agent.withdrawn = checks.yes_no("withdrawn", withdrawn)
        held = 8 * checks.whole("rewards that wait", waiting, least=0, most=agent.step)
        agent._pending.set_order(array("q", numbers[:held]))
        for known in steps:
            agent._steps[known.step] = known
            agent._pending.note(known)
        if len(agent._steps) != agent.step:
            stored = len(agent._steps)
            raise StateError(f"the state cannot be resumed: it has {agent.step} steps, and {stored} are stored")
        _fill([agent._block], numbers[held:])
        agent._proposal = restore_proposal(agent, proposal)
    if not healthy(agent):
        raise StateError("the state cannot be resumed: it has a variance that is not positive")


def pack_shared(cohort: Cohort) -> bytes:
    """What the participants of a cohort share: the model, the budget, both or nothing."""
    return _sealed(b"", *(cohort._common._groups[name] for name in _shared(cohort)))


def unpack_shared(cohort: Cohort, data: bytes) -> None:
    """Bring what a cohort shares to where `pack_shared` found it."""
    _fill([cohort._common._groups[name] for name in _shared(cohort)], _opened(data)[1])


def healthy(agent: Agent) -> bool:
    """Whether an agent's numbers are finite and its variances positive, so that it can go on deciding."""
    numbers, variances = _LOOKED_AT.get(agent) or _LOOKED_AT.setdefault(agent, _look_at(agent))
    for group in numbers:
        # One number that is not finite makes the sum of squares such; so may very large ones, which are looked at.
        if not math.isfinite(group.dot(group)) and not np.isfinite(group).all():
            return False
    return all(min(diagonal.tolist()) > 0.0 for diagonal in variances)


Looked = tuple["list[np.ndarray]", "list[np.ndarray]"]
_LOOKED_AT: "weakref.WeakKeyDictionary[Agent, Looked]" = weakref.WeakKeyDictionary()
"""What is looked at whenever a state is stored, as views that are made once: an agent's numbers, and its variances."""


def _look_at(agent: Agent) -> Looked:
    sizes, groups = agent._at.sizes, agent._groups
    shared = [array for array in groups.values() if array.base is not agent._block.base]
    covs = [agent._at.views(STATE[name], groups[name]).cov for name in ("model", "snapshot")]
    return [agent._block, *shared], [cov[: sizes.d * sizes.stride : sizes.stride + 1] for cov in covs]


def _shared(cohort: Cohort) -> list[str]:
    own = cohort._own()
    return [name for name in STATE if name not in own]


def _yes(value: bool) -> str:
    return "true" if value else "false"


def _sealed(text: bytes, *numbers: Any) -> bytes:
    check, size = zlib.crc32(text), 0
    for part in numbers:
        check = zlib.crc32(part, check)
        size += len(part) if isinstance(part, bytes) else part.nbytes
    return b"".join((_HEAD.pack(MAGIC, check, len(text), size), text, *numbers))


def _opened(data: bytes) -> tuple[bytes, bytes]:
    """The text and the numbers of what was packed, if they are what they were."""
    if len(data) < _HEAD.size:
        raise StateError(f"the state cannot be resumed: it is {len(data)} bytes; expected at least {_HEAD.size}")
    magic, check, length, size = _HEAD.unpack_from(data)
    if magic != MAGIC or len(data) != _HEAD.size + length + size:
        raise StateError("the state cannot be resumed: it was cut, or written in another format")
    text, numbers = data[_HEAD.size : _HEAD.size + length], data[_HEAD.size + length :]
    if zlib.crc32(numbers, zlib.crc32(text)) != check:
        raise StateError("the state cannot be resumed: its checksum does not fit its contents")
    return text, numbers


def _fill(groups: "list[np.ndarray]", numbers: bytes) -> None:
    """Copy numbers into arrays that compiled code has the addresses of."""
    if sum(group.nbytes for group in groups) != len(numbers):
        expected = sum(group.nbytes for group in groups)
        raise StateError(f"the state cannot be resumed: it has {len(numbers)} bytes of numbers; expected {expected}")
    given = np.frombuffer(numbers, dtype=np.float64)
    if not np.isfinite(given).all():
        raise StateError("the state cannot be resumed: it holds NaN or infinity")
    at = 0
    for group in groups:
        group[:] = given[at : at + group.size]
        at += group.size
