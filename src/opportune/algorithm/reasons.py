"""Why there can be no nudge at a decision point: a number in compiled code and results, words for people.

A point is *eligible* where a nudge may be made and, where nudges are randomised, a coin decides about it. Anywhere else
its probability is 0 for one of these reasons.
"""

(
    ELIGIBLE, UNAVAILABLE, PAST, OPENED, WAITING, HOURS, QUIET, CAP, RUN_IN, ARM, OPTED_OUT, RESTING, BUDGET,
    NO_CANDIDATE, FALLBACK,
) = range(15)  # fmt: skip

WORDS = (
    "eligible", "unavailable", "past", "opened", "waiting", "hours", "quiet", "cap", "run-in", "arm", "opted out",
    "resting", "budget", "not a candidate", "fallback",
)  # fmt: skip
"""What each is called."""

OUTSIDE = (ELIGIBLE, WAITING, HOURS, QUIET, CAP, RUN_IN, ARM, OPTED_OUT)
"""What the world outside may say of a decision point; all other reasons are found where it is decided."""

SENTENCES = {
    WAITING: "another nudge still waits for its answer",
    HOURS: "nobody works at this time",
    QUIET: "it is the participant's quiet time",
    CAP: "no more nudges may be made at this time",
    RUN_IN: "nudges begin after the run-in",
    ARM: "the participant's arm has no nudges",
    OPTED_OUT: "the participant wants no nudges",
}
"""Reasons that are no rule's, as clauses."""


UNASKED = frozenset(
    WORDS[reason] for reason in range(len(WORDS)) if reason not in {ELIGIBLE, RESTING, BUDGET, NO_CANDIDATE}
)
"""Reasons for which the rule is not even asked."""


def word(reason: int) -> str | None:
    """What a reason is called; None where a nudge may be made."""
    return None if reason == ELIGIBLE else WORDS[reason]
