"""The Gymnasium environments keep Gymnasium's rules and meet what `simulate` meets."""

import importlib
import sys
from typing import Any

import gymnasium
import numpy as np
import pytest
from gymnasium.utils.env_checker import check_env

import opportune as op
import opportune.gym as og


def make_world() -> op.LinearWorld:
    """One public, one sensed and one reported variable; half of the nudges are answered."""
    problem = op.Problem.from_formula(
        "action * stress + pain",
        {"time": op.TimeOfDay(["am", "pm"]), "stress": range(1, 4), "pain": ["no", "yes"]},
        ["rest", "breathe", "walk"],
        visibility={"pain": "reported"},
        theta_bound=3.0,
    )
    assert isinstance(problem, op.Problem)
    probs = [1 / 12] * 12
    return op.LinearWorld(problem, theta=[0.5] * problem.d, context_probs=probs, response_rate=0.5, open_rate=0.1)


def test_it_keeps_gymnasiums_rules() -> None:
    """Gymnasium's own checker finds nothing, for the default world and one with reported variables."""
    each: list[dict[str, Any]] = [{}, {"world": make_world(), "horizon": 30}]
    for given in each:
        env = gymnasium.make("opportune/Reveal-v0", **given).unwrapped
        check_env(env, skip_render_check=True)


def play(
    env: og.RevealEnv, nudges: set[int], action: int, seed: int | None
) -> tuple[list[float], list[bool], list[float]]:
    """An episode that nudges at some steps and always takes one action: rewards, reveals, costs."""
    env.reset(seed=seed)
    rewards, reveals, costs, over, step = [], [], [], False, 1
    while not over:
        seen, _, _, _, info = env.step(int(step in nudges))
        costs.append(info["cost"])
        reveals.append(bool(seen["revealed"]))
        assert seen["phase"] == 1
        _, reward, over, _, _ = env.step(action)
        rewards.append(reward)
        step += 1
    return rewards, reveals, costs


def test_episodes_are_replicates_of_simulate() -> None:
    """Episode r after a seed meets the contexts, answers and noise of replicate r."""
    world = make_world()
    env = og.RevealEnv(world, budget=5, horizon=40)
    python = op.PythonPolicy(
        propose=lambda moment, memory: moment.step in {3, 9, 20}, settle=lambda shown, memory: 2, budget=5
    )
    data = op.simulate(world, python, horizon=40, replicates=2, seed=11, progress=False).isel(policy=0, world=0)
    for r, seed in ((0, 11), (1, None)):
        rewards, reveals, costs = play(env, {3, 9, 20}, 2, seed)
        np.testing.assert_array_equal(rewards, data["reward"].isel(replicate=r))
        np.testing.assert_array_equal(reveals, data["revealed"].isel(replicate=r))
        np.testing.assert_array_equal(costs, data["nudged"].isel(replicate=r))
    assert play(env, {3}, 1, 11)[0] != rewards


def test_without_a_seed_environments_differ() -> None:
    """Two environments that nobody seeds meet different patients, whether single or many at once."""
    assert play(og.RevealEnv(horizon=5), set(), 1, None)[0] != play(og.RevealEnv(horizon=5), set(), 1, None)[0]
    first, second = (og.RevealVectorEnv(3, horizon=5) for _ in range(2))
    contexts = []
    for many in (first, second):
        many.reset()
        many.step(np.zeros(3, dtype=np.int64))
        contexts.append(many.step(np.ones(3, dtype=np.int64))[1].tolist())
    assert len({*contexts[0], *contexts[1]}) == 6


def test_steps_outside_an_episode_are_refused() -> None:
    """Before the first reset and after the end there is nothing to choose; another reset begins again."""
    env = og.RevealEnv(horizon=2)
    for call in (lambda: env.step(0), env.action_masks, lambda: og.RevealVectorEnv(1).step(np.zeros(1, dtype=int))):
        with pytest.raises(op.StateError, match=r"call reset\(\)"):
            call()
    play(env, set(), 1, 3)
    with pytest.raises(op.StateError, match=r"over; call reset\(\)"):
        env.step(0)
    play(env, set(), 1, 3)


def test_the_age_is_that_of_compiled_rules() -> None:
    """It counts steps since the last reveal, the present one included, and is 0 at a reveal itself."""
    env = og.RevealEnv(horizon=6)
    seen, _ = env.reset(seed=3)
    ages = []
    for step in range(1, 7):
        ages.append(round(seen["age"][0] * 6))
        seen, *_ = env.step(int(step == 3))
        ages.append(round(seen["age"][0] * 6))
        seen, *_ = env.step(0)
    assert ages == [1, 1, 2, 2, 3, 0, 1, 1, 2, 2, 3, 3]


def test_a_reward_that_never_arrives_is_said() -> None:
    """It counts as 0, which `rewarded` tells from a reward that is 0."""
    problem = make_world().problem
    world = op.LinearWorld(problem, theta=[0.5] * problem.d, context_probs=[1 / 12] * 12, reward_rate=0.5)
    env, many = og.RevealEnv(world, horizon=40), og.RevealVectorEnv(1, world, horizon=40)
    env.reset(seed=3)
    many.reset(seed=3)
    arrived = 0
    for _ in range(40):
        assert not env.step(0)[-1]["rewarded"]
        many.step(np.zeros(1, dtype=np.int64))
        _, reward, _, _, info = env.step(1)
        assert info["rewarded"] == (reward != 0.0) == bool(many.step(np.ones(1, dtype=np.int64))[-1]["rewarded"][0])
        arrived += info["rewarded"]
    assert 0 < arrived < 40


def test_without_gymnasium_the_extra_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    """An import without the extra says what to install."""
    monkeypatch.setitem(sys.modules, "gymnasium", None)
    monkeypatch.delitem(sys.modules, "opportune.gym")
    with pytest.raises(ImportError, match=r"pip install 'opportune\[gym\]'"):
        importlib.import_module("opportune.gym")


def test_each_agent_sees_what_it_may() -> None:
    """The revealer sees public and sensed values, the recommender public ones or, on a reveal, all."""
    env = og.RevealEnv(make_world(), budget=1, horizon=40)
    seen, info = env.reset(seed=3)
    nudged = 0
    for _ in range(40):
        assert seen["known"].tolist() == [1, 1, 0]
        assert info["action_mask"][2] == 0
        assert env.action_masks().tolist() == (info["action_mask"] > 0).tolist()
        nudged += int(info["action_mask"][1])
        seen, _, _, _, info = env.step(1)
        assert seen["known"].tolist() == ([1, 1, 1] if seen["revealed"] else [1, 0, 0])
        assert set(info["context"]) == ({"time", "stress", "pain"} if seen["revealed"] else {"time"})
        assert info["action_mask"].tolist() == [1, 1, 1]
        seen, _, over, _, info = env.step(0)
    assert over
    assert nudged >= 1
    assert seen["budget_left"][0] == 0.0


@pytest.mark.parametrize("kind", ["finite", "numbers"])
def test_forbidden_actions_are_masked_and_never_taken(kind: str) -> None:
    """The mask leaves out what rules forbid by what is seen; insisting gives the first one that counts."""
    settings: dict[str, Any] = {
        "never_if": {"walk": "stress >= 2"}, "when_unknown": {"walk": "forbid"}, "noise_sd": 0.1, "theta_bound": 3.0
    }  # fmt: skip
    world: Any
    if kind == "finite":
        finite = op.Problem.from_formula("action * stress", {"stress": range(4)}, ["walk", "rest"], **settings)
        assert isinstance(finite, op.Problem)
        world = op.LinearWorld(finite, theta={"action=rest": 0.5}, context_probs=[0.25] * 4, open_rate=0.5)
    else:
        numbers = op.Problem.from_formula("action * stress", {"stress": op.Number(0, 4)}, ["walk", "rest"], **settings)
        assert isinstance(numbers, op.ContinuousProblem)
        uniform = {"stress": op.distributions.Uniform(0, 4)}
        world = op.ContinuousWorld(numbers, theta={"action=rest": 0.5}, distributions=uniform, open_rate=0.5)
    many = og.RevealVectorEnv(50, world, budget=1, horizon=10)
    insists, keeps = og.RevealVectorEnv(50, world, budget=1, horizon=10), np.ones(50, dtype=np.int64)
    seen, _ = many.reset(seed=5)
    insists.reset(seed=5)
    allowed = 0
    for _ in range(10):
        stress = seen["context"][:, 0]
        seen, _, _, _, info = many.step(np.zeros(50, dtype=np.int64))
        insists.step(np.zeros(50, dtype=np.int64))
        walks = info["action_mask"][:, 0] > 0
        np.testing.assert_array_equal(walks, (seen["revealed"] == 1) & (stress < 2))
        assert (info["action_mask"][:, 1] == 1).all()
        allowed += int(walks.sum())
        seen, rewards, _, _, _ = many.step(np.where(walks, 0, keeps))
        _, others, _, _, _ = insists.step(np.zeros(50, dtype=np.int64))
        np.testing.assert_array_equal(rewards, others)
    assert 0 < allowed < 500


def test_many_at_once_are_as_many_single_ones() -> None:
    """The vector environment's participants are the episodes of the single one; it begins again by itself."""
    world = make_world()
    vector: Any = gymnasium.make_vec("opportune/Reveal-v0", num_envs=3, vectorization_mode="vector_entry_point",
                                     world=world, budget=5, horizon=20)  # fmt: skip
    vector.reset(seed=11)
    total = np.zeros((20, 3))
    for step in range(20):
        vector.step(np.full(3, int(step in {2, 5})))
        _, total[step], over, _, _ = vector.step(np.full(3, 1))
    assert over.all()
    single = og.RevealEnv(world, budget=5, horizon=20)
    for i, seed in enumerate((11, None, None)):
        np.testing.assert_array_equal(play(single, {3, 6}, 1, seed)[0], total[:, i])
    seen, reward, over, _, info = vector.step(np.zeros(3, dtype=np.int64))
    assert not over.any()
    assert (reward == 0).all()
    assert (seen["phase"] == 0).all()
    assert info["action_mask"].shape == (3, 3)


@pytest.mark.parametrize("wrong", [{"horizon": 0}, {"budget": -1}, {"world": "a world"}, {"num_envs": 0}])
def test_bad_settings_are_refused(wrong: dict[str, Any]) -> None:
    """Bad settings are refused by name, and so are actions that do not exist."""
    with pytest.raises(op.InputError, match=next(iter(wrong))):
        og.RevealVectorEnv(**{"num_envs": 2, **wrong})
    env = og.RevealEnv(horizon=3)
    env.reset()
    with pytest.raises(op.InputError, match="action"):
        env.step(99)
    many = og.RevealVectorEnv(2, horizon=3)
    many.reset()
    for actions in ([1.9, 0.0], [np.nan, 0.0], ["nudge", "none"], [99, 0], [0, 0, 0]):
        with pytest.raises(op.InputError, match="2 whole numbers"):
            many.step(np.array(actions))
