"""`Problem`: what the agents know beforehand: contexts, who sees which part of them, actions, features, bounds."""

import math
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from opportune import checks
from opportune.core.layout import KNOWN, OPTIMISTIC, PLUGIN, Layout, laid_out, layout
from opportune.errors import InputError

Visibility = Literal["public", "sensed", "reported"]
VISIBILITIES = ("public", "sensed", "reported")
Floats = NDArray[np.float64]
Ints = NDArray[np.int64]


class Problem:
    """What both agents know beforehand about a decision problem with finitely many contexts.

    Args:
        features: phi[K, A, d], the feature vector of each context and action.
        context_probs: the probability of each context, or None if it must be learned.
        noise_sd: sd of the reward's noise, the scale R of the confidence radius.
        theta_bound: W, a bound on the norm of the true parameter.
        value_range: (u_min, u_max), bounds on the best expected reward; scale `range` needs it.
        largest_gap: the largest true gap; scale `gap` needs it, and a world that knows the truth supplies it.
        delta: the confidence sets hold with probability 1 - delta.
        regularisation: lam; 1/W^2 unless given.
        variables: names and levels of the variables that make up a context, first one slowest; their numbers
            of levels multiply to K. Without it a context is one variable called "context".
        visibility: who sees a variable: "public", "sensed" (the default) or "reported".
        action_names: names of the actions, for people.

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
        variables: Mapping[str, Iterable[Any]] | None = None,
        visibility: Mapping[str, Visibility] | None = None,
        action_names: Sequence[str] | None = None,
    ) -> None:
        self.features: Floats = checks.array("features", features, ("contexts", "actions", "d"))
        self.contexts, self.actions, self.d = self.features.shape
        if self.actions < 2:
            raise InputError(f"features has {self.actions} action; expected at least 2 to choose from")
        if self.contexts > 32_000 or self.actions > 127:
            raise InputError(
                f"features has {self.contexts} contexts and {self.actions} actions; expected at most 32000 and 127"
            )
        self.context_probs: Floats | None = None
        if context_probs is not None:
            self.context_probs = checks.probabilities("context_probs", context_probs, self.contexts)
        self.noise_sd = checks.real("noise_sd", noise_sd, above=0.0)
        self.theta_bound = checks.real("theta_bound", theta_bound, above=0.0)
        self.delta = checks.real("delta", delta, above=0.0, below=1.0)
        lam = 1.0 / self.theta_bound / self.theta_bound if regularisation is None else regularisation
        self.regularisation = checks.real("regularisation", lam, above=0.0)
        self.value_range = _value_range(value_range)
        self.largest_gap = None if largest_gap is None else checks.real("largest_gap", largest_gap, above=0.0)
        self.variables = _variables(variables, self.contexts)
        self.visibility = _visibility(visibility, self.variables)
        self.action_names = _action_names(action_names, self.actions)
        self.cell_of, self.cells = self._cells(("public",))
        sense_of, senses = self._cells(("public", "sensed"))
        self.sense_of: Ints = sense_of
        self.senses = senses

    @classmethod
    def from_formula(
        cls,
        formula: str,
        contexts: Mapping[str, Iterable[Any]],
        actions: int | Sequence[str],
        context_probs: Any = None,
        **settings: Any,
    ) -> "Problem":
        """A problem from named variables and a formula over them and `action`, such as "action + s + action:s".

        Numbers enter as they are and text variables by their levels; `action` enters by its levels, the first being
        the reference. There is no intercept unless the formula adds one with "1 + ...".
        """
        from opportune.problems.formula import design  # noqa: PLC0415  (formulaic is slow to import)

        levels = _variables(contexts, None)
        if isinstance(actions, Iterable):
            names = _action_names(list(actions), None)
        else:
            names = _action_names(None, checks.whole("actions", actions, least=2))
        return cls(design(formula, levels, names), context_probs, variables=levels, action_names=names, **settings)

    @property
    def reported(self) -> bool:
        """Whether some variable is seen by nobody until a reveal."""
        return bool(self.senses < self.contexts)

    @cached_property
    def support(self) -> int:
        """The most nonzero numbers that any action's features have, over all contexts together."""
        return int((self.features != 0.0).any(axis=0).sum(axis=1).max())

    @cached_property
    def least_distance(self) -> float:
        """Dmin: the least ||phi[k, a] - phi[k, a']|| over contexts and pairs of different actions."""
        least = math.inf
        for a in range(self.actions):
            for b in range(a):
                least = min(least, float(np.linalg.norm(self.features[:, a] - self.features[:, b], axis=1).min()))
        return least

    def cell_means(self, labels: Ints, cells: int, probs: Floats | None) -> Floats:
        """E[phi(S, a) | cell] for each cell; uniform within a cell where its probability is zero or unknown."""
        out = np.empty((cells, self.actions, self.d))
        for cell in range(cells):
            members = np.flatnonzero(labels == cell)
            weight = np.ones(members.size) if probs is None else probs[members]
            if weight.sum() <= 0.0:
                weight = np.ones(members.size)
            out[cell] = np.tensordot(weight / weight.sum(), self.features[members], axes=1)
        return out

    def index(self, context: Any) -> int:
        """The number of a context given as a number, or as its variables' levels {name: level}."""
        if isinstance(context, Mapping):
            return self._index_of_levels(context)
        if isinstance(context, float | np.floating) and not float(context).is_integer():
            raise InputError(f"context is {context!r}; expected a whole number from 0 to {self.contexts - 1}")
        number = int(context) if isinstance(context, float | np.floating) else context
        return checks.whole("context", number, least=0, most=self.contexts - 1)

    def levels(self, index: int) -> dict[str, Any]:
        """The variables' levels of a context's number."""
        sizes = [len(v) for v in self.variables.values()]
        places = np.unravel_index(index, sizes)
        return {name: v[int(i)] for (name, v), i in zip(self.variables.items(), places, strict=True)}

    def layout(self, *, optimistic: bool = False, **form: Any) -> Layout:
        """Where the compiled step functions find things; `form` is what suits a device: table, lanes, support."""
        unknown = OPTIMISTIC if optimistic else PLUGIN
        return layout(
            d=self.d, actions=self.actions, contexts=self.contexts, cells=self.cells,
            senses=self.senses if self.reported else 0,
            probabilities=unknown if self.context_probs is None else KNOWN, **form,
        )  # fmt: skip

    def facts(self, at: Layout, horizon: int) -> Floats:
        """What both agents know beforehand, as the flat array that the compiled step functions take."""
        means = self.cell_means(self.cell_of, self.cells, self.context_probs)
        if at.senses:
            means = np.concatenate([means, self.cell_means(self.sense_of, self.senses, self.context_probs)])
        known = self.context_probs is not None
        rows = np.concatenate([self.features, means]) if known else self.features
        rows = rows.reshape(-1, self.d)
        head = [
            self.noise_sd, self.regularisation, math.sqrt(self.regularisation) * self.theta_bound,
            2.0 * math.log(1.0 / self.delta), self.delta, horizon,
        ]  # fmt: skip
        facts = laid_out(
            at.facts_size,
            [
                (0, head), (at.rows, rows.ravel()), (at.cell_of, self.cell_of), (at.sense_of, self.sense_of),
                (at.start, means.ravel()), (at.hidden, np.ones(self.d)),
            ],
        )  # fmt: skip
        if known:
            blind = means[: self.cells]
            distance = np.linalg.norm(blind[:, :, None] - blind[:, None, :], axis=-1)
            facts[at.distance :][: distance.size] = distance.ravel()
        if at.table:
            facts[at.columns :][: self.d * at.table].reshape(self.d, at.table)[:, : len(rows)] = rows.T
        if at.support:
            places = np.sort(np.argsort(rows == 0.0, axis=1, kind="stable")[:, : at.support], axis=1)
            lists = np.concatenate([places, np.take_along_axis(rows, places, axis=1)], axis=1)
            facts[at.lists :][: rows.size].reshape(rows.shape)[:, : 2 * at.support] = lists
        return facts

    def to_dict(self) -> dict[str, Any]:
        """Everything needed to build the same problem again, as plain JSON values."""
        return {
            "features": self.features.tolist(),
            "context_probs": None if self.context_probs is None else self.context_probs.tolist(),
            "noise_sd": self.noise_sd,
            "theta_bound": self.theta_bound,
            "value_range": None if self.value_range is None else list(self.value_range),
            "largest_gap": self.largest_gap,
            "delta": self.delta,
            "regularisation": self.regularisation,
            "variables": {name: list(levels) for name, levels in self.variables.items()},
            "visibility": dict(self.visibility),
            "action_names": list(self.action_names),
        }

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any]) -> "Problem":
        """The problem that `to_dict` described."""
        settings = dict(saved)
        return cls(settings.pop("features"), settings.pop("context_probs"), **settings)

    def replace(self, **changes: Any) -> "Problem":
        """The same problem with some settings changed; lam follows W unless it was given."""
        settings = {**self.to_dict(), **changes}
        if "theta_bound" in changes and self.regularisation == 1.0 / self.theta_bound / self.theta_bound:
            settings["regularisation"] = changes.get("regularisation")
        return Problem.from_dict(settings)

    def __repr__(self) -> str:
        known = "known" if self.context_probs is not None else "unknown"
        return f"Problem({self.contexts} contexts ({known} probabilities), {self.actions} actions, d={self.d})"

    def _cells(self, seen: tuple[str, ...]) -> tuple[Ints, int]:
        """Number the parts of the contexts that the variables of these visibilities tell apart."""
        sizes = [len(v) for v in self.variables.values()]
        places = np.unravel_index(np.arange(self.contexts), sizes)
        label = np.zeros(self.contexts, dtype=np.int64)
        cells = 1
        for name, size, place in zip(self.variables, sizes, places, strict=True):
            if self.visibility[name] in seen:
                label = label * size + place
                cells *= size
        return label, cells

    def _index_of_levels(self, context: Mapping[str, Any]) -> int:
        unknown = [name for name in context if name not in self.variables]
        if unknown:
            checks.choice("context variable", unknown[0], self.variables)
        index = 0
        for name, levels in self.variables.items():
            if name not in context:
                raise InputError(f"context lacks {name!r}; expected a level for each of {list(self.variables)}")
            if context[name] not in levels:
                raise InputError(f"context has {name} = {context[name]!r}; expected one of {list(levels)}")
            index = index * len(levels) + levels.index(context[name])
        return index


def _value_range(value: Any) -> tuple[float, float] | None:
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


def _variables(value: Mapping[str, Iterable[Any]] | None, contexts: int | None) -> dict[str, tuple[Any, ...]]:
    if value is None:
        return {"context": tuple(range(contexts or 0))}
    if not isinstance(value, Mapping):
        raise InputError(f"variables is {value!r}; expected {{name: levels}}")
    if not value:
        raise InputError("variables is empty; expected at least one variable with its levels")
    variables = {str(name): _levels(name, levels) for name, levels in value.items()}
    product = math.prod(len(levels) for levels in variables.values())
    if contexts is not None and product != contexts:
        sizes = " x ".join(str(len(levels)) for levels in variables.values())
        number = f"{sizes} = {product}" if len(variables) > 1 else str(product)
        raise InputError(f"variables have {number} combinations; expected {contexts}, as features has contexts")
    return variables


def _levels(name: str, value: Iterable[Any]) -> tuple[Any, ...]:
    """A variable's levels: different plain values, none of them NaN, which nothing equals."""
    try:
        levels = tuple(_plain(level) for level in value)
        different = len(set(levels))
    except TypeError:
        raise InputError(f"variable {name!r} is {value!r}; expected its levels, numbers or text") from None
    if not levels:
        raise InputError(f"variable {name!r} has no levels; expected at least one")
    if different < len(levels):
        raise InputError(f"variable {name!r} has a level twice: {list(levels)}")
    if any(isinstance(level, float) and math.isnan(level) for level in levels):
        raise InputError(f"variable {name!r} has NaN among its levels {list(levels)}; expected numbers or text")
    return levels


def _plain(level: Any) -> Any:
    """A level as a plain Python value, so that it can be written as JSON."""
    return level.item() if isinstance(level, np.generic) else level


def _visibility(value: Mapping[str, Visibility] | None, variables: Mapping[str, Any]) -> dict[str, Visibility]:
    visibility: dict[str, Visibility] = dict.fromkeys(variables, "sensed")
    if value is not None and not isinstance(value, Mapping):
        raise InputError(f"visibility is {value!r}; expected {{variable: visibility}}")
    for name, seen in (value or {}).items():
        checks.choice("visibility of variable", name, variables)
        checks.choice(f"visibility of {name!r}", seen, VISIBILITIES)
        visibility[name] = seen
    return visibility


def _action_names(value: Sequence[str] | None, actions: int | None) -> tuple[str, ...]:
    names = tuple(str(a) for a in (range(actions or 0) if value is None else value))
    if actions is not None and len(names) != actions:
        raise InputError(f"action_names has {len(names)} names; expected {actions}, as features has actions")
    if len(names) < 2:
        raise InputError(f"actions is {list(names)}; expected at least 2 to choose from")
    if len(set(names)) < len(names):
        raise InputError(f"action_names has a name twice: {list(names)}")
    return names
