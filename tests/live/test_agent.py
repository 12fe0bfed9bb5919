"""The live agent: what reality adds to a decision, what a decision says, what is refused."""

import math
import re
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np
import pytest

import opportune as op
from live_examples import mixed_problem, moment_problem
from opportune.algorithm.rng import COIN, draw
from opportune.checks import brief
from opportune.errors import InputError, OpportuneError, StateError
from opportune.revealers import pace
from opportune.revealers.ranking import BY_RANK

# One small problem for most of what follows: two contexts, two actions, orthogonal features. Context 1 is worth
# knowing, context 0 is not.


def small(**settings: Any) -> op.Problem:
    features = np.zeros((2, 2, 4))
    features[[0, 0, 1, 1], [0, 1, 0, 1], [0, 1, 2, 3]] = [1.0, 0.5, 0.2, 2.0]
    return op.Problem(features, [0.5, 0.5], **{"noise_sd": 0.1, "action_names": ["rest", "walk"], **settings})


def small_agent(policy: op.Policy | None = None, **settings: Any) -> op.Agent:
    return op.Agent(small(), policy or op.pd1_ucb(2), **{"horizon": 10, "seed": 1, "stream": 0, **settings})


def nudging(problem: Any = None, **settings: Any) -> op.Agent:
    """An agent that nudges at every step."""
    policy = op.Policy(revealer=op.Always(), budget=op.Budget(20), **settings)
    return op.Agent(problem or small(), policy, horizon=20, seed=1, stream=0)


def silent(problem: Any = None, **settings: Any) -> op.Agent:
    """An agent that never nudges."""
    return op.Agent(problem or small(), op.Policy(revealer=op.Never(), **settings), horizon=20, seed=1, stream=0)


def knowledge(agent: op.Agent) -> dict[str, Any]:
    """All that an agent has learned, frozen and spent; decision points that pass are counted all the same."""
    known = {name: numbers.tolist() for name, numbers in agent.numbers.arrays.items() if name != "budget"}
    spent = agent.numbers.at.views("budget", agent.numbers.arrays["budget"])
    return {**known, "price": spent.price.tolist(), "spent": spent.spent.tolist(), "nudges": spent.nudges.tolist()}


MOOD = {"hour": "am", "place": 1}  # of the mixed problem, whose mood is reported


# Three moments: propose, settle, learn.


def test_a_decision_in_three_moments() -> None:
    """`propose` says whether to nudge and what stands meanwhile, `settle` what is done, `learn` ends the step."""
    agent = nudging()
    proposal = agent.propose(1)
    assert (proposal.step, proposal.nudged, proposal.probability) == (1, True, 1.0)
    assert proposal.action in {"rest", "walk"}
    assert proposal.budget_left == agent.budget_left == 19.0
    decision = agent.settle(answered=True)
    assert (decision.step, decision.revealed, decision.answered) == (1, True, True)
    assert list(agent.open_steps) == [1]
    agent.learn(0.5)
    assert list(agent.open_steps) == []


def test_the_one_call_form_is_the_two_calls() -> None:
    """`decide` proposes and settles at once, whatever is public, sensed or reported."""
    rng = np.random.default_rng(1)
    for problem in (small(), mixed_problem(known=True), mixed_problem(known=False)):
        one, two = (op.Agent(problem, op.pd2_ucb(9), horizon=40, seed=3, stream=5) for _ in range(2))
        for _ in range(40):
            k = int(rng.integers(problem.contexts))
            opened, answered, reward = bool(rng.random() < 0.1), bool(rng.random() < 0.7), float(rng.normal())
            levels = problem.levels(k)
            told = {name: levels.pop(name) for name in ("mood",) if name in levels}
            proposal = two.propose(levels, opened=opened, reported=told or None)
            expected = two.settle(answered if proposal.nudged else None)
            decision = one.decide({**levels, **told}, opened=opened, answered=answered)
            assert decision == expected
            assert decision.context == levels
            one.learn(reward)
            two.learn(reward)
        assert knowledge(one) == knowledge(two)


def test_nothing_reported_is_known_before_a_reveal() -> None:
    """Whatever was told with the proposal, it and the steps without a reveal go the same way."""
    for problem, moods in (
        (mixed_problem(known=False), ({"mood": "a"}, {"mood": "c"})),
        (moment_problem(reported=True), ({"mood": 0.0, "pain": "no"}, {"mood": 1.0, "pain": "yes"})),
    ):
        context = MOOD if "hour" in problem.variables else {"ward": "a", "dose": 0.5, "steps": 1.5, "place": "out"}
        agents = [op.Agent(problem, op.pd2_ucb(5), horizon=20, seed=1, stream=0) for _ in range(3)]
        for coin in (0.0, 0.3, 0.9, 0.1):
            proposals = [a.propose(context, reported=m, coin=coin) for a, m in zip(agents, (*moods, None), strict=True)]
            assert proposals == [proposals[0]] * 3
            decisions = [agent.settle(False if proposals[0].nudged else None) for agent in agents]
            assert decisions == [decisions[0]] * 3
            assert decisions[0].reported is None
            for agent in agents:
                agent.learn(1.0)
        assert knowledge(agents[0]) == knowledge(agents[1]) == knowledge(agents[2])
        told = [
            agent.propose(context, opened=True, reported=m) for agent, m in zip(agents, (*moods, None), strict=True)
        ]
        assert told == [told[0]] * 3
        assert agents[0].settle().reported == moods[0]
        agents[1].settle()
        assert knowledge(agents[0]) != knowledge(agents[1])  # now it is uncovered


# Rules for what reality adds (docs/live.md).


def test_an_open_nudge_is_unanswered_once_the_next_decision_point_comes() -> None:
    """The next proposal settles it, and hands out the decision; without a nudge likewise."""
    agent = nudging()
    agent.propose(1)
    following = agent.propose(0)
    assert following.previous is not None
    assert (following.previous.step, following.previous.nudged, following.previous.answered) == (1, True, False)
    assert not following.previous.revealed
    assert following.previous.action == following.previous.stale_action
    assert list(agent.open_steps) == [1]
    quiet = silent()
    quiet.propose(1)
    previous = quiet.propose(0).previous
    assert previous is not None
    assert (previous.answered, previous.revealed) == (None, False)
    assert agent.settle(True).revealed
    assert agent.propose(1).previous is None


def test_an_opening_that_was_never_settled_is_a_reveal_all_the_same() -> None:
    """The patient had the app open: the next proposal settles the step as opened."""
    agent = silent()
    agent.propose(1, opened=True)
    previous = agent.propose(0).previous
    assert previous is not None
    assert previous.opened
    assert previous.revealed


def test_a_late_answer_counts_as_opening_at_the_next_decision_point() -> None:
    """It reveals nothing when it comes, and makes the next decision point a free reveal."""
    agent = nudging()
    agent.propose(1)
    agent.settle(answered=False)
    before = knowledge(agent)
    agent.answer_late(1)
    assert knowledge(agent) == before
    proposal = agent.propose(0)
    assert (proposal.opened, proposal.nudged, proposal.probability) == (True, False, 0.0)
    assert agent.settle().revealed
    assert not agent.propose(0).opened


def test_a_late_answer_waits_while_the_participant_is_away() -> None:
    """A decision point at which nothing can be revealed does not use it up."""
    agent = nudging()
    agent.propose(1)
    agent.settle(answered=False)
    agent.answer_late(1)
    assert not agent.propose(0, available=False, reason="asleep").opened
    agent.settle()
    assert agent.propose(0).opened


def test_a_late_answer_brings_what_it_reports() -> None:
    """Reported values of the late answer are sealed until the reveal that it leads to."""
    agents = [nudging(mixed_problem(known=False)) for _ in range(2)]
    for agent in agents:
        agent.propose(MOOD)
        agent.settle(answered=False)
        agent.learn(1.0)
    agents[0].answer_late(1, {"mood": "b"})
    agents[1].answer_late(1)
    assert knowledge(agents[0]) == knowledge(agents[1])
    for agent in agents:
        agent.propose(MOOD)
        agent.settle(reported={"mood": "a"})
    assert knowledge(agents[0]) != knowledge(agents[1])
    agents[1].propose(MOOD)
    agents[1].settle(True, reported={"mood": "a"}, earlier={1: {"mood": "b"}})
    assert agents[0].numbers.arrays["model"] == pytest.approx(agents[1].numbers.arrays["model"], abs=1e-12)


def test_an_opening_between_decision_points_counts_at_the_next_with_what_was_told() -> None:
    """The later of two reports counts; what is told at the decision point itself counts most; it is used up there."""
    one, other = (nudging(mixed_problem(known=False)) for _ in range(2))
    for agent in (one, other):
        agent.propose(MOOD)
        agent.settle(answered=False)
    one.open_between({"mood": "a"})
    one.open_between({"mood": "b"})
    resumed = type(one).from_dict(one.to_dict())
    for agent in (one, resumed):
        assert agent.propose(MOOD).opened
    other.propose(MOOD, opened=True, reported={"mood": "b"})
    assert one.settle() == resumed.settle()
    other.settle()
    assert knowledge(one) == knowledge(resumed) == knowledge(other)
    assert one.steps[2].reported == {"mood": "b"}
    assert not one.propose(MOOD).opened
    one.open_between({"mood": "b"})
    one.settle(answered=False)
    one.propose(MOOD, reported={"mood": "a"})
    assert one.steps[4].reported == {"mood": "a"}


def test_what_is_told_between_must_be_possible() -> None:
    """Refused at once, not at the next decision point."""
    agent = nudging(mixed_problem(known=False))
    refuses("mood is 'x'; expected one of ['a', 'b', 'c']", agent, lambda: agent.open_between({"mood": "x"}))
    with pytest.raises(InputError, match="hour"):
        agent.open_between({"hour": "am"})
    assert agent.opened_since is None


def test_only_an_unanswered_nudge_can_be_answered_late() -> None:
    """An answered one, one that was not made and one answered late already cannot."""
    agent = nudging()
    agent.propose(1)
    refuses("step 1 is not settled yet; call settle(...) first", agent, lambda: agent.answer_late(1), StateError)
    agent.settle(True)
    refuses("step 1 has no unanswered nudge", agent, lambda: agent.answer_late(1), StateError)
    agent.propose(1)
    agent.settle(False)
    agent.answer_late(2)
    refuses("step 2 has no unanswered nudge", agent, lambda: agent.answer_late(2), StateError)


def test_opened_with_the_proposal_is_free() -> None:
    """The rule is not asked, nothing is charged, the price stands, and the context is revealed."""
    agent = nudging()
    proposal = agent.propose(1, opened=True)
    assert (proposal.opened, proposal.nudged, proposal.probability, proposal.budget_left) == (True, False, 0.0, 20.0)
    decision = agent.settle()
    assert (decision.opened, decision.revealed, decision.answered) == (True, True, None)
    assert decision.action == "walk"


def test_opened_after_the_proposal_leaves_the_charge() -> None:
    """The call is no longer needed, the reveal happens, and what was charged stays charged."""
    agent = nudging()
    agent.propose(1)
    decision = agent.settle(opened=True)
    assert (decision.nudged, decision.opened, decision.revealed, decision.answered) == (True, True, True, None)
    assert decision.action == "walk"
    assert agent.budget_left == 19.0
    quiet = silent()
    quiet.propose(1)
    assert quiet.settle(opened=True).revealed


def test_a_participant_who_is_not_available_is_left_alone() -> None:
    """No nudge, the stale action, no charge, nothing learned; the reason is on record."""
    agent = nudging(small(), recommender=op.Thompson())
    for reason, expected in (("driving", "driving"), (None, "the participant is not available")):
        before = knowledge(agent)
        proposal = agent.propose(1, available=False, reason=reason)
        assert (proposal.nudged, proposal.probability, proposal.available) == (False, 0.0, False)
        decision = agent.settle()
        assert (decision.available, decision.reason, decision.revealed) == (False, expected, False)
        assert decision.action == proposal.action == decision.stale_action
        assert decision.why == f"No nudge: {expected}; the old advice stands: {decision.action}."
        assert knowledge(agent) == before
        message = f"step {decision.step} was not available: nothing is learned from it"
        refuses(message, agent, lambda: agent.learn(1.0), StateError)
        refuses(message, agent, agent.skip, StateError)
    assert list(agent.open_steps) == []


def test_who_is_not_available_cannot_be_opened() -> None:
    """An opening at the proposal does not count; one afterwards is refused."""
    agent = nudging()
    assert not agent.propose(1, available=False, opened=True).opened
    message = "step 1 is not available (the participant is not available); it cannot be opened"
    refuses(message, agent, lambda: agent.settle(opened=True), StateError)
    agent.settle()


def test_sensed_values_that_are_missing_make_a_missing_decision_point() -> None:
    """A sensed value that lacks or is None: as if not available, and the reason names it."""
    problem = small(variables={"steps": ["few", "many"]})
    for context in ({}, {"steps": None}):
        agent = nudging(problem)
        before = knowledge(agent)
        proposal = agent.propose(context)
        assert (proposal.available, proposal.reason) == (False, "no value of steps")
        assert not agent.settle().revealed
        assert knowledge(agent) == before
    agent = nudging(moment_problem(reported=False))
    proposal = agent.propose({"ward": "a", "dose": 0.0, "place": None})
    assert proposal.reason == "no value of steps, place"


def test_a_reward_that_never_comes_is_skipped() -> None:
    """A skipped step counts its context and nothing else; should the reward come after all, it is welcome."""
    gaps = {}
    for known in (True, False):
        problem = small() if known else small().replace(context_probs=None)
        agents = [op.Agent(problem, op.pd1_ucb(2), horizon=5, seed=1, stream=0) for _ in range(3)]
        for agent in agents[1:]:
            agent.decide(1, opened=True)
        agents[1].skip()
        agents[2].learn(0.0)
        assert list(agents[1].open_steps) == []
        gaps[known] = [agent.decide(1).gap for agent in agents]
        agents[1].learn(0.0, step=1)
        assert knowledge(agents[1])["model"] == knowledge(agents[2])["model"]
    fresh, skipped, learned = gaps[True]
    assert skipped == fresh != learned
    fresh, skipped, learned = gaps[False]
    assert fresh > 0.0
    assert skipped == learned == 0.0  # with one context seen, knowing the context adds nothing


def test_a_reward_may_come_whenever() -> None:
    """Before or after later decision points, in any order; each once, and open steps say which are missing."""
    agent = silent()
    for k in (0, 1, 1):
        agent.decide(k)
    assert list(agent.open_steps) == [1, 2, 3]
    agent.learn(0.3, step=2)
    agent.learn(0.1)
    assert list(agent.open_steps) == [1]
    agent.learn(0.2, step=1)
    assert list(agent.open_steps) == []
    message = "step 2 has its reward; call correct(reward, step=2) to change it"
    refuses(message, agent, lambda: agent.learn(0.3, step=2), StateError)
    refuses(message, agent, lambda: agent.skip(2), StateError)


def test_a_corrected_reward_supersedes_the_first() -> None:
    """Theta and every kept mean are those of the right reward; widths, radius and counts stay as they were."""
    agents = [silent() for _ in range(2)]
    for agent, rewards in zip(agents, ((0.5, 9.0, 0.2), (0.5, 0.7, 0.2)), strict=True):
        for k, reward in zip((0, 1, 0), rewards, strict=True):
            agent.decide(k)
            agent.learn(reward)
    wrong = agents[0].numbers.at.views("model", agents[0].numbers.arrays["model"])
    cov, width2 = wrong.cov.copy(), wrong.width2.copy()
    agents[0].correct(0.7, step=2)
    right = agents[1].numbers.at.views("model", agents[1].numbers.arrays["model"])
    np.testing.assert_allclose(wrong.theta, right.theta, atol=1e-12)
    np.testing.assert_allclose(wrong.mean, right.mean, atol=1e-12)
    np.testing.assert_array_equal(wrong.cov, cov)
    np.testing.assert_array_equal(wrong.width2, width2)


def test_what_cannot_be_corrected() -> None:
    """A step without a reward has nothing to correct."""
    agent = silent()
    agent.decide(0)
    message = "step 1 has no reward to correct (it is waiting)"
    refuses(message, agent, lambda: agent.correct(1.0, step=1), StateError)
    agent.skip()
    message = "step 1 has no reward to correct (it is skipped)"
    refuses(message, agent, lambda: agent.correct(1.0, step=1), StateError)


@pytest.mark.parametrize("when", ["before the reveal", "after the reveal", "corrected before the reveal"])
def test_a_pending_step_is_learned_from_once_it_is_uncovered(when: str) -> None:
    """With reported variables nothing is learned before the next reveal; the reward may come before or after it."""
    agent, expected = (silent(mixed_problem(known=False), recommender=op.FixedAction(action=2)) for _ in range(2))
    agent.propose(MOOD, reported={"mood": "b"})
    agent.settle()
    before = knowledge(agent)
    if when == "before the reveal":
        agent.learn(1.5)
    if when == "corrected before the reveal":
        agent.learn(7.0)
        agent.correct(1.5, step=1)
    assert knowledge(agent) == before
    agent.propose(MOOD, opened=True, reported={"mood": "a"})
    agent.settle()
    if when == "after the reveal":
        agent.learn(1.5, step=1)
    expected.decide({**MOOD, "mood": "b"}, opened=True)
    expected.learn(1.5)
    assert knowledge(agent)["model"] == pytest.approx(knowledge(expected)["model"], abs=1e-12)


def test_a_reveal_that_reports_nothing_leaves_its_step_pending() -> None:
    """The patient answers but does not tell: act by what is sensed, and wait for a later reveal to tell more."""
    problem = mixed_problem(known=False)
    agent = nudging(problem)
    agent.propose(MOOD)
    decision = agent.settle(answered=True)
    assert decision.revealed
    assert decision.reported is None
    before = knowledge(agent)
    agent.learn(1.0)
    assert knowledge(agent) == before
    agent.propose(MOOD)
    agent.settle(True, reported={"mood": "c"}, earlier={1: {"mood": "a"}})
    assert knowledge(agent)["model"] != before["model"]
    agent.propose(MOOD)
    message = "step 1 is not pending; expected a step that no reveal has uncovered"
    refuses(message, agent, lambda: agent.settle(True, earlier={1: {"mood": "b"}}), StateError)


# What a proposal and a decision say.


def test_a_decision_carries_what_an_auditor_needs() -> None:
    """The coin explains the nudge, the nudge the reveal, the reveal the action; price and budget add up."""
    problem = op.synthetic_worlds(1, seed=4)[0].problem
    agent = op.Agent(problem, op.pd2_ucb(30), horizon=200, seed=9, stream=17)
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
        assert decision.answered == (answered if decision.nudged else None)
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
    assert (decision.seed, decision.stream, decision.version) == (9, 17, op.__version__)


def test_a_decision_names_actions_and_the_context_as_given() -> None:
    """Names, not numbers; what the caller changes afterwards does not change the record, nor the agent."""
    agent = nudging(mixed_problem(known=True))
    context, told = dict(MOOD), {"mood": np.str_("b")}
    agent.propose(context, reported=told)
    decision = agent.settle(True)
    context["place"], told["mood"] = 0, np.str_("a")
    assert (decision.context, decision.reported) == ({"hour": "am", "place": 1}, {"mood": "b"})
    assert {decision.action, decision.fresh_action, decision.stale_action} <= {"rest", "walk", "call"}
    before = agent.to_dict()
    decision.context["place"] = 0
    assert agent.to_dict() == before


def test_a_given_coin_is_used() -> None:
    """With `coin` a decision falls as that coin says, and the coin is in the decision."""
    for coin in (0.0, 0.49, 0.5, 1.0 - 2.0**-53):
        decision = small_agent(op.naive_ucb(5)).decide(0, coin)
        assert decision.probability == 0.5
        assert (decision.coin, decision.nudged) == (coin, coin < 0.5)


def test_context_by_number_or_by_name() -> None:
    """A context may be its number or the levels of its variables."""
    for number, level in enumerate(("low", "high")):
        contexts: list[Any] = [number, np.int64(number), float(number), {"mood": level}, {"mood": np.str_(level)}]
        agents = [
            op.Agent(small(variables={"mood": ["low", "high"]}), op.pd1_ucb(2), horizon=5, seed=1, stream=0)
            for _ in contexts
        ]
        decisions = [agent.decide(context) for agent, context in zip(agents, contexts, strict=True)]
        assert {replace(decision, context=None) for decision in decisions} == {replace(decisions[0], context=None)}
        for agent in agents:
            agent.to_dict()  # numbers of NumPy are saved too


def test_hard_budget_left_counts_nudges() -> None:
    """With a hard budget what is left is the lesser of what is expected and what is counted."""
    agent = small_agent(op.naive_ucb(op.Budget(5, hard=True)))
    left = [agent.decide(0, coin).budget_left for coin in (0.9, 0.1, 0.1, 0.9, 0.9, 0.9)]
    assert left == [4.5, 4.0, 3.0, 3.0, 2.5, 2.0]


def test_without_a_budget_nothing_runs_out() -> None:
    """A baseline without a budget has infinitely much left."""
    agent = small_agent(op.Policy(revealer=op.Always()))
    assert agent.decide(0).budget_left == agent.budget_left == math.inf


def test_agents_do_not_share_anything() -> None:
    """Two agents that take turns decide as each would alone."""
    problem = op.synthetic_worlds(1, seed=1)[0].problem

    def alone(stream: int) -> list[op.Decision]:
        agent = op.Agent(problem, op.pd2_ucb(5), horizon=20, seed=3, stream=stream)
        return [step(agent, t) for t in range(20)]

    def step(agent: op.Agent, t: int) -> op.Decision:
        decision = agent.decide((3 * t + agent.stream) % 10)
        agent.learn(0.1 * t)
        return decision

    pair = [op.Agent(problem, op.pd2_ucb(5), horizon=20, seed=3, stream=stream) for stream in (1, 2)]
    both = [[step(agent, t) for agent in pair] for t in range(20)]
    assert [first for first, _ in both] == alone(1)
    assert [second for _, second in both] == alone(2)
    assert alone(1) != alone(2)


def test_repr_says_where_the_agent_stands() -> None:
    """An agent's text form names its policy, its step and what is left."""
    agent = small_agent(op.naive_ucb(5))
    agent.decide(0)
    assert repr(agent) == "Agent(naive, step 1 of 10, budget left 4.5)"


def test_why_opened() -> None:
    """An opening says that it was free."""
    agent = small_agent()
    assert agent.propose(0, opened=True).why == "No nudge: the patient has opened the app."
    assert agent.settle().why == "The patient opened the app, which costs nothing; advice for this moment: rest."


def test_why_nudged() -> None:
    """A nudge names worth, price, probability and coin, and then whether it was answered."""
    agent = small_agent(op.pd1_ucb(2))
    why = "Nudge: knowing the context is worth 1.00, where a nudge costs 0.00 (probability 1.00, coin 0.25)."
    assert agent.propose(1, coin=0.25).why == why
    assert agent.settle(True).why == f"{why} The patient answered; advice for this moment: walk."
    agent.skip()
    why = "Nudge: knowing the context is worth 1.00, where a nudge costs 0.40 (probability 1.00, coin 0.75)."
    assert agent.propose(1, coin=0.75).why == why
    assert agent.settle(False).why == f"{why} It went unanswered, so the old advice stands: walk."


def test_why_the_coin_said_no() -> None:
    """Where the coin decided, it is named with the probability it fell above."""
    assert small_agent(op.naive_ucb(5)).decide(1, coin=0.75).why == (
        "No nudge: this rule nudges whatever the context, but the coin 0.75 fell above the probability 0.50. "
        "The old advice stands: walk."
    )


def test_why_a_rule_without_price_nudges() -> None:
    """Rules that do not weigh the context do not say that they did."""
    for policy, probability in ((op.naive_ucb(5), "0.50"), (op.Policy(revealer=op.Always()), "1.00")):
        assert small_agent(policy).propose(0, coin=0.25).why == (
            f"Nudge: this rule nudges whatever the context (probability {probability}, coin 0.25)."
        )


def test_why_the_budget_is_spent() -> None:
    """Once nothing is left, that is the reason, whatever the context is worth."""
    for policy in (op.pd1_ucb(1), op.Policy(revealer=op.Always(), budget=op.Budget(1, hard=True))):
        agent = small_agent(policy)
        assert agent.decide(1).nudged
        for context in (0, 1):
            decision = agent.decide(context)
            assert decision.why == f"No nudge: the budget is spent. The old advice stands: {decision.action}."


def test_why_the_price_is_too_high() -> None:
    """A context worth no more than the price says so; if the advice is stale, that too."""
    agent = small_agent(op.pd1_ucb(2))
    decision = agent.decide(0)
    assert decision.gap < 0.0
    worth = f"No nudge: knowing the context is worth {decision.gap:.2f}, where a nudge costs 0.00."
    assert decision.why == f"{worth} The old advice stands: {decision.action}."
    for _ in range(3):
        agent.learn(-50.0)
        decision = agent.decide(0)
    change = f"from {decision.stale_action} to {decision.fresh_action}"
    assert decision.fresh_action != decision.stale_action
    assert f"; what was learned since the last contact would change the advice {change}" in decision.why


def test_why_nothing_was_planned() -> None:
    """A rule that goes by the calendar says that it had no nudge planned."""
    for revealer in (op.Periodic(every=3), op.Never()):
        for context in (0, 1):
            decision = small_agent(op.Policy(revealer=revealer)).decide(context)
            stands = f"The old advice stands: {decision.action}."
            assert decision.why == f"No nudge: the rule has none planned for this step. {stands}"


def test_why_staleness_made_the_difference() -> None:
    """Under PD2 stale advice raises the probability; where the coin fell in between, that made the difference."""
    made = small_agent(op.pd2_ucb(5)).propose(1, coin=0.0)
    fresh, stale = ("walk", "rest") if made.action == "rest" else ("rest", "walk")
    raised = replace(made, gap=0.4, price=0.1, probability=0.9, fresh_action=fresh, action=stale, nudged=True)
    change = f"what was learned since the last contact would change the advice from {stale} to {fresh}"
    for coin, tail in ((0.5, " and made the difference"), (0.3, "")):
        assert replace(raised, coin=coin).why == (
            f"Nudge: knowing the context is worth 0.40, where a nudge costs 0.10; {change}, which raised the "
            f"probability from 0.40 to 0.90{tail} (probability 0.90, coin {coin:.2f})."
        )
    same = replace(raised, probability=0.4, coin=0.3)  # beyond what the tolerance allows, or PD1
    assert change in same.why
    assert "raised" not in same.why
    assert "would change" not in replace(raised, fresh_action=stale, coin=0.5).why


def test_why_under_pace_names_stale_advice() -> None:
    """PACE's own words are followed by what fresh advice would be; a debt without which nothing is gained is named."""
    made = small_agent(op.pace_ucb(5)).propose(1, coin=0.0)
    other = "walk" if made.action == "rest" else "rest"
    assert f"would change the advice from {made.action} to {other}" in replace(made, fresh_action=other).why
    assert "would change" not in replace(made, fresh_action=made.action).why
    notes = pace.Notes(*(made.notes or ()))._replace(debt=0.5, worth=0.4, cause=BY_RANK)
    owed = "following old advice has cost about 0.50 since the last contact"
    assert owed in replace(made, notes=notes).why
    assert "without that cost nothing would be gained by it now" in replace(made, notes=notes).why
    assert "without that cost" not in replace(made, notes=notes._replace(worth=0.9)).why


# What is refused, and that a refused call changes nothing.


def refuses(message: str, agent: op.Agent, call: Callable[[], Any], error: type[OpportuneError] = InputError) -> None:
    before = agent.to_dict()
    with pytest.raises(error, match="^" + re.escape(message) + "$"):
        call()
    assert agent.to_dict() == before


def test_calls_out_of_order() -> None:
    """Nothing is settled that was not proposed, nothing learned that was not settled."""
    agent = small_agent()
    message = "there is no decision to learn from; call propose(context) or decide(context) first"
    refuses(message, agent, lambda: agent.learn(1.0), StateError)
    refuses(message, agent, agent.skip, StateError)
    message = "there is no open proposal; call propose(context) first"
    refuses(message, agent, agent.settle, StateError)
    agent.propose(0)
    message = "step 1 is not settled yet; call settle(...) first"
    refuses(message, agent, lambda: agent.learn(1.0), StateError)
    refuses(message, agent, lambda: agent.correct(1.0, step=1), StateError)
    agent.settle()
    refuses("there is no open proposal; call propose(context) first", agent, agent.settle, StateError)
    message = "step is 2; expected a whole number from 1 to 1"
    refuses(message, agent, lambda: agent.learn(1.0, step=2))


def test_what_became_of_a_nudge_must_be_said() -> None:
    """A nudge was answered or not; where none was made, nothing was answered."""
    agent = nudging()
    agent.propose(1)
    message = "step 1 made a nudge; say settle(answered=True) or settle(answered=False)"
    refuses(message, agent, agent.settle, StateError)
    refuses("answered is 'yes'; expected True or False", agent, lambda: agent.settle("yes"))  # type: ignore[arg-type]
    quiet = silent()
    quiet.propose(1)
    message = "step 1 made no nudge that could be answered; call settle() without it"
    refuses(message, quiet, lambda: quiet.settle(True), StateError)
    refuses(message, quiet, lambda: quiet.settle(False), StateError)


def test_reported_values_need_a_reveal() -> None:
    """Told values without a reveal are refused, and so are values and steps that cannot be."""
    agent = nudging(mixed_problem(known=True))
    agent.propose(MOOD)
    message = "reported values were given, but nothing was revealed; say answered=True or opened=True"
    refuses(message, agent, lambda: agent.settle(False, reported={"mood": "a"}), StateError)
    refuses(message, agent, lambda: agent.settle(False, earlier={1: {"mood": "a"}}), StateError)
    message = "mood is 'z'; expected one of ['a', 'b', 'c']"
    refuses(message, agent, lambda: agent.settle(True, reported={"mood": "z"}))
    message = "reported variable is 'place'; expected one of 'mood'"
    refuses(message, agent, lambda: agent.settle(True, reported={"place": 1}))
    message = "reported is 3; expected {variable: value}"
    refuses(message, agent, lambda: agent.settle(True, reported=3))  # type: ignore[arg-type]
    message = "earlier is [1]; expected {step: {variable: value}}"
    refuses(message, agent, lambda: agent.settle(True, earlier=[1]))  # type: ignore[arg-type]
    message = "step 1 is not settled yet; call settle(...) first"
    refuses(message, agent, lambda: agent.settle(True, earlier={1: {"mood": "a"}}), StateError)
    agent.settle(False)
    message = "mood is 'z'; expected one of ['a', 'b', 'c']"
    refuses(message, agent, lambda: agent.answer_late(1, {"mood": "z"}))
    agent.propose(MOOD)
    refuses(message, agent, lambda: agent.settle(True, reported={"mood": "a"}, earlier={1: {"mood": "z"}}))


def test_what_is_reported_is_not_part_of_the_context() -> None:
    """Reported values have a place of their own; a number would give them away."""
    agent = silent(mixed_problem(known=True))
    message = "'mood' is reported; expected it in reported={...}, not in context"
    refuses(message, agent, lambda: agent.propose({**MOOD, "mood": "a"}))
    message = "context is 3; expected {variable: value}, as some variables are reported"
    refuses(message, agent, lambda: agent.propose(3))
    other = silent()
    message = "reported is {'mood': 'a'}; expected none, as no variable is reported"
    refuses(message, other, lambda: other.propose(0, reported={"mood": "a"}))


def test_a_public_value_must_be_given() -> None:
    """Everyone always sees it, so it cannot be missing."""
    agent = silent(mixed_problem(known=True))
    message = "context lacks 'hour'; expected a level, as the variable is public"
    refuses(message, agent, lambda: agent.propose({"place": 1}))


@pytest.mark.parametrize(
    "reward",
    [math.nan, math.inf, -math.inf, np.float64("nan"), None, "1", True, [1.0], 10**400],
    ids=lambda r: repr(r)[:9],
)
def test_reward_that_is_no_number(reward: Any) -> None:
    """A reward must be a finite number; after a refusal the right one is still welcome."""
    agent = small_agent()
    agent.decide(0)
    message = f"reward is {brief(reward)}; expected a finite number"
    refuses(message, agent, lambda: agent.learn(reward))
    agent.learn(0.5)
    refuses(message, agent, lambda: agent.correct(reward, step=1))


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
    given = context.item() if isinstance(context, np.generic) else context
    message = f"context is {given!r}; expected a whole number from 0 to 1"
    refuses(message, agent, lambda: agent.decide(context))


def test_context_by_unknown_names() -> None:
    """Levels and variables that the problem does not have are named, with what it has."""
    agent = nudging(small(variables={"mood": ["low", "high"]}))
    message = "mood is 'middling'; expected one of ['low', 'high']"
    refuses(message, agent, lambda: agent.decide({"mood": "middling"}))
    refuses("mood is nan; expected one of ['low', 'high']", agent, lambda: agent.decide({"mood": math.nan}))
    message = "context variable is 'moods'; expected one of 'mood'; did you mean 'mood'?"
    refuses(message, agent, lambda: agent.decide({"moods": "low"}))


def test_numbers_out_of_bounds() -> None:
    """Where contexts are not finite, numbers must lie within their variable's bounds."""
    agent = silent(moment_problem(reported=False))
    context = {"ward": "a", "dose": 0.5, "steps": 1.5, "place": "out"}
    for steps in (2.1, -0.1, math.nan, "many", True):
        message = f"steps is {steps!r}; expected a finite number >= 0 and <= 2"
        refuses(message, agent, partial(agent.propose, {**context, "steps": steps}))
    refuses("context is 0; expected {variable: value}", agent, lambda: agent.propose(0))
    agent.propose(context)


@pytest.mark.parametrize("coin", [1.0, -0.01, math.nan, math.inf, "0.5", True], ids=repr)
def test_coin_out_of_range(coin: Any) -> None:
    """A given coin must lie in [0, 1); an open step stays open after a refusal."""
    agent = small_agent()
    agent.propose(0)
    message = f"coin is {coin!r}; expected a finite number >= 0 and < 1"
    refuses(message, agent, lambda: agent.propose(0, coin=coin))


def test_yes_and_no() -> None:
    """Flags are True or False, a reason is text."""
    agent = small_agent()
    refuses("opened is 1; expected True or False", agent, lambda: agent.propose(0, opened=1))  # type: ignore[arg-type]
    message = "available is None; expected True or False"
    refuses(message, agent, lambda: agent.propose(0, available=None))  # type: ignore[arg-type]
    message = "reason is 3; expected text"
    refuses(message, agent, lambda: agent.propose(0, available=False, reason=3))  # type: ignore[arg-type]


def test_horizon_over() -> None:
    """After the last decision another one is refused; rewards are welcome still."""
    agent = small_agent(horizon=2)
    for _ in range(2):
        agent.decide(0)
    refuses("all 2 decisions are made; the horizon is over", agent, lambda: agent.decide(0), StateError)
    agent.learn(0.0, step=1)


@pytest.mark.parametrize(
    ("problem", "policy", "settings", "message"),
    [
        ({}, op.pd1_ucb(2), {}, "problem is {}; expected a Problem"),
        (small(), "PD2", {}, "policy is 'PD2'; expected a Policy, such as pd2_ucb(budget=10)"),
        (
            small(),
            op.pd2_ucb(op.Budget(2, shared=True)),
            {},
            "the policy's budget is shared between participants; expected a Cohort for them",
        ),
        (small(), op.pd1_ucb(2), {"horizon": 0}, "horizon is 0; expected a whole number from 1 to 10000000"),
        (small(), op.pd1_ucb(2), {"horizon": 2.0}, "horizon is 2.0; expected a whole number from 1 to 10000000"),
        (small(), op.pd1_ucb(11), {}, "budget is 11; expected at most 10, the number of decisions it is for"),
        (small(), op.pd1_ucb(2), {"seed": -1}, f"seed is -1; expected a whole number from 0 to {2**64 - 1}"),
        (
            small(),
            op.pd1_ucb(2),
            {"stream": 2**64},
            f"stream is {2**64}; expected a whole number from 0 to {2**64 - 1}",
        ),
        (
            small(),
            op.Policy(recommender=op.FixedAction(action=2), revealer=op.Never()),
            {},
            "action is 2; expected a whole number from 0 to 1",
        ),
    ],
)
def test_agents_that_cannot_be(problem: Any, policy: Any, settings: dict[str, Any], message: str) -> None:
    """An agent that could not decide is refused when it is made."""
    with pytest.raises(InputError, match="^" + re.escape(message) + "$"):
        op.Agent(problem, policy, **{"horizon": 10, "seed": 1, "stream": 0, **settings})


def test_seed_and_stream_must_be_named() -> None:
    """Whose coins these are is never taken from the air."""
    for settings in ({"seed": 1}, {"stream": 1}):
        with pytest.raises(TypeError, match=r"missing 1 required keyword-only argument: '(seed|stream)'"):
            op.Agent(small(), op.pd1_ucb(2), horizon=10, **settings)
