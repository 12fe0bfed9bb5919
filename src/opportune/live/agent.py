"""`Agent`: one participant, live. The same step functions as in `simulate`, one call at a time."""

import datetime
from collections.abc import Mapping
from typing import Any

import numpy as np

from opportune import checks
from opportune.algorithm.allowance import ANYTIME, Slot
from opportune.algorithm.reasons import ELIGIBLE, PAST, UNASKED, UNAVAILABLE, word
from opportune.algorithm.rng import COIN, draw
from opportune.engine.declared import Proposed
from opportune.errors import InputError, StateError
from opportune.live import corrections, learning, point, steps
from opportune.live.decision import Decision, Proposal, settled
from opportune.live.numbers import Numbers
from opportune.live.pending import Pending
from opportune.live.point import LEARNED, NOTHING, SKIPPED, UNKNOWN, WAITING, Step
from opportune.live.uninterrupted import uninterrupted
from opportune.policy import Policy
from opportune.problems.continuous import ContinuousProblem
from opportune.problems.finite import Problem

STALE, STANDING = (Proposed._fields.index(name) for name in ("stale_action", "standing_action"))


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
        self._build(problem, policy, horizon=horizon, seed=seed, stream=stream)
        self.numbers.begin()

    def _build(
        self, problem: Any, policy: Any, *, horizon: int, seed: int, stream: int, **sharing: Any
    ) -> None:  # fmt: skip
        """Check what was given and make room; `sharing` is what `Numbers` takes besides."""
        if not isinstance(problem, Problem | ContinuousProblem):
            raise InputError(f"problem is {checks.brief(problem)}; expected a Problem")
        if not isinstance(policy, Policy):
            raise InputError(f"policy is {checks.brief(policy)}; expected a Policy, such as pd2_ucb(budget=10)")
        self.problem, self.policy = problem, policy
        self.horizon = point.check_horizon(problem, horizon)
        self.seed, self.stream = checks.seed("seed", seed), checks.seed("stream", stream)
        self.key = np.uint64(self.seed), np.uint64(self.stream)  # also where they exceed 2^63
        self.numbers = Numbers(problem, policy, horizon=self.horizon, **sharing)
        self.step = 0
        self.steps: dict[int, Step] = {}
        self.pending = Pending()
        self.open_proposal: Proposal | None = None  # of the step that is not settled yet
        self.withdrawn = self.explains = False  # `explains`: what was before a proposal is kept
        self.opened_since: dict[str, Any] | None = None  # what was told when the app was opened since the latest step
        self.drawn: tuple[float, ...] | None = None  # of the latest settled step, as `Proposal.drawn` of a proposal
        self.before: Any = None
        self.reported_names = [name for name, seen in problem.visibility.items() if seen == "reported"]
        self.continuous = isinstance(problem, ContinuousProblem)

    @classmethod
    def seated(cls, problem: Any, policy: Policy, **settings: Any) -> "Agent":
        """Build an agent that shares a budget, a model or staff with others; `Cohort` calls this."""
        agent = cls.__new__(cls)
        agent._build(problem, policy, **settings)
        return agent

    @property
    def budget_left(self) -> float:
        """The budget left: in expectation, and for a hard budget also in nudges made."""
        return self.numbers.budget_left

    @property
    def open_steps(self) -> tuple[int, ...]:
        """Steps whose reward may still come."""
        return tuple(s.step for s in self.steps.values() if s.settled and s.status == WAITING)

    @uninterrupted
    def propose(
        self,
        context: Any,
        *,
        opened: bool = False,
        reported: Mapping[str, Any] | None = None,
        available: bool = True,
        reason: str | None = None,
        coin: float | None = None,
        closed: int = ELIGIBLE,
        hours: float | None = None,
        day: int | None = None,
        open_left: int | None = None,
    ) -> Proposal:
        """Decide whether to nudge now.

        A step that is still open is settled first: its nudge counts as unanswered.

        Args:
            context: public and sensed values, {variable: value}; scheduled ones need not be given, and those of the
                participant's own history must not be: they are filled in here. A sensed value that is None or lacks
                makes this a missing decision point: no nudge, no charge, nothing is learned from it. Where contexts are
                finite and nothing is reported, also the context's number.
            opened: the patient has the app open right now, which reveals free of charge.
            reported: values of reported variables, if they are known. Without a reveal they stay sealed until one
                uncovers this step.
            available: False while the participant must not be bothered; recorded with its `reason`.
            reason: why the participant is not available.
            coin: a uniform in [0, 1) to use instead of the agent's own, for replay.
            closed: why no nudge may be made here, by the calendar: a number of `algorithm.reasons`; 0 where one may.
            hours: real hours since the study's epoch; for limits on one participant's nudges.
            day: staff's day, by number; for a limit on staff's nudges.
            open_left: the participant's decision points to come, this one included, that the calendar leaves open
                after the run-in; None where that is not known. Rules that look ahead reckon with it.

        """
        opened = checks.yes_no("opened", opened)
        slot = point.check_slot(self.policy.limits, self.horizon - self.step, closed, hours, day, open_left)
        available = checks.yes_no("available", available)
        reason = None if reason is None else checks.text("reason", reason, empty=True, lines=True)
        self.refuse_more()
        point.refuse_history(self.problem, context)
        step = point.new_step(self.problem, self.reported_names, self.step + 1, context, reported)
        tossed = None if coin is None else checks.real("coin", coin, least=0.0, below=1.0)
        return self.propose_at(step, opened=opened, available=available, reason=reason, coin=tossed, slot=slot)

    def refuse_more(self) -> None:
        """Raise `StateError` if the participant has withdrawn or all decisions are made."""
        if self.withdrawn:
            raise StateError("the participant has withdrawn; no more decisions are made")
        if self.step >= self.horizon:
            raise StateError(f"all {self.horizon} decisions are made; the horizon is over")

    def propose_at(
        self, step: Step, *, opened: bool, available: bool, reason: str | None, coin: float | None = None,
        past: bool = False, slot: Slot = ANYTIME,
    ) -> Proposal:  # fmt: skip
        """The next decision point, checked: what `propose` does with it.

        At one that was past when it became known nobody can be nudged: the rule is not asked, and nothing is revealed.
        An answer that came late, or an opening before, counts at the next.
        """
        numbers = self.numbers
        tossed = draw(*self.key, step.step, COIN) if coin is None else coin
        previous = self.settle(answered=False if self.open_proposal.nudged else None) if self.open_proposal else None
        if (step.step - 1) % self.policy.update == 0:
            learning.update(self)
        available = available and not step.place.missing
        if available and self.opened_since is not None and not past:
            opened = True
            corrections.tell_opened(self, step)
        self.step = step.step
        self.steps[step.step] = step
        if self.problem.histories:
            self._fill_in(step)
        if self.continuous:
            steps.write_values(self.numbers.handle, step.place.values)
        if available:
            slot = slot._replace(closed=PAST) if past else slot
            self.before = (numbers.copies(), slot) if self.explains else None
            steps.propose_live(self.numbers.handle, *self.key, *step.where, *slot, opened, tossed)
        else:
            intended, standing = steps.stand_by_live(numbers.handle, *self.key, *step.where, *slot)
            price = float(numbers.budget.price[0])
            numbers.proposed[:] = Proposed(0.0, price, 0.0, 0.0, 0.0, intended, intended, standing, 0.0, UNAVAILABLE)
        made = Proposed(*numbers.proposed.tolist())
        names, revealer = self.problem.action_names, self.policy.revealer
        why = word(int(made.reason))
        noted = numbers.notes.size > 0 and why not in UNASKED
        self.open_proposal = Proposal(
            step.step, bool(made.nudged), made.probability, names[int(made.standing_action)], made.gap, made.price,
            tossed, self.budget_left, opened and available, available,
            None if available else point.absence(reason, step.place.missing), names[int(made.fresh_action)],
            made.disagreement, made.tolerance, revealer.priced, type(revealer).__name__,
            tuple(numbers.notes.tolist()) if noted else None, why is None, why, names[int(made.stale_action)],
            numbers.drawn(), previous,
        )  # fmt: skip
        return self.open_proposal

    def _fill_in(self, step: Step) -> None:
        """Put the variables of the participant's own history, as they are now, among what is known of a step."""
        steps.write_history_live(self.numbers.handle, step.place.values, step.step)
        names = list(self.problem.variables)
        step.given |= {name: float(step.place.values[names.index(name)]) for name in self.problem.histories}

    @uninterrupted
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
        made, entry, opened, revealed = self.conclude(answered, opened, reported, earlier, shown)
        return settled(
            made, context=point.plain(entry.given), reported=point.plain(entry.reported) if revealed else None,
            opened=opened, answered=answered, revealed=revealed, offline=shown is not None,
            names=self.problem.action_names, taken=entry.action, drawn=self.drawn,
            budget_left=self.budget_left, seed=self.seed, stream=self.stream,
        )  # fmt: skip

    def conclude(
        self, answered: bool | None, opened: bool = False, reported: Any = None, earlier: Any = None,
        shown: str | None = None,
    ) -> tuple[Proposal, Step, bool, bool]:  # fmt: skip
        """What `settle` does: the proposal, its step as it is now, whether it was opened, and whether revealed."""
        made = self.open_proposal
        if made is None:
            raise StateError("there is no open proposal; call propose(context) first")
        opened = checks.yes_no("opened", opened) or made.opened
        revealed = point.check_outcome(made, answered, opened, told=reported is not None or earlier is not None)
        standing = point.standing_action(self.problem.action_names, made.action, shown, revealed)
        proposed = self.problem.action_names.index(made.action)
        entry = self.steps[made.step]
        told = {} if earlier is None else corrections.reported_earlier(self, earlier)
        if reported is not None:
            told[entry.step] = point.with_reported(self.problem, self.reported_names, entry, reported)
        for number, known in told.items():
            self.steps[number].reported, self.steps[number].place = known
            self.pending.note(self.steps[number])
        if revealed and self.problem.reported:
            learning.uncover(self)
        if made.available:
            if standing != int(self.numbers.proposed[STANDING]):  # the phone showed what it had carried
                self.numbers.proposed[STALE] = self.numbers.proposed[STANDING] = standing
            if self.continuous:
                steps.write_values(self.numbers.handle, entry.place.values)
            where = entry.where if revealed or not self.problem.reported else (*entry.where[:3], UNKNOWN)
            entry.action = int(steps.settle_live(self.numbers.handle, *self.key, *where, revealed))
            entry.seen = where[3] != UNKNOWN
        else:
            entry.action = standing
            entry.status = NOTHING
        self.drawn = self.numbers.drawn() if revealed else made.drawn if standing == proposed else None
        entry.settled = True
        entry.unanswered = made.nudged and not revealed
        self.pending.note(entry)
        self.open_proposal = None
        return made, entry, opened, revealed

    @uninterrupted
    def answer_late(self, step: int, reported: Mapping[str, Any] | None = None) -> None:
        """Record a late answer to a nudge that was settled as unanswered; it counts as `open_between`.

        Reported values belong to the step of the nudge.
        """
        corrections.answer_late(self, self.known_step(step), reported)

    @uninterrupted
    def open_between(self, reported: Mapping[str, Any] | None = None) -> None:
        """Record that the patient opened the app unasked; it counts at the next step at which they are available."""
        corrections.open_between(self, reported)

    @uninterrupted
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
        if self.reported_names and not isinstance(context, Mapping) and isinstance(self.problem, Problem):
            context = self.problem.levels(self.problem.index(context))
        told = {n: context[n] for n in self.reported_names if n in context} if isinstance(context, Mapping) else {}
        if told:
            context = {name: value for name, value in context.items() if name not in told}
        proposal = self.propose(context, coin=coin, opened=opened, reported=told or None)
        return self.settle(answered=answered if proposal.nudged else None)

    @uninterrupted
    def learn(self, reward: float, step: int | None = None) -> None:
        """The reward of a settled step, the latest unless another is named; once, whenever it arrives.

        With `Policy(update=k)` it is learned from at the model's next update.
        """
        value = checks.real("reward", reward)
        learning.take(self, learning.waiting_for_reward(self, step, "learn"), value)

    @uninterrupted
    def skip(self, step: int | None = None) -> None:
        """Give up the reward of a settled step that will never arrive; nothing is learned from it."""
        learning.waiting_for_reward(self, step, "skip").status = SKIPPED

    @uninterrupted
    def correct(self, reward: float, step: int) -> None:
        """Correct the reward of a step that was reported wrongly; the new value supersedes the old one."""
        value = checks.real("reward", reward)
        entry = self.known_step(step)
        if entry.status != LEARNED:
            raise StateError(f"step {step} has no reward to correct (it is {entry.status})")
        learning.correct(self, entry, value)

    @uninterrupted
    def withdraw(self) -> None:
        """Withdraw the participant: no more decisions are made, and a shared budget no longer expects them."""
        if self.withdrawn:
            raise StateError("the participant has withdrawn already")
        if self.open_proposal is not None:
            self.settle(answered=False if self.open_proposal.nudged else None)
        learning.update(self)  # for the others, where a model is pooled
        self.numbers.forgo(self.horizon - self.step)
        self.withdrawn = True

    @uninterrupted
    def correct_reported(self, reported: Mapping[str, Any], step: int) -> bool:
        """Correct what was reported of a settled step; returns whether something was learned from it, which stays."""
        return corrections.correct_reported(self, self.known_step(step), reported)

    @uninterrupted
    def rejoin(self) -> None:
        """Undo a withdrawal made by mistake; decisions continue where they ended."""
        corrections.rejoin(self)

    def bundle(self, made: datetime.datetime | None = None) -> dict[str, Any]:
        """What a phone can show at the coming decision points while it is offline, until the next reveal.

        Where all public variables follow the schedule it is a list in order; otherwise the present action in each
        public stratum. With the version and when it was made (now, in UTC, unless given).
        """
        from opportune.live.bundle import bundle_of  # noqa: PLC0415  (which looks into agents)

        return bundle_of(self, made)

    def known_step(self, step: Any) -> Step:
        """A settled step, by its number."""
        number = checks.whole("step", step, least=1, most=max(1, self.step))
        entry = self.steps.get(number)
        if entry is None or not entry.settled:
            raise StateError(f"step {number} is not settled yet; call settle(...) first")
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

    def __reduce__(self) -> Any:
        """A copy, by `copy`, `pickle` or another process, is an agent of its own."""
        if self.numbers.shared:
            raise StateError("the agent shares a budget or a model with others; copy its Cohort instead")
        return Agent.from_dict, (self.to_dict(),)

    def __repr__(self) -> str:
        return f"Agent({self.policy.name}, step {self.step} of {self.horizon}, budget left {self.budget_left:g})"
