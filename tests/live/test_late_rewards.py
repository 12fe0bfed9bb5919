"""Rewards that come late, in any order, or wrong at first: the same knowledge in the end (docs/live.md)."""

from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import opportune as op
from live_examples import mixed_problem, moment_problem

STEPS = 12
PROBLEMS: dict[str, Any] = {
    "sensed": op.synthetic_worlds(1, seed=1)[0].problem,
    "reported": mixed_problem(known=True),
    "reported, p unknown": mixed_problem(known=False),
    "moments": moment_problem(reported=False),
    "moments, reported": moment_problem(reported=True),
}

kinds = st.sampled_from(list(PROBLEMS))
seeds = st.integers(0, 2**32 - 1)
orders = st.permutations(range(1, STEPS + 1))
rewards = st.lists(st.floats(-100.0, 100.0), min_size=STEPS, max_size=STEPS)


def an_agent(kind: str) -> op.Agent:
    """Its actions do not depend on what it learned, so that all runs of a kind have the same data."""
    policy = op.Policy(recommender=op.EqualCoins(), revealer=op.Periodic(every=5))
    return op.Agent(PROBLEMS[kind], policy, horizon=STEPS + 1, seed=9, stream=4)


def moments(kind: str, seed: int) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Contexts of so many steps: what is sensed, and what is reported."""
    rng, problem = np.random.default_rng(seed), PROBLEMS[kind]
    made = []
    for _ in range(STEPS + 1):
        values = {
            name: float(rng.uniform(v.low, v.high)) if isinstance(v, op.Number) else v[int(rng.integers(len(v)))]
            for name, v in problem.variables.items()
            if name not in problem.schedule.variables
        }
        told = {name: value for name, value in values.items() if problem.visibility[name] == "reported"}
        made.append(({name: value for name, value in values.items() if name not in told}, told))
    return made


def decide(agent: op.Agent, moment: tuple[dict[str, Any], dict[str, Any]], *, opened: bool = False) -> None:
    proposal = agent.propose(moment[0], reported=moment[1] or None, opened=opened)
    agent.settle(True if proposal.nudged else None)


def model(agent: op.Agent) -> Any:
    return agent.numbers.at.views("model", agent.numbers.arrays["model"])


def assert_same_knowledge(one: op.Agent, other: op.Agent) -> None:
    for part in ("theta", "cov", "mean", "width2", "log_det", "radius"):
        np.testing.assert_allclose(getattr(model(one), part), getattr(model(other), part), rtol=1e-9, atol=1e-9)


@given(kind=kinds, seed=seeds, order=orders, late=st.lists(st.booleans(), min_size=STEPS, max_size=STEPS), got=rewards)
@settings(max_examples=60, deadline=None)
def test_rewards_in_any_order_give_the_same_estimate(
    kind: str, seed: int, order: list[int], late: list[bool], got: list[float]
) -> None:
    """At once, after later decision points, before or after the reveal that uncovers the step: theta is the same."""
    in_time, in_disorder = an_agent(kind), an_agent(kind)
    contexts = moments(kind, seed)
    for step, (moment, reward) in enumerate(zip(contexts[:-1], got, strict=True), start=1):
        decide(in_time, moment)
        in_time.learn(reward)
        decide(in_disorder, moment)
        for earlier in order:
            if earlier <= step and earlier in in_disorder.open_steps and not late[earlier - 1]:
                in_disorder.learn(got[earlier - 1], earlier)
    halfway = [step for step in order if step in in_disorder.open_steps]
    for step in halfway[::2]:
        in_disorder.learn(got[step - 1], step)
    for agent in (in_time, in_disorder):
        decide(agent, contexts[-1], opened=True)
    for step in halfway[1::2]:
        in_disorder.learn(got[step - 1], step)
    assert_same_knowledge(in_time, in_disorder)


@given(kind=kinds, seed=seeds, wrong=rewards, right=rewards, chosen=st.sets(st.integers(1, STEPS)), early=st.booleans())
@settings(max_examples=60, deadline=None)
def test_a_corrected_reward_is_as_if_the_right_one_had_been_learned(
    kind: str, seed: int, wrong: list[float], right: list[float], chosen: set[int], early: bool
) -> None:
    """Whenever the correction comes, also while the step is pending, and also a second time."""
    corrected, expected = an_agent(kind), an_agent(kind)
    contexts = moments(kind, seed)
    for step, moment in enumerate(contexts[:-1], start=1):
        decide(corrected, moment)
        decide(expected, moment)
        corrected.learn(wrong[step - 1])
        expected.learn(right[step - 1] if step in chosen else wrong[step - 1])
        if early and step in chosen:
            corrected.correct(0.5 * right[step - 1], step)
    for agent in (corrected, expected):
        decide(agent, contexts[-1], opened=early)
    for step in sorted(chosen, reverse=True):
        corrected.correct(right[step - 1], step)
    assert_same_knowledge(corrected, expected)
