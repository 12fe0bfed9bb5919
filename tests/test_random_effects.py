"""Random effects, models that are pooled in part: against the slow reading (tests/reference.py), and at their limits.

Runs are drawn, written down and compared as in tests/test_pace.py; after every other decision time all participants
meet, and what they have in common is worked out anew.
"""

import dataclasses
import json
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

import opportune as op
from opportune.errors import InputError, StateError
from reference import meet
from runs import AnyRun, Case, cases, continuous_cases, draw_run
from test_agreement import DifferenceError, Event, Patient, at_boundary, compare, simulated
from test_pace import references_of

Floats = NDArray[np.float64]
EVERY = 2
POINTWISE = op.LinUCB(rotate=True, radius="pointwise")


def drawn(case: Case, seed: int) -> AnyRun:
    """A run as the case asks, of several participants whose models are pooled in part."""
    run = draw_run(case, seed)
    recommender = run.policy.recommender if case.sampled else POINTWISE
    run.policy = dataclasses.replace(
        run.policy, recommender=recommender, revealer=op.Pace(), pooled="partial", partial_every=EVERY, name="partial"
    )
    rng = np.random.default_rng(seed)
    if seed % 2:
        prior = {"prior_mean": rng.normal(size=run.problem.d), "prior_sd": rng.uniform(0.3, 2.0, size=run.problem.d)}
        run.problem = run.problem.replace(regularisation=None, **prior)
    return run


def some_cases() -> list[Case]:
    """Cases of several participants, with and without a shared budget."""
    found = [case for case in (*cases("PD2 adaptive"), *continuous_cases("PD1 range")) if case.sharing != "nothing"]
    return found[::3]


def met_in_simulation(run: AnyRun) -> Iterator[Event | None]:
    """What `simulate` did; None where all met."""
    step = 0
    for event in simulated(run):
        if event.call == "propose" and event.who == 0:
            if step and step % EVERY == 0:
                yield None
            step += 1
        yield event


def met_live(run: AnyRun) -> Iterator[Event | None]:
    """What a cohort did, the second half of it after it was saved and restored."""
    cohort = op.Cohort(run.problem, run.policy, horizon=run.horizon, seed=run.seed, participants=run.participants)
    patients = [Patient(run, who, cohort.enrol(f"P{who}")) for who in range(run.participants)]
    for step in range(1, run.horizon + 1):
        for patient in patients:
            yield from patient.step()
        if step % EVERY == 0:
            cohort.update_prior()
            yield None
        if step == run.horizon // 2:
            cohort = op.Cohort.from_dict(json.loads(json.dumps(cohort.to_dict())))
            for patient in patients:
                patient.agent = cohort[f"P{patient.who}"]


def agrees(run: AnyRun, events: Iterator[Event | None], *, meets: bool = True) -> bool:
    """Whether the reference decides as the driver did; False if it stood at a boundary where they part."""
    participants, near = references_of(run), False
    for each in participants:
        each.data.common = each.settings.start(each.d)
        each.frozen = each._freeze()
    for event in events:
        if event is None:
            if meets:
                meet(participants)
            continue
        expected = getattr(participants[event.who], event.call)(**event.arguments)
        near = near or (expected is not None and at_boundary(expected))
        if event.got is None:
            continue
        try:
            compare(event.got, expected)
        except DifferenceError as difference:
            if near:
                return False
            step = len(participants[event.who].steps)
            raise DifferenceError(f"participant {event.who}, step {step}, {event.call}: {difference}") from None
    return True


@pytest.mark.parametrize("driver", [met_in_simulation, met_live])
def test_partial_pooling_agrees_with_the_reference(driver: Callable[[AnyRun], Iterator[Event | None]]) -> None:
    """`simulate` and `Cohort` decide as the slow reading does, with priors of the problem's own in half of the runs."""
    said = 0
    for number, case in enumerate(some_cases()):
        run = drawn(case, number)
        try:
            said += agrees(run, driver(run))
        except DifferenceError as difference:
            pytest.fail(f"{case}, seed {number}, {difference}")
    assert said >= len(some_cases()) - 2


def test_participants_must_meet_to_agree() -> None:
    """The control: a reading in which they never meet parts from the compiled code."""
    parted = 0
    for number, case in enumerate(some_cases()):
        run = drawn(case, number)
        try:
            agrees(run, met_live(run), meets=False)
        except DifferenceError:
            parted += 1
    assert parted >= 5


@pytest.mark.parametrize("radius", ["uniform", "pointwise"])
def test_own_models_with_a_prior_agree_with_the_reference(radius: str) -> None:
    """A prior mean and sds take the place of 0 and W also where each learns for itself, with either radius."""
    said = 0
    for number, case in enumerate(cases("PD1 gap")[::5]):
        run = draw_run(dataclasses.replace(case, sampled=False), number)
        recommender = op.LinUCB(rotate=True, radius=radius)
        run.policy = dataclasses.replace(run.policy, recommender=recommender, revealer=op.Pace(), name="prior")
        rng = np.random.default_rng(number)
        prior = {"prior_mean": rng.normal(size=run.problem.d), "prior_sd": rng.uniform(0.3, 2.0, size=run.problem.d)}
        run.problem = run.problem.replace(regularisation=None, **prior)
        participants, near = references_of(run), False
        for event in simulated(run):
            expected = getattr(participants[event.who], event.call)(**event.arguments)
            near = near or (expected is not None and at_boundary(expected))
            if event.got is not None and not near:
                compare(event.got, expected)
        said += not near
    assert said >= 10


# Limits.


def cohort_of(worlds: list[Any], *, pooled: Any = "partial", budget: float = 5) -> op.Cohort:
    """A cohort of the study's instances."""
    policy = dataclasses.replace(op.pace_ucb(budget), pooled=pooled)
    cohort = op.Cohort(worlds[0].problem, policy, horizon=40, seed=3, participants=len(worlds))
    for i, world in enumerate(worlds):
        cohort.enrol(f"P{i}", problem=world.problem)
    return cohort


def model_of(agent: op.Agent) -> Any:
    """What a participant has learned."""
    return agent.numbers.at.unpadded("model", agent.numbers.arrays["model"])


def worth(world: Any, x: Floats) -> float:
    """What an action with these features is worth in a world."""
    return float(x @ world.theta)


def go_on(cohort: op.Cohort, *, steps: int, rewards: Callable[[Floats, int], float], seed: int = 0) -> None:
    """Some decisions of everybody, with contexts drawn anew."""
    rng = np.random.default_rng(seed)
    for _ in range(steps):
        for i, name in enumerate(cohort):
            agent = cohort[name]
            context = int(rng.integers(10))
            decision = agent.decide(context)
            x = np.asarray(cohort.problem.features)[context, agent.problem.action_names.index(decision.action)]
            agent.learn(rewards(x, i) + 0.1 * float(rng.normal()))


def test_without_an_update_models_are_own_ones() -> None:
    """Before anyone has met, each participant's estimate is that of a model of its own."""
    worlds = op.synthetic_worlds(3, seed=1)
    found = []
    for pooled in ("partial", False):
        cohort = cohort_of(worlds, pooled=pooled)
        go_on(cohort, steps=20, rewards=lambda x, _: float(x.sum()))
        found.append([model_of(cohort[name]) for name in cohort])
    for partial, own in zip(*found, strict=True):
        for name in ("theta", "cov", "radius"):
            np.testing.assert_allclose(partial[name], own[name], rtol=1e-9, atol=1e-12)


def fix_tau(cohort: op.Cohort, tau: float) -> None:
    """Let everybody go by the same mu, 0, and this tau."""
    from opportune.live import steps

    common = cohort.common.at.unpadded("model", cohort.common.arrays["model"])
    common["centre"][:] = 0.0
    common["precision"][:] = (cohort.problem.noise_sd / tau) ** 2
    for name in cohort:
        steps.move_prior_live(cohort[name].numbers.handle, cohort.common.handle, steps.TAKE, 0)


def test_with_tau_at_infinity_everybody_learns_alone() -> None:
    """With tau at infinity an estimate is least squares on the participant's own rewards, whatever others' are."""
    worlds = op.synthetic_worlds(3, seed=1)
    cohort = cohort_of(worlds)
    go_on(cohort, steps=40, rewards=lambda x, i: float((i + 1) * x.sum()))
    cohort.update_prior()
    fix_tau(cohort, 1e6)
    for i, name in enumerate(cohort):
        gram, moment = (model_of(cohort[name])[part] for part in ("gram", "moment"))
        rank = np.linalg.matrix_rank(gram[0])
        own = np.linalg.pinv(gram[0], rcond=1e-10) @ moment[0]
        x = gram[0][np.argmax(np.diag(gram[0]))]  # where it has seen something
        assert rank > 3
        assert x @ model_of(cohort[name])["theta"] == pytest.approx(x @ own, rel=1e-6), i


def test_with_tau_at_zero_everybody_has_what_all_have_in_common() -> None:
    """With tau at 0 estimates are mu, whatever a participant has seen."""
    cohort = cohort_of(op.synthetic_worlds(3, seed=1))
    go_on(cohort, steps=10, rewards=lambda x, i: float((i + 1) * x.sum()))
    fix_tau(cohort, 1e-9)
    for name in cohort:
        np.testing.assert_allclose(model_of(cohort[name])["theta"], 0.0, atol=1e-6)


def test_participants_who_are_alike_come_together() -> None:
    """Where all have the same theta, tau becomes smaller than it was at the start."""
    (world,) = op.synthetic_worlds(1, seed=1)
    cohort = cohort_of([world] * 8)
    for step in range(30):
        go_on(cohort, steps=1, rewards=lambda x, _: worth(world, x), seed=step)
        cohort.update_prior()
    common = cohort.common.at.unpadded("model", cohort.common.arrays["model"])
    start = cohort.problem.pointwise_regularisation
    assert (common["precision"][0] > 2.0 * start).all()


def test_a_newcomer_begins_with_what_all_have_in_common() -> None:
    """Who enrols after an update has mu for an estimate and diag(tau^2 / R^2) for V^-1."""
    world = op.synthetic_worlds(1, seed=1)[0]
    policy = dataclasses.replace(op.pace_ucb(5), pooled="partial")
    cohort = op.Cohort(world.problem, policy, horizon=40, seed=3, participants=3)
    for name in ("A", "B"):
        cohort.enrol(name)
    go_on(cohort, steps=15, rewards=lambda x, _: worth(world, x))
    cohort.update_prior()
    new = model_of(cohort.enrol("C"))
    common = cohort.common.at.unpadded("model", cohort.common.arrays["model"])
    np.testing.assert_allclose(new["theta"], common["centre"][0], rtol=1e-12)
    np.testing.assert_allclose(new["cov"], np.diag(1.0 / common["precision"][0]), rtol=1e-12, atol=1e-18)
    assert float(np.abs(new["theta"]).max()) > 0.1, "the others have learned something"


# What is refused.


def test_what_partial_pooling_does_not_go_with() -> None:
    """A uniform radius, an agent alone, worlds that differ in their prior, a cohort without it, a prior given twice."""
    world = op.synthetic_worlds(1, seed=1)[0]
    partial = dataclasses.replace(op.pace_ucb(5), pooled="partial")
    with pytest.raises(InputError, match="which has a pointwise radius; expected radius"):
        op.Policy(recommender=op.LinUCB(), revealer=op.Pace(), budget=op.Budget(3), pooled="partial")
    with pytest.raises(InputError, match="shared between participants; expected a Cohort"):
        op.Agent(world.problem, partial, horizon=10, seed=1, stream=0)
    other = world.replace(problem=world.problem.replace(noise_sd=0.3))
    with pytest.raises(InputError, match="worlds differ in noise or prior"):
        op.simulate([world, other], partial, horizon=5, replicates=1, seed=1, progress=False)
    cohort = op.Cohort(world.problem, op.pace_ucb(5), horizon=10, seed=1, participants=2)
    with pytest.raises(StateError, match="not pooled in part"):
        cohort.update_prior()
    d = world.problem.d
    with pytest.raises(InputError, match="prior_sd has 2 numbers; expected 9, one for each feature"):
        world.problem.replace(prior_sd=[1.0, 2.0])
    with pytest.raises(InputError, match="regularisation and prior_sd are both given"):
        world.problem.replace(prior_sd=[1.0] * d, regularisation=0.5)
    told = world.problem.replace(prior_mean=[0.5] * d, prior_sd=[0.3] * d)
    assert op.Problem.from_dict(told.to_dict()).to_dict() == told.to_dict()
    assert "prior_sd" not in world.problem.to_dict(), "problems without a prior are saved as ever"
