"""Revealers: when to reveal. One file each: settings, equations and the compiled rule."""

from opportune.engine.hooks import REVEALERS
from opportune.revealers.always import Always
from opportune.revealers.base import Revealer
from opportune.revealers.fixed_rate import FixedRate
from opportune.revealers.learning_primal_dual import LearningPrimalDual
from opportune.revealers.never import Never
from opportune.revealers.pace import Pace
from opportune.revealers.periodic import Periodic
from opportune.revealers.primal_dual import PrimalDual

__all__ = [
    "REVEALERS",
    "Always",
    "FixedRate",
    "LearningPrimalDual",
    "Never",
    "Pace",
    "Periodic",
    "PrimalDual",
    "Revealer",
]  # fmt: skip

for _revealer in (FixedRate, PrimalDual, LearningPrimalDual, Pace, Never, Always, Periodic):
    REVEALERS.add(_revealer)
