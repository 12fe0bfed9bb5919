"""Regret when agents must learn the context distribution: Appendix F and Figures G.3 to G.5, and `optimistic`."""

from collections.abc import Mapping

import xarray as xr

from opportune.experiments import regret
from opportune.experiments.base import Claim, Config, Experiment, Findings, Table
from opportune.experiments.studies import (
    SCALES,
    compare,
    paper_policies,
    plus_minus,
    run_study,
    study_worlds,
    summary,
)

LITTLE = 0.2  # a change of mean regret up to this share counts as little


def config(quick: bool) -> Config:
    """The grid of `regret` with unknown probabilities; known ones and `optimistic` on fewer runs beside it."""
    return {
        **regret.config(quick),
        "known": False,
        "optimistic_instances": 10,
        "optimistic_replications": 2 if quick else 20,
    }


def pieces(config: Config) -> list[str]:
    """`plugin`, known probabilities on the same instances, and `optimistic`, for each budget."""
    return [f"{kind}-B{b}" for kind in ("plugin", "known", "optimistic") for b in config["budgets"]]


def run_piece(config: Config, piece: str, seed: int) -> xr.Dataset:
    """One way of knowing the distribution at one budget."""
    kind, budget = piece.split("-B")
    horizon = config["horizon"]
    if kind == "optimistic":
        worlds = study_worlds(config["optimistic_instances"], seed, known=False)
        policies = paper_policies(int(budget), ("adaptive",), unknown="optimistic")
        return run_study(worlds, policies, horizon=horizon, replicates=config["optimistic_replications"], seed=seed)
    worlds = study_worlds(config["instances"], seed, known=kind == "known")
    policies = paper_policies(int(budget))
    if kind == "known":
        policies = [p for p in policies if p.name.startswith("PD2")]
    return run_study(worlds, policies, horizon=horizon, replicates=config["replications"], seed=seed)


def findings(config: Config, parts: Mapping[str, xr.Dataset]) -> Findings:
    """The claims of `regret` again, and how much not knowing the distribution costs."""
    plugin = {f"B{b}": parts[f"plugin-B{b}"] for b in config["budgets"]}
    known = {f"B{b}": parts[f"known-B{b}"] for b in config["budgets"]}
    optimistic = {f"B{b}": parts[f"optimistic-B{b}"] for b in config["budgets"]}
    numbers = {piece: {"regret": summary(data)} for piece, data in plugin.items()}
    return Findings(
        numbers={
            "plugin": numbers,
            "known": {piece: summary(data) for piece, data in known.items()},
            "optimistic": {piece: summary(data) for piece, data in optimistic.items()},
        },
        claims=[
            *(c for scale in SCALES for c in regret.regret_claims(plugin, scale)),
            *(_little_claim(plugin, known, scale) for scale in SCALES),
            _optimistic_claim(config, plugin, optimistic),
        ],
        pictures=[p for piece, data in plugin.items() for p in regret._pictures(piece, data, "regret-unknown")],
        tables=[
            regret.regret_table(numbers, "Mean cumulative regret at the end, distribution unknown (`plugin`)"),
            _optimistic_table(config, plugin, optimistic),
        ],
    )


def _little_claim(plugin: Mapping[str, xr.Dataset], known: Mapping[str, xr.Dataset], scale: str) -> Claim:
    name = f"PD2 {scale}"
    changes = {b: summary(plugin[b])[name]["mean"] / summary(known[b])[name]["mean"] - 1 for b in plugin}
    evidence = "; ".join(
        f"{b}: {summary(known[b])[name]['mean']:.1f} known, {summary(plugin[b])[name]['mean']:.1f} unknown "
        f"({100 * change:+.0f}%)"
        for b, change in changes.items()
    )
    return Claim(
        claim=f"Not knowing the distribution changes little for PD2 (scale {scale}).",
        held=all(abs(change) <= LITTLE for change in changes.values()),
        evidence=f"{evidence} (called little up to {100 * LITTLE:.0f}%)",
    )


def _same_runs(config: Config, data: xr.Dataset) -> xr.Dataset:
    """The runs of `plugin` that `optimistic` has too: same instances, same replicates, same draws."""
    return data.isel(world=slice(config["optimistic_instances"]), replicate=slice(config["optimistic_replications"]))


def _optimistic_claim(config: Config, plugin: Mapping[str, xr.Dataset], optimistic: Mapping[str, xr.Dataset]) -> Claim:
    comparisons = {b: compare(data, "PD2", "naive") for b, data in optimistic.items()}
    evidence = "; ".join(
        f"{b}: PD2 {summary(optimistic[b])['PD2']['mean']:.1f} optimistic, "
        f"{summary(_same_runs(config, plugin[b]))['PD2 adaptive']['mean']:.1f} plugin"
        for b in optimistic
    )
    return Claim(
        claim="With optimism over the distribution as well, as Algorithm F.1 is stated, PD2 still beats naive.",
        held=all(c["difference"] > 0 for c in comparisons.values()),
        evidence=evidence,
    )


def _optimistic_table(config: Config, plugin: Mapping[str, xr.Dataset], optimistic: Mapping[str, xr.Dataset]) -> Table:
    rows = []
    for label, theirs in (("naive", "naive"), ("PD1", "PD1 adaptive"), ("PD2", "PD2 adaptive")):
        same = [plus_minus(summary(_same_runs(config, data))[theirs]) for data in plugin.values()]
        rows.append([f"{label}, plugin", *same])
        rows.append([f"{label}, optimistic", *(plus_minus(summary(data)[label]) for data in optimistic.values())])
    return Table(
        caption=f"`plugin` and `optimistic` (exact) on the same {config['optimistic_instances']} instances x "
        f"{config['optimistic_replications']} replications, scale adaptive: mean cumulative regret at the end",
        columns=["policy", *(f"B = {b[1:]}" for b in optimistic)],
        rows=rows,
    )


EXPERIMENT = Experiment(
    name="regret-unknown",
    title="Regret when the context distribution must be learned",
    about="As before, but nobody is told how probable the contexts are. `plugin` goes by observed frequencies, as the "
    "paper's experiments do; `optimistic` is the algorithm as the paper states it, which it calls too costly to run.",
    config=config,
    pieces=pieces,
    run_piece=run_piece,
    findings=findings,
)
