"""Forbidden actions: none leaves any driver, whatever is seen of a moment; metrics go by what is allowed."""

import contextlib
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import opportune as op
from opportune.engine.declared import PUBLIC_PART, SENSED_PART, WHOLE
from opportune.problems.finite import Problem
from opportune.rehearsal.conditions import Conditions
from opportune.testing.cases import Case
from opportune.testing.drivers import check_allowed
from opportune.worlds.distributions import Choice, Uniform

HORIZON = 30
ACTIONS = ("rest", "walk", "call", "read")
VISIBLE: dict[str, Any] = {"hour": "public", "place": "sensed", "mood": "reported"}
CONDITIONS = ('pain > 6 or mood == "low"', "day < 3 and not pain <= 2", 'hour in ["pm"] or day >= 5', 'mood != "good"')


def policies(shared: bool = False) -> list[op.Policy]:
    """Every recommender of ours, with the rules that go with it."""
    budget = op.Budget(8, shared=shared)
    return [
        op.Policy(budget=budget, name="PD2"),
        op.pace_ucb(budget, name="PACE"),
        op.pace_ucb(budget, value="realised", randomise=0.2, name="PACE realised"),
        op.pd2_ucb(budget, rotate=True, kappa=0.5, radius="pointwise", name="PD2 rotating"),
        op.Policy(recommender=op.Thompson(), budget=budget, name="Thompson"),
        op.Policy(recommender=op.EqualCoins(), revealer=op.Periodic(every=4), name="coins"),
    ]


def finite(rng: np.random.Generator, *, known: bool = True, reported: bool = True, masked: bool = True) -> Any:
    """A problem with random features and masks."""
    doubts = {name: str(rng.choice(["forbid", "allow"])) for name in ACTIONS}
    mood = ["good", "fair", "low"]
    for _ in range(100):
        with contextlib.suppress(op.InputError):  # no action is allowed somewhere: drawn again
            return op.Problem(
                rng.normal(size=(12, 4, 4)), rng.dirichlet(np.ones(12)) if known else None, theta_bound=3.0,
                noise_sd=0.3, action_names=ACTIONS,
                variables={"hour": op.TimeOfDay(["am", "pm"]), "place": ["home", "out"], "mood": mood},
                visibility=VISIBLE if reported else {}, allowed=rng.random((12, 4)) < 0.6 if masked else None,
                when_unknown=doubts if masked else None,
            )  # fmt: skip
    raise AssertionError("no mask that leaves an action everywhere was drawn")


def continuous(rng: np.random.Generator, *, reported: bool = True, masked: bool = True) -> Any:
    """A problem with numbers among its variables; one action is always allowed."""
    chosen = rng.permutation(4)[:3]
    texts = {ACTIONS[a]: str(rng.choice(CONDITIONS)) for a in chosen}
    doubts = {name: str(rng.choice(["forbid", "allow"])) for name in texts}
    return op.Problem.from_formula(
        "1 + action * pain + action * hour + mood",
        {"hour": op.TimeOfDay(["am", "pm"]), "day": op.DayOfStudy.scaled(15), "pain": op.Number(0, 10),
         "mood": ["good", "low"]},
        ACTIONS, visibility={"mood": "reported"} if reported else {}, theta_bound=3.0, noise_sd=0.3,
        never_if=texts if masked else None, when_unknown=doubts if masked else None,
    )  # fmt: skip


def world_of(problem: Any, rng: np.random.Generator) -> Any:
    """A lively world of a problem."""
    happenings: dict[str, Any] = {"open_rate": 0.15, "response_rate": 0.7, "available_rate": 0.9, "reward_delay": 2}
    theta = rng.normal(size=problem.d) / np.sqrt(problem.d)
    if isinstance(problem, Problem):
        return op.LinearWorld(problem, theta=theta, context_probs=rng.dirichlet(np.ones(12)), **happenings)
    drawn: Any = {"pain": Uniform(0, 10), "mood": Choice({"good": 0.6, "low": 0.4})}
    return op.ContinuousWorld(problem, theta=theta, distributions=drawn, **happenings)


def problems(seed: int, **settings: Any) -> Iterator[tuple[str, Any]]:
    """Random problems of every kind."""
    rng = np.random.default_rng(seed)
    for reported in (False, True):
        for known in (True, False):
            yield f"finite, {known=}, {reported=}", finite(rng, known=known, reported=reported, **settings)
        yield f"continuous, {reported=}", continuous(rng, reported=reported, **settings)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("shared", [False, True])
def test_no_forbidden_action_is_simulated(seed: int, shared: bool) -> None:
    """Whatever the problem, rule and recommender: all actions are allowed by what is known to whoever takes them."""
    for name, problem in problems(seed):
        worlds = [world_of(problem, np.random.default_rng(seed + i)) for i in range(2)]
        runs = op.simulate(worlds, policies(shared), horizon=HORIZON, replicates=1, seed=2**63 + 11, progress=False)
        check_allowed("ours", Case(name, worlds), runs)


def test_the_check_sees_a_forbidden_action() -> None:
    """The control: agents who know nothing of the masks do what is forbidden, and the check says so."""
    for name, problem in problems(1):
        free = problem.replace(**{"allowed" if isinstance(problem, Problem) else "never_if": None}, when_unknown=None)
        worlds, bare = ([world_of(each, np.random.default_rng(1))] for each in (problem, free))
        runs = op.simulate(bare, policies(), horizon=HORIZON, replicates=1, seed=2**63 + 11, progress=False)
        with pytest.raises(AssertionError, match="is forbidden there; expected an allowed one"):
            check_allowed("ours", Case(name, worlds), runs)


def moment(problem: Any, rng: np.random.Generator, step: int) -> tuple[dict[str, Any], dict[str, Any]]:
    """What is sensed and reported at a step; now and then something is missing."""
    values: dict[str, Any] = {"place": str(rng.choice(["home", "out"])), "pain": float(rng.uniform(0, 10))}
    values["mood"] = str(rng.choice(["good", "low"]))
    known = {name: value for name, value in values.items() if name in problem.variables}
    reported = {name: known.pop(name) for name in list(known) if problem.visibility[name] == "reported"}
    if known and rng.random() < 0.1:
        known[next(iter(known))] = None
    return known, reported


@pytest.mark.parametrize("seed", range(2))
def test_no_forbidden_action_is_recommended_live(seed: int) -> None:
    """Nor by agents and cohorts, at missing points, where reports are missing, restored, or from a bundle."""
    rng = np.random.default_rng(seed)
    for name, problem in problems(seed + 10):
        for policy in (*policies(), *policies(shared=True)[:2]):
            group: Any = op.Cohort(problem, policy, horizon=HORIZON, seed=seed, participants=2)
            agent = group.enrol("P1")
            for step in range(1, HORIZON + 1):
                if step == 11:
                    group = op.Cohort.from_dict(group.to_dict())
                    agent = group["P1"]
                if step in {5, 16}:
                    for entry in agent.bundle()["actions"]:
                        place = problem.locate({}, entry["step"])
                        assert not problem.forbids(place, PUBLIC_PART)[ACTIONS.index(entry["action"])], name
                known, reported = moment(problem, rng, step)
                made = agent.propose(known, opened=bool(rng.random() < 0.2), available=bool(rng.random() < 0.9))
                place = problem.locate({**known, **reported}, step)
                assert not problem.forbids(place, PUBLIC_PART)[ACTIONS.index(made.action)], name
                told = reported if made.available and reported and rng.random() < 0.7 else None
                answered = bool(rng.random() < 0.7) if made.nudged else None
                revealed = made.opened or bool(answered)
                done = agent.settle(answered, reported=told if revealed else None)
                view = PUBLIC_PART if not done.revealed else WHOLE if told or not reported else SENSED_PART
                assert not problem.forbids(place, view)[ACTIONS.index(done.action)], name
                if made.available:
                    agent.learn(float(rng.normal()))


def test_metrics_go_by_what_is_allowed() -> None:
    """The best outcome, the gaps and the clairvoyant are those of allowed actions: all regrets can be kept at 0."""
    allowed = np.array([[True, True], [True, False]])
    problem = op.Problem([[[1.0], [3.0]], [[1.0], [3.0]]], [0.5, 0.5], theta_bound=2.0, noise_sd=0.1, allowed=allowed)
    world = op.LinearWorld(problem, theta=[1.0])
    assert world.best.tolist() == [3.0, 1.0]
    assert world.best_blind.tolist() == [1.0]  # the second action may be forbidden
    assert world.gaps.tolist() == [2.0, 0.0]
    runs = op.simulate(world, op.Policy(revealer=op.Always(), name="always"), horizon=60, replicates=2, seed=1)
    assert (runs["best"] == np.array([3.0, 1.0])[runs["context"].values]).all()
    assert op.realised_regret(runs).isel(step=-1).max() < 10.0
    assert (op.regret(runs).isel(step=-1) < 10.0).all()


def test_a_rehearsal_knows_what_each_action_brings() -> None:
    """Rewards of forbidden actions are there, too: an action allowed in doubt may turn out to be forbidden."""
    problem = finite(np.random.default_rng(4))
    met = Conditions([world_of(problem, np.random.default_rng(1))], steps=8, seed=1)
    assert {met.reward(0, 3, action) is None for action in ACTIONS} == {False}


def test_a_fixed_action_must_always_be_allowed() -> None:
    """A reference that always does the same is refused where that is forbidden in some moment."""
    problem = op.Problem(np.eye(3)[None].repeat(2, axis=0), [0.5, 0.5], allowed=[[1, 1, 1], [1, 1, 0]])
    world = op.LinearWorld(problem, theta=[0.1, 0.2, 0.3])
    policy = op.Policy(recommender=op.FixedAction(action=2), revealer=op.Never())
    with pytest.raises(op.InputError, match=r"^action is 2, '2', which some moments forbid"):
        op.simulate(world, policy, horizon=3, replicates=1, seed=1)


def test_compiled_masks_are_those_of_the_conditions() -> None:
    """At a reveal, what compiled code forbids to each view of the moment is what NumPy makes of the conditions."""
    problem = op.Problem.from_formula(
        "1 + tod + action * (pain + mood)",
        {"tod": op.TimeOfDay(["am", "pm"]), "pain": op.Number(0, 10), "mood": ("low", "fair", "high")},
        ["rest", "walk", "call"],
        visibility={"mood": "reported"},
        never_if={"walk": 'pain > 6 or mood == "low"', "call": 'tod == "am" and not pain >= 2 or mood in ["fair"]'},
        when_unknown={"walk": "allow", "call": "allow"},
    )  # fmt: skip
    agent = op.Agent(problem, op.pd2_ucb(200), horizon=200, seed=1, stream=1)
    rng, found = np.random.default_rng(3), []
    for _ in range(200):
        context, reported = {"pain": float(rng.uniform(0, 10))}, {"mood": str(rng.choice(["low", "fair", "high"]))}
        step = agent.propose(context, opened=True, reported=reported).step
        place = agent.steps[step].place
        agent.settle()
        masks = agent.numbers.at.views("scratch", agent.numbers.scratch).forbidden[:9].reshape(3, 3)
        for view in (PUBLIC_PART, SENSED_PART, WHOLE):
            assert (masks[view] > 0).tolist() == list(problem.forbids(place, view))
        found.append(masks.copy())
    shares = np.mean(found, axis=0)
    assert ((shares > 0) & (shares < 1)).sum() >= 4, "the control: masks differ between moments"
