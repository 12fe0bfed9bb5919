"""Live agents and cohorts against `simulate`: whatever is shared, whatever happens, the same decisions to the bit."""

import json
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest
from replay import Participant, replay, run

import opportune as op
from live_examples import HAPPENINGS, OPTIMISTIC, POLICIES, WORLDS, mixed_problem, moment_problem
from opportune.errors import InputError, OpportuneError, StateError

HORIZON = 50
SEED = 2**63 + 5
SHARING: dict[str, tuple[bool, bool]] = {  # shared budget, pooled model
    "nothing": (False, False),
    "budget": (True, False),
    "model": (False, True),
    "both": (True, True),
}

kinds = pytest.mark.parametrize("kind", WORLDS)
sharings = pytest.mark.parametrize("sharing", SHARING)


def simulated(worlds: Sequence[Any], policies: Any, **settings: Any) -> Any:
    arguments = {"horizon": HORIZON, "replicates": 1, "seed": SEED, "progress": False, **settings}
    return op.simulate(worlds, policies, **arguments)


def usable(policy: op.Policy, world: Any) -> bool:
    """Whether a policy has what it needs: the truth, for scale `gap`."""
    return policy.scale != "gap" or world.informed_problem().largest_gap is not None


def alone(world: Any, policy: op.Policy, stream: int) -> op.Agent:
    return op.Agent(world.informed_problem(), policy, horizon=HORIZON, seed=SEED, stream=stream)


@pytest.mark.parametrize("known", [True, False], ids=["p known", "p unknown"])
def test_agents_make_the_decisions_of_simulate_in_the_papers_setting(known: bool) -> None:
    """All sensed, every nudge answered, rewards at once: every kind of policy, in several worlds and replicates."""
    worlds = op.synthetic_worlds(2, seed=1, known=known)
    policies = POLICIES if known else [*POLICIES, *OPTIMISTIC]
    data = simulated(worlds, policies, replicates=2)
    for i, policy in enumerate(policies):
        for replicate in range(2):
            agents = [alone(world, policy, (w << 32) | replicate) for w, world in enumerate(worlds)]
            replay(worlds, agents, data.isel(policy=i), seed=SEED, replicate=replicate)


@kinds
def test_agents_make_the_decisions_of_simulate_whatever_happens(kind: str) -> None:
    """Openings, unanswered nudges, absences, late and lost rewards; what is reported told early or at reveals only."""
    worlds = WORLDS[kind](**HAPPENINGS)
    policies = [policy for policy in POLICIES if usable(policy, worlds[0])]
    data = simulated(worlds, policies)
    for i, policy in enumerate(policies):
        for sealed in (True, False):
            agents = [alone(world, policy, w << 32) for w, world in enumerate(worlds)]
            replay(worlds, agents, data.isel(policy=i), seed=SEED, sealed=sealed)


def together(sharing: str) -> list[op.Policy]:
    shared, pooled = SHARING[sharing]

    def budget(amount: float, hard: bool = False) -> op.Budget:
        return op.Budget(amount, hard=hard, shared=shared)

    return [
        op.Policy(budget=budget(9.5), pooled=pooled, name="PD2"),
        op.Policy(revealer=op.PrimalDual(scale="range"), budget=budget(6, hard=True), pooled=pooled, name="PD1 hard"),
        op.Policy(revealer=op.FixedRate(), budget=budget(9), pooled=pooled, name="naive"),
        op.Policy(recommender=op.Thompson(), budget=budget(9), pooled=pooled, name="Thompson"),
        op.Policy(recommender=op.LinUCB(rotate=True), revealer=op.Pace(), budget=budget(9), pooled=pooled, name="PACE"),
    ]


def cohort_of(worlds: Sequence[Any], policy: op.Policy) -> op.Cohort:
    """A cohort of the worlds' participants; where the model is not pooled each has the problem of its world."""
    problem = worlds[0].problem
    cohort = op.Cohort(problem, policy, horizon=HORIZON, seed=SEED, participants=len(worlds))
    for w, world in enumerate(worlds):
        cohort.enrol(f"P{w}", problem=None if policy.pooled else world.informed_problem())
    return cohort


@sharings
@kinds
def test_cohorts_make_the_decisions_of_simulate(kind: str, sharing: str) -> None:
    """A cohort that shares what the participants of a simulated study share decides as they did."""
    for happenings in ({}, HAPPENINGS):
        worlds = WORLDS[kind](**happenings)
        policies = together(sharing)
        data = simulated(worlds, policies)
        for i, policy in enumerate(policies):
            cohort = cohort_of(worlds, policy)
            replay(worlds, [cohort[name] for name in cohort], data.isel(policy=i), seed=SEED)


@sharings
def test_a_large_cohort_in_the_papers_setting(sharing: str) -> None:
    """The same for more participants; those who learn alone have distributions of their own."""
    worlds = op.synthetic_worlds(5, seed=7)
    if SHARING[sharing][1]:
        worlds = [op.LinearWorld(worlds[0].problem, theta=world.theta) for world in worlds]
    policies = together(sharing)
    data = simulated(worlds, policies)
    for i, policy in enumerate(policies):
        cohort = cohort_of(worlds, policy)
        replay(worlds, [cohort[name] for name in cohort], data.isel(policy=i), seed=SEED)


def resumed(cohort: op.Cohort) -> op.Cohort:
    """The cohort after a stop: written as text and read again."""
    return op.Cohort.from_dict(json.loads(json.dumps(cohort.to_dict(), allow_nan=False)))


@sharings
@kinds
def test_a_cohort_resumed_in_the_middle_goes_on_exactly(kind: str, sharing: str) -> None:
    """Saved after any step and read again, also between two participants' turns, it decides on as `simulate` does."""
    worlds = WORLDS[kind](**HAPPENINGS)
    for policy in (together(sharing)[0], together(sharing)[-1]):
        goes_on_exactly(worlds, policy)


def goes_on_exactly(worlds: Sequence[Any], policy: op.Policy) -> None:
    data = simulated(worlds, policy).isel(policy=0)
    cohort = cohort_of(worlds, policy)
    participants = [
        Participant(world, cohort[name], data.isel(world=w, replicate=0), SEED, w << 32)
        for w, (world, name) in enumerate(zip(worlds, cohort, strict=True))
    ]
    for step in range(1, HORIZON + 1):
        for participant in participants:
            participant.step(step, sealed=True)
            participant.rewards(step)
            if step % 7 == 0:
                again = resumed(cohort)
                assert again.to_dict() == cohort.to_dict()
                cohort = again
                for other, name in zip(participants, cohort, strict=True):
                    other.agent = cohort[name]


def test_a_participant_who_joins_late_starts_from_what_all_have_learned() -> None:
    """With a pooled model the first advice of a new participant rests on the others' rewards."""
    problem = op.synthetic_worlds(1, seed=1)[0].problem
    policy = op.Policy(revealer=op.Never(), pooled=True)
    cohort = op.Cohort(problem, policy, horizon=30, seed=1, participants=2)
    first = cohort.enrol("first")
    begun = first.propose(0).action
    first.settle()
    for t in range(20):
        if t:
            first.decide(t % 10)
        first.learn(-5.0)
    assert first.propose(0).action == begun  # nothing was revealed to the first
    assert cohort.enrol("second").propose(0).action != begun


def test_a_shared_budget_is_spent_by_whoever_asks_first() -> None:
    """What one participant is charged is gone for the other; the cohort knows what is left."""
    problem = op.synthetic_worlds(1, seed=1)[0].problem
    policy = op.Policy(revealer=op.Always(), budget=op.Budget(3, shared=True))
    cohort = op.Cohort(problem, policy, horizon=4, seed=1, participants=2)
    ann, bob = cohort.enrol("ann"), cohort.enrol("bob")
    nudged = []
    for _ in range(2):
        for agent in (ann, bob):
            nudged.append(agent.decide(0).nudged)
            assert cohort.budget_left == ann.budget_left == bob.budget_left
    assert nudged == [True, True, True, False]
    assert cohort.budget_left == 0.0


def test_who_withdraws_leaves_the_budget_to_the_others() -> None:
    """No more decisions are made for them, nor expected; the rest goes on, also after a stop."""
    problem = mixed_problem(known=True)
    policy = op.pace_ucb(op.Budget(4, shared=True))
    cohort = op.Cohort(problem, policy, horizon=10, seed=1, participants=2)
    for name in ("ann", "bob"):
        cohort.enrol(name).propose({"hour": "am", "place": 0})
    cohort.withdraw("ann")
    for again in (cohort, resumed(cohort)):
        with pytest.raises(StateError, match=r"^the participant has withdrawn; no more decisions are made$"):
            again["ann"].propose({"hour": "am", "place": 0})
        with pytest.raises(StateError, match=r"^the participant has withdrawn already$"):
            again.withdraw("ann")
        assert list(again["ann"].open_steps) == [1]
        again["bob"].propose({"hour": "pm", "place": 1})


def test_participants_who_share_nothing_do_not_touch_each_other() -> None:
    """In a cohort without sharing everyone decides as an agent alone would."""
    problem = mixed_problem(known=False)
    cohort = op.Cohort(problem, op.pd2_ucb(5), horizon=20, seed=3, participants=2)
    members = [cohort.enrol("ann"), cohort.enrol("bob", stream=77)]
    apart = [op.Agent(problem, op.pd2_ucb(5), horizon=20, seed=3, stream=stream) for stream in (0, 77)]
    for t in range(20):
        for i, (member, agent) in enumerate(zip(members, apart, strict=True)):
            assert member.decide((5 * t + i) % 12) == agent.decide((5 * t + i) % 12)
            member.learn(0.1 * t)
            agent.learn(0.1 * t)


def test_a_cohort_lists_its_participants() -> None:
    """By name, in the order of enrolment."""
    cohort = op.Cohort(mixed_problem(known=True), op.pd2_ucb(5), horizon=20, seed=3, participants=3)
    cohort.enrol("ann")
    cohort.enrol("bob")
    assert (list(cohort), len(cohort)) == (["ann", "bob"], 2)
    assert (cohort["ann"].stream, cohort["bob"].stream) == (0, 1 << 32)
    assert repr(cohort) == "Cohort(PD2, 2 of 3 participants)"


def small_cohort(**settings: Any) -> op.Cohort:
    policy = op.Policy(budget=op.Budget(5), **settings)
    cohort = op.Cohort(mixed_problem(known=True), policy, horizon=20, seed=3, participants=2)
    cohort.enrol("ann")
    return cohort


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda c: c.enrol("ann"), StateError, "'ann' is enrolled already"),
        (lambda c: c.enrol(""), InputError, "name is ''; expected text"),
        (lambda c: c.enrol(7), InputError, "name is 7; expected text"),
        (
            lambda c: c.enrol("bob", stream=0),
            InputError,
            "stream is 0; 'ann' has it already, and each participant needs its own",
        ),
        (
            lambda c: c.enrol("bob", stream=-1),
            InputError,
            f"stream is -1; expected a whole number from 0 to {2**64 - 1}",
        ),
        (lambda c: c["bob"], InputError, "no participant is called 'bob'; expected one of ['ann']"),
        (
            lambda c: c.budget_left,
            StateError,
            "each participant has a budget of its own; ask cohort[name].budget_left",
        ),
        (
            lambda c: [c.enrol("bob"), c.enrol("eve")],
            StateError,
            "all 2 planned participants are enrolled",
        ),
    ],
)
def test_what_a_cohort_refuses(call: Any, error: type[OpportuneError], message: str) -> None:
    """Names and streams are each one's own, and no more enrol than were planned."""
    with pytest.raises(error, match="^" + re.escape(message) + "$"):
        call(small_cohort())


@pytest.mark.parametrize("problem", [mixed_problem(known=True), moment_problem(reported=True)], ids=["finite", "not"])
def test_a_pooled_model_needs_one_problem(problem: Any) -> None:
    """Who learns one model must look at the same features; the same problem built twice is the same."""
    policy = op.Policy(budget=op.Budget(5), pooled=True)
    cohort = op.Cohort(problem, policy, horizon=20, seed=3, participants=3)
    cohort.enrol("ann", problem=problem.replace())
    message = "the participant's problem differs from the cohort's; expected the same, as the model is pooled"
    with pytest.raises(InputError, match="^" + re.escape(message) + "$"):
        cohort.enrol("bob", problem=problem.replace(noise_sd=0.7))
    assert list(cohort) == ["ann"]


def test_an_agent_alone_shares_nothing() -> None:
    """A policy with something shared needs a cohort."""
    for settings, what in (({"budget": op.Budget(5, shared=True)}, "budget"), ({"pooled": True}, "model")):
        policy = op.Policy(revealer=op.Always(), **settings)
        message = f"^the policy's {what} is shared between participants; expected a Cohort for them$"
        with pytest.raises(InputError, match=message):
            op.Agent(mixed_problem(known=True), policy, horizon=20, seed=3, stream=0)


def test_replay_can_fail() -> None:
    """Another seed makes other decisions: the comparison above is not empty."""
    worlds = op.synthetic_worlds(1, seed=1)
    policy = op.pd2_ucb(8)
    data = simulated(worlds, policy).isel(policy=0)
    agent = op.Agent(worlds[0].problem, policy, horizon=HORIZON, seed=SEED + 1, stream=0)
    participant = Participant(worlds[0], agent, data.isel(world=0, replicate=0), SEED, 0)
    with pytest.raises(AssertionError):
        run([participant], range(1, HORIZON + 1))
    assert np.any(data["nudged"].values)
