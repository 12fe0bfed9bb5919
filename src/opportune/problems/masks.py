"""Which actions are allowed in each of finitely many contexts, for agents who see all of a context or a part of it."""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from opportune import checks
from opportune.engine.declared import WHOLE
from opportune.errors import InputError
from opportune.problems.conditions import Conditions, no_action
from opportune.problems.settings import VISIBILITIES, check_visibility, schedule_of

Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]


class Masks(NamedTuple):
    """The forbidden actions for each view of a context (engine.declared), a row for each part: [parts, A]."""

    public: Mask
    sensed: Mask
    whole: Mask


def table_of(
    never_if: Any, contexts: Mapping[str, Any], levels: Mapping[str, tuple[Any, ...]], actions: Sequence[str],
    settings: Mapping[str, Any],
) -> Mask:  # fmt: skip
    """allowed[K, A] computed from conditions; `settings` are those of the problem."""
    schedule = schedule_of(contexts, settings.get("decisions_per_day"))
    seen = check_visibility(settings.get("visibility"), levels, schedule.variables)
    sizes = [len(each) for each in levels.values()]
    places = np.stack(np.unravel_index(np.arange(int(np.prod(sizes))), sizes), axis=1).astype(np.float64)
    return ~Conditions(never_if, settings.get("when_unknown"), actions, levels, seen).forbidden(places, WHOLE)


def check_allowed(value: Any, contexts: int, actions: int) -> Mask | None:
    """allowed[K, A], True where an action may be recommended; None if all actions are always allowed."""
    if value is None:
        return None
    given = checks.numbers("allowed", value, f"True or False, [{contexts}, {actions}]", truths=True)
    if given.shape != (contexts, actions):
        raise InputError(f"allowed has shape {list(given.shape)}; expected [{contexts}, {actions}]")
    if not np.isin(given, (0.0, 1.0)).all():
        raise InputError("allowed holds numbers other than 0 and 1; expected True or False")
    return None if given.all() else given.astype(np.bool_)


def masks_of(problem: Any) -> Masks:
    """The masks of a finite problem."""
    labels, parts = _parts_of(problem)
    if problem.allowed is None:
        return Masks(*(np.zeros((n, problem.actions), dtype=np.bool_) for n in parts))
    in_doubt = np.array([problem.when_unknown.get(name, "forbid") == "forbid" for name in problem.action_names])
    return Masks(*(forbidden_in_parts(problem.allowed, in_doubt, *each) for each in zip(labels, parts, strict=True)))


def check_masks(problem: Any) -> None:
    """Reject a finite problem that leaves no action in some context, for any view of it."""
    labels, _ = _parts_of(problem)
    for view in (WHOLE, *range(WHOLE)):
        none = np.flatnonzero(problem.masks[view].all(axis=1))
        if none.size:
            levels = problem.levels(int(np.flatnonzero(labels[view] == none[0])[0]))
            seen = VISIBILITIES[: view + 1]
            found = [f"{name} = {level}" for name, level in levels.items() if problem.visibility[name] in seen]
            raise no_action(", ".join(found), in_doubt=len(found) < len(levels))


def _parts_of(problem: Any) -> tuple[tuple[Ints, ...], tuple[int, ...]]:
    """For each view, the part of each context and the number of parts."""
    labels = (problem.stratum_of, problem.sense_of, np.arange(problem.contexts))
    return labels, (problem.strata, problem.senses, problem.contexts)


def forbidden_in_parts(allowed: Mask, in_doubt: Mask, labels: Ints, parts: int) -> Mask:
    """The actions forbidden to an agent who knows only the part of a context, [parts, A].

    If an action is forbidden in some contexts of the part but not in all, `in_doubt` decides.
    """
    forbidden = np.zeros((parts, allowed.shape[1]))
    np.add.at(forbidden, labels, ~allowed)
    sizes = np.bincount(labels, minlength=parts)[:, None]
    return np.asarray(np.where(in_doubt, forbidden > 0, (forbidden == sizes) & (sizes > 0)))
