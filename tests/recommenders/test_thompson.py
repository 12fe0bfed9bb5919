"""Thompson sampling: its draws, what it does with them, and that an auditor can repeat them."""

import json
from typing import Any

import numpy as np
import pytest
import xarray as xr
from numba import njit
from numpy.typing import NDArray

import opportune as op
from by_hand import Knowledge
from opportune.algorithm.protocol import Draws
from opportune.engine.views import participant_at
from opportune.recommenders.thompson import sample
from opportune.worlds.distributions import Uniform

Floats = NDArray[np.float64]
OWN = f"recommender_{op.Thompson.number}"


def thompson(revealer: Any = None, budget: float | None = 8, **settings: Any) -> op.Policy:
    return op.Policy(
        recommender=op.Thompson(**settings), revealer=revealer or op.LearningPrimalDual(), budget=budget, name="TS"  # type: ignore[arg-type]
    )  # fmt: skip


def run(worlds: Any, policies: Any, **changes: Any) -> xr.Dataset:
    settings: dict[str, Any] = {"horizon": 40, "replicates": 4, "seed": 7, "progress": False} | changes
    return op.simulate(worlds, policies, **settings)


@njit
def draw_thetas(handle, seed, stream, out):  # type: ignore[no-untyped-def]
    """The parameters that would be drawn at steps 1, 2, ... by what is frozen."""
    p = participant_at(handle)
    own = getattr(p, OWN)
    for i in range(out.shape[0]):
        sample(p, own, Draws(seed, stream), i + 1)
        for j in range(out.shape[1]):
            out[i, j] = own.scratch.theta[j]


WORLD = op.synthetic_worlds(1, seed=3, contexts=4, actions=3)[0]
X: list[Floats] = []
REWARDS: list[float] = []


def taught(inflation: float, seed: int = 5) -> op.Agent:
    """An agent that has learned from 12 rewards and frozen them at a reveal."""
    X.clear()
    REWARDS.clear()
    policy = thompson(op.Never(), None, inflation=inflation)
    agent = op.Agent(WORLD.problem, policy, horizon=50, seed=seed, stream=9)
    rng = np.random.default_rng(1)
    for _ in range(12):
        context = int(rng.integers(4))
        action = int(agent.decide(context, opened=True).action)
        REWARDS.append(float(rng.normal()))
        X.append(WORLD.problem.features[context, action])
        agent.learn(REWARDS[-1])
    agent.decide(0, opened=True)  # freezes all of it
    return agent


def thetas(agent: op.Agent, n: int, scale: float = 1.0) -> Floats:
    """The parameters that an agent would draw, with another scale of the draws."""
    settings = agent.numbers.at.views("recommender.settings", agent.numbers.rule)
    out = np.zeros((n, WORLD.problem.d))
    settings.scale[0] *= scale
    draw_thetas(agent.numbers.handle, np.uint64(agent.seed), np.uint64(agent.stream), out)
    settings.scale[0] /= scale
    return out


@pytest.mark.parametrize("inflation", [1.0, 2.5])
def test_draws_are_normal_around_the_estimate(inflation: float) -> None:
    """Many draws have mean theta and covariance inflation^2 R^2 V^-1."""
    agent = taught(inflation)
    known = Knowledge(WORLD.problem, X, REWARDS)
    n = 40_000
    drawn = thetas(agent, n)
    expected = inflation**2 * WORLD.problem.noise_sd**2 * known.cov
    standard_error = np.sqrt(np.diag(expected) / n)
    assert (np.abs(drawn.mean(axis=0) - known.theta) < 4.5 * standard_error).all()
    found = np.cov(drawn.T)
    spread = np.sqrt(np.outer(np.diag(expected), np.diag(expected)) + expected**2) / np.sqrt(n)
    assert (np.abs(found - expected) < 5.0 * spread).all()
    assert not (np.abs(found - 1.2 * expected) < 5.0 * spread).all()  # the control
    root = np.linalg.cholesky(expected)
    normal = np.linalg.solve(root, (drawn - known.theta).T)  # independent standard normals
    np.testing.assert_allclose((normal**4).mean(axis=1), 3.0, atol=0.25)


def test_the_root_is_a_root() -> None:
    """What is frozen has a lower triangular L with L L' = V^-1."""
    agent = taught(1.0)
    root = agent.numbers.parts(("memory",))["recommender.state.root"]
    np.testing.assert_array_equal(root, np.tril(root))
    known = Knowledge(WORLD.problem, X, REWARDS)
    np.testing.assert_allclose(root @ root.T, known.cov, rtol=1e-9, atol=1e-9 * np.abs(known.cov).max())


def test_inflation_widens_the_same_draws() -> None:
    """The draw at a step is theta plus inflation times the same deviation."""
    agent = taught(1.0)
    narrow, wide = thetas(agent, 5), thetas(agent, 5, scale=3.0)
    known = Knowledge(WORLD.problem, X, REWARDS)
    np.testing.assert_allclose(wide - known.theta, 3.0 * (narrow - known.theta), rtol=1e-6, atol=1e-9)


def test_draws_can_be_repeated() -> None:
    """They are a function of seed, stream and step: the same again, others for another seed, none alike."""
    first, again, other = thetas(taught(1.0), 6), thetas(taught(1.0), 6), thetas(taught(1.0, seed=6), 6)
    np.testing.assert_array_equal(first, again)
    assert len(np.unique(np.concatenate([first, other])[:, 0])) == 12


@pytest.mark.parametrize("known", [True, False])
def test_without_inflation_it_is_greedy(known: bool) -> None:
    """With inflation 0 the action is that of the estimate: full features at a reveal, else blind ones as frozen."""
    world = op.synthetic_worlds(1, seed=3, known=known)[0].replace(open_rate=0.3)
    problem = world.problem
    data = run(world, thompson(op.Never(), None, inflation=0.0))
    for replicate in range(4):
        one = data.isel(policy=0, world=0, replicate=replicate)
        context, action, reward = (one[name].values for name in ("context", "action", "reward"))
        frozen = 0  # what was known at the start of this step is what acting blindly goes by
        for t in range(40):
            if bool(one["revealed"][t]):
                frozen, x = t, problem.features[context[t]]
            else:
                x = problem.means(problem.stratum_of, 1, world.context_probs)[0]
                if not known:
                    x = problem.features[context[:frozen]].mean(axis=0) if frozen else problem.features.mean(axis=0)
            rows = [problem.features[context[s], action[s]] for s in range(frozen)]
            worth = x @ Knowledge(problem, rows, list(reward[:frozen])).theta
            assert worth[action[t]] >= worth.max() - 1e-9
            assert action[t] == np.flatnonzero(worth >= worth.max() - 1e-9)[0]


def test_runs_can_be_repeated() -> None:
    """The same seed gives the same actions, whatever runs beside; another seed gives others."""
    worlds = op.synthetic_worlds(2, seed=3)
    first = run(worlds, thompson())
    beside = run(worlds, [op.pd2_ucb(8), thompson()])
    np.testing.assert_array_equal(first["action"].values[0], beside["action"].values[1])
    assert (first["action"] != run(worlds, thompson(), seed=8)["action"]).any()
    assert (first["action"] != run(worlds, thompson(inflation=5.0))["action"]).any()


def test_it_explores_between_reveals() -> None:
    """Unlike LinUCB it varies its action while nothing is revealed, since it draws at every step."""
    data = run(op.synthetic_worlds(1, seed=3), [thompson(op.Never(), None), op.Policy(revealer=op.Never(), name="UCB")])
    varied = data["action"].max("step") > data["action"].min("step")
    assert varied.isel(policy=0).all()
    assert not varied.isel(policy=1).any()


@pytest.mark.parametrize("kind", ["known", "unknown", "reported", "continuous"])
def test_it_learns(kind: str) -> None:
    """With all revealed it finds the best actions, in every kind of problem: far better than at random."""
    world: Any = op.synthetic_worlds(1, seed=3, known=kind != "unknown")[0]
    if kind == "reported":
        world = world.replace(problem=world.problem.replace(visibility={"s": "reported"}))
    if kind == "continuous":
        problem = op.Problem.from_formula("x + action * x", {"x": op.Number(-1, 1)}, 3, noise_sd=0.1, theta_bound=3.0)
        assert isinstance(problem, op.ContinuousProblem)
        theta = np.array([1.0, -1.0, 0.5, -2.0, 2.0])
        world = op.ContinuousWorld(problem, theta=theta[: problem.d], distributions={"x": Uniform(-1, 1)})
    chance = op.Policy(recommender=op.EqualCoins(), revealer=op.Always(), name="chance")
    data = run(world, [thompson(op.Always(), None), chance], horizon=200)
    late = (data["best"] - data["outcome"]).isel(step=slice(100, None)).mean(("world", "replicate", "step"))
    assert late.values[0] < 0.05 * late.values[1]


def test_live_as_simulated() -> None:
    """An agent makes the simulated decisions, bit for bit, and goes on exactly after it was saved."""
    world = op.synthetic_worlds(1, seed=3)[0]
    policy = thompson()
    one = run(world, policy).isel(policy=0, world=0, replicate=2)
    agent = op.Agent(world.informed_problem(), policy, horizon=40, seed=7, stream=2)
    for t in range(40):
        if t == 17:
            agent = op.Agent.from_dict(json.loads(json.dumps(agent.to_dict())))
        decision = agent.decide(int(one["context"][t]))
        assert (int(decision.action), decision.nudged) == (int(one["action"][t]), bool(one["nudged"][t]))
        assert decision.probability == float(one["probability"][t])
        agent.learn(float(one["reward"][t]))


@pytest.mark.parametrize("inflation", [-0.1, float("inf"), "wide", 1e7])
def test_wrong_inflation(inflation: Any) -> None:
    """Inflation is a finite number, not negative."""
    with pytest.raises(op.InputError, match=r"^inflation is .*; expected a finite number >= 0"):
        op.Thompson(inflation=inflation)
