"""PACE, simulated and live, against the slow second reading of docs/pace.md (tests/pace_reference.py).

Runs are drawn, written down and compared as in tests/test_agreement.py; only the policy and the reference are others.
That PACE keeps to the rules for revealers in general is shown in tests/test_testing.py.
"""

import dataclasses
from collections.abc import Iterator
from types import SimpleNamespace

import pytest

import opportune as op
from pace_reference import IDEAS, PacePurse, PaceSettings
from pace_reference import PaceParticipant as Participant
from reference import Data
from runs import AnyRun, Case, cases, continuous_cases, draw_run
from test_agreement import DifferenceError, Event, at_boundary, compare, lam_of, lived, numbered, simulated

ROTATING = op.LinUCB(rotate=True)
PRINTED = op.Pace(value="paper")
KINDS: dict[str, tuple[op.Recommender, op.Revealer]] = {
    "PACE": (ROTATING, PRINTED),
    "less exploration": (op.LinUCB(rotate=True, kappa=0.5), PRINTED),
    "no rotation": (op.LinUCB(kappa=0.7), PRINTED),
    "Thompson": (op.Thompson(), PRINTED),
    "randomise": (ROTATING, op.Pace(value="paper", randomise=0.2)),
    "candidates": (ROTATING, op.Pace(randomise="candidates", least=0.3)),
    "realised": (ROTATING, op.Pace()),
    "guard": (ROTATING, op.Pace(value="paper", guard=0.2)),
    "everything": (op.LinUCB(rotate=True, kappa=2.0), op.Pace(randomise=0.1, value="realised", guard=0.4)),
    "pointwise": (op.LinUCB(rotate=True, radius="pointwise"), PRINTED),
    "PD2, rotating": (op.LinUCB(rotate=True, kappa=0.5), op.LearningPrimalDual()),
    "second edition": (op.LinUCB(rotate=True, radius="pointwise"), op.Pace()),
    "response": (op.LinUCB(rotate=True, radius="pointwise"), op.Pace(response=True)),
}
DRAWN_AS = ("PD1 range", "PD1 gap", "PD1 adaptive", "PD2 range", "PD2 gap", "PD2 adaptive")  # each shares differently


def drawn(kind: str, case: Case, seed: int, *, longer: int = 1) -> AnyRun:
    """A run as the case asks, under a policy of this kind."""
    recommender, revealer = KINDS[kind]
    if revealer.needs_sharing and case.sharing not in {"budget", "both"}:
        case = dataclasses.replace(case, sharing="both" if case.sharing == "model" else "budget")
    run = draw_run(dataclasses.replace(case, sampled=isinstance(recommender, op.Thompson)), seed)
    policy = dataclasses.replace(run.policy, recommender=recommender, revealer=revealer, name=kind)
    return dataclasses.replace(run, policy=policy, horizon=longer * run.horizon)


def all_cases(kind: str, *, finite: bool) -> list[Case]:
    """All cases for PACE as it is, every other one for each of its options."""
    number = list(KINDS).index(kind)
    name = DRAWN_AS[number % len(DRAWN_AS)]
    found = cases(name) if finite else continuous_cases(name)
    return found[number % 2 :: 2] if number else found


def references_of(run: AnyRun, *, without: str = "") -> list[Participant]:
    """The slow reading of the same problem and policy, one per participant; an idea may be left out of it."""
    problem, policy = run.problem, run.policy
    revealer, recommender = policy.revealer, policy.recommender
    assert policy.budget is not None
    scale: str | float = "adaptive"
    coin = getattr(revealer, "randomise", None)
    if isinstance(revealer, op.Pace) and problem.value_range is not None:  # it does not go by gaps
        scale = problem.value_range[1] - problem.value_range[0]
    settings = PaceSettings(
        noise_sd=problem.noise_sd,
        theta_bound=problem.theta_bound,
        regularisation=lam_of(problem, pointwise=policy.pointwise or policy.partial),
        pointwise=policy.pointwise or policy.partial,
        prior_mean=problem.prior_mean,
        prior_sd=problem.prior_sd,
        delta=problem.delta,
        rule="pace" if isinstance(revealer, op.Pace) else "learning_primal_dual",
        budget=policy.budget.amount,
        hard=policy.budget.hard,
        scale=scale,
        decisions=run.horizon * (run.participants if policy.shared else 1),
        inflation=getattr(recommender, "inflation", None),
        rotate=getattr(recommender, "rotate", False),
        kappa=getattr(recommender, "kappa", 1.0),
        randomise=coin if isinstance(coin, float) else 0.0,
        least=getattr(revealer, "least", 0.0) if coin == "candidates" else 0.0,
        realised=getattr(revealer, "value", "paper") == "realised",
        guard=getattr(revealer, "guard", None) or 0.0,
        response=getattr(revealer, "response", False),
        horizon=run.horizon,
        sharers=run.participants if policy.shared else 1,
        without=without,
    )
    data, purse = (Data() if policy.one_model else None), (PacePurse() if policy.shared else None)
    contexts = run.contexts()
    return [
        Participant(contexts, settings, d=problem.d, data=data, purse=purse, number=number)
        for number in range(run.participants)
    ]


def agrees(run: AnyRun, events: list[Event], *, without: str = "") -> bool:
    """Whether the reference decides as the driver did; False if it stood at a boundary where they part."""
    participants, near = references_of(run, without=without), False
    for event in events:
        expected = getattr(participants[event.who], event.call)(**event.arguments)
        near = near or (expected is not None and at_boundary(expected))
        if event.got is None:
            continue
        try:
            compare(event.got, expected)
        except DifferenceError as difference:
            if near:
                return False
            step = len(participants[event.who].steps)
            raise DifferenceError(f"participant {event.who}, step {step}, {event.call}: {difference}") from None
    return True


def seldom_answered(case: Case, seed: int) -> AnyRun:
    """A longer run of people who share a large budget and answer one nudge in five, so that there is much to learn."""
    run = drawn("response", case, seed, longer=4)
    run.happenings["response_rate"] = 0.2
    budget = op.Budget(run.horizon * run.participants // 3, shared=True)
    return dataclasses.replace(run, policy=dataclasses.replace(run.policy, budget=budget))


def hold(kind: str, cases_: list[Case], *, seeds: int, live: bool, longer: int = 1) -> None:
    """Compare runs of every case; one that ended at a boundary is drawn anew, which must stay rare."""
    drawn_anew = 0
    for case in cases_:
        for first in range(seeds):
            for seed in range(first, first + 4 * seeds, seeds):
                run = drawn(kind, case, seed, longer=longer)
                try:
                    if agrees(run, lived(run) if live else simulated(run)):
                        break
                except DifferenceError as difference:
                    pytest.fail(f"{kind}, {case}, seed {seed}, {difference}")
                drawn_anew += 1
            else:
                pytest.fail(f"{kind}, {case}: every run drawn ended at a boundary")
    assert drawn_anew <= 2


kinds = pytest.mark.parametrize("kind", KINDS)


@kinds
def test_simulate_agrees_with_the_reference(kind: str) -> None:
    """`simulate` decides as section 10 reads, whatever is visible, known, shared and budgeted."""
    hold(kind, all_cases(kind, finite=True), seeds=1, live=False)


@kinds
def test_live_agents_agree_with_the_reference(kind: str) -> None:
    """`Agent` and `Cohort` do, whenever values, answers, rewards and corrections come."""
    hold(kind, all_cases(kind, finite=True), seeds=1, live=True)


@kinds
def test_simulate_agrees_where_contexts_are_not_finite(kind: str) -> None:
    """`simulate` ranks the moment among recent ones, by what is known of them now."""
    hold(kind, all_cases(kind, finite=False), seeds=1, live=False)


@kinds
def test_live_agents_agree_where_contexts_are_not_finite(kind: str) -> None:
    """The same for `Agent` and `Cohort`."""
    hold(kind, all_cases(kind, finite=False), seeds=1, live=True)


@pytest.mark.parametrize("visible", ["sensed", "public, sensed, reported"])
def test_only_so_many_recent_moments_count(visible: str) -> None:
    """Where contexts are not finite, the oldest of more than 64 moments makes room for the latest."""
    case = Case("PD2 adaptive", False, False, visible, False, "nothing", False, finite=False)
    run = dataclasses.replace(drawn("PACE", case, 3), horizon=90)
    assert agrees(run, simulated(run))


def test_counts_fade_in_long_runs() -> None:
    """Where p is not known, contexts of long ago count less and less, also in runs of several half-lives."""
    unknown = [case for case in all_cases("PACE", finite=True) if not case.known and case.sharing == "nothing"]
    for kind in ("PACE", "randomise"):  # a coin shows the least difference in odds
        hold(kind, unknown, seeds=1, live=True, longer=3)


def test_the_response_model_agrees_where_few_answer() -> None:
    """Where most nudges go unanswered, weights, persons and absences are those of the reading, too."""
    shared = [case for case in all_cases("PACE", finite=True) if case.lively and case.sharing in {"budget", "both"}]
    said = 0
    for seed, case in enumerate(shared[::2]):
        run = seldom_answered(case, seed)
        try:
            said += agrees(run, lived(run))
        except DifferenceError as difference:
            pytest.fail(f"{case}, seed {seed}, {difference}")
    assert said >= len(shared[::2]) - 2


@pytest.mark.parametrize("idea", IDEAS)
def test_every_idea_is_needed_to_agree(idea: str) -> None:
    """A reading that leaves out one idea parts from the compiled code: the runs compared above would show it."""
    kind = {"guard": "guard", "fading": "randomise", "response": "response", "candidates": "candidates"}.get(
        idea, "PACE"
    )  # a coin shows the least difference in odds
    for seed, case in enumerate(all_cases("PACE", finite=True)):
        run = seldom_answered(case, seed) if idea == "response" else drawn(kind, case, seed)
        try:
            agrees(run, lived(run), without=idea)
        except DifferenceError:
            return
    pytest.fail(f"no run shows that {idea!r} was left out")


def test_a_participant_who_leaves_is_not_expected_any_more() -> None:
    """Those who stay share the budget over their own decisions to come; how often people open unasked stays as seen."""
    case = Case("PD2 adaptive", False, True, "public, sensed", False, "budget", False)
    for seed in range(6):
        run = drawn("PACE", case, seed)
        events = list(leaving(run))
        assert agrees(run, events)
        assert any(event.got.opened for event in events if event.call == "propose")


def leaving(run: AnyRun) -> Iterator[Event]:
    """A cohort of which the first participant leaves halfway, and opens the app now and then before."""
    cohort = op.Cohort(run.problem, run.policy, horizon=run.horizon, seed=run.seed, participants=run.participants)
    names = [f"P{who}" for who in range(run.participants)]
    agents = [cohort.enrol(name) for name in names]
    for step in range(1, run.horizon + 1):
        for who, agent in enumerate(agents):
            if who == 0 and step == run.horizon // 2:
                cohort.withdraw(names[0])
                yield Event(0, "withdraw", {})
            if agent.withdrawn:
                continue
            context, opened = run.any_context(step), who == 0 and step % 2 == 0
            proposal = agent.propose(run.levels(context), opened=opened)
            given = {"sensed": run.sensed(context), "coin": proposal.coin, "opened": opened}
            yield Event(who, "propose", given, numbered(proposal, run.problem.action_names))
            revealed = opened or proposal.nudged
            decision = agent.settle(True if proposal.nudged else None)
            action = run.problem.action_names.index(decision.action)
            yield Event(who, "settle", {"revealed": revealed, "context": context}, SimpleNamespace(action=action))
            reward = float(run.rng.normal())
            agent.learn(reward)
            yield Event(who, "learn", {"reward": reward, "step": step})
