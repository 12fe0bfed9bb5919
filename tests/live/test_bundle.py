"""`agent.bundle()`: what a phone carries is what the agent then does, as long as nothing is revealed."""

import datetime
import json
from typing import Any

import numpy as np
import pytest

import opportune as op
from live_examples import brushing_worlds, mixed_problem, moment_problem, scheduled_worlds

HORIZON = 24
RECOMMENDERS = [
    op.LinUCB(),
    op.LinUCB(rotate=True),
    op.Thompson(inflation=30.0),
    op.EqualCoins(),
    op.FixedAction(action=1),
]
NOON = datetime.datetime(2026, 3, 1, 12, tzinfo=datetime.UTC)

SCHEDULED: dict[str, Any] = {  # all public variables follow the schedule
    "none public": lambda: op.synthetic_worlds(1, seed=2)[0].problem,
    "none public, p unknown": lambda: op.synthetic_worlds(1, seed=2, known=False)[0].problem,
    "finite": lambda: scheduled_worlds()[0].problem,
    "moments": lambda: op.ContinuousProblem(
        "1 + tod + day + steps + action:(1 + tod + steps) + action:day",
        {"tod": op.TimeOfDay(("am", "pm")), "day": op.DayOfStudy.scaled(12), "steps": op.Number(0, 2)},
        3,
        noise_sd=0.3,
    ),
}
STRATIFIED: dict[str, Any] = {
    "finite": lambda: mixed_problem(known=True),
    "finite, p unknown": lambda: mixed_problem(known=False),
    "moments": lambda: moment_problem(reported=False),
    "moments, reported": lambda: moment_problem(reported=True),
    "brushing": lambda: brushing_worlds()[0].problem,
}

recommenders = pytest.mark.parametrize(
    "recommender", RECOMMENDERS, ids=lambda r: "rotating" if getattr(r, "rotate", False) else type(r).__name__
)


def experienced(problem: Any, recommender: Any, steps: int = 10) -> op.Agent:
    """An agent with some steps behind it, the last reveal not the latest of them."""
    policy = op.Policy(recommender=recommender, revealer=op.Never())
    agent = op.Agent(problem, policy, horizon=HORIZON, seed=5, stream=3)
    rng = np.random.default_rng(6)
    for t in range(steps):
        agent.propose(some_context(problem, rng), opened=t in {2, 6}, reported=some_report(problem, rng))
        agent.settle()
        agent.learn(float(rng.normal(0.0, 3.0)))
    return agent


def some_value(variable: Any, rng: np.random.Generator) -> Any:
    if isinstance(variable, op.Number):
        return float(rng.uniform(variable.low, variable.high))
    return variable[int(rng.integers(len(variable)))]


def some_context(problem: Any, rng: np.random.Generator) -> dict[str, Any]:
    return {
        name: some_value(variable, rng)
        for name, variable in problem.variables.items()
        if name not in problem.schedule.variables and problem.visibility[name] != "reported"
    }


def some_report(problem: Any, rng: np.random.Generator) -> dict[str, Any] | None:
    told = {n: some_value(v, rng) for n, v in problem.variables.items() if problem.visibility[n] == "reported"}
    return told or None


@recommenders
@pytest.mark.parametrize("kind", SCHEDULED)
def test_a_list_in_order_is_what_the_agent_then_does(kind: str, recommender: Any) -> None:
    """Where public variables follow the schedule: the action of every decision point to come, whatever is sensed."""
    agent = experienced(SCHEDULED[kind](), recommender)
    before = agent.to_dict()
    bundle = agent.bundle(NOON)
    assert agent.to_dict() == before
    assert [row["step"] for row in bundle["actions"]] == list(range(11, HORIZON + 1))
    rng = np.random.default_rng(7)
    for row in bundle["actions"]:
        for name, value in agent.problem.schedule.values(row["step"]).items():
            assert row[name] == value
        proposal = agent.propose(some_context(agent.problem, rng))
        decision = agent.settle()
        assert proposal.action == decision.action == row["action"]
        agent.learn(float(rng.normal()))
    assert agent.bundle(NOON)["actions"] == []
    if isinstance(recommender, op.Thompson | op.EqualCoins):
        assert len({row["action"] for row in bundle["actions"]}) > 1


@recommenders
@pytest.mark.parametrize("kind", STRATIFIED)
def test_a_list_by_stratum_is_what_the_agent_does_next(kind: str, recommender: Any) -> None:
    """Where they do not: the present action of each public stratum, public numbers as they were lately."""
    agent = experienced(STRATIFIED[kind](), recommender)
    problem = agent.problem
    saved = agent.to_dict()
    bundle = agent.bundle(NOON)
    assert len(bundle["strata"]) == problem.strata
    rng = np.random.default_rng(8)
    for row in bundle["strata"]:
        public = {name: value for name, value in row.items() if problem.visibility.get(name) == "public"}
        assert set(public) == {name for name, seen in problem.visibility.items() if seen == "public"}
        again = op.Agent.from_dict(saved)
        assert again.propose({**some_context(problem, rng), **public}).action == row["action"]


@pytest.mark.parametrize("kind", ["finite", "finite, p unknown"])
def test_a_list_by_stratum_stands_until_the_next_reveal(kind: str) -> None:
    """With LinUCB and finitely many contexts what is listed holds however many decision points pass."""
    agent = experienced(STRATIFIED[kind](), op.LinUCB())
    listed = agent.bundle(NOON)["strata"]
    rng = np.random.default_rng(9)
    for _ in range(10):
        context = some_context(agent.problem, rng)
        action = next(row["action"] for row in listed if row["hour"] == context["hour"])
        assert agent.propose(context).action == action
        agent.settle()
        agent.learn(float(rng.normal(0.0, 5.0)))
    assert agent.bundle(NOON)["strata"] == listed


@pytest.mark.parametrize("kind", STRATIFIED)
def test_a_bundle_before_the_first_decision(kind: str) -> None:
    """There is always something to show; public numbers are at the middle of their bounds."""
    agent = op.Agent(STRATIFIED[kind](), op.pd2_ucb(3), horizon=HORIZON, seed=5, stream=3)
    rows = agent.bundle(NOON)["strata"]
    assert len(rows) == agent.problem.strata
    assert {row["action"] for row in rows} <= set(agent.problem.action_names)


def test_a_bundle_says_what_it_is() -> None:
    """Version, date, participant and the step after which it was made, in plain JSON values."""
    agent = experienced(moment_problem(reported=True), op.LinUCB())
    bundle = agent.bundle(NOON)
    assert json.loads(json.dumps(bundle)) == bundle
    head = {"version": op.__version__, "made": "2026-03-01T12:00:00+00:00", "stream": 3, "after_step": 10}
    assert head.items() <= bundle.items()
    made = datetime.datetime.fromisoformat(agent.bundle()["made"])
    assert abs(datetime.datetime.now(datetime.UTC) - made) < datetime.timedelta(minutes=1)


@recommenders
def test_a_bundle_in_the_middle_of_a_step_disturbs_nothing(recommender: Any) -> None:
    """A phone may fetch it while a proposal is open."""
    agents = [experienced(moment_problem(reported=True), recommender) for _ in range(2)]
    rng = np.random.default_rng(3)
    context, told = some_context(agents[0].problem, rng), some_report(agents[0].problem, rng)
    for agent in agents:
        agent.propose(context)
    agents[0].bundle()
    decisions = [agent.settle(opened=True, reported=told) for agent in agents]
    assert decisions[0] == decisions[1]
    for agent in agents:
        agent.learn(1.0)
    assert agents[0].to_dict() == agents[1].to_dict()


@pytest.mark.parametrize("policy", [op.pace_ucb(5), op.pd2_ucb(5)])
def test_what_the_phone_showed_offline_stands(policy: op.Policy) -> None:
    """An action shown from an old bundle is the step's action, marked as such; the reward is learned for it."""
    problem = op.synthetic_worlds(1, seed=1)[0].problem
    agent = op.Agent(problem, policy, horizon=9, seed=1, stream=1)
    for _ in range(3):
        proposal = agent.propose(4)
        other = next(name for name in problem.action_names if name != proposal.action)
        decision = agent.settle(answered=False if proposal.nudged else None, shown=other)
        assert (decision.action, decision.stale_action, decision.offline) == (other, proposal.action, True)
        assert agent.steps[decision.step].action == problem.action_names.index(other)
        agent.learn(0.5)
    agent.propose(4, opened=True)
    with pytest.raises(op.StateError, match=r"^an action was shown offline, but something was revealed"):
        agent.settle(shown=problem.action_names[0])
    with pytest.raises(op.InputError, match=r"^shown is 'nothing'; expected one of"):
        agent.settle(shown="nothing")
