"""Patients who open the app on their own: does the ordering of the policies stay (Section 2)?"""

from collections.abc import Mapping
from typing import Any

import xarray as xr

from opportune.analysis.plots import legend_outside, new_figure
from opportune.experiments.base import Claim, Config, Experiment, Findings, Picture, Table
from opportune.experiments.studies import (
    LOOKS,
    compare,
    draw_against,
    paper_policies,
    plus_minus,
    reduce_to_totals,
    run_study,
    study_worlds,
    summary,
)


def config(quick: bool) -> Config:
    """Open rates from never to every other step, budget 10, both scales."""
    return {
        "instances": 50, "replications": 2 if quick else 20, "horizon": 300, "budget": 10,
        "open_rates": [0.0, 0.1, 0.5] if quick else [0.0, 0.05, 0.1, 0.2, 0.5],
    }  # fmt: skip


def pieces(config: Config) -> list[str]:
    """One piece for each scale and open rate."""
    return [f"{scale}-{rate}" for scale in ("range", "adaptive") for rate in config["open_rates"]]


def run_piece(config: Config, piece: str, seed: int) -> xr.Dataset:
    """The three policies at one open rate."""
    scale, rate = piece.split("-")
    worlds = [w.replace(open_rate=float(rate)) for w in study_worlds(config["instances"], seed)]
    policies = paper_policies(config["budget"], (scale,))
    return run_study(
        worlds, policies, horizon=config["horizon"], replicates=config["replications"], seed=seed,
        reduce=reduce_to_totals,
    )  # fmt: skip


def findings(config: Config, parts: Mapping[str, xr.Dataset]) -> Findings:
    """Realised regret against the open rate, and whether the ordering stays."""
    numbers = {
        piece: {
            "regret": summary(d), "realised_regret": summary(d, "final_realised"),
            "pd2_below_pd1": compare(d, "PD2", "PD1", "final_realised"),
            "pd2_below_naive": compare(d, "PD2", "naive", "final_realised"),
        }
        for piece, d in parts.items()
    }  # fmt: skip
    claims = []
    for scale in ("range", "adaptive"):
        mine = {piece: n for piece, n in numbers.items() if piece.startswith(scale)}
        claims += [_claim(scale, other, mine) for other in ("naive", "pd1")]
    return Findings(
        numbers=numbers, claims=claims, pictures=[_picture(config, numbers)], tables=[_table(config, numbers)]
    )


def _claim(scale: str, other: str, numbers: Mapping[str, dict[str, Any]]) -> Claim:
    comparisons = {piece.split("-")[1]: n[f"pd2_below_{other}"] for piece, n in numbers.items()}
    name = "naive" if other == "naive" else "PD1"
    return Claim(
        claim=f"Patients opening the app on their own leaves PD2 ahead of {name} (scale {scale}, realised regret).",
        held=all(c["difference"] > 0 for c in comparisons.values()),
        evidence="; ".join(
            f"open rate {rate}: lower by {c['difference']:.1f} ± {c['half_width']:.1f}"
            for rate, c in comparisons.items()
        ),
    )


def _table(config: Config, numbers: Mapping[str, dict[str, Any]]) -> Table:
    rows = []
    for scale in ("range", "adaptive"):
        for policy in LOOKS:
            cells = [plus_minus(numbers[f"{scale}-{r}"]["realised_regret"][policy]) for r in config["open_rates"]]
            rows.append([f"{policy}, {scale}", *cells])
    return Table(
        caption=f"Mean realised regret at the end (B = {config['budget']})",
        columns=["policy", *(f"open rate {r:g}" for r in config["open_rates"])],
        rows=rows,
    )


def _picture(config: Config, numbers: Mapping[str, dict[str, Any]]) -> Picture:
    figure, panels = new_figure(1, 2, width=9.6, height=3.8)
    rates = config["open_rates"]
    for axes, scale in zip(panels, ("range", "adaptive"), strict=True):
        found = {p: [numbers[f"{scale}-{r}"]["realised_regret"][p] for r in rates] for p in LOOKS}
        draw_against(axes, rates, found)
        axes.set(
            xlabel="share of steps at which the patient opens the app",
            ylabel=f"realised regret ({scale})",
            ylim=(0, None),
        )
    legend_outside(panels[0])
    return Picture(
        name="opens",
        figure=figure,
        caption="Realised regret at the end against how often patients open the app unasked (left: scale range, right: "
        "adaptive; bands: 95%). The more they open, the closer the policies come to each other.",
        alt="Realised regret of naive, PD1 and PD2 falling as the open rate rises.",
    )


EXPERIMENT = Experiment(
    name="opens",
    title="When patients open the app on their own",
    about="The paper studies the worst case, in which nobody opens the app unasked, and expects the ordering of the "
    "policies to stay the same otherwise. Here it is put to the test; an unasked opening is a reveal free of charge.",
    config=config,
    pieces=pieces,
    run_piece=run_piece,
    findings=findings,
)
