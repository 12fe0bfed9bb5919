"""Saved agents and cohorts: resumed exactly, or refused with the reason."""

import copy
import json
import math
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import opportune as op
from live_examples import OPTIMISTIC, POLICIES, mixed_problem, moment_problem
from opportune.errors import StateError
from opportune.live import saving

HORIZON = 20
Saved = dict[str, Any]


def through_text(saved: Saved) -> Saved:
    """What is left of a state that was written to a file of strict JSON and read again."""
    read: Saved = json.loads(json.dumps(saved, allow_nan=False))
    return read


def resumed(agent: op.Agent) -> op.Agent:
    return op.Agent.from_dict(through_text(agent.to_dict()))


# Resuming.


class Script:
    """A run in which everything happens, as a list of calls that any agent can be given."""

    def __init__(self, problem: Any, seed: int) -> None:
        self.problem = problem
        self.rng = np.random.default_rng(seed)

    def context(self) -> tuple[dict[str, Any], dict[str, Any]]:
        """Values of the public and sensed variables, and of the reported ones."""
        values: dict[str, Any] = {}
        for name, variable in self.problem.variables.items():
            if isinstance(variable, op.Number):
                values[name] = float(self.rng.uniform(variable.low, variable.high))
            elif name not in self.problem.schedule.variables:
                values[name] = variable[int(self.rng.integers(len(variable)))]
        told = {name: v for name, v in values.items() if self.problem.visibility[name] == "reported"}
        return {name: v for name, v in values.items() if name not in told}, told

    def calls(self, agent: op.Agent) -> list[tuple[str, tuple[Any, ...], dict[str, Any]]]:
        """What may come next for an agent that stands where this one does."""
        rng = self.rng
        made = agent.open_proposal
        if made is not None and rng.random() < 0.8:
            told = self.context()[1]
            opened = made.available and bool(rng.random() < 0.2)
            answered = bool(rng.random() < 0.5) if made.nudged else None
            revealed = made.opened or opened or bool(answered)
            reported = told if told and revealed and rng.random() < 0.6 else None
            return [("settle", (answered,), {"opened": opened, "reported": reported})]
        calls: list[tuple[str, tuple[Any, ...], dict[str, Any]]] = []
        for step in agent.open_steps:
            if rng.random() < 0.5:
                skipped = rng.random() < 0.2
                calls.append(("skip", (step,), {}) if skipped else ("learn", (float(rng.normal()), step), {}))
        late = [s.step for s in agent.steps.values() if s.unanswered]
        if late and rng.random() < 0.3:
            calls.append(("answer_late", (late[-1],), {}))
        learned = [s.step for s in agent.steps.values() if s.status == "learned"]
        if learned and rng.random() < 0.2:
            calls.append(("correct", (float(rng.normal()), int(rng.choice(learned))), {}))
        known, told = self.context()
        sealed = told if told and rng.random() < 0.3 else None
        about = {"opened": bool(rng.random() < 0.1), "available": bool(rng.random() < 0.9), "reported": sealed}
        return [*calls, ("propose", (known,), about)]


def goes_on_exactly(problem: Any, policy: op.Policy) -> None:
    """An agent that is saved and read again after every call makes the calls' answers of one that never stops."""
    steady = op.Agent(problem, policy, horizon=HORIZON, seed=2**63 + 7, stream=2**40)
    stopped = resumed(steady)
    script = Script(problem, seed=3)
    while steady.step < HORIZON:
        for name, arguments, settings in script.calls(steady):
            expected = getattr(steady, name)(*arguments, **settings)
            assert getattr(stopped, name)(*arguments, **settings) == expected
            stopped = resumed(stopped)
    assert stopped.to_dict() == steady.to_dict()
    assert any(s.status == "learned" for s in steady.steps.values())


@pytest.mark.parametrize(
    "policy",
    [*POLICIES[::3], *(policy for policy in POLICIES if "PACE" in policy.name)],
    ids=lambda policy: policy.name,
)
@pytest.mark.parametrize(
    "problem",
    [
        op.synthetic_worlds(1, seed=1)[0].informed_problem(),
        mixed_problem(known=True).replace(largest_gap=2.0),
        mixed_problem(known=False).replace(largest_gap=2.0),
        moment_problem(reported=False),
        moment_problem(reported=True),
    ],
    ids=["all sensed", "mixed", "mixed, p unknown", "moments", "moments, reported"],
)
def test_an_agent_resumed_after_every_call_goes_on_as_if_it_had_never_stopped(problem: Any, policy: op.Policy) -> None:
    """Also with open steps, pending steps, an open nudge, a late answer on its way."""
    goes_on_exactly(problem, policy)


@pytest.mark.parametrize("policy", OPTIMISTIC, ids=lambda policy: policy.name)
def test_optimistic_agents_too(policy: op.Policy) -> None:
    """An unknown context distribution that is met with optimism is resumed, too."""
    goes_on_exactly(op.synthetic_worlds(1, seed=1, known=False)[0].problem, policy)


def test_a_finished_agent_stays_finished() -> None:
    """Resumed at the end of its horizon, an agent makes no further decision."""
    agent = op.Agent(moment_problem(reported=False), op.pd2_ucb(1), horizon=1, seed=1, stream=0)
    agent.propose({"ward": "a", "dose": 0.1, "steps": 1, "place": "out"})
    with pytest.raises(StateError, match=r"^all 1 decisions are made; the horizon is over$"):
        resumed(agent).propose({"ward": "a", "dose": 0.1, "steps": 1, "place": "out"})


# What is refused.


def saved_agent() -> Saved:
    """Five steps: revealed and learned, pending with a reward, pending, not available, and an open nudge."""
    policy = op.Policy(revealer=op.Always(), budget=op.Budget(5, hard=True))
    agent = op.Agent(mixed_problem(known=False), policy, horizon=10, seed=1, stream=0)
    here = {"hour": "am", "place": 0}
    agent.propose(here, opened=True, reported={"mood": "a"})
    agent.settle()
    agent.learn(0.3)
    for reported in ({"mood": "b"}, None):
        agent.propose(here, reported=reported)
        agent.settle(False)
    agent.learn(0.7, step=2)
    agent.propose({**here, "place": None})
    agent.settle()
    agent.propose(here)
    return through_text(agent.to_dict())


def saved_pace() -> Saved:
    """Five steps under PACE, with an unknown context distribution."""
    agent = op.Agent(mixed_problem(known=False), op.pace_ucb(5), horizon=10, seed=1, stream=0)
    for _ in range(5):
        made = agent.propose({"hour": "am", "place": 0})
        agent.settle(False if made.nudged else None)
    return through_text(agent.to_dict())


def saved_moments() -> Saved:
    """Contexts not finite: a step that was learned from, one pending, one open."""
    agent = op.Agent(moment_problem(reported=True), op.pd2_ucb(5), horizon=10, seed=1, stream=0)
    here = {"ward": "a", "dose": 0.5, "steps": 1.5, "place": "out"}
    agent.propose(here, opened=True, reported={"mood": 0.5, "pain": "no"})
    agent.settle()
    agent.learn(0.3)
    agent.propose(here, coin=0.99)
    agent.propose(here, coin=0.99)
    return through_text(agent.to_dict())


def saved_cohort() -> Saved:
    """Two participants who share a budget and a model."""
    policy = op.Policy(revealer=op.Always(), budget=op.Budget(6, shared=True), pooled=True)
    cohort = op.Cohort(mixed_problem(known=False), policy, horizon=10, seed=1, participants=3)
    for name in ("ann", "bob"):
        cohort.enrol(name).propose({"hour": "am", "place": 0})
    return through_text(cohort.to_dict())


def put(*keys: Any, value: Any) -> Callable[[Saved], None]:
    """Put a value where these keys lead."""

    def damage(saved: Saved) -> None:
        inner = saved
        for key in keys[:-1]:
            inner = inner[key]
        inner[keys[-1]] = value

    return damage


def drop(*keys: Any) -> Callable[[Saved], None]:
    """Take away what these keys lead to."""

    def damage(saved: Saved) -> None:
        inner = saved
        for key in keys[:-1]:
            inner = inner[key]
        del inner[keys[-1]]

    return damage


def number(part: str, value: Any) -> Callable[[Saved], None]:
    """Change the first number of a part of the state."""
    return put("state", part, 0, value=value)


def longer(*keys: Any) -> Callable[[Saved], None]:
    """One number more than there should be."""

    def damage(saved: Saved) -> None:
        inner = saved
        for key in keys:
            inner = inner[key]
        inner.append(0.0)  # type: ignore[attr-defined]

    return damage


def rows(*damaged: tuple[str, Callable[[Saved], Any], str]) -> list[Any]:
    """A table of (what is damaged, how, what the refusal says)."""
    return [pytest.param(damage, message, id=name) for name, damage, message in damaged]


PARTS = (
    "model.theta", "model.cov", "model.mean", "counts.count", "counts.pending_total", "snapshot.theta",
    "contacts.since", "recommender.state.action", "budget.points",
)  # fmt: skip
ALWAYS = op.Policy(revealer=op.Always()).describe()["revealer"]

DAMAGED_AGENTS = rows(
    # what it is
    ("format 4", put("format", value=4), "has format 4"),
    ("a later format", put("format", value=6), "has format 6"),
    ("format as text", put("format", value="5"), "has format '5'"),
    ("no kind", drop("kind"), "kind is None; expected 'agent'"),
    ("a cohort's kind", put("kind", value="cohort"), "kind is 'cohort'; expected 'agent'"),
    # what is missing
    *[
        (f"no {key}", drop(key), f"it lacks '{key}'")
        for key in ("problem", "policy", "horizon", "seed", "stream", "step", "state", "steps", "order", "proposal")
    ],
    ("no opened_since", drop("opened_since"), "it lacks 'opened_since'"),
    *[(f"no {part}", drop("state", part), f"it lacks {part}") for part in PARTS],
    *[
        (f"a step without {key}", drop("steps", 0, key), f"it lacks '{key}'")
        for key in ("context", "reported", "action", "settled", "seen", "unanswered", "status", "reward")
    ],
    ("no coin", drop("proposal", "coin"), "coin"),
    ("no features", drop("problem", "features"), "the problem lacks 'features'"),
    ("no revealer", drop("policy", "revealer"), "the policy lacks 'revealer'"),
    # numbers that cannot be
    ("horizon 0", put("horizon", value=0), "horizon is 0"),
    ("horizon as text", put("horizon", value="10"), "horizon is '10'"),
    ("horizon true", put("horizon", value=True), "horizon is True"),
    ("seed negative", put("seed", value=-1), "seed is -1"),
    ("seed a fraction", put("seed", value=1.5), "seed is 1.5"),
    ("stream too large", put("stream", value=2**64), "stream is"),
    ("step negative", put("step", value=-1), "step is -1"),
    ("step beyond the horizon", put("step", value=11), "step is 11"),
    ("step too small", put("step", value=2), "steps are not one for each of 2"),
    ("fewer steps", drop("steps", 0), "steps are not one for each"),
    ("steps of another kind", put("steps", value={}), "steps are not one for each"),
    ("a step of another kind", put("steps", 0, value=7), "cannot be resumed"),
    # the state's parts
    *[(f"{part} too long", longer("state", part), f"{part} is ") for part in PARTS],
    *[(f"{part} empty", put("state", part, value=[]), f"{part} is 0 numbers") for part in PARTS],
    *[(f"{part} of another kind", put("state", part, value={}), f"{part} is dict") for part in PARTS],
    *[(f"{part} has NaN", number(part, math.nan), f"{part} holds NaN or infinity") for part in PARTS],
    *[(f"{part} infinite", number(part, -math.inf), f"{part} holds NaN or infinity") for part in PARTS],
    *[(f"{part} too large", number(part, 2e200), f"{part} holds a number beyond 1e+200") for part in PARTS],
    *[(f"{part} has 400 digits", number(part, 10**400), f"{part} holds NaN or infinity") for part in PARTS],
    *[(f"{part} has text", number(part, "0"), f"{part} holds something that is not a number") for part in PARTS],
    *[(f"{part} has true", number(part, True), "not a number") for part in PARTS],
    *[(f"{part} has null", number(part, None), "not a number") for part in PARTS],
    *[(f"{part} nested", number(part, [0.0]), "not a number") for part in PARTS],
    ("state a list", put("state", value=[]), "state is []"),
    ("negative variance", number("model.cov", -1.0), "model.cov has a variance that is not positive"),
    ("frozen variance 0", number("snapshot.cov", 0.0), "snapshot.cov has a variance that is not positive"),
    ("negative radius", number("model.radius", -1.0), "model.radius is -1; expected at least 0"),
    ("negative frozen radius", number("snapshot.radius", -1.0), "snapshot.radius is -1; expected at least 0"),
    ("negative log_det", number("model.log_det", -1.0), "model.log_det is -1; expected at least -1e-09"),
    ("an action too large", number("recommender.state.action", 3.0), "state.action is 3; expected at most 2"),
    ("a negative action", number("recommender.state.action", -1.0), "state.action is -1; expected at least 0"),
    ("half an action", number("recommender.state.action", 0.5), "state.action is not a whole number"),
    ("negative frozen count", number("snapshot.count", -1.0), "snapshot.count is -1; expected at least 0"),
    ("more frozen than counted", number("snapshot.count", 9.0), "snapshot.count is more than was counted"),
    ("another count", number("counts.count", 7.0), "counts.count is not what its steps add up to"),
    ("another tally", number("counts.seen", 7.0), "counts.count is not what its steps add up to"),
    ("something pending", number("counts.pending_seen", 1.0), "counts.pending_seen is not 0"),
    ("a reward pending", number("counts.pending_count", 1.0), "counts.pending_count is not 0"),
    ("something held", number("counts.held_until", 3.0), "counts.held_until is not 0"),
    ("negative price", number("budget.price", -0.1), "budget.price is -0.1; expected at least 0"),
    ("negative spending", number("budget.spent", -0.1), "budget.spent is -0.1; expected at least 0"),
    ("spent more than there were decisions", number("budget.spent", 5.1), "budget.spent is 5.1; expected at most 5"),
    ("overspent", put("policy", "budget", "amount", value=1.0), "budget.spent is 3; the budget is 1"),
    ("negative nudges", number("budget.nudges", -1.0), "budget.nudges is -1; expected at least 0"),
    ("half a nudge", number("budget.nudges", 0.5), "budget.nudges is not a whole number"),
    ("more nudges than decisions", number("budget.nudges", 8.0), "budget.nudges is 8; expected at most 5"),
    ("more decision points than were", number("budget.points", 9.0), "budget.points is 9 after 5 decisions"),
    ("fewer decision points than were", number("budget.points", 1.0), "budget.points is 1 after 5 decisions"),
    ("more openings than decisions", number("budget.opened", 6.0), "budget.opened is 6; expected at most 5"),
    ("a reveal to come", number("contacts.last_reveal", 9.0), "contacts.last_reveal is 9; expected at most 5"),
    ("half an opening", number("contacts.opened", 0.5), "contacts.opened is not a whole number"),
    # steps
    ("an action out of range", put("steps", 0, "action", value=3), "action is 3"),
    ("an action undecided", put("steps", 0, "action", value=-1), "action is -1"),
    ("an action by name", put("steps", 0, "action", value="rest"), "action is 'rest'"),
    ("settled as text", put("steps", 0, "settled", value="true"), "settled is 'true'"),
    ("settled as 1", put("steps", 0, "settled", value=1), "settled is 1"),
    ("seen as null", put("steps", 0, "seen", value=None), "seen is None"),
    ("unanswered as text", put("steps", 0, "unanswered", value="no"), "unanswered is 'no'"),
    ("another status", put("steps", 0, "status", value="lost"), "status is 'lost'"),
    ("a reward of NaN", put("steps", 0, "reward", value=math.nan), "reward is nan"),
    ("a reward as text", put("steps", 0, "reward", value="0.3"), "reward is '0.3'"),
    ("a reward without one", put("steps", 2, "reward", value=0.3), "step 3 has a reward, but is waiting"),
    ("a level that is none", put("steps", 0, "context", "place", value=7), "place is 7"),
    ("a variable that is none", put("steps", 0, "context", "plaice", value=7), "'plaice'"),
    ("a mood that is none", put("steps", 0, "reported", "mood", value="z"), "mood is 'z'"),
    ("a context by number", put("steps", 0, "context", value=3), "context is 3"),
    ("a context out of place", put("steps", 0, "context", "hour", value="pm"), "not what its steps add up to"),
    ("reported as text", put("steps", 0, "reported", value="a"), "reported is 'a'"),
    ("seen without its values", put("steps", 2, "seen", value=True), "step 3 is seen, but lacks reported values"),
    ("decided without its values", put("steps", 3, "status", value="waiting"), "step 4 lacks"),
    ("an open step in the middle", put("steps", 1, "settled", value=False), "step 2 is not settled"),
    ("the open step is settled", put("steps", -1, "settled", value=True), "action is -1"),
    ("an order that lacks a step", put("order", value=[]), "order is []"),
    ("an order with a step twice", put("order", value=[2, 2]), "order is [2, 2]"),
    ("an order of another step", put("order", value=[1]), "order is [1]"),
    ("an order as text", put("order", value=["2"]), "order is '2'"),
    ("withdrawn as text", put("withdrawn", value="no"), "withdrawn is 'no'"),
    ("withdrawn with steps to come", put("withdrawn", value=True), "budget.foregone is 0; expected 5"),
    ("opened_since as 0", put("opened_since", value=0), "opened_since is 0"),
    ("told of what nobody reports", put("opened_since", value={"x": 1}), "'x'"),
    # the open proposal
    ("no proposal", put("proposal", value=None), "do not fit together"),
    ("a proposal as a list", put("proposal", value=[1]), "cannot be resumed"),
    ("a proposal with more in it", put("proposal", "mood", value=1), "cannot be resumed"),
    ("a proposal of another step", put("proposal", "step", value=1), "the open proposal is of step 1"),
    ("a probability of 2", put("proposal", "probability", value=2.0), "probability is 2.0"),
    ("a coin of 1", put("proposal", "coin", value=1.0), "coin is 1.0"),
    ("a gap of NaN", put("proposal", "gap", value=math.nan), "gap is nan"),
    ("no nudge, says the proposal", put("proposal", "nudged", value=False), "not what its coin says"),
    ("nudged as 1", put("proposal", "nudged", value=1), "nudged is 1"),
    ("an action that is none", put("proposal", "action", value="run"), "action is 'run'"),
    ("a fresh action that is none", put("proposal", "fresh_action", value=None), "action is None"),
    ("a reason while available", put("proposal", "reason", value="asleep"), "reason is 'asleep'"),
    ("a nudge while away", lambda s: s["proposal"].update(available=False, reason="asleep"), "is not available"),
    ("another revealer's proposal", put("proposal", "priced", value=True), "of another revealer"),
    ("an endless budget", put("proposal", "budget_left", value=None), "budget_left is None"),
    # problem and policy
    ("features of another shape", put("problem", "features", value=[[1.0]]), "features"),
    ("probabilities that do not add up", put("problem", "context_probs", value=[0.5] * 12), "context_probs"),
    ("noise of 0", put("problem", "noise_sd", value=0.0), "noise_sd is 0.0"),
    ("another number of actions", put("problem", "action_names", value=["rest"]), "action"),
    ("another visibility", put("problem", "visibility", "mood", value="hidden"), "visibility"),
    ("a problem as text", put("problem", value="mixed"), "no problem"),
    ("another revealer", put("policy", "revealer", "kind", value="Oracle"), "kind of revealer is 'Oracle'"),
    ("a setting that is none", put("policy", "revealer", "patience", value=1), "cannot be resumed"),
    ("a budget of 0", put("policy", "budget", "amount", value=0.0), "budget is 0"),
    ("a shared budget", put("policy", "budget", "shared", value=True), "expected a Cohort"),
    ("a budget beyond the horizon", put("policy", "budget", "amount", value=99), "budget is 99"),
    ("a policy as null", put("policy", value=None), "cannot be resumed"),
)

DAMAGED_PACES = rows(
    ("a negative wait", number("revealer.state.wait", -1.0), "revealer.state.wait is -1; expected at least 0"),
    ("half a wait", number("revealer.state.wait", 0.5), "revealer.state.wait is not a whole number"),
    ("a tally below 0", number("revealer.state.tally", -0.1), "revealer.state.tally is -0.1; expected at least 0"),
    ("odds beyond 1", number("revealer.shared.odds", 1.5), "revealer.shared.odds is 1.5; expected at most 1"),
    (
        "a guard that has spent more than there were decisions",
        number("revealer.shared.guard_spent", 6.0),
        "revealer.shared.guard_spent is 6; expected at most 5",
    ),
    ("no debt", drop("state", "revealer.state.debt"), "it lacks revealer.state.debt"),
    ("another rule", put("policy", "revealer", value=ALWAYS), "an unknown key, 'revealer.state.debt'"),
)

DAMAGED_MOMENTS = rows(
    ("out of bounds", put("steps", 0, "context", "steps", value=2.5), "steps is 2.5"),
    ("a number as text", put("steps", 0, "context", "steps", value="1.5"), "steps is '1.5'"),
    ("infinite", put("steps", 0, "context", "dose", value=math.inf), "dose is inf"),
    ("a public value missing", drop("steps", 0, "context", "dose"), "context lacks 'dose'"),
    ("a sensed value missing", drop("steps", 0, "context", "steps"), "step 1 lacks"),
    ("another stratum", put("steps", 0, "context", "ward", value="b"), "not what its steps add up to"),
    ("reported values missing", put("steps", 0, "reported", value=None), "step 1 is seen, but lacks reported values"),
    ("another formula", put("problem", "formula", value="1 + action"), "cannot be resumed"),
    ("no formula", put("problem", "formula", value=3), "formula"),
    ("bounds the wrong way round", put("problem", "variables", "steps", "low", value=9.0), "Number is from 9 to 2"),
    ("held steps", number("counts.held_until", 2.0), "counts.held_until is not 0"),
)

DAMAGED_COHORTS = rows(
    ("nothing shared", drop("shared"), "it lacks 'shared'"),
    ("no model", drop("shared", "model.theta"), "it lacks model.theta"),
    ("no budget", drop("shared", "budget.price"), "it lacks budget.price"),
    ("a budget of NaN", put("shared", "budget.price", 0, value=math.nan), "budget.price holds NaN or infinity"),
    ("a negative price", put("shared", "budget.price", 0, value=-1.0), "budget.price is -1; expected at least 0"),
    ("a short model", put("shared", "model.theta", value=[1.0]), "model.theta is 1 numbers; expected a list of 4"),
    ("models of their own", put("policy", "pooled", value=False), "it lacks model.theta"),
    (
        "a model that nobody shares",
        lambda s: (s["policy"].update(pooled=False), s.update(agents={})),
        "state has an unknown key, 'model.theta'",
    ),
    ("too many participants", put("participants", value=1), "all 1 planned participants are enrolled"),
    ("participants as text", put("participants", value="3"), "participants is '3'"),
    ("agents as a list", put("agents", value=[]), "cannot be resumed"),
    ("two of one stream", put("agents", "bob", "stream", value=0), "'ann' has it already"),
    ("a participant without steps", drop("agents", "bob", "steps"), "it lacks 'steps'"),
    ("a participant without a name", lambda s: s["agents"].update({"": s["agents"].pop("ann")}), "name is ''"),
    ("a participant's own problem damaged", put("agents", "bob", "problem", value=3), "no problem"),
    ("an agent's kind", put("kind", value="agent"), "kind is 'agent'; expected 'cohort'"),
    ("format 4", put("format", value=4), "has format 4"),
)


def refused(read: Callable[[Saved], Any], whole: Saved, damage: Callable[[Saved], None], message: str) -> None:
    """A damaged state with a checksum that fits is refused with this message, and nothing else happens."""
    read(whole)
    saved = copy.deepcopy(whole)
    damage(saved)
    saved["checksum"] = saving.checksum({key: value for key, value in saved.items() if key != "checksum"})
    with pytest.raises(StateError) as caught:
        read(saved)
    assert message in str(caught.value)
    assert len(str(caught.value)) < 500


@pytest.mark.parametrize(("damage", "message"), DAMAGED_AGENTS)
def test_a_damaged_agent_is_refused(damage: Callable[[Saved], None], message: str) -> None:
    """Even where the checksum fits: what compiled code would take at its word is checked first."""
    refused(op.Agent.from_dict, saved_agent(), damage, message)


@pytest.mark.parametrize(("damage", "message"), DAMAGED_PACES)
def test_a_damaged_state_of_a_rules_own_is_refused(damage: Callable[[Saved], None], message: str) -> None:
    """What a rule remembers is checked by what it declares."""
    refused(op.Agent.from_dict, saved_pace(), damage, message)


@pytest.mark.parametrize(("damage", "message"), DAMAGED_MOMENTS)
def test_a_damaged_agent_with_continuous_contexts_is_refused(damage: Callable[[Saved], None], message: str) -> None:
    """Values at the moment of decision are checked against their variables."""
    refused(op.Agent.from_dict, saved_moments(), damage, message)


@pytest.mark.parametrize(("damage", "message"), DAMAGED_COHORTS)
def test_a_damaged_cohort_is_refused(damage: Callable[[Saved], None], message: str) -> None:
    """What participants share is checked once, with all their decisions."""
    refused(op.Cohort.from_dict, saved_cohort(), damage, message)


def test_each_kind_reads_its_own_states_only() -> None:
    """An agent's state makes no cohort, nor the other way round."""
    with pytest.raises(StateError, match=r"kind is 'cohort'; expected 'agent', the state of an agent$"):
        op.Agent.from_dict(saved_cohort())
    with pytest.raises(StateError, match=r"kind is 'agent'; expected 'cohort', the state of a cohort$"):
        op.Cohort.from_dict(saved_agent())


def test_a_state_of_another_format_says_who_wrote_it() -> None:
    """With both formats and the version, and what can be done."""
    saved = saved_agent() | {"format": 4, "version": "0.0.7"}
    message = (
        rf"^the state has format 4, written by version '0\.0\.7'; this version \({op.__version__}\) reads format 5: "
        "go on with the version that wrote it, or begin anew$"
    )
    with pytest.raises(StateError, match=message):
        op.Agent.from_dict(saved)


@pytest.mark.parametrize("saved", [{}, {"step": 3}, [1, 2], None, "state"], ids=repr)
def test_what_is_no_state(saved: Any) -> None:
    """What is no state is refused as such."""
    with pytest.raises(StateError, match=r"^this is not the state of an agent: it has no 'format'$"):
        op.Agent.from_dict(saved)
    with pytest.raises(StateError, match=r"^this is not the state of a cohort: it has no 'format'$"):
        op.Cohort.from_dict(saved)


@pytest.mark.parametrize(
    "tamper",
    [
        put("step", value=1),
        put("seed", value=2),
        put("proposal", value=None),
        put("state", "budget.price", 0, value=0.5),
        lambda saved: put("state", "model.theta", 0, value=saved["state"]["model.theta"][0] + 1e-16)(saved),
        lambda saved: saved["state"]["model.theta"].pop(),
        put("policy", "budget", "amount", value=3.0),
        put("problem", "noise_sd", value=0.2),
        drop("stream"),
        drop("checksum"),
        put("extra", value=1),
    ],
)
def test_a_state_that_was_changed_after_saving_is_refused(tamper: Callable[[Saved], Any]) -> None:
    """The checksum tells."""
    saved = saved_agent()
    op.Agent.from_dict(saved)
    tamper(saved)
    message = "^the state's checksum does not fit its contents: it was changed or cut after saving$"
    with pytest.raises(StateError, match=message):
        op.Agent.from_dict(saved)


def test_a_state_of_odd_values_is_refused() -> None:
    """What JSON cannot hold never was a state."""
    with pytest.raises(StateError, match="not made of plain JSON values"):
        op.Agent.from_dict(saved_agent() | {"step": object()})


# Keys that nobody would read, at every level.


def levels(saved: Any, way: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """The ways to every mapping in a saved state."""
    if isinstance(saved, dict):
        yield way
    for key, inner in saved.items() if isinstance(saved, dict) else enumerate(saved):
        if isinstance(inner, dict | list):
            yield from levels(inner, (*way, key))


SAVED: dict[str, tuple[Callable[[Saved], Any], Saved]] = {
    "agent": (op.Agent.from_dict, saved_agent()),
    "PACE": (op.Agent.from_dict, saved_pace()),
    "moments": (op.Agent.from_dict, saved_moments()),
    "cohort": (op.Cohort.from_dict, saved_cohort()),
}


@pytest.mark.parametrize("name", SAVED)
def test_unknown_keys_are_refused_at_every_level(name: str) -> None:
    """A state with something more in it was written by something else, whatever the checksum says."""
    read, whole = SAVED[name]
    read(whole)
    ways = list(levels(whole))
    assert {len(way) for way in ways} >= {0, 1, 2}
    for way in ways:
        saved = copy.deepcopy(whole)
        put(*way, "surplus", value=1)(saved)
        saved["checksum"] = saving.checksum({key: value for key, value in saved.items() if key != "checksum"})
        with pytest.raises(StateError, match="surplus"):
            read(saved)


@pytest.mark.parametrize("key", ["horizon", "seed", "policy", "format", "kind", "checksum"])
def test_a_participant_has_nothing_that_is_its_cohorts(key: str) -> None:
    """What belongs to the whole cohort is written once."""
    saved = saved_cohort()
    damage = put("agents", "ann", key, value=saved[key])
    refused(op.Cohort.from_dict, saved, damage, f"unknown key, {key!r}")


# Padding.


def test_a_saved_state_has_no_padding() -> None:
    """Each part has as many numbers as it has dimensions: d = 4, and 36 scores in a table that has room for 48."""
    sizes = {"model.theta": 4, "model.cov": 4 * 4, "model.mean": 12 * 3, "model.width2": 12 * 3, "budget.price": 1}
    agent = op.Agent.from_dict(saved_agent())
    assert (agent.numbers.at.sizes.stride, agent.numbers.at.sizes.table) == (8, 48), "the control: there is padding"
    state = saved_agent()["state"]
    assert {name: len(state[name]) for name in sizes} == sizes
    assert sum(map(len, state.values())) < sum(array.size for array in agent.numbers.arrays.values())
