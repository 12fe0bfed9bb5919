"""Appendix B: a part of the context is known only from self-reports, which a reveal brings in."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr

from opportune.analysis.plots import legend_outside, new_figure
from opportune.core.rng import PARAMETER, PROBABILITY, draw
from opportune.experiments.base import Claim, Config, Experiment, Findings, Picture, Table
from opportune.experiments.studies import (
    LOOKS,
    compare,
    draw_against,
    paper_policies,
    plus_minus,
    reduce_to_totals,
    run_study,
    summary,
)
from opportune.problems.finite import Problem, Visibility
from opportune.worlds.linear import LinearWorld

NAMES = ("first", "second", "third")
LEVELS = (0.0, 1.5, 3.0)  # s = 1 + sum of the three variables runs from 1 to 10, as in the paper's study


def config(quick: bool) -> Config:
    """Three variables of three levels; none, one, two or all of them reported."""
    return {
        "instances": 30, "replications": 2 if quick else 15, "horizon": 300, "budget": 20, "actions": 5,
        "reported": [0, 1, 2, 3],
    }  # fmt: skip


def pieces(config: Config) -> list[str]:
    """One piece for each number of reported variables."""
    return [f"reported-{m}" for m in config["reported"]]


def worlds(config: Config, reported: int, seed: int) -> list[LinearWorld]:
    """The synthetic study with the context made of three variables, the last `reported` of them self-reported."""
    levels = np.array(np.meshgrid(LEVELS, LEVELS, LEVELS, indexing="ij")).reshape(3, -1)
    s = 1.0 + levels.sum(axis=0)
    actions = config["actions"]
    one_hot = np.eye(actions)[:, 1:]
    shape = (s.size, actions, actions - 1)
    features = np.concatenate(
        [np.broadcast_to(one_hot, shape), np.broadcast_to(s[:, None, None], (s.size, actions, 1)),
         s[:, None, None] * one_hot],
        axis=2,
    )  # fmt: skip
    seen: dict[str, Visibility] = dict.fromkeys(NAMES[: 3 - reported], "sensed")
    seen |= dict.fromkeys(NAMES[3 - reported :], "reported")
    made = []
    for i in range(config["instances"]):
        theta = np.array([draw(seed, i, j, PARAMETER) for j in range(features.shape[2])])
        weight = np.array([draw(seed, i, k, PROBABILITY) for k in range(s.size)])
        best = (features @ theta).max(axis=1)
        problem = Problem(
            features, weight / weight.sum(), noise_sd=0.1, theta_bound=float(np.sqrt(features.shape[2])),
            value_range=(float(best.min()), float(best.max())),
            variables=dict.fromkeys(NAMES, LEVELS), visibility=seen,
        )  # fmt: skip
        made.append(LinearWorld(problem, theta=theta, name=f"instance {i}"))
    return made


def run_piece(config: Config, piece: str, seed: int) -> xr.Dataset:
    """The three policies with so many variables reported."""
    return run_study(
        worlds(config, int(piece.split("-")[1]), seed), paper_policies(config["budget"], ("adaptive",)),
        horizon=config["horizon"], replicates=config["replications"], seed=seed,
        reduce=reduce_to_totals,
    )  # fmt: skip


def findings(config: Config, parts: Mapping[str, xr.Dataset]) -> Findings:
    """Regret against the share of the context that must be reported."""
    numbers = {
        piece: {
            "regret": summary(d), "realised_regret": summary(d, "final_realised"), "spent": summary(d, "spent"),
            "pd2_below_naive": compare(d, "PD2", "naive"), "pd2_below_pd1": compare(d, "PD2", "PD1"),
        }
        for piece, d in parts.items()
    }  # fmt: skip
    claims = [_claim(config, other, numbers, sensed=True) for other in ("naive", "pd1")]
    claims.append(_claim(config, "naive", numbers, sensed=False))
    return Findings(
        numbers=numbers, claims=claims, pictures=[_picture(config, numbers)], tables=[_table(config, numbers)]
    )


def _claim(config: Config, other: str, numbers: Mapping[str, dict[str, Any]], *, sensed: bool) -> Claim:
    total = len(NAMES)
    chosen = [m for m in config["reported"] if (m < total) == sensed]
    comparisons = {m: numbers[f"reported-{m}"][f"pd2_below_{other}"] for m in chosen}
    name = "naive" if other == "naive" else "PD1"
    when = "while something is sensed" if sensed else "even when everything must be reported"
    return Claim(
        claim=f"With reported variables PD2 keeps lower mean regret than {name}, {when} (Appendix B).",
        held=all(c["difference"] > 0 for c in comparisons.values()),
        evidence="; ".join(
            f"{m} of {total} reported: lower by {c['difference']:.1f} ± {c['half_width']:.1f}"
            for m, c in comparisons.items()
        )
        + (
            ""
            if sensed
            else "; with nothing sensed every gap is zero, and a rule that goes by gaps has nothing to go by"
        ),
    )


def _table(config: Config, numbers: Mapping[str, dict[str, Any]]) -> Table:
    rows = []
    for kind in ("regret", "realised_regret", "spent"):
        for policy in LOOKS:
            cells = [plus_minus(numbers[f"reported-{m}"][kind][policy]) for m in config["reported"]]
            rows.append([f"{policy}: {kind.replace('_', ' ')}", *cells])
    return Table(
        caption=f"Means at the end, ± 95% interval over instances (B = {config['budget']}, scale adaptive)",
        columns=["policy", *(f"{m} of {len(NAMES)} reported" for m in config["reported"])],
        rows=rows,
    )


def _picture(config: Config, numbers: Mapping[str, dict[str, Any]]) -> Picture:
    figure, panels = new_figure(1, 2, width=9.6, height=3.8)
    share = [m / len(NAMES) for m in config["reported"]]
    for axes, kind in zip(panels, ("regret", "realised_regret"), strict=True):
        found = {p: [numbers[f"reported-{m}"][kind][p] for m in config["reported"]] for p in LOOKS}
        draw_against(axes, share, found)
        axes.set(xlabel="share of the context that must be reported", ylabel=kind.replace("_", " "))
        axes.set_xticks(share, [f"{m}/{len(NAMES)}" for m in config["reported"]])
    legend_outside(panels[0])
    return Picture(
        name="partial",
        figure=figure,
        caption="Regret at the end as more of the context must be reported (left: the paper's regret, whose "
        "clairvoyant knows only what is sensed; right: realised regret, which patients feel; bands: 95%).",
        alt="Regret of naive, PD1 and PD2 against the share of reported variables.",
    )


EXPERIMENT = Experiment(
    name="partial",
    title="When part of the context must be reported",
    about="Appendix B: sensors show the revealer a part of the context, the rest comes from self-reports that arrive "
    "only with a reveal, together with those of the steps before. Steps whose context nobody has seen wait until then.",
    config=config,
    pieces=pieces,
    run_piece=run_piece,
    findings=findings,
)
