"""How a simulated world draws its variables: distributions, each given by numbers for one compiled quantile function.

    Normal(7, 1.5), LogNormal(4000, 0.6), Uniform(0, 1), Truncated(Normal(7, 1.5), 4, 10), Choice({"low": 0.3, ...})
    Resampled.from_csv("people.csv", ["sleep", "steps"])        rows of your own data, jointly

`pack` adapts them to a problem's variables: values outside a variable's bounds are never drawn, and the other
probabilities grow accordingly (a truncated distribution, not a clipped one).
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from opportune import checks
from opportune.algorithm.rng import normal
from opportune.engine.compiled import dual_function
from opportune.errors import InputError
from opportune.problems.variables import MOST_LEVELS, Number, Variable, bounds_of, check_levels, levels_of
from opportune.worlds.resampled import Resampled

__all__ = [
    "Choice", "LogNormal", "Normal", "Packed", "Resampled", "Truncated", "Uniform", "numbers_of", "pack", "quantile",
]  # fmt: skip

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

NORMAL = 0  # centre, spread, first, share, low, high: see _of_normal
LOG_NORMAL = 1  # the same parameters
UNIFORM = 2  # low, width
CHOICE = 3  # n, n cumulative probabilities, n values
RESAMPLED = 4  # rows, the values of one column

BELOW_ONE = 1.0 - 2.0**-53  # the largest uniform draw
LEAST_MASS = 1e-6
"""The least probability between the bounds of a truncated distribution, below which quantiles would be inexact."""


@dual_function
def quantile(kind, parameters, place, u):  # type: ignore[no-untyped-def]
    """The quantile of a distribution at u in [0, 1).

    Args:
        kind: NORMAL, LOG_NORMAL, UNIFORM, CHOICE or RESAMPLED.
        parameters: a flat array with the parameters of all distributions.
        place: where the parameters of this one begin.
        u: a uniform draw.

    """
    if kind == UNIFORM:
        return parameters[place] + parameters[place + 1] * u
    if kind == CHOICE:
        n = int(parameters[place])
        chosen = 0
        for i in range(n - 1):
            chosen += parameters[place + 1 + i] <= u
        return parameters[place + 1 + n + chosen]
    if kind == RESAMPLED:
        return parameters[place + 1 + int(u * parameters[place])]
    z = normal(min(parameters[place + 2] + parameters[place + 3] * u, BELOW_ONE))
    value = parameters[place] + parameters[place + 1] * z
    if kind == LOG_NORMAL:
        value = math.exp(value)
    return min(max(value, parameters[place + 4]), parameters[place + 5])  # a rounding error beyond the bounds


@dataclass(frozen=True)
class Normal:
    """The normal distribution with this mean and standard deviation."""

    mean: float
    sd: float

    def __post_init__(self) -> None:
        checks.real("mean of Normal", self.mean)
        checks.scale("sd of Normal", self.sd)


@dataclass(frozen=True)
class LogNormal:
    """The distribution of median * exp(sigma Z), Z standard normal."""

    median: float
    sigma: float

    def __post_init__(self) -> None:
        checks.scale("median of LogNormal", self.median)
        checks.scale("sigma of LogNormal", self.sigma)

    @classmethod
    def from_mean(cls, mean: float, sd: float) -> "LogNormal":
        """The lognormal distribution with this mean and standard deviation."""
        mean = checks.scale("mean of LogNormal", mean)
        ratio = checks.scale("sd of LogNormal", sd) / mean
        variance = math.log1p(ratio * ratio)
        return cls(mean * math.exp(-0.5 * variance), math.sqrt(variance))


@dataclass(frozen=True)
class Uniform:
    """The uniform distribution between two numbers."""

    low: float
    high: float

    def __post_init__(self) -> None:
        low, high = checks.real("low of Uniform", self.low), checks.real("high of Uniform", self.high)
        if low >= high:
            raise InputError(f"Uniform is from {low:g} to {high:g}; expected low < high")


@dataclass(frozen=True)
class Truncated:
    """A distribution conditional on lying between two numbers."""

    base: "Normal | LogNormal | Uniform | Truncated"
    low: float
    high: float

    def __post_init__(self) -> None:
        if not isinstance(self.base, Normal | LogNormal | Uniform | Truncated):
            raise InputError(f"base of Truncated is {checks.brief(self.base)}; expected Normal, LogNormal or Uniform")
        low, high = checks.real("low of Truncated", self.low), checks.real("high of Truncated", self.high)
        if low >= high:
            raise InputError(f"Truncated is from {low:g} to {high:g}; expected low < high")
        numbers_of(self)  # raises an error if there is hardly any mass between the bounds


@dataclass(frozen=True)
class Choice:
    """One of some levels, or numbers, with given probabilities: {"low": 0.3, "high": 0.7}."""

    probabilities: Mapping[Any, float]

    def __post_init__(self) -> None:
        given = self.probabilities
        if not isinstance(given, Mapping) or not given:
            raise InputError(f"probabilities of Choice is {checks.brief(given)}; expected {{level: probability}}")
        checks.size("Choice has", len(given), MOST_LEVELS, "levels")
        checks.probabilities("probabilities of Choice", list(given.values()), len(given))
        chances = {
            check_levels("Choice", [level], "levels")[0]: checks.real("a probability of Choice", chance, least=0.0)
            for level, chance in given.items()
        }
        checks.keep(self, probabilities=chances)

    def __hash__(self) -> int:
        return hash(tuple(self.probabilities.items()))


Distribution = Normal | LogNormal | Uniform | Truncated | Choice
"""A distribution of one variable."""


class Numbers(NamedTuple):
    """A distribution as parameters of `quantile`, and its mean."""

    kind: int
    parameters: tuple[float, ...]
    mean: float


class Packed(NamedTuple):
    """The draws of all variables of a problem: variable v is quantile(kinds[v], parameters, places[v], u).

    `uniforms` contains the index of u among the moment's uniform draws: variables of one table share theirs. Scheduled
    variables, which are not drawn, have kind -1.
    """

    kinds: Ints
    places: Ints
    uniforms: Ints
    parameters: Floats
    means: Floats


def numbers_of(distribution: Distribution, bounds: Number | None = None) -> Numbers:
    """A distribution as numbers, truncated to bounds if there are any."""
    low, high = (-math.inf, math.inf) if bounds is None else (bounds.low, bounds.high)
    base: Distribution = distribution
    while isinstance(base, Truncated):
        low, high, base = max(low, float(base.low)), min(high, float(base.high)), base.base
    if isinstance(base, Choice):
        return _of_choice(base, low, high)
    if isinstance(base, Uniform):
        low, high = max(low, float(base.low)), min(high, float(base.high))
        if not (high - low) >= LEAST_MASS * (base.high - base.low):
            raise _outside(base, low, high)
        return Numbers(UNIFORM, (low, high - low), low + 0.5 * (high - low))
    if isinstance(base, Normal):
        return _of_normal(base, low, high)
    return _of_log_normal(base, low, high)


def pack(variables: Mapping[str, Variable], distributions: Mapping[str, Distribution], *,
         table: Resampled | None = None) -> Packed:  # fmt: skip
    """The draws of a problem's variables, as numbers.

    Args:
        variables: the problem's, in order.
        distributions: the distribution of each variable that is neither scheduled nor in the table.
        table: rows to draw variables from jointly. Rows outside the bounds of a variable are never drawn.

    """
    resampled = {} if table is None else _rows_inside(variables, table)
    for name in (*distributions, *resampled):
        checks.choice("variable with a distribution", name, variables)
    kinds, places, uniforms, means = [], [], [], []
    parameters: list[float] = []
    fresh = 1 if resampled else 0  # the first uniform is the table's
    for name, variable in variables.items():
        if name in resampled and name in distributions:
            raise InputError(f"variable {name!r} has a distribution and is in the table; expected one of them")
        if name not in resampled and name not in distributions:
            numbers = _scheduled(name, variable)
        elif name in resampled:
            column = resampled[name]
            numbers = Numbers(RESAMPLED, (float(column.size), *column), float(column.mean()))
        else:
            numbers = _fitting(name, variable, distributions[name])
        kinds.append(numbers.kind)
        places.append(len(parameters))
        uniforms.append(0 if name in resampled else fresh)
        means.append(numbers.mean)
        parameters += numbers.parameters
        fresh += name in distributions
    return Packed(np.array(kinds), np.array(places), np.array(uniforms), np.array(parameters), np.array(means))


def _of_normal(base: Normal, low: float, high: float) -> Numbers:
    """A truncated normal: centre + spread * normal(first + share u), spread and share < 0 in the upper tail.

    The upper tail is computed as the mirrored lower one, since probabilities are exact near 0 but not near 1.
    """
    from scipy.special import ndtr  # noqa: PLC0415  (slow to import)

    mean, sd = float(base.mean), float(base.sd)
    a, b = (low - mean) / sd, (high - mean) / sd
    share = _mass(a, b)
    if share < LEAST_MASS:
        raise _outside(base, low, high)
    expected = _inside(mean + sd * (_density(a) - _density(b)) / share, low, high)
    if a > 0.0:
        return Numbers(NORMAL, (mean, -sd, float(ndtr(-a)), -share, low, high), expected)
    return Numbers(NORMAL, (mean, sd, float(ndtr(a)), share, low, high), expected)


def _of_log_normal(base: LogNormal, low: float, high: float) -> Numbers:
    """The exponential of a truncated normal, with mean exp(mu + sigma^2 / 2) P(a - sigma, b - sigma) / P(a, b)."""
    mu, sigma = math.log(base.median), float(base.sigma)
    logs = [math.log(x) if x > 0.0 else -math.inf for x in (low, high)]
    if logs[1] == -math.inf:
        raise _outside(base, low, high)
    try:
        inner = _of_normal(Normal(mu, sigma), *logs)
    except InputError:
        raise _outside(base, low, high) from None
    a, b = ((x - mu) / sigma for x in logs)
    mean = math.exp(min(mu + 0.5 * sigma * sigma, 700.0)) * _mass(a - sigma, b - sigma) / _mass(a, b)
    low = max(low, 0.0)
    return Numbers(LOG_NORMAL, (*inner.parameters[:4], low, high), _inside(mean, low, high))


def _of_choice(base: Choice, low: float, high: float) -> Numbers:
    """A choice among the numbers between the bounds."""
    inside = {}
    for value, probability in base.probabilities.items():
        number = checks.real("a value of Choice", value)
        if low <= number <= high:
            inside[number] = float(probability)
    total = sum(inside.values())
    if total < LEAST_MASS:
        raise _outside(base, low, high)
    shares = np.array(list(inside.values())) / total
    values = np.array(list(inside))
    return Numbers(CHOICE, (float(values.size), *np.cumsum(shares), *values), float(shares @ values))


def _fitting(name: str, variable: Variable, distribution: Distribution) -> Numbers:
    """A variable's distribution, checked against the variable."""
    levels = levels_of(variable)
    if levels is None:
        if not isinstance(distribution, Distribution):
            raise InputError(
                f"distribution of {name!r} is {checks.brief(distribution)}; "
                "expected Normal, LogNormal, Uniform, Truncated or Choice"
            )
        try:
            return numbers_of(distribution, bounds_of(variable))
        except InputError as error:
            raise InputError(f"distribution of {name!r}: {error}") from None
    if not isinstance(distribution, Choice):
        raise InputError(
            f"distribution of {name!r} is {checks.brief(distribution)}; expected a Choice among its levels"
        )
    for level in distribution.probabilities:
        if level not in levels:
            raise InputError(
                f"distribution of {name!r} has level {level!r}; expected one of {checks.brief(list(levels))}"
            )
    return _of_choice(
        Choice({levels.index(level): p for level, p in distribution.probabilities.items()}), -math.inf, math.inf
    )


def _scheduled(name: str, variable: Variable) -> Numbers:
    """A variable that is not drawn because it follows the schedule."""
    if isinstance(variable, Number | tuple):
        raise InputError(f"variable {name!r} has no distribution; expected one, or a column of the table")
    return Numbers(-1, (), math.nan)


def _rows_inside(variables: Mapping[str, Variable], table: Resampled) -> dict[str, Floats]:
    """The table's columns as numbers (levels by number), without rows outside the bounds of a variable."""
    columns = {}
    for name, values in table.columns.items():
        checks.choice("column of the table", name, variables)
        levels = levels_of(variables[name])
        if levels is None:
            columns[name] = np.array([checks.real(f"{name!r} in the table", value) for value in values])
        else:
            columns[name] = np.array([_level(name, levels, value) for value in values])
    keep = np.ones(len(next(iter(columns.values()))), dtype=np.bool_)
    for name, column in columns.items():
        bounds = bounds_of(variables[name])
        if bounds is not None:
            keep &= (bounds.low <= column) & (column <= bounds.high)
    if not keep.any():
        raise InputError("no row of the table lies between the bounds of its variables; expected at least one")
    return {name: column[keep] for name, column in columns.items()}


def _level(name: str, levels: tuple[Any, ...], value: Any) -> float:
    """The number of a level, which a file may have written as text or as a number."""
    texts = [str(level) for level in levels]
    if value in levels:
        return float(levels.index(value))
    if str(value) not in texts:
        raise InputError(
            f"{name!r} in the table has {checks.brief(value)}; expected one of {checks.brief(list(levels))}"
        )
    return float(texts.index(str(value)))


def _mass(a: float, b: float) -> float:
    """P(a < Z < b) of a standard normal Z, from the tail that contains both bounds, if one does."""
    from scipy.special import ndtr  # noqa: PLC0415  (slow to import)

    if a > 0.0:
        a, b = -b, -a
    return float(ndtr(b) - ndtr(a))


def _density(z: float) -> float:
    return math.exp(-0.5 * z * z) / math.sqrt(2.0 * math.pi)


def _inside(value: float, low: float, high: float) -> float:
    return min(max(value, low), high)


def _outside(base: Distribution, low: float, high: float) -> InputError:
    return InputError(f"{base!r} has hardly any mass from {low:g} to {high:g}; expected at least {LEAST_MASS:g}")
