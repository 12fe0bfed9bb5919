"""Sharing between patients: own models, models pooled in part, and one model, for patients more and less alike."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import xarray as xr

from opportune.analysis.plots import WIDE, new_figure
from opportune.analysis.styles import BLUE, GREY, WINE
from opportune.experiments.base import Config, Experiment, Findings, Picture
from opportune.experiments.claims import claim, measure
from opportune.experiments.record import Cell, Table
from opportune.experiments.studies import advantage, lower_claim, plus_minus, run_together, study_worlds, summary
from opportune.policy import Policy, pace_ucb
from opportune.worlds.linear import LinearWorld

PARTICIPANTS = 10
VALUES = {"paper": "final_regret", "realised": "final_realised"}
"""The value by which gains are ranked, and the loss that measures it."""
SAID = {"paper": "regret", "realised": "realised regret"}
OWN, PARTIAL, ONE = "own models", "pooled in part", "one model"
POOLED: dict[str, bool | Literal["partial"]] = {OWN: False, PARTIAL: "partial", ONE: True}
COLOURS = {OWN: BLUE, PARTIAL: WINE, ONE: GREY}

Worlds = Sequence[LinearWorld]


def _apart(share: float) -> Callable[[Worlds], Worlds]:
    """Participants with the first one's problem, and a theta at this share of the way from its theta to their own."""

    def changed(worlds: Worlds) -> Worlds:
        first = worlds[0]
        return [first.replace(theta=(1.0 - share) * first.theta + share * w.theta, name=w.name) for w in worlds]

    return changed


LIKENESS = {"alike": _apart(0.0), "half-way apart": _apart(0.5), "independent": _apart(1.0)}
"""Degrees of similarity between participants, by the names of their tasks."""


def config(quick: bool) -> Config:
    """Participants alike, half-way apart and independent, at two budgets."""
    return {
        "likeness": list(LIKENESS), "budgets": [10] if quick else [10, 30], "studies": 4 if quick else 24,
        "replications": 1, "horizon": 300,
    }  # fmt: skip


def tasks(config: Config) -> list[str]:
    """One task for each likeness and budget."""
    return [f"{likeness}-B{b}" for likeness in config["likeness"] for b in config["budgets"]]


def name_of(value: str, pooling: str) -> str:
    """The name of a policy in the results."""
    return f"{value}, {pooling}"


def policies(budget: float) -> list[Policy]:
    """PACE by each value, with each way of pooling."""
    return [
        replace(pace_ucb(budget, value=value, name=name_of(value, pooling)), pooled=pooled)
        for value in VALUES
        for pooling, pooled in POOLED.items()
    ]


def run_task(config: Config, task: str, seed: int) -> xr.Dataset:
    """Each way of pooling at one budget; one observation per study of ten."""
    likeness, budget = task.rsplit("-B", 1)
    return run_together(
        study_worlds(config["studies"] * PARTICIPANTS, seed), policies(int(budget)), participants=PARTICIPANTS,
        horizon=config["horizon"], replicates=config["replications"], seed=seed, change=LIKENESS[likeness],
    )  # fmt: skip


def findings(config: Config, parts: Mapping[str, xr.Dataset]) -> Findings:
    """Losses of each way of pooling, and whether pooling in part is ever worse than own models."""
    numbers = {
        task: {value: summary(data, measured) for value, measured in VALUES.items()} for task, data in parts.items()
    }
    alike = {said(task): data for task, data in parts.items() if task.startswith("alike")}
    apart = {said(task): data for task, data in parts.items() if not task.startswith("alike")}
    claims = []
    for value, measured in VALUES.items():
        own, partial, one = (name_of(value, pooling) for pooling in POOLED)
        claims += [
            claim(
                f"Pooling in part has lower {SAID[value]} than own models, however much participants differ.",
                "Lower by",
                [measure(said(task), advantage(d, partial, own, measured), above=0.0) for task, d in parts.items()],
            ),
            lower_claim(
                f"Where participants differ, pooling in part has lower {SAID[value]} than one model for all.",
                apart, partial, one, name=measured,
            ),
            lower_claim(
                f"Where participants are alike, one model for all has the lowest {SAID[value]}.",
                alike, one, partial, name=measured,
            ),
        ]  # fmt: skip
    return Findings(
        found=_found(config, numbers),
        numbers=numbers,
        claims=claims,
        pictures=[_picture(config, numbers)],
        tables=[_table(numbers, value) for value in VALUES],
    )


def said(task: str) -> str:
    """A task in words."""
    likeness, budget = task.rsplit("-B", 1)
    return f"{likeness}, B = {budget}"


def _found(config: Config, numbers: Mapping[str, Any]) -> str:
    b, text = config["budgets"][0], []
    for likeness in config["likeness"]:
        found = numbers[f"{likeness}-B{b}"]["paper"]
        each = ", ".join(f"{pooling} {found[name_of('paper', pooling)]['mean']:.0f}" for pooling in POOLED)
        text.append(f"{likeness}: {each}")
    return f"Regret of each of ten participants at B = {b}. {'; '.join(text)}."


def _table(numbers: Mapping[str, Any], value: str) -> Table:
    rows: list[list[Cell]] = [
        [said(task), *(plus_minus(found[value][name_of(value, pooling)]) for pooling in POOLED)]
        for task, found in numbers.items()
    ]
    return Table(
        caption=f"Ten participants, each with their own budget: mean {SAID[value]}, ± 95% interval over studies",
        columns=["participants", *POOLED],
        rows=rows,
    )


def _picture(config: Config, numbers: Mapping[str, Any]) -> Picture:
    figure, panels = new_figure(1, len(VALUES), width=WIDE, height=4.0)
    names = config["likeness"]
    for axes, value in zip(panels, VALUES, strict=True):
        for j, pooling in enumerate(POOLED):
            for k, b in enumerate(config["budgets"]):
                found = [numbers[f"{name}-B{b}"][value][name_of(value, pooling)] for name in names]
                at = [i + 0.24 * (j - 1) + 0.09 * k for i in range(len(names))]
                axes.errorbar(
                    at, [f["mean"] for f in found], yerr=[f["half_width"] for f in found], fmt="oD"[k % 2],
                    color=COLOURS[pooling], label=pooling if k == 0 else None, markersize=5, elinewidth=1,
                )  # fmt: skip
        axes.set(title=SAID[value].capitalize(), yscale="log", ylabel="of each participant, at the end (log scale)")
        axes.set_yticks(ticks := [10, 20, 50, 100, 200, 500], [str(t) for t in ticks])
        axes.minorticks_off()
        axes.set_xticks(range(len(names)), names)
    panels[0].legend(frameon=False, fontsize="small")
    shown = " and ".join(f"B = {b} ({mark})" for b, mark in zip(config["budgets"], ("dot", "diamond"), strict=False))
    return Picture(
        name="cohorts",
        figure=figure,
        caption="Ten participants who are alike, half-way apart or independent: the loss of each with its own model, "
        f"with models pooled in part and with one model for all, at {shown}, with 95% intervals over studies.",
        alt="Dots for three ways of pooling; one model is lowest where participants are alike and far above elsewhere, "
        "pooling in part is below own models throughout.",
    )


EXPERIMENT = Experiment(
    name="cohorts",
    title="What patients have in common",
    about="Ten participants learn alone, together, or in between: with models pooled in part, each has its own "
    "effects, which are drawn towards a common mean. They are alike, half-way apart, or have nothing in common.",
    config=config,
    tasks=tasks,
    run_task=run_task,
    findings=findings,
)
