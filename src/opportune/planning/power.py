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
from opportune.inference.least_squares import Sums, add_up
from opportune.planning.moments import AT_ONCE, Moments, controls, drawn_values, features_of
from opportune.planning.settings import Settings
from opportune.planning.simulated import Simulations, steps
from opportune.planning.wcls import estimate, sums_of
from opportune.planning.worlds import participants_of
from opportune.policy import Policy
from opportune.problems.finite import Problem

Floats = NDArray[np.float64]
SHARES = (0.1, 0.3)
"""How much of a coin is tried."""
COHORTS = 200
FEWEST_COHORTS = 20
PEOPLE = 400_000
"""Cohorts that are put together for each number of participants: fewer where these would be more people in all."""
LEAST_USABLE = 0.5
"""Where fewer decisions than this share have a probability between 0 and 1, the report warns."""


class Power(NamedTuple):
    """What the analysis after the study can find."""

    table: pd.DataFrame
    coins: pd.DataFrame
    best_action: str


class Asked(NamedTuple):
    """What is asked of actions: which one is best on average, and the contrast that it is estimated by."""

    best: int
    contrast: Floats
    intercept: bool
    """Whether the formula's features lack one, so that the analysis adds it."""


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


def find_power(settings: Settings, simulations: Simulations, budget: int) -> Power:
    """Power against the number of participants and the budget, for each design."""
    worlds = participants_of(settings)
    replicates = _replicates(settings)
    asked = _asked(settings, worlds)
    moments = Moments(settings, worlds, replicates)
    rows: list[dict[str, Any]] = []
    coins: list[dict[str, Any]] = []
    plain: Floats | None = None
    for number, (design, chosen) in enumerate(designs(settings, budget).items()):
        whole = simulations.run(
            f"power-{number}-{budget}",
            f"power: {design}",
            float(settings.horizon * settings.participants * replicates * len(chosen)),
            lambda chosen=chosen: _sums(settings, worlds, list(chosen.values()), moments, asked),  # type: ignore[misc]
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
    return Power(pd.DataFrame(rows), pd.DataFrame(coins), settings.study.settings.study.actions[asked.best])


def _asked(settings: Settings, worlds: list[Any]) -> Asked:
    """The best action on average over participants and contexts, the first one aside, against the first."""
    problem = settings.study.problem
    if isinstance(problem, Problem):
        every = problem.features
        mean = np.einsum("k,kad->ad", settings.study.probabilities, every)
    else:
        some = max(1, AT_ONCE // settings.horizon)
        values = drawn_values(settings, worlds[:some], 1)
        every = problem.features(values.reshape(-1, values.shape[-1])[:AT_ONCE])
        mean = every.mean(axis=0)
    gains = mean @ np.mean([world.theta for world in worlds], axis=0)
    best = 1 + int(np.argmax(gains[1:])) if len(gains) > 1 else 0
    rows = every.reshape(-1, problem.d)
    rows = np.unique(rows[: 50 * problem.d * problem.actions], axis=0) if problem.contexts == 0 else rows
    whole = np.column_stack([np.ones(len(rows)), rows])
    lacking = bool(np.linalg.matrix_rank(whole) > np.linalg.matrix_rank(rows))
    contrast = mean[best] - mean[0]
    return Asked(best, np.concatenate([[0.0], contrast]) if lacking else contrast, lacking)


def _replicates(settings: Settings) -> int:
    return max(2, min(settings.traced, 10))


def _sums(settings: Settings, worlds: list[Any], policies: list[Policy], moments: Moments, asked: Asked) -> xr.Dataset:
    """What the analysis needs of each simulated participant, under each policy."""
    found = steps(settings, worlds, policies, moments.replicates)
    return xr.concat([_sums_of(settings, data, moments, asked) for data in found], "policy")


def _sums_of(settings: Settings, data: xr.Dataset, moments: Moments, asked: Asked) -> xr.Dataset:
    people = data.sizes["world"] * data.sizes["replicate"]
    who = np.repeat(np.arange(people), data.sizes["step"])
    flat = {name: data[name].values.reshape(people * data.sizes["step"]) for name in
            ("reward", "nudged", "probability", "available", "opened", "revealed", "action")}  # fmt: skip
    here = moments.of(data)
    there = flat["available"] & ~flat["opened"]
    reward = np.where(there, flat["reward"], np.nan)
    nudge, _ = sums_of(reward, flat["nudged"], flat["probability"], controls(settings, here), who)
    between = there & (flat["probability"] > 0.0) & (flat["probability"] < 1.0)
    problem = settings.study.problem
    seen = np.isfinite(flat["reward"]) & (flat["revealed"] if problem.reported else True)
    x = features_of(problem, here[seen], flat["action"][seen])
    x = np.column_stack([np.ones(len(x)), x]) if asked.intercept else x
    action = add_up(x, flat["reward"][seen], np.ones(len(x)), who[seen], people)
    found = {
        "nudge_xx": (("person", "a", "b"), nudge.xx), "nudge_xy": (("person", "a"), nudge.xy),
        "action_xx": (("person", "c", "d"), action.xx), "action_xy": (("person", "c"), action.xy),
        "contrast": (("c",), asked.contrast),
        "outcome": (("world",), data["outcome"].mean(["replicate", "step"]).values * settings.per_day),
        "usable": ((), float(between.sum() / max(there.sum(), 1))),
    }  # fmt: skip
    return xr.Dataset(found)


def _rows(settings: Settings, design: str, amount: float, data: xr.Dataset, *, every: bool) -> list[dict[str, Any]]:
    """Power for each effect, for every number of participants or only for as many as are planned."""
    rng = np.random.default_rng(settings.seed)
    n = settings.participants
    sizes = sorted({max(5, n // 4), max(5, n // 2), n, 2 * n}) if every else [n]
    usable = float(data["usable"])
    effects: dict[str, tuple[Sums, Any]] = {
        "nudge": (Sums(data["nudge_xx"].values, data["nudge_xy"].values), None),
        "best action": (Sums(data["action_xx"].values, data["action_xy"].values), data["contrast"].values),
    }
    rows = []
    for effect, (sums, contrast) in effects.items():
        for n in sizes:
            cohorts = max(FEWEST_COHORTS, min(COHORTS, PEOPLE // n))
            found = [estimate(sums, contrast, chosen=rng.integers(len(sums.xy), size=n)) for _ in range(cohorts)]
            rows.append({"effect": effect, "design": design, "budget": amount, "participants": n, "usable": usable,
                         **_summary(found)})  # fmt: skip
    return rows


def _summary(found: list[Any]) -> dict[str, float]:
    """The share of cohorts in which the effect was found, with Wilson's interval; NaN where none could tell."""
    clear = [one for one in found if one is not None]
    if len(clear) < 0.9 * len(found):
        return {"power": math.nan, "low": math.nan, "high": math.nan, "estimate": math.nan, "se": math.nan}
    n = len(clear)
    share = sum(one.found for one in clear) / n
    z = 1.959964
    centre = (share + z * z / (2 * n)) / (1 + z * z / n)
    half = z / (1 + z * z / n) * math.sqrt(share * (1 - share) / n + z * z / (4 * n * n))
    return {
        "power": share, "low": max(0.0, centre - half), "high": min(1.0, centre + half),
        "estimate": float(np.mean([one.effect for one in clear])), "se": float(np.mean([one.se for one in clear])),
    }  # fmt: skip
