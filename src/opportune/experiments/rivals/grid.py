"""The grid of the experiment on rivals: every rule with each of its constants, by the paper's and the realised value.

All constants of a rule are tried on the instances that it is judged by, and the best of them counts at each budget.
"""

import xarray as xr

from opportune.experiments.base import Config
from opportune.experiments.studies import reduce_to_totals, run_study, run_together, study_worlds
from opportune.policy import Budget, Policy, pace_ucb
from opportune.recommenders import LinUCB

PACE = "PACE"
COIN_WITH_DEBT = "LP coin, with debt"
CONSTANTS: dict[str, tuple[float, ...]] = {
    "resolve": (0.0, 0.25), "resolve, without rotation": (0.0, 0.25), "LP coin": (0.0,), COIN_WITH_DEBT: (0.0,),
    "dual gradient": (1.0, 3.0, 10.0), "mirror descent": (0.1, 0.2, 0.4), "CBM": (0.1, 0.3, 1.0),
    "intervals": (0.3, 0.5, 0.75), "information": (0.1, 0.2),
}  # fmt: skip
"""The constants of each rule that runs with individual budgets."""
TOGETHER: dict[str, tuple[float, ...]] = {"Whittle-like": (0.0,), "resolve": (0.0, 0.25)}
"""The constants of each rule that runs with one budget for ten."""
INDEBTED = {COIN_WITH_DEBT, "mirror descent", "information", "Whittle-like"}
ALWAYS_PAPER = {"CBM", "intervals"}
"""Rules that only ask whether a gain is positive, which it is far more often by the paper's value."""
PARTICIPANTS = 10
VALUES = ("paper", "realised")


def config(quick: bool) -> Config:
    """The paper's study at its budgets, both radii, p known and unknown; and a budget for ten."""
    return {
        "instances": 40 if quick else 150, "replications": 1, "horizon": 300,
        "budgets": [10, 30] if quick else [10, 20, 30], "radii": ["uniform", "pointwise"],
        "known": ["known"] if quick else ["known", "unknown"], "shared_budgets": [10, 30],
        "shared_instances": 20 if quick else 100, "shared_replications": 1,
    }  # fmt: skip


def tasks(config: Config) -> list[str]:
    """One task for each radius, budget, and knowledge of p; and one for each budget that ten share."""
    own = [f"{p}-{radius}-B{b}" for p in config["known"] for radius in config["radii"] for b in config["budgets"]]
    return [*own, *(f"shared-uniform-B{b}" for b in config["shared_budgets"])]


def run_task(config: Config, task: str, seed: int) -> xr.Dataset:
    """All rules at one budget."""
    kind, radius, budget = task.split("-")
    amount = int(budget[1:])
    if kind == "shared":
        return run_together(
            study_worlds(config["shared_instances"], seed),
            policies(TOGETHER, Budget(PARTICIPANTS * amount, shared=True), radius), participants=PARTICIPANTS,
            horizon=config["horizon"], replicates=config["shared_replications"], seed=seed, trace=True,
        )  # fmt: skip
    return run_study(
        study_worlds(config["instances"], seed, known=kind == "known"), policies(CONSTANTS, Budget(amount), radius),
        horizon=config["horizon"], replicates=config["replications"], seed=seed, reduce=reduce_to_totals, trace=False,
    )  # fmt: skip


def name_of(rule: str, constant: float, value: str) -> str:
    """The name of a rule with a constant in the results."""
    return f"{rule}, {constant:g}, {value}"


def policies(constants: dict[str, tuple[float, ...]], budget: Budget, radius: str) -> list[Policy]:
    """PACE and all rules with all constants, by each value."""
    from opportune.experiments.rivals.rules import Rival  # noqa: PLC0415  (the import registers it)

    made = [pace_ucb(budget, radius=radius, value=value, name=name_of(PACE, 0.0, value)) for value in VALUES]
    for rule, tried in constants.items():
        recommender = LinUCB(rotate="without rotation" not in rule, radius=radius)
        for constant in tried:
            for value in VALUES[:1] if rule in ALWAYS_PAPER else VALUES:
                indebted = rule in INDEBTED or value == "realised"  # without the debt, the realised value does not work
                revealer = Rival(rule=rule.split(",")[0], constant=constant, debt=indebted, value=value)
                name = name_of(rule, constant, value)
                made.append(Policy(recommender=recommender, revealer=revealer, budget=budget, name=name))
    return made
