"""The summary of a rehearsal: counts of decisions and outcomes, and the speed of the service."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np


def count(decisions: Iterable[Mapping[str, Any]], nudges: str) -> dict[str, int]:
    """Counts of decisions and their outcomes, from the API's answers; `nudges` is the study's word for nudges."""
    made = list(decisions)
    outcomes = [decision["outcome"] for decision in made]
    return {
        "decisions": len(made),
        nudges: sum(decision["nudge"] for decision in made),
        "answered": outcomes.count("answered"),
        "unanswered": outcomes.count("unanswered"),
        "waiting for an answer": sum(decision["status"] == "nudge" for decision in made),
        "app opened unasked": outcomes.count("opened"),
        "away": sum(not decision["available"] for decision in made),
        "rewards": sum(decision["reward"] is not None for decision in made),
    }


def speed(made: int, took: float, seconds: Sequence[float]) -> dict[str, str]:
    """Decisions per second, including their answers and rewards, and how long a request for a decision took."""
    if not seconds:
        return {}
    half, most = np.percentile(np.array(seconds) * 1000.0, (50, 99))
    return {
        "decisions per second": f"{made / took:,.0f}" if made >= 10.0 * took else f"{made / took:,.2g}",
        "a decision took, p50": f"{half:,.1f} ms",
        "a decision took, p99": f"{most:,.1f} ms",
    }
