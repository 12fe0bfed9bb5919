"""The timing of reveals: probability and price over time, spending against the budget."""

from collections.abc import Mapping

import numpy as np
import xarray as xr

from opportune.analysis.plots import WIDE, block_means, draw_curves, legend_outside, new_figure
from opportune.experiments import regret
from opportune.experiments.base import Config, Experiment, Findings, Picture
from opportune.experiments.claims import ROUNDING, Claim, claim, measure, without_exception
from opportune.experiments.record import Table
from opportune.experiments.studies import REVEALS, SCALES, by_budget, plain

CURVES = ("probability", "price", "spend")


def config(quick: bool) -> Config:
    """The grid of `regret`."""
    return regret.config(quick)


def tasks(config: Config) -> list[str]:
    """One task per budget."""
    return [f"B{b}" for b in config["budgets"]]


def run_task(config: Config, task: str, seed: int) -> xr.Dataset:
    """Curves of every policy at one budget, and the step data that claims need."""
    return regret.run_policies(config, task, seed)[[*CURVES, "spent", "nudges", *REVEALS]]


def findings(config: Config, parts: Mapping[str, xr.Dataset]) -> Findings:
    """Curves, spending, and the paper's statements about when reveals happen."""
    budgets = {task: float(task[1:]) for task in parts}
    numbers = {
        task: {
            str(p): {
                "spent": float(d["spent"].sel(policy=p).mean()),
                "most_spent": float(d["spent"].sel(policy=p).max()),
                "nudges": float(d["nudges"].sel(policy=p).mean()),
                "gap_of_reveals_early_late": [
                    None if np.isnan(v) else v
                    for v in plain([d["early_gap"].sel(policy=p), d["late_gap"].sel(policy=p)])
                ],
            }
            for p in d["policy"].values
        }
        for task, d in parts.items()
    }
    return Findings(
        found=_found(parts),
        numbers=numbers,
        claims=_claims(parts, budgets),
        pictures=[_picture(task, data) for task, data in parts.items()],
        tables=[_table(parts)],
    )


def _found(parts: Mapping[str, xr.Dataset]) -> str:
    """How early the primal-dual rules spend, and how much they leave unspent."""
    task, data = next(iter(parts.items()))
    spent = {p: float(data["spent"].sel(policy=p).mean()) for p in ("PD2 range", "PD2 adaptive")}
    early = {p: float(data["early_spend"].sel(policy=p)) / spent[p] for p in spent}
    return (
        f"The primal-dual rules spend early, while little is known and the price is low: at B = {task[1:]} PD2 makes "
        f"{100 * early['PD2 adaptive']:.0f}% of its reveals in the first third of the steps (scale adaptive), and "
        f"with the paper's scale it leaves {float(task[1:]) - spent['PD2 range']:.1f} of its {task[1:]} unspent."
    )


def _claims(parts: Mapping[str, xr.Dataset], budgets: Mapping[str, float]) -> list[Claim]:
    over = {task: data["spent"] - budgets[task] for task, data in parts.items()}
    most = max(float(excess.max()) for excess in over.values())
    falls = sum(int(data["price_falls"].sum()) for data in parts.values())
    return [
        without_exception(
            "No run spends more than its budget.",
            sum(int((excess > ROUNDING).sum()) for excess in over.values()),
            f"Largest excess over the budget in any run: {max(most, 0.0):.1e}.",
        ),
        without_exception("The price never falls.", falls, f"Steps at which it fell: {falls}."),
        *(_saving_claim(parts, f"PD1 {scale}") for scale in SCALES),
    ]


def _saving_claim(parts: Mapping[str, xr.Dataset], policy: str) -> Claim:
    """Instances on which the policy reveals nothing in the first or in the last third are left out."""
    grown = []
    for label, data in by_budget(parts).items():
        late, early = (data[f"{when}_gap_of_instance"].sel(policy=policy) for when in ("late", "early"))
        grown.append(measure(label, (late - early).values, above=0.0))
    return claim(
        f"As time goes on, the primal-dual rule saves reveals for larger gaps ({policy.replace(' ', ', scale ')}).",
        "Mean gap of reveals in the last third of the steps less that in the first",
        grown,
        digits=2,
    )


def _table(parts: Mapping[str, xr.Dataset]) -> Table:
    policies = [str(p) for p in next(iter(parts.values()))["policy"].values]
    return Table(
        caption="Reveals spent (expected), mean over runs",
        columns=["policy", *(f"of B = {task[1:]}" for task in parts)],
        rows=[[p, *(f"{float(d['spent'].sel(policy=p).mean()):.2f}" for d in parts.values())] for p in policies],
    )


def _picture(task: str, data: xr.Dataset) -> Picture:
    figure, panels = new_figure(1, 3, width=WIDE, height=3.9)
    means, size = block_means(data["probability"])
    series = {
        "Probability of a reveal": means,
        "Price": data["price"],
        "Reveals spent": data["spend"],
    }
    labels = (f"probability, means of {size} steps", "price of a reveal", "expected reveals so far")
    for axes, (title, values), label in zip(panels, series.items(), labels, strict=True):
        draw_curves(axes, values)
        axes.set(title=title, ylabel=label, ylim=(0, None))
    panels[2].axhline(float(task[1:]), color="0.4", linewidth=1, linestyle=":")
    legend_outside(panels[0])
    return Picture(
        name=f"reveal-b{task[1:]}",
        figure=figure,
        caption=f"When reveals happen at B = {task[1:]}: probability of a reveal, price, and expected reveals spent "
        "(dotted: the budget). The primal-dual rules spend most while little is known and the price is low; with scale "
        "range a part of the budget stays unspent.",
        alt=f"Three line charts over time at budget {task[1:]}: reveal probability, price, and spending.",
    )


EXPERIMENT = Experiment(
    name="reveal",
    title="When reveals happen",
    about="When each policy spends its reveals, how the price moves meanwhile, and how much of the budget is "
    "used at the end.",
    config=config,
    tasks=tasks,
    run_task=run_task,
    findings=findings,
)
