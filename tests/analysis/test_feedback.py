"""Logged decisions as Open Bandit Pipeline reads them: exact probabilities, nothing lost on the way back."""

from typing import Any

import numpy as np
import pandas as pd
import pytest
import xarray as xr

import opportune as op

WORLD = op.synthetic_worlds(1, seed=4, contexts=4, actions=3)[0]


def simulated(*recommenders: Any, world: Any = WORLD, **settings: Any) -> xr.Dataset:
    """A simulation with a policy for each recommender, called a, b, ..."""
    policies = [
        op.Policy(recommender=each, revealer=op.Periodic(every=4), budget=op.Budget(9), name=name)
        for each, name in zip(recommenders, "abc", strict=False)
    ]
    given = {"horizon": 40, "replicates": 50, "seed": 3, "progress": False, **settings}
    return op.simulate(world, policies, **given)


def test_rows_are_the_decisions_with_their_probabilities() -> None:
    """Each decision with a reward is a row; pscore is the action's own probability, as drawn."""
    world = WORLD.replace(reward_rate=0.8, available_rate=0.9)
    data = simulated(op.LinUCB(floor=0.1), world=world)
    feedback = op.to_bandit_feedback(data)
    run = data.isel(policy=0, world=0)
    kept = (run["available"] & run["reward"].notnull()).values
    assert feedback["n_rounds"] == kept.sum() < kept.size
    assert feedback["n_actions"] == 3
    np.testing.assert_array_equal(feedback["reward"], run["reward"].values[kept])
    np.testing.assert_array_equal(feedback["context"].argmax(axis=1), run["context"].values[kept])
    np.testing.assert_allclose(feedback["pi_b"].sum(axis=1), 1.0)
    assert feedback["pi_b"].shape == (feedback["n_rounds"], 3, 1)
    assert set(np.round(feedback["pscore"], 12)) == {0.1, 0.8}


def test_weighting_finds_what_another_policy_brings() -> None:
    """Weighted by pscore, the log of one policy tells the value of always one action, which simulation confirms."""
    feedback = op.to_bandit_feedback(simulated(op.EqualCoins(), replicates=400))
    there = simulated(op.FixedAction(action=0), replicates=400)["outcome"].mean()
    weighted = feedback["reward"] * (feedback["action"] == 0) / feedback["pscore"]
    error = weighted.std() / np.sqrt(weighted.size)
    assert abs(weighted.mean() - float(there)) < 4 * error
    assert abs(feedback["reward"].mean() - float(there)) > 4 * error  # unweighted it is another


def test_there_and_back_is_the_same() -> None:
    """A log made of the dictionary makes the same dictionary."""
    feedback = op.to_bandit_feedback(simulated(op.LinUCB(floor=0.1), op.Thompson(points=32, floor=0.05)), policy="b")
    log = op.from_bandit_feedback(feedback, actions=["rest", "walk", "call"])
    assert list(log.columns[:7]) == ["x0", "x1", "x2", "x3", "action", "reward", "action_probability"]
    again = op.to_bandit_feedback(log, variables=["x0", "x1", "x2", "x3"], actions=["rest", "walk", "call"])
    assert again.keys() == feedback.keys()
    for name, value in feedback.items():
        np.testing.assert_array_equal(again[name], value, err_msg=name)


def test_a_log_may_have_levels_and_gaps() -> None:
    """Texts become a column for each level, decisions without a reward are left out, pi_b needs all columns."""
    log = pd.DataFrame(
        {"mood": ["low", "high", "low"], "age": [3, 4, 5], "action": ["b", "a", "b"], "reward": [1.0, np.nan, 2.0],
         "action_probability": [0.3, 0.7, 0.4]}
    )  # fmt: skip
    feedback = op.to_bandit_feedback(log, variables=["age", "mood"], actions=["a", "b"])
    assert feedback["context"].tolist() == [[3.0, 1.0], [5.0, 1.0]]
    assert feedback["action"].tolist() == [1, 1]
    assert feedback["pscore"].tolist() == [0.3, 0.4]
    assert "pi_b" not in feedback
    assert feedback["position"] is None


def test_rewards_that_are_filled_in_are_not_observed() -> None:
    """Of a trial's export, rewards by default and absences are left out, as every analysis leaves them out."""
    log = pd.DataFrame(
        {"x": range(5), "action": ["a", "b", "a", "b", "a"], "reward": [1.0, 2.0, 3.0, 4.0, 5.0],
         "action_probability": [0.5] * 5, "reward_imputed": [0, 1, 0, 0, np.nan], "available": [1, 1, 0, 1, 1]}
    )  # fmt: skip
    feedback = op.to_bandit_feedback(log, variables=["x"])
    assert feedback["reward"].tolist() == [1.0, 4.0, 5.0]
    as_text = log.iloc[:4].astype({"reward_imputed": str, "available": str})
    assert op.to_bandit_feedback(as_text, variables=["x"])["reward"].tolist() == [1.0, 4.0]
    with pytest.raises(op.InputError, match="no decision with a reward"):
        op.to_bandit_feedback(log.assign(reward_imputed=1), variables=["x"])


LOG = {"x": [1.0], "action": ["a"], "reward": [1.0], "action_probability": [0.5]}


@pytest.mark.parametrize(
    ("change", "variables", "said"),
    [
        ({}, [], "variables is empty"),
        ({"reward": ["much"]}, ["x"], "column 'reward' of data contains something other than numbers"),
        ({"action_probability": ["half"]}, ["x"], "column 'action_probability' of data contains something"),
        ({"reward": [np.inf]}, ["x"], "reward has inf"),
        ({"x": [-np.inf]}, ["x"], "column 'x' of data has -inf"),
        ({"action_probability_a": [0.5]}, ["x"], "sum to 1"),
        ({"action_probability_a": [1.0]}, ["x"], "action_probability differs"),
    ],
)
def test_a_log_that_cannot_be_weighted_is_refused(change: dict[str, Any], variables: list[str], said: str) -> None:
    """Numbers are finite numbers, and the probabilities of all actions fit that of the one taken."""
    op.to_bandit_feedback(pd.DataFrame(LOG), variables=["x"])
    with pytest.raises(op.InputError, match=said):
        op.to_bandit_feedback(pd.DataFrame({**LOG, **change}), variables=variables)


def continuous() -> xr.Dataset:
    problem = op.Problem.from_formula("action * x", {"x": op.Number(0, 1)}, 2)
    assert isinstance(problem, op.ContinuousProblem)
    world = op.ContinuousWorld(problem, theta=[0.1, 0.2, 0.3], distributions={"x": op.distributions.Uniform(0, 1)})
    return simulated(op.EqualCoins(), world=world)


@pytest.mark.parametrize(
    ("make", "given", "said"),
    [
        (lambda: simulated(op.LinUCB()), {}, "no policy of data draws its actions by chance"),
        (lambda: simulated(op.LinUCB(), op.EqualCoins()), {"policy": "a"}, "every action of 'a' was certain"),
        (lambda: simulated(op.Thompson(), op.EqualCoins()), {"policy": "a"}, "data does not record how 'a' draws"),
        (lambda: simulated(op.LinUCB(floor=0.1), op.EqualCoins()), {}, r"expected policy=\.\.\. to choose one"),
        (lambda: simulated(op.EqualCoins()), {"policy": "z"}, "policy is 'z'"),
        (lambda: simulated(op.EqualCoins(), trace=False), {}, "totals only"),
        (continuous, {}, "not a finite set"),
        (lambda: simulated(op.EqualCoins()), {"variables": ["x"]}, "for a log in a DataFrame"),
        (lambda: pd.DataFrame({"action": ["a"]}), {}, "column of data is 'reward'"),
        (lambda: pd.DataFrame({"x": [1], "action": ["a"], "reward": [1.0], "action_probability": [0.0]}),
         {"variables": ["x"]}, "expected above 0 and at most 1"),
        (lambda: pd.DataFrame({"x": [1], "action": ["a"], "reward": [1.0], "action_probability": [np.nan]}),
         {"variables": ["x"]}, "without 'action_probability'"),
        (lambda: "log.csv", {}, "expected a Dataset"),
    ],
)  # fmt: skip
def test_what_is_not_known_is_refused(make: Any, given: dict[str, Any], said: str) -> None:
    """No probabilities are made up: what was certain, unknown or not kept is refused in a sentence."""
    with pytest.raises(op.InputError, match=said):
        op.to_bandit_feedback(make(), **given)


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"pscore": None}, "feedback has no 'pscore'"),
        ({"action": np.array([0, 7])}, "action is from 0 to 7"),
        ({"position": np.array([0, 1])}, "several positions"),
        ({"pscore": np.array([0.5, 1.5])}, "probability of an action taken is 1.5"),
        ({"reward": np.ones(3)}, "reward has 3 entries"),
        ({"n_rounds": 3}, "n_rounds is 3; expected 2, the number"),
        ({"pi_b": np.full((2, 2, 1), 0.9)}, "sum to 1"),
        ({"pi_b": np.tile([[0.4], [0.6]], (2, 1, 1))}, "pscore differs from pi_b"),
    ],
)
def test_a_broken_dictionary_is_refused(change: dict[str, Any], said: str) -> None:
    """What is missing or does not fit is named."""
    good = {"n_actions": 2, "context": np.ones((2, 1)), "action": np.array([0, 1]), "reward": np.ones(2),
            "pscore": np.array([0.5, 0.5])}  # fmt: skip
    op.from_bandit_feedback(good)
    with pytest.raises(op.InputError, match=said):
        op.from_bandit_feedback({**good, **change})
