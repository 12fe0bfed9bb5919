"""Every driver against the slow second reading of the specification (tests/reference.py), call by call.

A driver's run is written down as events: what was proposed, settled, learned and corrected, by whom, and what came of
it. The reference gets the same events. A disagreement counts unless the reference itself stood within 1e-9 of a
decision boundary; such a run says nothing, and another one is drawn in its place.
"""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from types import SimpleNamespace
from typing import Any

import pytest

import opportune as op
from opportune.algorithm.rng import ANSWER, AVAILABLE, COIN, DELAY, LOST, NOISE, OPEN, draw, normal
from reference import SMALLEST_DIVISOR, Data, Participant, Purse, Settings
from runs import REVEALERS, AnyRun, Case, cases, continuous_cases, draw_run

CLOSE = 1e-9
ROUNDING = 2e-13  # scores this close are tied for certain: no implementation's rounding reaches TIE
RULES: dict[type, str] = {
    op.FixedRate: "fixed_rate",
    op.PrimalDual: "primal_dual",
    op.LearningPrimalDual: "learning_primal_dual",
    op.Never: "never",
    op.Always: "always",
    op.Periodic: "periodic",
}


@dataclass
class Event:
    """A call that a driver made for a participant, and what it got (None: nothing to compare)."""

    who: int
    call: str
    arguments: dict[str, Any]
    got: Any = None


class DifferenceError(AssertionError):
    """A driver and the reference went different ways."""


def lam_of(problem: Any, *, pointwise: bool) -> float:
    """Lam as given; else 1/W^2, or d R^2/W^2 where the radius is pointwise."""
    W = problem.theta_bound
    given = problem.regularisation != 1.0 / W / W
    return problem.d * problem.noise_sd**2 / W**2 if pointwise and not given else float(problem.regularisation)


def references_of(run: AnyRun) -> list[Participant]:
    """The slow reading of the same problem and policy, one per participant."""
    problem, policy = run.problem, run.policy
    scale: str | float = "adaptive"
    if policy.scale != "adaptive" and problem.value_range is not None:  # also for rules that do not go by gaps
        scale = problem.value_range[1] - problem.value_range[0]
    if policy.scale == "gap":
        scale = problem.largest_gap
    settings = Settings(
        noise_sd=problem.noise_sd,
        theta_bound=problem.theta_bound,
        regularisation=lam_of(problem, pointwise=policy.pointwise),
        pointwise=policy.pointwise,
        prior_mean=problem.prior_mean,
        prior_sd=problem.prior_sd,
        delta=problem.delta,
        rule=RULES[type(policy.revealer)],
        every=getattr(policy.revealer, "every", 1),
        budget=math.inf if policy.budget is None else policy.budget.amount,
        hard=policy.budget is not None and policy.budget.hard,
        scale=scale,
        decisions=run.horizon * (run.participants if policy.shared else 1),
        inflation=getattr(policy.recommender, "inflation", None),
    )
    data, purse = (Data() if policy.pooled else None), (Purse() if policy.shared else None)
    contexts = run.contexts()
    return [Participant(contexts, settings, d=problem.d, data=data, purse=purse) for _ in range(run.participants)]


EXACT = ("nudged", "action", "fresh_action")
NEARLY = ("probability", "price", "gap", "disagreement", "tolerance", "budget_left")


def compare(got: Any, expected: SimpleNamespace) -> None:
    """What a call gave against the reference's: the same choices, numbers within 1e-9."""
    for name in EXACT:
        if hasattr(got, name) and getattr(got, name) != getattr(expected, name):
            raise DifferenceError(f"{name} is {getattr(got, name)}; the reference has {getattr(expected, name)}")
    for name in NEARLY:
        if hasattr(got, name) and not math.isclose(
            getattr(got, name), getattr(expected, name), rel_tol=CLOSE, abs_tol=CLOSE
        ):
            raise DifferenceError(f"{name} is {getattr(got, name)}; the reference has {getattr(expected, name)}")


def agrees(run: AnyRun, events: list[Event]) -> bool:
    """Whether the reference decides as the driver did; False if it stood at a boundary where they part."""
    participants = references_of(run)
    near = False
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


def at_boundary(found: SimpleNamespace) -> bool:
    """Whether the reference was within 1e-9 of going another way."""
    if any(nearly_tied(scores) for scores in found.scores):
        return True
    if not getattr(found, "edges", []):
        return False
    worth, coin, divisor, *edges = found.edges
    if ROUNDING < abs(worth) < CLOSE or abs(coin) < CLOSE:
        return True
    if abs(worth) > ROUNDING and SMALLEST_DIVISOR < divisor < 1e-5:  # rounding in u - v, divided by this, shows
        return True
    return any(abs(edge) < CLOSE for edge in edges)


def nearly_tied(scores: list[float]) -> bool:
    """Whether some score is so near the largest that rounding may decide if they tie."""
    return any(ROUNDING < max(scores) - score < CLOSE for score in scores)


# The run as `simulate` makes it; arrivals, openings, answers, coins and delays are drawn here a second time.


def simulated(run: AnyRun) -> list[Event]:
    worlds = [run.world(who) for who in range(run.participants)]
    data = op.simulate(worlds, run.policy, horizon=run.horizon, replicates=1, seed=run.seed, progress=False)
    names = [str(name) for name in data.data_vars if "step" in data[name].dims]
    trace = {name: data[name].values[0, :, 0].tolist() for name in names}  # [world][step]
    events: list[Event] = []
    mail: dict[tuple[int, int], list[Event]] = {}
    purses = [[0.0, 0] for _ in worlds]
    for step in range(1, run.horizon + 1):
        for who in range(run.participants):
            got = SimpleNamespace(**{name: values[who][step - 1] for name, values in trace.items()})
            purse = purses[0 if run.policy.shared else who]
            purse[0] += got.nudged if run.policy.counted else got.probability
            purse[1] += got.nudged
            got.budget_left = left_of(run.policy.budget, *purse)
            events += simulated_step(run, who, step, got, mail)
            events += mail.pop((who, step), [])
    return events


def left_of(budget: op.Budget | None, spent: float, nudges: float) -> float:
    if budget is None:
        return math.inf
    return min(budget.amount - spent, budget.amount - nudges) if budget.hard else budget.amount - spent


def simulated_step(
    run: AnyRun, who: int, step: int, got: Any, mail: dict[tuple[int, int], list[Event]]
) -> Iterator[Event]:
    """One participant's step, held to what the draws say must have happened."""
    rates = run.happenings

    def happens(purpose: int, rate: float) -> bool:
        return bool(draw(run.seed, who << 32, step, purpose) < rate)

    context = run.drawn_context(who, step)
    available = happens(AVAILABLE, rates.get("available_rate", 1.0))
    opened = available and happens(OPEN, rates.get("open_rate", 0.0))
    revealed = opened or (got.nudged and happens(ANSWER, rates.get("response_rate", 1.0)))
    assert (got.available, got.opened, got.revealed) == (available, opened, revealed)
    normals = run.normals(who, step)
    proposed = SimpleNamespace(**{**vars(got), "action": got.stale_action})
    coin = draw(run.seed, who << 32, step, COIN)
    yield Event(
        who, "propose",
        {"sensed": run.sensed(context), "coin": coin, "opened": opened, "available": available, "normals": normals},
        proposed,
    )  # fmt: skip
    settled = {"revealed": revealed, "context": context, "normals": normals}
    yield Event(who, "settle", settled, SimpleNamespace(action=got.action))
    if not available:
        assert math.isnan(got.reward)
        return
    mean = float(run.features(context)[got.action] @ run.thetas[who])
    reward = mean + run.problem.noise_sd * normal(draw(run.seed, who << 32, step, NOISE))
    if happens(LOST, rates.get("reward_rate", 1.0)):
        assert got.reward == pytest.approx(reward, rel=1e-12, abs=1e-12)
        delay = rates.get("reward_delay", 0)
        due = step + min(int(draw(run.seed, who << 32, step, DELAY) * (delay + 1)), delay)
        mail.setdefault((who, due), []).append(Event(who, "learn", {"reward": got.reward, "step": step}))
    else:
        assert math.isnan(got.reward)


# The run as live agents make it, with everything that docs/live.md says may happen.


@dataclass
class Patient:
    """A participant of a live run, and what has become of its steps."""

    run: AnyRun
    who: int
    agent: op.Agent
    contexts: dict[int, Any] = field(default_factory=dict)
    sealed: dict[int, bool] = field(default_factory=dict)  # whether all of a step's context was told by now
    pending: list[int] = field(default_factory=list)
    waiting: list[int] = field(default_factory=list)
    learned: list[int] = field(default_factory=list)
    unanswered: list[int] = field(default_factory=list)
    late: bool = False
    open: bool = False  # the latest step is not settled

    def chance(self, rate: float) -> bool:
        """Whether something of this probability happens."""
        return bool(self.run.rng.random() < rate)

    def split(self, step: int) -> tuple[dict[str, Any], dict[str, Any]]:
        """What is sensed, and what is reported, of a step's context."""
        seen, levels = self.run.problem.visibility, self.run.levels(self.contexts[step])
        told = {name: value for name, value in levels.items() if seen[name] == "reported"}
        return {name: value for name, value in levels.items() if name not in told}, told

    def step(self) -> Iterator[Event]:
        """One decision point, and some of what comes between two of them."""
        lively, rng, step = self.run.case.lively, self.run.rng, self.agent.step + 1
        self.contexts[step] = self.run.any_context(step)
        known, told = self.split(step)
        scheduled = set(self.run.problem.schedule.variables)
        given = {name: value for name, value in known.items() if name not in scheduled}
        sensed = [name for name in given if self.run.problem.visibility[name] == "sensed"]
        missing = lively and bool(sensed) and self.chance(0.05)
        if missing:
            given.pop(str(rng.choice(sensed)))
        away = lively and self.chance(0.05)
        opened = self.chance(self.run.happenings.get("open_rate", 0.0))
        told_now = bool(told) and self.chance(0.4)
        coin = float(rng.random())
        proposal = self.agent.propose(
            given, coin=coin, opened=opened, available=not away, reported=told if told_now else None
        )
        if self.open:
            yield self.settled(step - 1, proposal.previous, revealed=proposal.previous.opened)  # type: ignore[union-attr]
        available = not (away or missing)
        opened = available and (opened or self.late)
        self.late = self.late and not available
        assert (proposal.available, proposal.opened) == (available, opened)
        normals = self.run.normals(self.who, step)
        yield Event(
            self.who, "propose",
            {"sensed": self.run.sensed(self.contexts[step]), "coin": coin, "opened": opened, "available": available,
             "normals": normals},
            numbered(proposal, self.run.problem.action_names),
        )  # fmt: skip
        self.sealed[step] = told_now or not told
        if lively and self.chance(0.1):
            self.open = True
            return
        yield self.settle(proposal, told)
        yield from self.meanwhile()

    def settle(self, proposal: op.Proposal, told: dict[str, Any]) -> Event:
        """Settle an open proposal somehow; with a reveal, some of what is reported is told, also of earlier steps."""
        lively, step = self.run.case.lively, proposal.step
        answered = self.chance(self.run.happenings.get("response_rate", 1.0)) if proposal.nudged else None
        opened = proposal.available and lively and self.chance(0.1)
        revealed = bool(proposal.opened or answered or opened)
        reported = None
        if revealed and not self.sealed[step] and self.chance(0.8):
            reported, self.sealed[step] = told, True
        earlier = {}
        if revealed:
            earlier = {s: self.split(s)[1] for s in self.pending if not self.sealed[s] and self.chance(0.5)}
        for s in earlier:
            self.sealed[s] = True
        decision = self.agent.settle(answered, opened=opened, reported=reported, earlier=earlier or None)
        return self.settled(step, decision, revealed=revealed, earlier={s: self.contexts[s] for s in earlier})

    def settled(self, step: int, decision: Any, *, revealed: bool, earlier: Mapping[int, Any] | None = None) -> Event:
        """Note what became of a step."""
        self.open = False
        assert decision.revealed == revealed
        if decision.available:
            self.waiting.append(step)
            if decision.nudged and not revealed:
                self.unanswered.append(step)
            if self.run.problem.reported and not (revealed and self.sealed[step]):
                self.pending.append(step)
        if revealed:
            self.pending = [s for s in self.pending if not self.sealed[s]]
        return Event(
            self.who, "settle",
            {"revealed": revealed, "context": self.contexts[step] if self.sealed[step] else None, "earlier": earlier,
             "normals": self.run.normals(self.who, step)},
            SimpleNamespace(action=int(self.run.problem.action_names.index(decision.action))),
        )  # fmt: skip

    def meanwhile(self) -> Iterator[Event]:
        """Late answers; rewards in any order, some missing, some corrected."""
        rng, lively = self.run.rng, self.run.case.lively
        for step in [s for s in self.unanswered if self.chance(0.3)]:
            told = self.split(step)[1]
            self.agent.answer_late(step, told or None)
            self.unanswered.remove(step)
            self.late = True
            if told:
                self.sealed[step] = True
                yield Event(self.who, "seal", {"step": step, "context": self.contexts[step]})
        for step in rng.permutation(self.waiting).tolist():
            if lively and self.chance(0.5):
                continue
            self.waiting.remove(step)
            if self.chance(0.15):
                self.agent.skip(step)
                continue
            reward = float(rng.normal())
            self.agent.learn(reward, step)
            self.learned.append(step)
            yield Event(self.who, "learn", {"reward": reward, "step": step})
        if self.learned and lively and self.chance(0.2):
            step, reward = int(rng.choice(self.learned)), float(rng.normal())
            self.agent.correct(reward, step)
            yield Event(self.who, "correct", {"reward": reward, "step": step})


def numbered(proposal: op.Proposal, names: Sequence[str]) -> SimpleNamespace:
    """A proposal as the reference has it, with actions by number."""
    actions = {name: names.index(getattr(proposal, name)) for name in ("action", "fresh_action")}
    return SimpleNamespace(**{**{each.name: getattr(proposal, each.name) for each in fields(proposal)}, **actions})


def agents_of(run: AnyRun) -> list[op.Agent]:
    """The participants of a live run: an agent alone, or a cohort."""
    if run.case.sharing == "nothing":
        return [op.Agent(run.problem, run.policy, horizon=run.horizon, seed=run.seed, stream=0)]
    cohort = op.Cohort(run.problem, run.policy, horizon=run.horizon, seed=run.seed, participants=run.participants)
    return [cohort.enrol(f"P{who}") for who in range(run.participants)]


def lived(run: AnyRun) -> list[Event]:
    patients = [Patient(run, who, agent) for who, agent in enumerate(agents_of(run))]
    events: list[Event] = []
    for _ in range(run.horizon):
        for who in run.rng.permutation(run.participants).tolist():
            events += patients[who].step()
    return events


def hold(cases_: list[Case], *, seeds: int, live: bool, radius: str = "uniform") -> None:
    """Compare runs of every case; one that ended at a boundary is drawn anew, which must stay rare."""
    drawn_anew = 0
    for case in cases_:
        for first in range(seeds):
            for seed in range(first, first + 4 * seeds, seeds):
                run = draw_run(case, seed)
                if radius == "pointwise":
                    run.policy = replace(run.policy, recommender=op.LinUCB(radius=radius))
                try:
                    if agrees(run, lived(run) if live else simulated(run)):
                        break
                except DifferenceError as difference:
                    pytest.fail(f"{case}, seed {seed}, {difference}")
                drawn_anew += 1
            else:
                pytest.fail(f"{case}: every run drawn ended at a boundary")
    assert drawn_anew <= 2


revealers = pytest.mark.parametrize("revealer", REVEALERS)


@revealers
def test_simulate_agrees_with_the_reference(revealer: str) -> None:
    """`simulate` decides as the reference does at every step, whatever is visible, known, shared and budgeted."""
    hold(cases(revealer), seeds=1, live=False)


@revealers
def test_live_agents_agree_with_the_reference(revealer: str) -> None:
    """`Agent` and `Cohort` decide as the reference does, whenever values, answers, rewards and corrections come."""
    hold(cases(revealer), seeds=2, live=True)


@revealers
def test_simulate_agrees_where_contexts_are_not_finite(revealer: str) -> None:
    """The same for `simulate` with features computed at the moment and means that are learned, or known."""
    hold(continuous_cases(revealer), seeds=1, live=False)


@revealers
def test_live_agents_agree_where_contexts_are_not_finite(revealer: str) -> None:
    """The same for `Agent` and `Cohort`."""
    hold(continuous_cases(revealer), seeds=1, live=True)


@pytest.mark.parametrize("live", [False, True], ids=["simulate", "live"])
@revealers
def test_a_pointwise_radius_agrees_with_the_reference(revealer: str, live: bool) -> None:
    """With a pointwise radius too, whatever the revealer; its cases, finite or not, take turns among revealers."""
    found = [case for case in (*cases(revealer), *continuous_cases(revealer)) if not case.sampled]
    hold(found[list(REVEALERS).index(revealer) % 5 :: 5], seeds=1, live=live, radius="pointwise")


def test_the_runs_drawn_meet_every_situation() -> None:
    """Runs as compared above meet each of the situations where a rule, a budget or a patient does something special."""
    met: dict[str, int] = dict.fromkeys(
        ["boosted", "certain", "uncertain", "opened", "unanswered", "opened after a proposal", "not available",
         "missing", "settled by the next", "pending after a reveal", "told later", "late reward", "corrected",
         "corrected before it was uncovered", "budget spent", "price above 1", "context worth less than none",
         "stale advice"], 0,
    )  # fmt: skip
    for name in ("PD1 range", "PD2 range", "PD2 adaptive"):
        for case in cases(name):
            run = draw_run(case, 0)
            count_situations(run, lived(run), met)
    assert min(met.values()) >= 10, met


def count_situations(run: AnyRun, events: list[Event], met: dict[str, int]) -> None:
    participants = references_of(run)
    for event in events:
        patient, got, given = participants[event.who], event.got, event.arguments
        getattr(patient, event.call)(**given)
        if event.call == "propose":
            met["boosted"] += got.disagreement > 0.0 and got.gap + CLOSE < got.probability < 1.0
            met["certain"] += got.probability == 1.0
            met["uncertain"] += 0.0 < got.probability < 1.0
            met["opened"] += got.opened
            met["not available"] += not got.available
            met["missing"] += got.reason is not None and got.reason.startswith("no value of")
            met["settled by the next"] += got.previous is not None
            met["budget spent"] += got.budget_left < CLOSE
            met["price above 1"] += got.price >= 1.0
            met["context worth less than none"] += got.gap < 0.0
            met["stale advice"] += got.fresh_action != got.action
            last = got
        elif event.call == "settle":
            met["unanswered"] += last.nudged and not given["revealed"]
            met["opened after a proposal"] += given["revealed"] and not last.nudged and not last.opened
            met["pending after a reveal"] += given["revealed"] and given["context"] is None
            met["told later"] += bool(given["earlier"])
        elif event.call == "learn":
            met["late reward"] += given["step"] < len(patient.steps)
        elif event.call == "correct":
            met["corrected"] += 1
            met["corrected before it was uncovered"] += patient.steps[given["step"] - 1].pending
