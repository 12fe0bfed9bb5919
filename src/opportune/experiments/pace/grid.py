"""The grid of the experiment on PACE, and the reduction of each run."""

import xarray as xr

from opportune.analysis.metrics import decomposition, realised_regret, regret
from opportune.experiments.base import Config
from opportune.experiments.pace.growth import run_growth
from opportune.experiments.pace.policies import (
    ADAPTIVE,
    FLOORS,
    LESS,
    PACE,
    PRINTED,
    ROTATED,
    SECOND,
    SPLIT,
    STUDY,
    UNKNOWN,
    make,
)
from opportune.experiments.pace.settings import SETTINGS, run_setting
from opportune.experiments.studies import keep_totals, reduce_to_totals, run_study, study_worlds
from opportune.policy import Budget, Policy
from opportune.recommenders import FixedAction
from opportune.revealers import Never
from opportune.simulation.run import simulate
from opportune.worlds.brushing import step as brushing_step
from opportune.worlds.brushing.world import brushing_world

ALWAYS_SEND = "always send"
BRUSHING = (PRINTED, ADAPTIVE, ROTATED, PACE)
BRUSHERS, SESSIONS, REVEALS = 10, 140, 30


def config(quick: bool) -> Config:
    """The paper's study at three budgets, horizons up to 10,000, one thing changed at a time, and brushing."""
    return {
        "instances": 50, "replications": 2 if quick else 10, "horizon": 300,
        "budgets": [10, 30] if quick else [10, 20, 30],
        "horizons": [300, 1000] if quick else [300, 1000, 3000, 10000], "sequences": 2 if quick else 16,
        "floor_instances": 50 if quick else 1000, "floor_replications": 1 if quick else 4,
        "growth_instances": 10 if quick else 20, "growth_replications": 1 if quick else 2,
        "settings": ["study", "persist-0.95", "unforeseen", "noise-misstated"] if quick else list(SETTINGS),
        "robust_budgets": [30] if quick else [10, 30],
        "robust_instances": 20 if quick else 50, "robust_replications": 1 if quick else 2, "long_instances": 20,
        "costs": [0, 60] if quick else [0, 10, 20, 60], "trials": 3 if quick else 50,
        "studies": ["robas3"] if quick else ["robas3", "robas2"],
    }  # fmt: skip


def tasks(config: Config) -> list[str]:
    """The study with p known and unknown, the floor on more instances, horizons, settings, brushing at each cost."""
    return [
        *(f"{kind}-B{b}" for kind in ("known", "unknown") for b in config["budgets"]),
        *(f"floor-B{b}" for b in config["budgets"]),
        *(f"T{t}" for t in config["horizons"]),
        *(setting_task(name, b) for name in config["settings"] for b in setting_budgets(config, name)),
        *(brushing_task(study, cost) for study in config["studies"] for cost in config["costs"]),
    ]


def setting_task(name: str, budget: int) -> str:
    """The task of a setting at a budget."""
    return f"{name}-B{budget}"


def setting_budgets(config: Config, name: str) -> list[int]:
    """The budgets at which a setting runs."""
    return list(SETTINGS[name].budgets or config["robust_budgets"])


def brushing_task(study: str, cost: int) -> str:
    """The task of a brushing study at a cost per message."""
    return f"{study}-cost{cost}"


def run_task(config: Config, task: str, seed: int) -> xr.Dataset:
    """One task."""
    if task.startswith("T"):
        return run_growth(config, int(task[1:]), seed)
    if "-cost" in task:
        study, cost = task.split("-cost")
        return _run_brushing(config, study, float(cost), seed)
    kind, budget = task.rsplit("-B", 1)
    if kind in SETTINGS:
        return run_setting(config, kind, int(budget), seed)
    if kind == "floor":
        return run_study(
            study_worlds(config["floor_instances"], seed),
            [make(name, int(budget)) for name in (PACE, SECOND, LESS, *FLOORS)], horizon=config["horizon"],
            replicates=config["floor_replications"], seed=seed, reduce=reduce_to_totals, trace=False,
        )  # fmt: skip
    names = STUDY if kind == "known" else UNKNOWN
    return run_study(
        study_worlds(config["instances"], seed, known=kind == "known"), [make(name, int(budget)) for name in names],
        horizon=config["horizon"], replicates=config["replications"], seed=seed,
        reduce=_reduce if kind == "known" else reduce_to_totals, trace=kind == "known",
    )  # fmt: skip


def _reduce(data: xr.Dataset) -> xr.Dataset:
    """Totals, curves averaged over replicates, and the two parts of regret if they are defined."""
    runs = {"regret": regret(data), "realised_regret": realised_regret(data)}
    totals = keep_totals(data, **runs)
    curves = {name: values.mean("replicate") for name, values in runs.items()}
    named = [str(p) for p in data["policy"].values if p in SPLIT]
    lost = xr.full_like(totals["final_regret"], float("nan"))
    if named:
        parts = decomposition(data.sel(policy=named))["information_reveal_loss"]
        lost.loc[{"policy": named}] = parts.isel(step=-1, drop=True).drop_vars("budget", errors="ignore")
    reduced = totals.assign({"information_reveal_loss": lost, **curves})
    return reduced.drop_vars(["budget", "world_name"], errors="ignore")


def _run_brushing(config: Config, study: str, cost: float, seed: int) -> xr.Dataset:
    """Mean seconds per session, net of the cost, and messages, for every user and trial."""
    policies = [make(name, Budget(REVEALS)) for name in BRUSHING]
    policies.append(Policy(recommender=FixedAction(action=1), revealer=Never(), name=ALWAYS_SEND))
    worlds = brushing_world(study, users=BRUSHERS, message_cost=cost)
    data = simulate(
        worlds, policies, horizon=SESSIONS, replicates=config["trials"], seed=seed, trace=False, progress=False
    )  # fmt: skip
    net = data["total_reward"] * brushing_step.CAP / SESSIONS
    return xr.Dataset({"net": net, "spent": data["spent"]}).drop_vars(["budget", "world_name"], errors="ignore")
