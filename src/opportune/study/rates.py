"""Rates of [world] that differ by level of a public variable."""

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from opportune.errors import InputError
from opportune.problems.variables import Number
from opportune.study.arrivals import baseline_of
from opportune.study.base import show
from opportune.study.schema import StudyFile

if TYPE_CHECKING:
    from opportune.study.build import Study


def variable_of_rates(settings: StudyFile, rates: Mapping[str, float]) -> str:
    """The public variable whose levels the rates name; raises `InputError` if there is none or more than one."""
    levels = public_levels(settings)
    found = [name for name, known in levels.items() if set(rates) <= set(known)]
    if len(found) == 1:
        return found[0]
    if found:
        raise InputError(
            f"is {show(rates)}, which {' and '.join(found)} both have; expected levels that tell them apart"
        )
    known = "; ".join(f"{name}: {', '.join(known)}" for name, known in levels.items()) or "there is none"
    raise InputError(f"is {show(rates)}; expected a rate for each level of one public variable ({known})")


def public_levels(settings: StudyFile) -> dict[str, list[str]]:
    """The levels of public variables as texts, except for numeric variables."""
    own = {name: table.known_levels for name, table in settings.variables.items() if table.seen_as == "public"}
    baseline = {name: values for name, values in baseline_of(settings).items() if not isinstance(values, Number)}
    return {name: [str(level) for level in levels] for name, levels in {**own, **baseline}.items() if levels}


def changed_rate(rate: float | dict[str, float], *, factor: float = 1.0, plus: float = 0.0) -> float | dict[str, float]:
    """A rate times a factor plus a number, at most 1; applied to each level of a rate by level."""
    if isinstance(rate, dict):
        return {level: min(1.0, value * factor + plus) for level, value in rate.items()}
    return min(1.0, rate * factor + plus)


def rate_in_words(rate: float | dict[str, float], form: str = ".2g") -> str:
    """A rate in words: "0.4", or "0.4 (morning), 0.8 (evening)"."""
    if isinstance(rate, dict):
        return ", ".join(f"{value:{form}} ({level})" for level, value in rate.items())
    return f"{rate:{form}}"


def by_stratum(study: "Study", rate: float | dict[str, float], problem: Any) -> float | NDArray[np.float64]:
    """A rate in the form that worlds take: a number, or one per public stratum."""
    if not isinstance(rate, dict):
        return rate
    name = variable_of_rates(study.settings, rate)
    return np.array([rate[str(levels[name])] for levels in problem.public_levels()])
