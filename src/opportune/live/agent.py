"""`Agent`: one participant, live. The same step functions as in `simulate`, one call at a time."""

import datetime
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opportune import checks
from opportune._version import __version__
from opportune.core.layout import Budget, Counts, Model, Rule, Scratch, Snapshot
from opportune.core.pointers import aligned
from opportune.core.rng import COIN, draw
from opportune.core.views import handle_of
from opportune.errors import InputError, StateError
from opportune.live import steps
from opportune.live.decision import Decision, Proposal
from opportune.policy import Policy, rule_for
from opportune.problems.continuous import ContinuousProblem
from opportune.problems.finite import Problem
from opportune.problems.settings import Located

MOST_SEED = 2**64 - 1
UNKNOWN = -1  # a context that nobody has seen yet

# What has become of a step's reward.
WAITING = "waiting"
LEARNED = "learned"
SKIPPED = "skipped"
NOTHING = "nothing"  # the participant was not available: nothing is learned from the step


@dataclass(slots=True)
class Step:
    """A decision point, for as long as its agent lives."""

    step: int
    place: Located
    reported: dict[str, Any] | None  # as given, also where no reveal has uncovered it yet
    action: int = -1
    settled: bool = False
    seen: bool = True  # its context is known to the revealer
    unanswered: bool = False  # it made a nudge that went unanswered
    status: str = WAITING
    reward: float = 0.0

    @property
    def where(self) -> tuple[int, int, int, int]:
        """Step, stratum, sensed part and context, as compiled code takes them."""
        return self.step, self.place.stratum, self.place.sense, self.place.context


class Agent:
    """Decides for one participant: `propose`, `settle`, and `learn` whenever the reward comes.

    `decide` is the one-call form, for when everything is known at once. A reward that is missing for good is skipped,
    one that was wrong is corrected.

    Args:
        problem: what is known beforehand.
        policy: who recommends, who reveals, with what budget.
        horizon: number of decision points, T.
        seed: of the study; every coin is a pure function of (seed, stream, step).
        stream: the participant's number, different for each.

    """

    def __init__(
        self, problem: Problem | ContinuousProblem, policy: Policy, *, horizon: int, seed: int, stream: int
    ) -> None:
        if isinstance(policy, Policy) and policy.together:
            shared = "budget" if policy.shared else "model"
            raise InputError(f"the policy's {shared} is shared between participants; expected a Cohort for them")
        self._build(problem, policy, horizon=horizon, seed=seed, stream=stream, participants=1)
        steps.begin_live(self._handle, True, True)

    def _build(
        self,
        problem: Any,
        policy: Any,
        *,
        horizon: int,
        seed: int,
        stream: int,
        participants: int,
        model: NDArray[np.float64] | None = None,
        budget: NDArray[np.float64] | None = None,
    ) -> None:
        """Check what was given and make room; a model or budget that others share is handed in."""
        if not isinstance(problem, Problem | ContinuousProblem):
            raise InputError(f"problem is {type(problem).__name__}; expected a Problem")
        if not isinstance(policy, Policy):
            raise InputError(f"policy is {type(policy).__name__}; expected a Policy, such as pd2_ucb(budget=10)")
        self.problem = problem
        self.policy = policy
        self.horizon = checks.whole("horizon", horizon, least=1, most=10_000_000)
        self.seed = checks.whole("seed", seed, least=0, most=MOST_SEED)
        self.stream = checks.whole("stream", stream, least=0, most=MOST_SEED)
        self._key = np.uint64(self.seed), np.uint64(self.stream)  # also where they exceed 2^63
        self.step = 0
        at = problem.layout(optimistic=policy.optimistic, sampled=policy.recommender.sampled, horizon=1)
        self._at = at
        self._rule = rule_for(policy, problem, at, horizon=self.horizon, participants=participants)
        rule = at.views(Rule, self._rule)
        self._amount, self._hard = float(rule.amount[0]), bool(rule.hard[0])
        self._groups: dict[str, NDArray[np.float64]] = {
            "model": aligned(at.length(Model)) if model is None else model,
            "counts": aligned(at.length(Counts)),
            "snapshot": aligned(at.length(Snapshot)),
            "budget": aligned(at.length(Budget)) if budget is None else budget,
        }
        self._places = np.array(at.at, dtype=np.int64)
        self._constants = problem.constants(at, self.horizon)
        self._scratch = aligned(at.length(Scratch))
        self._handle = self._make_handle(**self._groups)
        self._spent = at.views(Budget, self._groups["budget"])
        self._continuous = isinstance(problem, ContinuousProblem)
        self._out = steps.new_out()
        self._steps: dict[int, Step] = {}
        self._order: list[int] = []  # steps in the order in which their rewards arrived, while they are pending
        self._proposal: Proposal | None = None  # the step that is not settled yet
        self._given: Any = None
        self._late_answer = False

    def _make_handle(self, **groups: NDArray[np.float64]) -> Any:
        return handle_of(self._places, self._constants, self._rule, *groups.values(), self._scratch)

    @property
    def budget_left(self) -> float:
        """What is left of the budget: expected, and with a hard one also counted."""
        left = self._amount - float(self._spent.spent[0])
        if self._hard:
            left = min(left, self._amount - float(self._spent.nudges[0]))
        return left

    @property
    def open_steps(self) -> tuple[int, ...]:
        """Steps whose reward may still come."""
        return tuple(s.step for s in self._steps.values() if s.settled and s.status == WAITING)

    def propose(
        self,
        context: Any,
        *,
        opened: bool = False,
        reported: Mapping[str, Any] | None = None,
        available: bool = True,
        reason: str | None = None,
        coin: float | None = None,
    ) -> Proposal:
        """Weigh the moment and toss the coin: nudge now?

        A step that is still open is settled first: its nudge counts as unanswered.

        Args:
            context: public and sensed values, {variable: value}; scheduled ones need not be given. A sensed value that
                is None or lacks makes this a missing decision point: no nudge, no charge, nothing is learned from it.
                Where contexts are finite and nothing is reported, also the context's number.
            opened: the patient has the app open right now, which reveals free of charge.
            reported: values of reported variables, if they are known. Without a reveal they stay sealed until one
                uncovers this step.
            available: False while the participant must not be bothered; recorded with its `reason`.
            reason: why the participant is not available.
            coin: a uniform in [0, 1) to use instead of the agent's own, for replay.

        """
        checks.yes_no("opened", opened)
        checks.yes_no("available", available)
        if self.step >= self.horizon:
            raise StateError(f"all {self.horizon} decisions are made; the horizon is over")
        number = self.step + 1
        place, sealed = self._locate(context, reported, number)
        tossed = draw(*self._key, number, COIN) if coin is None else checks.real("coin", coin, least=0.0, below=1.0)
        previous = self.settle(answered=False if self._proposal.nudged else None) if self._proposal else None
        opened = opened or self._late_answer
        self._late_answer = False
        if place.missing:
            available = False
            reason = reason or f"no value of {', '.join(place.missing)}"
        step = Step(number, place, sealed)
        self.step = number
        self._steps[number] = step
        self._given = dict(context) if isinstance(context, Mapping) else context
        if self._continuous:
            steps.write_values(self._handle, place.values)
        names = self.problem.action_names
        if available:
            steps.propose_live(self._handle, *self._key, *step.where, opened, tossed, self._out)
        else:
            self._out[:] = 0.0
            self._out[1] = self._spent.price[0]
            self._out[5:7] = steps.stand_live(self._handle, *self._key, *step.where, False)
        gap, price, probability, tolerance, disagreement, fresh, stale, nudged = self._out.tolist()
        self._proposal = Proposal(
            step=number, nudged=bool(nudged), probability=probability, action=names[int(stale)], gap=gap, price=price,
            coin=tossed, budget_left=self.budget_left, opened=opened and available, available=available,
            reason=None if available else reason or "the participant is not available",
            fresh_action=names[int(fresh)], disagreement=disagreement, tolerance=tolerance,
            priced=self.policy.revealer.priced, previous=previous,
        )  # fmt: skip
        return self._proposal

    def settle(
        self,
        answered: bool | None = None,
        *,
        opened: bool = False,
        reported: Mapping[str, Any] | None = None,
        earlier: Mapping[int, Mapping[str, Any]] | None = None,
    ) -> Decision:
        """Say what became of the proposal; the settled action is the step's treatment.

        Args:
            answered: whether the nudge was answered; None where there was none.
            opened: the patient has opened the app unasked since the proposal; what was charged stays charged.
            reported: values of reported variables, now that the patient has told them.
            earlier: {step: values of reported variables} of earlier steps that the patient tells with this reveal.

        """
        made = self._proposal
        if made is None:
            raise StateError("there is no open proposal; call propose(context) first")
        opened = checks.yes_no("opened", opened) or made.opened
        if answered is not None:
            checks.yes_no("answered", answered)
            if not made.nudged:
                raise StateError(f"step {made.step} made no nudge that could be answered; call settle() without it")
        elif made.nudged and not opened:
            raise StateError(f"step {made.step} made a nudge; say settle(answered=True) or settle(answered=False)")
        if not made.available and opened:
            raise StateError(f"step {made.step} is not available ({made.reason}); it cannot be opened")
        entry = self._steps[made.step]
        revealed = bool(opened or answered)
        told = self._told(reported, revealed) if reported is not None else None
        found = self._uncovered(earlier, revealed)
        if told is not None:
            entry.reported = {**(entry.reported or {}), **told}
            entry.place = self._with_reported(entry)
        if revealed:
            self._uncover(found)
        if made.available:
            if self._continuous:
                steps.write_values(self._handle, entry.place.values)
            where = entry.where if revealed or not self.problem.reported else (*entry.where[:3], UNKNOWN)
            entry.action = int(steps.settle_live(self._handle, *self._key, *where, self._out, revealed))
            entry.seen = where[3] != UNKNOWN
        else:
            entry.action = self.problem.action_names.index(made.action)
            entry.status = NOTHING
        entry.settled = True
        entry.unanswered = made.nudged and not revealed
        self._proposal = None
        return Decision(
            step=made.step, context=self._given, reported=entry.reported if revealed else None,
            available=made.available, reason=made.reason, probability=made.probability, nudged=made.nudged,
            opened=opened, answered=answered, revealed=revealed, action=self.problem.action_names[entry.action],
            fresh_action=made.fresh_action, stale_action=made.action, gap=made.gap, price=made.price,
            disagreement=made.disagreement, tolerance=made.tolerance, budget_left=self.budget_left, coin=made.coin,
            priced=made.priced, seed=self.seed, stream=self.stream, version=__version__,
        )  # fmt: skip

    def answer_late(self, step: int, reported: Mapping[str, Any] | None = None) -> None:
        """An answer to the nudge of a step that was settled as unanswered.

        It counts as the patient opening the app at the next decision point; what was reported is sealed until then.
        """
        entry = self._known_step(step)
        if not entry.unanswered:
            raise StateError(f"step {step} has no unanswered nudge")
        entry.unanswered = False
        self._late_answer = True
        if reported is not None and not entry.seen:
            entry.reported = {**(entry.reported or {}), **self._told(reported, True)}
            entry.place = self._with_reported(entry)

    def decide(
        self, context: Any, coin: float | None = None, *, opened: bool = False, answered: bool = True
    ) -> Decision:
        """Propose and settle at once, where the whole context is here and it is known whether a nudge is answered.

        Args:
            context: the context's number, or {variable: value}. Of reported variables nothing is used before a reveal.
            coin: a uniform in [0, 1) to use instead of the agent's own, for replay.
            opened: the patient has opened the app unasked, which reveals free of charge.
            answered: a nudge, if one is made, is answered.

        """
        checks.yes_no("answered", answered)
        if not isinstance(context, Mapping) and self.problem.reported:
            context = self.problem.levels(self.problem.index(context))  # type: ignore[union-attr]
        told = None
        if isinstance(context, Mapping):
            seen = self.problem.visibility
            told = {name: value for name, value in context.items() if seen.get(name) == "reported"}
            context = {name: value for name, value in context.items() if name not in told}
        proposal = self.propose(context, coin=coin, opened=opened, reported=told or None)
        return self.settle(answered=answered if proposal.nudged else None)

    def learn(self, reward: float, step: int | None = None) -> None:
        """The reward of a settled step, the latest unless another is named; once, whenever it arrives."""
        value = checks.real("reward", reward)
        entry = self._waiting_for_reward(step, "learn")
        entry.reward, entry.status = value, LEARNED
        if not entry.seen:
            self._order.append(entry.step)
            return
        if self._continuous:
            steps.write_values(self._handle, entry.place.values)
        steps.learn_live(self._handle, *entry.where, entry.action, True, value)

    def skip(self, step: int | None = None) -> None:
        """The reward of a settled step will never come: go on without it."""
        self._waiting_for_reward(step, "skip").status = SKIPPED

    def correct(self, reward: float, step: int) -> None:
        """The reward of a step was not what it was said to be: the new one supersedes it."""
        value = checks.real("reward", reward)
        entry = self._known_step(step)
        if entry.status != LEARNED:
            raise StateError(f"step {step} has no reward to correct (it is {entry.status})")
        difference, entry.reward = value - entry.reward, value
        if entry.seen:
            if self._continuous:
                steps.write_values(self._handle, entry.place.values)
            steps.correct_live(self._handle, *entry.where, entry.action, difference)

    def bundle(self, made: datetime.datetime | None = None) -> dict[str, Any]:
        """What a phone can show at the coming decision points while it is offline, until the next reveal.

        Where all public variables follow the schedule it is a list in order; otherwise the present action in each
        public stratum. With the version and when it was made (now, in UTC, unless given).
        """
        moment = datetime.datetime.now(datetime.UTC) if made is None else made
        head = {"version": __version__, "made": moment.isoformat(), "stream": self.stream, "after_step": self.step}
        public = [name for name, seen in self.problem.visibility.items() if seen == "public"]
        copied = self._groups["snapshot"].copy()
        handle = self._make_handle(**{**self._groups, "snapshot": copied})
        names = self.problem.action_names
        coming = range(self.step + 1, self.horizon + 1)
        if set(public) <= set(self.problem.schedule.variables):
            actions = []
            for number in coming:
                place = self.problem.locate({}, number)
                if self._continuous:
                    steps.write_values(handle, place.values)
                where = (number, place.stratum, place.sense, UNKNOWN)
                action = names[int(steps.stand_live(handle, *self._key, *where, True))]
                actions.append({"step": number, **self.problem.schedule.values(number), "action": action})
            return {**head, "actions": actions}
        return {**head, "strata": self._strata_actions(handle, public)}

    def _strata_actions(self, handle: Any, public: list[str]) -> list[dict[str, Any]]:
        """The present action in each public stratum."""
        latest = self._steps.get(self.step)
        number = min(self.step + 1, self.horizon)
        rows = []
        for levels in self.problem.public_levels():
            place = self.problem.locate(levels, number)
            if self._continuous:
                values = place.values if latest is None else self.problem.with_levels(latest.place.values, levels)  # type: ignore[union-attr]
                steps.write_values(handle, values)
            where = (number, place.stratum, place.sense, UNKNOWN)
            action = int(steps.stand_live(handle, *self._key, *where, False))
            rows.append({**levels, "action": self.problem.action_names[action]})
        return rows

    def _locate(self, context: Any, reported: Any, number: int) -> tuple[Located, dict[str, Any] | None]:
        """Where a context stands, and the reported values that came with it."""
        seen = self.problem.visibility
        if isinstance(context, Mapping):
            for name in context:
                if seen.get(name) == "reported":
                    raise InputError(f"{name!r} is reported; expected it in reported={{...}}, not in context")
        elif self.problem.reported:
            raise InputError(f"context is {context!r}; expected {{variable: value}}, as some variables are reported")
        sealed = None if reported is None else self._told(reported, True)
        whole = {**context, **sealed} if sealed and isinstance(context, Mapping) else context
        return self.problem.locate(whole, number), sealed

    def _told(self, reported: Any, revealed: bool) -> dict[str, Any]:
        """Reported values, checked as far as names go."""
        if not isinstance(reported, Mapping):
            raise InputError(f"reported is {reported!r}; expected {{variable: value}}")
        names = [name for name, seen in self.problem.visibility.items() if seen == "reported"]
        for name in reported:
            checks.choice("reported variable", name, names)
        if not revealed:
            raise StateError("reported values were given, but nothing was revealed; say answered=True or opened=True")
        return dict(reported)

    def _with_reported(self, entry: Step) -> Located:
        """The place of a step with what was reported filled in."""
        told = entry.reported or {}
        if self._continuous:
            place = entry.place
            values = self.problem.with_levels(place.values, told)  # type: ignore[union-attr]
            unreported = tuple(name for name in place.unreported if told.get(name) is None)
            return place._replace(values=values, unreported=unreported, context=-1 if unreported else 0)
        return self.problem.with_reported(entry.place, told)  # type: ignore[union-attr]

    def _uncovered(self, earlier: Any, revealed: bool) -> dict[int, Located]:
        """The places of earlier steps whose reported values were told now, checked."""
        if earlier is None:
            return {}
        if not isinstance(earlier, Mapping):
            raise InputError(f"earlier is {earlier!r}; expected {{step: {{variable: value}}}}")
        found = {}
        for number, values in earlier.items():
            entry = self._known_step(number)
            told = self._told(values, revealed)
            if entry.seen or entry.status == NOTHING:
                raise StateError(f"step {number} is not pending; expected a step that no reveal has uncovered")
            copied = Step(entry.step, entry.place, {**(entry.reported or {}), **told})
            found[number] = self._with_reported(copied)
        return found

    def _uncover(self, found: Mapping[int, Located]) -> None:
        """A reveal uncovers the pending steps whose values are known: those told now, and those that were sealed."""
        if not self.problem.reported:
            return
        for number, place in found.items():
            self._steps[number].place = place
        pending = [
            s for s in self._steps.values()
            if s.settled and not s.seen and s.status != NOTHING and s.place.context != UNKNOWN
        ]  # fmt: skip
        for s in pending:
            if self._continuous:
                rewarded = s.status == LEARNED
                steps.uncover_live(self._handle, s.place.values, s.action, rewarded, s.reward)
            else:
                steps.hold_live(self._handle, *s.where, s.action)
            s.seen = True
        now = {s.step for s in pending}
        if not self._continuous:
            for number in self._order:
                if number in now:
                    s = self._steps[number]
                    steps.learn_live(self._handle, *s.where, s.action, False, s.reward)
        self._order = [number for number in self._order if number not in now]

    def _known_step(self, step: Any) -> Step:
        number = checks.whole("step", step, least=1, most=max(1, self.step))
        entry = self._steps.get(number)
        if entry is None or not entry.settled:
            raise StateError(f"step {number} is not settled yet; call settle(...) first")
        return entry

    def _waiting_for_reward(self, step: int | None, call: str) -> Step:
        """The step that a reward is for."""
        if step is None and self.step == 0:
            raise StateError("there is no decision to learn from; call propose(context) or decide(context) first")
        entry = self._known_step(self.step if step is None else step)
        if entry.status == LEARNED:
            raise StateError(f"step {entry.step} has its reward; call correct(reward, step={entry.step}) to change it")
        if entry.status == NOTHING:
            raise StateError(f"step {entry.step} was not available: nothing is learned from it")
        if entry.status == SKIPPED and call == "skip":
            raise StateError(f"step {entry.step} was skipped already")
        return entry

    def to_dict(self) -> dict[str, Any]:
        """The whole agent as plain JSON values; `from_dict` resumes it exactly."""
        from opportune.live import saving  # noqa: PLC0415  (which builds agents)

        return saving.sealed(saving.describe_agent(self))

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any]) -> "Agent":
        """The agent that `to_dict` described, ready to go on as if it had never stopped."""
        from opportune.live import saving  # noqa: PLC0415

        return saving.restore_agent(saving.unsealed(saved, "agent"))

    def __repr__(self) -> str:
        return f"Agent({self.policy.name}, step {self.step} of {self.horizon}, budget left {self.budget_left:g})"
