"""The conformance suites: all of ours pass, what breaks a rule is caught; what cannot be registered is refused."""

import json
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest

import opportune as op
from opportune.engine.compiled import step_function
from opportune.engine.hooks import RECOMMENDERS, REVEALERS, WORLDS
from opportune.testing import PROBLEMS, check_recommender, check_revealer, check_world
from opportune.testing.cases import cases_for, simulated
from opportune.testing.eligibility import check_eligibility, check_limits, timetable_for

HERE = Path(__file__).parent

REVEALERS_OF_OURS = [
    op.FixedRate(), op.PrimalDual(), op.PrimalDual(scale="range"), op.LearningPrimalDual(),
    op.LearningPrimalDual(scale="gap", tolerance=0.3), op.Pace(), op.Pace(value="realised", guard=0.5),
    op.Pace(randomise=0.1), op.Never(), op.Always(), op.Periodic(every=3),
]  # fmt: skip
RECOMMENDERS_OF_OURS = [
    op.LinUCB(), op.LinUCB(rotate=True, kappa=0.5), op.LinUCB(unknown="optimistic"), op.Thompson(),
    op.Thompson(inflation=2.0), op.FixedAction(action=1),
    op.EqualCoins(), op.LinUCB(radius="pointwise", rotate=True),
]  # fmt: skip
ONE_OF_EACH = {type(x) for x in (*REVEALERS_OF_OURS[::2], *RECOMMENDERS_OF_OURS[::2])}  # by the CUDA simulator, too


def worlds_of_ours() -> list[Any]:
    linear = op.synthetic_worlds(1, seed=1)[0]
    (continuous,) = (case.worlds[0] for case in cases_for("", []) if case.name == "continuous variables, one reported")
    drifting = op.DriftingWorld.drift(linear, course=[np.full(10, 0.1)], stay=0.5)
    late = linear.replace(open_rate=0.2, reward_delay=2)
    problem = op.Problem.from_formula("action * s", {"s": [1, 2]}, 2, theta_bound=3.0)
    rows = {"s": [1, 2] * 20, "action": [0, 0, 1, 1] * 10, "reward": [0.5, 1.0, 2.0, -1.0, 0.0] * 8}
    return [
        linear, late, continuous, drifting, op.brushing_world(users=1)[0], op.ResampledWorld(problem, rows),
        op.StepCountWorld(uncertainty=0.8, response_rate=0.7),
    ]  # fmt: skip


@pytest.mark.parametrize("revealer", REVEALERS_OF_OURS, ids=str)
def test_our_revealers_conform(revealer: op.Revealer) -> None:
    """Every revealer of ours keeps to the rules, on every problem and by every driver."""
    check_revealer(revealer, budget=4, simulator=type(revealer) in ONE_OF_EACH)


@pytest.mark.parametrize("recommender", RECOMMENDERS_OF_OURS, ids=str)
def test_our_recommenders_conform(recommender: op.Recommender) -> None:
    """Every recommender of ours keeps to the rules, on every problem and by every driver."""
    check_recommender(recommender, simulator=type(recommender) in ONE_OF_EACH)


@pytest.mark.parametrize(
    "world", worlds_of_ours(), ids=["linear", "late", "continuous", "drifting", "brushing", "resampled", "steps"]
)
def test_our_worlds_conform(world: Any) -> None:
    """Every world of ours keeps to the rules."""
    check_world(world)


def test_the_suite_sees_a_nudge_that_is_not_allowed() -> None:
    """The control: a run that nobody limited breaks each limit, and the check names which."""
    policy = op.Policy(revealer=op.Always(), budget=op.Budget(30), name="always")
    case = cases_for("always", [policy])[0]
    calendar = timetable_for(case)
    check_eligibility("always", case, [policy])
    free = simulated(case, [policy], timetable=calendar)
    with pytest.raises(AssertionError, match="a nudge was made where none is allowed"):
        check_limits("always", case, free, calendar)
    late = free.assign(nudged=free["nudged"] * 0)
    with pytest.raises(AssertionError, match="where no nudge is allowed a probability is 1; expected 0"):
        check_limits("always", case, late, calendar)
    is_open = (calendar.closed == 0) & (np.arange(case.horizon) >= 3)
    often = free.assign(nudged=free["nudged"] * is_open[:, None], probability=free["probability"] * 0)
    with pytest.raises(AssertionError, match="nudges in a day; expected at most 1"):
        check_limits("always", case, often, calendar)


def test_all_of_ours_are_tried() -> None:
    """No class that is registered escapes the tests above."""
    assert {type(x) for x in REVEALERS_OF_OURS} == set(REVEALERS)
    assert {type(x) for x in RECOMMENDERS_OF_OURS} == set(RECOMMENDERS)
    assert {type(x) for x in worlds_of_ours()} == set(WORLDS)
    assert len(PROBLEMS) == 7


OUTSIDE = """
import json
import warnings

warnings.simplefilter("ignore")  # Numba cannot keep what calls back into Python
import joblib

import broken_rules as broken
import opportune as op
from opportune.testing import check_recommender, check_revealer, check_world

said = {}


def caught(name, check, thing):
    try:
        check(thing, simulator=False)
        said[name] = ""
    except AssertionError as error:
        said[name] = str(error)


linear = op.synthetic_worlds(1, seed=1)[0]
settings = {"theta": linear.theta, "context_probs": linear.context_probs}
for kind in (broken.Thrifty, broken.Spender, broken.Exceeder, broken.Rememberer):
    caught(kind.__name__, check_revealer, kind())
for kind in (broken.Peeker, broken.Strayer):
    caught(kind.__name__, check_recommender, kind())
for kind in (broken.Gambler, broken.Treadmill):
    caught(kind.__name__, check_world, kind(linear.problem, **settings))

policy = op.Policy(revealer=broken.Thrifty(), budget=op.Budget(5))
here = op.simulate(linear, policy, horizon=30, replicates=4, seed=1, progress=False)
with joblib.parallel_config("loky", n_jobs=1):
    there = op.simulate(linear, policy, horizon=30, replicates=4, seed=1, progress=False)
said["workers"] = "" if here.drop_attrs().identical(there.drop_attrs()) else "other numbers"
agent = op.Agent.from_dict(op.Agent(linear.problem, policy, horizon=30, seed=1, stream=0).to_dict())
said["restored"] = "" if agent.policy == policy else repr(agent.policy)
from opportune.study.schema import PolicyTable
said["study"] = "" if PolicyTable(kind="thrifty", budgets=[3.0]).revealer == broken.Thrifty() else "other"
print(json.dumps(said))
"""


@pytest.fixture(scope="module")
def said() -> dict[str, str]:
    """What the checks say of rules from outside the package, in a process that knows them."""
    done = subprocess.run(
        [sys.executable, "-c", OUTSIDE], cwd=HERE, capture_output=True, text=True, timeout=900, check=False
    )
    assert done.returncode == 0, done.stderr[-3000:]
    found: dict[str, str] = json.loads(done.stdout.splitlines()[-1])
    return found


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("Spender", "expected at most the budget, 4"),
        ("Exceeder", "a probability is [1.5]; expected numbers from 0 to 1"),
        ("Rememberer", "a repeated simulation gave other numbers"),
        ("Peeker", "expected it to depend on what was known at the last reveal, and on what is public"),
        ("Strayer", "expected one of the actions 0 to 2"),
        ("Gambler", "expected draws by opportune.algorithm.rng alone"),
        ("Treadmill", "two streams brought the same run"),
    ],
)
def test_what_breaks_a_rule_is_caught(said: dict[str, str], name: str, expected: str) -> None:
    """A broken rule is named with what was expected, and on which problem."""
    assert said[name].startswith(name), said[name]
    assert expected in said[name], said[name]
    assert any(problem in said[name] for problem in (*PROBLEMS, "its own problem")), said[name]


def test_what_others_register_is_used(said: dict[str, str]) -> None:
    """A rule from outside that keeps to the rules passes; workers know it, study files name it, agents are restored."""
    assert (said["Thrifty"], said["workers"], said["restored"], said["study"]) == ("", "", "", "")


@step_function
def consult(p, own, moment, judged):  # type: ignore[no-untyped-def]
    """O = 0."""
    return 0.0, 0.0


@step_function
def short(p, moment):  # type: ignore[no-untyped-def]
    """Takes too little."""
    return 0.0, 0.0


def revealer(**attributes: Any) -> Any:
    """A class below Revealer with these attributes."""
    given = {"label": "own", "kind": "own", "consult": staticmethod(consult), **attributes}
    kept = {name: value for name, value in given.items() if value is not None}
    return dataclass(frozen=True, kw_only=True)(type("Own", (op.Revealer,), {"__module__": __name__, **kept}))


class NotADataclass(op.Revealer):
    """Has settings nobody can compare."""

    label: ClassVar[str] = "plain"
    kind: ClassVar[str] = "plain"
    consult: ClassVar[Any] = staticmethod(consult)


class Lacking(op.LinearWorld):
    """A world whose arrivals are no function."""

    arrive = None


WRONG: dict[str, tuple[Callable[[], Any], str]] = {
    "no class": (op.Never, "expected a class"),
    "nothing of the kind": (lambda: dict, "dict cannot be registered; expected a dataclass"),
    "no dataclass": (lambda: NotADataclass, "NotADataclass is not a frozen dataclass"),
    "no consult": (
        lambda: revealer(consult=None),
        r"Own has no consult; expected a compiled function consult\(p, own, moment, judged\)",
    ),
    "not compiled": (lambda: revealer(consult=staticmethod(lambda p, own, moment, judged: (0, 0))), "is not compiled"),
    "a method": (lambda: revealer(consult=lambda p, own, moment, judged: (0, 0)), r"expected staticmethod\(consult\)"),
    "other arguments": (lambda: revealer(consult=staticmethod(short)), r"takes \(p, moment\); expected consult"),
    "no label": (lambda: revealer(label=None), "Own has no label"),
    "kind taken": (lambda: revealer(kind="PD2"), "kind of Own is 'PD2', which LearningPrimalDual has"),
    "name taken": (
        lambda: type("Never", (revealer(),), {"__dataclass_params__": revealer().__dataclass_params__}),
        "a revealer called 'Never' already exists",
    ),
    "a world without arrivals": (lambda: Lacking, "Lacking has no arrive; expected a compiled function"),
    "no file": (lambda: revealer(__module__="nowhere"), "Own is not defined in a file"),
}


@pytest.mark.parametrize("case", WRONG)
def test_what_cannot_be_registered_is_refused(case: str) -> None:
    """A class that would not work is refused, with what it lacks, and nothing is registered."""
    make, message = WRONG[case]
    before = [list(registry) for registry in (REVEALERS, RECOMMENDERS, WORLDS)]
    with pytest.raises(op.InputError, match=message):
        op.register(make())
    assert [list(registry) for registry in (REVEALERS, RECOMMENDERS, WORLDS)] == before


def test_registering_comes_first() -> None:
    """Once something was compiled, or taken from disk, a rule comes too late; one of ours may be named again."""
    op.simulate(op.synthetic_worlds(1, seed=1), op.naive_ucb(2), horizon=4, replicates=1, seed=1)
    with pytest.raises(op.StateError, match=r"Own comes too late: .* register first"):
        op.register(revealer())
    assert op.register(op.Never) is op.Never


def test_what_is_not_registered_is_not_checked() -> None:
    """A check refuses what it cannot run, before it runs anything."""
    with pytest.raises(op.InputError, match="Own is not registered"):
        check_revealer(revealer()())
    with pytest.raises(op.InputError, match="is not a recommender"):
        check_recommender(op.Never())  # type: ignore[arg-type]
