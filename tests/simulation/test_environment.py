"""A world can be stepped through from Python, and policies in Python meet what compiled ones meet."""

import dataclasses
import json
from typing import Any

import numpy as np
import pytest

import opportune as op
from opportune.algorithm.rng import COIN, draw

SEED = 7


def mixed_world(**happenings: Any) -> op.LinearWorld:
    """Two public, six sensed and two reported levels, three actions."""
    problem = op.Problem.from_formula(
        "action * (stress + pain) + time",
        {"time": op.TimeOfDay(["morning", "evening"]), "stress": range(1, 4), "pain": ["no", "yes"]},
        ["rest", "breathe", "walk"],
        noise_sd=0.3,
        theta_bound=2.0,
        visibility={"pain": "reported"},
    )
    assert isinstance(problem, op.Problem)
    return op.LinearWorld(problem, theta=np.linspace(-0.5, 0.8, problem.d), context_probs=[1 / 12] * 12, **happenings)


def numbers_world(**happenings: Any) -> op.ContinuousWorld:
    problem = op.Problem.from_formula(
        "action * stress", {"stress": op.Number(0, 1)}, ["rest", "walk"], noise_sd=0.2, theta_bound=2.0
    )
    assert isinstance(problem, op.ContinuousProblem)
    return op.ContinuousWorld(
        problem, theta=[0.5, -0.2, 0.3], distributions={"stress": op.distributions.Uniform(0, 1)}, **happenings
    )


def remembering_world(**happenings: Any) -> op.ContinuousWorld:
    """Two variables of the participant's own history; answers wear off, people go away."""
    problem = op.Problem.from_formula(
        "action * (recent + dose) + stress",
        {"stress": op.Number(0, 1), "dose": op.History(of="nudges", summary="sum", days=4),
         "recent": op.History(of="reward", summary="mean", decisions=3, low=-2, high=2)},
        ["rest", "walk"], noise_sd=0.2, theta_bound=3.0,
    )  # fmt: skip
    assert isinstance(problem, op.ContinuousProblem)
    return op.ContinuousWorld(
        problem, theta=np.linspace(-0.5, 0.8, problem.d), distributions={"stress": op.distributions.Uniform(0, 1)},
        response_spread=0.4, habituation=0.7, spells={"rate": 0.05, "days": 2}, **happenings,
    )  # fmt: skip


HAPPENINGS: dict[str, Any] = {
    "open_rate": 0.1,
    "response_rate": 0.6,
    "available_rate": 0.9,
    "reward_rate": 0.8,
    "reward_delay": 3,
}
WORLDS: dict[str, Any] = {
    "synthetic": lambda: op.synthetic_worlds(1, seed=2)[0],
    "mixed": lambda: mixed_world(**HAPPENINGS),
    "numbers": lambda: numbers_world(**HAPPENINGS),
    "own history": lambda: remembering_world(**HAPPENINGS),
    "own history, on time": lambda: remembering_world(response_rate=0.7),
    "step counts": lambda: op.StepCountWorld(uncertainty=1.0, **HAPPENINGS),
    "brushing": lambda: op.brushing_world()[0],
}
RECORDED = (
    "context", "action", "revealed", "nudged", "opened", "available", "reward", "outcome", "value", "best",
    "probability",
)  # fmt: skip


def by_rate(rate: float) -> dict[str, Any]:
    """The naive revealer in Python."""
    return {"propose": lambda moment, memory: rate}


@pytest.mark.parametrize("name", WORLDS)
def test_python_policies_meet_what_compiled_ones_meet(name: str) -> None:
    """The naive rule with a fixed action, in Python and compiled, has the same record, number for number."""
    world = WORLDS[name]()
    compiled = op.Policy(
        recommender=op.FixedAction(action=1), revealer=op.FixedRate(), budget=op.Budget(12), name="compiled"
    )
    python = op.PythonPolicy(**by_rate(12 / 60), settle=lambda shown, memory: 1, budget=12, name="python")
    data = op.simulate([world, world], [python, compiled], horizon=60, replicates=3, seed=SEED, progress=False)
    assert list(data["policy"].values) == ["python", "compiled"]
    for recorded in RECORDED:
        np.testing.assert_array_equal(
            data[recorded].sel(policy="python").values, data[recorded].sel(policy="compiled").values, err_msg=recorded
        )
    for total in ("total_reward", "total_value", "total_outcome", "total_best", "spent", "nudges", "reveals", "opens"):
        np.testing.assert_allclose(data[total].sel(policy="python"), data[total].sel(policy="compiled"), rtol=1e-12)
    for only_compiled in ("gap", "price", "disagreement", "tolerance", "final_price"):
        assert np.isnan(data[only_compiled].sel(policy="python")).all()
    assert (data["stale_action"].sel(policy="python") == -1).all()
    if "context_count" in data:
        assert (data["context_count"].sum("contexts") == 60).all()
    assert float(data["nudged"].sum()) > 0
    other = op.PythonPolicy(**by_rate(0.5), settle=lambda shown, memory: 0, name="other")
    changed = op.simulate(world, other, horizon=60, replicates=1, seed=SEED, progress=False)
    assert not np.array_equal(changed["reward"].values[0, 0, 0], data["reward"].sel(policy="python").values[0, 0])


def test_regret_and_tables_take_both() -> None:
    """Regret is computed for policies in Python; what asks for a compiled rule says so."""
    world = op.synthetic_worlds(1, seed=2)[0]
    python = op.PythonPolicy(**by_rate(0.1), settle=lambda shown, memory: 2, budget=10)
    data = op.simulate(world, [op.pd2_ucb(10), python], horizon=40, replicates=2, seed=SEED, progress=False)
    assert op.regret(data).sizes["policy"] == 2
    assert float(op.regret(data).isel(step=-1).sel(policy="python").mean()) > 0
    op.plot_regret(data)
    with pytest.raises(op.InputError, match="compiled rules"):
        op.decomposition(data)


def test_nudging_at_an_age_is_the_periodic_rule() -> None:
    """A nudge wherever the age has reached ten is a nudge at every tenth step, as the compiled rule has it."""
    python = op.PythonPolicy(propose=lambda moment, memory: moment.age >= 10, settle=lambda shown, memory: 1)
    compiled = op.Policy(recommender=op.FixedAction(action=1), revealer=op.Periodic(every=10))
    data = op.simulate(WORLDS["synthetic"](), [python, compiled], horizon=45, replicates=1, seed=SEED, progress=False)
    nudged = data["nudged"].transpose("policy", "step", ...).values.reshape(2, -1)
    for row in nudged:
        assert (np.flatnonzero(row) + 1).tolist() == [10, 20, 30, 40]


def test_the_age_counts_from_the_last_reveal() -> None:
    """As in compiled rules, it is `step` less the step of the last reveal, whoever made that."""
    env = op.Environment(mixed_world(**HAPPENINGS), horizon=60, seed=SEED)
    moment: Any = env.reset()
    last, reveals = 0, 0
    while moment is not None:
        assert moment.age == moment.step - last
        if env.nudge(moment.age >= 10).revealed:
            last, reveals = moment.step, reveals + 1
        moment = env.act(1).moment
    assert reveals > 2


@pytest.mark.parametrize("trace", [True, False])
def test_regret_without_a_known_best_is_refused_for_both(trace: bool) -> None:
    """A world that does not know its best action has no realised regret, whoever decides."""
    python = op.PythonPolicy(**by_rate(0.1), settle=lambda shown, memory: 0, budget=10)
    for policy in (op.pd2_ucb(10), python):
        data = op.simulate(
            WORLDS["brushing"](), policy, horizon=10, replicates=1, seed=SEED, trace=trace, progress=False
        )
        with pytest.raises(op.InputError, match="best action"):
            op.realised_regret(data)


@pytest.mark.parametrize("given", [None, "yes", "0.5", [True], 1.5, float("nan")])
def test_what_a_function_gives_by_mistake_is_said_with_its_step(given: Any) -> None:
    """A `propose` without `return`, or an action that does not exist, names the policy, the function and the step."""
    world = WORLDS["synthetic"]()
    settings: dict[str, Any] = {"horizon": 9, "replicates": 1, "seed": SEED, "progress": False}
    late = op.PythonPolicy(
        propose=lambda moment, memory: given if moment.step == 7 else False, settle=lambda shown, memory: 0, name="mine"
    )
    with pytest.raises(op.InputError, match=r"^propose of policy 'mine' at step 7: decision is .*; expected a finite"):
        op.simulate(world, late, **settings)
    other = op.PythonPolicy(**by_rate(0.1), settle=lambda shown, memory: given, name="mine")
    with pytest.raises(op.InputError, match=r"^settle of policy 'mine' at step 1: action is "):
        op.simulate(world, other, **settings)


def test_what_is_shown_can_be_written_as_json() -> None:
    """Yes and no are Python's own."""
    env = op.Environment(mixed_world(), horizon=2, seed=SEED)
    moment = env.reset()
    shown = env.nudge(np.bool_(True))
    assert shown.revealed is True
    json.dumps([dataclasses.asdict(each) for each in (moment, shown, env.act(0))])


def test_the_recommender_sees_only_what_it_may() -> None:
    """Without a reveal it sees public values; on one everything, and what could be learned since the last."""
    env = op.Environment(mixed_world(response_rate=1.0), budget=5, horizon=20, seed=SEED)
    moment: Any = env.reset()
    seen = 0
    for t in range(20):
        assert set(moment.context) == {"time", "stress"}
        shown = env.nudge(t % 4 == 3)
        assert shown.revealed == shown.nudged == (t % 4 == 3)
        assert set(shown.context) == ({"time", "stress", "pain"} if shown.revealed else {"time"})
        assert bool(shown.news) == shown.revealed
        seen += len(shown.news)
        outcome = env.act("breathe")
        moment = outcome.moment
    assert moment is None
    assert seen == 19  # the last step's reward comes after the last reveal
    assert env.budget_left == 0.0


def test_steps_that_nobody_has_seen_are_learned_at_the_next_reveal() -> None:
    """With reported variables a step can be learned from once a reveal uncovers it."""
    env = op.Environment(mixed_world(), horizon=6, seed=SEED)
    env.reset()
    assert env.nudge(False).learned == ()
    assert env.act(0).learned == ()
    shown = env.nudge(True)
    assert [each.step for each in shown.learned] == [1]
    assert set(shown.learned[0].context) == {"time", "stress", "pain"}
    assert [each.step for each in env.act(0).learned] == [2]


def test_late_rewards_come_when_they_arrive() -> None:
    """A reward that is late is learned at the end of the step at which it arrives, once."""
    env = op.Environment(numbers_world(reward_delay=3), horizon=30, seed=SEED)
    env.reset()
    due: dict[int, int] = {}
    for step in range(1, 31):
        env.nudge(False)
        outcome = env.act("walk")
        due[step] = step + outcome.late
        assert all(due[each.step] == step for each in outcome.learned)
    assert len({due[s] - s for s in due}) == 4


def test_a_coin_is_simulates() -> None:
    """A probability is tossed with the coin that compiled rules are tossed with."""
    env = op.Environment(op.synthetic_worlds(1, seed=2)[0], horizon=5, seed=SEED, stream=3)
    moment = env.reset()
    assert moment.coin == float(draw(np.uint64(SEED), np.uint64(3), 1, COIN))
    assert env.nudge(moment.coin + 1e-12).nudged


def test_calls_out_of_order_are_refused() -> None:
    """Each step takes one nudge() and then one act(); budgets cannot be overdrawn."""
    env = op.Environment(op.synthetic_worlds(1, seed=2)[0], budget=op.Budget(1, hard=True), horizon=3, seed=SEED)
    with pytest.raises(op.StateError, match="reset"):
        env.nudge(True)
    assert env.budget_left == 1.0
    env.reset()
    with pytest.raises(op.StateError, match="nudge"):
        env.act(0)
    assert env.nudge(True).nudged
    with pytest.raises(op.StateError, match="already"):
        env.nudge(False)
    with pytest.raises(op.InputError, match="action"):
        env.act("fly")
    env.act(0)
    assert not env.nudge(True).nudged  # nothing is left
    env.act(0)
    env.nudge(False)
    assert env.act(0).moment is None
    with pytest.raises(op.StateError, match="reset"):
        env.nudge(False)
    assert env.reset().step == 1


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"horizon": 0}, "horizon"),
        ({"horizon": 10, "budget": -1}, "budget"),
        ({"horizon": 10, "seed": -1}, "seed"),
        ({"horizon": 10, "stream": 1.5}, "stream"),
    ],
)
def test_bad_settings_are_refused(wrong: dict[str, Any], said: str) -> None:
    """Bad settings are refused by name."""
    with pytest.raises(op.InputError, match=said):
        op.Environment(op.synthetic_worlds(1, seed=2)[0], **wrong)
    with pytest.raises(op.InputError, match="world"):
        op.Environment("a world", horizon=3)  # type: ignore[arg-type]
    with pytest.raises(op.InputError, match="PythonPolicy"):
        op.simulate(op.synthetic_worlds(1, seed=2)[0], lambda: True, horizon=3, replicates=1, seed=1)  # type: ignore[arg-type]
    with pytest.raises(op.InputError, match="propose"):
        op.PythonPolicy(propose=1, settle=lambda shown, memory: 0)  # type: ignore[arg-type]


def test_a_forbidden_action_is_refused() -> None:
    """What is allowed by what is seen stands in `allowed`; anything else is refused, and nothing has happened."""
    allowed = [[True, True], [True, False]]
    problem = op.Problem(np.arange(8.0).reshape(2, 2, 2), [0.5, 0.5], allowed=allowed, theta_bound=9.0)
    environment = op.Environment(op.LinearWorld(problem, theta=[0.1, 0.2]), horizon=40, seed=1)
    environment.reset()
    met = set()
    for step in range(1, 41):
        shown = environment.nudge(step % 2 == 0)
        seen = allowed[environment.context_number] if shown.revealed else [True, False]
        assert shown.allowed == tuple(name for name, may in zip("01", seen, strict=True) if may)
        met.add((shown.revealed, seen[1]))
        if not seen[1]:
            with pytest.raises(
                op.InputError, match=r"^action is '1', which is forbidden here; expected one of \['0'\]$"
            ):
                environment.act(1)
        assert environment.act(shown.allowed[-1]).action == len(shown.allowed) - 1
    assert met == {(False, False), (True, False), (True, True)}
