"""Figure 3: tooth brushing (Oralytics), its reference policies, and variants that make it a real decision."""

from collections.abc import Mapping

import xarray as xr

from opportune.experiments.base import Config, Experiment, Findings
from opportune.experiments.oralytics.grid import config, run_task, tasks
from opportune.experiments.oralytics.numbers import all_numbers
from opportune.experiments.oralytics.pictures import all_pictures
from opportune.experiments.oralytics.tables import all_tables
from opportune.experiments.oralytics.verdicts import all_claims, what_was_found

__all__ = ["EXPERIMENT", "config", "findings", "run_task", "tasks"]


def findings(config: Config, parts: Mapping[str, xr.Dataset]) -> Findings:
    """Figure 3 with its claims, the effect of costs and openings, shared budgets and models, and our choices."""
    numbers = all_numbers(parts)
    return Findings(
        found=what_was_found(config, parts, numbers),
        numbers=numbers,
        claims=all_claims(config, parts, numbers),
        pictures=all_pictures(config, parts, numbers),
        tables=all_tables(config, parts, numbers),
    )


EXPERIMENT = Experiment(
    name="oralytics",
    title="Tooth brushing (Oralytics)",
    about="Ten users fitted to the ROBAS 3 data brush, or do not, twice a day for 70 days; a message "
    "beforehand may help. The paper's three policies, each with 30 reveals per user, are compared with plain "
    "references, then with messages that cost, users who open the app unasked, and one budget or one model for all.",
    config=config,
    tasks=tasks,
    run_task=run_task,
    findings=findings,
)
