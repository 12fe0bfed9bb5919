from . import inference
from ._version import __version__
from .analysis.intervals import mean_interval
from .analysis.metrics import decomposition, realised_regret, regret
from .analysis.plots import plot_regret, plot_reveals
from .analysis.results import load, save
from .errors import DataError, InputError, OpportuneError, StateError, WriteError
from .extensions import register
from .live.agent import Agent
from .live.cohort import Cohort
from .live.decision import Decision, Proposal
from .policy import Budget, Policy, naive_ucb, pace_ucb, pd1_ucb, pd2_ucb
from .problems.continuous import ContinuousProblem
from .problems.finite import Problem
from .problems.variables import DayOfStudy, Number, TimeOfDay, Weekday, Weekend
from .recommenders import FixedAction, LinUCB, RandomAction, Recommender, Thompson
from .revealers import Always, FixedRate, LearningPrimalDual, Never, Pace, Periodic, PrimalDual, Revealer
from .simulation.run import simulate
from .worlds import brushing_world, distributions, synthetic_worlds
from .worlds.continuous import ContinuousWorld
from .worlds.drifting import DriftingWorld
from .worlds.linear import LinearWorld

__all__ = [  # in the order people meet them
    "Agent",
    "Always",
    "Budget",
    "Cohort",
    "ContinuousProblem",
    "ContinuousWorld",
    "DataError",
    "DayOfStudy",
    "Decision",
    "DriftingWorld",
    "FixedAction",
    "FixedRate",
    "InputError",
    "LearningPrimalDual",
    "LinUCB",
    "LinearWorld",
    "Never",
    "Number",
    "OpportuneError",
    "Pace",
    "Periodic",
    "Policy",
    "PrimalDual",
    "Problem",
    "Proposal",
    "RandomAction",
    "Recommender",
    "Revealer",
    "StateError",
    "Thompson",
    "TimeOfDay",
    "Weekday",
    "Weekend",
    "WriteError",
    "__version__",
    "brushing_world",
    "decomposition",
    "distributions",
    "inference",
    "load",
    "mean_interval",
    "naive_ucb",
    "pace_ucb",
    "pd1_ucb",
    "pd2_ucb",
    "plot_regret",
    "plot_reveals",
    "realised_regret",
    "register",
    "regret",
    "save",
    "simulate",
    "synthetic_worlds",
]  # fmt: skip
