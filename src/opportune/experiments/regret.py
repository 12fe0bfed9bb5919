"""Regret under known context probabilities: the paper's Figures 2, G.1 and G.2, with scales range and adaptive."""

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import xarray as xr
from matplotlib.figure import Figure

from opportune.analysis.plots import draw_curves, legend_outside, new_figure, plot_scatter
from opportune.analysis.styles import assign
from opportune.experiments.base import Config, Experiment, Findings, Picture
from opportune.experiments.claims import Claim, claim, measure
from opportune.experiments.record import Table
from opportune.experiments.studies import (
    REVEALS,
    SCALES,
    advantage,
    by_budget,
    falling_note,
    instance_means,
    lower_claim,
    paper_policies,
    plus_minus,
    run_study,
    share_claim,
    study_worlds,
    summary,
)

ALMOST_ALL = 0.9
"""The share of instances that counts as almost all."""


def config(quick: bool) -> Config:
    """The paper's grid: 50 instances, 50 replications, B in {10, 20, 30}, T = 300."""
    return {
        "instances": 50,
        "replications": 3 if quick else 50,
        "horizon": 300,
        "budgets": [10, 30] if quick else [10, 20, 30],
        "known": True,
    }


def tasks(config: Config) -> list[str]:
    """One task per budget."""
    return [f"B{b}" for b in config["budgets"]]


def run_task(config: Config, task: str, seed: int) -> xr.Dataset:
    """All policies at one budget."""
    return run_policies(config, task, seed).drop_vars(REVEALS)


def run_policies(config: Config, task: str, seed: int) -> xr.Dataset:
    """All policies at one budget, including what `reveal` needs from these runs."""
    worlds = study_worlds(config["instances"], seed, known=config["known"])
    policies = paper_policies(int(task[1:]))
    return run_study(worlds, policies, horizon=config["horizon"], replicates=config["replications"], seed=seed)


def findings(config: Config, parts: Mapping[str, xr.Dataset]) -> Findings:
    """Means, scatter plots and the paper's claims."""
    numbers = {task: _numbers(data) for task, data in parts.items()}
    return Findings(
        found=_found(numbers),
        numbers=numbers,
        claims=[c for scale in SCALES for c in regret_claims(parts, scale)] + [_budget_claim(parts)],
        pictures=[p for task, data in parts.items() for p in regret_pictures(task, data, "regret")],
        tables=[regret_table(numbers, "Mean cumulative regret at the end, ± 95% interval over instances")],
    )


def _found(numbers: Mapping[str, Mapping[str, Any]]) -> str:
    """The losses of PD2, naive and PD1 at the lowest and at the highest budget."""
    tasks = list(numbers)
    ends = {task: numbers[task] for task in (tasks[0], tasks[-1])}
    said = "; ".join(
        f"at B = {task[1:]} naive loses {_lost(n, 'naive')}, PD1 {_lost(n, 'PD1 range')} and PD2 "
        f"{_lost(n, 'PD2 range')} with the paper's scale, PD1 {_lost(n, 'PD1 adaptive')} and PD2 "
        f"{_lost(n, 'PD2 adaptive')} with scale adaptive"
        for task, n in ends.items()
    )
    pays = all(n["regret"][f"PD2 {s}"]["mean"] < n["regret"]["naive"]["mean"] for n in ends.values() for s in SCALES)
    lead = "Waiting for moments that are worth a reveal " + ("pays." if pays else "does not pay everywhere.")
    return f"{lead} Mean regret at the end: {said}."


def _lost(numbers: Mapping[str, Any], policy: str) -> str:
    return f"{numbers['regret'][policy]['mean']:.0f}"


def _numbers(data: xr.Dataset) -> dict[str, Any]:
    return {
        "regret": summary(data),
        "realised_regret": summary(data, "final_realised"),
        "spent": summary(data, "spent"),
        "instance_regret": {
            str(p): [round(float(v), 6) for v in instance_means(data).sel(policy=p).values]
            for p in data["policy"].values
        },
    }


def regret_table(numbers: Mapping[str, Mapping[str, Any]], caption: str) -> Table:
    """One row per policy, one column per budget."""
    policies = list(next(iter(numbers.values()))["regret"])
    return Table(
        caption=caption,
        columns=["policy", *(f"B = {task[1:]}" for task in numbers)],
        rows=[[policy, *(plus_minus(n["regret"][policy]) for n in numbers.values())] for policy in policies],
    )


def regret_claims(parts: Mapping[str, xr.Dataset], scale: str) -> list[Claim]:
    """The paper's statements about regret, for one scale."""
    ours, others = f"PD2 {scale}", {"naive": "naive", "PD1": f"PD1 {scale}"}
    found, note = by_budget(parts), f"(scale {scale})"
    claims = [
        lower_claim(f"PD2 has lower mean regret than {name} at every budget {note}.", found, ours, other)
        for name, other in others.items()
    ]
    claims += [
        share_claim(f"PD2 beats {name} almost instance by instance {note}.", found, ours, other, least=ALMOST_ALL)
        for name, other in others.items()
    ]
    for name, other in others.items():
        margins = {label: advantage(data, ours, other) for label, data in found.items()}
        lowest, *higher = margins
        claims.append(
            claim(
                f"The margin of PD2 over {name} is greatest at the lowest budget {note}.",
                f"Margin at {lowest} less that at a higher budget",
                [measure(label, margins[lowest] - margins[label], above=0.0) for label in higher],
            )
        )
    return claims


def _budget_claim(parts: Mapping[str, xr.Dataset]) -> Claim:
    """The paper notes that regrets generally increase with the budget, since the clairvoyant gains too."""
    means = {label: instance_means(data) for label, data in by_budget(parts).items()}
    policies = [str(p) for p in next(iter(means.values()))["policy"].values]
    shown = "; ".join(
        f"{p}: {', '.join(f'{float(m.sel(policy=p).mean()):.0f}' for m in means.values())}" for p in policies
    )
    rises = [
        measure(f"from {a} to {b}", (means[b] - means[a]).mean("policy").values, above=0.0) for a, b in pairwise(means)
    ]
    return claim(
        "Regret in general increases with the budget.",
        "Rise of the regret, averaged over policies",
        rises,
        note=f"Mean regret at {', '.join(means)} for {shown}.",
    )


def _draw_regret(data: xr.Dataset) -> Figure:
    """Mean cumulative regret of each policy with a 95% band over instances."""
    figure, (axes,) = new_figure(height=4.4)
    draw_curves(axes, data["regret"])
    axes.set(title="Regret so far", ylabel="cumulative regret", ylim=(0, None))
    legend_outside(axes)
    return figure


def _draw_scatters(data: xr.Dataset) -> Figure:
    """PD2 against naive and against PD1, for each scale, one dot per instance."""
    figure, panels = new_figure(2, 2, width=7.2, height=7.0)
    means = instance_means(data)
    pairs = [(f"PD2 {s}", other) for s in SCALES for other in ("naive", f"PD1 {s}")]
    for axes, (ours, other) in zip(panels, pairs, strict=True):
        dots = means.sel(policy=other).values, means.sel(policy=ours).values
        plot_scatter(axes, *dots, other, ours, color=assign([ours])[ours].color)
        axes.set_title(f"{ours} and {other}")
    return figure


def regret_pictures(task: str, data: xr.Dataset, prefix: str) -> list[Picture]:
    """Regret over time, and PD2 against the others instance by instance."""
    budget = task[1:]
    means = {p: s["mean"] for p, s in summary(data).items()}
    means_at_end = ", ".join(f"{p} {m:.0f}" for p, m in sorted(means.items(), key=lambda item: item[1]))
    return [
        Picture(
            name=f"{prefix}-b{budget}",
            figure=_draw_regret(data),
            caption=f"Cumulative regret at B = {budget}: mean over instances with a 95% band. Lower is better; "
            f"at the end: {means_at_end}.{falling_note(data)}",
            alt=f"Line chart of cumulative regret over time for five policies at a budget of {budget}.",
        ),
        Picture(
            name=f"{prefix}-scatter-b{budget}",
            figure=_draw_scatters(data),
            caption=f"Regret at the end for each instance at B = {budget}. A dot below the diagonal is an instance "
            "on which PD2 does better than the policy on the horizontal axis.",
            alt=f"Four scatter plots of PD2 against naive and PD1, one dot per instance, budget {budget}.",
        ),
    ]


EXPERIMENT = Experiment(
    name="regret",
    title="Regret when the context distribution is known",
    about="The paper's main comparison: 50 synthetic instances, 300 steps, three budgets. Scale range divides gaps as "
    "the paper's experiments do and needs bounds on the rewards; adaptive is Opportune's default and needs none.",
    config=config,
    tasks=tasks,
    run_task=run_task,
    findings=findings,
)
