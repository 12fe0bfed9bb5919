"""`Agent`: one participant, live. The same step functions as in `simulate`, one call at a time."""

import datetime
from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opportune import checks
from opportune.algorithm.rng import COIN, draw
from opportune.engine.layout import Proposed
from opportune.engine.pointers import aligned
from opportune.engine.views import handle_of
from opportune.errors import InputError, StateError
from opportune.live import point, steps
from opportune.live.decision import Decision, Proposal, settled
from opportune.live.pending import Pending
from opportune.live.point import LEARNED, NOTHING, SKIPPED, UNKNOWN, WAITING, Step
from opportune.policy import Policy, layout_for, rule_for
from opportune.problems.continuous import ContinuousProblem
from opportune.problems.finite import Problem
from opportune.problems.settings import Located

STANDING = Proposed._fields.index("stale_action")


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
        member: int = 0,
        model: NDArray[np.float64] | None = None,
        budget: NDArray[np.float64] | None = None,
        constants: NDArray[np.float64] | None = None,  # of the problem
    ) -> None:
        """Check what was given and make room; what others share, or have worked out already, is handed in."""
        if not isinstance(problem, Problem | ContinuousProblem):
            raise InputError(f"problem is {checks.shown(problem)}; expected a Problem")
        if not isinstance(policy, Policy):
            raise InputError(f"policy is {checks.shown(policy)}; expected a Policy, such as pd2_ucb(budget=10)")
        self.problem, self.policy, self._rule_name = problem, policy, type(policy.revealer).__name__
        self.horizon = point.check_horizon(problem, horizon)
        self.seed, self.stream = checks.seed("seed", seed), checks.seed("stream", stream)
        self._key = np.uint64(self.seed), np.uint64(self.stream)  # also where they exceed 2^63
        self.step = 0
        # Steps that no reveal has uncovered are kept here, not in the layout's arrays.
        at = layout_for(policy, problem, horizon=self.horizon, participants=participants, held=0)
        point.check_room(at, model=model, budget=budget)
        self._at = at
        self._rule = rule_for(policy, problem, at, horizon=self.horizon, participants=participants, member=member)
        rule = at.views("rule", self._rule)
        self._amount, self._hard = float(rule.amount[0]), bool(rule.hard[0])
        shared = {"model": model, "budget": budget}
        self._groups, self._block = point.new_groups(at, {name: a for name, a in shared.items() if a is not None})
        self._places = at.numbers()
        self._constants = problem.constants(at, self.horizon) if constants is None else constants
        self._scratch = aligned(at.length("scratch"))
        self._handle = self._make_handle(**self._groups)
        self._spent = at.views("budget", self._groups["budget"])
        self._proposed = at.scalars("proposed", self._scratch)
        self._notes = at.scalars("revealer.notes", self._scratch)
        self._continuous = isinstance(problem, ContinuousProblem)
        self._reported = problem.reported
        self._reported_names = [name for name, seen in problem.visibility.items() if seen == "reported"]
        self._steps: dict[int, Step] = {}
        self._pending = Pending()
        self._proposal: Proposal | None = None  # the step that is not settled yet
        self._late_answer = self.withdrawn = False

    def _make_handle(self, **groups: NDArray[np.float64]) -> Any:
        nothing = np.zeros(0)  # a live participant has no world
        given = {"constants": self._constants, "rule": self._rule, **groups, "scratch": self._scratch}
        return handle_of(self._places, {**given, "world": nothing, "history": nothing})

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
        opened = checks.yes_no("opened", opened)
        available = checks.yes_no("available", available)
        reason = None if reason is None else checks.text("reason", reason, empty=True, lines=True)
        self._refuse_more()
        step = point.new_step(self.problem, self._reported_names, self.step + 1, context, reported)
        tossed = None if coin is None else checks.real("coin", coin, least=0.0, below=1.0)
        return self._meet(step, opened=opened, available=available, reason=reason, coin=tossed)

    def _refuse_more(self) -> None:
        """No decision follows where the participant has left, or all are made."""
        if self.withdrawn:
            raise StateError("the participant has withdrawn; no more decisions are made")
        if self.step >= self.horizon:
            raise StateError(f"all {self.horizon} decisions are made; the horizon is over")

    def _meet(
        self, step: Step, *, opened: bool, available: bool, reason: str | None, coin: float | None = None,
        past: bool = False,
    ) -> Proposal:  # fmt: skip
        """The next decision point, checked: what `propose` does with it.

        At one that was past when it became known nobody can be nudged: the rule is not asked, and nothing is revealed.
        An answer that came late counts at the next.
        """
        tossed = draw(*self._key, step.step, COIN) if coin is None else coin
        previous = self.settle(answered=False if self._proposal.nudged else None) if self._proposal else None
        available = available and not step.place.missing
        if available and self._late_answer and not past:
            opened, self._late_answer = True, False
        self.step = step.step
        self._steps[step.step] = step
        if self._continuous:
            steps.write_values(self._handle, step.place.values)
        if available:
            steps.propose_live(self._handle, *self._key, *step.where, opened or past, tossed)
        else:
            standing = steps.stand_by_live(self._handle, *self._key, *step.where)
            self._proposed[:] = Proposed(0.0, self._spent.price[0], 0.0, 0.0, 0.0, standing, standing, 0.0)
        made = Proposed(*self._proposed.tolist())
        names = self.problem.action_names
        self._proposal = Proposal(
            step.step, bool(made.nudged), made.probability, names[int(made.stale_action)], made.gap, made.price, tossed,
            self.budget_left,
            opened and available, available, None if available else point.absence(reason, step.place.missing),
            names[int(made.fresh_action)], made.disagreement, made.tolerance, self.policy.revealer.priced,
            self._rule_name,
            tuple(self._notes.tolist()) if self._notes.size and available and not (opened or past) else None, previous,
        )  # fmt: skip
        return self._proposal

    def settle(
        self,
        answered: bool | None = None,
        *,
        opened: bool = False,
        reported: Mapping[str, Any] | None = None,
        earlier: Mapping[int, Mapping[str, Any]] | None = None,
        shown: str | None = None,
    ) -> Decision:
        """Say what became of the proposal; the settled action is the step's treatment.

        Args:
            answered: whether the nudge was answered; None where there was none.
            opened: the patient has opened the app unasked since the proposal; what was charged stays charged.
            reported: values of reported variables, now that the patient has told them.
            earlier: {step: values of reported variables} of earlier steps that the patient tells with this reveal.
            shown: the action that the phone showed from its bundle while it was offline: it stands as the step's.

        """
        made, entry, opened, revealed = self._conclude(answered, opened, reported, earlier, shown)
        return settled(
            made, context=point.plain(entry.given), reported=point.plain(entry.reported) if revealed else None,
            opened=opened, answered=answered, revealed=revealed, offline=shown is not None,
            action=self.problem.action_names[entry.action], budget_left=self.budget_left, seed=self.seed,
            stream=self.stream,
        )  # fmt: skip

    def _conclude(
        self, answered: bool | None, opened: bool = False, reported: Any = None, earlier: Any = None,
        shown: str | None = None,
    ) -> tuple[Proposal, Step, bool, bool]:  # fmt: skip
        """What `settle` does: the proposal, its step as it is now, whether it was opened, and whether revealed."""
        made = self._proposal
        if made is None:
            raise StateError("there is no open proposal; call propose(context) first")
        opened = checks.yes_no("opened", opened) or made.opened
        revealed = point.check_outcome(made, answered, opened, told=reported is not None or earlier is not None)
        standing = point.standing_action(self.problem.action_names, made.action, shown, revealed)
        entry = self._steps[made.step]
        told = {} if earlier is None else self._uncovered(earlier)
        if reported is not None:
            told[entry.step] = point.with_reported(self.problem, self._reported_names, entry, reported)
        for number, known in told.items():
            self._steps[number].reported, self._steps[number].place = known
            self._pending.note(self._steps[number])
        if revealed and self._reported:
            self._uncover()
        if made.available:
            self._proposed[STANDING] = standing
            if self._continuous:
                steps.write_values(self._handle, entry.place.values)
            where = entry.where if revealed or not self._reported else (*entry.where[:3], UNKNOWN)
            entry.action = int(steps.settle_live(self._handle, *self._key, *where, revealed))
            entry.seen = where[3] != UNKNOWN
        else:
            entry.action = standing
            entry.status = NOTHING
        entry.settled = True
        entry.unanswered = made.nudged and not revealed
        self._pending.note(entry)
        self._proposal = None
        return made, entry, opened, revealed

    def answer_late(self, step: int, reported: Mapping[str, Any] | None = None) -> None:
        """An answer to the nudge of a step that was settled as unanswered.

        It counts as the patient opening the app at the next decision point at which the patient is available; what was
        reported is sealed until then.
        """
        entry = self._known_step(step)
        if not entry.unanswered:
            raise StateError(f"step {step} has no unanswered nudge")
        if reported is not None:
            known = point.with_reported(self.problem, self._reported_names, entry, reported)
            if not entry.seen:  # else an earlier reveal has uncovered the step, and what it told stands
                entry.reported, entry.place = known
                self._pending.note(entry)
        entry.unanswered = False
        self._late_answer = True

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
        if self._reported_names and not isinstance(context, Mapping) and isinstance(self.problem, Problem):
            context = self.problem.levels(self.problem.index(context))
        told = {n: context[n] for n in self._reported_names if n in context} if isinstance(context, Mapping) else {}
        if told:
            context = {name: value for name, value in context.items() if name not in told}
        proposal = self.propose(context, coin=coin, opened=opened, reported=told or None)
        return self.settle(answered=answered if proposal.nudged else None)

    def learn(self, reward: float, step: int | None = None) -> None:
        """The reward of a settled step, the latest unless another is named; once, whenever it arrives."""
        value = checks.real("reward", reward)
        entry = self._waiting_for_reward(step, "learn")
        entry.reward, entry.status = value, LEARNED
        if not entry.seen:
            self._pending.rewarded(entry.step)
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

    def withdraw(self) -> None:
        """The participant leaves the study: no more decisions are made, nor expected by those who share the budget."""
        if self.withdrawn:
            raise StateError("the participant has withdrawn already")
        if self._proposal is not None:
            self.settle(answered=False if self._proposal.nudged else None)
        self._spent.foregone[0] += self.horizon - self.step
        self.withdrawn = True

    def bundle(self, made: datetime.datetime | None = None) -> dict[str, Any]:
        """What a phone can show at the coming decision points while it is offline, until the next reveal.

        Where all public variables follow the schedule it is a list in order; otherwise the present action in each
        public stratum. With the version and when it was made (now, in UTC, unless given).
        """
        from opportune.live.bundle import bundle_of  # noqa: PLC0415  (which looks into agents)

        return bundle_of(self, made)

    def _uncovered(self, earlier: Any) -> dict[int, tuple[dict[str, Any], Located]]:
        """Earlier steps whose reported values are told now, checked."""
        if not isinstance(earlier, Mapping | None):
            raise InputError(f"earlier is {checks.shown(earlier)}; expected {{step: {{variable: value}}}}")
        found = {}
        for number, reported in (earlier or {}).items():
            entry = self._known_step(number)
            if entry.seen:
                raise StateError(f"step {number} is not pending; expected a step that no reveal has uncovered")
            found[entry.step] = point.with_reported(self.problem, self._reported_names, entry, reported)
        return found

    def _uncover(self) -> None:
        """A reveal uncovers the pending steps whose values are known: those told now, and those that were sealed."""
        uncovered, with_rewards = self._pending.open(self._steps)
        for s in uncovered:
            s.seen = True
            if self._continuous:
                steps.uncover_live(self._handle, s.place.values, s.action, s.status == LEARNED, s.reward)
            else:
                steps.hold_live(self._handle, *s.where, s.action)
        if not self._continuous:
            for s in with_rewards:
                steps.learn_live(self._handle, *s.where, s.action, False, s.reward)

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
