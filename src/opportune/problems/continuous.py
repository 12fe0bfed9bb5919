"""`ContinuousProblem`: what the agents know beforehand if contexts contain numbers and features are computed."""

import itertools
import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from opportune import checks
from opportune.engine.declared import KNOWN, PLUGIN
from opportune.engine.layout import Layout, layout
from opportune.errors import InputError
from opportune.problems.combinations import MOST_COMBINATIONS, MOST_CORNERS, Choices, combine, extremes, level_numbers
from opportune.problems.conditions import Conditions
from opportune.problems.history import check_sensed, histories_of, in_numbers
from opportune.problems.program import Program
from opportune.problems.settings import (
    VISIBILITIES,
    Beliefs,
    Located,
    Moment,
    Visibility,
    check_action_names,
    check_described,
    check_names_action,
    check_variables,
    check_visibility,
    schedule_of,
    units_of,
    weights_of,
)
from opportune.problems.tables import least_distance
from opportune.problems.variables import bounds_of, level_number, levels_of, to_json

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

MOST_STRATA = 10_000


class ContinuousProblem(Beliefs):
    """What both agents know beforehand about a decision problem whose features are computed at each decision.

    Args:
        formula: features from the variables and `action`, as for `Problem.from_formula`.
        variables: {name: Number, levels, TimeOfDay, Weekday, Weekend, DayOfStudy or History}.
        actions: names of the actions, or their number.
        decisions_per_day: by default the number of times of day.
        visibility: who sees a variable: "public", "sensed" (the default) or "reported". Scheduled ones are public.
        order: of the features: "degree" (main effects first) or "written" (as the formula names its terms).
        start: {variable: value}, from which features that the recommender cannot see are computed before any reveal;
            by default the middle of a variable's bounds, or the mean over its levels.
        known_means: E[phi(S, a) | stratum], [strata, A, d], if known; only hidden features are read.
        noise_sd: sd of the reward's noise, the scale R of the confidence radius.
        theta_bound: W, a bound on the norm of the true parameter, where large features count in their `units`.
        value_range: (u_min, u_max), bounds on the best expected reward; scale `range` needs it.
        largest_gap: the largest true gap; scale `gap` needs it.
        least_distance: Dmin; by default computed from the corners of the bounds.
        delta: the confidence sets hold with probability 1 - delta.
        regularisation: lam for any radius; by default 1/W^2, or d R^2/W^2 for a pointwise radius.
        never_if: {action: condition} under which an action is forbidden, such as `pain > 7 or mood == "low"`.
        when_unknown: {action: "forbid" or "allow"} for conditions on variables that are not public (docs/safety.md).
        prior_mean: the expected theta, a number for each feature; by default 0.
        prior_sd: the prior standard deviation of each number of theta; by default W / sqrt(d).

    """

    def __init__(
        self,
        formula: str,
        variables: Mapping[str, Any],
        actions: int | Sequence[str],
        *,
        decisions_per_day: int | None = None,
        visibility: Mapping[str, Visibility] | None = None,
        order: Literal["degree", "written"] = "degree",
        start: Mapping[str, Any] | None = None,
        known_means: Any = None,
        noise_sd: float = 1.0,
        theta_bound: float = 1.0,
        value_range: tuple[float, float] | None = None,
        largest_gap: float | None = None,
        least_distance: float | None = None,
        delta: float = 0.05,
        regularisation: float | None = None,
        never_if: Mapping[str, str] | None = None,
        when_unknown: Mapping[str, str] | None = None,
        prior_mean: Sequence[float] | None = None,
        prior_sd: Sequence[float] | None = None,
    ) -> None:
        self.variables = check_variables(variables)
        self.action_names = check_action_names(actions)
        self.schedule = schedule_of(self.variables, decisions_per_day)
        self.histories = histories_of(self.variables, self.schedule.decisions_per_day)
        self.variables |= self.histories
        self.visibility = check_visibility(visibility, self.variables, self.schedule.variables)
        check_sensed(self.histories, self.visibility)
        self.formula, self.order = formula, order
        from opportune.problems.formula import program  # noqa: PLC0415  (formulaic is slow to import)

        self.program = program(formula, self.variables, self.action_names, order=order)
        self.d = self.program.d
        self._believe(
            noise_sd=noise_sd, theta_bound=theta_bound, value_range=value_range, largest_gap=largest_gap, delta=delta,
            regularisation=regularisation, prior_mean=prior_mean, prior_sd=prior_sd,
        )  # fmt: skip
        self._least_distance = None if least_distance is None else checks.scale("least_distance", least_distance)
        self.strata = math.prod(self._levels(name) for name in self.stratified)
        if self.strata > MOST_STRATA:
            given = f"public variables have {self.strata} combinations of levels"
            raise InputError(f"{given}; expected at most {MOST_STRATA}")
        check_names_action(formula)
        self.conditions = Conditions(never_if, when_unknown, self.action_names, self.variables, self.visibility)
        self._start_values = self._check_start(start)
        self.known_means: Floats | None = None
        if known_means is not None:
            self.known_means = checks.array("known_means", known_means, (self.strata, self.actions, self.d))

    contexts = 0  # not a finite set

    @property
    def terms(self) -> tuple[str, ...]:
        """The names of the features, such as "action=walk:stress"."""
        return self.program.names

    @property
    def support(self) -> int:
        """The most nonzero numbers that a feature vector can contain: here, all of them."""
        return self.d

    @property
    def actions(self) -> int:
        """The number of actions."""
        return len(self.action_names)

    @property
    def reported(self) -> bool:
        """Whether some feature is hidden from both agents until a reveal."""
        return bool(self.hidden_from_revealer.any())

    @property
    def stratified(self) -> tuple[str, ...]:
        """The public variables with levels, whose combinations are the strata."""
        public = (name for name, seen in self.visibility.items() if seen == "public")
        return tuple(name for name in public if levels_of(self.variables[name]) is not None)

    @cached_property
    def units(self) -> Floats:
        """The divisor of each feature, 1 unless the feature is large; W, lam and distances refer to quotients: [d]."""
        given = [*self.variables.values()]
        bounds = {v: (b.low, b.high) for v, variable in enumerate(given) if (b := bounds_of(variable)) is not None}
        levels = {v: len(levels_of(variable) or ()) for v, variable in enumerate(given) if v not in bounds}
        return units_of(self.program.largest(bounds, {**levels, len(given): self.actions}))

    @cached_property
    def _inside(self) -> Program:
        """The features as the algorithm computes them, divided by their units."""
        return self.program.divided(self.units)

    @cached_property
    def hidden_from_recommender(self) -> Mask:
        """Which features depend on a variable that is not public, so that a mean replaces them until a reveal, [d]."""
        return self._depends_on("sensed", "reported")

    @cached_property
    def hidden_from_revealer(self) -> Mask:
        """Which features depend on a reported variable, [d]."""
        return self._depends_on("reported")

    def values(self, context: Mapping[str, Any], step: int) -> Moment:
        """Convert a context, given as {variable: value}, to numbers.

        Scheduled variables default to their values at the step (from 1). Public variables are required; others may be
        missing or None.
        """
        if not isinstance(context, Mapping):
            raise InputError(f"context is {checks.brief(context)}; expected {{variable: value}}")
        for name in context:
            checks.choice("context variable", name, self.variables)
        given = {name: value for name, value in context.items() if value is not None}
        known = {**self.schedule.values(step), **given}
        values = self.middle.copy()
        absent: dict[str, list[str]] = {"sensed": [], "reported": []}
        for v, name in enumerate(self.variables):
            if name in known:
                values[v] = self._number(name, known[name])
            elif self.visibility[name] == "public":
                raise InputError(f"context lacks {name!r}; expected a value, as the variable is public")
            elif name not in self.histories:  # histories are filled in at the decision
                absent[self.visibility[name]].append(name)
        return Moment(values, tuple(absent["sensed"]), tuple(absent["reported"]))

    def locate(self, context: Mapping[str, Any], step: int) -> Located:
        """A context at a step, in the form that the algorithm expects."""
        moment = self.values(context, step)
        known = -1 if moment.unreported and self.reported else 0
        return Located(self.stratum(moment.values), 0, known, moment.values, moment.missing, moment.unreported)

    @property
    def always_allowed(self) -> tuple[int, ...]:
        """The numbers of the actions that have no condition."""
        return self.conditions.always_allowed

    def forbids(self, place: Located, view: int) -> Mask:
        """Which actions [A] are forbidden in a context, given what this view (engine.declared) sees of it."""
        return np.asarray(self.conditions.forbidden(place.values[None], view)[0])

    def public_levels(self) -> list[dict[str, Any]]:
        """The combinations of levels of the public variables, in the order of the strata."""
        levels = [levels_of(self.variables[name]) or () for name in self.stratified]
        return [dict(zip(self.stratified, chosen, strict=True)) for chosen in itertools.product(*levels)]

    def middle_values(self) -> dict[str, Any]:
        """The default of every variable, used if its value is missing."""
        return {name: self._value(name, number) for name, number in zip(self.variables, self.middle, strict=False)}

    def stratum(self, values: Floats) -> int:
        """The number of the combination of public levels, the first variable slowest."""
        stratum = 0
        for v, name in enumerate(self.variables):
            if name in self.stratified:
                stratum = stratum * self._levels(name) + int(values[v])
        return stratum

    def features(self, values: Floats) -> Floats:
        """The feature vector of each action, phi[A, d]; for many contexts, values[n, V] give [n, A, d]."""
        points = checks.numbers("values", values, f"[..., {len(self.variables) + 1}]")
        if points.ndim == 0 or points.shape[-1] != len(self.variables) + 1:
            raise InputError(
                f"values has shape {list(points.shape)}; expected [..., {len(self.variables) + 1}], the action last"
            )
        return self.program.features(points)

    def corners(self, values: Floats) -> Floats:
        """Features with every hidden variable at its extremes, [n, A, d]: numbers at both bounds, levels at each level.

        Only variables that the formula uses are varied. The corners enclose all possible features of the moment if
        features are linear in each hidden number.
        """
        hidden = self._extremes("sensed", "reported")
        who = "what is not public has {} combinations of bounds and levels"
        values = np.asarray(values, dtype=np.float64)
        return self.features(combine(self.variables, values, hidden, most=MOST_CORNERS, who=who))

    @cached_property
    def middle(self) -> Floats:
        """The defaults of missing values: the middle of the bounds, the first level; 0 for the action.

        A variable of the participant's own history has its initial value.
        """
        middles = [0.0 if (bounds := bounds_of(v)) is None else bounds.middle for v in self.variables.values()]
        for v, name in enumerate(self.variables):
            if name in self.histories:
                middles[v] = float(self.histories[name].initial or 0.0)
        return np.array([*middles, 0.0])

    @cached_property
    def start(self) -> Floats:
        """Blind features before the first reveal, or at all times if means are known: [strata, A, d]."""
        if self.known_means is not None:
            return self.known_means.copy()
        choices: dict[str, Sequence[float]] = {name: level_numbers(self.variables[name]) for name in self.stratified}
        choices |= {
            name: chosen
            for name, chosen in self._extremes().items()
            if levels_of(self.variables[name]) is not None and name not in {*choices, *self._start_values}
        }
        base = self.middle.copy()
        for name, number in self._start_values.items():
            base[list(self.variables).index(name)] = number
        who = "variables have {} combinations of levels"
        instead = ", or start={...}"
        points = combine(self.variables, base, choices, most=MOST_COMBINATIONS, who=who, instead=instead)
        return np.asarray(self.features(points).reshape(self.strata, -1, self.actions, self.d).mean(axis=1))

    @cached_property
    def least_distance(self) -> float:
        """Dmin over corners of the bounds (`problems.tables.least_distance`)."""
        if self._least_distance is not None:
            return self._least_distance
        who = "variables have {} combinations of bounds and levels"
        instead = ", or least_distance=..."
        x = self.features(
            combine(self.variables, self.middle, self._extremes(), most=MOST_COMBINATIONS, who=who, instead=instead)
        )
        return least_distance(x, self.units)

    def layout(
        self, *, optimistic: bool = False, horizon: int = 1, table: bool = True, support: int = 0, **form: Any
    ) -> Layout:
        """The layout that the compiled step functions use; there is no table of scores, and rows are not listed.

        `form` depends on the device, policy and world: simd, delay, interrupted, limited, ...
        """
        program = self._inside
        return layout(
            d=self.d, actions=self.actions, contexts=0, strata=self.strata, corners=len(self._sensed_corners),
            probabilities=PLUGIN if self.known_means is None else KNOWN, reported=self.reported,
            variables=len(self.variables) + 1, atoms=program.atoms, fixed_atoms=program.shared,
            factors=program.width, code=program.code.size, depth=program.stack,
            held=horizon if self.reported else 0, histories=len(self.histories),
            past=max((h.decisions or 1 for h in self.histories.values()), default=0), **self.conditions.sizes, **form,
        )  # fmt: skip

    def constants(self, at: Layout, horizon: int) -> Floats:
        """What both agents know beforehand, as the flat array that the compiled step functions read."""
        return at.filled(
            "constants",
            constants={
                **self._knowledge(horizon),
                "start": self.start / self.units,
                "hidden": self.hidden_from_recommender,
                "unsensed": self.hidden_from_revealer,
                "weight": weights_of(self.variables, self.stratified, self.strata),
                "corner": self._sensed_corners,
                "code": self._inside.code,
                "atom_end": self._inside.atom_end,
                "factor": self._inside.factors,
                **self.conditions.parts,
                "history": in_numbers(self.histories, list(self.variables), self.schedule.decisions_per_day),
            },
        )

    @cached_property
    def _sensed_corners(self) -> Floats:
        """Every sensed variable at its extremes, NaN where the moment's own value applies: [n, V]."""
        own = np.full(len(self.variables) + 1, np.nan)
        who = "sensed variables have {} combinations of bounds and levels"
        return combine(self.variables, own, self._extremes("sensed"), most=MOST_CORNERS, who=who)

    def to_dict(self) -> dict[str, Any]:
        """A description from which `from_dict` builds the same problem, as plain JSON values."""
        return {
            "formula": self.formula,
            "variables": {name: to_json(variable) for name, variable in self.variables.items()},
            "actions": list(self.action_names),
            "decisions_per_day": self.schedule.decisions_per_day,
            "visibility": dict(self.visibility),
            "order": self.order,
            "start": {name: self._value(name, number) for name, number in self._start_values.items()},
            "known_means": None if self.known_means is None else self.known_means.tolist(),
            **self._beliefs(),
            "least_distance": self._least_distance,
            **self.conditions.settings,
        }

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any]) -> "ContinuousProblem":
        """The problem that `to_dict` described."""
        settings = check_described(saved, cls)
        return cls(settings.pop("formula"), settings.pop("variables"), settings.pop("actions"), **settings)

    def replace(self, **changes: Any) -> "ContinuousProblem":
        """Return a copy with some settings changed; lam follows W unless it was given."""
        checks.settings("ContinuousProblem", changes, ContinuousProblem)
        settings = self._changed({**self.to_dict(), "variables": self.variables}, changes)
        given = [settings.pop(name) for name in ("formula", "variables", "actions")]
        return ContinuousProblem(*given, **settings)

    def __repr__(self) -> str:
        names = ", ".join(self.variables)
        return f"ContinuousProblem({names}; {self.strata} strata, {self.actions} actions, d={self.d})"

    def _extremes(self, *visibilities: str) -> Choices:
        """The bounds or level numbers of each variable that the formula uses, if given only those so visible."""
        used = np.atleast_1d(self.program.depends.any(axis=0))[: len(self.variables)]
        found = extremes(self.variables, used)
        seen = visibilities or VISIBILITIES
        return {name: chosen for name, chosen in found.items() if self.visibility[name] in seen}

    def _depends_on(self, *visibilities: str) -> Mask:
        unseen = [self.visibility[name] in visibilities for name in self.variables]
        return np.asarray(self.program.depends[:, [*unseen, False]].any(axis=1))

    def _levels(self, name: str) -> int:
        """The number of levels of a variable."""
        return len(levels_of(self.variables[name]) or ())

    def _number(self, name: str, value: Any) -> float:
        """A variable's value as a number: itself, or the number of its level."""
        bounds, levels = bounds_of(self.variables[name]), levels_of(self.variables[name])
        if bounds is not None:
            return checks.real(name, value, least=bounds.low, most=bounds.high)
        return float(level_number(name, value, levels or ()))

    def _value(self, name: str, number: float) -> Any:
        """A variable's value from its number: itself, or the level."""
        levels = levels_of(self.variables[name])
        return number if levels is None else levels[int(number)]

    def _check_start(self, start: Any) -> dict[str, float]:
        given = {} if start is None else checks.mapping("start", start, "{variable: value}")
        for name in given:
            checks.choice("variable in start", name, self.variables)
            if self.visibility[name] == "public":
                raise InputError(f"start has {name!r}, which is public; expected variables that are not")
        return {name: self._number(name, value) for name, value in given.items()}
