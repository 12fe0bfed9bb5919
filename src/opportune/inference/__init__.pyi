from .actions import actions
from .adaptive import adaptive_sandwich
from .arms import arms
from .dcee import dcee
from .emee import emee
from .estimates import Estimates
from .policies import policy_value
from .simulated import simulated_value
from .wcls import wcls

__all__ = [
    "Estimates",
    "actions",
    "adaptive_sandwich",
    "arms",
    "dcee",
    "emee",
    "policy_value",
    "simulated_value",
    "wcls",
]
