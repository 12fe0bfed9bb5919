"""When people answer: PACE with and without the model of answers, in worlds where calls go unanswered."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr

from opportune.algorithm.rng import PARAMETER, draw
from opportune.analysis.intervals import interval
from opportune.analysis.plots import WIDE, new_figure
from opportune.analysis.styles import WINE
from opportune.experiments.base import Config, Experiment, Findings, Picture
from opportune.experiments.claims import Claim, claim, exact, measure
from opportune.experiments.record import Cell, Table
from opportune.experiments.studies import advantage, plus_minus, run_together, study_worlds, summary
from opportune.policy import Budget, pace_ucb
from opportune.problems.finite import Problem
from opportune.worlds.linear import LinearWorld

PARTICIPANTS = 10
VALUES = {"realised": "final_realised", "paper": "final_regret"}
"""The value by which gains are ranked, and the loss that measures it."""
BEYOND_PERSONS = 1 << 40
"""The first stream of the draws that decide how readily a person answers."""

Worlds = Sequence[LinearWorld]


@dataclass(frozen=True, kw_only=True)
class Setting:
    """A pattern of unanswered calls.

    Attributes:
        label: the name for readers.
        change: turns the paper's worlds into those of a study.
        useless: whether the model is expected to change nothing, or to improve nothing.

    """

    label: str
    change: Callable[[Worlds], Worlds]
    useless: bool = False


def _happening(**changed: Any) -> Callable[[Worlds], Worlds]:
    return lambda worlds: [world.replace(**changed) for world in worlds]


def _by_time(worlds: Worlds) -> Worlds:
    """Mornings and evenings, equally likely and irrelevant to rewards; most morning calls go unanswered."""
    found = []
    for world in worlds:
        problem = world.problem
        assert problem.context_probs is not None
        both = Problem(
            np.concatenate([problem.features, problem.features]), np.tile(0.5 * problem.context_probs, 2),
            noise_sd=problem.noise_sd, theta_bound=problem.theta_bound, value_range=problem.value_range,
            variables={"time": ("morning", "evening"), "state": range(problem.contexts)},
            visibility={"time": "public", "state": "sensed"},
        )  # fmt: skip
        found.append(
            LinearWorld(
                both, theta=world.theta, noise_sd=world.noise_sd, name=world.name, response_rate=(0.2, 0.8)
            )
        )  # fmt: skip
    return found


def _people(worlds: Worlds) -> Worlds:
    """Each person has their own probability of an answer, Beta(2, 2): the median of three uniform draws."""
    found = []
    for world in worlds:
        place = int(world.name.rpartition(" ")[2])
        draws = [draw(0, BEYOND_PERSONS + place, i, PARAMETER) for i in range(3)]
        found.append(world.replace(response_rate=float(np.median(draws))))
    return found


SETTINGS = {
    "certain": Setting(label="all answered", change=list, useless=True),
    "half": Setting(label="half answered", change=_happening(response_rate=0.5)),
    "third": Setting(label="three in ten answered", change=_happening(response_rate=0.3)),
    "strata": Setting(label="mornings 0.2, evenings 0.8", change=_by_time),
    "habituation": Setting(
        label="people tire: 0.9 times 0.6 for each recent nudge",
        change=_happening(response_rate=0.9, habituation=0.6),
    ),
    "persons": Setting(label="people differ, Beta(2, 2)", change=_people),
    "away": Setting(
        label="away 30% of the time, unnoticed",
        change=_happening(spells={"rate": 0.035, "days": 10, "silent": True}), useless=True,
    ),
}  # fmt: skip
"""The settings by the names of their tasks."""


def config(quick: bool) -> Config:
    """All settings, at two budgets for ten participants."""
    return {
        "settings": list(SETTINGS), "budgets": [30] if quick else [10, 30], "studies": 4 if quick else 24,
        "replications": 1, "horizon": 300,
    }  # fmt: skip


def tasks(config: Config) -> list[str]:
    """One task for each setting and budget."""
    return [f"{name}-B{b}" for name in config["settings"] for b in config["budgets"]]


def name_of(value: str, *, response: bool) -> str:
    """The name of a policy in the results."""
    return f"{value}, {'with' if response else 'without'}"


def run_task(config: Config, task: str, seed: int) -> xr.Dataset:
    """PACE with and without the model, by each value; one observation per study."""
    name, budget = task.split("-B")
    amount = Budget(PARTICIPANTS * int(budget), shared=True)
    policies = [
        pace_ucb(amount, value=value, response=response, name=name_of(value, response=response))
        for value in VALUES
        for response in (False, True)
    ]
    return run_together(
        study_worlds(config["studies"] * PARTICIPANTS, seed), policies, participants=PARTICIPANTS,
        horizon=config["horizon"], replicates=config["replications"], seed=seed, trace=True,
        change=SETTINGS[name].change,
    )  # fmt: skip


def findings(config: Config, parts: Mapping[str, xr.Dataset]) -> Findings:
    """The effect of the model in each setting."""
    numbers = {
        task: {
            value: {
                "lost": summary(data, measured),
                "difference": interval(-_less(data, value))._asdict(),
                "spent": summary(data, "spent"),
            }
            for value, measured in VALUES.items()
        }
        for task, data in parts.items()
    }
    claims = _claims(parts)
    return Findings(
        found=_found(config, numbers, claims),
        numbers=numbers,
        claims=claims,
        pictures=[_picture(config, numbers)],
        tables=[_table(numbers)],
    )


def _less(data: xr.Dataset, value: str) -> Any:
    """The reduction of the loss by the model, study by study."""
    return advantage(data, name_of(value, response=True), name_of(value, response=False), VALUES[value])


def said(task: str) -> str:
    """A task in words."""
    name, budget = task.split("-B")
    return f"{SETTINGS[name].label}, B = {budget}"


def _claims(parts: Mapping[str, xr.Dataset]) -> list[Claim]:
    """The model lowers regret where calls go unanswered, and does no harm elsewhere."""
    useful = {task: data for task, data in parts.items() if not SETTINGS[task.split("-B")[0]].useless}
    lower = [
        claim(
            f"Wherever calls go unanswered for other reasons than absences, the model of answers lowers {words}.",
            "Lower by",
            [measure(said(task), _less(data, value), above=0.0) for task, data in useful.items()],
        )
        for value, words in (("realised", "realised regret"), ("paper", "the paper's regret, by the paper's value"))
    ]  # fmt: skip
    certain = {task: data for task, data in parts.items() if task.startswith("certain")}
    harmless = claim(
        "Where every call is answered, the model changes realised regret by less than 0.5.",
        "Difference",
        [measure(said(task), -_less(data, "realised"), above=-0.5, below=0.5) for task, data in certain.items()],
    )
    nowhere = claim(
        "The model is nowhere worse by more than a standard error, by either measure: it could be the default.",
        "Difference in standard errors",
        [
            exact(f"{said(task)}, {value}", _in_standard_errors(-_less(data, value)), below=1.0)
            for task, data in parts.items()
            for value in VALUES
        ],
        digits=2,
    )
    return [*lower, harmless, nowhere]


def _in_standard_errors(values: Any) -> float:
    """A mean divided by its standard error; 0 if all values are zero."""
    error = float(values.std(ddof=1)) / np.sqrt(values.size) if values.size > 1 else float("nan")
    return 0.0 if not np.any(values) else float(values.mean()) / error


def _found(config: Config, numbers: Mapping[str, Any], claims: Sequence[Claim]) -> str:
    b = config["budgets"][-1]
    changes = "; ".join(
        f"{SETTINGS[name].label} {numbers[f'{name}-B{b}']['realised']['difference']['mean']:+.1f}"
        for name in config["settings"]
    )
    return (
        f"Change in realised regret due to the model of answers at B = {b}: {changes}. "
        f"That nothing is worse by more than its standard error is {claims[-1].verdict}."
    )


def _table(numbers: Mapping[str, Any]) -> Table:
    rows: list[list[Cell]] = []
    for task, found in numbers.items():
        row: list[Cell] = [said(task)]
        for value in VALUES:
            lost = found[value]["lost"]
            row += [plus_minus(lost[name_of(value, response=response)]) for response in (False, True)]
            row.append(plus_minus(found[value]["difference"]))
        rows.append(row)
    return Table(
        caption="Ten participants with one budget, B for each: mean loss per participant without and with the model of "
        "answers, and the difference, ± 95% interval over studies. Realised regret by the realised "
        "value; the paper's regret by the paper's",
        columns=["calls", "realised, without", "with", "difference", "the paper's, without", "with", "difference"],
        rows=rows,
    )


def _picture(config: Config, numbers: Mapping[str, Any]) -> Picture:
    figure, panels = new_figure(1, len(VALUES), width=WIDE, height=0.42 * len(config["settings"]) + 1.6)
    titles = {"realised": "Realised regret", "paper": "The paper's regret"}
    names = config["settings"]
    for axes, value in zip(panels, VALUES, strict=True):
        axes.axvline(0.0, color="0.4", linewidth=1)
        for j, b in enumerate(config["budgets"]):
            found = [numbers[f"{name}-B{b}"][value]["difference"] for name in names]
            axes.errorbar(
                [f["mean"] for f in found], [-i - 0.22 * (j - 0.5) for i in range(len(names))],
                xerr=[f["half_width"] for f in found], fmt="oD"[j % 2], color=WINE, alpha=(0.55, 1.0)[j % 2],
                markersize=5, label=f"B = {b}", elinewidth=1,
            )  # fmt: skip
        axes.set(title=titles[value], xlabel="change (left: less is lost)")
        axes.set_yticks(
            [-i for i in range(len(names))], [SETTINGS[n].label for n in names] if axes is panels[0] else []
        )
        axes.legend(frameon=False, fontsize="small")
    return Picture(
        name="answers",
        figure=figure,
        caption="The effect of the model of answers: difference in loss per participant from PACE without it, with "
        "95% intervals over studies of ten who share a budget. Left of the line, less is lost.",
        alt="Dots with intervals for each way in which calls go unanswered, most of them left of zero.",
    )


EXPERIMENT = Experiment(
    name="answers",
    title="When people answer",
    about="Not every call is answered. PACE can learn from the answers of all who share a budget when people answer, "
    "and prefer such moments. Here it is compared with PACE that does not, in groups of ten who share a budget, in "
    "worlds where calls go unanswered by chance, by the time of day, by habit, by the person and by absences.",
    config=config,
    tasks=tasks,
    run_task=run_task,
    findings=findings,
)
