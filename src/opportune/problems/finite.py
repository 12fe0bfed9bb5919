"""`Problem`: what the agents know beforehand if there are finitely many contexts."""

import functools
import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from types import MappingProxyType
from typing import Any, overload

import numpy as np
from numpy.typing import NDArray

from opportune import checks
from opportune.engine.declared import KNOWN, OPTIMISTIC, PLUGIN
from opportune.engine.layout import Layout, layout
from opportune.errors import InputError
from opportune.problems.conditions import check_when_unknown
from opportune.problems.continuous import ContinuousProblem
from opportune.problems.history import History
from opportune.problems.masks import Masks, check_allowed, check_masks, masks_of, table_of
from opportune.problems.settings import (
    MOST_ACTIONS,
    MOST_CONTEXTS,
    VISIBILITIES,
    Beliefs,
    Located,
    Visibility,
    check_action_names,
    check_described,
    check_finite_variables,
    check_names_action,
    check_visibility,
    schedule_of,
    units_of,
)
from opportune.problems.tables import constant_parts, least_distance, part_means
from opportune.problems.terms import term_names
from opportune.problems.variables import DayOfStudy, Finite, Number, Schedule, level_number, to_json

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
_NO_VALUES: Floats = np.zeros(0)


class Problem(Beliefs):
    """What both agents know beforehand about a decision problem with finitely many contexts.

    Args:
        features: phi[K, A, d], the feature vector of each context and action.
        context_probs: the probability of each context, or None if it must be learned.
        noise_sd: sd of the reward's noise, the scale R of the confidence radius.
        theta_bound: W, a bound on the norm of the true parameter, where large features count in their `units`.
        value_range: (u_min, u_max), bounds on the best expected reward; scale `range` needs it.
        largest_gap: the largest true gap; scale `gap` needs it. A world that knows the truth supplies it.
        delta: the confidence sets hold with probability 1 - delta.
        regularisation: lam for any radius; by default 1/W^2, or d R^2/W^2 for a pointwise radius.
        prior_mean: the expected theta, a number for each feature; by default 0.
        prior_sd: the prior standard deviation of each number of theta; by default W / sqrt(d).
        variables: names and levels of the variables that make up a context, first one slowest; their numbers
            of levels multiply to K. By default a context is one variable called "context". TimeOfDay, Weekday and
            Weekend are public variables that follow the schedule.
        visibility: who sees a variable: "public", "sensed" (the default) or "reported".
        action_names: names of the actions.
        decisions_per_day: by default the number of times of day, or 1 if there are none.
        allowed: [K, A], whether an action may be recommended in a context; by default always.
        when_unknown: {action: "forbid" or "allow"}: whether an action is forbidden while unseen variables leave open
            whether it is allowed; by default "forbid".

    """

    def __init__(
        self,
        features: Any,
        context_probs: Any = None,
        *,
        noise_sd: float = 1.0,
        theta_bound: float = 1.0,
        value_range: tuple[float, float] | None = None,
        largest_gap: float | None = None,
        delta: float = 0.05,
        regularisation: float | None = None,
        prior_mean: Sequence[float] | None = None,
        prior_sd: Sequence[float] | None = None,
        variables: Mapping[str, Iterable[Any] | Finite] | None = None,
        visibility: Mapping[str, Visibility] | None = None,
        action_names: Sequence[str] | None = None,
        decisions_per_day: int | None = None,
        allowed: Any = None,
        when_unknown: Mapping[str, str] | None = None,
    ) -> None:
        self.features: Floats = checks.array("features", features, ("contexts", "actions", "d"))
        self.contexts, self.actions, self.d = self.features.shape
        if self.actions < 2:
            raise InputError(f"features has {self.actions} action; expected at least 2 to choose from")
        if self.contexts > MOST_CONTEXTS or self.actions > MOST_ACTIONS:
            raise InputError(
                f"features has {self.contexts} contexts and {self.actions} actions; "
                f"expected at most {MOST_CONTEXTS} and {MOST_ACTIONS}"
            )
        self.context_probs: Floats | None = None
        if context_probs is not None:
            self.context_probs = checks.probabilities("context_probs", context_probs, self.contexts)
        self._believe(
            noise_sd=noise_sd, theta_bound=theta_bound, value_range=value_range, largest_gap=largest_gap, delta=delta,
            regularisation=regularisation, prior_mean=prior_mean, prior_sd=prior_sd,
        )  # fmt: skip
        self.schedule = schedule_of(variables, decisions_per_day)
        self.variables = check_finite_variables(variables, self.contexts)
        self.visibility = check_visibility(visibility, self.variables, self.schedule.variables)
        self.action_names = _action_names(action_names, self.actions)
        self.stratum_of, self.strata = self._parts(("public",))
        self.sense_of, self.senses = self._parts(("public", "sensed"))
        self.allowed = check_allowed(allowed, self.contexts, self.actions)
        self.when_unknown = check_when_unknown(when_unknown, self.action_names)
        check_masks(self)

    @overload
    @classmethod
    def from_formula(
        cls, formula: str, contexts: Mapping[str, Iterable[Any]], actions: int | Sequence[str],
        context_probs: Any = None, **settings: Any,
    ) -> "Problem": ...  # fmt: skip

    @overload
    @classmethod
    def from_formula(
        cls, formula: str, contexts: Mapping[str, Any], actions: int | Sequence[str],
        context_probs: Any = None, **settings: Any,
    ) -> "Problem | ContinuousProblem": ...  # fmt: skip

    @classmethod
    def from_formula(
        cls,
        formula: str,
        contexts: Mapping[str, Any],
        actions: int | Sequence[str],
        context_probs: Any = None,
        **settings: Any,
    ) -> "Problem | ContinuousProblem":
        """A problem from named variables and a formula over them and `action`, such as "action + s + action:s".

        Numbers enter as they are and text variables by their levels; `action` enters by its levels, with the first as
        reference. There is no intercept unless the formula adds one with "1 + ...".

        `never_if` defines when an action is forbidden, {action: condition}, and `when_unknown` what applies while that
        depends on an unseen variable, {action: "forbid" or "allow"} (docs/safety.md).

        If a variable is a Number or a DayOfStudy, contexts are not finite and the result is a ContinuousProblem.
        """
        if isinstance(contexts, Mapping) and any(
            isinstance(v, Number | DayOfStudy | History) for v in contexts.values()
        ):
            if context_probs is not None:
                raise InputError("context_probs were given, but contexts are not a finite set; expected known_means")
            checks.settings(
                "ContinuousProblem", settings, ContinuousProblem, without=("formula", "variables", "actions")
            )
            return ContinuousProblem(formula, contexts, actions, **settings)
        from opportune.problems.formula import design  # noqa: PLC0415  (formulaic is slow to import)

        taken = ("features", "context_probs", "variables", "action_names", "allowed")
        known = {name: value for name, value in settings.items() if name != "never_if"}
        checks.settings("Problem", known, cls, without=taken)
        levels = check_finite_variables(checks.mapping("contexts", contexts, "{variable: levels}"), None)
        names = check_action_names(actions)
        features = design(formula, levels, names)
        check_names_action(formula)
        if (never_if := settings.pop("never_if", None)) is not None:
            settings["allowed"] = table_of(never_if, contexts, levels, names, settings)
        problem = cls(features, context_probs, variables=contexts, action_names=names, **settings)
        problem.formula = formula
        return problem

    formula: str | None = None  # the formula that features come from, if any

    @cached_property
    def terms(self) -> tuple[str, ...]:
        """The names of the features, such as "action=walk:stress", if they come from a formula."""
        if self.formula is None:
            raise InputError(
                "the features were given as numbers; expected Problem.from_formula, whose terms have names"
            )
        return term_names(self.formula, self.variables, self.action_names)

    @property
    def reported(self) -> bool:
        """Whether some variable is hidden from both agents until a reveal."""
        return bool(self.senses < self.contexts)

    @cached_property
    def support(self) -> int:
        """The most features of any action that are nonzero in at least one context."""
        return int((self.features != 0.0).any(axis=0).sum(axis=1).max())

    @cached_property
    def units(self) -> Floats:
        """The divisor of each feature, 1 unless the feature is large; W, lam and distances refer to quotients: [d]."""
        return units_of(np.abs(self.features).max(axis=(0, 1)))

    @cached_property
    def masks(self) -> Masks:
        """The forbidden actions, for each view of a context."""
        return masks_of(self)

    @property
    def always_allowed(self) -> tuple[int, ...]:
        """The numbers of the actions that are allowed at every moment."""
        return tuple(np.flatnonzero(~self.masks.whole.any(axis=0)).tolist())

    def forbids(self, place: Located, view: int) -> NDArray[np.bool_]:
        """Which actions [A] are forbidden in a context, given what this view (engine.declared) sees of it."""
        return np.array(self.masks[view][(place.stratum, place.sense, place.context)[view]])

    @cached_property
    def least_distance(self) -> float:
        """Dmin over contexts (`problems.tables.least_distance`)."""
        return least_distance(self.features, self.units)

    def means(self, labels: Ints, parts: int, probs: Floats | None) -> Floats:
        """E[phi(S, a) | part] for each part; uniform within a part whose probability is zero or unknown."""
        return part_means(self.features, labels, parts, probs).copy()

    def index(self, context: Any) -> int:
        """The number of a context, given as this number or as its variables' levels {name: level}."""
        if isinstance(context, Mapping):
            return self._index_of_levels(context)
        if isinstance(context, float | np.floating) and not float(context).is_integer():
            return checks.whole("context", context, least=0, most=self.contexts - 1)  # raises the error
        number = int(context) if isinstance(context, float | np.floating) else context
        return checks.whole("context", number, least=0, most=self.contexts - 1)

    def locate(self, context: Any, step: int) -> Located:
        """A context at a step, in the form that the algorithm expects: a number, or {variable: level}.

        Scheduled variables default to their levels at the step (from 1). Public variables are required; others may be
        missing or None.
        """
        step = checks.whole("step", step, least=1)
        if not isinstance(context, Mapping):
            return self._places[self.index(context)]
        for name in context:
            if name not in self.variables:
                checks.choice("context variable", name, self.variables)
        known = self.schedule.values(step) if self.schedule.variables else {}
        known.update((name, level) for name, level in context.items() if level is not None)
        parts = {"public": 0, "sensed": 0, "reported": 0}
        absent: dict[str, list[str]] = {"sensed": [], "reported": []}
        for name, levels in self.variables.items():
            seen = self.visibility[name]
            place = 0
            if name in known:
                place = level_number(name, known[name], levels)
            elif seen == "public":
                raise InputError(f"context lacks {name!r}; expected a level, as the variable is public")
            elif len(levels) > 1:
                absent[seen].append(name)
            for part in ("public", "sensed", "reported")[VISIBILITIES.index(seen) :]:
                parts[part] = parts[part] * len(levels) + place
        whole = -1 if absent["reported"] or absent["sensed"] else parts["reported"]
        return Located(
            parts["public"], parts["sensed"], whole, _NO_VALUES, tuple(absent["sensed"]), tuple(absent["reported"])
        )

    @cached_property
    def _places(self) -> list[Located]:
        """Every context by its number, in the form that the algorithm expects."""
        parts = zip(self.stratum_of.tolist(), self.sense_of.tolist(), strict=True)
        return [Located(stratum, sense, k, _NO_VALUES, (), ()) for k, (stratum, sense) in enumerate(parts)]

    def public_levels(self) -> list[dict[str, Any]]:
        """The combinations of levels of the public variables, in the order of the strata."""
        public = [name for name, seen in self.visibility.items() if seen == "public"]
        combinations = itertools.product(*(self.variables[name] for name in public))
        return [dict(zip(public, levels, strict=True)) for levels in combinations]

    def levels(self, index: int) -> dict[str, Any]:
        """The levels of the variables in a context, given by its number."""
        index = checks.whole("index", index, least=0, most=self.contexts - 1)
        sizes = [len(v) for v in self.variables.values()]
        places = np.unravel_index(index, sizes)
        return {name: v[int(i)] for (name, v), i in zip(self.variables.items(), places, strict=True)}

    def slots(self) -> tuple[Ints, tuple[NDArray[np.bool_], ...]]:
        """The schedule as numbers: the slot of each step of its period, and the contexts possible in each slot."""
        return _slots(self.schedule, tuple(self.variables.items()))

    histories: Mapping[str, History] = MappingProxyType({})  # finite contexts contain no history variables

    def layout(self, *, optimistic: bool = False, horizon: int = 1, **form: Any) -> Layout:
        """The layout that the compiled step functions use.

        `form` depends on the device, policy and world: table, simd, support, delay, interrupted, limited, ...
        """
        unknown = OPTIMISTIC if optimistic else PLUGIN
        return layout(
            d=self.d, actions=self.actions, contexts=self.contexts, strata=self.strata,
            senses=self.senses if self.reported else 0, reported=self.reported,
            probabilities=unknown if self.context_probs is None else KNOWN, masked=self.allowed is not None, **form,
        )  # fmt: skip

    def constants(self, at: Layout, horizon: int) -> Floats:
        """What both agents know beforehand, as the flat array that the compiled step functions read."""
        fixed = constant_parts(
            self.features, self.units, self.stratum_of, self.sense_of, self.context_probs, at.sizes
        )  # fmt: skip
        if self.allowed is not None:
            masks = (self.masks.whole, self.masks.public, *([self.masks.sensed] if self.reported else []))
            fixed = {**fixed, "forbidden": np.concatenate(masks)}
        return at.filled("constants", constants={**self._knowledge(horizon), **fixed})

    def to_dict(self) -> dict[str, Any]:
        """A description from which `from_dict` builds the same problem, as plain JSON values."""
        return {
            "features": self.features.tolist(),
            "context_probs": None if self.context_probs is None else self.context_probs.tolist(),
            **self._beliefs(),
            "variables": {
                name: to_json(self.schedule.variables.get(name, levels)) for name, levels in self.variables.items()
            },
            "visibility": dict(self.visibility),
            "action_names": list(self.action_names),
            "decisions_per_day": self.schedule.decisions_per_day,
            "allowed": None if self.allowed is None else self.allowed.tolist(),
            "when_unknown": dict(self.when_unknown),
        }

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any]) -> "Problem":
        """The problem that `to_dict` described."""
        settings = check_described(saved, cls)
        return cls(settings.pop("features"), settings.pop("context_probs"), **settings)

    def replace(self, **changes: Any) -> "Problem":
        """Return a copy with some settings changed; lam follows W unless it was given."""
        checks.settings("Problem", changes, Problem)
        variables = {name: self.schedule.variables.get(name, levels) for name, levels in self.variables.items()}
        settings = self._changed({**self.to_dict(), "variables": variables}, changes)
        changed = Problem(settings.pop("features"), settings.pop("context_probs"), **settings)
        changed.formula = self.formula
        return changed

    def __repr__(self) -> str:
        known = "known" if self.context_probs is not None else "unknown"
        return f"Problem({self.contexts} contexts ({known} probabilities), {self.actions} actions, d={self.d})"

    def _parts(self, seen: tuple[str, ...]) -> tuple[Ints, int]:
        """Number the parts into which the variables of these visibilities divide the contexts."""
        sizes = [len(v) for v in self.variables.values()]
        places = np.unravel_index(np.arange(self.contexts), sizes)
        label = np.zeros(self.contexts, dtype=np.int64)
        parts = 1
        for name, size, place in zip(self.variables, sizes, places, strict=True):
            if self.visibility[name] in seen:
                label = label * size + place
                parts *= size
        return label, parts

    def _index_of_levels(self, context: Mapping[str, Any]) -> int:
        unknown = [name for name in context if name not in self.variables]
        if unknown:
            checks.choice("context variable", unknown[0], self.variables)
        index = 0
        for name, levels in self.variables.items():
            if name not in context:
                raise InputError(f"context lacks {name!r}; expected a level for each of {list(self.variables)}")
            index = index * len(levels) + level_number(name, context[name], levels)
        return index


def _action_names(value: Sequence[str] | None, actions: int) -> tuple[str, ...]:
    names = check_action_names(actions if value is None else value, "action_names")
    if len(names) != actions:
        raise InputError(f"action_names has {len(names)} names; expected {actions}, one for each action in features")
    return names


@functools.lru_cache(maxsize=256)
def _slots(
    schedule: Schedule, variables: tuple[tuple[str, tuple[Any, ...]], ...]
) -> tuple[Ints, tuple[NDArray[np.bool_], ...]]:
    """`Problem.slots`, computed once for all participants' problems; the arrays are shared, so they are read-only."""
    known = dict(variables)
    combinations: dict[tuple[int, ...], int] = {}
    slot_of = []
    for step in range(1, (schedule.period or 1) + 1):
        values = schedule.values(step)
        levels = tuple(known[name].index(value) for name, value in values.items())
        slot_of.append(combinations.setdefault(levels, len(combinations)))
    axes = dict(zip(known, np.indices([len(levels) for levels in known.values()]), strict=True))
    members = []
    for levels in combinations:
        fits = [axes[name].ravel() == level for name, level in zip(schedule.variables, levels, strict=True)]
        contexts = math.prod(len(each) for each in known.values())
        members.append(np.logical_and.reduce(fits) if fits else np.ones(contexts, dtype=np.bool_))
    found = np.array(slot_of, dtype=np.int64), tuple(members)
    for array in (found[0], *found[1]):
        array.flags.writeable = False
    return found
