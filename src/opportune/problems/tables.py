"""Results that depend only on a finite problem's features and probabilities, computed once for many problems.

The participants of a plan are thousands of worlds, each with its own problem, which differ only in bounds.
"""

import functools
import itertools
from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from opportune import checks
from opportune.engine.sizes import Sizes

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
LARGEST = 65_536  # bytes of arguments; beyond this a lookup is no faster than computing again
MOST = 512  # results kept per function: two for each of a study's instances

_R = TypeVar("_R")


def remembered(function: Callable[..., _R]) -> Callable[..., _R]:
    """Cache the last results of a function of arrays; results are shared, so their arrays are read-only."""
    kept: dict[Any, _R] = {}

    @functools.wraps(function)
    def call(*given: Any) -> _R:
        if sum(each.nbytes for each in given if isinstance(each, np.ndarray)) > LARGEST:
            return function(*given)
        key = tuple(map(_key, given))
        found = kept.get(key)
        if found is None:
            found = function(*given)
            arrays: Any = found.values() if isinstance(found, dict) else (found,)
            for each in arrays:
                each.flags.writeable = False
            if len(kept) >= MOST:
                kept.clear()
            kept[key] = found
        return found

    return call


def _key(given: Any) -> Any:
    return (given.tobytes(), given.shape, given.dtype.str) if isinstance(given, np.ndarray) else given


def weighted_sum(weights: Floats, values: Floats) -> Floats:
    """The sum of weights[k] values[k], in order.

    A matrix library would add in the order that suits the processor, so the last bits would differ between machines: a
    study would learn from slightly different features, and ties would break.
    """
    shape = (-1, *([1] * (values.ndim - 1)))
    return np.asarray((weights.reshape(shape) * values).sum(axis=0))


@remembered
def part_means(features: Floats, labels: Ints, parts: int, probs: Floats | None) -> Floats:
    """E[phi(S, a) | part] for each part; uniform within a part whose probability is zero or unknown."""
    out = np.empty((parts, *features.shape[1:]))
    for part in range(parts):
        members = np.flatnonzero(labels == part)
        weight = np.ones(members.size) if probs is None else probs[members]
        if weight.sum() <= 0.0:
            weight = np.ones(members.size)
        out[part] = weighted_sum(weight / weight.sum(), features[members])
    return out


def least_distance(features: Floats, units: Floats) -> float:
    """Dmin: the least positive ||phi[k, a] - phi[k, a']|| over contexts k (or corners) and pairs of different actions.

    Warns if two actions have the same features in some context: with Dmin = 0 any disagreement would count.
    """
    distances = action_distances(features, units)
    if not (distances > 0.0).any():
        checks.warn("all actions have the same features in every context; expected features that differ by action")
        return 0.0
    if distances.min() <= 0.0:
        checks.warn(
            "two actions have the same features in some context, so the least distance Dmin is 0 and PD2 would "
            "nudge at any disagreement; the least positive distance is used instead"
        )
    return float(distances[distances > 0.0].min())


@remembered
def action_distances(features: Floats, units: Floats) -> Floats:
    """||phi[k, a] - phi[k, a']|| for every context and pair of different actions."""
    x = features / units
    pairs = itertools.combinations(range(x.shape[1]), 2)
    return np.concatenate([np.linalg.norm(x[:, a] - x[:, b], axis=1) for a, b in pairs])


@remembered
def constant_parts(
    features: Floats, units: Floats, stratum_of: Ints, sense_of: Ints, probs: Floats | None, sizes: Sizes
) -> dict[str, NDArray[Any]]:
    """The fields of engine.declared.Constants that depend only on features and probabilities."""
    strata, senses = int(stratum_of.max()) + 1, int(sense_of.max()) + 1
    means = part_means(features, stratum_of, strata, probs)
    if sizes.senses:
        means = np.concatenate([means, part_means(features, sense_of, senses, probs)])
    means = means / units
    rows = features / units
    rows = (np.concatenate([rows, means]) if probs is not None else rows).reshape(-1, features.shape[2])
    stratum_of_sense = np.zeros(senses, dtype=np.int64)
    stratum_of_sense[sense_of] = stratum_of
    parts: dict[str, NDArray[Any]] = {
        "rows": rows,
        "stratum_of": stratum_of.copy(),
        "sense_of": sense_of.copy(),
        "stratum_of_sense": stratum_of_sense,
        "start": means,
    }
    if probs is not None:
        blind = means[:strata]
        parts["distance"] = np.linalg.norm(blind[:, :, None] - blind[:, None, :], axis=-1)
        parts["sense_probability"] = np.bincount(sense_of, weights=probs, minlength=senses)
    if sizes.table:
        columns = np.zeros((features.shape[2], sizes.table))
        columns[:, : len(rows)] = rows.T
        parts["columns"] = columns
    if sizes.support:
        places = np.sort(np.argsort(rows == 0.0, axis=1, kind="stable")[:, : sizes.support], axis=1)
        lists = np.zeros_like(rows)
        lists[:, : 2 * sizes.support] = np.concatenate([places, np.take_along_axis(rows, places, axis=1)], axis=1)
        parts["lists"] = lists
    return parts
