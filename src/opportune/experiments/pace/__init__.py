"""PACE, our own rule, on the paper's study and beyond: how good it is, why, and where it is not (docs/pace.md)."""

from collections.abc import Mapping

import xarray as xr

from opportune.experiments.base import Config, Experiment, Findings
from opportune.experiments.pace.grid import config, run_task, tasks
from opportune.experiments.pace.numbers import all_numbers
from opportune.experiments.pace.pictures import all_pictures
from opportune.experiments.pace.tables import all_tables
from opportune.experiments.pace.verdicts import all_claims, what_was_found

__all__ = ["EXPERIMENT", "config", "findings", "run_task", "tasks"]


def findings(config: Config, parts: Mapping[str, xr.Dataset]) -> Findings:
    """Regret, its parts, growth with the horizon, settings that break assumptions, and brushing."""
    numbers = all_numbers(config, parts)
    return Findings(
        found=what_was_found(config, parts, numbers),
        numbers=numbers,
        claims=all_claims(config, parts),
        pictures=all_pictures(config, parts, numbers),
        tables=all_tables(config, numbers),
    )


EXPERIMENT = Experiment(
    name="pace",
    title="PACE: a better rule",
    about="Our own rule instead of the paper's: rank the moment among those that can still be expected, count the cost "
    "of stale advice, and let blind steps take turns among the actions that may be best. It is tested on the "
    "paper's study, with one idea left out at a time, as the horizon grows, in settings that break its assumptions, "
    "and in brushing.",
    config=config,
    tasks=tasks,
    run_task=run_task,
    findings=findings,
)
