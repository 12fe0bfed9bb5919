"""PACE and the rules that a reviewer would ask for, each with the constant that suits it best."""

from importlib import import_module

from opportune.experiments.base import Experiment
from opportune.experiments.rivals.findings import findings
from opportune.experiments.rivals.grid import config, run_task, tasks

__all__ = ["EXPERIMENT", "config", "findings", "run_task", "tasks"]

EXPERIMENT = Experiment(
    name="rivals",
    title="PACE and its rivals",
    about="Other ways to pace a budget, as revealers written for this experiment: re-solving, a coin by the linear "
    "program, dual gradient and mirror descent, confidence-budget matching, fixed intervals, an information bonus and, "
    "for a budget that ten share, an index after Whittle. All constants are tried on the instances on which the rule "
    "is judged, and the best one counts: that favours the rivals.",
    config=config,
    tasks=tasks,
    run_task=run_task,
    findings=findings,
    prepare=lambda: import_module("opportune.experiments.rivals.rules"),
)
