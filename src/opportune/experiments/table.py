"""Empirical competitive ratios of PD1 and PD2: the paper's Table G.1, for one instance and for many."""

import math
from collections.abc import Mapping
from itertools import pairwise

import numpy as np
import xarray as xr
from numpy.typing import NDArray

from opportune.analysis.bounds import tolerance
from opportune.analysis.clairvoyant import auxiliary, clairvoyant
from opportune.analysis.plots import legend_outside, new_figure
from opportune.analysis.styles import POLICIES
from opportune.experiments.base import Config, Experiment, Findings, Picture
from opportune.experiments.claims import Claim, claim, measure
from opportune.experiments.record import Cell, Table
from opportune.experiments.studies import plain, study_worlds
from opportune.policy import pd2_ucb
from opportune.simulation.run import simulate

PAPER = {
    "PD1": {2: 0.805, 4: 0.832, 8: 0.849, 16: 0.861, 32: 0.870, 64: 0.879},
    "PD2": {2: 0.759, 4: 0.807, 8: 0.836, 16: 0.854, 32: 0.867, 64: 0.878},
}
FLOOR = 1.0 - 1.0 / math.e


def config(quick: bool) -> Config:
    """200 arrival sequences of 300 steps, as in the paper; 60 instances, the first of which represents the paper's."""
    return {
        "instances": 60,
        "sequences": 10 if quick else 200,
        "horizon": 300,
        "budgets": [2, 4, 8, 16, 32, 64],
    }


def tasks(config: Config) -> list[str]:
    """One task per budget."""
    return [f"B{b}" for b in config["budgets"]]


def run_task(config: Config, task: str, seed: int) -> xr.Dataset:
    """Competitive ratio E[AUX] / E[CLV] of PD1 and PD2 for every instance at one budget.

    With theta known the fresh and the stale action never differ, so PD2's sequence of disagreements n_t comes from a
    learning run of PD2 on the same arrivals (docs/paper.md).
    """
    budget = float(task[1:])
    worlds = study_worlds(config["instances"], seed)
    horizon = config["horizon"]
    learned = simulate(
        worlds,
        pd2_ucb(budget, scale="gap"),
        horizon=horizon,
        replicates=config["sequences"],
        seed=seed,
        progress=False,
    )
    context = learned["context"].values[0]
    disagreement = learned["disagreement"].values[0]
    start = tolerance(np.arange(1, horizon + 1), budget, worlds[0].problem.least_distance)
    ratios = np.empty((2, len(worlds)))
    for i, world in enumerate(worlds):
        gaps = world.gaps[context[i]] / world.largest_gap
        best = _gain(clairvoyant(gaps, budget), gaps)
        ratios[0, i] = _gain(auxiliary(gaps, budget), gaps) / best
        ratios[1, i] = _gain(auxiliary(gaps, budget, disagreement=disagreement[i], tolerance=start), gaps) / best
    return xr.Dataset({rule: ("world", ratio) for rule, ratio in zip(("PD1", "PD2"), ratios, strict=True)})


def _gain(o: NDArray[np.float64], gaps: NDArray[np.float64]) -> float:
    """The gain from reveals over all sequences of an instance, without the baseline v*."""
    return float((o * gaps).sum())


def findings(config: Config, parts: Mapping[str, xr.Dataset]) -> Findings:
    """The table beside the paper's, and the paper's statements about it."""
    budgets = config["budgets"]
    ratio = {rule: np.stack([parts[f"B{b}"][rule].values for b in budgets]) for rule in ("PD1", "PD2")}
    numbers = {
        rule: {
            "one_instance": plain(r[:, 0]),
            "mean": plain(r.mean(axis=1)),
            "sd": plain(r.std(axis=1, ddof=1)),
            "median": plain(np.median(r, axis=1)),
            "low": plain(np.quantile(r, 0.05, axis=1)),
            "high": plain(np.quantile(r, 0.95, axis=1)),
        }
        for rule, r in ratio.items()
    }
    return Findings(
        found=_found(budgets, ratio),
        numbers={"budgets": budgets, **numbers},
        claims=_claims(budgets, ratio),
        pictures=[_picture(budgets, ratio)],
        tables=[_table(budgets, ratio)],
    )


def _found(budgets: list[int], ratio: Mapping[str, NDArray[np.float64]]) -> str:
    """The share of the clairvoyant's gain that each rule gets."""
    medians = {rule: np.median(r, axis=1) for rule, r in ratio.items()}
    said = " and ".join(f"{rule} {100 * m.min():.0f} to {100 * m.max():.0f}%" for rule, m in medians.items())
    return (
        f"When the rewards are known and only the arrivals are not, the online rules achieve most of what a "
        f"clairvoyant gains with the same number of reveals: {said} in the median instance, for budgets from "
        f"{budgets[0]} to {budgets[-1]}. The paper guarantees {100 * FLOOR:.0f}% in the limit of large budgets."
    )


def _claims(budgets: list[int], ratio: Mapping[str, NDArray[np.float64]]) -> list[Claim]:
    """The paper's statements about Table G.1; ratio[rule] is [budget, instance]."""
    high = [measure(f"{rule}, B = {b}", r[i], above=FLOOR) for rule, r in ratio.items() for i, b in enumerate(budgets)]
    margins = [
        measure(f"B = {b}", ratio["PD1"][i] - ratio["PD2"][i], above=0.0, below=0.1) for i, b in enumerate(budgets)
    ]
    return [
        claim(
            f"Both competitive ratios exceed 1 - 1/e = {FLOOR:.3f} at every budget.",
            "Competitive ratio",
            high,
            digits=3,
        ),
        *(_growth_claim(budgets, rule, r) for rule, r in ratio.items()),
        claim(
            "PD1's ratio is slightly above PD2's (by less than 0.1) at every budget.",
            "PD1 minus PD2",
            margins,
            digits=3,
        ),
    ]


def _growth_claim(budgets: list[int], rule: str, ratio: NDArray[np.float64]) -> Claim:
    steps = [
        measure(f"from B = {a} to {b}", ratio[i + 1] - ratio[i], above=0.0)
        for i, (a, b) in enumerate(pairwise(budgets))
    ]
    return claim(f"{rule}'s competitive ratio grows with the budget.", f"Growth of {rule}'s ratio", steps, digits=3)


def _table(budgets: list[int], ratio: Mapping[str, NDArray[np.float64]]) -> Table:
    rows: list[list[Cell]] = []
    for rule, r in ratio.items():
        rows.append([f"{rule}, paper (one instance)", *(f"{PAPER[rule][b]:.3f}" for b in budgets)])
        rows.append([f"{rule}, ours, one instance", *(f"{v:.3f}" for v in r[:, 0])])
        rows.append([f"{rule}, ours, median of {r.shape[1]}", *(f"{v:.3f}" for v in np.median(r, axis=1))])
        low, high = np.quantile(r, 0.05, axis=1), np.quantile(r, 0.95, axis=1)
        rows.append([f"{rule}, ours, 5 to 95%", *(f"{a:.2f}–{b:.2f}" for a, b in zip(low, high, strict=True))])
    return Table(
        caption="Empirical competitive ratio, ours beside the paper's",
        columns=["", *(f"B = {b}" for b in budgets)],
        rows=rows,
    )


def _picture(budgets: list[int], ratio: Mapping[str, NDArray[np.float64]]) -> Picture:
    figure, (axes,) = new_figure(height=4.0)
    for rule, r in ratio.items():
        style = POLICIES[rule]
        axes.plot(budgets, np.median(r, axis=1), label=f"{rule}, median", **style._asdict())
        low, high = np.quantile(r, 0.05, axis=1), np.quantile(r, 0.95, axis=1)
        axes.fill_between(budgets, low, high, color=style.color, alpha=0.15, linewidth=0)
        axes.plot(
            budgets, [PAPER[rule][b] for b in budgets], {"PD1": "s", "PD2": "o"}[rule], color=style.color,
            markersize=6, markerfacecolor="none", label=f"{rule}, paper",
        )  # fmt: skip
    axes.axhline(FLOOR, color="0.4", linewidth=1, linestyle=":", label="1 − 1/e")
    axes.set_xscale("log", base=2)
    axes.set_xticks(budgets, [str(b) for b in budgets])
    axes.set(title="Competitive ratio", xlabel="budget B", ylabel="share of the clairvoyant's gain", ylim=(0.5, 1.0))
    legend_outside(axes)
    return Picture(
        name="table",
        figure=figure,
        caption="Competitive ratio against the budget: median over instances with a band from the 5th to the 95th "
        "percentile. Squares and circles are the paper's single instance; the dotted line is 1 − 1/e, the paper's "
        "guarantee.",
        alt="Competitive ratios of PD1 and PD2 rising with the budget, above a dotted line at 0.632.",
    )


EXPERIMENT = Experiment(
    name="table",
    title="Competitive ratio",
    about="The share of a clairvoyant's gain that the online rules achieve with the same number of reveals, if the "
    "rewards are known and only the arrivals are unknown.",
    config=config,
    tasks=tasks,
    run_task=run_task,
    findings=findings,
)
