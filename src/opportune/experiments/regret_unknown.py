"""Regret if agents must learn the context distribution: Appendix F and Figures G.3 to G.5, and optimism."""

from collections.abc import Mapping

import xarray as xr

from opportune.experiments import regret
from opportune.experiments.base import Config, Experiment, Findings
from opportune.experiments.claims import Claim, claim, measure
from opportune.experiments.record import Cell, Table
from opportune.experiments.studies import (
    REVEALS,
    SCALES,
    by_budget,
    instance_means,
    lower_claim,
    paper_policies,
    plus_minus,
    run_study,
    study_worlds,
    summary,
)

LITTLE = 20.0  # percent; smaller changes of mean regret count as little


def config(quick: bool) -> Config:
    """The grid of `regret` with unknown probabilities; for comparison known ones, and `optimistic` on fewer runs."""
    return {
        **regret.config(quick),
        "known": False,
        "optimistic_instances": 10,
        "optimistic_replications": 2 if quick else 20,
    }


def tasks(config: Config) -> list[str]:
    """`plugin`, known probabilities on the same instances, and `optimistic`, for each budget."""
    return [f"{kind}-B{b}" for kind in ("plugin", "known", "optimistic") for b in config["budgets"]]


def run_task(config: Config, task: str, seed: int) -> xr.Dataset:
    """One treatment of the distribution at one budget."""
    return _run_policies(config, task, seed).drop_vars(REVEALS)


def _run_policies(config: Config, task: str, seed: int) -> xr.Dataset:
    kind, budget = task.split("-B")
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
    """The claims of `regret` again, and the cost of not knowing the distribution."""
    plugin = {f"B{b}": parts[f"plugin-B{b}"] for b in config["budgets"]}
    known = {f"B{b}": parts[f"known-B{b}"] for b in config["budgets"]}
    optimistic = {f"B{b}": parts[f"optimistic-B{b}"] for b in config["budgets"]}
    numbers = {task: {"regret": summary(data)} for task, data in plugin.items()}
    return Findings(
        found=_found(plugin, known, optimistic),
        numbers={
            "plugin": numbers,
            "known": {task: summary(data) for task, data in known.items()},
            "optimistic": {task: summary(data) for task, data in optimistic.items()},
        },
        claims=[
            *(c for scale in SCALES for c in regret.regret_claims(plugin, scale)),
            *(_little_claim(plugin, known, scale) for scale in SCALES),
            _optimistic_claim(config, plugin, optimistic),
        ],
        pictures=[p for task, data in plugin.items() for p in regret.regret_pictures(task, data, "regret-unknown")],
        tables=[
            regret.regret_table(numbers, "Mean cumulative regret at the end, distribution unknown (plugin)"),
            _optimistic_table(config, plugin, optimistic),
        ],
    )


def _found(
    plugin: Mapping[str, xr.Dataset], known: Mapping[str, xr.Dataset], optimistic: Mapping[str, xr.Dataset]
) -> str:
    """The cost for PD2 of not knowing the distribution, and of optimism about it."""
    first = next(iter(plugin))
    learned, given = (summary(parts[first])["PD2 adaptive"]["mean"] for parts in (plugin, known))
    hopeful, even = (summary(optimistic[first])[policy]["mean"] for policy in ("PD2", "naive"))
    return (
        f"The context probabilities need not be known: at B = {first[1:]} PD2 (scale adaptive) loses {learned:.0f} "
        f"when it estimates them by observed frequencies and {given:.0f} when it knows them. With optimism about them "
        f"as well, as the paper states its algorithm, PD2 loses {hopeful:.0f} and naive {even:.0f} on fewer instances."
    )


def _little_claim(plugin: Mapping[str, xr.Dataset], known: Mapping[str, xr.Dataset], scale: str) -> Claim:
    changes = []
    for label, data in by_budget(plugin).items():
        given = instance_means(by_budget(known)[label]).sel(policy=f"PD2 {scale}")
        learned = instance_means(data).sel(policy=f"PD2 {scale}")
        change = 100.0 * (learned - given).values / float(given.mean())
        changes.append(measure(label, change, above=-LITTLE, below=LITTLE))
    return claim(
        f"Not knowing the distribution changes little for PD2 (scale {scale}).",
        "Change of the regret in percent of its mean where the distribution is known",
        changes,
        unit="%",
    )


def _same_runs(config: Config, data: xr.Dataset) -> xr.Dataset:
    """The runs that `plugin` and `optimistic` share: same instances, same replicates, same draws."""
    return data.isel(world=slice(config["optimistic_instances"]), replicate=slice(config["optimistic_replications"]))


def _optimistic_claim(config: Config, plugin: Mapping[str, xr.Dataset], optimistic: Mapping[str, xr.Dataset]) -> Claim:
    beside = "; ".join(
        f"B = {b[1:]}: {summary(optimistic[b])['PD2']['mean']:.1f} and "
        f"{summary(_same_runs(config, plugin[b]))['PD2 adaptive']['mean']:.1f}"
        for b in optimistic
    )
    return lower_claim(
        "With optimism over the distribution as well, as Algorithm F.1 is stated, PD2 still beats naive.",
        by_budget(optimistic), "PD2", "naive", note=f"PD2's mean regret, optimistic and plugin: {beside}.",
    )  # fmt: skip


def _optimistic_table(config: Config, plugin: Mapping[str, xr.Dataset], optimistic: Mapping[str, xr.Dataset]) -> Table:
    rows: list[list[Cell]] = []
    for label, theirs in (("naive", "naive"), ("PD1", "PD1 adaptive"), ("PD2", "PD2 adaptive")):
        same = [plus_minus(summary(_same_runs(config, data))[theirs]) for data in plugin.values()]
        rows.append([f"{label}, plugin", *same])
        rows.append([f"{label}, optimistic", *(plus_minus(summary(data)[label]) for data in optimistic.values())])
    return Table(
        caption=f"Plugin and optimistic (exact) on the same {config['optimistic_instances']} instances x "
        f"{config['optimistic_replications']} replications, scale adaptive: mean cumulative regret at the end",
        columns=["policy", *(f"B = {b[1:]}" for b in optimistic)],
        rows=rows,
    )


EXPERIMENT = Experiment(
    name="regret-unknown",
    title="Regret when the context distribution must be learned",
    about="The same study, but the context probabilities are unknown. Plugin estimates them by observed frequencies, "
    "as in the paper's experiments; optimistic is the algorithm as the paper states it and calls too costly to run.",
    config=config,
    tasks=tasks,
    run_task=run_task,
    findings=findings,
)
