"""Things of somebody's own classes that raise, lie or never end: refused, or taken for what they hold."""

# mypy: disable-error-code="arg-type, call-arg, call-overload, dict-item, index, list-item, misc, override"
# Wrong types are what these tests are about.
import itertools
import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple
from unittest.mock import MagicMock

import numpy as np
import pytest
from wrong_values import FEATURES, continuous, finite, linear, refusal

import opportune as op
from opportune import foreign
from opportune.arguments import plain_calls
from opportune.errors import InputError


class Likeness(Mapping[str, Any]):
    """A mapping of somebody's own, as it should be."""

    def __init__(self, **values: Any) -> None:
        self.values_ = values or {"s": 1, "x": 0.5}

    def __getitem__(self, key: str) -> Any:
        return self.values_[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self.values_)

    def __len__(self) -> int:
        return len(self.values_)


class Row(Sequence[Any]):
    """Likewise a list."""

    def __init__(self, *values: Any) -> None:
        self.values = values or (1, 2)

    def __getitem__(self, place: Any) -> Any:
        return self.values[place]

    def __len__(self) -> int:
        return len(self.values)


def fails(*_: Any, **__: Any) -> Any:
    raise RuntimeError("not now")


# What a class made of each base may do, method by method: fail, or say something that cannot be.
BASES: dict[type, Callable[[type], Any]] = {
    object: lambda made: made(), dict: lambda made: made(s=1, x=0.5), list: lambda made: made([1, 2]),
    tuple: lambda made: made((1, 2)), int: lambda made: made(2), float: lambda made: made(0.5),
    str: lambda made: made("s"), set: lambda made: made({1}), Likeness: lambda made: made(), Row: lambda made: made(),
}  # fmt: skip
METHODS: dict[str, tuple[Any, ...]] = {
    "__len__": (fails, lambda _: -1, lambda _: 10**30, lambda _: "x"),
    "__iter__": (fails, lambda _: 1, lambda _: itertools.count()),
    "__getitem__": (fails, lambda itself, _: itself),
    "__float__": (fails, lambda _: "x", lambda _: math.nan),
    "__int__": (fails, lambda _: "x"),
    "__index__": (fails, lambda _: "x", lambda _: 10**30),
    "__eq__": (fails, lambda *_: True, lambda *_: np.ones(3)),
    "__bool__": (fails, lambda _: "x"),
    "__hash__": (fails, lambda _: "x", None),
    "__le__": (fails, lambda *_: True),
    "__array__": (fails, lambda *_, **__: "x"),
    "__repr__": (fails, lambda _: 1),
    "__class__": (property(fails),),
    "__getattribute__": (fails,),
    "items": (fails, lambda _: [(1, 2, 3)]),
}
HOSTILE = {
    f"{base.__name__}.{method}-{number}": (base, method, does)
    for base in BASES
    for method, ways in METHODS.items()
    for number, does in enumerate(ways)
}


def hostile(base: type, method: str, does: Any) -> Any:
    """Something of a class made of another, one of whose methods fails or lies."""
    own = {method: does, "__module__": "somebody"}
    if method == "__eq__":
        own["__hash__"] = base.__hash__
    return BASES[base](type("Odd", (base,), own))


def agent(problem: Any = finite()) -> op.Agent:  # noqa: B008
    return op.Agent(problem, op.pd2_ucb(2), horizon=3, seed=1, stream=1)


NAMED = finite(variables={"s": [1, 2, 3]})
CALLS: dict[str, Callable[[Any], Any]] = {
    "array": lambda odd: linear(theta=odd),
    "array of arrays": lambda odd: finite(features=[odd, *FEATURES[1:].tolist()]),
    "probabilities": lambda odd: finite(context_probs=[0.5, 0.5, odd]),
    "number": lambda odd: finite(noise_sd=odd),
    "whole number": lambda odd: op.FixedAction(action=odd),
    "truth": lambda odd: op.Budget(2, hard=odd),
    "word": lambda odd: op.pd2_ucb(2, scale=odd),
    "name": lambda odd: op.pd2_ucb(2, name=odd),
    "list": lambda odd: finite(action_names=odd),
    "entry": lambda odd: op.TimeOfDay(["a", odd]),
    "mapping": lambda odd: finite(variables=odd),
    "level": lambda odd: finite(variables={"s": [1, 2, odd]}),
    "probability": lambda odd: op.Choice({"a": 0.5, "b": odd}),
    "visibility": lambda odd: finite(visibility=odd),
    "described": op.Policy.from_dict,
    "formula": lambda odd: op.Problem.from_formula(odd, {"s": [1, 2]}, 2),
    "worlds": lambda odd: op.simulate(odd, op.pd2_ucb(2), horizon=2, replicates=1, seed=1, progress=False),
    "data": op.regret,
    "path": op.load,
    "context": lambda odd: agent(NAMED).propose(odd),
    "value of a context": lambda odd: agent(NAMED).propose({"s": odd}),
    "number of a context": lambda odd: agent(continuous()).propose({"x": odd}),
    "state": op.Agent.from_dict,
    "part of a state": lambda odd: op.Agent.from_dict({**agent().to_dict(), "state": odd}),
    "participant": lambda odd: op.Cohort(finite(), op.pd2_ucb(2), horizon=2, seed=1, participants=2)[odd],
}


@pytest.mark.parametrize("call", CALLS.values(), ids=CALLS)
def test_what_fails_or_lies_is_refused(call: Callable[[Any], Any], monkeypatch: pytest.MonkeyPatch) -> None:
    """Whatever an object does when it is used, the call is refused in one line or goes by what the object holds."""
    monkeypatch.setattr(foreign, "MOST_READ", 10_000)  # of what never ends
    for name, what in HOSTILE.items():
        try:
            call(hostile(*what))
        except op.OpportuneError as error:
            text = str(error)
            assert text.isprintable(), name
            assert len(text) < 700, name
            assert " at 0x" not in text, name


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda: finite(visibility=hostile(Likeness, "__iter__", fails)), "visibility is something of type Odd; exp"),
        (lambda: finite(context_probs=hostile(Row, "__getitem__", fails)), "context_probs is not an array of numbers"),
        (lambda: op.TimeOfDay(hostile(list, "__iter__", fails)), "names of TimeOfDay is something of type Odd; exp"),
        (lambda: agent().propose(hostile(object, "__getattribute__", fails)), "context is something of type Odd; exp"),
        (lambda: op.simulate(MagicMock(), op.pd2_ucb(2), horizon=2, replicates=1, seed=1), "worlds is "),
        (lambda: linear(theta=np.broadcast_to(1.0, (10**6, 10**6))), "theta has 1,000,000,000,000 entries"),
        (lambda: linear(theta=[0.1, np.timedelta64(3, "s")]), "theta is not an array of numbers"),
        (lambda: finite(value_range=memoryview(b"12")), "value_range is"),
        (lambda: op.mean_interval(op.regret(small()), over=["replicate", np.ones(2)]), "an entry of over is ndarray"),
    ],
)
def test_the_argument_is_named(call: Callable[[], Any], said: str) -> None:
    """The refusal begins with what the object was given for."""
    assert refusal(call).startswith(said)


def small() -> Any:
    return op.simulate(linear(), op.pd2_ucb(2), horizon=3, replicates=2, seed=1, progress=False)


class Pair(NamedTuple):
    """Two numbers."""

    low: float
    high: float


class Level(int):
    """A number that says it is equal to any."""

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return 7


def test_what_is_right_is_taken() -> None:
    """The control: somebody's own mappings, lists and numbers that hold what they should, by what they hold."""
    made = finite(features=Row(*FEATURES), variables=Likeness(s=Row(1, 2, 3)), value_range=Pair(0.0, 1.0))
    assert made.to_dict() == finite(variables={"s": [1, 2, 3]}, value_range=(0.0, 1.0)).to_dict()
    assert made.index(Likeness(s=Level(2))) == 1
    assert refusal(lambda: made.index({"s": Level(4)})).startswith("s is 4; expected one of [1, 2, 3]")
    assert agent(made).propose(Likeness(s=2)).step == 1


def test_what_is_known_is_left_alone() -> None:
    """What is not of somebody's own class is handed on as it is, not copied; what holds itself is followed once."""
    endless: list[Any] = []
    endless.append(endless)
    deep: list[Any] = []
    for _ in range(100_000):
        deep = [deep]
    for value in ([1, [2.0, "x"]], {"a": {"b": (None, True)}}, np.ones(3), endless, deep, iter([1])):
        assert foreign.plainly(value) is value
    assert type(foreign.plainly([1, [Level(2)]])[1][0]) is int


def test_faults_of_somebodys_own_methods_pass() -> None:
    """Where a method of somebody's own is at fault, which nobody gave us for its value, its error passes as it is."""

    class Rule:
        def work(self) -> None:
            raise TypeError("a fault of the rule")

        def __len__(self) -> int:
            raise TypeError("not as long as that")

    @plain_calls
    def use(rule: Any, how: Callable[[Any], Any]) -> Any:
        return how(rule)

    with pytest.raises(TypeError, match="a fault of the rule"):
        use(Rule(), lambda rule: rule.work())
    with pytest.raises(InputError, match=r"^rule is something of type Rule, which cannot be used: TypeError") as caught:
        use(Rule(), len)
    assert isinstance(caught.value.__cause__, TypeError)
