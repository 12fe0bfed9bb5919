from . import inference
from ._version import __version__
from .analysis.feedback import from_bandit_feedback, to_bandit_feedback
from .analysis.intervals import mean_interval
from .analysis.metrics import decomposition, realised_regret, regret
from .analysis.plots import plot_regret, plot_reveals
from .analysis.results import load, save
from .errors import DataError, InputError, OpportuneError, StateError, WriteError
from .extensions import register
from .limits import Limits
from .live.agent import Agent
from .live.cohort import Cohort
from .live.decision import Decision, Proposal
from .policy import Budget, Policy, naive_ucb, pace_ucb, pd1_ucb, pd2_ucb
from .problems.continuous import ContinuousProblem
from .problems.finite import Problem
from .problems.history import History
from .problems.variables import DayOfStudy, Number, TimeOfDay, Weekday, Weekend
from .recommenders import EqualCoins, FixedAction, LinUCB, Recommender, Thompson
from .revealers import Always, FixedRate, LearningPrimalDual, Never, Pace, Periodic, PrimalDual, Revealer
from .simulation.environment import Environment
from .simulation.python_policy import PythonPolicy
from .simulation.run import simulate
from .simulation.timetable import Timetable
from .study.load import example_study, load_study
from .worlds import brushing_world, distributions, synthetic_worlds
from .worlds.continuous import ContinuousWorld
from .worlds.drifting import DriftingWorld
from .worlds.linear import LinearWorld
from .worlds.logged import ResampledWorld
from .worlds.steps import StepCountWorld

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
    "Environment",
    "EqualCoins",
    "FixedAction",
    "FixedRate",
    "History",
    "InputError",
    "LearningPrimalDual",
    "Limits",
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
    "PythonPolicy",
    "Recommender",
    "ResampledWorld",
    "Revealer",
    "StateError",
    "StepCountWorld",
    "Thompson",
    "TimeOfDay",
    "Timetable",
    "Weekday",
    "Weekend",
    "WriteError",
    "__version__",
    "brushing_world",
    "decomposition",
    "distributions",
    "example_study",
    "from_bandit_feedback",
    "inference",
    "load",
    "load_study",
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
    "to_bandit_feedback",
]  # fmt: skip
