"""Appendix B: part of the context is known only from self-reports, which arrive with a reveal."""

from collections.abc import Mapping
from typing import Any

import numpy as np
import xarray as xr

from opportune.algorithm.rng import PARAMETER, PROBABILITY, draw
from opportune.experiments.base import Config, Experiment, Findings, Picture
from opportune.experiments.record import Table
from opportune.experiments.studies import (
    PAPER,
    compare,
    draw_against,
    lower_claim,
    paper_policies,
    plus_minus,
    reduce_to_totals,
    run_study,
    summary,
)
from opportune.problems.finite import Problem
from opportune.problems.settings import Visibility
from opportune.worlds.linear import LinearWorld

NAMES = ("first", "second", "third")
LEVELS = (0.0, 1.5, 3.0)  # s = 1 + sum of the three variables runs from 1 to 10, as in the paper's study


def config(quick: bool) -> Config:
    """Three variables of three levels; none, one, two or all of them reported."""
    return {
        "instances": 30, "replications": 2 if quick else 15, "horizon": 300, "budget": 20, "actions": 5,
        "reported": [0, 1, 2, 3],
    }  # fmt: skip


def tasks(config: Config) -> list[str]:
    """One task for each number of reported variables."""
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


def run_task(config: Config, task: str, seed: int) -> xr.Dataset:
    """The three policies with some of the variables reported."""
    return run_study(
        worlds(config, int(task.split("-")[1]), seed), paper_policies(config["budget"], ("adaptive",)),
        horizon=config["horizon"], replicates=config["replications"], seed=seed,
        reduce=reduce_to_totals, trace=False,
    )  # fmt: skip


def findings(config: Config, parts: Mapping[str, xr.Dataset]) -> Findings:
    """Regret against the share of the context that must be reported."""
    numbers = {
        task: {
            "regret": summary(d), "realised_regret": summary(d, "final_realised"), "spent": summary(d, "spent"),
            "pd2_below_naive": compare(d, "PD2", "naive"), "pd2_below_pd1": compare(d, "PD2", "PD1"),
        }
        for task, d in parts.items()
    }  # fmt: skip
    kept = "With reported variables PD2 keeps lower mean regret than"
    total = len(NAMES)
    labelled = {m: {f"{m} of {total} reported": parts[f"reported-{m}"]} for m in config["reported"]}
    some_sensed = {label: data for m in config["reported"] if m < total for label, data in labelled[m].items()}
    none_sensed = {label: data for m in config["reported"] if m == total for label, data in labelled[m].items()}
    claims = [
        *(
            lower_claim(f"{kept} {other}, as long as something is sensed (Appendix B).", some_sensed, "PD2", other)
            for other in ("naive", "PD1")
        ),
        lower_claim(
            f"{kept} naive, even when everything must be reported (Appendix B).", none_sensed, "PD2", "naive",
            note="When nothing is sensed, every gap is zero, and a rule based on gaps never reveals.",
        ),
    ]  # fmt: skip
    return Findings(
        found=_found(config, numbers),
        numbers=numbers,
        claims=claims,
        pictures=[_picture(config, numbers)],
        tables=[_table(config, numbers)],
    )


def _found(config: Config, numbers: Mapping[str, dict[str, Any]]) -> str:
    """How PD2 fares as less is sensed."""
    lost = {p: [e["mean"] for e in _by_reported(config, numbers, "realised_regret", p)] for p in PAPER}
    first, before, last = (f"{config['reported'][i]} of {len(NAMES)}" for i in (0, -2, -1))
    return (
        f"PD2 works as long as something is sensed. Its realised regret is {lost['PD2'][0]:.0f} when {first} variables "
        f"are self-reported and {lost['PD2'][-2]:.0f} when {before} are (naive: {lost['naive'][0]:.0f} and "
        f"{lost['naive'][-2]:.0f}). When {last} are, every gap is zero: PD2 has no basis for a decision and loses "
        f"{lost['PD2'][-1]:.0f}, while naive, which ignores gaps, loses {lost['naive'][-1]:.0f}."
    )


def _by_reported(config: Config, numbers: Mapping[str, dict[str, Any]], kind: str, policy: str) -> list[Any]:
    """A policy's totals of one kind for each number of reported variables."""
    return [numbers[f"reported-{m}"][kind][policy] for m in config["reported"]]


def _table(config: Config, numbers: Mapping[str, dict[str, Any]]) -> Table:
    kinds = {"regret": "regret", "realised_regret": "realised regret", "spent": "spent"}
    return Table(
        caption=f"Means at the end, ± 95% interval over instances (B = {config['budget']}, scale adaptive)",
        columns=["policy", *(f"{m} of {len(NAMES)} reported" for m in config["reported"])],
        rows=[
            [f"{policy}: {words}", *map(plus_minus, _by_reported(config, numbers, kind, policy))]
            for kind, words in kinds.items()
            for policy in PAPER
        ],
    )


def _picture(config: Config, numbers: Mapping[str, dict[str, Any]]) -> Picture:
    kinds = {"The paper's regret": "regret", "Realised regret": "realised_regret"}
    share = [m / len(NAMES) for m in config["reported"]]
    panels = {
        title: {policy: _by_reported(config, numbers, kind, policy) for policy in PAPER}
        for title, kind in kinds.items()
    }
    figure, drawn = draw_against(share, panels)
    for axes in drawn:
        axes.set(xlabel="share of the context that must be reported", ylabel="regret at the end", ylim=(0, None))
        axes.set_xticks(share, [f"{m}/{len(NAMES)}" for m in config["reported"]])
    return Picture(
        name="partial",
        figure=figure,
        caption="Regret at the end as more of the context must be reported (left: the paper's regret, whose "
        "clairvoyant knows only what is sensed; right: realised regret, the actual loss of patients; bands: 95%).",
        alt="Regret of naive, PD1 and PD2 against the share of reported variables.",
    )


EXPERIMENT = Experiment(
    name="partial",
    title="When part of the context must be reported",
    about="Appendix B: sensors show the revealer part of the context; the rest comes from self-reports that arrive "
    "only with a reveal, together with those of the steps before. Steps with unseen contexts wait until then.",
    config=config,
    tasks=tasks,
    run_task=run_task,
    findings=findings,
)
