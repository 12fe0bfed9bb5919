"""Settings that all kinds of problems share, checked on entry."""

import inspect
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray

from opportune import checks
from opportune.errors import InputError
from opportune.problems.variables import (
    Finite,
    Schedule,
    Scheduled,
    Variable,
    check_levels,
    check_variable,
    from_json,
    levels_of,
)

Floats = NDArray[np.float64]
Visibility = Literal["public", "sensed", "reported"]
VISIBILITIES = ("public", "sensed", "reported")
PRIORS = ("prior_mean", "prior_sd")  # described only if they were given
MOST_ACTIONS = 127
MOST_CONTEXTS = 32_000
LEAST_DELTA = 1e-300
MASKS = ("allowed", "never_if", "when_unknown")  # optional in descriptions; without them nothing is forbidden


class Located(NamedTuple):
    """A context in the form that the algorithm expects."""

    stratum: int
    sense: int  # 0 unless contexts are finite
    context: int  # 0 unless contexts are finite; -1 if a reported variable is unknown
    values: NDArray[np.float64]  # empty if contexts are finite
    missing: tuple[str, ...]  # sensed variables that were not given: the decision point counts as missing
    unreported: tuple[str, ...]  # reported variables that were not given


class Moment(NamedTuple):
    """A context in numbers.

    `values` contains one entry per variable (numbers as they are, levels by their number) and one for the action. A
    sensed or reported variable that was not given has a default there and its name in `missing` or `unreported`.
    """

    values: NDArray[np.float64]
    missing: tuple[str, ...]
    """Sensed variables that were not given: the decision point counts as missing."""
    unreported: tuple[str, ...]
    """Reported variables that were not given, which is usual before a reveal."""


class Beliefs:
    """What the agents believe about rewards, for any kind of contexts; problems inherit from this."""

    noise_sd: float
    theta_bound: float
    value_range: tuple[float, float] | None
    largest_gap: float | None
    delta: float
    regularisation: float
    prior_mean: Floats | None
    prior_sd: Floats | None
    d: int  # the number of features; subclasses set it before calling `_believe`
    units: Any

    def _believe(self, *, noise_sd: Any, theta_bound: Any, value_range: Any, largest_gap: Any, delta: Any,
                 regularisation: Any, prior_mean: Any, prior_sd: Any) -> None:  # fmt: skip
        """Check and store the beliefs; lam is 1/W^2 unless given."""
        self.noise_sd = checks.scale("noise_sd", noise_sd)
        self.theta_bound = checks.scale("theta_bound", theta_bound, most=1e15)  # its square enters lam
        self.delta = checks.real("delta", delta, above=0.0, below=1.0)
        if self.delta < LEAST_DELTA:
            raise InputError(f"delta is {self.delta:g}; expected at least {LEAST_DELTA:g}")
        lam = self._default_regularisation if regularisation is None else regularisation
        self.regularisation = checks.scale("regularisation", lam)
        self.value_range = check_value_range(value_range)
        self.largest_gap = None if largest_gap is None else checks.scale("largest_gap", largest_gap)
        self.prior_mean, self.prior_sd = (
            None if given is None else checks.array(name, given, ("d",)) for name, given in
            (("prior_mean", prior_mean), ("prior_sd", prior_sd))
        )  # fmt: skip
        for name, prior in (("prior_mean", self.prior_mean), ("prior_sd", self.prior_sd)):
            if prior is not None and prior.size != self.d:
                raise InputError(f"{name} has {prior.size} numbers; expected {self.d}, one for each feature")
        if self.prior_sd is not None:
            for j, sd in enumerate(self.prior_sd):
                checks.scale(f"prior_sd[{j}]", float(sd), most=1e15)
            if regularisation is not None and self.regularisation != self._default_regularisation:
                raise InputError("regularisation and prior_sd are both given; expected only one of them")

    def _beliefs(self) -> dict[str, Any]:
        """The beliefs as plain JSON values."""
        return {
            "noise_sd": self.noise_sd,
            "theta_bound": self.theta_bound,
            "value_range": None if self.value_range is None else list(self.value_range),
            "largest_gap": self.largest_gap,
            "delta": self.delta,
            "regularisation": self.regularisation,
            **{name: given.tolist() for name in PRIORS if (given := getattr(self, name)) is not None},
        }

    @property
    def _default_regularisation(self) -> float:
        return 1.0 / self.theta_bound / self.theta_bound

    @property
    def pointwise_regularisation(self) -> float:
        """Lam of a pointwise radius: d R^2 / W^2, unless `regularisation` was given."""
        if self.regularisation != self._default_regularisation:
            return self.regularisation
        return self.d * (self.noise_sd / self.theta_bound) ** 2

    def _changed(self, settings: dict[str, Any], changes: Mapping[str, Any]) -> dict[str, Any]:
        """Settings with some of them changed; lam follows W unless it was given."""
        if "theta_bound" in changes and self.regularisation == self._default_regularisation:
            settings["regularisation"] = None
        return {**settings, **changes}

    def _knowledge(self, horizon: int) -> dict[str, Any]:
        """The beliefs as constants of the algorithm, for any kind of problem."""
        lams = np.array([self.regularisation, self.pointwise_regularisation])
        precisions, prior = np.repeat(lams, self.d), [math.sqrt(lam) * self.theta_bound for lam in lams]
        if self.prior_sd is not None:
            sd = self.prior_sd * self.units  # in the same units as the default W / sqrt(d)
            precisions = np.concatenate([1.0 / (self.d * sd**2), (self.noise_sd / sd) ** 2])
            prior = [1.0, self.noise_sd * math.sqrt(self.d)]
        return {
            "noise": self.noise_sd,
            "regularisation": precisions,
            "prior": prior,
            "prior_mean": 0.0 if self.prior_mean is None else self.prior_mean * self.units,
            "confidence": 2.0 * math.log(1.0 / self.delta),
            "delta": self.delta,
            "horizon": horizon,
        }


def check_value_range(value: Any) -> tuple[float, float] | None:
    """(u_min, u_max), or None."""
    if value is None:
        return None
    try:
        low, high = checks.listed("value_range", value, "(u_min, u_max)", most=2)
    except ValueError:
        raise InputError(f"value_range is {checks.brief(value)}; expected (u_min, u_max)") from None
    low, high = checks.real("value_range[0]", low), checks.real("value_range[1]", high)
    if low >= high:
        raise InputError(f"value_range is ({low:g}, {high:g}); expected u_min < u_max")
    if high - low < LEAST_WIDTH:
        raise InputError(f"value_range is ({low:g}, {high:g}); expected a width of at least {LEAST_WIDTH:g}")
    return low, high


def check_visibility(value: Any, variables: Mapping[str, Any], known: Iterable[str] = ()) -> dict[str, Visibility]:
    """The visibility of each variable: as given, public for those `known` from a schedule, else sensed."""
    visibility: dict[str, Visibility] = dict.fromkeys(variables, "sensed")
    for name in known:
        visibility[name] = "public"
    if value is not None and not isinstance(value, Mapping):
        raise InputError(f"visibility is {checks.brief(value)}; expected {{variable: visibility}}")
    for name, seen in (value or {}).items():
        checks.choice("visibility of variable", name, variables)
        checks.choice(f"visibility of {name!r}", seen, VISIBILITIES)
        if name in known and seen != "public":
            raise InputError(f"visibility of {name!r} is {seen!r}; expected 'public', as its schedule is known")
        visibility[name] = seen
    return visibility


def check_names_action(formula: Any) -> None:
    """Reject a formula in which nothing depends on the action."""
    if isinstance(formula, str) and formula.strip() and not re.search(r"\baction\b", formula):
        given = checks.brief(formula)
        raise InputError(f"formula {given} does not name action; expected it, or every action would be worth the same")


def check_action_names(value: Any, setting: str = "actions") -> tuple[str, ...]:
    """Names of the actions, given as such or by their number; messages call them by `setting`."""
    if not isinstance(value, Iterable):
        value = range(checks.whole(setting, value, least=2, most=MOST_ACTIONS))
    given = checks.listed(setting, value, "a list of names", most=MOST_ACTIONS)
    names = tuple(_name(f"{setting}[{i}]", name) for i, name in enumerate(given))
    if not 2 <= len(names) <= MOST_ACTIONS:
        raise InputError(f"{setting} is {list(names)}; expected 2 to {MOST_ACTIONS} to choose from")
    if len(set(names)) < len(names):
        raise InputError(f"{setting} has a name twice: {list(names)}")
    return names


LEAST_WIDTH = 1e-30
"""The least width of value_range, by which gaps are divided."""
LARGE = 32.0
"""The algorithm divides features beyond this by their units, so that confidence widths keep their precision."""


def units_of(largest: Floats) -> Floats:
    """The divisor of each feature: 1, or a power of two that brings a large one below 1.

    Dividing by a power of two causes no rounding. Widths are what remains of 1/lam after many updates; with undivided
    features, such as raw step counts, their relative error would grow like 1e-16 T max x^2 / lam.
    """
    return np.where(largest > LARGE, 2.0 ** np.ceil(np.log2(np.maximum(largest, 1.0))), 1.0)


def _name(setting: str, name: Any) -> str:
    """The name of an action, which may be given as a number."""
    number = isinstance(name, int | np.integer) and not isinstance(name, bool | np.timedelta64)
    return str(checks.whole(setting, name, least=0, most=10**9)) if number else checks.text(setting, name)


def check_described(saved: Any, problem: type) -> dict[str, Any]:
    """The settings in a problem's description, with variables built from their own descriptions."""
    settings = checks.mapping("problem", saved, "what to_dict() returned")
    checks.settings("the problem", settings, problem)
    for name in inspect.signature(problem).parameters:
        if name not in settings and name not in {*MASKS, *PRIORS}:
            raise InputError(f"the problem lacks {name!r}; expected what to_dict() returned")
    variables = settings.get("variables")
    if variables is not None:
        described = checks.mapping("variables of the problem", variables, "{name: its description}")
        settings["variables"] = {name: from_json(name, variable) for name, variable in described.items()}
    return settings


def schedule_of(variables: Any, decisions_per_day: int | None) -> Schedule:
    """The schedule of the variables that follow one."""
    scheduled = {}
    if isinstance(variables, Mapping):
        scheduled = {name: v for name, v in variables.items() if isinstance(v, Scheduled)}
    return Schedule(scheduled, decisions_per_day=decisions_per_day)


def check_finite_variables(value: Any, contexts: int | None) -> dict[str, tuple[Any, ...]]:
    """The levels of each variable; their combinations are the contexts, `contexts` in number if that is known."""
    if value is None:
        return {"context": tuple(range(contexts or 0))}
    given = checks.mapping("variables", value, "{name: levels}")
    if not given:
        raise InputError("variables is empty; expected at least one variable with its levels")
    variables = {
        checks.text("name of a variable", name): v.levels
        if isinstance(v, Finite)
        else check_levels(name, v, "its levels, or a scheduled time")
        for name, v in given.items()
    }
    product = math.prod(len(levels) for levels in variables.values())
    if contexts is not None and product != contexts:
        sizes = " x ".join(str(len(levels)) for levels in variables.values())
        number = f"{sizes} = {product}" if len(variables) > 1 else str(product)
        raise InputError(f"variables have {number} combinations; expected {contexts}, one for each context in features")
    checks.size("variables have", product, MOST_CONTEXTS, "combinations of levels")
    return variables


def check_variables(value: Any) -> dict[str, Variable]:
    """Variables of any kind, by name."""
    given = checks.mapping("variables", value, "{name: Number, levels or a scheduled variable}")
    if not given:
        raise InputError("variables is empty; expected at least one variable")
    return {checks.text("name of a variable", name): check_variable(name, variable) for name, variable in given.items()}


def weights_of(variables: Mapping[str, Variable], public: Sequence[str], strata: int) -> Floats:
    """What each variable's level adds to the stratum's number, the first public variable slowest; the action last."""
    weights = np.zeros(len(variables) + 1)
    step = strata
    for v, (name, variable) in enumerate(variables.items()):
        if name in public:
            step //= len(levels_of(variable) or ())
            weights[v] = step
    return weights
