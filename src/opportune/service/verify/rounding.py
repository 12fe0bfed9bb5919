"""Whether numbers, answers and states are the same but for rounding.

The same study computed on another machine may end in other bits: libraries for matrices and for logarithms round as
the processor at hand makes it quick. A record that was made on one machine is the same record on another.
"""

import json
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opportune.errors import StateError
from opportune.live.agent import Agent
from opportune.live.cohort import Cohort
from opportune.live.point import STATE
from opportune.service.state.packing import content_of, pack, pack_shared, shared_groups

CLOSE = 1e-9
"""What two numbers may differ by, against their size or 1, whichever is larger."""
_POWERS = {"cov": 1.0, "width2": 1.0, "root": 0.5}
"""Parts of a state that begin with this power of the variance before anything is learned: that is their size."""


def near(one: Any, other: Any) -> bool:
    """Whether two numbers, or lists of them, are equal but for rounding; or both are missing.

    JSON has no number that is not finite, so that one of these is missing where it was read.
    """
    if other is None:
        return one is None or (isinstance(one, float) and not math.isfinite(one))
    if one is None:
        return False
    if isinstance(one, list) or isinstance(other, list):
        alike = isinstance(one, list) and isinstance(other, list) and len(one) == len(other)
        return alike and all(near(*pair) for pair in zip(one, other, strict=True))
    return math.isclose(one, other, rel_tol=CLOSE, abs_tol=CLOSE)


def is_state_of(agent: Agent, data: bytes) -> bool:
    """Whether a state that `packing.pack` gave, here or on another machine, is this agent's."""
    packed = pack(agent)
    if data == packed:
        return True
    (told, numbers), (text, expected) = content_of(data), content_of(packed)
    held = len(expected) - agent._block.nbytes  # which rewards wait for a reveal
    if len(numbers) != len(expected) or numbers[:held] != expected[:held] or not _same_text(told, text):
        return False
    own = [name for name, array in agent._groups.items() if array.base is agent._block.base]
    return _same_groups(agent, own, np.frombuffer(numbers[held:]))


def is_shared_state_of(cohort: Cohort, data: bytes) -> bool:
    """Whether what `packing.pack_shared` gave, here or on another machine, is what a cohort's participants share."""
    packed = pack_shared(cohort)
    if data == packed:
        return True
    (told, numbers), (text, expected) = content_of(data), content_of(packed)
    if told != text or len(numbers) != len(expected):
        return False
    return _same_groups(cohort._common, shared_groups(cohort), np.frombuffer(numbers))


def _same_groups(agent: Agent, names: Sequence[str], stored: NDArray[np.float64]) -> bool:
    """Groups of a state, side by side and of the same length as the agent's."""
    at = 0
    for name in names:
        array = agent._groups[name]
        if not _same_group(agent, name, stored[at : at + array.size], array):
            return False
        at += array.size
    return True


def _same_group(agent: Agent, name: str, stored: NDArray[np.float64], expected: NDArray[np.float64]) -> bool:
    """Part by part: a part's numbers are of one kind, and rounded by the size of the largest."""
    parts, others = (agent._at.views(STATE[name], array)._asdict() for array in (stored, expected))
    sizes = {field: (1.0 / agent.problem.regularisation) ** power for field, power in _POWERS.items()}
    return all(_same_part(part, others[field], least=sizes.get(field, 1.0)) for field, part in parts.items())


def _same_part(one: NDArray[np.float64], other: NDArray[np.float64], *, least: float) -> bool:
    size = max(least, float(np.abs(other).max(initial=0.0)))
    return bool((np.abs(one - other) <= CLOSE * size).all())  # what is not a number is near nothing


def _same_text(told: bytes, expected: bytes) -> bool:
    """What a state has besides its numbers; a proposal that is open has numbers of its own."""
    if told == expected:
        return True
    try:
        (*one, proposed), (*other, proposal) = json.loads(told), json.loads(expected)
    except (ValueError, TypeError):
        raise StateError("the state cannot be read: its text is not what pack gives") from None
    if one != other or not isinstance(proposed, dict) or not isinstance(proposal, dict):
        return False
    return proposed.keys() == proposal.keys() and all(
        proposed[name] == value or (_is_number(value) and _is_number(proposed[name]) and near(proposed[name], value))
        for name, value in proposal.items()
    )


def _is_number(value: Any) -> bool:
    return isinstance(value, float) or (isinstance(value, list) and all(isinstance(each, float) for each in value))
