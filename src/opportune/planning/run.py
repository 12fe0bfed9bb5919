"""`plan`: from a study to its answers. Finished simulations are kept, so an interrupted call resumes."""

import math
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd
import xarray as xr

from opportune import checks
from opportune.analysis.intervals import Interval, interval
from opportune.analysis.parts import Parts
from opportune.planning import power, robustness, uncertainty
from opportune.planning.budget import BETWEEN, ROUNDS, Least, Values, find_least, find_values, value_table
from opportune.planning.cohorts import Cohorts
from opportune.planning.fairness import Fairness, find_fairness
from opportune.planning.moments import drawn_values
from opportune.planning.offer import Offer, find_arms, find_offer
from opportune.planning.power import Power, find_power
from opportune.planning.robustness import find_robustness
from opportune.planning.settings import REPLICATES, TARGET, Settings, settings_of
from opportune.planning.simulated import Progress, Simulations, means, parts_of, steps
from opportune.planning.uncertainty import find_uncertainty
from opportune.planning.workload import Workload, day_steps, find_workload, shared_steps
from opportune.planning.worlds import participants_of
from opportune.planning.worth import find_worth
from opportune.study import Study

KEPT = ("nudged", "context")
"""The variables of every step that workload and fairness need."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The answers, each with its uncertainty."""

    settings: Settings
    values: Values
    offer: Offer
    """The gain from the file's own budget."""
    arms: pd.DataFrame
    """A row for each arm of the file; empty without arms."""
    worth: pd.DataFrame
    """The gain from fresh advice by level of the variables seen beforehand."""
    least: Least
    one_more: Interval
    """The gain in outcome per day from one nudge more than the least budget that reaches the target."""
    workload: Workload
    fairness: Fairness
    robustness: pd.DataFrame
    unsure: pd.DataFrame
    """The answer under other means of effects that fit the pilot data; empty if the file has no `se`."""
    power: Power
    seconds: float

    @property
    def value(self) -> pd.DataFrame:
        """The outcome of each policy at each budget."""
        return value_table(self.settings, self.values)

    @property
    def budget(self) -> int:
        """The budget for workload, fairness and power: the file's, at least one nudge."""
        return whole_budget(self.settings)

    def tables(self) -> dict[str, pd.DataFrame]:
        """Every table by its name."""
        return {
            "value": self.value,
            **({"arms": self.arms} if len(self.arms) else {}),
            "workload": self.workload.summary,
            "workload-by-day": self.workload.course,
            "workload-by-weekday": self.workload.weekdays,
            "caps": self.workload.caps,
            "participants": self.fairness.participants,
            "levels": self.fairness.levels.merge(self.worth, how="left", on=["variable", "level"]),
            "times": self.fairness.times,
            "robustness": self.robustness,
            **({"unsure": self.unsure} if len(self.unsure) else {}),
            "power": self.power.table,
            "randomising": self.power.coins,
        }


def plan(
    study: Study,
    *,
    out: str | Path,
    budgets: Sequence[float] | None = None,
    target: float = TARGET,
    participants: int | None = None,
    replicates: int = REPLICATES,
    device: str = "cpu",
    progress: bool = True,
    keep_parts: bool = False,
) -> Plan:
    """Plan a study: how many nudges, how much work, who gets them, how certain that is, and the power of the analysis.

    Args:
        study: the study, with its truth; see `opportune.study.load_study`.
        out: a folder; finished parts stay in it until the plan is complete, so that the same call resumes.
        budgets: nudges per participant to try; by default the file's, and 0.
        target: the share to reach of the most that nudges bring.
        participants: how many there will be; by default the file's number, or 100.
        replicates: how often each participant is simulated.
        device: "cpu", "cuda" or "auto"; under `joblib.parallel_config(...)`, that backend's workers.
        progress: show a progress bar.
        keep_parts: keep the parts after the plan is complete; `discard_parts` removes them.

    """
    checks.yes_no("progress", progress)
    checks.yes_no("keep_parts", keep_parts)
    out = checks.path("out", out)
    settings = settings_of(
        study, budgets=budgets, target=target, participants=participants, replicates=replicates, device=device
    )
    with _progress(settings, visible=progress) as show:
        found = _plan(settings, parts_of(settings, out), show)
    if not keep_parts:
        discard_parts(found, out)
    return found


def discard_parts(found: Plan, out: str | Path) -> None:
    """Remove a plan's parts from its folder."""
    parts_of(found.settings, Path(out)).discard()


@contextmanager
def _progress(settings: Settings, *, visible: bool) -> Iterator[Progress]:
    """A progress bar in per cent of all steps, if visible."""
    if not visible:
        yield lambda what, done: None
        return
    from opportune.progress import bar  # noqa: PLC0415  (rich is slow to import)

    whole = count_steps(settings)
    with bar() as show:
        task = show.add_task("planning", total=100)
        yield lambda what, done: show.update(task, description=what, completed=min(100, round(100 * done / whole)))


def count_steps(settings: Settings) -> float:
    """About how many steps a plan simulates, for the progress bar."""
    per_run = float(settings.horizon * settings.participants)
    grid = len(settings.budgets) * len(settings.entries) + 2
    search = ROUNDS * BETWEEN * settings.fewer + 6 * settings.replicates
    guess = whole_budget(settings)
    parts = per_run * (grid * settings.replicates + search + settings.traced)
    return (
        parts
        + 5 * day_steps(settings)
        + robustness.count_steps(settings)
        + uncertainty.count_steps(settings)
        + power.count_steps(settings, guess)
    )


def _plan(settings: Settings, parts: Parts, progress: Progress) -> Plan:
    began = time.perf_counter()
    simulations = Simulations(parts, progress)
    values = find_values(settings, simulations)
    least = find_least(settings, values, simulations)
    one_more = _one_more(settings, simulations, values, least.budget)
    budget = whole_budget(settings)
    data = simulations.run(
        f"steps-{budget}",
        "every step",
        float(settings.horizon * settings.participants * settings.traced),
        lambda: _steps(settings, budget),
    )
    nudged = np.asarray(data["nudged"].values, dtype=np.float64)
    moments = (
        drawn_values(settings, participants_of(settings), nudged.shape[1])
        if settings.study.continuous
        else np.asarray(data["context"].values)
    )
    cohorts = Cohorts(settings, participants_of(settings))
    together = shared_steps(settings, simulations, cohorts, budget)
    return Plan(
        settings=settings,
        values=values,
        offer=find_offer(settings, simulations, values),
        arms=find_arms(settings, simulations, settings.proposed),
        worth=find_worth(settings, simulations),
        least=least,
        one_more=one_more,
        workload=find_workload(settings, simulations, cohorts, budget, nudged, together),
        fairness=find_fairness(settings, nudged, moments, together),
        robustness=find_robustness(settings, simulations, least),
        unsure=find_uncertainty(settings, simulations, least),
        power=find_power(settings, simulations, budget),
        seconds=time.perf_counter() - began,
    )


def whole_budget(settings: Settings) -> int:
    """The file's budget as a whole number of nudges, at least 1."""
    return max(1, round(settings.proposed))


def _one_more(settings: Settings, simulations: Simulations, values: Values, budget: int) -> Interval:
    """The gain from one more nudge, with both budgets simulated in full."""
    more = min(budget + 1, settings.horizon)
    policies = [settings.policy(settings.main, b) for b in (budget, more)]
    data = simulations.run(
        f"one-more-{budget}",
        f"{budget} {settings.nudges}, and one more",
        2.0 * settings.horizon * settings.participants * settings.replicates,
        lambda: means(settings, participants_of(settings), policies, settings.replicates),
    )
    outcome = data["outcome"].values
    values.outcome[values.main][float(budget)] = outcome[0]
    values.nudges[values.main][float(budget)] = data["nudges"].values[0]
    if more == budget:
        return Interval(math.nan, math.nan)
    return interval(outcome[1] - outcome[0])


def _steps(settings: Settings, budget: int) -> xr.Dataset:
    """Nudges and contexts at every step, in the smallest types."""
    policy = settings.policy(settings.main, budget)
    data = next(steps(settings, participants_of(settings), [policy], settings.traced))
    return xr.Dataset({name: (data[name].dims, np.asarray(data[name].values)) for name in KEPT})
