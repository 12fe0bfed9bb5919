"""The grid of the brushing experiment: its readings, variants and policies, and the reduction of each run."""

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import xarray as xr

from opportune.experiments.base import Config
from opportune.experiments.oralytics.informed import run_informed
from opportune.policy import Budget, Policy, naive_ucb, pd1_ucb, pd2_ucb
from opportune.recommenders import EqualCoins, FixedAction, LinUCB
from opportune.revealers import Always, Never
from opportune.simulation.run import simulate
from opportune.worlds.brushing import step as brushing_step
from opportune.worlds.brushing.world import BrushingWorld, brushing_world

THREE = ("PD2", "PD1", "naive")
"""The paper's three policies, its own first."""
REFERENCES = ("never send", "coin flip", "always send")
UNREVEALED = "nothing revealed"
REVEALED = "everything revealed"
LATE = 40
"""The last sessions of a course, by which a recommender's knowledge has settled."""
BUDGETS = {
    "30 each": {"shared": False, "hard": False},
    "30 each, hard": {"shared": False, "hard": True},
    "300 shared": {"shared": True, "hard": False},
    "300 shared, hard": {"shared": True, "hard": True},
}
"""The kinds of budget compared: for each user or for all, in expectation or hard."""

ENVIRONMENTS = ("base", "robas2")
"""The tasks of the paper's experiment, in either environment."""

MODELS = {
    "models": "users as fitted",
    "models-alike": "every user with the same effects",
}
"""The tasks in which every user learns their own model, or all learn one together, by the kind of users."""


@dataclass(frozen=True, kw_only=True)
class Choice:
    """A reading of the experiment that differs from ours in one point."""

    label: str
    world: dict[str, Any] = field(default_factory=dict)
    scale: str = "range"


CHOICES = {
    "base": Choice(label="as run here: R = 0.5, W = 1"),
    "noise-0.1": Choice(label="R = 0.1", world={"noise_sd": 0.1}),
    "noise-0.25": Choice(label="R = 0.25", world={"noise_sd": 0.25}),
    "noise-1": Choice(label="R = 1, as in the proofs", world={"noise_sd": 1.0}),
    "bound-3": Choice(label="W = 3, so lam = 1/9", world={"theta_bound": 3.0}),
    "blind-known": Choice(label="means of prior and prop known", world={"blind": "known"}),
    "scale-adaptive": Choice(label="scale adaptive", scale="adaptive"),
    "effects-population": Choice(label="every user with the same effects", world={"effects": "population"}),
    "effects-seed-1": Choice(label="another draw of the effects", world={"seed": 1}),
    "robas2": Choice(label="ROBAS 2", world={"study": "robas2"}),
    "robas2-small": Choice(label="ROBAS 2, small effects", world={"study": "robas2", "effects": "small"}),
}
"""The readings by the names of their tasks; `base` is the paper's experiment as this package reads it."""


def config(quick: bool) -> Config:
    """The paper's ten users, 140 decisions, 30 reveals per user and 50 trials; our costs and open rates."""
    return {
        "trials": 5 if quick else 50, "horizon": 140, "budget": 30, "users": 10,
        "times": list(range(20, 141, 20)), "open_rates": [0.3, 0.7], "effects_seed": 0,
        "costs": [5, 20, 60] if quick else [5, 10, 20, 40, 60, 80],
    }  # fmt: skip


def tasks(config: Config) -> list[str]:
    """The paper's experiment and every choice, one for each cost and open rate, shared budgets, and pooled models."""
    variants = [f"cost-{c}" for c in config["costs"]] + [f"open-{r}" for r in config["open_rates"]]
    return [*CHOICES, *variants, "pooled", *MODELS]


def open_tasks(config: Config) -> dict[float, str]:
    """The tasks with users who open the app unasked, by open rate; rate 0 is the paper's experiment."""
    return {0.0: "base"} | {rate: f"open-{rate}" for rate in config["open_rates"]}


def run_task(config: Config, task: str, seed: int) -> xr.Dataset:
    """One task: mean brushing up to each of `times`, and totals, for every user, trial and policy."""
    worlds = _worlds(config, task)
    policies = _policies(config, task)
    trials = config["trials"]
    data = simulate(worlds, policies, horizon=config["horizon"], replicates=trials, seed=seed, progress=False)
    reduced = _reduce(data, config["times"])
    if task == "base" or task.startswith("cost-"):
        informed = run_informed(worlds, config["horizon"], trials, seed)
        reduced = xr.concat([reduced, _reduce(informed, config["times"])], dim="policy", join="exact")
    return reduced


def _worlds(config: Config, task: str) -> list[BrushingWorld]:
    settings: dict[str, Any] = {"users": config["users"], "seed": config["effects_seed"]}
    if task in CHOICES:
        settings |= CHOICES[task].world
    elif task.startswith("cost-"):
        settings["message_cost"] = float(task.removeprefix("cost-"))
    elif task.startswith("open-"):
        settings["open_rate"] = float(task.removeprefix("open-"))
    elif task == "models-alike":
        settings["effects"] = "population"
    return brushing_world(settings.pop("study", "robas3"), **settings)


def _policies(config: Config, task: str) -> list[Policy]:
    budget, users = config["budget"], config["users"]
    if task == "pooled":
        made = []
        for name, kind in BUDGETS.items():
            amount = budget * users if kind["shared"] else budget
            made += _three(Budget(amount, **kind), tail=f" {name}")
        return made
    if task in MODELS:
        each = [*_three(Budget(budget)), Policy(revealer=Always(), name=REVEALED)]
        return [
            replace(policy, pooled=pooled, name=f"{policy.name} {model}")
            for model, pooled in (("own", False), ("pooled", True))
            for policy in each
        ]
    three = _three(Budget(budget), scale=CHOICES[task].scale if task in CHOICES else "range")
    if task in ENVIRONMENTS:
        return three + _references() + _extremes()
    return three + _references() if task.startswith("cost-") else three


def _three(budget: Budget, *, scale: str = "range", tail: str = "") -> list[Policy]:
    """The paper's three policies; by default gaps are divided by the range of rewards, 1."""
    return [
        naive_ucb(budget, name="naive" + tail),
        pd1_ucb(budget, scale=scale, name="PD1" + tail),
        pd2_ucb(budget, scale=scale, name="PD2" + tail),
    ]


def _references() -> list[Policy]:
    """Policies that learn nothing, as references for the scale."""
    return [
        Policy(recommender=FixedAction(action=0), revealer=Never(), name="never send"),
        Policy(recommender=EqualCoins(), revealer=Never(), name="coin flip"),
        Policy(recommender=FixedAction(action=1), revealer=Never(), name="always send"),
    ]


def _extremes() -> list[Policy]:
    """The paper's recommender without any reveal and with a reveal at every step."""
    return [
        Policy(recommender=LinUCB(), revealer=Never(), name=UNREVEALED),
        Policy(recommender=LinUCB(), revealer=Always(), name=REVEALED),
    ]


def _reduce(data: xr.Dataset, times: Sequence[int]) -> xr.Dataset:
    """The data for the findings: means up to each of `times`, and totals."""
    steps = data["step"]
    kept = {"outcome": data["outcome"], "net": data["reward"] * brushing_step.CAP}
    so_far = {
        name: (values.cumsum("step") / steps).sel(step=list(times)).rename(step="time") for name, values in kept.items()
    }
    totals = {name: data[name] for name in ("spent", "nudges", "reveals")}
    early = data["revealed"].isel(step=slice(0, data.sizes["step"] // 4)).sum("step")
    sent = {
        "sent": data["action"].mean("step"),
        "sent_late": data["action"].isel(step=slice(-LATE, None)).mean("step"),
    }
    reduced = xr.Dataset({**so_far, **sent, **totals, "early_reveals": early})
    return reduced.drop_vars(["budget", "world_name"], errors="ignore")
