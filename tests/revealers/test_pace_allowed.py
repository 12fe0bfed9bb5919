"""What PACE goes by where actions are forbidden and nudges are not allowed everywhere: a plain reading of docs/pace.md.

The reading knows the problem, what was observed and what was spent; it works out everything else anew at every step.
"""

import dataclasses
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np
import pytest
from numpy.typing import NDArray

import opportune as op
from opportune.errors import InputError
from opportune.revealers.pace import Notes
from opportune.revealers.ranking import BY_RANK, SPENT, WAITING

Floats = NDArray[np.float64]
TIE = 1e-12
NOISE, BOUND, HORIZON = 0.3, 3.0, 60
CONTEXTS, ACTIONS, D = 12, 4, 5


def problem_of(seed: int) -> op.Problem:
    """Twelve contexts of a public and a sensed part; actions are forbidden in some, and in doubt or not."""
    rng = np.random.default_rng(seed)
    for _ in range(200):
        try:
            return op.Problem(
                rng.normal(size=(CONTEXTS, ACTIONS, D)), rng.dirichlet(np.ones(CONTEXTS)), noise_sd=NOISE,
                theta_bound=BOUND, variables={"hour": ["am", "pm"], "place": range(6)},
                visibility={"hour": "public", "place": "sensed"}, allowed=rng.random((CONTEXTS, ACTIONS)) < 0.6,
                when_unknown={f"{a}": str(rng.choice(["forbid", "allow"])) for a in range(ACTIONS)},
                action_names=[f"{a}" for a in range(ACTIONS)],
            )  # fmt: skip
        except InputError:
            continue  # no action is allowed somewhere
    raise AssertionError("no mask was drawn that leaves an action everywhere")


class Expected(NamedTuple):
    """What the reading finds at a step."""

    gain: float
    above: float
    tied: float
    greedy: int
    loss_of: Floats  # what each blind action loses


class Reading:
    """The formulas, from what has happened."""

    def __init__(self, problem: Any, *, realised: bool, masked: bool = True) -> None:
        self.phi, self.p = np.asarray(problem.features), np.asarray(problem.context_probs)
        self.z = np.repeat([0, 1], CONTEXTS // 2)
        allowed = np.asarray(problem.allowed) if masked else np.ones((CONTEXTS, ACTIONS), dtype=bool)
        self.realised = realised
        self.sensed = allowed  # the place is sensed: the revealer knows the context
        forbid = np.array([problem.when_unknown[f"{a}"] == "forbid" for a in range(ACTIONS)])
        self.blind = np.stack([
            np.where(forbid, allowed[self.z == z].all(axis=0), allowed[self.z == z].any(axis=0)) for z in (0, 1)
        ])  # fmt: skip
        self.bar = np.stack([
            np.einsum("k,kad->ad", self.p[self.z == z] / self.p[self.z == z].sum(), self.phi[self.z == z])
            for z in (0, 1)
        ])  # fmt: skip
        lam = D * NOISE**2 / BOUND**2
        self.V, self.b = lam * np.eye(D), np.zeros(D)

    def learn(self, context: int, action: int, reward: float) -> None:
        """Ridge regression."""
        x = self.phi[context, action]
        self.V = self.V + np.outer(x, x)
        self.b = self.b + x * reward

    def judge(self, context: int, debt: float) -> Expected:
        """G of every context, the rank of this one with this debt, b(z)."""
        theta = np.linalg.solve(self.V, self.b)
        means, blind = self.phi @ theta, self.bar @ theta
        greedy = [
            int(np.argmax(np.where(self.blind[z], blind[z], -np.inf) >= self._top(blind, z) - TIE)) for z in (0, 1)
        ]
        gains = np.array([
            means[k][self.sensed[k]].max()
            - (means[k, greedy[self.z[k]]] if self.realised else blind[self.z[k], greedy[self.z[k]]])
            for k in range(CONTEXTS)
        ])  # fmt: skip
        z = self.z[context]
        worth = gains[context] + debt
        tied = float(self.p[np.abs(gains - worth) <= TIE].sum())
        above = float(self.p[gains - worth > TIE].sum())
        return Expected(float(gains[context]), above, tied, greedy[z], self._top(blind, z) - blind[z])

    def _top(self, blind: Floats, z: int) -> float:
        return float(blind[z][self.blind[z]].max())


class Lived(NamedTuple):
    """A step: what the reading says beside what the agent went by."""

    step: int
    reading: Reading
    expected: Expected
    notes: Notes | None
    decision: op.Decision
    debt: float
    left: float
    opened: float  # the share of the points so far that were opened unasked


def lived(seed: int, *, realised: bool = True, masked: bool = True, run_in: int = 0) -> Iterator[Lived]:
    """An agent's steps, some unavailable, some opened unasked, some nudges unanswered, with the reading beside it."""
    problem, rng = problem_of(seed), np.random.default_rng(seed + 1)
    policy = op.pace_ucb(12, value="realised" if realised else "paper")
    if run_in:
        policy = dataclasses.replace(policy, limits=op.Limits(run_in=run_in))
    agent = op.Agent(problem, policy, horizon=HORIZON, seed=seed, stream=0)
    reading, theta, debt = Reading(problem, realised=realised, masked=masked), rng.normal(size=D), 0.0
    spent, openings = 0.0, 0
    for step in range(1, HORIZON + 1):
        context = int(rng.choice(CONTEXTS, p=reading.p))
        given = problem.levels(context)
        if rng.random() < 0.1:
            agent.propose(given, available=False)
            agent.settle()
            continue
        opened = bool(rng.random() < 0.05)
        proposal = agent.propose(given, opened=opened)
        judged = reading.judge(context, 0.0)
        stale, fresh = (int(name) for name in (proposal.stale_action, proposal.fresh_action))
        notes = None if proposal.notes is None or opened or step <= run_in else Notes(*proposal.notes)
        if notes is not None and fresh != stale:
            debt += float(judged.loss_of[stale])
        settled = agent.settle(bool(rng.random() < 0.8) if proposal.nudged else None)
        yield Lived(
            step, reading, reading.judge(context, debt), notes, settled, debt, 12.0 - spent, openings / max(1, step - 1)
        )
        spent, openings = spent + proposal.probability, openings + opened
        if settled.revealed:
            debt = 0.0
        action = int(settled.action)
        assert problem.allowed is None or not settled.revealed or problem.allowed[context, action]
        reward = float(reading.phi[context, action] @ theta + NOISE * rng.normal())
        reading.learn(context, action, reward)
        agent.learn(reward)


def agrees(seed: int, **settings: Any) -> bool:
    """Whether worth, rank, share and decision are those of the reading, wherever the rule was asked."""
    asked = 0
    for each in lived(seed, **settings):
        notes, expected = each.notes, each.expected
        if notes is None:
            continue
        asked += 1
        share = min(1.0, max(each.left, 0.0) / max(1.0, (1.0 - each.opened) * notes.to_come))
        near = [abs(notes.worth - expected.gain - each.debt) < 1e-9, abs(notes.debt - each.debt) < 1e-9,
                abs(notes.above - expected.above) < 1e-9, abs(notes.tied - expected.tied) < 1e-9,
                abs(notes.left - each.left) < 1e-9, abs(notes.share - share) < 1e-9]  # fmt: skip
        if not all(near):
            return False
        if notes.cause == BY_RANK:
            stands = expected.above + 0.25 * expected.tied <= share + 1e-9
            top = expected.above <= 1e-9 and int(each.decision.fresh_action) == expected.greedy
            x = float(expected.gain + each.debt > TIE and (stands or top))
            if each.decision.probability != pytest.approx(min(x, each.left)):
                return False
        elif notes.cause in {WAITING, SPENT} and each.decision.probability != 0.0:
            return False
    assert asked > 20
    return True


@pytest.mark.parametrize("realised", [True, False])
@pytest.mark.parametrize("seed", range(12))
def test_every_maximum_is_over_what_is_allowed(seed: int, realised: bool) -> None:
    """Gains, b(z), the debt and ranks are those of allowed actions, decision by decision."""
    assert agrees(seed, realised=realised)


def test_a_reading_without_masks_parts_from_it() -> None:
    """The control: a reading that lets every action be taken differs in most problems."""
    assert sum(not agrees(seed, masked=False) for seed in range(6)) >= 5


@pytest.mark.parametrize("seed", range(3))
def test_the_run_in_is_not_counted_on(seed: int) -> None:
    """After a run-in the budget is for the decisions that are left, as many as there are, from the first one on."""
    first = True
    for each in lived(seed, run_in=20):
        if each.notes is None:
            continue
        assert each.step > 20
        assert each.notes.to_come == pytest.approx(HORIZON - each.step + 1)
        if first:
            assert each.notes.share == pytest.approx(12.0 / (HORIZON - each.step + 1), rel=0.2)
        first = False
    assert not first
