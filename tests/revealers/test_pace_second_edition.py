"""What PACE's second edition promises (docs/pace.md): of the value, the rest, and the model of when people answer."""

import itertools
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import opportune as op
from opportune.errors import InputError
from opportune.revealers.pace import Notes, rest
from opportune.revealers.ranking import BY_RANK

seeds = st.integers(0, 10_000)


def intercepts(seed: int) -> NDArray[np.float64]:
    """Features of 4 contexts and 3 actions: what the context adds to any action, the action, and both together."""
    rng = np.random.default_rng(seed)
    contexts, actions = np.eye(4), np.eye(3)
    mood = rng.normal(size=4)
    return np.array(
        [[np.concatenate([contexts[k], actions[a], mood[k] * actions[a]]) for a in range(3)] for k in range(4)]
    )


def world_with(seed: int, added: NDArray[np.float64]) -> Any:
    """A world in which each context adds so much to the reward of every action, as agents have been told."""
    rng = np.random.default_rng(seed + 1)
    features = intercepts(seed)
    d = features.shape[-1]
    mean = np.concatenate([added, np.zeros(d - 4)])
    problem = op.Problem(
        features, rng.dirichlet(np.full(4, 2.0)), noise_sd=0.3, prior_mean=mean.tolist(), prior_sd=[1.0] * d,
        theta_bound=50.0,
    )  # fmt: skip
    return op.LinearWorld(problem, theta=rng.normal(size=d) + mean)


@settings(max_examples=10, deadline=None)
@given(seeds)
def test_what_every_action_gains_changes_nothing(seed: int) -> None:
    """Adding to every action of a context the same amount changes no decision."""
    assert alike(seed, "realised")


def alike(seed: int, value: str) -> bool:
    """Whether decisions are the same however good contexts are by themselves."""
    policy = op.pace_ucb(4, value=value)
    found = [
        op.simulate(world_with(seed, added), policy, horizon=40, replicates=2, seed=seed, progress=False)
        for added in (np.zeros(4), np.array([4.0, -3.0, 0.0, 7.0]))
    ]
    plain, shifted = found
    return all(np.array_equal(plain[name].values, shifted[name].values) for name in ("nudged", "action"))


def test_by_the_paper_s_value_it_does() -> None:
    """The control: with the paper's comparison with an average context decisions change."""
    assert not all(alike(seed, "paper") for seed in range(5))


@settings(max_examples=20, deadline=None)
@given(seeds, st.sampled_from([3, 8, 20]))
def test_no_nudge_where_nothing_is_gained(seed: int, budget: int) -> None:
    """A moment whose gain and debt are not positive gets no nudge, however much of the budget is left."""
    world = world_with(seed, np.zeros(4))
    agent = op.Agent(world.problem, op.pace_ucb(budget), horizon=30, seed=seed, stream=0)
    rng = np.random.default_rng(seed)
    for _ in range(30):
        context = int(rng.integers(4))
        decision = agent.decide(context)
        assert decision.notes is not None
        notes = Notes(*decision.notes)
        if notes.cause == BY_RANK and notes.worth <= 1e-12:
            assert decision.probability == 0.0
        action = agent.problem.action_names.index(decision.action)
        agent.learn(float(world.problem.features[context, action] @ world.theta + 0.3 * rng.normal()))


def test_some_budget_is_left_where_nothing_is_gained() -> None:
    """The control: with an ample budget the second edition leaves some, and the first edition leaves none."""
    worlds = [world_with(seed, np.zeros(4)) for seed in range(6)]
    policies = [op.pace_ucb(20), op.pace_ucb(20, radius="uniform", value="paper", name="first")]
    data = op.simulate(worlds, policies, horizon=60, replicates=2, seed=1, progress=False, trace=False)
    spent = data["spent"].mean(["world", "replicate"])
    assert float(spent.sel(policy="PACE")) < 0.8 * float(spent.sel(policy="first"))


def test_the_rest_is_shorter_the_more_the_budget_can_pay_for() -> None:
    """After j unanswered nudges floor(j (1 - rho) + 1/2) steps: j where nothing is left, none where all can be paid."""
    for unanswered in range(1, 9):
        lengths = [rest(float(unanswered), share) for share in np.linspace(0.0, 1.0, 21)]
        assert lengths[0] == unanswered
        assert lengths[-1] == 0
        assert all(later <= earlier for earlier, later in itertools.pairwise(lengths))
    assert (rest(1.0, 0.5), rest(1.0, 0.51), rest(3.0, 0.5)) == (1, 0, 2)


# When people answer.


def cohort(response_rate: float, *, budget: int, seed: int) -> dict[bool, Any]:
    """Six participants who share a budget, without and with the model."""
    worlds = [world.replace(response_rate=response_rate) for world in op.synthetic_worlds(6, seed=seed)]
    policies = [
        op.pace_ucb(op.Budget(6 * budget, shared=True), response=response, name=str(response))
        for response in (False, True)
    ]
    data = op.simulate(worlds, policies, horizon=100, replicates=2, seed=seed, progress=False)
    return {response: data.sel(policy=str(response)) for response in (False, True)}


@pytest.mark.parametrize("budget", [4, 12])
def test_with_certain_answers_it_decides_as_without(budget: int) -> None:
    """Where every nudge is answered, the model changes no decision."""
    found = cohort(1.0, budget=budget, seed=3)
    assert int(found[True]["nudged"].sum()) > 20
    for name in ("nudged", "action"):
        assert np.array_equal(found[False][name], found[True][name]), name


def test_with_uncertain_answers_it_does_not() -> None:
    """The control: where half of the nudges go unanswered it decides differently."""
    found = cohort(0.5, budget=12, seed=3)
    assert not np.array_equal(found[False]["nudged"], found[True]["nudged"])


def test_what_the_model_needs() -> None:
    """A budget that participants share, and no guard."""
    with pytest.raises(
        InputError, match=r"response learns from all who share the budget; expected Budget\(..., shared="
    ):
        op.pace_ucb(10, response=True)
    with pytest.raises(InputError, match="guard goes without response"):
        op.Pace(response=True, guard=0.5)


def test_why_says_by_what_moments_are_ranked() -> None:
    """By what they count for: with the response model worth alone would be wrong."""
    notes = Notes(worth=0.5, debt=0.0, above=0.17, tied=0.1, share=0.2, to_come=50.0, left=10.0, cause=BY_RANK)
    assert op.Pace.words(notes).startswith("fresh advice counts for more than now in 17% of the moments to expect")
