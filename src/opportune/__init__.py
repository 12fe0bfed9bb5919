"""Opportune decides when a limited number of costly nudges is worth spending, and what to recommend in between.

    import opportune as op

    world = op.synthetic_worlds(1, seed=1)[0]
    data = op.simulate(world, [op.pace_ucb(10), op.pd2_ucb(10)], horizon=300, replicates=50, seed=1)
    op.plot_regret(data)

Names are loaded when first used, so that importing the package is quick.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from opportune._version import __version__

if TYPE_CHECKING:
    from opportune.analysis.intervals import mean_interval
    from opportune.analysis.metrics import decomposition, realised_regret, regret
    from opportune.analysis.plots import plot_regret, plot_reveals
    from opportune.analysis.results import load, save
    from opportune.errors import DataError, InputError, OpportuneError, StateError
    from opportune.extensions import register
    from opportune.live.agent import Agent
    from opportune.live.cohort import Cohort
    from opportune.live.decision import Decision, Proposal
    from opportune.policy import Budget, Policy, naive_ucb, pace_ucb, pd1_ucb, pd2_ucb
    from opportune.problems.continuous import ContinuousProblem
    from opportune.problems.finite import Problem
    from opportune.problems.variables import DayOfStudy, Number, TimeOfDay, Weekday, Weekend
    from opportune.recommenders import FixedAction, LinUCB, RandomAction, Recommender, Thompson
    from opportune.revealers import Always, FixedRate, LearningPrimalDual, Never, Pace, Periodic, PrimalDual, Revealer
    from opportune.simulation.run import simulate
    from opportune.worlds import brushing_world, synthetic_worlds
    from opportune.worlds.continuous import ContinuousWorld
    from opportune.worlds.distributions import Choice, LogNormal, Normal, Resampled, Truncated, Uniform
    from opportune.worlds.drifting import DriftingWorld
    from opportune.worlds.linear import LinearWorld

_HOMES = {
    "live.agent": ("Agent",),
    "live.cohort": ("Cohort",),
    "live.decision": ("Decision", "Proposal"),
    "errors": ("DataError", "InputError", "OpportuneError", "StateError"),
    "extensions": ("register",),
    "analysis.intervals": ("mean_interval",),
    "analysis.metrics": ("decomposition", "realised_regret", "regret"),
    "analysis.plots": ("plot_regret", "plot_reveals"),
    "analysis.results": ("load", "save"),
    "policy": ("Budget", "Policy", "naive_ucb", "pace_ucb", "pd1_ucb", "pd2_ucb"),
    "problems.continuous": ("ContinuousProblem",),
    "problems.finite": ("Problem",),
    "problems.variables": ("DayOfStudy", "Number", "TimeOfDay", "Weekday", "Weekend"),
    "recommenders": ("FixedAction", "LinUCB", "RandomAction", "Recommender", "Thompson"),
    "revealers": (
        "Always", "FixedRate", "LearningPrimalDual", "Never", "Pace", "Periodic", "PrimalDual", "Revealer",
    ),
    "simulation.run": ("simulate",),
    "worlds": ("brushing_world", "synthetic_worlds"),
    "worlds.continuous": ("ContinuousWorld",),
    "worlds.distributions": ("Choice", "LogNormal", "Normal", "Resampled", "Truncated", "Uniform"),
    "worlds.drifting": ("DriftingWorld",),
    "worlds.linear": ("LinearWorld",),
}  # fmt: skip
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [  # noqa: RUF022  (in the order people meet them)
    "Problem", "Number", "TimeOfDay", "Weekday", "Weekend", "DayOfStudy", "ContinuousProblem",
    "LinearWorld", "synthetic_worlds", "DriftingWorld", "ContinuousWorld", "Normal", "LogNormal", "Uniform",
    "Truncated", "Choice", "Resampled", "brushing_world", "Policy", "Budget", "naive_ucb", "pace_ucb", "pd1_ucb",
    "pd2_ucb", "simulate", "regret", "realised_regret", "decomposition", "mean_interval", "plot_regret", "plot_reveals",
    "save", "load", "Agent", "Cohort", "Proposal", "Decision", "LinUCB", "Thompson", "FixedAction", "RandomAction",
    "FixedRate", "PrimalDual", "LearningPrimalDual", "Pace", "Never", "Always", "Periodic",
    "Revealer", "Recommender", "register",
    "OpportuneError", "InputError", "DataError", "StateError", "__version__",
]  # fmt: skip


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module 'opportune' has no attribute {name!r}")
    value = getattr(import_module(f"opportune.{_HOME_OF[name]}"), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted(__all__)
