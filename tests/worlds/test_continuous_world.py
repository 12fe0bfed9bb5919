"""Linear worlds with continuous contexts: what is drawn, what it is worth, and what agents average."""

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from numpy.typing import NDArray
from scipy import stats

import opportune as op
from by_hand import Knowledge, gap
from opportune.algorithm.rng import VARIABLE, draw
from opportune.worlds.distributions import Choice, LogNormal, Normal, Resampled, Truncated, Uniform, quantile

Floats = NDArray[np.float64]
VARIABLES: dict[str, Any] = {
    "tod": op.TimeOfDay(["morning", "evening"]),
    "sleep": op.Number(4, 10),
    "steps": op.Number(0, 20_000),
    "load": op.Number(0, 1),
    "pain": op.Number(0, 10),
    "dose": op.Number(0, 100),
    "mood": ["low", "fair", "high"],
}
DISTRIBUTIONS: dict[str, Any] = {
    "sleep": Normal(7, 1.5),
    "steps": LogNormal(4000, 0.9),
    "load": Uniform(-0.5, 0.75),
    "pain": Truncated(Normal(2, 3), 1, 6),
    "dose": Choice({10: 0.5, 50: 0.3, 100: 0.2}),
    "mood": Choice({"low": 0.2, "high": 0.5, "fair": 0.3}),
}
FORMULA = "1 + tod + sleep + I(steps / 10000) + load + pain + dose + mood + action + action:sleep + action:load"
NOTHING = op.Policy(recommender=op.FixedAction(action=0), revealer=op.Never(), name="nothing")
HORIZON, REPLICATES, SEED = 50, 60, 3


def problem(**settings: Any) -> op.ContinuousProblem:
    made = op.Problem.from_formula(FORMULA, VARIABLES, ["no", "yes"], noise_sd=0.5, **settings)
    assert isinstance(made, op.ContinuousProblem)
    return made


PROBLEM = problem()
NAMES = list(PROBLEM.program.names)


def world_with(theta: Any, **settings: Any) -> op.ContinuousWorld:
    return op.ContinuousWorld(PROBLEM, theta=theta, **{"distributions": DISTRIBUTIONS, **settings})


def run(worlds: Any, policies: Any, **changes: Any) -> xr.Dataset:
    settings: dict[str, Any] = {"horizon": HORIZON, "replicates": REPLICATES, "seed": SEED, "progress": False} | changes
    return op.simulate(worlds, policies, **settings)


def feature_drawn(number: int, **settings: Any) -> Floats:
    """A feature at every step of every run: the outcome where theta has a 1 there and 0 elsewhere; [R, T]."""
    theta = np.eye(PROBLEM.d)[number]
    return np.asarray(run(world_with(theta, **settings), NOTHING)["outcome"].isel(policy=0, world=0).values)


def truncated(frozen: Any, low: float, high: float) -> Any:
    """The distribution function of a distribution given that it lies between two numbers."""
    below, above = frozen.cdf(low), frozen.cdf(high)
    return lambda x: (frozen.cdf(x) - below) / (above - below)


# What is drawn


@pytest.mark.parametrize(
    ("name", "scale", "bounds", "cdf"),
    [
        ("sleep", 1, (4, 10), truncated(stats.norm(7, 1.5), 4, 10)),
        ("I(steps / 10000)", 1e4, (0, 20_000), truncated(stats.lognorm(0.9, scale=4000), 0, 20_000)),
        ("load", 1, (0, 0.75), stats.uniform(0, 0.75).cdf),
        ("pain", 1, (1, 6), truncated(stats.norm(2, 3), 1, 6)),
    ],
)
def test_numbers_follow_their_distributions(name: str, scale: float, bounds: tuple[float, float], cdf: Any) -> None:
    """Each variable has its distribution given its bounds, and never leaves them."""
    drawn = feature_drawn(NAMES.index(name)).ravel() * scale
    assert bounds[0] <= drawn.min() < drawn.max() <= bounds[1]
    assert stats.kstest(drawn, cdf).pvalue > 0.001
    assert stats.kstest(drawn, lambda x: cdf(x) ** 1.3).pvalue < 1e-6  # the control


def test_choices_follow_their_probabilities() -> None:
    """Numbers and levels are chosen with the probabilities given, levels by their names."""
    dose = feature_drawn(NAMES.index("dose")).ravel()
    shares = [float((dose == value).mean()) for value in (10, 50, 100)]
    np.testing.assert_allclose(shares, [0.5, 0.3, 0.2], atol=0.03)
    moods = [i for i, name in enumerate(NAMES) if name.startswith("mood")]
    found = [feature_drawn(i).mean() for i in moods]
    expected = [0.3 if "fair" in NAMES[i] else 0.5 if "high" in NAMES[i] else 0.2 for i in moods]
    np.testing.assert_allclose(found, expected, atol=0.03)


def test_the_schedule_is_kept() -> None:
    """Mornings and evenings alternate."""
    evening = feature_drawn(next(i for i, name in enumerate(NAMES) if name.startswith("tod")))
    np.testing.assert_array_equal(evening, np.broadcast_to(np.arange(HORIZON) % 2, evening.shape))


def test_variables_are_drawn_independently() -> None:
    """No two variables, and no two neighbouring steps, go together."""
    sleep, load, pain = (feature_drawn(NAMES.index(name)) for name in ("sleep", "load", "pain"))
    for a, b in ((sleep, load), (sleep, pain), (load, pain), (sleep[:, :-1], sleep[:, 1:])):
        assert abs(np.corrcoef(a.ravel(), b.ravel())[0, 1]) < 0.06


def test_a_day_of_study_counts_and_ends() -> None:
    """The day of study rises by one a day; there are no decisions after the last."""
    made = op.Problem.from_formula("1 + day + action + action:x", {"day": op.DayOfStudy(5), "x": op.Number(0, 1)},
                                   ["no", "yes"], decisions_per_day=2)  # fmt: skip
    assert isinstance(made, op.ContinuousProblem)
    day = np.eye(made.d)[list(made.program.names).index("day")]
    world = op.ContinuousWorld(made, theta=day, distributions={"x": Uniform(0, 1)})
    outcome = run(world, NOTHING, horizon=10, replicates=2)["outcome"].isel(policy=0, world=0)
    np.testing.assert_array_equal(outcome, np.broadcast_to(1 + np.arange(10) // 2, (2, 10)))
    with pytest.raises(op.InputError, match="horizon is 11; expected at most 10, the last decision point of the sched"):
        run(world, NOTHING, horizon=11)


ROWS: dict[str, list[Any]] = {"sleep": [5.0, 6.0, 7.5, 9.0, 12.0], "mood": ["low", "high", "high", "fair", "low"]}


def test_rows_of_a_table_are_drawn_jointly(tmp_path: Path) -> None:
    """Variables from a table keep together; rows outside the bounds are never drawn, others equally often."""
    lines = [f"{sleep},{mood}" for sleep, mood in zip(*ROWS.values(), strict=True)]
    (tmp_path / "people.csv").write_text("sleep,mood\n" + "\n".join(lines) + "\n", encoding="utf-8")
    rest = {name: d for name, d in DISTRIBUTIONS.items() if name not in ROWS}
    for table in (
        Resampled(ROWS),
        Resampled.from_csv(tmp_path / "people.csv", ["sleep", "mood"]),
    ):
        settings = {"distributions": rest, "table": table}
        sleep = feature_drawn(NAMES.index("sleep"), **settings).ravel()
        high = feature_drawn(next(i for i, n in enumerate(NAMES) if n.startswith("mood") and "high" in n), **settings)
        assert set(zip(sleep.tolist(), high.ravel().tolist(), strict=True)) == {(5, 0), (6, 1), (7.5, 1), (9, 0)}
        for value in (5.0, 6.0, 7.5, 9.0):
            assert float((sleep == value).mean()) == pytest.approx(0.25, abs=0.03)
        load = feature_drawn(NAMES.index("load"), **settings).ravel()
        assert stats.kstest(load, stats.uniform(0, 0.75).cdf).pvalue > 0.001
        assert abs(np.corrcoef(load, sleep)[0, 1]) < 0.06


# What it is worth


def values_of(world: op.ContinuousWorld, stream: int, step: int) -> Floats:
    """A moment's values, drawn once more, one number per variable and the action's place."""
    packed, key = world.packed, (np.uint64(SEED), np.uint64(stream))
    values = []
    for v, name in enumerate(world.problem.variables):
        if packed.kinds[v] < 0:
            values.append(float((step - 1) % 2))
            assert name == "tod"
        else:
            u = draw(*key, step, VARIABLE + int(packed.uniforms[v]))
            values.append(quantile(int(packed.kinds[v]), packed.parameters, int(packed.places[v]), u))
    return np.array([*values, 0.0])


THETA = np.random.default_rng(5).normal(size=PROBLEM.d) / [*(100 if n == "dose" else 1 for n in NAMES)]


def test_outcomes_and_realised_regret() -> None:
    """The outcome is <theta, phi(s, a)> of the action taken, the best that of the best action, in every context."""
    world = world_with(THETA)
    data = run(world, [op.pd2_ucb(10), NOTHING], replicates=3)
    for replicate in range(3):
        x = np.array([PROBLEM.features(values_of(world, replicate, step)) for step in range(1, HORIZON + 1)])
        worth = x @ THETA
        for policy in range(2):
            one = data.isel(policy=policy, world=0, replicate=replicate)
            taken = worth[np.arange(HORIZON), one["action"].values]
            np.testing.assert_allclose(one["outcome"], taken, rtol=1e-10, atol=1e-12)
            np.testing.assert_allclose(one["best"], worth.max(axis=1), rtol=1e-10, atol=1e-12)
            lost = np.cumsum(worth.max(axis=1) - taken)
            found = op.realised_regret(data).isel(policy=policy, world=0, replicate=replicate)
            np.testing.assert_allclose(found, lost, atol=1e-9)
    assert (op.realised_regret(data).isel(step=-1) > 0).any()
    bare = run(world, [op.pd2_ucb(10), NOTHING], replicates=3, trace=False)
    np.testing.assert_allclose(op.realised_regret(bare), op.realised_regret(data).isel(step=-1), atol=1e-9)
    with pytest.raises(op.InputError, match="regret needs the truth of a linear world"):
        op.regret(data)


def test_noise() -> None:
    """Rewards are outcomes with normal noise of the world's sd, the problem's unless given."""
    for settings, sd in (({}, 0.5), ({"noise_sd": 2.0}, 2.0)):
        data = run(world_with(THETA, **settings), NOTHING)
        noise = (data["reward"] - data["outcome"]).values.ravel() / sd
        assert stats.kstest(noise, stats.norm.cdf).pvalue > 0.001


# What agents make of it


def test_blind_features_are_running_means_in_each_stratum() -> None:
    """Without a reveal, hidden features are means of what was seen at this time of day; the rest is the moment's."""
    world = world_with(THETA)
    made = problem(value_range=(0.0, 10.0))
    world = world.replace(problem=made)
    policy = op.pd1_ucb(10, scale="range")
    hidden = made.hidden_from_recommender
    one = run(world, policy, replicates=1).isel(policy=0, world=0, replicate=0)
    action, reward = one["action"].values, one["reward"].values
    x = np.array([made.features(values_of(world, 0, step)) for step in range(1, HORIZON + 1)]) / made.units
    for t in range(HORIZON):
        earlier = list(range(t % 2, t, 2))
        blind = x[t].copy()
        blind[:, hidden] = (x[earlier].mean(axis=0) if earlier else made.start[t % 2] / made.units)[:, hidden]
        known = Knowledge(made, [x[s][action[s]] for s in range(t)], list(reward[:t]))
        assert float(one["gap"][t]) == pytest.approx(gap(known, x[t], blind, 10.0), rel=1e-7, abs=1e-9)


def test_known_means_are_not_averaged() -> None:
    """With means known beforehand nothing is counted, and blind features are those."""
    means = np.random.default_rng(2).normal(size=(2, 2, PROBLEM.d))
    made = problem(value_range=(0.0, 10.0), known_means=means)
    world = world_with(THETA).replace(problem=made)
    one = run(world, op.pd1_ucb(10, scale="range"), replicates=1).isel(policy=0, world=0, replicate=0)
    hidden = made.hidden_from_recommender
    action, reward = one["action"].values, one["reward"].values
    x = np.array([made.features(values_of(world, 0, step)) for step in range(1, HORIZON + 1)]) / made.units
    for t in (0, 1, 10, 49):
        blind = np.where(hidden, means[t % 2] / made.units, x[t])
        known = Knowledge(made, [x[s][action[s]] for s in range(t)], list(reward[:t]))
        assert float(one["gap"][t]) == pytest.approx(gap(known, x[t], blind, 10.0), rel=1e-7, abs=1e-9)


def test_counts_of_an_agent_are_sums_of_features() -> None:
    """After some steps a live agent's counts are how often each stratum was seen, and the features' sums, in units."""
    agent = op.Agent(PROBLEM, op.pd2_ucb(5), horizon=20, seed=1, stream=0)
    sums, counts = np.zeros((2, 2, PROBLEM.d)), np.zeros(2)
    rng = np.random.default_rng(1)
    for step in range(1, 12):
        context = {"sleep": rng.uniform(4, 10), "steps": 3000.0, "load": rng.random(), "pain": 2.0, "dose": 10.0}
        context["mood"] = "fair"  # type: ignore[assignment]
        agent.decide(context)
        agent.learn(rng.normal())
        sums[(step - 1) % 2] += PROBLEM.features(PROBLEM.values(context, step).values)
        counts[(step - 1) % 2] += 1
    kept = agent.numbers.at.views("counts", agent.numbers.arrays["counts"])
    np.testing.assert_array_equal(kept.count[:2], counts)
    np.testing.assert_allclose(kept.total[: sums.size], (sums / PROBLEM.units).ravel(), rtol=1e-13)


def test_reveals_pay() -> None:
    """With all revealed, what patients lose comes near nothing in the end; with nothing revealed it goes on."""
    variables = {"x": op.Number(-1, 1)}
    made = op.Problem.from_formula("x + action + action:x", variables, ["no", "yes"], noise_sd=0.1, theta_bound=2.0)
    assert isinstance(made, op.ContinuousProblem)
    world = op.ContinuousWorld(made, theta=[0.0, 0.0, 1.0], distributions={"x": Uniform(-1, 1)})
    data = run(world, [op.Policy(revealer=op.Always()), op.Policy(revealer=op.Never())], horizon=300, replicates=10)
    late = (data["best"] - data["outcome"]).isel(step=slice(200, None)).mean(("world", "replicate", "step"))
    always, never = late.values
    assert always < 0.02
    assert never == pytest.approx(0.25, abs=0.03)  # E max(x, 0): half the time the better action is missed


def test_reported_variables_wait_for_a_reveal() -> None:
    """What is reported counts only once revealed: without reveals the gap stays that of the start."""
    made = problem(visibility={"sleep": "reported", "mood": "reported"}, value_range=(0.0, 10.0))
    world = op.ContinuousWorld(made, theta=THETA, distributions=DISTRIBUTIONS)
    never = op.Policy(revealer=op.Never())
    one, other = run(world, never), run(world.replace(theta=-THETA), never)
    np.testing.assert_array_equal(one["gap"], other["gap"])  # nothing was learned from any reward
    opened = run(world.replace(open_rate=0.2), never)
    first = opened["opened"].isel(policy=0, world=0).values.argmax(axis=1)
    gaps, alone = opened["gap"].isel(policy=0, world=0).values, one["gap"].isel(policy=0, world=0).values
    for replicate, t in enumerate(first[:10]):
        np.testing.assert_array_equal(gaps[replicate, : t + 1], alone[replicate, : t + 1])
        assert gaps[replicate, t + 1] != alone[replicate, t + 1]


# What is refused


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"theta": [1.0]}, f"theta has 1 entries on axis 0; expected {PROBLEM.d}"),
        ({"noise_sd": -1.0}, "noise_sd is -1.0; expected a finite number >= 0"),
        ({"distributions": {}}, "variable 'sleep' has no distribution; expected one, or a column of the table"),
        ({"distributions": {**DISTRIBUTIONS, "slep": Normal(7, 1)}}, "did you mean 'sleep'"),
        (
            {"distributions": {**DISTRIBUTIONS, "mood": Normal(7, 1)}},
            "'mood' is .*expected a Choice among",
        ),
        (
            {"distributions": {**DISTRIBUTIONS, "sleep": Uniform(20, 30)}},
            "'sleep'.*hardly any mass from",
        ),
        ({"table": Resampled({"sleep": [7.0]})}, "'sleep' has a distribution and is in the table"),
        ({"late": 3}, "a world's setting is 'late'; expected one of"),
    ],
)
def test_wrong_settings(settings: dict[str, Any], message: str) -> None:
    """A truth that does not fit the problem is refused with what was expected."""
    with pytest.raises(op.InputError, match=message):
        op.ContinuousWorld(PROBLEM, **{"theta": THETA, "distributions": DISTRIBUTIONS, **settings})


def test_a_finite_problem_is_refused() -> None:
    """Finite contexts have a world of their own."""
    finite = op.synthetic_worlds(1, seed=1)[0].problem
    with pytest.raises(op.InputError, match=r"problem is Problem\(10 contexts.*; expected a ContinuousProblem"):
        op.ContinuousWorld(finite, theta=THETA)  # type: ignore[arg-type]
    with pytest.raises(op.InputError, match="needs finitely many contexts"):
        run(world_with(THETA), op.pd2_ucb(5, unknown="optimistic"))


def test_replace_keeps_the_rest() -> None:
    """`replace` changes what is named and nothing else."""
    world = world_with(THETA, noise_sd=0.3, name="mine", reward_delay=2)
    np.testing.assert_equal(world.replace().numbers(), world.numbers())
    changed = world.replace(reward_delay=0)
    assert (changed.happenings.reward_delay, changed.noise_sd, changed.name) == (0, 0.3, "mine")
    assert math.isclose(float(changed.theta[0]), float(THETA[0]))


def test_units_do_not_matter_where_they_are_large() -> None:
    """Steps as counts, or in units of 32,768: the same decisions and values, bit for bit; theta in the user's units."""
    unit = 2.0**15

    def made_of(steps: op.Number) -> op.ContinuousProblem:
        variables = {"steps": steps, "mood": ["low", "high"]}
        return op.ContinuousProblem("action * (steps + mood)", variables, ["no", "yes"], noise_sd=0.5)

    def study(steps: op.Number, drawn: Any, effect: float) -> xr.Dataset:
        theta = np.array([0.2, effect, 0.1, effect / 2, -0.3])
        drawing = {"steps": drawn, "mood": Choice({"low": 0.5, "high": 0.5})}
        world = op.ContinuousWorld(made_of(steps), theta=theta, distributions=drawing)
        return run(world, [op.pace_ucb(5), op.pd2_ucb(5)], replicates=5)

    assert made_of(op.Number(0, 20_000)).units.tolist() == [1.0, unit, 1.0, unit, 1.0]
    raw = study(op.Number(0, 20_000), Uniform(0, 20_000), 0.5 / unit)
    divided = study(op.Number(0, 20_000 / unit), Uniform(0, 20_000 / unit), 0.5)
    for name in ("action", "nudged", "gap", "price", "outcome", "value", "disagreement"):
        assert np.array_equal(raw[name].values, divided[name].values), name
    assert raw["theta"].values[0].tolist() == [0.2, 0.5 / unit, 0.1, 0.25 / unit, -0.3]
