"""The live agent: the decisions of `simulate`, exact resumption, what a decision says, what is refused."""

import json
import math
import re
from collections.abc import Callable
from dataclasses import fields
from typing import Any

import numpy as np
import pytest

from opportune.core.rng import COIN, draw
from opportune.errors import InputError, OpportuneError, StateError
from opportune.live.agent import Agent, Decision
from opportune.policy import (
    Always,
    Budget,
    FixedAction,
    FixedRate,
    LearningPrimalDual,
    LinUCB,
    Never,
    Periodic,
    Policy,
    PrimalDual,
    RandomAction,
    naive_ucb,
    pd1_ucb,
    pd2_ucb,
)
from opportune.problems.finite import Problem
from opportune.simulation import simulate
from opportune.worlds.linear import LinearWorld, synthetic_worlds

HORIZON = 60
SEED = 2**63 + 5
TRACED = (
    "probability", "gap", "price", "disagreement", "tolerance",
    "action", "fresh_action", "stale_action", "revealed", "nudged", "opened",
)  # fmt: skip

POLICIES = [
    naive_ucb(8, name="naive"),
    naive_ucb(Budget(8, hard=True), name="naive hard"),
    *[pd1_ucb(8, scale=scale, name=f"PD1 {scale}") for scale in ("adaptive", "range", "gap")],
    *[pd2_ucb(8, scale=scale, name=f"PD2 {scale}") for scale in ("adaptive", "range", "gap")],
    pd2_ucb(Budget(5, hard=True), name="PD2 hard"),
    pd2_ucb(0.7, name="PD2 below one"),
    Policy(revealer=LearningPrimalDual(tolerance=0.3), budget=Budget(8.5), name="PD2 own tolerance"),
    Policy(revealer=Never(), name="never"),
    Policy(revealer=Always(), name="always"),
    Policy(revealer=Always(), budget=Budget(10.5), name="always, limited"),
    Policy(revealer=Periodic(every=7), name="periodic"),
    Policy(revealer=Periodic(every=7), budget=Budget(3, hard=True), name="periodic hard"),
    Policy(recommender=FixedAction(action=1), revealer=PrimalDual(), budget=Budget(8), name="one action"),
    Policy(recommender=RandomAction(), revealer=FixedRate(), budget=Budget(8), name="random action"),
]
OPTIMISTIC = [
    pd2_ucb(8, unknown="optimistic", name="PD2 optimistic"),
    pd1_ucb(8, unknown="optimistic", scale="range", name="PD1 optimistic"),
    Policy(recommender=LinUCB(unknown="optimistic"), revealer=Always(), name="always optimistic"),
]


def mixed_worlds(known: bool) -> list[LinearWorld]:
    """Two worlds with public, sensed and reported variables and patients of moods."""
    rng = np.random.default_rng(1)
    worlds = []
    for _ in range(2):
        p = rng.dirichlet(np.full(12, 2.0))
        problem = Problem(
            rng.normal(size=(12, 3, 4)),
            p if known else None,
            noise_sd=0.3,
            theta_bound=2.0,
            value_range=(-1.0, 2.0),
            variables={"mood": "abc", "hour": ["am", "pm"], "place": range(2)},
            visibility={"mood": "reported", "hour": "public"},
        )
        world = LinearWorld(problem, theta=rng.normal(size=4), context_probs=p, open_rate=0.1, response_rate=0.7)
        worlds.append(world)
    return worlds


WORLDS: dict[str, Callable[[], list[LinearWorld]]] = {
    "synthetic": lambda: synthetic_worlds(2, seed=1),
    "synthetic, p unknown": lambda: synthetic_worlds(2, seed=1, known=False),
    "mixed": lambda: mixed_worlds(known=True),
    "mixed, p unknown": lambda: mixed_worlds(known=False),
}


def live(world: LinearWorld, policy: Policy, trace: Any, stream: int) -> None:
    """Drive an agent with what a simulated run met, and hold every decision to the run's, bit for bit."""
    agent = Agent(world.informed_problem(), policy, horizon=HORIZON, seed=SEED, stream=stream)
    for t in range(HORIZON):
        opened, nudged, revealed = (bool(trace[name][t]) for name in ("opened", "nudged", "revealed"))
        answered = revealed if nudged and not opened else True
        decision = agent.decide(int(trace["context"][t]), opened=opened, answered=answered)
        got = {name: getattr(decision, name) for name in TRACED}
        assert got == {name: trace[name][t].item() for name in TRACED}, (policy.name, t)
        agent.learn(float(trace["reward"][t]))
    spent = trace["probability"].cumsum()[-1]
    if policy.budget is not None and not policy.budget.hard:
        assert agent.budget_left == policy.budget.amount - spent


@pytest.mark.parametrize("kind", WORLDS)
def test_agent_makes_the_decisions_of_simulate(kind: str) -> None:
    """Given what a simulated run met, an agent with its seed and stream decides the same, to the last bit."""
    worlds = WORLDS[kind]()
    policies = [*POLICIES, *OPTIMISTIC] if kind.startswith("synthetic, p") else POLICIES
    data = simulate(worlds, policies, horizon=HORIZON, replicates=2, seed=SEED)
    for i, policy in enumerate(policies):
        for w, world in enumerate(worlds):
            for replicate in range(2):
                run = data.isel(policy=i, world=w, replicate=replicate)
                trace = {name: run[name].values for name in (*TRACED, "context", "reward")}
                live(world, policy, trace, stream=(w << 32) | replicate)


def resumed(agent: Agent) -> Agent:
    """The agent after a stop: written as text and read again."""
    return Agent.from_dict(json.loads(json.dumps(agent.to_dict(), allow_nan=False)))


@pytest.mark.parametrize("policy", [*POLICIES, *OPTIMISTIC], ids=lambda policy: policy.name)
def test_resumed_agent_goes_on_as_if_it_had_never_stopped(policy: Policy) -> None:
    """An agent saved and resumed at any time, also while a reward is due, decides on bit for bit alike."""
    kinds = ["synthetic, p unknown"] if policy in OPTIMISTIC else ["synthetic", "mixed", "mixed, p unknown"]
    for kind in kinds:
        world = WORLDS[kind]()[0]
        rng = np.random.default_rng(2)
        steady = Agent(world.informed_problem(), policy, horizon=HORIZON, seed=7, stream=2**40)
        stopped = resumed(steady)
        for _ in range(HORIZON):
            context = int(rng.integers(world.problem.contexts))
            opened, answered = bool(rng.random() < 0.1), bool(rng.random() < 0.8)
            if rng.random() < 0.2:
                stopped = resumed(stopped)
            expected = steady.decide(context, opened=opened, answered=answered)
            assert stopped.decide(context, opened=opened, answered=answered) == expected
            if rng.random() < 0.2:
                stopped = resumed(stopped)
            if rng.random() < 0.1:
                steady.skip()
                stopped.skip()
            else:
                reward = float(rng.normal())
                steady.learn(reward)
                stopped.learn(reward)
        assert stopped.to_dict() == steady.to_dict()


def test_agents_do_not_share_anything() -> None:
    """Two agents that take turns decide as each would alone."""
    problem = synthetic_worlds(1, seed=1)[0].problem

    def alone(stream: int) -> list[Decision]:
        agent = Agent(problem, pd2_ucb(5), horizon=20, seed=3, stream=stream)
        return [step(agent, t) for t in range(20)]

    def step(agent: Agent, t: int) -> Decision:
        decision = agent.decide((3 * t + agent.stream) % 10)
        agent.learn(0.1 * t)
        return decision

    pair = [Agent(problem, pd2_ucb(5), horizon=20, seed=3, stream=stream) for stream in (1, 2)]
    together = [[step(agent, t) for agent in pair] for t in range(20)]
    assert [first for first, _ in together] == alone(1)
    assert [second for _, second in together] == alone(2)
    assert alone(1) != alone(2)


# One small problem for what follows: two contexts, two actions, orthogonal features.


def small(**settings: Any) -> Problem:
    features = np.zeros((2, 2, 4))
    features[[0, 0, 1, 1], [0, 1, 0, 1], [0, 1, 2, 3]] = [1.0, 0.5, 0.2, 2.0]
    return Problem(features, [0.5, 0.5], **{"noise_sd": 0.1, **settings})


def small_agent(policy: Policy | None = None, **settings: Any) -> Agent:
    return Agent(small(), policy or pd1_ucb(2), **{"horizon": 10, "seed": 1, **settings})


def test_a_decision_carries_what_an_auditor_needs() -> None:
    """The coin explains the nudge, the nudge the reveal, the reveal the action; price and budget add up."""
    problem = synthetic_worlds(1, seed=4)[0].problem
    agent = Agent(problem, pd2_ucb(30), horizon=200, seed=9, stream=17)
    rng = np.random.default_rng(5)
    left, price, seen = 30.0, 0.0, set()
    for t in range(200):
        opened, answered = bool(rng.random() < 0.05), bool(rng.random() < 0.6)
        decision = agent.decide(int(rng.integers(10)), opened=opened, answered=answered)
        assert decision.step == t + 1 == agent.step
        assert decision.coin == draw(9, 17, t + 1, COIN)
        assert 0.0 <= decision.probability <= 1.0
        assert decision.nudged == (decision.coin < decision.probability)
        assert decision.opened == opened
        assert decision.revealed == (opened or (decision.nudged and answered))
        assert not (opened and decision.probability)
        if not decision.revealed:
            assert decision.action == decision.stale_action
        assert (decision.disagreement > 0.0) == (decision.fresh_action != decision.stale_action)
        assert decision.price >= price
        assert decision.budget_left == pytest.approx(left - decision.probability, abs=1e-12)
        assert decision.budget_left == agent.budget_left >= -1e-9
        price, left = decision.price, decision.budget_left
        seen.add((decision.nudged, decision.opened, decision.revealed))
        agent.learn(float(rng.normal()))
    assert len(seen) == 4
    assert {f.name for f in fields(Decision)} == {*TRACED, "step", "budget_left", "coin", "priced"}


def test_a_given_coin_is_used() -> None:
    """With `coin` a decision falls as that coin says, and the coin is in the decision."""
    for coin in (0.0, 0.49, 0.5, 1.0 - 2.0**-53):
        decision = small_agent(naive_ucb(5)).decide(0, coin)
        assert decision.probability == 0.5
        assert (decision.coin, decision.nudged) == (coin, coin < 0.5)


def test_context_by_number_or_by_name() -> None:
    """A context may be its number or the levels of its variables."""
    settings = {"variables": {"mood": ["low", "high"]}}
    for number, level in enumerate(("low", "high")):
        agents = [Agent(small(**settings), pd1_ucb(2), horizon=5) for _ in range(4)]
        contexts: list[Any] = [number, np.int64(number), float(number), {"mood": level}]
        decisions = [agent.decide(context) for agent, context in zip(agents, contexts, strict=True)]
        assert decisions == [decisions[0]] * 4


def test_hard_budget_left_counts_nudges() -> None:
    """With a hard budget what is left is the lesser of what is expected and what is counted."""
    agent = small_agent(naive_ucb(Budget(5, hard=True)))
    left = []
    for coin in (0.9, 0.1, 0.1, 0.9, 0.9, 0.9):
        left.append(agent.decide(0, coin).budget_left)
        agent.skip()
    assert left == [4.5, 4.0, 3.0, 3.0, 2.5, 2.0]


def test_without_a_budget_nothing_runs_out() -> None:
    """A baseline without a budget has infinitely much left, and can be saved all the same."""
    agent = small_agent(Policy(revealer=Always()))
    assert agent.decide(0).budget_left == math.inf
    assert resumed(agent).budget_left == math.inf


def test_a_skipped_step_counts_its_context_and_nothing_else() -> None:
    """After `skip` nothing was learned of rewards, but the context counts where probabilities are unknown."""
    gaps = {}
    for known in (True, False):
        problem = small() if known else small().replace(context_probs=None)
        agents = [Agent(problem, pd1_ucb(2), horizon=5) for _ in range(3)]
        for agent in agents[1:]:
            agent.decide(1, opened=True)
        agents[1].skip()
        agents[2].learn(0.0)
        gaps[known] = [agent.decide(1).gap for agent in agents]
    fresh, skipped, learned = gaps[True]
    assert skipped == fresh != learned
    fresh, skipped, learned = gaps[False]
    assert fresh > 0.0
    assert skipped == learned == 0.0  # with one context seen, knowing the context adds nothing


def test_repr_says_where_the_agent_stands() -> None:
    """An agent's text form names its policy, its step and what is left."""
    agent = small_agent(naive_ucb(5))
    agent.decide(0)
    assert repr(agent) == "Agent(naive, step 1 of 10, budget left 4.5)"


# Why: a sentence for each situation. In the small problem context 1 is worth knowing, context 0 is not.


def test_why_opened() -> None:
    """An opening says that it was free."""
    decision = small_agent().decide(0, opened=True)
    assert decision.why == "Revealed free of charge: the patient opened the app."


def test_why_nudged() -> None:
    """A nudge names worth, price, probability and coin, and whether it was answered."""
    agent = small_agent(pd1_ucb(2))
    assert agent.decide(1, coin=0.25).why == (
        "Nudge: knowing the context is worth 1.00 on the scale of the price, the price is 0.00; "
        "probability 1.00, coin 0.25; the patient answered."
    )
    agent.skip()
    assert agent.decide(1, coin=0.75, answered=False).why == (
        "Nudge: knowing the context is worth 1.00 on the scale of the price, the price is 0.40; "
        "probability 1.00, coin 0.75; it went unanswered, so the old advice stands."
    )


def test_why_the_coin_said_no() -> None:
    """Where the coin decided, it is named with the probability it fell above."""
    assert small_agent(naive_ucb(5)).decide(1, coin=0.75).why == (
        "No nudge: the rule nudges whatever the context, but the coin 0.75 fell above 0.50."
    )


def test_why_a_rule_without_price_nudges() -> None:
    """Rules that do not weigh the context do not say that they did."""
    for policy, probability in ((naive_ucb(5), "0.50"), (Policy(revealer=Always()), "1.00")):
        assert small_agent(policy).decide(0, coin=0.25).why == (
            f"Nudge: the rule nudges whatever the context; probability {probability}, coin 0.25; the patient answered."
        )


def test_why_the_budget_is_spent() -> None:
    """Once nothing is left, that is the reason, whatever the context is worth."""
    for policy in (pd1_ucb(1), Policy(revealer=Always(), budget=Budget(1, hard=True))):
        agent = small_agent(policy)
        assert agent.decide(1).nudged
        agent.skip()
        for context in (0, 1):
            assert agent.decide(context).why == "No nudge: the budget is spent."
            agent.skip()


def test_why_the_price_is_too_high() -> None:
    """A context worth no more than the price says so."""
    decision = small_agent(pd1_ucb(2)).decide(0)
    assert decision.why == (
        f"No nudge: knowing the context is worth {decision.gap:.2f} on the scale of the price, "
        "which does not exceed the price 0.00."
    )
    assert decision.gap < 0.0


def test_why_nothing_was_planned() -> None:
    """A rule that goes by the calendar says that it had no nudge planned."""
    for revealer in (Periodic(every=3), Never()):
        for context in (0, 1):
            decision = small_agent(Policy(revealer=revealer)).decide(context)
            assert decision.why == "No nudge: the rule has none planned for this step."


# What is refused, and that a refused call changes nothing.


def refuses(message: str, agent: Agent, call: Callable[[], Any], error: type[OpportuneError] = InputError) -> None:
    before = agent.to_dict()
    with pytest.raises(error, match="^" + re.escape(message) + "$"):
        call()
    assert agent.to_dict() == before


def test_learn_without_decide() -> None:
    """A reward or a skip without a decision is refused."""
    agent = small_agent()
    message = "there is no decision to learn from; call decide(context) first"
    refuses(message, agent, lambda: agent.learn(1.0), StateError)
    refuses(message, agent, agent.skip, StateError)
    agent.decide(0)
    agent.learn(1.0)
    refuses(message, agent, lambda: agent.learn(1.0), StateError)


def test_decide_twice() -> None:
    """A second decision before the reward is refused."""
    agent = small_agent()
    agent.decide(0)
    message = "step 1 has no reward yet; call learn(reward), or skip() if it is missing"
    refuses(message, agent, lambda: agent.decide(1), StateError)


@pytest.mark.parametrize("reward", [math.nan, math.inf, -math.inf, np.float64("nan"), None, "1", True, [1.0]], ids=repr)
def test_reward_that_is_no_number(reward: Any) -> None:
    """A reward must be a finite number; after a refusal the right one is still welcome."""
    agent = small_agent()
    agent.decide(0)
    refuses(f"reward is {reward!r}; expected a finite number", agent, lambda: agent.learn(reward))
    agent.learn(0.5)


@pytest.mark.parametrize("context", [2, -1, np.int64(7)], ids=repr)
def test_context_out_of_range(context: Any) -> None:
    """A context's number must be one of the problem's."""
    agent = small_agent()
    message = f"context is {context}; expected a whole number from 0 to 1"
    refuses(message, agent, lambda: agent.decide(context))


@pytest.mark.parametrize("context", [math.nan, math.inf, 0.5, np.float64(0.5), None, "0", True, (0,)], ids=repr)
def test_context_that_is_no_number(context: Any) -> None:
    """A context must be a whole number or a mapping of levels."""
    agent = small_agent()
    message = f"context is {context!r}; expected a whole number from 0 to 1"
    refuses(message, agent, lambda: agent.decide(context))


def test_context_by_unknown_names() -> None:
    """Levels and variables that the problem does not have are named, with what it has."""
    problem = small(variables={"mood": ["low", "high"]})
    agent = Agent(problem, pd1_ucb(2), horizon=5)
    refuses(
        "context has mood = 'middling'; expected one of ['low', 'high']",
        agent,
        lambda: agent.decide({"mood": "middling"}),
    )
    refuses(
        "context has mood = nan; expected one of ['low', 'high']",
        agent,
        lambda: agent.decide({"mood": math.nan}),
    )
    refuses("context lacks 'mood'; expected a level for each of ['mood']", agent, lambda: agent.decide({}))
    refuses(
        "context variable is 'moods'; expected one of 'mood'; did you mean 'mood'?",
        agent,
        lambda: agent.decide({"moods": "low"}),
    )


@pytest.mark.parametrize("coin", [1.0, -0.01, math.nan, math.inf, "0.5", True], ids=repr)
def test_coin_out_of_range(coin: Any) -> None:
    """A given coin must lie in [0, 1)."""
    agent = small_agent()
    message = f"coin is {coin!r}; expected a finite number >= 0 and < 1"
    refuses(message, agent, lambda: agent.decide(0, coin))


def test_horizon_over() -> None:
    """After the last decision another one is refused."""
    agent = small_agent(horizon=2)
    for _ in range(2):
        agent.decide(0)
        agent.learn(0.0)
    refuses("all 2 decisions are made; the horizon is over", agent, lambda: agent.decide(0), StateError)
    again = resumed(agent)
    refuses("all 2 decisions are made; the horizon is over", again, lambda: again.decide(0), StateError)


@pytest.mark.parametrize(
    ("problem", "policy", "settings", "message"),
    [
        ({}, pd1_ucb(2), {}, "problem is dict; expected a Problem"),
        (small(), "PD2", {}, "policy is str; expected a Policy, such as pd2_ucb(budget=10)"),
        (
            small(),
            pd2_ucb(Budget(2, shared=True)),
            {},
            "the policy's budget is shared between participants; expected shared=False for one agent",
        ),
        (small(), pd1_ucb(2), {"horizon": 0}, "horizon is 0; expected a whole number >= 1"),
        (small(), pd1_ucb(2), {"horizon": 2.0}, "horizon is 2.0; expected a whole number >= 1"),
        (
            small(),
            pd1_ucb(11),
            {},
            "budget is 11; expected at most 10, the number of decisions it is for",
        ),
        (
            small(),
            pd1_ucb(2),
            {"seed": -1},
            f"seed is -1; expected a whole number from 0 to {2**64 - 1}",
        ),
        (
            small(),
            pd1_ucb(2),
            {"stream": 2**64},
            f"stream is {2**64}; expected a whole number from 0 to {2**64 - 1}",
        ),
        (
            small(),
            Policy(recommender=FixedAction(action=2), revealer=Never()),
            {},
            "action is 2; expected a whole number from 0 to 1",
        ),
    ],
)
def test_agents_that_cannot_be(problem: Any, policy: Any, settings: dict[str, Any], message: str) -> None:
    """An agent that could not decide is refused when it is made."""
    with pytest.raises(InputError, match="^" + re.escape(message) + "$"):
        Agent(problem, policy, **{"horizon": 10, **settings})


def saved_agent() -> dict[str, Any]:
    agent = small_agent()
    agent.decide(1)
    agent.learn(0.3)
    agent.decide(0)
    saved: dict[str, Any] = json.loads(json.dumps(agent.to_dict()))
    return saved


def test_state_of_another_format() -> None:
    """A state in another format is refused with both formats and the version that wrote it."""
    saved = saved_agent() | {"format": 99, "version": "7.0"}
    with pytest.raises(StateError, match=r"^the state has format 99, written by version '7\.0'; this version"):
        Agent.from_dict(saved)


@pytest.mark.parametrize("saved", [{}, {"step": 3}, [1, 2], None, "state"], ids=repr)
def test_state_that_is_none(saved: Any) -> None:
    """What is no agent's state is refused as such."""
    with pytest.raises(StateError, match=r"^this is not an agent's state: it has no 'format'$"):
        Agent.from_dict(saved)


@pytest.mark.parametrize(
    "tamper",
    [
        lambda saved: saved.update(step=1),
        lambda saved: saved.update(seed=2),
        lambda saved: saved.update(waiting=None),
        lambda saved: saved["purse"].__setitem__(1, 0.0),
        lambda saved: saved["state"].__setitem__(0, saved["state"][0] + 1e-16),
        lambda saved: saved["state"].pop(),
        lambda saved: saved["policy"]["budget"].update(amount=3.0),
        lambda saved: saved["problem"].update(noise_sd=0.2),
        lambda saved: saved.pop("stream"),
        lambda saved: saved.pop("checksum"),
        lambda saved: saved.update(extra=1),
    ],
)
def test_tampered_state(tamper: Callable[[dict[str, Any]], Any]) -> None:
    """A state that was changed in any way after saving is refused."""
    saved = saved_agent()
    Agent.from_dict(saved)
    tamper(saved)
    message = "^the state's checksum does not fit its contents: it was changed or cut after saving$"
    with pytest.raises(StateError, match=message):
        Agent.from_dict(saved)
