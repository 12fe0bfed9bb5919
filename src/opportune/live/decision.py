"""What a live agent answers: `Proposal` (nudge now?) and `Decision` (what was done, and everything behind it)."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from opportune._version import __version__
from opportune.algorithm.budget import LEAST_LEFT
from opportune.algorithm.reasons import BUDGET, SENTENCES, WORDS
from opportune.engine.hooks import REVEALERS


@dataclass(frozen=True, slots=True)
class Proposal:
    """Whether to nudge now, and the action that stands meanwhile.

    `coin` fell below `probability` if and only if `nudged`; the budget is charged here. `price` is what the gap was
    compared with, before this step moved it. `previous` is the decision of the step before, if that was still open and
    is settled by this one.
    """

    step: int
    nudged: bool
    probability: float
    action: str
    gap: float
    price: float
    coin: float
    budget_left: float
    opened: bool
    available: bool
    reason: str | None
    fresh_action: str
    disagreement: float
    tolerance: float
    priced: bool
    rule: str
    notes: tuple[float, ...] | None  # what the rule went by, if it says
    eligible: bool  # a nudge was possible here
    ineligible_reason: str | None  # else why not, by one of algorithm.reasons.WORDS
    stale_action: str  # the one intended without a reveal; `action` may be another where actions are drawn
    drawn: tuple[float, ...] | None  # where they are: each one's probability, the draw, the number of the intended one
    previous: "Decision | None" = None

    @property
    def why(self) -> str:
        """The proposal in a sentence."""
        return explain(self)


@dataclass(frozen=True, kw_only=True, slots=True)
class Decision:
    """One decision, with everything an auditor needs to know.

    `context` and `reported` are as they were given; `answered` is None where nothing was asked. `action` is the step's
    treatment; `stale_action` is what the recommender knew without a reveal, `fresh_action` what it would have known
    blindly with all data. The coin can be recomputed from seed, stream and step with the version named.

    Where actions are drawn, `probabilities` has that of each, `draw` is the uniform at which the action is their
    inverse cumulative, and `intended_action` the most probable one before the floor. Where nothing is drawn, or a
    recommender draws by itself, `probabilities` and `draw` are None.
    """

    step: int
    context: Any
    reported: Mapping[str, Any] | None
    available: bool
    reason: str | None
    probability: float
    nudged: bool
    opened: bool
    answered: bool | None
    revealed: bool
    offline: bool  # the phone showed the action from its bundle
    action: str
    fresh_action: str
    stale_action: str
    gap: float
    price: float
    disagreement: float
    tolerance: float
    budget_left: float
    coin: float
    priced: bool
    rule: str
    notes: tuple[float, ...] | None
    eligible: bool
    ineligible_reason: str | None
    probabilities: tuple[float, ...] | None
    draw: float | None
    intended_action: str
    seed: int
    stream: int
    version: str

    @property
    def why(self) -> str:
        """The decision in a sentence or two: what made the difference, and which advice the patient has now."""
        return outcome_in_words(self, explain(self), self.opened, self.answered, self.action)


def outcome_in_words(made: "Proposal | Decision", why: str, opened: bool, answered: bool | None, action: str) -> str:
    """What became of a proposal that has `why`, and which advice the patient has now."""
    if opened:
        return f"The patient opened the app, which costs nothing; advice for this moment: {action}."
    if not made.nudged:
        return f"{why} The old advice stands: {action}." if made.available else why
    if answered:
        return f"{why} The patient answered; advice for this moment: {action}."
    return f"{why} It went unanswered, so the old advice stands: {action}."


def settled(
    made: Proposal, *, names: Sequence[str], taken: int, drawn: tuple[float, ...] | None, **known: Any
) -> Decision:  # fmt: skip
    """The decision that a proposal has become, with the number of the action taken and what else is known now."""
    return Decision(
        action=names[taken], intended_action=names[taken if drawn is None else int(drawn[-1])],
        probabilities=None if drawn is None else drawn[:-2], draw=None if drawn is None else drawn[-2],
        step=made.step, available=made.available, reason=made.reason, probability=made.probability,
        nudged=made.nudged, fresh_action=made.fresh_action, stale_action=made.stale_action, gap=made.gap,
        price=made.price, disagreement=made.disagreement, tolerance=made.tolerance, coin=made.coin,
        priced=made.priced, rule=made.rule, notes=made.notes, eligible=made.eligible,
        ineligible_reason=made.ineligible_reason, version=__version__, **known,
    )  # fmt: skip


def _staleness(made: Proposal | Decision) -> str:
    """That the advice has gone stale, with names, and what that did to the nudge."""
    if made.fresh_action == made.stale_action:
        return ""
    change = f"from {made.stale_action} to {made.fresh_action}"
    stale = f"; what was learned since the last contact would change the advice {change}"
    alone = max(0.0, made.gap)  # what the probability would be if the advice were fresh
    if made.notes is not None or made.probability <= alone + 1e-9:
        return stale
    raised = f"{stale}, which raised the probability from {alone:.2f} to {made.probability:.2f}"
    return f"{raised} and made the difference" if made.nudged and made.coin >= alone else raised


def _worth_in_words(rule: str, notes: Sequence[float]) -> str:
    """What a revealer says of its notes."""
    revealer = REVEALERS.named()[rule]
    return str(revealer.words(revealer.declares.notes(*notes)))


def explain(made: Proposal | Decision) -> str:
    """Why there was a nudge, or none."""
    if not made.available or made.opened:
        cause = (
            "the patient has opened the app" if made.opened else f"{made.reason}; the old advice stands: {made.action}"
        )
        return f"No nudge: {cause}."
    refused = made.ineligible_reason
    if refused is not None and (clause := SENTENCES.get(WORDS.index(refused))) is not None:
        return f"No nudge: {clause}."
    return _in_words(made)


def _in_words(made: Proposal | Decision) -> str:
    """What the rule made of a moment at which it was asked."""
    worth = "this rule nudges whatever the context"
    if made.notes is not None:
        worth = _worth_in_words(made.rule, made.notes) + _staleness(made)
    elif made.priced:
        worth = f"knowing the context is worth {made.gap:.2f}, where a nudge costs {made.price:.2f}"
        worth += _staleness(made)
    if made.nudged:
        return f"Nudge: {worth} (probability {made.probability:.2f}, coin {made.coin:.2f})."
    if made.probability > 0.0:
        return f"No nudge: {worth}, but the coin {made.coin:.2f} fell above the probability {made.probability:.2f}."
    if made.ineligible_reason == WORDS[BUDGET] or made.budget_left <= LEAST_LEFT:
        return "No nudge: the budget is spent."
    if made.priced or made.notes is not None:
        return f"No nudge: {worth}."
    return "No nudge: the rule has none planned for this step."
