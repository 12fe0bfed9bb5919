"""The policies of the experiment on PACE, each by the name that its tables and figures have for it."""

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
NO_ROTATION = "PACE without rotation"
NO_DEBT = "PACE without debt"

GUARD = 1.0 / 3.0

STUDY = (
    "naive", "PD1 range", PRINTED, "PD1 adaptive", ADAPTIVE, ROTATED, PACE, BOLD, NO_ROTATION, NO_DEBT, REVEALED,
)  # fmt: skip
"""The paper's rules, ours, PACE with an idea left out, and the floor."""
UNKNOWN = ("naive", "PD1 range", PRINTED, ADAPTIVE, ROTATED, PACE, BOLD, REVEALED)
ROBUST = (ADAPTIVE, ROTATED, PACE, BOLD, GUARDED)
SPLIT = (PRINTED, ADAPTIVE, ROTATED, PACE)
"""Those whose regret is split into what arrivals and what learning cost."""


def make(name: str, budget: float | Budget, *, pooled: bool = False) -> Policy:
    """The policy of that name."""
    revealer, recommender = _rules(name)
    allowed = None if name == REVEALED else budget if isinstance(budget, Budget) else Budget(budget)
    return Policy(recommender=recommender, revealer=revealer, budget=allowed, pooled=pooled, name=name)


def _rules(name: str) -> tuple[Revealer, Recommender]:
    rotating = LinUCB(rotate=True)
    own: dict[str, tuple[Revealer, Recommender]] = {
        "naive": (FixedRate(), LinUCB()),
        REVEALED: (Always(), LinUCB()),
        ROTATED: (LearningPrimalDual(), rotating),
        PACE: (Pace(), rotating),
        BOLD: (Pace(), LinUCB(rotate=True, kappa=0.5)),
        GUARDED: (Pace(guard=GUARD), rotating),
        NO_ROTATION: (Pace(), LinUCB()),
        NO_DEBT: (Pace(debt=False), rotating),
    }
    if name in own:
        return own[name]
    kind, scale = name.split(" ")
    return (PrimalDual if kind == "PD1" else LearningPrimalDual)(scale=scale), LinUCB()
