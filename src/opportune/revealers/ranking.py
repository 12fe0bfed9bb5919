"""Where a moment stands among those to expect, whether the budget reaches it, and why PACE answered as it did."""

from typing import Any

from opportune.algorithm.model import TIE
from opportune.engine.compiled import inner_dual_function, inner_function

RANK_TIE = 1e-9  # shares of moments this close count as equal, and so do times on the grid
TIE_WEIGHT = 0.25

# Why it answered as it did.
BY_RANK, WAITING, BY_GRID, BY_GUARD, SPENT, NEAR, PASSED_OVER = range(7)


@inner_function
def affordable(left, to_come):  # type: ignore[no-untyped-def]
    """The share of the decisions to come that the rest of the budget can pay for, rho."""
    return min(1.0, max(left, 0.0) / max(1.0, to_come))


@inner_function
def standing(worth, above, tied, best_is_served):  # type: ignore[no-untyped-def]
    """Where a moment stands among those to expect: above + tied/4; 2 if nothing is gained by it.

    The best moment stands at 0, so that it is served however little is left, where `best_is_served`.
    """
    if worth <= TIE:
        return 2.0
    return 0.0 if best_is_served and above <= RANK_TIE else above + TIE_WEIGHT * tied


@inner_function
def served(stands, share):  # type: ignore[no-untyped-def]
    """The rule without a coin: 1 for a moment that stands within the share that the budget can pay for, else 0."""
    return 1.0 if stands <= share + RANK_TIE else 0.0


@inner_dual_function
def smoothed(worth, above, tied, share):  # type: ignore[no-untyped-def]
    """The rule with a coin, before the coin: of moments that are equally good, as many as the budget can pay for."""
    if worth <= TIE:
        return 0.0
    if tied > 0.0:
        return min(max((share - above) / tied, 0.0), 1.0)
    return 1.0 if above <= share else 0.0


def _counted(number: str, one: str, many: str) -> str:
    """A number with the words that fit it."""
    return f"{number} {one if number == '1' else many}"


def words(notes: Any) -> str:
    """How the moment ranks, what old advice has cost, how far the budget reaches.

    A moment counts by what fresh advice is worth there or, with the response model, by that times how likely an answer
    is.
    """
    cause = int(notes.cause)
    if cause == WAITING:
        return "the last nudges went unanswered, so the patient is left in peace for a while"
    debt = ""
    if notes.debt > 0.005:
        debt = f", and following old advice has cost about {notes.debt:.2f} since the last contact"
    left = _counted(f"{notes.left:.3g}", "nudge is left", "nudges are left")
    reach = f"{left} for {_counted(f'{notes.to_come:.0f}', 'decision', 'decisions')}, enough for the best"
    better = "hardly any of the moments to expect"
    if notes.above >= 0.005:
        better = f"{notes.above:.0%} of the moments to expect"
    text = f"fresh advice counts for more than now in {better}{debt}; {reach} {notes.share:.0%}"
    if notes.worth <= TIE:
        text = f"nothing would be gained by it now{debt}; {reach} {notes.share:.0%}"
    elif notes.worth - notes.debt <= TIE:
        text += "; without that cost nothing would be gained by it now"
    if cause == NEAR:
        text += "; this moment is nearly among them, and chance decides"
    if cause == BY_GRID:
        return "what the patient can report is needed to learn from the steps since the last contact"
    if cause == BY_GUARD:
        return f"{text}; good moments may stop coming, and the budget should not be left over"
    return text
