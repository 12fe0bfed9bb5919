"""What worlds must keep to: finite numbers, arrivals from draws alone, streams of their own."""

import itertools
from typing import Any

import numpy as np
import xarray as xr

from opportune.simulation.visit import visit
from opportune.testing.cases import HORIZON, SEED, must
from opportune.worlds.common import AVAILABLE_RATE, OPEN_RATE, RESPONSE_RATE, REWARD_DELAY, REWARD_RATE


def check_numbers(who: str, world: Any) -> None:
    """A world's numbers are finite and always the same, and say rates that are probabilities."""
    where = "numbers()"
    numbers = np.asarray(world.numbers())
    must(numbers.ndim == 1 and numbers.dtype == np.float64, who, where, "expected a flat array of float64 numbers")
    must(bool(np.isfinite(numbers).all()), who, where, "a number is not finite; expected finite ones")
    must(np.array_equal(numbers, world.numbers()), who, where, "a second call gave others; expected the same")
    rates = numbers[[OPEN_RATE, RESPONSE_RATE, AVAILABLE_RATE, REWARD_RATE]]
    must(bool(((rates >= 0.0) & (rates <= 1.0)).all()), who, where, f"rates are {rates}; expected probabilities")
    late = float(numbers[REWARD_DELAY])
    delay = world.happenings.reward_delay
    must(late == delay, who, where, f"reward_delay is {late:g}; expected {delay}, as happenings say")
    problem = world.informed_problem()
    at = problem.layout(horizon=HORIZON)
    first, second = problem.constants(at, HORIZON), world.informed_problem().constants(at, HORIZON)
    same = np.array_equal(first, second, equal_nan=True)
    must(same, who, "informed_problem()", "a second call gave another problem; expected the same")


def check_arrivals(who: str, world: Any) -> None:
    """What arrives exists, repeats itself, does not depend on what is done (but through the world's own state)."""
    problem = world.informed_problem()
    sizes = problem.layout(horizon=HORIZON).sizes
    rng = np.random.default_rng(5)
    plans = [rng.integers(0, sizes.actions, size=HORIZON) for _ in range(2)]
    where = "its own problem"
    first = visit(world, plans[0], seed=SEED, stream=7)
    again = visit(world, plans[0], seed=SEED, stream=7)
    for name in first._fields:
        text = f"the same walk once more gave other {name}; expected draws by opportune.algorithm.rng alone"
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
    beaten = bool((outcome > best + 1e-9).any())
    must(not beaten, who, where, "an outcome beats the best possible one; expected outcome <= best, or best NaN")
    if world.history == 0:
        other = visit(world, plans[1], seed=SEED, stream=7)
        same = np.array_equal(first.moments, other.moments) and np.array_equal(first.values, other.values)
        text = "other actions brought other arrivals, but history is 0; expected arrivals from draws alone"
        must(same, who, where, text)
    walks = [visit(world, plans[0], seed=SEED, stream=stream) for stream in range(4)]
    for one, two in itertools.combinations(walks, 2):
        same = all(np.array_equal(x, y, equal_nan=True) for x, y in zip(one, two, strict=True))
        must(not same, who, where, "two streams brought the same run; expected draws by (seed, stream, step)")


def check_results(who: str, world: Any, data: xr.Dataset) -> None:
    """Simulated with several policies: results are finite, and all policies meet the same."""
    where = "its own problem"
    for name in ("outcome", "value"):
        must(bool(np.isfinite(data[name]).all()), who, where, f"{name} is not always finite; expected numbers")
    if world.history > 0:
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
