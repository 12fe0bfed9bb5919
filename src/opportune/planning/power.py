"""Power: how probable it is that the analysis after the study finds what is there, and what a coin mixed in buys.

Two effects are looked for: that of a nudge on the reward of its step (weighted and centred least squares on the
recorded probabilities), and that of the best action against the first (least squares on the study's own formula,
which rests on that formula, for actions are not tossed for). Cohorts of any size are put together from simulated
participants, each with effects of its own.
"""

import math
from typing import Any, NamedTuple

import numpy as np
import pandas as pd
import xarray as xr
from numpy.typing import NDArray

from opportune.analysis.intervals import interval
from opportune.planning.settings import Settings
from opportune.planning.simulated import steps
from opportune.planning.tasks import Tasks
from opportune.planning.wcls import Sums, add_up, estimate, sums_of
from opportune.planning.worlds import participants_of
from opportune.policy import Policy
from opportune.problems.finite import Problem

Floats = NDArray[np.float64]
SHARES = (0.1, 0.3)
"""How much of a coin is tried."""
COHORTS = 200
LEAST_USABLE = 0.5
"""Where fewer decisions than this share have a probability between 0 and 1, the report warns."""


class Power(NamedTuple):
    """What the analysis after the study can find."""

    table: pd.DataFrame
    coins: pd.DataFrame
    best_action: str


def designs(settings: Settings, budget: int) -> dict[str, dict[float, Policy]]:
    """The policies whose data are analysed, at each budget: as planned, with coins, and at random."""
    budgets = sorted({float(budget), *(b for b in settings.budgets if b > 0.0)})
    main = settings.name(settings.main)
    found = {main: {b: settings.policy(settings.main, b) for b in budgets}}
    for share in SHARES:
        found[f"PACE, randomise {share:g}"] = {b: settings.randomised(share, b) for b in budgets}
    return found


def count_steps(settings: Settings, budget: int) -> float:
    """How many steps it takes."""
    runs = sum(len(chosen) for chosen in designs(settings, budget).values())
    return float(runs * settings.horizon * settings.participants * _replicates(settings))


def find_power(settings: Settings, tasks: Tasks, budget: int) -> Power:
    """Power against the number of participants and the budget, for each design."""
    worlds = participants_of(settings)
    best = best_action(settings, worlds)
    replicates = _replicates(settings)
    rows: list[dict[str, Any]] = []
    coins: list[dict[str, Any]] = []
    plain: Floats | None = None
    for number, (design, chosen) in enumerate(designs(settings, budget).items()):
        whole = tasks.run(
            f"power-{number}-{budget}",
            f"power: {design}",
            float(settings.horizon * settings.participants * replicates * len(chosen)),
            lambda chosen=chosen: _sums(settings, worlds, list(chosen.values()), replicates, best),  # type: ignore[misc]
        )
        for place, amount in enumerate(chosen):
            data = whole.isel(policy=place)
            rows += _rows(settings, design, amount, data, every=amount == budget)
            if amount == budget:
                outcome = data["outcome"].values
                plain = outcome if plain is None else plain
                lost = interval(plain - outcome)
                coins.append(
                    {
                        "design": design, "usable": float(data["usable"]), "outcome": float(outcome.mean()),
                        "lost": lost.mean, "low": lost.low, "high": lost.high,
                    }
                )  # fmt: skip
    return Power(pd.DataFrame(rows), pd.DataFrame(coins), settings.study.settings.study.actions[best])


def best_action(settings: Settings, worlds: list[Any]) -> int:
    """The action that is best on average over participants and contexts, the first one aside."""
    problem = settings.study.problem
    theta = np.mean([world.theta for world in worlds], axis=0)
    if isinstance(problem, Problem):
        gains = settings.study.probabilities @ (problem.features @ theta)
    else:
        gains = np.mean([problem.known_means @ theta], axis=0) if problem.known_means is not None else np.zeros(1)
        gains = np.atleast_2d(gains).mean(axis=0)
    return 1 + int(np.argmax(gains[1:])) if len(gains) > 1 else 1


def _replicates(settings: Settings) -> int:
    return max(2, min(settings.traced, 10))


def _sums(settings: Settings, worlds: list[Any], policies: list[Policy], replicates: int, best: int) -> xr.Dataset:
    """What the analysis needs of each simulated participant, under each policy."""
    parts = [_sums_of(settings, data, best) for data in steps(settings, worlds, policies, replicates)]
    return xr.concat(parts, "policy")


def _sums_of(settings: Settings, data: xr.Dataset, best: int) -> xr.Dataset:
    people = data.sizes["world"] * data.sizes["replicate"]
    who = np.repeat(np.arange(people), data.sizes["step"])
    flat = {name: data[name].values.reshape(people * data.sizes["step"]) for name in
            ("reward", "nudged", "probability", "available", "opened", "revealed", "context", "action")}  # fmt: skip
    there = flat["available"] & ~flat["opened"]
    controls = _controls(settings, flat["context"])
    nudge, _ = sums_of(np.where(there, flat["reward"], np.nan), flat["nudged"], flat["probability"], controls, who)
    between = there & (flat["probability"] > 0.0) & (flat["probability"] < 1.0)
    found = {
        "nudge_xx": (("person", "a", "b"), nudge.xx), "nudge_xy": (("person", "a"), nudge.xy),
        "outcome": (("world",), data["outcome"].mean(["replicate", "step"]).values * settings.per_day),
        "usable": ((), float(between.sum() / max(there.sum(), 1))),
    }  # fmt: skip
    problem = settings.study.problem
    if isinstance(problem, Problem):
        seen = np.isfinite(flat["reward"]) & (flat["revealed"] if problem.reported else True)
        features = _with_intercept(problem)
        x = features[flat["context"][seen], flat["action"][seen]]
        action = add_up(x, flat["reward"][seen], np.ones(len(x)), who[seen], people)
        contrast = settings.study.probabilities @ (features[:, best] - features[:, 0])
        found |= {
            "action_xx": (("person", "c", "d"), action.xx), "action_xy": (("person", "c"), action.xy),
            "contrast": (("c",), contrast),
        }  # fmt: skip
    return xr.Dataset(found)


def _with_intercept(problem: Problem) -> Floats:
    """Features with an intercept, unless they have one already or make one up together."""
    rows = problem.features.reshape(-1, problem.d)
    whole = np.column_stack([np.ones(len(rows)), rows])
    if np.linalg.matrix_rank(whole) == np.linalg.matrix_rank(rows):
        return problem.features
    return whole.reshape(problem.contexts, problem.actions, problem.d + 1)


def _controls(settings: Settings, context: NDArray[np.int64]) -> Floats:
    """What is known of a moment beforehand, as levels against the first: public and sensed variables."""
    problem = settings.study.problem
    if not isinstance(problem, Problem) or problem.contexts == 0:
        return np.zeros((context.size, 0))
    sizes = [len(getattr(v, "levels", v)) for v in settings.study.variables.values()]
    places = np.unravel_index(context, sizes)
    tables = settings.study.settings.variables.values()
    columns = [
        (place == level)
        for place, size, table in zip(places, sizes, tables, strict=True)
        if table.schedule is not None or table.visibility != "reported"
        for level in range(1, size)
    ]
    return np.column_stack(columns).astype(np.float64) if columns else np.zeros((context.size, 0))


def _rows(settings: Settings, design: str, amount: float, data: xr.Dataset, *, every: bool) -> list[dict[str, Any]]:
    """Power for each effect, for every number of participants or only for as many as are planned."""
    rng = np.random.default_rng(settings.seed)
    n = settings.participants
    sizes = sorted({max(5, n // 4), max(5, n // 2), n, 2 * n}) if every else [n]
    usable = float(data["usable"])
    effects: dict[str, tuple[Sums, Any]] = {"nudge": (Sums(data["nudge_xx"].values, data["nudge_xy"].values), None)}
    if "contrast" in data:
        effects["best action"] = (Sums(data["action_xx"].values, data["action_xy"].values), data["contrast"].values)
    rows = []
    for effect, (sums, contrast) in effects.items():
        for n in sizes:
            found = [estimate(sums, contrast, chosen=rng.integers(len(sums.xy), size=n)) for _ in range(COHORTS)]
            rows.append({"effect": effect, "design": design, "budget": amount, "participants": n, "usable": usable,
                         **_summary(found)})  # fmt: skip
    return rows


def _summary(found: list[Any]) -> dict[str, float]:
    """The share of cohorts in which the effect was found, with Wilson's interval; NaN where none could tell."""
    told = [one for one in found if one is not None]
    if len(told) < 0.9 * len(found):
        return {"power": math.nan, "low": math.nan, "high": math.nan, "estimate": math.nan, "se": math.nan}
    n = len(told)
    share = sum(one.found for one in told) / n
    z = 1.959964
    centre = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    return {
        "power": share, "low": max(0.0, centre - half), "high": min(1.0, centre + half),
        "estimate": float(np.mean([one.effect for one in told])), "se": float(np.mean([one.se for one in told])),
    }  # fmt: skip
