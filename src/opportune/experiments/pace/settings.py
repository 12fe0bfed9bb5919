"""Settings that test a rule's robustness: the paper's study with one thing changed.

A setting defines the worlds and the horizon. If participants share a budget or a model, ten of them form a study, which
counts as one observation.
"""

import json
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from functools import lru_cache

import xarray as xr

from opportune.analysis.results import config as made_with
from opportune.experiments import partial
from opportune.experiments.base import Config
from opportune.experiments.pace.orders import ORDERS
from opportune.experiments.pace.policies import ROBUST, make
from opportune.experiments.studies import reduce_to_totals, run_study, run_together, study_worlds
from opportune.policy import Budget, Policy
from opportune.worlds.common import BEYOND
from opportune.worlds.linear import LinearWorld

PARTICIPANTS = 10
"""The number of participants who share a budget or a model."""
LOOSE = 0.25
"""The factor on the bound on theta in the setting where it is wrong."""

Worlds = Sequence[LinearWorld]


@dataclass(frozen=True, kw_only=True)
class Setting:
    """One thing changed.

    Attributes:
        label: the name for readers.
        change: the changed worlds, from those of the study and the horizon.
        horizon: steps, as a multiple of the study's.
        stated: the horizon that the policies are given, as a multiple of the true one.
        budgets: replace the experiment's.
        shared: ten participants share one budget.
        pooled: ten participants share one model.
        named: PACE is known to lose to PD2 adaptive here, or to gain little.

    """

    label: str
    change: Callable[[Worlds, int], Worlds] = field(default=lambda worlds, _: worlds)
    horizon: int = 1
    stated: int = 1
    budgets: tuple[int, ...] = ()
    shared: bool = False
    pooled: bool = False
    named: bool = False


def _happening(name: str, value: float) -> Callable[[Worlds, int], Worlds]:
    return lambda worlds, _: [w.replace(**{name: value}) for w in worlds]


def _order(name: str) -> Callable[[Worlds, int], Worlds]:
    return lambda worlds, horizon: [ORDERS[name](w, horizon) for w in worlds]


def _noise(sd: float) -> Callable[[Worlds, int], Worlds]:
    return lambda worlds, _: [w.replace(problem=w.problem.replace(noise_sd=sd), noise_sd=sd) for w in worlds]


def _louder(times: float) -> Callable[[Worlds, int], Worlds]:
    return lambda worlds, _: [w.replace(noise_sd=times * w.noise_sd) for w in worlds]


def _bound(share: float) -> Callable[[Worlds, int], Worlds]:
    def changed(worlds: Worlds, _: int) -> Worlds:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=BEYOND, category=UserWarning)  # the setting's purpose
            return [w.replace(problem=w.problem.replace(theta_bound=share * w.problem.theta_bound)) for w in worlds]

    return changed


def _one_problem(worlds: Worlds, _: int) -> Worlds:
    """The first participant's problem for all, each with their own theta."""
    first = worlds[0]
    return [first.replace(theta=w.theta, name=w.name) for w in worlds]


def _one_truth(worlds: Worlds, _: int) -> Worlds:
    """The first participant's truth for all."""
    return [worlds[0] for _ in worlds]


SETTINGS = {
    "study": Setting(label="the paper's study"),
    "persist-0.8": Setting(label="contexts stay with probability 0.8", change=_order("persist-0.8")),
    "persist-0.95": Setting(label="contexts stay with probability 0.95", change=_order("persist-0.95")),
    "cycle": Setting(label="weekly cycle", change=_order("cycle")),
    "trend-up": Setting(label="gaps grow over time", change=_order("trend-up")),
    "trend-down": Setting(label="gaps shrink over time", change=_order("trend-down")),
    "stop": Setting(label="good moments stop after a third", change=_order("stop"), named=True),
    "unforeseen": Setting(label="good moments stop, unforeseen", change=_order("unforeseen"), named=True),
    "told-twice": Setting(label="told twice the true horizon", stated=2, named=True),
    "open-0.1": Setting(label="open rate 0.1", change=_happening("open_rate", 0.1)),
    "open-0.5": Setting(label="open rate 0.5", change=_happening("open_rate", 0.5)),
    "response-0.8": Setting(label="response rate 0.8", change=_happening("response_rate", 0.8)),
    "response-0.5": Setting(label="response rate 0.5", change=_happening("response_rate", 0.5)),
    "noise-1": Setting(label="noise sd 1", change=_noise(1.0)),
    "noise-misstated": Setting(label="noise ten times what is stated", change=_louder(10.0), named=True),
    "bound": Setting(label="bound on theta four times too low", change=_bound(LOOSE)),
    "long": Setting(label="ten times as long", horizon=10, budgets=(55,)),
    "shared": Setting(label="one budget for ten", shared=True),
    "pooled-alike": Setting(label="one model for ten who are alike", change=_one_truth, pooled=True),
    "pooled-differ": Setting(label="one model for ten who differ", change=_one_problem, pooled=True, named=True),
    "reported-1": Setting(label="1 of 3 variables reported"),
    "reported-2": Setting(label="2 of 3 variables reported"),
    "reported-3": Setting(label="3 of 3 variables reported"),
}
"""The settings by the names of their tasks."""


def run_setting(config: Config, name: str, budget: int, seed: int) -> xr.Dataset:
    """Totals of every run, or of every study of ten, at one budget."""
    setting = SETTINGS[name]
    horizon = config["horizon"] * setting.horizon
    if setting.shared or setting.pooled:
        return _run_together(config, setting, budget, seed)
    instances = config["robust_instances"] if setting.horizon == 1 else config["long_instances"]
    policies = [make(policy, budget) for policy in ROBUST]
    cut = setting.stated > 1  # the run ends before the horizon that policies expected
    return run_study(
        _worlds(name, instances, horizon, seed), policies, horizon=horizon * setting.stated,
        replicates=config["robust_replications"], seed=seed,
        reduce=(lambda data: _first(data, horizon)) if cut else reduce_to_totals, trace=cut,
    )  # fmt: skip


@lru_cache(maxsize=1)
def _worlds(name: str, instances: int, horizon: int, seed: int) -> Worlds:
    """The worlds of a setting, created once for all its budgets."""
    if name.startswith("reported-"):
        return partial.worlds({"instances": instances, "actions": 5}, int(name.split("-")[1]), seed)
    return SETTINGS[name].change(study_worlds(instances, seed), horizon)


def _first(data: xr.Dataset, horizon: int) -> xr.Dataset:
    """Totals of the first steps; the policies expected more of them.

    The run ended there, so its clairvoyant is that of these steps.
    """
    ended = json.dumps({**made_with(data), "horizon": horizon})
    first = data.isel(step=slice(0, horizon)).assign_attrs(config=ended)
    seen = {"spent": first["probability"].sum("step"), "reveals": first["revealed"].sum("step")}
    return reduce_to_totals(first.assign(seen))


def _run_together(config: Config, setting: Setting, budget: int, seed: int) -> xr.Dataset:
    """Studies of ten participants each; one observation per study, totals per participant."""
    return run_together(
        study_worlds(config["robust_instances"], seed), _together(setting, budget), participants=PARTICIPANTS,
        horizon=config["horizon"], replicates=config["robust_replications"], seed=seed, trace=setting.shared,
        change=lambda worlds: setting.change(worlds, config["horizon"]),
    )  # fmt: skip


def _together(setting: Setting, budget: int) -> list[Policy]:
    amount = Budget(budget * PARTICIPANTS, shared=True) if setting.shared else Budget(budget)
    return [make(policy, amount, pooled=setting.pooled) for policy in ROBUST]
