"""The paper's experiments, and our own: one file or folder each, its grid as data, its claims as checks."""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from opportune.experiments.base import Experiment

NAMES = (
    "table", "regret", "regret-unknown", "reveal", "partial", "opens", "decomposition", "oralytics",
    "recommenders", "pace", "rivals", "answers", "cohorts", "coverage",
)  # fmt: skip
"""All experiments, in the order of the command line, the report and the documentation."""


def find(name: str) -> "Experiment":
    """The experiment of that name."""
    from opportune import checks  # noqa: PLC0415  (the command's help does not need it)

    checks.choice("experiment", name, NAMES)
    experiment: Experiment = import_module(f"opportune.experiments.{name.replace('-', '_')}").EXPERIMENT
    return experiment
