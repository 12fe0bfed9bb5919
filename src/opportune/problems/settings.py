"""Settings that every kind of problem has, checked at the door."""

import math
from collections.abc import Iterable, Mapping
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from opportune import checks
from opportune.errors import InputError

Visibility = Literal["public", "sensed", "reported"]
VISIBILITIES = ("public", "sensed", "reported")
MOST_ACTIONS = 127


class Located(NamedTuple):
    """A context as the algorithm takes it."""

    stratum: int
    sense: int  # contexts finite; else 0
    context: int  # contexts finite; else 0; -1 where a reported variable is not known
    values: NDArray[np.float64]  # contexts not finite; else empty
    missing: tuple[str, ...]  # sensed variables that were not given: the decision point counts as missing
    unreported: tuple[str, ...]  # reported variables that were not given


class Moment(NamedTuple):
    """A context in numbers.

    `values` has one entry per variable (numbers as they are, levels by their number) and one for the action. Where a
    sensed or reported variable was not given it has a stand-in there, and its name is in `missing` or `unreported`.
    """

    values: NDArray[np.float64]
    missing: tuple[str, ...]
    """Sensed variables that were not given: the decision point counts as missing."""
    unreported: tuple[str, ...]
    """Reported variables that were not given, as is usual before a reveal."""


def check_value_range(value: Any) -> tuple[float, float] | None:
    """(u_min, u_max), if there is one."""
    if value is None:
        return None
    try:
        low, high = value
    except (TypeError, ValueError):
        raise InputError(f"value_range is {value!r}; expected (u_min, u_max)") from None
    low, high = checks.real("value_range[0]", low), checks.real("value_range[1]", high)
    if low >= high:
        raise InputError(f"value_range is ({low:g}, {high:g}); expected u_min < u_max")
    return low, high


def check_visibility(value: Any, variables: Mapping[str, Any], known: Iterable[str] = ()) -> dict[str, Visibility]:
    """Who sees each variable: as given, public for those that are `known` from a schedule, else sensed."""
    visibility: dict[str, Visibility] = dict.fromkeys(variables, "sensed")
    for name in known:
        visibility[name] = "public"
    if value is not None and not isinstance(value, Mapping):
        raise InputError(f"visibility is {value!r}; expected {{variable: visibility}}")
    for name, seen in (value or {}).items():
        checks.choice("visibility of variable", name, variables)
        checks.choice(f"visibility of {name!r}", seen, VISIBILITIES)
        if name in known and seen != "public":
            raise InputError(f"visibility of {name!r} is {seen!r}; expected 'public', as its schedule is known")
        visibility[name] = seen
    return visibility


def check_action_names(value: Any, setting: str = "actions") -> tuple[str, ...]:
    """Names of the actions, given as such or by their number; `setting` is what messages call them."""
    if isinstance(value, str):
        raise InputError(f"{setting} is {value!r}; expected a list of names")
    if not isinstance(value, Iterable):
        value = range(checks.whole(setting, value, least=2, most=MOST_ACTIONS))
    names = tuple(str(name) for name in value)
    if not 2 <= len(names) <= MOST_ACTIONS:
        raise InputError(f"{setting} is {list(names)}; expected 2 to {MOST_ACTIONS} to choose from")
    if len(set(names)) < len(names):
        raise InputError(f"{setting} has a name twice: {list(names)}")
    return names


def knowledge(problem: Any, horizon: int) -> dict[str, Any]:
    """The numbers that the constants of any problem hold."""
    return {
        "noise": problem.noise_sd,
        "regularisation": problem.regularisation,
        "prior": math.sqrt(problem.regularisation) * problem.theta_bound,
        "confidence": 2.0 * math.log(1.0 / problem.delta),
        "delta": problem.delta,
        "horizon": horizon,
    }
