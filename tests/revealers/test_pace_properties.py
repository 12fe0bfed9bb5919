"""The guarantees of docs/pace.md on every input, each with a control that must fail.

Agents are driven live: any contexts in any order, any rewards, coins, openings and unanswered nudges.
"""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

import opportune as op
from opportune.revealers.pace import Notes
from opportune.revealers.ranking import SPENT, WAITING

Floats = NDArray[np.float64]
EXACT = 1e-9
everything = settings(max_examples=60, deadline=None)


class Move(NamedTuple):
    """What happens at a decision point."""

    context: int
    reward: float
    coin: float
    opened: bool
    answered: bool
    available: bool


VISIBLE: list[dict[str, Any]] = [
    {"part": "sensed", "rest": "sensed"},
    {"part": "public", "rest": "sensed"},
    {"part": "sensed", "rest": "reported"},
]
OPTIONS: list[dict[str, Any]] = [{}, {"value": "realised"}, {"guard": 0.3}, {"kappa": 0.3}]
COIN = {"randomise": 0.2}

unit = st.floats(0.0, 1.0, exclude_max=True)
rarely = st.sampled_from([False, False, False, True])
mostly = st.sampled_from([True, True, True, False])
move = st.builds(
    Move, context=st.integers(0, 5), reward=st.floats(-2.0, 2.0), coin=unit, opened=rarely, answered=mostly,
    available=mostly,
)  # fmt: skip
moves = st.lists(move, min_size=1, max_size=40)
whole = st.integers(1, 8)
amounts = st.one_of(whole, st.floats(0.3, 8.0))
seeds = st.integers(0, 2**32 - 1)


def problem_of(seed: int, visible: int, *, known: bool) -> op.Problem:
    """Six contexts, made of a part of two levels and a rest of three, each of which is seen by whoever it says."""
    rng = np.random.default_rng(seed)
    return op.Problem(
        rng.normal(size=(6, 3, 4)), rng.dirichlet(np.ones(6)) if known else None, noise_sd=0.3, theta_bound=2.0,
        variables={"part": range(2), "rest": range(3)}, visibility=VISIBLE[visible],
    )  # fmt: skip


CONTINUOUS = op.ContinuousProblem(
    "1 + steps + place + action + action:steps", {"steps": op.Number(0.0, 2.0), "place": ("home", "out", "away")},
    ("rest", "walk", "call"), visibility={"steps": "sensed", "place": "public"}, noise_sd=0.3, theta_bound=2.0,
)  # fmt: skip


def agent_of(problem: Any, policy: op.Policy, steps: int) -> op.Agent:
    return op.Agent(problem, policy, horizon=steps, seed=1, stream=0)


def lived(agent: op.Agent, happening: Sequence[Move]) -> Iterator[tuple[Move, op.Decision]]:
    """The decisions, one by one; what is yielded is settled, its reward not yet learned."""
    for each in happening:
        context = each.context % 6
        given = agent.problem.levels(context) if isinstance(agent.problem, op.Problem) else scattered(context)
        if each.available:
            decision = agent.decide(given, each.coin, opened=each.opened, answered=each.answered)
        else:
            hidden = [name for name, seen in agent.problem.visibility.items() if seen == "reported"]
            agent.propose({name: value for name, value in given.items() if name not in hidden}, available=False)
            decision = agent.settle()
        yield each, decision
        if each.available:
            agent.learn(each.reward)


def scattered(context: int) -> dict[str, Any]:
    """A context that is not one of finitely many."""
    return {"steps": 0.37 * context, "place": ("home", "out", "away")[context % 3]}


def any_moves(seed: int, steps: int = 40) -> list[Move]:
    """Moves for controls, where one run of many must fail."""
    rng = np.random.default_rng(seed)
    return [
        Move(int(rng.integers(6)), float(rng.uniform(-2, 2)), float(rng.random()), bool(rng.random() < 0.1),
             bool(rng.random() < 0.6), bool(rng.random() < 0.9))
        for _ in range(steps)
    ]  # fmt: skip


def pace(budget: float, steps: int, *, hard: bool = False, **options: Any) -> op.Policy:
    """PACE with no more budget than decisions."""
    amount = min(budget, steps)
    return op.pace_ucb(op.Budget(int(amount) if hard else amount, hard=hard), **options)


# The budget.


def probabilities(problem: Any, policy: op.Policy, happening: Sequence[Move]) -> tuple[Floats, int]:
    """Every o_t, and the number of nudges."""
    decisions = [decision for _, decision in lived(agent_of(problem, policy, len(happening)), happening)]
    return np.array([d.probability for d in decisions]), sum(d.nudged for d in decisions)


def problems(seed: int, visible: int, known: bool) -> list[Any]:
    return [problem_of(seed, visible, known=known), CONTINUOUS]


@everything
@given(seeds, st.integers(0, 2), st.booleans(), st.sampled_from([*OPTIONS, COIN]), amounts, st.booleans(), moves)
def test_the_budget_holds_on_every_path(
    seed: int, visible: int, known: bool, options: dict[str, Any], amount: float, hard: bool, happening: list[Move]
) -> None:
    """Probabilities lie in [0, 1] and sum to at most B; with a hard budget there are at most B nudges."""
    hard = hard and amount >= 1.0
    policy = pace(amount, len(happening), hard=hard, **options)
    assert policy.budget is not None
    for problem in problems(seed, visible, known):
        o, nudges = probabilities(problem, policy, happening)
        assert (o >= 0.0).all()
        assert (o <= 1.0).all()
        assert o.sum() <= policy.budget.amount + EXACT
        assert not hard or nudges <= policy.budget.amount


@everything
@given(seeds, st.integers(0, 2), st.booleans(), st.sampled_from(OPTIONS), whole, moves)
def test_a_whole_budget_is_spent_in_whole_nudges(
    seed: int, visible: int, known: bool, options: dict[str, Any], amount: int, happening: list[Move]
) -> None:
    """Without a coin and with a whole budget every probability is 0 or 1, so that there are at most B nudges."""
    for problem in problems(seed, visible, known):
        o, nudges = probabilities(problem, pace(amount, len(happening), **options), happening)
        assert set(o) <= {0.0, 1.0}
        assert nudges <= amount


def test_budget_controls() -> None:
    """What the two tests above say is not true of everything: budgets get used up, coins and fractions leave
    probabilities between 0 and 1, and with a coin nudges can exceed an expected budget.
    """
    runs = {
        name: [probabilities(problem_of(seed, 0, known=True), policy, any_moves(seed)) for seed in range(60)]
        for name, policy in {
            "whole": pace(3, 40), "fraction": pace(2.5, 40), "coin": pace(3, 40, randomise=0.5)
        }.items()
    }  # fmt: skip
    assert any(o.sum() >= 3.0 - EXACT for o, _ in runs["whole"])
    for name in ("fraction", "coin"):
        assert any(((o > 0.0) & (o < 1.0)).any() for o, _ in runs[name])
    assert any(nudges > 3 for _, nudges in runs["coin"])


# The debt.


class Owed(NamedTuple):
    """A step at which the rule was asked and did not nudge."""

    debt: float
    most: float  # max G - G(q_t)
    excused: bool  # the patient is left in peace, or the budget is spent


def gains(problem: op.Problem, theta: Floats, *, realised: bool) -> Floats:
    """G(q), by the definition."""
    assert problem.context_probs is not None
    means, p = problem.features @ theta, problem.context_probs
    found = []
    for q in range(max(problem.sense_of) + 1):
        alike = problem.stratum_of == problem.stratum_of[problem.sense_of == q][0]
        blind = np.average(means[alike], axis=0, weights=p[alike])
        sensed = np.average(means[problem.sense_of == q], axis=0, weights=p[problem.sense_of == q])
        found.append(sensed.max() - (sensed[blind.argmax()] if realised else blind.max()))
    return np.array(found)


def owed(problem: op.Problem, policy: op.Policy, happening: Sequence[Move]) -> Iterator[Owed]:
    """The debt at every step at which the rule was asked and did not nudge."""
    agent = agent_of(problem, policy, len(happening))
    realised = getattr(policy.revealer, "value", "") == "realised"
    theta = np.zeros(problem.d)
    for _, decision in lived(agent, happening):
        if decision.notes is not None and decision.probability == 0.0:
            notes = Notes(*decision.notes)
            gain = notes.worth - notes.debt
            most = float(gains(problem, theta, realised=realised).max()) - gain
            yield Owed(notes.debt, most, notes.cause in {WAITING, SPENT})
        theta = estimate(agent)


def estimate(agent: op.Agent) -> Floats:
    """The revealer's theta, as it will be at the next proposal, when the reward has been learned from."""
    theta: Floats = agent.numbers.at.views("model", agent.numbers.arrays["model"]).theta[: agent.problem.d]
    return theta  # a view, which will be up to date by then


@everything
@given(seeds, st.integers(0, 2), st.sampled_from(OPTIONS), whole, moves)
def test_the_debt_is_bounded(
    seed: int, visible: int, options: dict[str, Any], amount: int, happening: list[Move]
) -> None:
    """At a step without a nudge stale advice has cost at most max G - G(q_t), unless nothing may be done about it."""
    problem = problem_of(seed, visible, known=True)
    for step in owed(problem, pace(amount, len(happening), **options), happening):
        assert step.excused or step.debt <= step.most + EXACT


def test_debt_controls() -> None:
    """Half of the bound does not hold, nor does the bound where the patient is left in peace."""
    steps = [
        step
        for seed in range(60)
        for step in owed(problem_of(seed, 0, known=True), pace(8, 40), any_moves(seed))
    ]  # fmt: skip
    assert any(not step.excused and step.debt > 0.5 * step.most + EXACT for step in steps)
    assert any(step.excused and step.debt > step.most + EXACT for step in steps)


# Rotation.


class Blind(NamedTuple):
    """A blind step: how much it may lose, and what it is compared with."""

    loss: float  # the largest over the confidence set at the last reveal, and over all actions as a*
    bound: float
    tighter: float  # the bound without the action's own width
    growth: float  # the least eigenvalue of V_h - V
    missing: float  # V_h less V + sum bar bar', which should be nothing


def precision(agent: op.Agent) -> tuple[Floats, Floats, float]:
    """(theta_rec, V_h, r_rec)."""
    frozen, n = agent.numbers.at.views("snapshot", agent.numbers.arrays["snapshot"]), agent.numbers.at.sizes
    cov = frozen.cov[: n.d * n.stride].reshape(n.d, n.stride)[:, : n.d]
    return frozen.theta[: n.d].copy(), np.linalg.inv(cov), float(frozen.radius[0])


def blind_steps(problem: op.Problem, policy: op.Policy, kappa: float, happening: Sequence[Move]) -> Iterator[Blind]:
    """Every blind step of a run, by what the recommender knew at the last reveal."""
    assert problem.context_probs is not None
    agent = agent_of(problem, policy, len(happening))
    theta, V, radius = precision(agent)
    tried = np.zeros_like(V)
    for each, decision in lived(agent, happening):
        if decision.revealed:
            theta, V, radius = precision(agent)
            tried = np.zeros_like(V)
        elif each.available:
            k = each.context % 6
            alike = problem.stratum_of == problem.stratum_of[k]
            bar = np.average(problem.features[alike], axis=0, weights=problem.context_probs[alike])
            cov, action = np.linalg.inv(V), problem.action_names.index(decision.action)
            width = np.sqrt(np.einsum("ai,ij,aj->a", bar, cov, bar))
            apart = bar - bar[action]
            worst = apart @ theta + radius * np.sqrt(np.einsum("ai,ij,aj->a", apart, cov, apart).clip(0.0))
            bound = radius * (width + (1.0 + kappa) * width[action])
            a = int((worst - bound).argmax())
            tried += np.outer(bar[action], bar[action])
            more = precision(agent)[1] - V
            yield Blind(
                float(worst[a]), float(bound[a]), float(bound[a] - radius * width[action]),
                float(np.linalg.eigvalsh(more).min()), float(np.abs(more - tried).max()),
            )  # fmt: skip


def rotating(kappa: float, *, rotate: bool = True) -> op.Policy:
    return op.Policy(recommender=op.LinUCB(rotate=rotate, kappa=kappa), revealer=op.Periodic(every=6))


@everything
@given(seeds, st.integers(0, 1), st.sampled_from([0.0, 0.5, 1.0, 2.0]), moves)
def test_rotation_loses_little(seed: int, visible: int, kappa: float, happening: list[Move]) -> None:
    """Whatever theta in the confidence set at the last reveal, a blind step loses at most
    r (w(a*) + (1 + kappa) w(A)); what was tried adds to V_h and nothing else does.
    """
    for step in blind_steps(problem_of(seed, visible, known=True), rotating(kappa), kappa, happening):
        assert step.loss <= step.bound + 1e-7
        assert step.growth >= -1e-7
        assert step.missing <= 1e-7


def test_rotation_controls() -> None:
    """A bound without the chosen action's own width does not hold; without rotation V_h does not grow."""
    steps = [
        step
        for seed in range(40)
        for step in blind_steps(problem_of(seed, 0, known=True), rotating(0.5), 0.5, any_moves(seed))
    ]
    assert any(step.loss > step.tighter + 1e-6 for step in steps)
    still = blind_steps(problem_of(0, 0, known=True), rotating(0.5, rotate=False), 0.5, any_moves(0))
    assert any(step.missing > 1e-3 for step in still)


# Theta and p known.


def gap_problem(gaps: Sequence[float], weights: Sequence[float]) -> op.Problem:
    """One action that gains so much in each context where the other gains nothing; a further context, which never
    arrives here, makes it the worse one on average.
    """
    p = np.array([*weights, 2.0 * np.dot(gaps, weights) + 1.0])
    features = np.zeros((len(gaps) + 1, 2, 1))
    features[:, 1, 0] = [*gaps, -1.0]
    return op.Problem(features, p / p.sum(), noise_sd=0.1, theta_bound=1.0)


def informed(problem: op.Problem, policy: op.Policy, steps: int) -> op.Agent:
    """An agent who knows that theta = 1: no width is left, so nothing is learned any more."""
    agent = agent_of(problem, policy, steps)
    rows = agent.numbers.at.views("constants", agent.numbers.constants).rows
    model = agent.numbers.at.views("model", agent.numbers.arrays["model"])
    frozen = agent.numbers.at.views("snapshot", agent.numbers.arrays["snapshot"])
    for known, first in ((model, 0), (frozen, 2 * problem.contexts)):  # with d = 1 and two actions
        known.theta[0] = 1.0
        known.cov[:] = 0.0
        known.mean[: rows[first:].size] = rows[first:][: known.mean.size]
        known.width2[:] = 0.0
    return agent


def spending(problem: op.Problem, policy: op.Policy, sequence: Sequence[int]) -> tuple[list[float], list[float]]:
    """The probabilities and the debts of an informed agent to whom these contexts come."""
    agent = informed(problem, policy, len(sequence))
    decisions = []
    for k in sequence:
        decisions.append(agent.decide(int(k), 0.0))
        agent.learn(0.5)
    return [d.probability for d in decisions], [Notes(*d.notes).debt for d in decisions if d.notes is not None]


def budget_ratio(
    gaps: Floats, p: Floats, sequence: Sequence[int], budget: float, *, weight: float = 0.25, adaptive: bool = True
) -> list[float]:
    """The policy of Arlotto and Gurvich: take what is among the best that the rest of the budget reaches for."""
    left, taken = budget, []
    for i, k in enumerate(sequence):
        above, tied = p[gaps > gaps[k] + 1e-12].sum(), p[np.abs(gaps - gaps[k]) <= 1e-12].sum()
        ratio = left / (len(sequence) - i) if adaptive else budget / len(sequence)
        wanted = gaps[k] > 1e-12 and (above + weight * tied <= ratio + 1e-9 or above <= 1e-9)
        taken.append(min(float(wanted), left) if left > 1e-9 else 0.0)
        left -= taken[-1]
    return taken


levels = st.lists(st.tuples(st.sampled_from([0.0, 0.1, 0.5, 1.0]) | unit, st.floats(0.01, 5.0)), min_size=2, max_size=6)
orders = st.lists(st.integers(0, 100), min_size=1, max_size=60)


@everything
@given(levels, orders, amounts)
def test_with_everything_known_it_is_the_budget_ratio_policy(
    levels: list[tuple[float, float]], order: list[int], amount: float
) -> None:
    """With theta and p known there is no debt, and PACE decides as the budget-ratio policy does, in any order."""
    problem = gap_problem(*zip(*levels, strict=True))
    sequence = [k % len(levels) for k in order]
    policy = pace(amount, len(order))
    assert policy.budget is not None
    o, debts = spending(problem, policy, sequence)
    assert not any(debts)
    assert problem.context_probs is not None
    worth = np.array([*(gap for gap, _ in levels), 0.0])
    expected = budget_ratio(worth, problem.context_probs, sequence, policy.budget.amount)
    np.testing.assert_allclose(o, expected, atol=EXACT)


def test_budget_ratio_controls() -> None:
    """Another weight of ties, or a ratio that does not follow what is left, is another policy."""
    rng = np.random.default_rng(1)
    gaps, sequence = np.array([0.2, 0.5, 0.5, 0.9, 1.0]), rng.integers(5, size=60).tolist()
    problem = gap_problem(gaps.tolist(), [3.0, 2.0, 1.0, 1.0, 0.2])
    assert problem.context_probs is not None
    o, _ = spending(problem, pace(9, 60), sequence)
    worth, p = np.array([*gaps, 0.0]), problem.context_probs
    assert o == budget_ratio(worth, p, sequence, 9)
    assert o != budget_ratio(worth, p, sequence, 9, weight=1.0)
    assert o != budget_ratio(worth, p, sequence, 9, adaptive=False)


# The guard.


def virtual_spending(gaps: Sequence[float], most: float, budget: float) -> Floats:
    """S' of PD1 beside, after each step."""
    price, spent, c, found = 0.0, 0.0, (1.0 + 1.0 / budget) ** budget, []
    for gap in gaps:
        if price < 1.0 and gap / most > price:
            o = max(0.0, min(gap / most, budget - spent, 1.0))
            price, spent = price * (1.0 + o / budget) + o / ((c - 1.0) * budget), spent + o
        found.append(spent)
    return np.array(found)


def slack(
    levels: Sequence[tuple[float, float]], order: Sequence[int], amount: float, *, guard: float | None, share: float
) -> float:
    """The least, over time, of spent - (min(B, S' - share B) - 1)."""
    sequence = [k % len(levels) for k in order]
    policy = pace(amount, len(order), guard=guard)
    assert policy.budget is not None
    budget = policy.budget.amount
    spent = np.cumsum(spending(gap_problem(*zip(*levels, strict=True)), policy, sequence)[0])
    most = max(gap for gap, _ in levels)
    beside = virtual_spending([levels[k][0] for k in sequence], most, budget) if most > 1e-12 else 0.0 * spent
    return float((spent - np.minimum(budget, beside - share * budget)).min()) + 1.0


@everything
@given(levels, orders, amounts, st.sampled_from([0.5, 1.0 / 3.0, 0.1]))
def test_the_guard_follows_the_primal_dual_rule(
    levels: list[tuple[float, float]], order: list[int], amount: float, guard: float
) -> None:
    """With theta known, in any order: spent >= min(B, S' - c B) - 1."""
    assert slack(levels, order, amount, guard=guard, share=guard) >= -EXACT


def test_guard_controls() -> None:
    """Without the guard the bound fails when the best moments never come, and so does a smaller c than the guard's."""
    levels, order = [(0.6, 1.0), (1.0, 20.0)], [0] * 100
    assert slack(levels, order, 20, guard=1 / 3, share=1 / 3) >= -EXACT
    assert slack(levels, order, 20, guard=None, share=1 / 3) < -EXACT
    assert slack(levels, order, 20, guard=1 / 3, share=1 / 6) < -EXACT
