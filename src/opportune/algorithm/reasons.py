"""Why no nudge is possible at a decision point: numbers for compiled code and results, words for readers.

A point is *eligible* if a nudge may be made and, if nudges are randomised, a coin decides on it. At all other points
the probability is 0 for one of these reasons.
"""

(
    ELIGIBLE, UNAVAILABLE, PAST, OPENED, WAITING, HOURS, QUIET, CAP, RUN_IN, ARM, OPTED_OUT, RESTING, BUDGET,
    NO_CANDIDATE, FALLBACK,
) = range(15)  # fmt: skip

WORDS = (
    "eligible", "unavailable", "past", "opened", "waiting", "hours", "quiet", "cap", "run-in", "arm", "opted out",
    "resting", "budget", "not a candidate", "fallback",
)  # fmt: skip
"""The names of the reasons."""

OUTSIDE = (ELIGIBLE, WAITING, HOURS, QUIET, CAP, RUN_IN, ARM, OPTED_OUT)
"""Reasons that callers may give for a decision point; all others are determined by the decision itself."""

SENTENCES = {
    WAITING: "another nudge still waits for its answer",
    HOURS: "nobody works at this time",
    QUIET: "it is the participant's quiet time",
    CAP: "no more nudges may be made at this time",
    RUN_IN: "nudges begin after the run-in",
    ARM: "the participant's arm has no nudges",
    OPTED_OUT: "the participant wants no nudges",
}
"""Reasons from outside the rule, as clauses."""


UNASKED = frozenset(
    WORDS[reason] for reason in range(len(WORDS)) if reason not in {ELIGIBLE, RESTING, BUDGET, NO_CANDIDATE}
)
"""Reasons for which the rule is not consulted."""


def word(reason: int) -> str | None:
    """The name of a reason; None if a nudge is possible."""
    return None if reason == ELIGIBLE else WORDS[reason]
