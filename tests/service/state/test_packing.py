"""An agent's numbers as bytes: exactly what they were, or refused."""

import json
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest

import opportune as op
from live_examples import mixed_problem
from opportune.errors import StateError
from opportune.service.state import packing
from opportune.service.state.packing import pack, pack_shared, unpack, unpack_shared


def cohort(*, floor: float | None = None, update: int = 1, **sharing: bool) -> op.Cohort:
    """Two places."""
    budget = op.Budget(8, shared=sharing.get("shared", False))
    recommender = op.LinUCB(floor=floor)
    policy = op.Policy(
        recommender=recommender, revealer=op.Pace(), budget=budget, pooled=sharing.get("pooled", False), update=update
    )
    return op.Cohort(mixed_problem(known=True), policy, horizon=60, seed=1, participants=2)


def steps(agent: op.Agent, number: int) -> list[op.Decision]:
    """Some decisions, each with its reward."""
    made = []
    for i in range(number):
        proposal = agent.propose({"hour": "am", "place": i % 2}, reported={"mood": "abc"[i % 3]})
        made.append(agent.settle(True if proposal.nudged else None))
        agent.learn(0.1 * i)
    return made


@pytest.mark.parametrize(
    "sharing",
    [{}, {"shared": True}, {"pooled": True}, {"shared": True, "pooled": True}, {"update": 4, "floor": 0.2}],
)
def test_unpacked_agents_go_on_as_if_they_had_never_stopped(sharing: dict[str, Any]) -> None:
    """Own and shared parts, between proposal and settlement too."""
    one, other = cohort(**sharing), cohort(**sharing)
    agent = one.seat(1, stream=7)
    steps(agent, 9)
    agent.propose({"hour": "pm", "place": 1}, opened=True, reported={"mood": "a"})
    copy = other.seat(1, stream=7)
    unpack_shared({"": other}, pack_shared({"": one}))
    unpack(copy, pack(agent), [replace(step) for step in agent.steps.values()])
    assert copy.settle() == agent.settle()
    copy.learn(0.5)
    agent.learn(0.5)
    assert steps(copy, 5) == steps(agent, 5)
    assert pack(copy) == pack(agent)


@pytest.mark.parametrize("damage", ["cut", "changed", "empty", "other"])
def test_bytes_that_were_damaged_are_refused(damage: str) -> None:
    """None of it is taken over for whole."""
    agent = cohort().seat(0, stream=1)
    steps(agent, 3)
    data = pack(agent)
    at = len(data) // 2
    changed = data[:at] + bytes([data[at] ^ 1]) + data[at + 1 :]
    bad = {"cut": data[:-8], "changed": changed, "empty": b"", "other": b"JSON" + data[4:]}[damage]
    with pytest.raises(StateError, match="cannot be resumed"):
        unpack(cohort().seat(0, stream=1), bad, agent.steps.values())
    with pytest.raises(StateError, match="3 steps, and 0 are stored"):
        unpack(cohort().seat(0, stream=1), data, ())


def with_part(text: str, *, place: int, value: object) -> str:
    """The text of a state with another part in one of its places."""
    return json.dumps([value if i == place else part for i, part in enumerate(json.loads(text))])


WRONG_PARTS: list[list[object]] = [
    ["x", -1, 1.0, 10**9, None, True], [1, "no"], [0, None], [-1, 10**9, "x", 1.5], [{"step": 3}, [1]],
]  # fmt: skip
TEXTS: dict[str, Callable[[str], str]] = {
    "no JSON": lambda _: "[",
    "deep": lambda _: "[" * 100_000,
    "another kind": lambda _: '{"a": 1}',
    "too short": lambda text: json.dumps(json.loads(text)[:-1]),
    **{
        f"{place}-{value!r}": partial(with_part, place=place, value=value)
        for place, values in enumerate(WRONG_PARTS)
        for value in values
    },
}


@pytest.mark.parametrize("change", TEXTS.values(), ids=TEXTS)
def test_text_that_cannot_be_is_refused(change: Callable[[str], str]) -> None:
    """Whatever stands in the bytes, with a checksum that fits: it is refused, so that it can be made again."""
    agent = cohort().seat(0, stream=1)
    steps(agent, 3)
    text, _names, _numbers = packing.content_of(pack(agent))
    own, order = agent.numbers.own, agent.pending.order_bytes()
    bad = packing._sealed(change(text.decode()).encode(), agent.numbers, own, order)
    with pytest.raises(StateError, match="cannot be resumed"):
        unpack(cohort().seat(0, stream=1), bad, agent.steps.values())


@pytest.mark.parametrize("value", [np.nan, np.inf, -1.0])
def test_numbers_that_cannot_be_are_refused(value: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """NaN, infinity and a variance below 0 are neither stored nor resumed: a participant's own, and what all share."""
    one = cohort(pooled=True)
    agent = one.seat(0, stream=1)
    steps(agent, 3)
    agent.numbers.parts(agent.numbers.own)["snapshot.cov"][0, 0] = value
    with pytest.raises(packing.Unsound, match="no longer finite"):
        pack(agent)
    monkeypatch.setattr(packing, "is_sound", lambda *_: True)  # as if somebody had edited the database
    with pytest.raises(StateError, match="cannot be resumed: it h"):
        unpack(cohort(pooled=True).seat(0, stream=1), pack(agent), agent.steps.values())
    one.common.parts(one.common.shared)["model.theta"][0] = np.nan
    with pytest.raises(StateError, match="NaN or infinity"):
        unpack_shared({"": cohort(pooled=True)}, pack_shared({"": one}))


@pytest.mark.parametrize("array", ["model", "snapshot", "budget", "memory"])
@pytest.mark.parametrize("value", [np.nan, np.inf, -np.inf])
def test_numbers_that_are_not_finite_are_not_sound(array: str, value: float) -> None:
    """They are found wherever they are."""
    agent = cohort().seat(0, stream=1)
    steps(agent, 3)
    assert agent.numbers.sound()
    agent.numbers.arrays[array][0] = value
    assert not agent.numbers.sound()


@pytest.mark.parametrize("part", ["model.cov", "snapshot.cov"])
@pytest.mark.parametrize("value", [0.0, -1e-3])
def test_variances_must_be_positive(part: str, value: float) -> None:
    """A covariance that has lost its meaning is found."""
    agent = cohort().seat(0, stream=1)
    steps(agent, 3)
    agent.numbers.parts(agent.numbers.own)[part][-1, -1] = value
    assert not agent.numbers.sound()
