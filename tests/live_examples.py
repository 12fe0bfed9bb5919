"""Worlds, problems and policies that several tests of live agents use."""

from collections.abc import Callable
from typing import Any

import numpy as np

import opportune as op
from opportune.worlds.brushing.world import BrushingWorld, brushing_problem, brushing_world
from opportune.worlds.distributions import Choice, LogNormal, Normal, Truncated, Uniform

HAPPENINGS: dict[str, Any] = {
    "open_rate": 0.1, "response_rate": 0.7, "available_rate": 0.9, "reward_rate": 0.9, "reward_delay": 3,
}  # fmt: skip

POLICIES = [
    op.naive_ucb(8, name="naive"),
    op.naive_ucb(op.Budget(8, hard=True), name="naive hard"),
    *[op.pd1_ucb(8, scale=scale, name=f"PD1 {scale}") for scale in ("adaptive", "range", "gap")],
    *[op.pd2_ucb(8, scale=scale, name=f"PD2 {scale}") for scale in ("adaptive", "range", "gap")],
    op.pd2_ucb(op.Budget(5, hard=True), name="PD2 hard"),
    op.pd2_ucb(0.7, name="PD2 below one"),
    op.Policy(revealer=op.LearningPrimalDual(tolerance=0.3), budget=op.Budget(8.5), name="PD2 own tolerance"),
    op.Policy(revealer=op.Never(), name="never"),
    op.Policy(revealer=op.Always(), name="always"),
    op.Policy(revealer=op.Always(), budget=op.Budget(10.5), name="always, limited"),
    op.Policy(revealer=op.Periodic(every=7), name="periodic"),
    op.Policy(revealer=op.Periodic(every=7), budget=op.Budget(3, hard=True), name="periodic hard"),
    op.pace_ucb(8, name="PACE"),
    op.pace_ucb(8, radius="pointwise", name="PACE pointwise"),
    op.pd2_ucb(op.Budget(8, hard=True), radius="pointwise", name="PD2 pointwise"),
    op.Policy(revealer=op.Pace(randomise=0.1, value="realised", guard=0.5), budget=op.Budget(8), name="PACE, options"),
    op.Policy(recommender=op.LinUCB(rotate=True, kappa=0.5), budget=op.Budget(8), name="PD2 rotating"),
    op.Policy(recommender=op.Thompson(), budget=op.Budget(8), name="Thompson"),
    op.Policy(recommender=op.Thompson(inflation=0.3), revealer=op.FixedRate(), budget=op.Budget(8), name="TS naive"),
    op.Policy(recommender=op.FixedAction(action=1), revealer=op.PrimalDual(), budget=op.Budget(8), name="one action"),
    op.Policy(recommender=op.EqualCoins(), revealer=op.FixedRate(), budget=op.Budget(8), name="random action"),
]
OPTIMISTIC = [
    op.pd2_ucb(8, unknown="optimistic", name="PD2 optimistic"),
    op.pd1_ucb(8, unknown="optimistic", scale="range", name="PD1 optimistic"),
    op.Policy(recommender=op.LinUCB(unknown="optimistic"), revealer=op.Always(), name="always optimistic"),
]


def mixed_problem(*, known: bool, seed: int = 1) -> op.Problem:
    """Public, sensed and reported variables."""
    rng = np.random.default_rng(seed)
    return op.Problem(
        rng.normal(size=(12, 3, 4)),
        rng.dirichlet(np.full(12, 2.0)) if known else None,
        noise_sd=0.3,
        theta_bound=2.0,
        value_range=(-1.0, 2.0),
        variables={"mood": ["a", "b", "c"], "hour": ["am", "pm"], "place": range(2)},
        visibility={"mood": "reported", "hour": "public"},
        action_names=("rest", "walk", "call"),
    )


def mixed_worlds(*, known: bool, problems: int = 2, **happenings: Any) -> list[op.LinearWorld]:
    """Two worlds whose patients have moods; with one problem for both they can learn one model."""
    rng = np.random.default_rng(2)
    return [
        op.LinearWorld(
            mixed_problem(known=known, seed=1 + i % problems), theta=rng.normal(size=4),
            context_probs=rng.dirichlet(np.full(12, 2.0)), **happenings,
        )
        for i in range(2)
    ]  # fmt: skip


def scheduled_worlds(**happenings: Any) -> list[op.LinearWorld]:
    """Mornings and evenings take turns, on weekdays and weekends."""
    rng = np.random.default_rng(3)
    problem = op.Problem(
        rng.normal(size=(12, 3, 5)), rng.dirichlet(np.full(12, 2.0)), noise_sd=0.2, theta_bound=2.0,
        value_range=(-1.0, 3.0),
        variables={"time": op.TimeOfDay(("morning", "evening")), "end": op.Weekend(first="Friday"), "stress": range(3)},
    )  # fmt: skip
    return [op.LinearWorld(problem, theta=rng.normal(size=5), **happenings) for _ in range(2)]


def moment_problem(*, reported: bool, **settings: Any) -> op.ContinuousProblem:
    """Contexts not finite: numbers and levels, public, sensed and (if asked for) reported."""
    formula = "1 + tod + ward + steps + place + action + action:steps + action:dose + action:place"
    variables: dict[str, Any] = {
        "tod": op.TimeOfDay(("am", "pm")), "ward": ["a", "b"], "steps": op.Number(0, 2), "place": ["home", "out"],
        "dose": op.Number(-1, 1),
    }  # fmt: skip
    seen: dict[str, Any] = {"dose": "public", "ward": "public"}
    if reported:
        formula += " + action:mood + pain"
        variables |= {"mood": op.Number(0, 1), "pain": ["no", "yes"]}
        seen |= {"mood": "reported", "pain": "reported"}
    return op.ContinuousProblem(
        formula, variables, ["rest", "walk", "call"], visibility=seen, value_range=(-2.0, 3.0), largest_gap=2.0,
        noise_sd=0.3, theta_bound=2.0, **settings,
    )  # fmt: skip


def moment_worlds(*, reported: bool, **happenings: Any) -> list[op.ContinuousWorld]:
    """Two worlds with the same such problem."""
    rng = np.random.default_rng(4)
    problem = moment_problem(reported=reported)
    distributions: dict[str, Any] = {
        "ward": Choice({"a": 0.7, "b": 0.3}), "steps": LogNormal(0.5, 0.6), "dose": Uniform(-1, 1),
        "place": Choice({"home": 0.6, "out": 0.4}),
    }  # fmt: skip
    if reported:
        distributions |= {"mood": Truncated(Normal(0.4, 0.3), 0, 1), "pain": Choice({"no": 0.8, "yes": 0.2})}
    return [
        op.ContinuousWorld(problem, theta=rng.normal(size=problem.d), distributions=distributions, **happenings)
        for _ in range(2)
    ]


def brushing_worlds(study: str = "robas3", **happenings: Any) -> list[BrushingWorld]:
    """Two fitted users of the brushing world, who know the same beforehand."""
    problem = brushing_problem(study)
    return [
        BrushingWorld(problem, params=world.params, user=world.user, **happenings)
        for world in brushing_world(study, users=2, message_cost=10.0)
    ]


WORLDS: dict[str, Callable[..., list[Any]]] = {
    "mixed": lambda **h: mixed_worlds(known=True, problems=1, **h),
    "mixed, p unknown": lambda **h: mixed_worlds(known=False, problems=1, **h),
    "scheduled": scheduled_worlds,
    "moments": lambda **h: moment_worlds(reported=False, **h),
    "moments, reported": lambda **h: moment_worlds(reported=True, **h),
    "brushing": brushing_worlds,
}
