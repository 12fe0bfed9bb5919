"""Whether numbers, answers and states are equal but for rounding.

The same study computed on another machine may differ in the last bits, as numerical libraries choose the fastest
instructions of each processor. A record made on one machine must verify on another.
"""

import json
import math
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opportune.errors import StateError
from opportune.live.agent import Agent
from opportune.live.cohort import Cohort
from opportune.service.state.packing import content_of, pack, pack_shared, parts_of, shared_parts

Floats = NDArray[np.float64]

CLOSE = 1e-9
"""The tolerance, relative to the numbers' size or to 1, whichever is larger."""
_POWERS = {"cov": 1.0, "width2": 1.0, "root": 0.5}
"""Parts of a state whose size, before anything is learned, is this power of the prior variance."""


def near(one: Any, other: Any) -> bool:
    """Whether two numbers, or lists of them, are equal but for rounding, or both missing.

    JSON has no infinity or NaN, so `other`, which was read from JSON, is None for either.
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
    """Whether a state packed by `packing.pack`, here or on another machine, is this agent's."""
    packed = pack(agent)
    return data == packed or _same(agent, content_of(data), content_of(packed))


def _same(agent: Agent, stored: tuple[bytes, bytes, bytes], expected: tuple[bytes, bytes, bytes]) -> bool:
    held = 8 * len(agent.pending.order())  # which rewards wait for a reveal
    if stored[2][:held] != expected[2][:held] or not _same_text(stored[0], expected[0]):
        return False
    one, other = parts_of(stored[1], stored[2][held:]), parts_of(expected[1], expected[2][held:])
    return _same_parts(one, other, float(agent.numbers.regularisation.min()))


def is_shared_state_of(cohorts: Mapping[str, Cohort], data: bytes) -> bool:
    """Whether a state packed by `packing.pack_shared`, here or on another machine, is what these cohorts share."""
    packed = pack_shared(cohorts)
    if data == packed:
        return True
    stored, expected = shared_parts(cohorts, data), shared_parts(cohorts, packed)
    return all(_same_shared(cohort, stored[arm], expected[arm]) for arm, cohort in cohorts.items())


def _same_shared(cohort: Cohort, one: bytes, other: bytes) -> bool:
    (text, *stored), (expected_text, *expected) = content_of(one), content_of(other)
    lam = float(cohort.common.regularisation.min())
    return text == expected_text and _same_parts(parts_of(*stored), parts_of(*expected), lam)


def _same_parts(one: Mapping[str, Floats], other: Mapping[str, Floats], lam: float) -> bool:
    """Whether all parts agree; the tolerance of each is relative to its largest number."""
    if one.keys() != other.keys():
        return False
    sizes = {name: (1.0 / lam) ** _POWERS.get(name.rpartition(".")[2], 0.0) for name in other}
    return all(_same_part(part, other[name], least=sizes[name]) for name, part in one.items())


def _same_part(one: Floats, other: Floats, *, least: float) -> bool:
    if one.size != other.size:
        return False
    size = max(least, float(np.abs(other).max(initial=0.0)))
    return bool((np.abs(one - other) <= CLOSE * size).all())  # False with NaN


def _same_text(stored: bytes, expected: bytes) -> bool:
    """Whether the texts of two states agree; numbers of an open proposal need only be near."""
    if stored == expected:
        return True
    try:
        (*one, proposed), (*other, proposal) = json.loads(stored), json.loads(expected)
    except (ValueError, TypeError):
        raise StateError("the state cannot be read: its text is not one that `pack` writes") from None
    if one != other or not isinstance(proposed, dict) or not isinstance(proposal, dict):
        return False
    return proposed.keys() == proposal.keys() and all(
        proposed[name] == value or (_is_number(value) and _is_number(proposed[name]) and near(proposed[name], value))
        for name, value in proposal.items()
    )


def _is_number(value: Any) -> bool:
    return isinstance(value, float) or (isinstance(value, list) and all(isinstance(each, float) for each in value))
