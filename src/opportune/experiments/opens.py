"""Patients who open the app on their own: does the ranking of the policies stay the same (Section 2)?"""

from collections.abc import Mapping
from typing import Any

import xarray as xr

from opportune.experiments.base import Config, Experiment, Findings, Picture
from opportune.experiments.record import Table
from opportune.experiments.studies import (
    PAPER,
    SCALES,
    compare,
    draw_against,
    lower_claim,
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


def tasks(config: Config) -> list[str]:
    """One task for each scale and open rate."""
    return [f"{scale}-{rate}" for scale in SCALES for rate in config["open_rates"]]


def run_task(config: Config, task: str, seed: int) -> xr.Dataset:
    """The three policies at one open rate."""
    scale, rate = task.split("-")
    worlds = [world.replace(open_rate=float(rate)) for world in study_worlds(config["instances"], seed)]
    return run_study(
        worlds, paper_policies(config["budget"], (scale,)), horizon=config["horizon"],
        replicates=config["replications"], seed=seed, reduce=reduce_to_totals, trace=False,
    )  # fmt: skip


def findings(config: Config, parts: Mapping[str, xr.Dataset]) -> Findings:
    """Realised regret by open rate, and whether the ranking stays."""
    numbers = {
        task: {
            "regret": summary(d), "realised_regret": summary(d, "final_realised"),
            "pd2_below_pd1": compare(d, "PD2", "PD1", "final_realised"),
            "pd2_below_naive": compare(d, "PD2", "naive", "final_realised"),
        }
        for task, d in parts.items()
    }  # fmt: skip
    claims = [
        lower_claim(
            f"PD2 stays ahead of {other} when patients open the app on their own (scale {scale}, realised regret).",
            {f"open rate {rate:g}": parts[f"{scale}-{rate}"] for rate in config["open_rates"]},
            "PD2", other, name="final_realised",
        )
        for scale in SCALES
        for other in ("naive", "PD1")
    ]  # fmt: skip
    return Findings(
        found=_found(config, numbers),
        numbers=numbers,
        claims=claims,
        pictures=[_picture(config, numbers)],
        tables=[_table(config, numbers)],
    )


def _found(config: Config, numbers: Mapping[str, dict[str, Any]]) -> str:
    """How openings reduce the differences between policies."""
    least, most = config["open_rates"][0], config["open_rates"][-1]
    lost = {policy: [_realised(config, numbers, "adaptive", policy)[i]["mean"] for i in (0, -1)] for policy in PAPER}
    said = ", ".join(f"{policy} {first:.0f} and {last:.0f}" for policy, (first, last) in lost.items())
    return (
        "The more often patients open the app on their own, the less the choice of policy matters. Realised regret "
        f"when they never do, and when they do at {100 * most:.0f}% of the steps (B = {config['budget']}, scale "
        f"adaptive): {said}."
        if least == 0.0
        else f"Realised regret at the lowest and the highest open rate: {said}."
    )


def _realised(config: Config, numbers: Mapping[str, dict[str, Any]], scale: str, policy: str) -> list[Any]:
    """A policy's realised regret at each open rate."""
    return [numbers[f"{scale}-{rate}"]["realised_regret"][policy] for rate in config["open_rates"]]


def _table(config: Config, numbers: Mapping[str, dict[str, Any]]) -> Table:
    return Table(
        caption=f"Mean realised regret at the end, ± 95% interval over instances (B = {config['budget']})",
        columns=["policy", *(f"open rate {r:g}" for r in config["open_rates"])],
        rows=[
            [f"{policy}, {scale}", *map(plus_minus, _realised(config, numbers, scale, policy))]
            for scale in SCALES
            for policy in PAPER
        ],
    )


def _picture(config: Config, numbers: Mapping[str, dict[str, Any]]) -> Picture:
    panels = {
        f"Scale {scale}": {
            policy if policy == "naive" else f"{policy} {scale}": _realised(config, numbers, scale, policy)
            for policy in PAPER
        }
        for scale in SCALES
    }
    figure, drawn = draw_against(config["open_rates"], panels)
    for axes in drawn:
        axes.set(xlabel="share of steps at which the patient opens the app", ylabel="realised regret", ylim=(0, None))
    return Picture(
        name="opens",
        figure=figure,
        caption="Realised regret at the end against how often patients open the app unasked, for each scale (bands: "
        "95%). The more often they do, the closer the policies come to each other.",
        alt="Realised regret of naive, PD1 and PD2 falling as the open rate rises.",
    )


EXPERIMENT = Experiment(
    name="opens",
    title="When patients open the app on their own",
    about="The paper studies the worst case, in which nobody opens the app unasked, and expects the ordering of the "
    "policies to stay the same otherwise. This experiment tests that; an unasked opening is a free reveal.",
    config=config,
    tasks=tasks,
    run_task=run_task,
    findings=findings,
)
