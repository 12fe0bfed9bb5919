"""The policies of the experiment on PACE, by their names in tables and figures."""

from opportune.policy import Budget, Policy
from opportune.recommenders import LinUCB, Recommender
from opportune.revealers import Always, FixedRate, LearningPrimalDual, Pace, PrimalDual, Revealer

PACE = "PACE"
BOLD = "PACE, kappa 0.5"
GUARDED = "PACE, guarded"
ROTATED = "PD2 + rotate"
PRINTED = "PD2 range"
ADAPTIVE = "PD2 adaptive"
REVEALED = "everything revealed"
POINTWISE = "PACE, pointwise"
SECOND = "PACE, second edition"
LESS = "PACE, second edition, kappa 0.7"
REVEALED_POINTWISE = "everything revealed, pointwise"
NO_ROTATION = "PACE without rotation"
NO_DEBT = "PACE without debt"

GUARD = 1.0 / 3.0

STUDY = (
    "naive", "PD1 range", PRINTED, "PD1 adaptive", ADAPTIVE, ROTATED, PACE, BOLD, POINTWISE, SECOND,
    NO_ROTATION, NO_DEBT, REVEALED, REVEALED_POINTWISE,
)  # fmt: skip
"""The paper's rules, ours, PACE with an idea left out, and the floors.

PACE is the first edition, with the paper's radius and value; the second edition has others, and is judged only by
realised regret.
"""
UNKNOWN = (
    "naive", "PD1 range", PRINTED, ADAPTIVE, ROTATED, PACE, BOLD, POINTWISE, SECOND, REVEALED, REVEALED_POINTWISE,
)  # fmt: skip
FLOORS = (REVEALED, REVEALED_POINTWISE)
BY_REGRET = (ADAPTIVE, ROTATED, PACE, BOLD, GUARDED, POINTWISE)
"""The policies of the settings that are judged by the paper's regret."""
ROBUST = (*BY_REGRET, SECOND, LESS)
SPLIT = (PRINTED, ADAPTIVE, ROTATED, PACE)
"""The policies whose regret is split into the costs of unknown arrivals and of learning."""


def make(name: str, budget: float | Budget, *, pooled: bool = False) -> Policy:
    """The policy of that name."""
    revealer, recommender = _rules(name)
    allowed = None if name in FLOORS else budget if isinstance(budget, Budget) else Budget(budget)
    return Policy(recommender=recommender, revealer=revealer, budget=allowed, pooled=pooled, name=name)


def _rules(name: str) -> tuple[Revealer, Recommender]:
    rotating = LinUCB(rotate=True)
    own: dict[str, tuple[Revealer, Recommender]] = {
        "naive": (FixedRate(), LinUCB()),
        REVEALED: (Always(), LinUCB()),
        REVEALED_POINTWISE: (Always(), LinUCB(radius="pointwise")),
        POINTWISE: (Pace(value="paper"), LinUCB(rotate=True, radius="pointwise")),
        SECOND: (Pace(), LinUCB(rotate=True, radius="pointwise")),
        LESS: (Pace(), LinUCB(rotate=True, radius="pointwise", kappa=0.7)),
        ROTATED: (LearningPrimalDual(), rotating),
        PACE: (Pace(value="paper"), rotating),
        BOLD: (Pace(value="paper"), LinUCB(rotate=True, kappa=0.5)),
        GUARDED: (Pace(value="paper", guard=GUARD), rotating),
        NO_ROTATION: (Pace(value="paper"), LinUCB()),
        NO_DEBT: (Pace(value="paper", debt=False), rotating),
    }
    if name in own:
        return own[name]
    kind, scale = name.split(" ")
    return (PrimalDual if kind == "PD1" else LearningPrimalDual)(scale=scale), LinUCB()
