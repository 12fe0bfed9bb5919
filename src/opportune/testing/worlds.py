"""Rules for worlds: finite numbers, arrivals that depend only on draws, different streams."""

import itertools
from typing import Any

import numpy as np
import xarray as xr

from opportune.engine.declared import WHOLE, Nothing, parts_of
from opportune.problems.settings import Located
from opportune.simulation.visit import visit
from opportune.testing.cases import HORIZON, SEED, must


def check_numbers(who: str, world: Any) -> None:
    """Check that a world's numbers are finite and constant, and that its rates are probabilities."""
    where = "numbers()"
    numbers, again = world.numbers(), world.numbers()
    for name, given in numbers.items():
        values = np.asarray(given, dtype=np.float64)
        must(bool(np.isfinite(values).all()), who, where, f"{name} is not finite; expected finite numbers")
        must(np.array_equal(values, again[name]), who, where, f"a second call gave another {name}; expected the same")
    declared = parts_of(world.declares.settings)
    must(set(numbers) == set(declared), who, where, f"it has {sorted(numbers)}; expected {sorted(declared)}")
    problem = world.informed_problem()
    at = problem.layout(horizon=HORIZON)
    first, second = problem.constants(at, HORIZON), world.informed_problem().constants(at, HORIZON)
    same = np.array_equal(first, second, equal_nan=True)
    must(same, who, "informed_problem()", "a second call gave another problem; expected the same")


def check_arrivals(who: str, world: Any) -> None:
    """Check that arrivals are valid and repeatable, and depend on actions only through the world's own state."""
    problem = world.informed_problem()
    sizes = problem.layout(horizon=HORIZON).sizes
    rng = np.random.default_rng(5)
    plans = [rng.integers(0, sizes.actions, size=HORIZON) for _ in range(2)]
    where = "its own problem"
    first = visit(world, plans[0], seed=SEED, stream=7)
    again = visit(world, plans[0], seed=SEED, stream=7)
    for name in first._fields:
        text = f"a repeated walk gave other {name}; expected draws by opportune.algorithm.rng alone"
        must(np.array_equal(getattr(first, name), getattr(again, name), equal_nan=True), who, where, text)
    limits = (HORIZON + 1, sizes.strata, sizes.senses or max(1, sizes.contexts), max(1, sizes.contexts))
    for i, (name, limit) in enumerate(zip(("step", "stratum", "sense", "context"), limits, strict=True)):
        column = first.moments[:, i]
        bad = column[(column < 0) | (column >= limit)]
        must(bad.size == 0, who, where, f"{name} of a moment is {bad[:1]}; expected 0 to {limit - 1}")
    steps = np.arange(1, HORIZON + 1)
    must(np.array_equal(first.moments[:, 0], steps), who, where, "moments have other steps than they were asked for")
    reward, outcome, best, blind = first.results.T
    finite = {"reward": reward, "outcome": outcome, "blind_value": blind, "values": first.values}
    for name, numbers in finite.items():
        must(bool(np.isfinite(numbers).all()), who, where, f"{name} is not always finite; expected numbers")
    forbidden = [
        problem.forbids(Located(stratum, sense, context, values, (), ()), WHOLE)[action]
        for (_, stratum, sense, context), values, action in zip(
            first.moments.tolist(), first.values[:, :-1], plans[0], strict=True
        )
    ]
    beaten = bool(((outcome > best + 1e-9) & ~np.array(forbidden)).any())
    must(not beaten, who, where, "an outcome beats the best possible one; expected outcome <= best, or best NaN")
    if world.declares.state is Nothing:
        other = visit(world, plans[1], seed=SEED, stream=7)
        same = np.array_equal(first.moments, other.moments) and np.array_equal(first.values, other.values)
        text = "other actions brought other arrivals, but it declares no state; expected arrivals from draws alone"
        must(same, who, where, text)
    walks = [visit(world, plans[0], seed=SEED, stream=stream) for stream in range(4)]
    for one, two in itertools.combinations(walks, 2):
        same = all(np.array_equal(x, y, equal_nan=True) for x, y in zip(one, two, strict=True))
        must(not same, who, where, "two streams brought the same run; expected draws by (seed, stream, step)")


def check_results(who: str, world: Any, data: xr.Dataset) -> None:
    """Check that results of several policies are finite, and that all policies meet the same."""
    where = "its own problem"
    for name in ("outcome", "value"):
        must(bool(np.isfinite(data[name]).all()), who, where, f"{name} is not always finite; expected numbers")
    if world.declares.state is not Nothing:
        return
    for name in ("context", "best", "opened", "available"):
        met = data[name].values
        for i, policy in enumerate(data["policy"].values):
            same = np.array_equal(met[i], met[0], equal_nan=met.dtype.kind == "f")
            must(
                same,
                who,
                where,
                f"policy {policy!r} met another {name} than {str(data['policy'].values[0])!r}; expected the same",
            )
