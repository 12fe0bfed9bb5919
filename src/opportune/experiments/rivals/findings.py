"""Findings of the experiment on rivals: each rule at its best constant, beside PACE on the same draws."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from opportune.analysis.intervals import interval
from opportune.analysis.plots import WIDE, legend_outside, new_figure
from opportune.analysis.styles import assign
from opportune.experiments.base import Config, Findings, Picture
from opportune.experiments.claims import Claim, claim, measure
from opportune.experiments.record import Cell, Table
from opportune.experiments.rivals.grid import (
    ALWAYS_PAPER,
    COIN_WITH_DEBT,
    CONSTANTS,
    PACE,
    TOGETHER,
    VALUES,
    name_of,
)
from opportune.experiments.studies import plus_minus

Parts = Mapping[str, xr.Dataset]
Floats = NDArray[np.float64]
CBM = "CBM"
MEASURES = {"paper": "final_regret", "realised": "final_realised"}
SAID = {"paper": "regret", "realised": "realised regret"}
TITLES = {"paper": "Regret, ranked by the paper's value", "realised": "Realised regret, by the realised value"}
TOP = {"paper": 160.0, "realised": 60.0}  # rules that lose far more exceed the plot
SHARES = {"known": "p known", "unknown": "p unknown", "shared": "shared by ten"}
"""The prefixes of task names."""


def best(data: xr.Dataset, rule: str, value: str) -> tuple[float, Floats]:
    """The constant with the least mean loss, and its losses instance by instance."""
    known = {**CONSTANTS, **TOGETHER, PACE: (0.0,)}
    by = "paper" if rule in ALWAYS_PAPER else value
    tried = {
        constant: data[MEASURES[value]].sel(policy=name_of(rule, constant, by)).mean("replicate").values
        for constant in known[rule]
        if name_of(rule, constant, by) in data["policy"]
    }
    chosen = min(tried, key=lambda constant: float(tried[constant].mean()))
    return chosen, tried[chosen]


def rules_of(task: str) -> list[str]:
    """The rules of a task, PACE first."""
    return [PACE, *(TOGETHER if task.startswith("shared") else CONSTANTS)]


def findings(config: Config, parts: Parts) -> Findings:
    """Losses of every rule at its best constant, the claims, a figure."""
    numbers = {
        task: {
            rule: {value: {"constant": best(data, rule, value)[0], **_interval(best(data, rule, value)[1])}
                   for value in VALUES}
            for rule in rules_of(task)
        }
        for task, data in parts.items()
    }  # fmt: skip
    return Findings(
        found=_found(config, parts, numbers),
        numbers=numbers,
        claims=_claims(parts),
        pictures=[_picture(config, numbers)],
        tables=[_table(parts, numbers, value) for value in VALUES],
    )


def _interval(values: Floats) -> dict[str, float]:
    return dict(interval(values)._asdict())


def said(task: str) -> str:
    """A task in words."""
    kind, radius, budget = task.split("-")
    return f"{SHARES[kind]}, {radius}, B = {budget[1:]}"


def _claims(parts: Parts) -> list[Claim]:
    """PACE against each rule at its best constant, by each measure."""
    found = []
    for value in VALUES:
        for rule in {**CONSTANTS, **TOGETHER}:
            margins = [
                measure(said(task), best(data, rule, value)[1] - best(data, PACE, value)[1], above=0.0)
                for task, data in parts.items()
                if rule in rules_of(task)
            ]
            chosen = sorted({best(data, rule, value)[0] for task, data in parts.items() if rule in rules_of(task)})
            found.append(
                claim(
                    f"PACE has lower {SAID[value]} than {rule}, whose constant is the best on these instances.",
                    "PACE lower by", margins,
                    note=f"Constants chosen: {', '.join(f'{c:g}' for c in chosen)}." if len(chosen) > 1 else "",
                )
            )  # fmt: skip
    return [*found, _matching_claim(parts)]


def _matching_claim(parts: Parts) -> Claim:
    """Confidence-budget matching against the first edition's value, which is not designed for realised regret."""
    margins = []
    for task, data in parts.items():
        if CBM in rules_of(task):
            first = data[MEASURES["realised"]].sel(policy=name_of(PACE, 0.0, "paper")).mean("replicate").values
            margins.append(measure(said(task), best(data, CBM, "realised")[1] - first, above=0.0))
    return claim("PACE by the paper's value has lower realised regret than CBM, too.", "PACE lower by", margins)


def _found(config: Config, parts: Parts, numbers: Mapping[str, Any]) -> str:
    first = next(iter(parts))
    here = numbers[first]
    shown = ", ".join(
        f"{rule} {here[rule]['paper']['mean']:.0f}" for rule in sorted(here, key=lambda r: here[r]["paper"]["mean"])
    )
    ahead = [
        rule
        for rule in CONSTANTS
        if any(
            measure("", best(d, rule, "paper")[1] - best(d, PACE, "paper")[1], above=0.0).verdict == "not held"
            for task, d in parts.items()
            if rule in rules_of(task)
        )
    ]
    text = f"Regret with {said(first)}, each rule at its best constant: {shown}."
    if ahead:
        text += f" Ahead of PACE somewhere: {', '.join(ahead)}."
        if ahead == [COIN_WITH_DEBT]:
            text += " That is PACE's own rank and debt with a coin where moments are equally good."
    return text


def _table(parts: Parts, numbers: Mapping[str, Any], value: str) -> Table:
    rules = list({rule: None for task in parts for rule in rules_of(task)})
    rows: list[list[Cell]] = []
    for rule in rules:
        shown = [numbers[task].get(rule, {}).get(value) for task in parts]
        rows.append([rule, *(None if each is None else _shown(each) for each in shown)])
    return Table(
        caption=f"Mean {SAID[value]} at the end, ± 95% interval over instances, or over studies of ten who share a "
        "budget; each rule with the constant that is best on these instances",
        columns=["rule", *(said(task) for task in parts)],
        rows=rows,
    )


def _shown(found: Mapping[str, Any]) -> str:
    return plus_minus({"mean": found["mean"], "half_width": found["half_width"]})


def _picture(config: Config, numbers: Mapping[str, Any]) -> Picture:
    figure, panels = new_figure(1, len(VALUES), width=WIDE, height=4.4)
    budgets = config["budgets"]
    styles = assign([PACE, *CONSTANTS])
    for axes, value in zip(panels, VALUES, strict=True):
        for rule in (PACE, *CONSTANTS):
            entries = [numbers[f"known-pointwise-B{b}"][rule][value] for b in budgets]
            axes.plot(budgets, [e["mean"] for e in entries], marker="o", markersize=4, label=rule,
                      linewidth=2.4 if rule == PACE else 1.3, **styles[rule]._asdict())  # fmt: skip
        axes.set(title=TITLES[value], xlabel="budget B", yscale="log", ylim=(15, TOP[value]))
        axes.set_ylabel(f"{SAID[value]} at the end (log scale)")
        axes.set_yticks(ticks := [15, 20, 30, 50, 100], [str(t) for t in ticks])
        axes.set_xticks(budgets, [str(b) for b in budgets])
        axes.minorticks_off()
    legend_outside(panels[0])
    return Picture(
        name="rivals",
        figure=figure,
        caption="PACE and other rules on the paper's study, p known, all with the pointwise radius and rotation unless "
        "noted, each with the constant that is best on these instances. Left: the paper's regret. Right: the actual "
        "loss of patients. Re-solving without rotation exceeds the plot on the right.",
        alt="Two charts of regret against the budget for ten rules; PACE is among the lowest lines in both.",
    )
