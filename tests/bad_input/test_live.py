"""What a live participant is told wrongly, and saved states that were changed: refused, and nothing has happened."""

# mypy: disable-error-code="arg-type, call-overload, dict-item, index, misc"
# Wrong types are what these tests are about.
import copy
import dataclasses
import json
import math
from collections.abc import Callable
from functools import partial
from typing import Any

import numpy as np
import pandas as pd
import pytest
from wrong_values import MAPPING, NAME, NUMBER, TRUTH, WHOLE, Values, continuous, finite, refusal

import opportune as op
from opportune.errors import StateError
from opportune.live.saving import checksum

ALWAYS = op.Policy(revealer=op.Always())
DAYS = continuous(variables={"x": op.Number(0, 1), "day": op.DayOfStudy(3)}, formula="action*x")


def agent(problem: Any = finite(), policy: Any = op.pd2_ucb(2), **settings: Any) -> op.Agent:  # noqa: B008
    return op.Agent(problem, policy, **{"horizon": 3, "seed": 1, "stream": 1, **settings})


def decided() -> op.Agent:
    """A participant with one step behind it, and one open."""
    made = agent(policy=op.pace_ucb(2))
    made.decide(1)
    made.learn(0.5)
    made.propose(2)
    return made


def cohort() -> op.Cohort:
    made = op.Cohort(finite(), op.pd2_ucb(op.Budget(2, shared=True)), horizon=3, seed=1, participants=2)
    made.enrol("ann").decide(1)
    return made


TOLD: list[tuple[Callable[..., Any], str, Values, str, tuple[str, ...]]] = [
    (agent, "problem", MAPPING, "problem is", ()),
    (agent, "policy", MAPPING, "policy is", ()),
    (agent, "horizon", WHOLE, "horizon is", ()),
    (agent, "stream", WHOLE, "stream is", ()),
    (lambda context: agent().propose(context), "context", WHOLE, "context is", ("float",)),
    (lambda x: agent(continuous()).propose({"x": x}), "x", NUMBER, "x is", ("None",)),
    (lambda opened: agent().propose(1, opened=opened), "opened", TRUTH, "opened is", ()),
    (lambda available: agent().propose(1, available=available), "available", TRUTH, "available is", ()),
    (lambda reason: agent().propose(1, reason=reason), "reason", NAME, "reason", ("line end",)),
    (lambda coin: agent().propose(1, coin=coin), "coin", NUMBER, "coin is", ("None",)),
    (lambda reward: decided().correct(reward, 1), "reward", NUMBER, "reward is", ()),
    (lambda step: decided().skip(step), "step", WHOLE, "step is", ("None",)),
    (lambda made: agent().bundle(made), "made", MAPPING | {"NaT": lambda: pd.NaT}, "made is", ("time",)),
    (lambda name: cohort().enrol(name), "name", NAME, "name", ()),
    (lambda name: cohort()[name], "name", NAME, "no participant is called", ()),
    (op.Agent.from_dict, "saved", MAPPING, "this is not the state of an agent", ()),
    (op.Cohort.from_dict, "saved", MAPPING, "this is not the state of a cohort", ()),
]
CASES = [
    pytest.param(call, argument, value, said, id=f"{number}-{argument}-{name}")
    for number, (call, argument, wrong, said, but) in enumerate(TOLD)
    for name, value in wrong.items()
    if name not in but
]


@pytest.mark.parametrize(("call", "argument", "value", "said"), CASES)
def test_wrong_calls_are_refused(call: Callable[..., Any], argument: str, value: Callable[[], Any], said: str) -> None:
    """Whatever a live participant is told, what cannot be used is named."""
    text = refusal(lambda: call(**{argument: value()}))
    assert text.startswith(said), text


def test_who_is_enrolled() -> None:
    """Whatever is asked for, it is enrolled or not."""
    made = cohort()
    assert "ann" in made
    assert "bob" not in made
    assert not any(value in made for value in (None, 1, np.ones(2), pd.DataFrame({"ann": [1]}), object()))


def test_right_calls_stay_accepted() -> None:
    """The control: NumPy's numbers and truths, and what the tests above begin with."""
    made = agent(horizon=np.int64(3), seed=2**64 - 1, stream=np.uint64(2**63))
    made.propose(np.int64(1), opened=np.bool_(False), coin=np.float64(0.5), reason="")
    made.settle(answered=False if made.open_proposal and made.open_proposal.nudged else None)
    made.learn(np.float32(0.5), step=np.int64(1))
    assert json.loads(json.dumps(made.to_dict()))["step"] == 1
    for resumed in (op.Agent.from_dict(decided().to_dict()), op.Cohort.from_dict(cohort().to_dict())["ann"]):
        assert resumed.step > 0


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: agent(DAYS, horizon=4), "horizon is 4; expected at most 3, the last decision point of the schedule"),
        (lambda: op.Cohort(DAYS, op.pd2_ucb(2), horizon=4, seed=1, participants=1), "horizon is 4; expected at most 3"),
        (
            lambda: agent(op.brushing_world("robas2", users=1)[0].problem, horizon=141),
            "horizon is 141; expected at most 140",
        ),
        (lambda: agent(horizon=10**12), "horizon is 1000000000000"),
        (lambda: agent(policy=op.pd2_ucb(4)), "budget is 4; expected at most 3"),
        (lambda: agent(policy=op.pd2_ucb(op.Budget(2, shared=True))), "expected a Cohort"),
        (lambda: agent().learn(1.0), "there is no decision to learn from"),
        (lambda: agent().settle(), "there is no open proposal"),
        (
            lambda: agent(continuous(visibility={"x": "reported"})).decide(1),
            "context is 1; expected {variable: value}",
        ),
        (lambda: agent().propose({"context": [1]}), "context is [1]; expected one of"),
        (lambda: agent().propose({"contxt": 1}), "did you mean 'context'?"),
        (lambda: agent().propose(1, reported={"mood": 1}), "expected none, as no variable is reported"),
        (lambda: agent(policy=op.Policy(recommender=op.FixedAction(action=5), revealer=op.Never())), "action is 5"),
        (
            lambda: op.Cohort(
                finite(), op.pace_ucb(op.Budget(2, shared=True)), horizon=3, seed=1, participants=2
            ).enrol("a", problem=continuous()),
            "other sizes than the cohort's",
        ),
        (
            lambda: op.Cohort(finite(), op.pace_ucb(op.Budget(2, shared=True)), horizon=3, seed=1, participants=10**9),
            "participants is 1000000000",
        ),
    ],
)
def test_what_does_not_fit_is_refused(call: Callable[[], Any], said: str) -> None:
    """Calls that come at the wrong moment, and parts that do not belong together."""
    assert said in refusal(call)


BAD: dict[str, Any] = {
    "None": None, "negative": -1, "NaN": math.nan, "infinite": math.inf, "beyond": 1e300, "text": "x", "list": [],
    "mapping": {}, "400 digits": 10**400, "too long": [0] * 1000, "nested": [[1]],
}  # fmt: skip
# Where a state is changed: every part, and of arrays the first and the last number.
PLACES: list[tuple[str | int, ...]] = [
    ("format",), ("version",), ("kind",), ("problem",), ("problem", "features"), ("problem", "features", 0, 0, 0),
    ("problem", "noise_sd"), ("problem", "variables"), ("problem", "visibility", "context"), ("policy",),
    ("policy", "name"), ("policy", "revealer"), ("policy", "revealer", "kind"), ("policy", "budget", "amount"),
    ("policy", "recommender", "kappa"), ("horizon",), ("seed",), ("stream",), ("step",), ("state",),
    ("state", "model.theta"), ("state", "model.theta", 0), ("state", "model.cov", -1), ("state", "snapshot.theta", 0),
    ("state", "contacts.since"), ("state", "revealer.state.debt"), ("state", "revealer.state.debt", 0),
    ("state", "revealer.state.wait", 0), ("state", "revealer.shared.odds", -1), ("state", "budget.price"),
    ("state", "budget.price", 0), ("state", "budget.foregone", 0),
    ("steps",), ("steps", 0), ("steps", 0, "context"), ("steps", 0, "action"), ("steps", 0, "settled"),
    ("steps", 0, "status"), ("steps", 0, "reward"), ("order",), ("opened_since",), ("withdrawn",), ("proposal",),
    ("proposal", "step"), ("proposal", "probability"), ("proposal", "action"), ("proposal", "coin"),
    ("proposal", "notes"), ("proposal", "budget_left"), ("proposal", "reason"), ("proposal", "nudged"),
]  # fmt: skip
# What these say is possible: another problem, seed or reward, and what a proposal may leave out.
POSSIBLE = {
    ("problem", "variables"): {"None"}, ("problem", "visibility", "context"): {"missing"},
    ("problem", "features", 0, 0, 0): {"negative"}, ("policy", "name"): {"text"}, ("steps", 0, "reward"): {"negative"},
    ("state", "model.theta", 0): {"negative"}, ("state", "snapshot.theta", 0): {"negative"},
    ("state", "revealer.state.debt", 0): {"negative"}, ("proposal", "reason"): {"None"},
    ("proposal", "budget_left"): {"negative"}, ("order",): {"list"}, ("version",): {"text"},
    ("opened_since",): {"None", "mapping"},
}  # fmt: skip


def sealed(state: dict[str, Any]) -> dict[str, Any]:
    """A state with the checksum that it should have."""
    body = {key: value for key, value in state.items() if key != "checksum"}
    return {**body, "checksum": checksum(body)}


@pytest.fixture(scope="module")
def saved() -> dict[str, Any]:
    return decided().to_dict()


@pytest.mark.parametrize("place", PLACES, ids=lambda place: ".".join(map(str, place)))
def test_changed_states_are_refused(saved: dict[str, Any], place: tuple[str | int, ...]) -> None:
    """A part that cannot be is found out, whatever the checksum says; so is one that is missing."""
    for name, value in BAD.items():
        if name in POSSIBLE.get(place, ()):
            continue
        changed = copy.deepcopy(saved)
        part = changed
        for key in place[:-1]:
            part = part[key]
        part[place[-1]] = value
        with pytest.raises(StateError) as caught:
            op.Agent.from_dict(sealed(changed))
        assert str(caught.value).isprintable()
        assert len(str(caught.value)) < 700, name
        if isinstance(place[-1], str) and "missing" not in POSSIBLE.get(place, ()):
            del part[place[-1]]
            with pytest.raises(StateError):
                op.Agent.from_dict(sealed(changed))


@pytest.mark.parametrize(
    ("place", "value", "said"),
    [
        ((0, 0), 1e10, "cov has a variance beyond 1/lam"),
        ((1, 1), 0.0, "cov has a variance that is not positive"),
        ((0, 1), 100.0, "cov is not symmetric"),
        ((1, 0), 100.0, "cov is not symmetric"),
        ("both", 100.0, "cov has a direction in which the variance is not positive"),
    ],
)
@pytest.mark.parametrize("group", ["model", "snapshot"])
def test_a_cov_that_cannot_be_is_refused(
    group: str, place: tuple[int, int] | str, value: float, said: str, saved: dict[str, Any]
) -> None:
    """V^-1 is symmetric, positive in every direction and at most what it began as: else NaN would come of learning."""
    changed = copy.deepcopy(saved)
    cov = np.array(changed["state"][f"{group}.cov"]).reshape(2, 2)
    for where in ((0, 1), (1, 0)) if place == "both" else (place,):
        cov[where] = value
    changed["state"][f"{group}.cov"] = cov.ravel().tolist()
    assert f"{group}.{said}" in refusal(lambda: op.Agent.from_dict(sealed(changed)))


LEARNED = [
    "model.theta", "model.mean", "model.width2", "model.log_det", "model.radius", "counts.total", "snapshot.theta",
    "snapshot.total", "snapshot.radius", "revealer.state.debt", "revealer.state.tally", "revealer.shared.gain",
    "revealer.shared.odds",
]  # fmt: skip


@pytest.mark.parametrize("part", LEARNED)
@pytest.mark.parametrize("pooled", [False, True])
def test_what_nobody_can_have_learned_is_refused(part: str, pooled: bool) -> None:
    """Numbers larger than anything that is not refused at the door could make them."""
    contexts = {"stress": [0, 1, 2], "mood": [0, 1]}
    problem = op.Problem.from_formula("action*stress + mood", contexts=contexts, actions=2, theta_bound=3.0)
    policy = dataclasses.replace(op.pace_ucb(5), pooled=pooled)
    cohort = op.Cohort(problem, policy, horizon=30, seed=1, participants=2)
    made = cohort.enrol("a")
    for step in range(8):
        made.decide({"stress": step % 3, "mood": step % 2})
        made.learn(1e30 if step % 3 else -1e30)
    whole = cohort.to_dict()
    assert op.Cohort.from_dict(whole).to_dict() == whole, "the control: the largest rewards that there can be"
    changed = copy.deepcopy(whole)
    state = changed["shared"] if pooled and part.startswith("model.") else changed["agents"]["a"]["state"]
    state[part][0] = 1.1e200
    said = refusal(partial(op.Cohort.from_dict, sealed(changed)))
    assert f"{part} holds a number beyond 1e+200" in said


def test_long_lives_are_resumed() -> None:
    """The control: what has become small by rounding, after many steps with large and alike features, is resumed."""
    features = np.array([[[1.0, 1e6], [1.0, 1e6 + 1]], [[1.0, 0.0], [2.0, 1e-3]], [[1.0, 5e5], [1.0, 3.0]]])
    made = agent(finite(features=features, theta_bound=100.0), ALWAYS, horizon=3000)
    for step in range(3000):
        made.decide(step % 3)
        made.learn(0.1)
    assert op.Agent.from_dict(made.to_dict()).to_dict() == made.to_dict()


@pytest.mark.parametrize("key", [pd.NA, None, 1.5, ("a",), b"checksum"])
def test_keys_that_are_no_text(key: Any) -> None:
    """A state is made of JSON values: what is no text as a key is refused, or nothing but another checksum."""
    refusal(lambda: op.Agent.from_dict({**decided().to_dict(), key: 1}))


def test_deep_states_are_refused() -> None:
    """A state nested without end is refused, not followed."""
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    assert "not made of plain JSON values" in refusal(
        lambda: op.Agent.from_dict({**decided().to_dict(), "steps": deep})
    )
