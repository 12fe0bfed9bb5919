"""Runs whose decisions and numbers are pinned in golden.json, whatever else of the code changes.

`python tests/golden.py` writes the file anew; a change of a stored decision is a change of the algorithm.

Decisions are pinned exactly, by a hash. Numbers (probabilities, gaps, prices, ..., and every part of a participant's
final state) are pinned by a weighted sum, to 1e-9: another processor may round the last bit differently.
"""

import dataclasses
import hashlib
import json
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

import opportune as op
from cuda_cases import CASES
from opportune.algorithm.reasons import HOURS, QUIET
from opportune.engine.declared import ARRAY_OF, ARRAYS, STATE
from opportune.worlds.brushing.world import brushing_world
from runs import REVEALERS, AnyRun, Case, cases, continuous_cases, draw_run
from test_agreement import EXACT, NEARLY, Patient, agents_of

STORED = Path(__file__).with_name("golden.json")
PACE: dict[str, op.Pace] = {
    "PACE": op.Pace(value="paper"),
    "PACE realised": op.Pace(value="realised"),
    "PACE coin": op.Pace(randomise=0.1, value="paper"),
    "PACE guard": op.Pace(guard=0.5, value="realised"),
}
RULES = (*REVEALERS, *PACE)
DRAWN = ("action_probability", "action_draw", "intended_action")  # pinned by themselves, in "floors"
LATER = ("eligible", "reason", *DRAWN)  # variables that the first pinned runs did not have


class Pinned(NamedTuple):
    """What is pinned of a run: a hash of every decision, a sum over every number, one over the final states."""

    decisions: str
    numbers: float
    states: float = 0.0


def digest(columns: list[Any]) -> str:
    """A hash of whole numbers and truths, in order."""
    made = hashlib.sha256()
    for column in columns:
        made.update(np.ascontiguousarray(column, dtype=np.int64).tobytes())
    return made.hexdigest()[:16]


def weighted(values: Any) -> float:
    """A sum that moves if any number does, or if two change places; none of them counts for more than 7."""
    numbers = np.nan_to_num(np.asarray(values, dtype=np.float64).ravel(), nan=0.5, posinf=1e3)
    return float((numbers / (1.0 + np.abs(numbers))) @ (1.0 + np.arange(numbers.size) % 7))


def of_dataset(data: xr.Dataset, without: tuple[str, ...] = LATER) -> Pinned:
    """What is pinned of a simulation."""
    names = sorted(str(name) for name in data.data_vars if {"policy", "replicate"} <= set(data[name].dims))
    names = [name for name in names if name not in without]
    whole = [name for name in names if data[name].dtype.kind != "f"]
    return Pinned(
        digest([data[name].values for name in whole]),
        sum(weighted(data[name].values) for name in names if name not in whole),
    )


def of_live(run: AnyRun) -> Pinned:
    """What is pinned of a live run: every proposal and decision, and where each participant's state ends."""
    patients = [Patient(run, who, agent) for who, agent in enumerate(agents_of(run))]
    exact: list[int] = []
    nearly: list[float] = []
    for _ in range(run.horizon):
        for who in run.rng.permutation(run.participants).tolist():
            for event in patients[who].step():
                if event.got is not None:
                    exact += [int(getattr(event.got, name)) for name in EXACT if hasattr(event.got, name)]
                    nearly += [float(getattr(event.got, name)) for name in NEARLY if hasattr(event.got, name)]
    return Pinned(digest([exact]), weighted(nearly), sum(sum_of_state(patient.agent) for patient in patients))


STATE_FIELDS = (
    "theta", "cov", "mean", "width2", "log_det", "radius", "total", "count", "seen", "price", "spent", "nudges",
    "points", "last_reveal", "since", "opened", "debt", "unanswered", "wait", "tally", "recent", "recent_count", "gain",
    "odds", "guard_price", "guard_spent",
)  # fmt: skip


def sum_of_state(agent: op.Agent) -> float:
    """A sum over every part of an agent's state; padding adds nothing."""
    total = 0.0
    for group in (group for name in STATE for group in ARRAYS[name]):
        parts = agent.numbers.at.views(group, agent.numbers.arrays[ARRAY_OF[group]])
        for field, part in parts._asdict().items():
            if field in STATE_FIELDS:
                total += (1.0 + STATE_FIELDS.index(field)) * float((part / (1.0 + np.abs(part))).sum())
    return total


def run_of(rule: str, case: Case) -> AnyRun:
    """The run that a case draws; PACE's have the recommender that goes with it."""
    run = draw_run(case, 0)
    if rule in PACE:
        recommender = run.policy.recommender if case.sampled else op.LinUCB(rotate=True, kappa=0.9)
        budget = run.policy.budget or op.Budget(3)
        run.policy = op.Policy(
            recommender=recommender, revealer=PACE[rule], budget=budget, pooled=run.policy.pooled, name=rule
        )
    return run


def grid(rule: str) -> Iterator[AnyRun]:
    """A rule's runs: what is budgeted, known, visible, lively, shared and recommended taking turns."""
    base = "PD2 adaptive" if rule in PACE else rule
    for case in [*cases(base), *continuous_cases(base)]:
        yield run_of(rule, case)


def pointwise() -> dict[str, Pinned]:
    """Every fourth run of two rules' grids with a pointwise radius, simulated and live."""
    found = {}
    for rule in ("PD2 adaptive", "PACE"):
        for name, pin in (("simulate", simulated), ("live", of_live)):
            for i, run in enumerate(grid(rule)):
                if i % 4 == 0:
                    recommender = op.LinUCB(radius="pointwise", rotate=rule in PACE)
                    run.policy = dataclasses.replace(run.policy, recommender=recommender)
                    found[f"{name} {rule} {i}"] = pin(run)
    return found


def second_edition() -> dict[str, Pinned]:
    """Every fourth run of PACE's grid as `pace_ucb` has it, simulated and live."""
    found = {}
    for name, pin in (("simulate", simulated), ("live", of_live)):
        for i, run in enumerate(grid("PACE")):
            if i % 4 == 1:
                revealer, recommender = op.Pace(), op.LinUCB(rotate=True, radius="pointwise")
                run.policy = dataclasses.replace(run.policy, recommender=recommender, revealer=revealer)
                found[f"{name} {i}"] = pin(run)
    return found


def cohorts() -> dict[str, Pinned]:
    """Runs of PACE's grid whose participants share something: models pooled in part, and the response model."""
    found = {}
    for i, run in enumerate(grid("PACE")):
        if run.case.sharing == "nothing" or i % 3:
            continue
        pointwise = op.LinUCB(rotate=True, radius="pointwise")
        base = dataclasses.replace(
            run.policy, recommender=pointwise, revealer=op.Pace(), pooled="partial", partial_every=3
        )
        run.policy = base
        found[f"in part {i}"] = simulated(run)
        assert run.policy.budget is not None
        shared = dataclasses.replace(run.policy.budget, shared=True)
        run.policy = dataclasses.replace(base, pooled=False, revealer=op.Pace(response=True), budget=shared)
        found[f"response {i}"] = simulated(run)
        found[f"response, live {i}"] = of_live(run)
    return found


def simulated(run: AnyRun) -> Pinned:
    """What is pinned of a run that `simulate` makes."""
    worlds = [run.world(who) for who in range(run.participants)]
    return of_dataset(op.simulate(worlds, run.policy, horizon=run.horizon, replicates=2, seed=run.seed, progress=False))


def printed_pace(budget: float | op.Budget) -> op.Policy:
    """PACE's first edition: the paper's radius and its value of a reveal."""
    return op.pace_ucb(budget, radius="uniform", value="paper")


def study(worlds: Any, policies: Any, *, horizon: int = 20, replicates: int = 2, seed: int = 3) -> xr.Dataset:
    """A simulation of one of the kinds below."""
    return op.simulate(worlds, policies, horizon=horizon, replicates=replicates, seed=seed, progress=False)


def kinds() -> dict[str, Callable[[], xr.Dataset]]:
    """Worlds and recommenders that the grid does not have."""
    known, unknown = op.synthetic_worlds(3, seed=1), op.synthetic_worlds(2, seed=1, contexts=4, actions=3, known=False)
    paper = [op.naive_ucb(6), op.pd1_ucb(6), op.pd2_ucb(6), printed_pace(6)]
    kappa = [
        op.Policy(recommender=op.LinUCB(rotate=rotate, kappa=k), budget=op.Budget(6), name=f"{rotate} {k}")
        for rotate in (False, True)
        for k in (0.0, 0.5, 2.0)
    ]
    references = [
        op.Policy(recommender=op.FixedAction(action=2), budget=op.Budget(4), name="fixed"),
        op.Policy(recommender=op.EqualCoins(), budget=op.Budget(4), name="random"),
        op.Policy(recommender=op.Thompson(), revealer=op.Pace(value="paper"), budget=op.Budget(4), name="Thompson"),
    ]
    optimistic = op.Policy(recommender=op.LinUCB(unknown="optimistic"), budget=op.Budget(4), name="optimistic")
    course = np.random.default_rng(1).dirichlet(np.ones(10), size=7)
    drifting = [op.DriftingWorld.drift(world, course=course, stay=0.4) for world in known]
    resampled: Any = op.Problem.from_formula(
        "1 + x + log1p(y):action + action * mood",
        {"x": op.Number(-1, 1), "y": op.Number(0, 9), "mood": ("low", "high")}, 3,
    )  # fmt: skip
    rows: dict[str, list[Any]] = {"x": [-0.5, 0.1, 0.9], "y": [0.0, 2.5, 8.0], "mood": ["low", "high", "low"]}
    data = op.ContinuousWorld(
        resampled, theta=np.linspace(-0.5, 0.5, resampled.d), table=op.distributions.Resampled(rows), open_rate=0.1
    )
    together = [op.pd2_ucb(op.Budget(9, shared=True), name="PD2"), printed_pace(op.Budget(9, shared=True))]
    return {
        "paper, long": lambda: study(known, paper, horizon=120),
        "paper, unknown p": lambda: study(unknown, paper),
        "kappa and rotation": lambda: study(known, kappa),
        "references": lambda: study(known, references),
        "optimistic": lambda: study(unknown, optimistic, horizon=12),
        "drifting": lambda: study(drifting, paper),
        "resampled": lambda: study(data, [op.pd2_ucb(4), printed_pace(4)]),
        "shared budget": lambda: study(known, together),
        "brushing": lambda: study(
            brushing_world(users=4), [*paper, op.Policy(budget=op.Budget(6), pooled=True, name="pooled")]
        ),
    }


def groups() -> dict[str, Callable[[], dict[str, Pinned]]]:
    """Everything that is pinned, a part at a time."""
    parts: dict[str, Callable[[], dict[str, Pinned]]] = {}
    for rule in RULES:
        parts[f"simulate {rule}"] = partial(of_grid, rule, simulated)
        parts[f"live {rule}"] = partial(of_grid, rule, of_live)
    parts["worlds and recommenders"] = lambda: {name: of_dataset(make()) for name, make in kinds().items()}
    parts["cuda"] = cuda_cases
    parts["pointwise"] = pointwise
    parts["drawn"] = drawn
    parts["PACE, second edition"] = second_edition
    parts["PACE, cohorts"] = cohorts
    parts["worlds and limits"] = worlds_and_limits
    return parts


def drawn() -> dict[str, Pinned]:
    """Actions that are drawn, with their probabilities."""
    worlds = [w.replace(open_rate=0.1, reward_delay=2) for w in op.synthetic_worlds(3, seed=1)]
    pace = op.Pace(value="realised")
    policies = {
        "LinUCB": op.Policy(recommender=op.LinUCB(floor=0.05, rotate=True), revealer=pace, budget=op.Budget(6)),
        "points": op.Policy(recommender=op.Thompson(points=64, floor=0.02), revealer=pace, budget=op.Budget(6)),
        "run-in": op.Policy(recommender=op.LinUCB(floor=0.1), budget=op.Budget(6), limits=op.Limits(run_in=9)),
        "update": op.Policy(recommender=op.LinUCB(floor=0.1), budget=op.Budget(6), update=5),
    }
    return {name: of_dataset(study(worlds, policy, horizon=40), without=LATER[:2]) for name, policy in policies.items()}


def worlds_and_limits() -> dict[str, Pinned]:
    """Worlds from a log and after StepCountJITAI, counts, lasting contexts, a calendar with limits, random effects."""
    known = op.synthetic_worlds(3, seed=1)
    policies = [op.pd2_ucb(6), op.pace_ucb(6)]
    steps = op.StepCountWorld(uncertainty=0.8, response_rate=0.7)
    named = op.Problem.from_formula("action * mood", {"mood": ["low", "high"]}, ["rest", "walk"], [0.4, 0.6])
    rows = {"mood": ["low", "high", "high"] * 10, "action": ["rest", "walk"] * 15, "reward": np.linspace(-1, 2, 30)}
    lively: dict[str, Any] = {"response_spread": 0.5, "habituation": 0.6, "spells": {"rate": 0.1, "days": 2}}
    counts = [w.replace(family="count", bounds=(0.0, 9.0), response_rate=0.7, **lively) for w in known]
    levels = {"mood": ["low", "high"], "place": ["home", "out"]}
    lasting = op.Problem.from_formula("action * (mood + place)", levels, 2, [0.1, 0.4, 0.2, 0.3])
    at_home = op.LinearWorld(lasting, theta=np.linspace(-0.5, 0.5, lasting.d), persistence={"mood": 0.8, "place": 0.3})
    slot = np.array([0, 5, 11])[:, None] + np.arange(28)
    closed = np.where(slot % 2 == 1, QUIET, np.where(slot // 2 % 7 >= 5, HOURS, 0))
    calendar = op.Timetable(closed=closed, hours=12.0 * slot, day=slot // 2, start=slot[:, 0])
    limits = op.Limits(run_in=3, per_week=2, least_hours_between=30.0, per_day=1)
    rules: list[op.Revealer] = [op.FixedRate(), op.PrimalDual(), op.LearningPrimalDual(), op.Pace(), op.Always()]
    limited = [
        op.Policy(recommender=op.LinUCB(), revealer=rule, budget=op.Budget(5), limits=limits, name=rule.kind)
        for rule in rules
    ]
    in_part = op.Policy(
        recommender=op.LinUCB(radius="pointwise"), budget=op.Budget(6, shared=True), pooled="partial", partial_every=3
    )
    runs = {
        "step counts": study([steps], policies, horizon=40),
        "log": study([op.ResampledWorld(named, rows)], policies, horizon=40),
        "counts": study(counts, policies, horizon=30),
        "persistence": study([at_home], policies, horizon=40),
        "calendar and limits": op.simulate(
            [w.replace(open_rate=0.1, response_rate=0.5) for w in known], limited, horizon=28, replicates=2, seed=3,
            timetable=calendar, progress=False,
        ),
        "random effects": study(known, in_part, horizon=30),
    }  # fmt: skip
    return {name: of_dataset(data, without=DRAWN) for name, data in runs.items()}


def of_grid(rule: str, pin: Callable[[AnyRun], Pinned]) -> dict[str, Pinned]:
    """What is pinned of a rule's runs, by number."""
    return {str(i): pin(run) for i, run in enumerate(grid(rule))}


def cuda_cases() -> dict[str, Pinned]:
    """The cases that the CUDA simulator is held to, on the CPU."""
    scope: dict[str, Any] = {}
    exec(CASES, scope)
    return {name: of_dataset(scope["run"](name)) for name in scope["CASES"]}


def stored() -> dict[str, dict[str, Pinned]]:
    """What golden.json has."""
    found = json.loads(STORED.read_text(encoding="utf-8"))
    return {part: {name: Pinned(*each) for name, each in runs.items()} for part, runs in found.items()}


def main() -> None:
    """Write golden.json anew, a run per line."""
    parts = []
    for part, runs in groups().items():
        lines = [f"{json.dumps(name)}: {json.dumps(each)}" for name, each in runs().items()]
        parts.append(f"{json.dumps(part)}: {{\n" + ",\n".join(lines) + "\n}")
    STORED.write_text("{\n" + ",\n".join(parts) + "\n}\n", encoding="utf-8")


if __name__ == "__main__":
    main()
