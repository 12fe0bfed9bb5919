"""When reveals happen: probability and price over time, spending against the budget."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr

from opportune.analysis.metrics import mean_interval
from opportune.analysis.plots import COLOURS, STYLES, legend_outside, new_figure
from opportune.experiments.base import Claim, Config, Experiment, Findings, Picture, Table
from opportune.experiments.regret import LOOKS
from opportune.experiments.studies import paper_policies, plain, reduce_trace, run_study, study_worlds

LATE = 1 / 3  # the last and the first third of the steps are compared


def config(quick: bool) -> Config:
    """The synthetic study at the paper's three budgets."""
    return {"instances": 50, "replications": 2 if quick else 20, "horizon": 300,
            "budgets": [10, 30] if quick else [10, 20, 30]}  # fmt: skip


def pieces(config: Config) -> list[str]:
    """One piece a budget."""
    return [f"B{b}" for b in config["budgets"]]


def run_piece(config: Config, piece: str, seed: int) -> xr.Dataset:
    """Curves of every policy at one budget, and what the claims need of the single steps."""
    return run_study(
        study_worlds(config["instances"], seed), paper_policies(int(piece[1:])), horizon=config["horizon"],
        replicates=config["replications"], seed=seed, reduce=_reduce,
    )  # fmt: skip


def _reduce(data: xr.Dataset) -> xr.Dataset:
    """Curves and totals, how often the price fell, and the mean gap of reveals early and late."""
    short = reduce_trace(data)[["probability", "price", "spend", "spent", "nudges"]]
    short["price_falls"] = (data["price"].diff("step") < 0).sum(("world", "replicate", "step"))
    third = round(data.sizes["step"] * LATE)
    for name, part in (("early", slice(None, third)), ("late", slice(-third, None))):
        weight, gap = data["probability"].isel(step=part), data["gap"].isel(step=part)
        total = _total(weight)
        short[f"{name}_gap"] = _total(weight * gap) / total.where(total > 0)
        short[f"{name}_spend"] = total / (data.sizes["world"] * data.sizes["replicate"])
    return short


def _total(values: xr.DataArray) -> xr.DataArray:
    """The sum over all runs and steps, policy by policy: its rounding must not depend on which ones run together."""
    return xr.DataArray([values.isel(policy=i).sum().item() for i in range(values.sizes["policy"])], dims="policy")


def findings(config: Config, parts: Mapping[str, xr.Dataset]) -> Findings:
    """Curves, spending, and what the paper says about when reveals happen."""
    budgets = {piece: float(piece[1:]) for piece in parts}
    numbers = {
        piece: {
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
        for piece, d in parts.items()
    }
    return Findings(
        numbers=numbers,
        claims=_claims(parts, budgets, numbers),
        pictures=[_picture(piece, data) for piece, data in parts.items()],
        tables=[_table(parts)],
    )


def _claims(
    parts: Mapping[str, xr.Dataset], budgets: Mapping[str, float], numbers: Mapping[str, dict[str, Any]]
) -> list[Claim]:
    over = max(float(d["spent"].max()) - budgets[piece] for piece, d in parts.items())
    falls = sum(int(d["price_falls"].sum()) for d in parts.values())
    claims = [
        Claim(
            claim="No run spends more than its budget.",
            held=over <= 1e-9,
            evidence=f"largest excess over the budget in any run: {max(over, 0.0):.1e}",
        ),
        Claim(claim="The price never falls.", held=falls == 0, evidence=f"{falls} steps at which it fell"),
    ]
    for scale in ("range", "adaptive"):
        pairs = {piece: numbers[piece][f"PD1 {scale}"]["gap_of_reveals_early_late"] for piece in parts}
        shown = "; ".join(
            f"{piece}: {a:.2f} early, {'none' if b is None else f'{b:.2f}'} late" for piece, (a, b) in pairs.items()
        )
        claims.append(
            Claim(
                claim="As time goes on, the primal-dual rule saves reveals for larger gaps "
                f"(PD1, scale {scale}: mean gap of reveals, first against last third).",
                held=all(b is not None and b > a for a, b in pairs.values()),
                evidence=shown,
            )
        )
    return claims


def _table(parts: Mapping[str, xr.Dataset]) -> Table:
    policies = [str(p) for p in next(iter(parts.values()))["policy"].values]
    rows = [[p, *(f"{float(d['spent'].sel(policy=p).mean()):.2f}" for d in parts.values())] for p in policies]
    return Table(
        caption="Reveals spent (expected), mean over runs",
        columns=["policy", *(f"of B = {piece[1:]}" for piece in parts)],
        rows=rows,
    )


def _picture(piece: str, data: xr.Dataset) -> Picture:
    figure, panels = new_figure(1, 3, width=12.0, height=3.9)
    window = max(1, data.sizes["step"] // 30)
    series = (
        (
            data["probability"].rolling(step=window, center=True, min_periods=1).mean(),
            f"probability (mean of {window} steps)",
        ),
        (data["price"], "price"),
        (data["spend"], "reveals spent (expected)"),
    )
    for axes, (values, label) in zip(panels, series, strict=True):
        curves = mean_interval(values, ("world",))
        for policy, look in LOOKS.items():
            one = curves.sel(policy=policy)
            axes.plot(
                one["step"],
                one["mean"],
                color=COLOURS[look],
                linestyle=STYLES[look],
                label=policy,
                linewidth=1.6,
            )
            axes.fill_between(one["step"], one["low"], one["high"], color=COLOURS[look], alpha=0.15, linewidth=0)
        axes.set(xlabel="step", ylabel=label, ylim=(0, None))
    panels[2].axhline(float(piece[1:]), color="0.4", linewidth=1, linestyle=":")
    legend_outside(panels[0])
    return Picture(
        name=f"reveal-b{piece[1:]}",
        figure=figure,
        caption=f"When reveals happen at B = {piece[1:]}: probability of a reveal, price, and expected reveals spent "
        "(dotted: the budget). The primal-dual rules spend most while little is known and the price is low; with scale "
        "range a part of the budget stays unspent.",
        alt=f"Three line charts over time at budget {piece[1:]}: reveal probability, price, and spending.",
    )


EXPERIMENT = Experiment(
    name="reveal",
    title="When reveals happen",
    about="Where in time each policy spends its reveals, what the price does meanwhile, and how much of the budget is "
    "used at the end.",
    config=config,
    pieces=pieces,
    run_piece=run_piece,
    findings=findings,
)
