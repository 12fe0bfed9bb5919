"""Revealers: when to reveal. One file each, with settings, equations and the compiled rule, and one line here."""

from opportune.engine.hooks import REVEALERS as REVEALERS
from opportune.revealers.base import Revealer as Revealer

# ruff: isort: off
# Each registers itself; messages and documentation list them in this order.
from opportune.revealers.fixed_rate import FixedRate as FixedRate
from opportune.revealers.primal_dual import PrimalDual as PrimalDual
from opportune.revealers.learning_primal_dual import LearningPrimalDual as LearningPrimalDual
from opportune.revealers.pace import Pace as Pace
from opportune.revealers.never import Never as Never
from opportune.revealers.always import Always as Always
from opportune.revealers.periodic import Periodic as Periodic

RECOMMENDED = Pace
"""The rule of a study file that names none, and the one that a plan is for unless the file says otherwise."""
