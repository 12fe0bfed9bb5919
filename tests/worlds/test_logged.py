"""Worlds from logged data: what arrives and what comes of it is what is in the log; gaps in the log are named."""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

import opportune as op
from opportune.simulation.visit import visit

SEED = 5


def make_problem(**settings: Any) -> op.Problem:
    """One public and one sensed variable, two actions."""
    return op.Problem.from_formula(
        "1 + action * stress", {"place": ["home", "work"], "stress": [1, 2, 3]}, ["rest", "walk"],
        visibility={"place": "public"}, theta_bound=5.0, **settings,
    )  # fmt: skip


def make_log(rows: int = 600) -> pd.DataFrame:
    """A log with a reward that no formula of ours has, whole numbers, skewed."""
    rng = np.random.default_rng(SEED)
    place, stress = rng.choice(["home", "work"], rows, p=[0.7, 0.3]), rng.integers(1, 4, rows)
    walk = rng.random(rows) < 0.5
    reward = rng.poisson(np.where(walk, (stress - 1) ** 2, 1.5) + (place == "home"))
    actions = np.where(walk, "walk", "rest")
    return pd.DataFrame({"place": place, "stress": stress, "action": actions, "reward": reward})


def pairs_of(log: pd.DataFrame) -> dict[tuple[int, int], list[float]]:
    """The rewards of each context and action, by number: a second reading."""
    problem = make_problem()
    found: dict[tuple[int, int], list[float]] = {}
    for row in log.to_dict("records"):
        pair = problem.index({"place": row["place"], "stress": row["stress"]}), ["rest", "walk"].index(row["action"])
        found.setdefault(pair, []).append(float(row["reward"]))
    return found


def test_contexts_and_rewards_are_those_of_the_log() -> None:
    """A reward is one of those logged in its context with its action, contexts come as often; outcomes are means."""
    log = make_log()
    world, pairs = op.ResampledWorld(make_problem(), log), pairs_of(log)
    actions = np.arange(6000) % 2
    walk = visit(world, actions, seed=SEED, stream=0)
    shares = np.bincount(walk.moments[:, 3], minlength=6) / 6000
    logged = np.array([len(pairs[k, 0]) + len(pairs[k, 1]) for k in range(6)]) / 600
    assert np.abs(shares - logged).max() < 4 * np.sqrt(0.25 / 6000)
    for (k, a), rewards in pairs.items():
        met = walk.results[(walk.moments[:, 3] == k) & (actions == a)]
        assert set(met[:, 0]) <= set(rewards)
        np.testing.assert_allclose(met[:, 1], np.mean(rewards))
        np.testing.assert_allclose(met[:, 2], max(np.mean(pairs[k, 0]), np.mean(pairs[k, 1])))
        spread = np.std(rewards) / np.sqrt(len(met))
        assert abs(met[:, 0].mean() - np.mean(rewards)) <= 5 * spread + 1e-12
    for a in range(2):
        expected = [
            sum(logged[k] * np.mean(pairs[k, a]) for k in ks) / logged[ks].sum() for ks in ([0, 1, 2], [3, 4, 5])
        ]
        np.testing.assert_allclose(world.blind_values[:, a], expected)


def test_policies_run_in_it(tmp_path: Path) -> None:
    """A CSV file makes the same world as its rows; regret against the clairvoyant is defined, PACE beats no nudge."""
    log = make_log()
    log.rename(columns={"reward": "minutes"}).to_csv(tmp_path / "log.csv", index=False)
    problem = make_problem(noise_sd=2.0)
    world = op.ResampledWorld.from_csv(problem, tmp_path / "log.csv", reward="minutes", response_rate=0.9)
    same = op.ResampledWorld(problem, log, response_rate=0.9)
    for name, values in world.numbers().items():
        np.testing.assert_array_equal(values, same.numbers()[name])
    never = op.Policy(recommender=op.LinUCB(radius="pointwise"), revealer=op.Never(), name="never")
    data = op.simulate(world, [never, op.pace_ucb(60)], horizon=300, replicates=60, seed=SEED, progress=False)
    regret = op.realised_regret(data).isel(step=-1, world=0)
    lost = regret.sel(policy="never") - regret.sel(policy=data["policy"].values[1])
    assert float(lost.mean()) > 4 * float(lost.std()) / np.sqrt(60)
    assert np.isfinite(op.regret(data.isel(policy=[1]))).all()


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda log: log[~((log.stress == 3) & (log.action == "walk"))],
         r"fewer than 5 rows for 2 of 12 pairs .*place=home, stress=3 with 'walk' has 0"),
        (lambda log: log.drop(columns="stress"), "column of rows is 'stress'"),
        (lambda log: log.replace({"stress": {3: 4}}), r"row \d+: stress is 4; expected one of \[1, 2, 3\]"),
        (lambda log: log.replace({"action": {"walk": "run"}}), r"action of row \d+ is 'run'; expected one of"),
        (lambda log: log.assign(place=log.place.where(log.index != 3)), "row 4: place is nan"),
        (lambda log: log.assign(reward=log.reward.where(log.index != 6)), "reward of row 7 is nan"),
        (lambda log: {**log.to_dict("list"), "stress": [[1]] * len(log)}, r"row 1: stress is \[1\]; expected one of"),
        (lambda log: log.iloc[:0], "rows; expected the same number in each, and at least one"),
        (lambda log: "log.csv", "rows is 'log.csv'; expected"),
    ],
)  # fmt: skip
def test_what_the_log_does_not_say_is_refused(spoil: Any, said: str) -> None:
    """Missing support, unknown levels and actions, missing rewards: each is named with its row."""
    with pytest.raises(op.InputError, match=said):
        op.ResampledWorld(make_problem(), spoil(make_log()))


def test_support_counts_where_an_agent_may_act() -> None:
    """An action that is forbidden in a context needs no rows there; fewer rows are enough where the user says so."""
    log = make_log()
    lacking = log[~((log.stress == 3) & (log.action == "walk"))]
    never = make_problem(never_if={"walk": "stress == 3"}, when_unknown={"walk": "forbid"})
    assert op.ResampledWorld(never, lacking).counts[2].tolist()[1] == 0
    one = pd.concat([lacking, log[(log.stress == 3) & (log.action == "walk")].drop_duplicates("place")])
    with pytest.raises(op.InputError, match="lower `least`"):
        op.ResampledWorld(make_problem(), one)
    assert op.ResampledWorld(make_problem(), one, least=1).counts.min() == 1


def test_contexts_follow_the_schedule() -> None:
    """Mornings have the contexts of logged mornings; a log without evenings is refused."""
    problem = op.Problem.from_formula("action * tired", {"time": op.TimeOfDay(["am", "pm"]), "tired": ["no", "yes"]}, 2)
    assert isinstance(problem, op.Problem)
    rows: dict[str, Any] = {
        "time": ["am"] * 30 + ["pm"] * 30, "tired": ["no", "yes", "no"] * 10 + ["yes"] * 30,
        "action": [0, 0, 0, 1, 1, 1] * 10, "reward": np.arange(60.0),
    }  # fmt: skip
    met = visit(op.ResampledWorld(problem, rows), np.zeros(60, dtype=np.int64), seed=1, stream=0).moments[:, 3]
    assert set(met[::2]) == {0, 1}
    assert set(met[1::2]) == {3}
    with pytest.raises(op.InputError, match="no row with time=pm"):
        op.ResampledWorld(problem, {name: values[:30] for name, values in rows.items()})


def test_settings_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    """Rewards are those of the log, so there is no family; files are named with the line that is wrong."""
    with pytest.raises(op.InputError, match="family is given"):
        op.ResampledWorld(make_problem(), make_log(), family="binary")
    with pytest.raises(op.InputError, match="problem is"):
        op.ResampledWorld.from_csv("a problem", "log.csv")  # type: ignore[arg-type]
    path = tmp_path / "log.csv"
    path.write_text("place,stress,action,reward\nhome,1,rest,0.5\nhome,2,walk,\n")
    with pytest.raises(op.InputError, match=r"log\.csv has no reward in line 3"):
        op.ResampledWorld.from_csv(make_problem(), path)
    with pytest.raises(op.InputError, match="cannot be read"):
        op.ResampledWorld.from_csv(make_problem(), tmp_path / "none.csv")
