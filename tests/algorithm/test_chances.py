"""Actions by chance: floors, equal coins and fixed points, with probabilities that are exact and on record."""

import json
from typing import Any

import numpy as np
import pytest
import xarray as xr
from numba import njit
from numpy.typing import NDArray

import opportune as op
from by_hand import Knowledge
from opportune.algorithm.chances import lift
from opportune.algorithm.rng import TREATMENT, draw
from opportune.recommenders.thompson import normal_points
from opportune.simulation.pack import streams_of

Floats = NDArray[np.float64]
SEED = 2**63 + 11
HORIZON = 60


@njit
def lifted(n, chance, masks, floor):  # type: ignore[no-untyped-def]
    """What becomes of probabilities."""
    lift(n, chance, masks, 0, floor)
    return chance


def floored(given: Any, floor: float, forbidden: Any = None) -> Floats:
    """Probabilities after the floor."""
    problem = op.Problem(np.ones((1, len(given), 1)))
    n = problem.layout().sizes._replace(masked=int(forbidden is not None))
    masks = np.zeros(len(given)) if forbidden is None else np.asarray(forbidden, dtype=np.float64)
    return np.asarray(lifted(n, np.asarray(given, dtype=np.float64), masks, floor))


def test_the_floor() -> None:
    """The examples of the definition; every allowed action has at least the floor, and the sum stays 1."""
    np.testing.assert_allclose(floored([0.9, 0.08, 0.02], 0.05), [0.87102273, 0.07897727, 0.05], atol=5e-9)
    np.testing.assert_allclose(floored([1, 0, 0, 0, 0], 0.05), [0.8, 0.05, 0.05, 0.05, 0.05], atol=1e-15)
    np.testing.assert_allclose(floored([0, 1, 0], 0.1, forbidden=[1, 0, 0]), [0.0, 0.9, 0.1], atol=1e-15)
    np.testing.assert_allclose(floored([0.3, 0.7], 0.5), [0.5, 0.5], atol=1e-15)
    rng = np.random.default_rng(1)
    for _ in range(200):
        actions = int(rng.integers(2, 7))
        given, floor = rng.dirichlet(np.full(actions, 0.3)), float(rng.uniform(0, 1 / actions))
        found = floored(given, floor)
        assert found.sum() == pytest.approx(1.0, abs=1e-12)
        assert found.min() >= floor - 1e-12
        assert (np.argsort(found, kind="stable") == np.argsort(np.maximum(given, floor), kind="stable")).all()


def policies(budget: Any = 6) -> list[op.Policy]:
    """Everything whose actions are drawn."""
    pace = op.Pace()
    return [
        op.Policy(recommender=op.LinUCB(floor=0.1), budget=budget, name="PD2"),
        op.Policy(recommender=op.LinUCB(floor=0.05, rotate=True), revealer=pace, budget=budget, name="PACE"),
        op.Policy(recommender=op.Thompson(points=64, floor=0.02), revealer=pace, budget=budget, name="floor"),
        op.Policy(recommender=op.Thompson(points=16, inflation=2.0), budget=budget, name="points"),
        op.Policy(recommender=op.EqualCoins(), revealer=op.Periodic(every=4), name="coins"),
    ]


def worlds(**settings: Any) -> list[op.LinearWorld]:
    """Two lively worlds; with masks, some of their actions are forbidden."""
    happenings = {"open_rate": 0.1, "response_rate": 0.7, "available_rate": 0.9, "reward_delay": 2}
    found = [w.replace(**happenings) for w in op.synthetic_worlds(2, seed=3, contexts=4, actions=4)]
    return [w.replace(problem=w.problem.replace(**settings)) for w in found]


ALLOWED = [[1, 1, 1, 0], [0, 1, 1, 1], [1, 1, 1, 1], [1, 1, 0, 1]]


def run(settings: Any, chosen: Any, **changes: Any) -> xr.Dataset:
    given: dict[str, Any] = {"horizon": HORIZON, "replicates": 3, "seed": SEED, "progress": False} | changes
    return op.simulate(worlds(**settings), chosen, **given)


@pytest.mark.parametrize("masked", [False, True])
def test_every_step_says_how_probable_its_action_was(masked: bool) -> None:
    """Probabilities sum to 1, keep the floor, are 0 where forbidden; the action is their inverse cumulative at u."""
    settings = {"allowed": ALLOWED, "when_unknown": {"0": "allow"}} if masked else {}
    chosen = policies()
    data = run(settings, chosen)
    p, u = data["action_probability"].values, data["action_draw"].values
    np.testing.assert_allclose(p.sum(axis=-1), 1.0, atol=1e-12)
    streams = streams_of(0, 3, 2)
    for w in range(2):
        for r in range(3):
            expected = [draw(np.uint64(SEED), streams[r, w], t + 1, TREATMENT) for t in range(HORIZON)]
            assert (u[:, w, r] == expected).all()  # one draw per step, whatever the policy
    assert (data["action"].values == (p.cumsum(axis=-1) <= u[..., None]).sum(axis=-1)).all()
    problem = worlds(**settings)[0].problem
    masks = np.where(
        data["revealed"].values[..., None], problem.masks.whole[data["context"].values], problem.masks.public[0]
    )
    assert (p[masks] == 0.0).all()
    for i, policy in enumerate(chosen):
        allowed = p[i][~masks[i]]
        assert allowed.min() >= policy.floor - 1e-12
        if isinstance(policy.recommender, op.LinUCB):
            most = np.take_along_axis(p[i], data["intended_action"].values[i][..., None].astype(int), axis=-1)
            assert (most[..., 0] == p[i].max(axis=-1)).all()
            assert np.isclose(allowed, policy.floor).mean() > 0.4
    coins = 1.0 / (4 - masks[-1].sum(axis=-1))
    assert (p[-1].max(axis=-1) == coins).all()
    blind = ~data["revealed"].values
    assert (data["intended_action"].values == data["stale_action"].values)[blind].all()
    assert (data["action"].values != data["stale_action"].values)[:2].any()


def test_frequencies_are_the_probabilities() -> None:
    """Over many runs, indicators less their probabilities are noise; against other probabilities they are not."""
    data = run({}, policies()[:4], replicates=60)
    p, action = data["action_probability"].values, data["action"].values
    for i in range(4):
        for a in range(4):
            taken, chance = (action[i] == a).astype(float), p[i, ..., a]
            spread = np.sqrt((chance * (1 - chance)).sum())
            assert abs((taken - chance).sum()) < 4.0 * spread
    most = p[0].max(axis=-1)
    assert abs((p[0].argmax(axis=-1) == action[0]).sum() - most.size) > 4.0 * np.sqrt((most * (1 - most)).sum())


def test_without_a_floor_nothing_is_drawn() -> None:
    """Policies whose actions are certain decide as if nobody drew; beside others, their probabilities are 0 and 1."""
    plain = [op.pd2_ucb(6, name="plain"), op.Policy(recommender=op.Thompson(), budget=op.Budget(6), name="sampled")]
    alone, beside = run({}, plain), run({}, [*plain, *policies()[:1]])
    assert "action_probability" not in alone
    for name in alone.data_vars:
        if "policy" in alone[name].dims:
            np.testing.assert_array_equal(alone[name].values, beside[name].isel(policy=slice(2)).values)
    p = beside["action_probability"].values
    assert (p[0] == np.eye(4)[beside["action"].values[0]]).all()
    assert np.isnan(p[1]).all()
    assert np.isnan(beside["action_draw"].values[:2]).all()


def test_debt_and_rotation_go_by_what_was_intended() -> None:
    """Without reveals, what is intended does not depend on what the draws made of it."""
    chosen = [
        op.Policy(recommender=op.LinUCB(rotate=True, floor=floor), revealer=op.Never(), name=str(floor))
        for floor in (None, 0.01, 0.25)
    ]
    data = op.simulate(op.synthetic_worlds(3, seed=3, actions=4), chosen, horizon=60, replicates=2, seed=1)
    intended, action = data["stale_action"].values, data["action"].values
    assert (intended == intended[0]).all()
    assert (intended.max(axis=-1) > intended.min(axis=-1)).all()  # it rotates
    assert 0.5 < (action[2] != intended[2]).mean() < 0.95
    pace = op.Policy(recommender=op.LinUCB(floor=0.2), revealer=op.Pace(), budget=op.Budget(6))
    debts = op.simulate(op.synthetic_worlds(1, seed=3), pace, horizon=60, replicates=2, seed=1)
    same = debts["fresh_action"] == debts["stale_action"]
    assert (debts["disagreement"].where(same, 0.0) == 0.0).all()


def test_points_are_shares_of_wins() -> None:
    """Thompson's probabilities are those of the 64 points, as NumPy finds them from what was learned."""
    world = op.synthetic_worlds(1, seed=3, contexts=4, actions=3)[0]
    policy = op.Policy(recommender=op.Thompson(points=64, inflation=1.5), revealer=op.Never(), name="points")
    agent = op.Agent(world.problem, policy, horizon=50, seed=5, stream=9)
    rng = np.random.default_rng(1)
    x: list[Floats] = []
    rewards: list[float] = []
    for _ in range(6):
        context = int(rng.integers(4))
        done = agent.decide(context, opened=True)
        known = Knowledge(world.problem, x, rewards)
        rows = world.problem.features[context]
        root = np.linalg.cholesky(rows @ known.cov @ rows.T + 1e-13 * np.eye(3))
        values = rows @ known.theta + 1.5 * world.problem.noise_sd * normal_points(64, 3) @ root.T
        shares = np.bincount(values.argmax(axis=1), minlength=3) / 64
        np.testing.assert_allclose(
            np.array(done.probabilities), shares, atol=1.01 / 64
        )  # the root is of a singular matrix
        x.append(rows[int(done.action)])
        rewards.append(float(rng.normal()))
        agent.learn(rewards[-1])
    points = normal_points(64, 3)
    np.testing.assert_array_equal(points[:32], -points[32:])
    assert np.abs(np.cov(points.T) - np.eye(3)).max() < 0.5


@pytest.mark.parametrize("masked", [False, True])
def test_live_as_simulated(masked: bool) -> None:
    """Agents draw the simulated actions with the simulated probabilities, saved and restored in between."""
    settings = {"allowed": ALLOWED} if masked else {}
    world = worlds(**settings)[0].replace(reward_delay=0)
    chosen = policies()
    data = op.simulate(world, chosen, horizon=HORIZON, replicates=1, seed=SEED, progress=False)
    for i, policy in enumerate(chosen):
        one = {name: data[name].values[i, 0, 0] for name in data.data_vars if "step" in data[name].dims}
        agent = op.Agent(world.problem, policy, horizon=HORIZON, seed=SEED, stream=0)
        for t in range(25):
            opened, available = bool(one["opened"][t]), bool(one["available"][t])
            made = agent.propose(int(one["context"][t]), opened=opened, available=available)
            if t % 5 == 2:
                agent = op.Agent.from_dict(json.loads(json.dumps(agent.to_dict())))
            done = agent.settle(bool(one["revealed"][t]) if made.nudged and not opened else None)
            assert done.probabilities == tuple(one["action_probability"][t].tolist())
            assert done.draw == float(one["action_draw"][t])
            for name in ("action", "stale_action", "intended_action"):
                assert int(getattr(done, name)) == int(one[name][t]), name
            assert done.revealed or made.action == done.action
            if available:
                agent.learn(float(one["reward"][t]))
        for entry in agent.bundle()["actions"]:
            assert not agent.problem.masks.public[0][int(entry["action"])]  # type: ignore[union-attr]


def test_a_bundle_carries_the_drawn_actions() -> None:
    """What a phone shows from its bundle is what would have been drawn, and is on record with its probabilities."""
    world = op.synthetic_worlds(1, seed=3, actions=4)[0]
    policy = op.Policy(recommender=op.LinUCB(rotate=True, floor=0.2), revealer=op.Never(), name="never")
    agent = op.Agent(world.problem, policy, horizon=30, seed=1, stream=2)
    carried = [entry["action"] for entry in agent.bundle()["actions"]]
    drawn = []
    for step in range(30):
        made = agent.propose(step % 10)
        done = agent.settle(shown=carried[step])
        drawn.append(made.action)
        assert done.probabilities is not None
        assert done.offline
    assert drawn == carried
    agent = op.Agent(world.problem, policy, horizon=30, seed=1, stream=2)
    other = next(name for name in world.problem.action_names if name != agent.propose(0).action)
    assert agent.settle(shown=other).probabilities is None  # from an earlier bundle: nobody can tell


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (lambda: op.LinUCB(floor=0.0), "floor is 0.0; expected a finite number > 0 and <= 0.5"),
        (lambda: op.LinUCB(floor=0.6), "floor is 0.6; expected a finite number > 0 and <= 0.5"),
        (lambda: op.Thompson(points=7), "points is 7; expected an even number, as they come in pairs"),
        (lambda: op.Thompson(points=0), "points is 0; expected a whole number from 2 to 4096"),
        (lambda: op.Thompson(floor=0.1), "Thompson has a floor but no known probabilities; expected points=64"),
    ],
)
def test_wrong_settings(make: Any, message: str) -> None:
    """Floors lie above 0, points are even, and a floor needs probabilities that are known."""
    with pytest.raises(op.InputError) as caught:
        make()
    assert str(caught.value).startswith(message)


def test_a_floor_beyond_what_the_actions_allow() -> None:
    """With four actions none can have more than a quarter for certain."""
    with pytest.raises(op.InputError, match=r"^floor is 0\.3; expected at most 0\.25, since there are 4 actions$"):
        run({}, op.Policy(recommender=op.LinUCB(floor=0.3), budget=op.Budget(6)))
