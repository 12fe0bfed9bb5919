"""Regret under known context probabilities: the paper's Figures 2, G.1 and G.2, with scale `range` and `adaptive`."""

from collections.abc import Mapping
from itertools import pairwise
from typing import Any

import xarray as xr
from matplotlib.figure import Figure

from opportune.analysis.metrics import mean_interval
from opportune.analysis.plots import COLOURS, STYLES, legend_outside, new_figure, plot_scatter
from opportune.experiments.base import Claim, Config, Experiment, Findings, Picture, Table
from opportune.experiments.studies import (
    SCALES,
    compare,
    instance_means,
    ordering_claim,
    paper_policies,
    plus_minus,
    run_study,
    share_claim,
    study_worlds,
    summary,
)

ALMOST_ALL = 0.9
LOOKS = {"naive": 2, "PD1 range": 4, "PD2 range": 5, "PD1 adaptive": 1, "PD2 adaptive": 0}


def config(quick: bool) -> Config:
    """The paper's grid: 50 instances, 50 replications, B in {10, 20, 30}, T = 300."""
    return {
        "instances": 50,
        "replications": 3 if quick else 50,
        "horizon": 300,
        "budgets": [10, 30] if quick else [10, 20, 30],
        "known": True,
    }


def pieces(config: Config) -> list[str]:
    """One piece a budget."""
    return [f"B{b}" for b in config["budgets"]]


def run_piece(config: Config, piece: str, seed: int) -> xr.Dataset:
    """All policies at one budget."""
    worlds = study_worlds(config["instances"], seed, known=config["known"])
    policies = paper_policies(int(piece[1:]))
    return run_study(worlds, policies, horizon=config["horizon"], replicates=config["replications"], seed=seed)


def findings(config: Config, parts: Mapping[str, xr.Dataset]) -> Findings:
    """Means, scatter plots and the paper's claims."""
    numbers = {piece: _numbers(data) for piece, data in parts.items()}
    return Findings(
        numbers=numbers,
        claims=[c for scale in SCALES for c in regret_claims(parts, scale)] + [budget_claim(parts)],
        pictures=[p for piece, data in parts.items() for p in _pictures(piece, data, "regret")],
        tables=[regret_table(numbers, "Mean cumulative regret at the end, ± 95% interval over instances")],
    )


def _numbers(data: xr.Dataset) -> dict[str, object]:
    return {
        "regret": summary(data),
        "realised_regret": summary(data, "final_realised"),
        "spent": summary(data, "spent"),
        "instance_regret": {
            str(p): [round(float(v), 6) for v in instance_means(data).sel(policy=p).values]
            for p in data["policy"].values
        },
    }


def regret_table(numbers: Mapping[str, Mapping[str, object]], caption: str) -> Table:
    """One row a policy, one column a budget."""
    first = next(iter(numbers.values()))
    policies = list(first["regret"])  # type: ignore[call-overload]
    rows = [
        [policy, *(plus_minus(n["regret"][policy]) for n in numbers.values())]  # type: ignore[index]
        for policy in policies
    ]
    return Table(caption=caption, columns=["policy", *(f"B = {piece[1:]}" for piece in numbers)], rows=rows)


def regret_claims(parts: Mapping[str, xr.Dataset], scale: str) -> list[Claim]:
    """The paper's sentences about regret, for one scale."""
    ours, other = f"PD2 {scale}", f"PD1 {scale}"
    against_naive = {p: compare(d, ours, "naive") for p, d in parts.items()}
    against_pd1 = {p: compare(d, ours, other) for p, d in parts.items()}
    note = f"(scale {scale})"
    claims = [
        ordering_claim(f"PD2 has lower mean regret than naive at every budget {note}.", against_naive),
        ordering_claim(f"PD2 has lower mean regret than PD1 at every budget {note}.", against_pd1),
        share_claim(f"PD2 beats naive almost instance by instance {note}.", against_naive, ALMOST_ALL),
        share_claim(f"PD2 beats PD1 almost instance by instance {note}.", against_pd1, ALMOST_ALL),
    ]
    for name, comparisons in (("naive", against_naive), ("PD1", against_pd1)):
        margins = [c["difference"] for c in comparisons.values()]
        claims.append(
            Claim(
                claim=f"The margin of PD2 over {name} is greatest at the lowest budget {note}.",
                held=margins[0] == max(margins),
                evidence="; ".join(f"{p}: {m:.1f}" for p, m in zip(comparisons, margins, strict=True)),
            )
        )
    return claims


def budget_claim(parts: Mapping[str, xr.Dataset]) -> Claim:
    """The paper notes that regrets in general increase with the budget, since the clairvoyant gains too."""
    means = {p: [s[p]["mean"] for s in map(summary, parts.values())] for p in LOOKS}
    rising = {p: all(a < b for a, b in pairwise(m)) for p, m in means.items()}
    evidence = "; ".join(f"{p}: {', '.join(f'{v:.0f}' for v in m)}" for p, m in means.items())
    return Claim(
        claim="Regret in general increases with the budget.",
        held=sum(rising.values()) > len(rising) / 2,
        evidence=f"{evidence} at {', '.join(parts)} (rising throughout for {sum(rising.values())} of {len(rising)})",
    )


def draw_curves(data: xr.Dataset) -> Figure:
    """Mean cumulative regret of each policy with a 95% band over instances."""
    figure, (axes,) = new_figure(height=4.2)
    curves = mean_interval(data["regret"], ("world",))
    for policy, look in LOOKS.items():
        one = curves.sel(policy=policy)
        line: dict[str, Any] = {"color": COLOURS[look], "linestyle": STYLES[look]}
        axes.plot(one["step"], one["mean"], label=policy, linewidth=1.8, **line)
        axes.fill_between(one["step"], one["low"], one["high"], color=line["color"], alpha=0.18, linewidth=0)
    axes.set(xlabel="step", ylabel="cumulative regret", ylim=(0, None))
    legend_outside(axes)
    return figure


def draw_scatters(data: xr.Dataset) -> Figure:
    """PD2 against naive and against PD1, for each scale, one dot an instance."""
    figure, panels = new_figure(1, 4, width=12.0, height=3.1)
    means = instance_means(data)
    pairs = [(f"PD2 {s}", other) for s in SCALES for other in ("naive", f"PD1 {s}")]
    for axes, (ours, other) in zip(panels, pairs, strict=True):
        plot_scatter(axes, means.sel(policy=other).values, means.sel(policy=ours).values, other, ours)
    return figure


def _pictures(piece: str, data: xr.Dataset, prefix: str) -> list[Picture]:
    budget = piece[1:]
    means = {p: s["mean"] for p, s in summary(data).items()}
    told = ", ".join(f"{p} {m:.0f}" for p, m in sorted(means.items(), key=lambda item: item[1]))
    return [
        Picture(
            name=f"{prefix}-b{budget}",
            figure=draw_curves(data),
            caption=f"Cumulative regret at B = {budget}: mean over instances with a 95% band. Lower is better; "
            f"at the end: {told}.",
            alt=f"Line chart of cumulative regret over time for five policies at a budget of {budget}.",
        ),
        Picture(
            name=f"{prefix}-scatter-b{budget}",
            figure=draw_scatters(data),
            caption=f"Regret at the end for each instance at B = {budget}. A dot below the diagonal is an instance "
            "on which PD2 does better than the policy on the horizontal axis.",
            alt=f"Four scatter plots of PD2 against naive and PD1, one dot an instance, budget {budget}.",
        ),
    ]


EXPERIMENT = Experiment(
    name="regret",
    title="Regret when the context distribution is known",
    about="The paper's main comparison: 50 synthetic instances, 300 steps, three budgets. `range` scales gaps as the "
    "paper's experiments do and needs bounds on the rewards; `adaptive` is Opportune's default and needs none.",
    config=config,
    pieces=pieces,
    run_piece=run_piece,
    findings=findings,
)
