"""The numbers of a live agent as bytes, and back: what a service stores at every decision.

`saving` describes a whole agent as JSON and checks all of it; this is for the case that costs must be microseconds.
The bytes hold what is a participant's own of the state, the open proposal and a checksum; steps are stored elsewhere,
one by one, and handed back to `unpack`.
"""

import json
import struct
import weakref
import zlib
from array import array
from collections.abc import Iterable
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from opportune import checks
from opportune.errors import StateError
from opportune.live import steps
from opportune.live.agent import Agent
from opportune.live.cohort import Cohort
from opportune.live.point import STATE, Step
from opportune.live.saving import careful, describe_proposal, restore_proposal

FORMAT = b"OPS1"
_HEAD = struct.Struct("<4sIII")  # the format, checksum of the rest, length of the text, length of the numbers
UNSOUND = "the state of a participant is no longer finite"


class Unsound(StateError):  # noqa: N818  (a state is)
    """A state is not finite, or its variances are not positive: it must not be stored."""


def pack(agent: Agent) -> bytes:
    """What is an agent's own, but for its steps."""
    proposal = "null" if agent._proposal is None else json.dumps(describe_proposal(agent._proposal))
    order = agent._pending.order_bytes()
    text = f"[{agent.step}, {_yes(agent._late_answer)}, {_yes(agent.withdrawn)}, {len(order) // 8}, {proposal}]"
    return _sealed(text.encode(), order, agent._block)


def unpack(agent: Agent, data: bytes, steps: Iterable[Step]) -> None:
    """Bring an agent to where `pack` found it; `steps` are those that it does not have yet, or that have changed."""
    text, numbers = content_of(data)
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
    return _sealed(b"", *(cohort._common._groups[name] for name in shared_groups(cohort)))


def unpack_shared(cohort: Cohort, data: bytes) -> None:
    """Bring what a cohort shares to where `pack_shared` found it."""
    _fill([cohort._common._groups[name] for name in shared_groups(cohort)], content_of(data)[1])


def healthy(agent: Agent) -> bool:
    """Whether an agent's numbers are finite and its variances positive, so that it can go on deciding."""
    looked = _looked_at(agent)
    return (
        bool(steps.is_sound(looked.bits, looked.is_variance))
        and all(map(_finite, looked.shared))
        and all(min(diagonal.tolist()) > 0.0 for diagonal in looked.variances)
    )


def healthy_shared(cohort: Cohort) -> bool:
    """Whether what the participants of a cohort share is finite, and its variances positive."""
    common = cohort._common
    shared = {name: common._groups[name] for name in shared_groups(cohort)}
    return all(map(_finite, shared.values())) and (
        "model" not in shared or min(_diagonal(common, "model").tolist()) > 0.0
    )


class Looked(NamedTuple):
    """What is looked at whenever a state is stored, as views that are made once."""

    bits: NDArray[np.int64]  # of an agent's own numbers
    is_variance: NDArray[np.bool_]  # which of them are variances
    shared: "list[NDArray[np.float64]]"  # numbers that it shares
    variances: "list[NDArray[np.float64]]"  # among them


_LOOKED_AT: "weakref.WeakKeyDictionary[Agent, Looked]" = weakref.WeakKeyDictionary()


def _looked_at(agent: Agent) -> Looked:
    known = _LOOKED_AT.get(agent)
    if known is None:
        shared = [array for array in agent._groups.values() if array.base is not agent._block.base]
        diagonals = [_diagonal(agent, name) for name in ("model", "snapshot")]
        own = agent._block
        others = diagonals[:1] if agent._groups["model"].base is not own.base else []
        known = Looked(own.view(np.int64), _where_in(own, diagonals), shared, others)
        _LOOKED_AT[agent] = known
    return known


def _diagonal(agent: Agent, name: str) -> NDArray[np.float64]:
    """The variances of a group."""
    sizes = agent._at.sizes
    cov: NDArray[np.float64] = agent._at.views(STATE[name], agent._groups[name]).cov
    return cov[: sizes.d * sizes.stride : sizes.stride + 1]


def _where_in(block: NDArray[np.float64], parts: "list[NDArray[np.float64]]") -> NDArray[np.bool_]:
    """Which numbers of a block are those of some views; other views are of something else."""
    first, found = block.ctypes.data, np.zeros(block.size, dtype=bool)
    for part in parts:
        places = (part.ctypes.data - first + part.strides[0] * np.arange(part.size)) // block.itemsize
        found[places[(places >= 0) & (places < block.size)]] = True
    return found


def _finite(numbers: NDArray[np.float64]) -> bool:
    return bool(np.isfinite(numbers).all())


def shared_groups(cohort: Cohort) -> list[str]:
    """The groups of a state that the participants of a cohort have in common."""
    own = cohort._own()
    return [name for name in STATE if name not in own]


def _yes(value: bool) -> str:
    return "true" if value else "false"


def _sealed(text: bytes, *numbers: Any) -> bytes:
    content = b"".join((text, *numbers))
    return _HEAD.pack(FORMAT, zlib.crc32(content), len(text), len(content) - len(text)) + content


def content_of(data: bytes) -> tuple[bytes, bytes]:
    """The text and the numbers of what was packed, if they are what they were."""
    if len(data) < _HEAD.size:
        raise StateError(f"the state cannot be resumed: it is {len(data)} bytes; expected at least {_HEAD.size}")
    found, check, length, size = _HEAD.unpack_from(data)
    if found != FORMAT or len(data) != _HEAD.size + length + size:
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
