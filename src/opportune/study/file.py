"""A study of one's own in a TOML file: `load_study` reads and checks it, `Study` runs it.

Every complaint about a file names the line, what stands there and what was expected; all are listed at once.
"""

import difflib
import itertools
import json
import keyword
import math
import os
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import numpy as np
from numpy.typing import NDArray
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, ValidationError, model_validator
from pydantic_core import ErrorDetails, PydanticCustomError

from opportune import checks
from opportune.core.rng import PARAMETER, draw, normal
from opportune.errors import InputError
from opportune.policy import (
    Always,
    Budget,
    FixedRate,
    LearningPrimalDual,
    LinUCB,
    Never,
    Periodic,
    Policy,
    PrimalDual,
    Revealer,
    rule_for,
)
from opportune.problems.finite import Problem
from opportune.worlds.linear import LinearWorld

if TYPE_CHECKING:
    import xarray as xr

Floats = NDArray[np.float64]
Place = tuple[str | int, ...]
"""Where something stands in a file: ("policies", 1, "scale") is `scale` of the second [[policies]]."""

Complaint = tuple[Place, str]

REST = "*"
"""The key of [effects] that stands for every term not named."""
FUNCTIONS = ("C", "I", "center", "exp", "log", "scale")
"""What a formula may apply to a variable."""
MOST_CONTEXTS = 32_000
BYTES_PER_STEP = 80


def _refuse(key: str, message: str) -> PydanticCustomError:
    """A complaint about one key of a table, for a validator to raise."""
    return PydanticCustomError("study", "{message}", {"key": key, "message": message})


# --- what a file holds: each field's description says what is expected there


class _Table(BaseModel):
    """A table of the file: nothing unknown, nothing converted, no NaN."""

    model_config = ConfigDict(extra="forbid", strict=True, frozen=True, allow_inf_nan=False)


_BUDGETS = "a list of numbers > 0, such as [10, 20]"
_Budgets = list[Annotated[float, Field(gt=0.0)]]
_Rate = Annotated[float, Field(ge=0.0, le=1.0)]


class StudyTable(_Table):
    """[study]: its name, its size, what can be done and how many nudges there are."""

    name: str = Field(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]*$",
        description="a name of letters, digits, '.', '_' and '-' (results are saved under it)",
    )
    seed: int = Field(default=1, ge=0, le=2**64 - 1, description="a whole number >= 0")
    horizon: int = Field(ge=1, description="a whole number >= 1, the decisions in a run")
    replicates: int = Field(ge=1, le=2**32 - 1, description="a whole number >= 1, the runs of each policy")
    instances: int = Field(default=1, ge=1, description="a whole number >= 1, the sets of true effects to draw")
    actions: list[str] = Field(description="a list of at least two different names, such as ['rest', 'call']")
    budgets: _Budgets = Field(default=[], description=_BUDGETS)
    budget_kind: Literal["expected", "hard"] = Field(default="expected", description="'expected' or 'hard'")
    trace: bool = Field(default=True, description="true (keep every step) or false (keep totals only)")

    @model_validator(mode="after")
    def _names(self) -> "StudyTable":
        if len(self.actions) < 2 or len(set(self.actions)) < len(self.actions) or "" in self.actions:
            expected = type(self).model_fields["actions"].description
            raise _refuse("actions", f"actions in [study] is {_show(self.actions)}; expected {expected}")
        return self


class VariableTable(_Table):
    """[variables.NAME]: one variable of the context."""

    levels: list[Any] | None = Field(
        default=None, description="a list of at least two different texts, or of two different numbers"
    )
    range: Annotated[list[float], Field(min_length=2, max_length=2)] | None = Field(
        default=None, description="[lowest, highest], such as [1, 5] for 1, 2, 3, 4, 5"
    )
    step: float = Field(default=1.0, gt=0.0, description="a number > 0, the distance of neighbours in range")
    visibility: Literal["public", "sensed", "reported"] = Field(
        default="sensed", description="'public', 'sensed' or 'reported'"
    )
    probabilities: list[_Rate] | None = Field(
        default=None, description="a list of probabilities, one for each level, that sum to 1"
    )

    @model_validator(mode="after")
    def _check(self) -> "VariableTable":
        if self.levels is None and self.range is None:
            raise _refuse("", "lacks its values; expected levels = [...] or range = [lowest, highest]")
        if self.levels is not None and self.range is not None:
            raise _refuse("range", "has levels and range; expected only one of them")
        if self.range is None and "step" in self.model_fields_set:
            raise _refuse("step", "has step without range; expected range = [lowest, highest] with it")
        if self.levels is not None and not _good_levels(self.levels):
            expected = type(self).model_fields["levels"].description
            raise _refuse("levels", f"has levels = {_show(self.levels)}; expected {expected}")
        if self.range is not None:
            steps = (self.range[1] - self.range[0]) / self.step
            if steps < 1.0 - 1e-9 or abs(steps - round(steps)) > 1e-9:
                text = f"has range = {_show(self.range)} in steps of {self.step:g}"
                raise _refuse("range", f"{text}; expected lowest < highest, a whole number of steps apart")
        if self.probabilities is not None:
            given, wanted = len(self.probabilities), len(self.values)
            if given != wanted:
                text = f"has {given} probabilities for {wanted} levels"
                raise _refuse("probabilities", f"{text}; expected one for each level")
            if abs(sum(self.probabilities) - 1.0) > 1e-9:
                text = f"has probabilities that sum to {sum(self.probabilities):.10g}"
                raise _refuse("probabilities", f"{text}; expected 1")
        return self

    @property
    def values(self) -> list[Any]:
        """The levels, written out."""
        if self.levels is not None:
            return self.levels
        assert self.range is not None
        low, high = self.range
        count = round((high - low) / self.step) + 1
        numbers = [round(low + i * self.step, 12) for i in range(count)]
        return [int(x) if x.is_integer() else x for x in numbers]


class ContextsTable(_Table):
    """[contexts]: how contexts arrive, beyond each variable's own probabilities."""

    known: bool = Field(default=True, description="true, or false if the agents must learn the probabilities")
    joint: list[Any] | None = Field(
        default=None, description="a probability for each combination of levels, first variable slowest"
    )


class RewardTable(_Table):
    """[reward]: what a reward is made of, as the agents know it."""

    formula: str = Field(description="a formula over the variables and action, such as 'action + action:stress'")
    noise_sd: float = Field(gt=0.0, description="a number > 0, the sd of the reward's noise")
    theta_bound: float | None = Field(
        default=None, gt=0.0, description="a number > 0, a bound on the norm of the effects"
    )
    value_range: Annotated[list[float], Field(min_length=2, max_length=2)] | None = Field(
        default=None, description="[lowest, highest] expected reward of the best action"
    )
    delta: float = Field(default=0.05, gt=0.0, lt=1.0, description="a number between 0 and 1")

    @model_validator(mode="after")
    def _check(self) -> "RewardTable":
        if self.value_range is not None and self.value_range[0] >= self.value_range[1]:
            text = f"value_range in [reward] is {_show(self.value_range)}"
            raise _refuse("value_range", f"{text}; expected [lowest, highest] with lowest < highest")
        return self


_EFFECT = "a number, { low = ..., high = ... } or { mean = ..., sd = ... }"


class Effect(_Table):
    """The true effect of one term: a number, or a distribution it is drawn from."""

    value: float | None = Field(default=None, description="a number")
    low: float | None = Field(default=None, description="a number")
    high: float | None = Field(default=None, description="a number")
    mean: float | None = Field(default=None, description="a number")
    sd: float | None = Field(default=None, ge=0.0, description="a number >= 0")

    @model_validator(mode="after")
    def _check(self) -> "Effect":
        if self.model_fields_set not in ({"value"}, {"low", "high"}, {"mean", "sd"}):
            raise _refuse("", f"has {', '.join(sorted(self.model_fields_set)) or 'nothing'}; expected {_EFFECT}")
        if self.low is not None and self.high is not None and self.low > self.high:
            raise _refuse("low", f"has low = {self.low:g} and high = {self.high:g}; expected low <= high")
        return self

    @property
    def drawn(self) -> bool:
        """Whether instances differ in it."""
        return self.value is None

    @property
    def bound(self) -> float:
        """How far from 0 it can be; a normal one is farther once in 400 draws."""
        if self.value is not None:
            return abs(self.value)
        if self.low is not None and self.high is not None:
            return max(abs(self.low), abs(self.high))
        assert self.mean is not None
        assert self.sd is not None
        return abs(self.mean) + 3.0 * self.sd

    def at(self, uniform: float) -> float:
        """The effect at a uniform draw from [0, 1)."""
        if self.value is not None:
            return self.value
        if self.low is not None and self.high is not None:
            return self.low + uniform * (self.high - self.low)
        assert self.mean is not None
        assert self.sd is not None
        return self.mean + self.sd * float(normal(uniform))


def _as_effect(given: Any) -> Any:
    if isinstance(given, int | float) and not isinstance(given, bool):
        return {"value": given}
    if isinstance(given, dict) and "value" not in given:
        return given
    raise _refuse("", f"is {_show(given)}; expected {_EFFECT}")


class WorldTable(_Table):
    """[world]: how patients treat the app and its nudges."""

    open_rate: float = Field(
        default=0.0, ge=0.0, le=1.0, description="a probability, that a patient opens the app unasked"
    )
    response_rate: float = Field(default=1.0, ge=0.0, le=1.0, description="a probability, that a nudge is answered")


_KINDS: dict[str, set[str]] = {
    "naive": {"unknown", "budgets"},
    "PD1": {"unknown", "budgets", "scale"},
    "PD2": {"unknown", "budgets", "scale", "tolerance"},
    "never": {"unknown"},
    "always": {"unknown", "budgets"},
    "periodic": {"unknown", "budgets", "every"},
}
_BUDGETED = ("naive", "PD1", "PD2")


class PolicyTable(_Table):
    """[[policies]]: one policy to try, at each of its budgets."""

    kind: Literal["naive", "PD1", "PD2", "never", "always", "periodic"] = Field(
        description="'naive', 'PD1', 'PD2', 'never', 'always' or 'periodic'"
    )
    name: Annotated[str, Field(min_length=1)] | None = Field(default=None, description="a name for tables and figures")
    budgets: Annotated[_Budgets, Field(min_length=1)] | None = Field(default=None, description=_BUDGETS)
    scale: Literal["adaptive", "range", "gap"] = Field(default="adaptive", description="'adaptive', 'range' or 'gap'")
    every: Annotated[int, Field(ge=1)] | None = Field(default=None, description="a whole number >= 1")
    tolerance: Annotated[float, Field(ge=0.0)] | None = Field(default=None, description="a number >= 0")
    unknown: Literal["plugin", "optimistic"] = Field(default="plugin", description="'plugin' or 'optimistic'")

    @model_validator(mode="after")
    def _check(self) -> "PolicyTable":
        for key in type(self).model_fields:
            if key in self.model_fields_set and key not in _KINDS[self.kind] | {"kind", "name"}:
                owners = " or ".join(repr(kind) for kind, keys in _KINDS.items() if key in keys)
                raise _refuse(key, f"{key} does not apply to kind {self.kind!r} in [[policies]]; it is for {owners}")
        if self.kind == "periodic" and self.every is None:
            raise _refuse("", "[[policies]] of kind 'periodic' lacks 'every'; expected a whole number >= 1")
        return self

    @property
    def revealer(self) -> Revealer:
        """The rule that picks the moments."""
        if self.kind == "PD1":
            return PrimalDual(scale=self.scale)
        if self.kind == "PD2":
            return LearningPrimalDual(scale=self.scale, tolerance=self.tolerance)
        if self.kind == "periodic":
            assert self.every is not None
            return Periodic(every=self.every)
        plain: dict[str, Revealer] = {"naive": FixedRate(), "never": Never(), "always": Always()}
        return plain[self.kind]


class StudyFile(_Table):
    """The whole file."""

    study: StudyTable = Field(description="a table [study]")
    variables: Annotated[dict[str, VariableTable], Field(min_length=1)] = Field(
        description="a table [variables.NAME] for each variable of the context"
    )
    contexts: ContextsTable = Field(default=ContextsTable(), description="a table [contexts]")
    reward: RewardTable = Field(description="a table [reward]")
    effects: dict[str, Annotated[Effect, BeforeValidator(_as_effect)]] = Field(
        description="a table [effects] with the true effect of each term"
    )
    world: WorldTable = Field(default=WorldTable(), description="a table [world]")
    policies: Annotated[list[PolicyTable], Field(min_length=1)] = Field(
        description="a table [[policies]] for each policy, with double brackets"
    )


def _good_levels(levels: list[Any]) -> bool:
    texts = all(isinstance(level, str) and level for level in levels)
    numbers = all(
        isinstance(level, int | float) and not isinstance(level, bool) and math.isfinite(level) for level in levels
    )
    return len(levels) >= 2 and (texts or numbers) and len(set(levels)) == len(levels)


# --- the study


def load_study(path: str | Path) -> "Study":
    """Read a study file and check all of it; raises `InputError` that lists what is wrong, one a line."""
    source = Path(path)
    try:
        content = source.read_bytes()
        text = content.decode("utf-8-sig").replace("\r\n", "\n")
    except FileNotFoundError:
        raise InputError(f"{source} does not exist; expected a study file in TOML") from None
    except OSError as error:
        raise InputError(f"{source} cannot be read: {error.strerror}") from None
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise InputError(f"{source}, line {line}: not UTF-8 text; expected a study file in TOML") from None
    return parse_study(text, source=str(source))


def parse_study(text: str, *, source: str = "study.toml") -> "Study":
    """The study that a file's text describes; `source` is what complaints call the file."""
    try:
        content = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        raise InputError(_syntax_complaint(source, text, str(error))) from None
    lines = key_lines(text)
    try:
        settings = StudyFile.model_validate(content)
    except ValidationError as error:
        raise InputError(_listed(source, lines, _complaints(error.errors(), content))) from None
    study = Study(source=source, text=text, settings=settings)
    study.check()
    return study


@dataclass(frozen=True)
class Study:
    """A checked study: what its worlds and policies are, and how to run it."""

    source: str
    """What complaints call the file."""
    text: str
    """The file as it was read."""
    settings: StudyFile
    """Its content."""

    @property
    def name(self) -> str:
        """The study's name, under which results are saved."""
        return self.settings.study.name

    @cached_property
    def terms(self) -> tuple[str, ...]:
        """The names of the formula's terms, in the order of the features: the keys of [effects]."""
        return term_names(self.settings.reward.formula, self.levels, self.settings.study.actions)

    @cached_property
    def effects(self) -> dict[str, Effect]:
        """The true effect of each term."""
        by_term = {_normal_term(key): effect for key, effect in self.settings.effects.items()}
        rest = by_term.get(REST)
        return {term: found for term in self.terms if (found := by_term.get(_normal_term(term), rest))}

    @property
    def probabilities(self) -> Floats:
        """The probability of each context, first variable slowest."""
        contexts = math.prod(len(levels) for levels in self.levels.values())
        if self.settings.contexts.joint is not None:
            return np.array(self.settings.contexts.joint, dtype=np.float64).reshape(contexts)
        joint = np.ones(1)
        for variable in self.settings.variables.values():
            levels = len(variable.values)
            each = variable.probabilities or np.full(levels, 1.0 / levels)
            joint = np.multiply.outer(joint, np.asarray(each)).ravel()
        return np.asarray(joint / joint.sum())

    def worlds(self) -> list[LinearWorld]:
        """One world for each instance; instance i depends on (seed, i) alone."""
        study, world = self.settings.study, self.settings.world
        worlds = []
        for i in range(study.instances):
            draws = [float(draw(study.seed, i, j, PARAMETER)) for j in range(len(self.terms))]
            theta = np.array([effect.at(u) for effect, u in zip(self.effects.values(), draws, strict=True)])
            worlds.append(
                LinearWorld(
                    self._problem_for(theta),
                    theta=theta,
                    context_probs=self.probabilities,
                    open_rate=world.open_rate,
                    response_rate=world.response_rate,
                    name=self.name if study.instances == 1 else f"instance {i}",
                )
            )
        return worlds

    def policies(self) -> list[Policy]:
        """Every policy at each of its budgets."""
        return [policy for i in range(len(self.settings.policies)) for policy in self.policies_of(i)]

    def policies_of(self, i: int) -> list[Policy]:
        """Policy i of the file at each of its budgets."""
        entry, study = self.settings.policies[i], self.settings.study
        general = study.budgets if entry.kind in _BUDGETED else [None]
        return [
            Policy(
                recommender=LinUCB(unknown=entry.unknown),
                revealer=entry.revealer,
                budget=None if amount is None else Budget(amount, hard=study.budget_kind == "hard"),
                name=entry.name or "",
            )
            for amount in entry.budgets or general
        ]

    def replace(self, **changes: Any) -> "Study":
        """The same study with some keys of [study] changed, such as `replicates=2`; all is checked again."""
        for key in changes:
            checks.choice("key of [study]", key, StudyTable.model_fields)
        content = {**self.settings.study.model_dump(exclude_unset=True), **changes}
        try:
            changed = StudyTable.model_validate(content)
        except ValidationError as error:
            found = _complaints(error.errors(), {"study": content}, ("study",))
            raise InputError("\n".join(text for _, text in found)) from None
        study = replace(self, settings=self.settings.model_copy(update={"study": changed}))
        study.check()
        return study

    def run(self, *, progress: bool = True) -> "xr.Dataset":
        """Simulate every policy in every world; the file's text goes with the results."""
        from opportune.simulation import simulate  # noqa: PLC0415  (checking a file does without it)

        study, policies = self.settings.study, self.policies()
        worlds: list[Any] = list(self.worlds())
        if study.trace:
            _check_memory(self.source, study.horizon * study.replicates * len(worlds) * len(policies))
        data = simulate(
            worlds,
            policies,
            horizon=study.horizon,
            replicates=study.replicates,
            seed=study.seed,
            trace=study.trace,
            progress=progress,
        )
        return data.assign_attrs(study=self.name, study_file=self.text)

    def check(self) -> None:
        """Refuse parts that do not fit together, all of them in one error."""
        found = [*_check_variables(self), *_check_budgets(self), *_check_policies(self)]
        for check in (_check_formula, _check_effects, _check_fit):  # each needs what came before to be right
            found = found or list(check(self))
        if found:
            raise InputError(_listed(self.source, key_lines(self.text), found))

    @cached_property
    def levels(self) -> dict[str, list[Any]]:
        """The variables of the context with their levels."""
        return {name: variable.values for name, variable in self.settings.variables.items()}

    @cached_property
    def _problem(self) -> Problem:
        """What the agents know, value_range aside."""
        reward = self.settings.reward
        bound = math.sqrt(sum(effect.bound**2 for effect in self.effects.values())) or 1.0
        return Problem.from_formula(
            reward.formula,
            self.levels,
            self.settings.study.actions,
            self.probabilities if self.settings.contexts.known else None,
            noise_sd=reward.noise_sd,
            theta_bound=bound if reward.theta_bound is None else reward.theta_bound,
            delta=reward.delta,
            visibility={name: variable.visibility for name, variable in self.settings.variables.items()},
        )

    def _problem_for(self, theta: Floats) -> Problem:
        """The problem with a value_range, from the truth unless the file gives one."""
        problem, given = self._problem, self.settings.reward.value_range
        best = (problem.features @ theta).max(axis=1)
        low, high = given or (float(best.min()), float(best.max()))
        if low >= high:  # every context is worth the same: no range to speak of
            return problem
        return Problem(
            problem.features,
            problem.context_probs,
            noise_sd=problem.noise_sd,
            theta_bound=problem.theta_bound,
            value_range=(low, high),
            delta=problem.delta,
            variables=problem.variables,
            visibility=problem.visibility,
            action_names=problem.action_names,
        )


# --- what parts must fit together: each check yields where and what


def _check_variables(study: Study) -> Iterator[Complaint]:
    for name in study.levels:
        if name == "action" or not name.isidentifier() or keyword.iskeyword(name) or name in FUNCTIONS:
            expected = "expected letters, digits and '_', and none of action, " + ", ".join(FUNCTIONS)
            yield ("variables", name), f"a formula cannot name a variable {name!r}; {expected}"
    contexts = math.prod(len(levels) for levels in study.levels.values())
    if contexts > MOST_CONTEXTS:
        yield ("variables",), f"variables have {contexts:,} combinations; expected at most {MOST_CONTEXTS:,}"
    elif study.settings.contexts.joint is not None:
        yield from _check_joint(study, study.settings.contexts.joint)


def _check_joint(study: Study, joint: list[Any]) -> Iterator[Complaint]:
    for name, variable in study.settings.variables.items():
        if variable.probabilities is not None:
            text = f"[variables.{name}] has probabilities, and [contexts] has joint; expected one of them"
            yield ("variables", name, "probabilities"), text
    place = ("contexts", "joint")
    sizes = tuple(len(levels) for levels in study.levels.values())
    expected = " x ".join(map(str, sizes)) + (f" = {math.prod(sizes)}" if len(sizes) > 1 else "")
    try:
        given = np.array(joint, dtype=np.float64)
    except (TypeError, ValueError):
        yield place, f"joint in [contexts] is not an array of numbers; expected {expected} probabilities"
        return
    if given.shape not in {sizes, (math.prod(sizes),)}:
        shape = " x ".join(map(str, given.shape))
        yield place, f"joint in [contexts] has {shape} numbers; expected {expected}, first variable slowest"
        return
    try:
        checks.probabilities("joint in [contexts]", given.ravel(), given.size)
    except InputError as error:
        yield place, str(error)


def _check_budgets(study: Study) -> Iterator[Complaint]:
    general, entries = study.settings.study, study.settings.policies
    lists: list[tuple[Place, list[float]]] = [(("study", "budgets"), general.budgets)]
    for i, entry in enumerate(entries):
        if entry.kind in _BUDGETED and entry.budgets is None and not general.budgets:
            yield (
                ("policies", i),
                f"policy {entry.kind!r} has no budgets, here or in [study]; expected {_BUDGETS}",
            )
        lists.append((("policies", i, "budgets"), entry.budgets or []))
    for place, amounts in lists:
        for j, amount in enumerate(amounts):
            text = f"budgets in {_section(place)} holds {amount:g}"
            if amount > general.horizon:
                yield (*place, j), f"{text}; expected at most {general.horizon}, the horizon"
            elif general.budget_kind == "hard" and not amount.is_integer():
                yield (*place, j), f"{text}; a hard budget counts nudges, expected a whole number"
            elif amount in amounts[:j]:
                yield (*place, j), f"{text} twice; expected different budgets"


def _check_policies(study: Study) -> Iterator[Complaint]:
    seen = {name: variable.visibility for name, variable in study.settings.variables.items()}
    others = ", ".join(f"{name} is {visibility}" for name, visibility in seen.items() if visibility != "sensed")
    for i, entry in enumerate(study.settings.policies):
        if entry.unknown == "optimistic" and study.settings.contexts.known:
            text = "unknown = 'optimistic' is for probabilities that agents must learn"
            yield ("policies", i, "unknown"), f"{text}; expected known = false in [contexts] with it"
        elif entry.unknown == "optimistic" and others:
            text = "unknown = 'optimistic' needs variables that are all sensed"
            yield ("policies", i, "unknown"), f"{text}; here {others}"


def _check_formula(study: Study) -> Iterator[Complaint]:
    place = ("reward", "formula")
    found = list(_formula_complaints(study.settings.reward.formula, list(study.levels)))
    if found:
        yield from ((place, text) for text in found)
        return
    try:
        if not study.terms:
            yield place, "formula in [reward] has no terms; expected some, such as action"
    except InputError as error:
        yield place, str(error)


def _check_effects(study: Study) -> Iterator[Complaint]:
    known = {_normal_term(term) for term in study.terms}
    seen: dict[str, str] = {}
    near: set[str] = set()
    for key in study.settings.effects:
        term = _normal_term(key)
        if term != REST and term not in known:
            hint, guess = _nearest_term(key, study.terms)
            near.add(guess)
            yield ("effects", key), f"unknown term {key!r} in [effects]; {hint}"
        elif term in seen:
            yield ("effects", key), f"[effects] has {seen[term]!r} and {key!r}, which are the same term"
        seen[term] = key
    missing = [repr(term) for term in study.terms if term not in study.effects and term not in near]
    if missing:
        text = f"[effects] lacks {', '.join(missing)}; expected {_EFFECT}"
        yield ("effects",), f"{text}, or '{REST}' for all the rest"
    instances = study.settings.study.instances
    if instances > 1 and not any(effect.drawn for effect in study.settings.effects.values()):
        text = f"instances in [study] is {instances}, but every effect is a number"
        yield ("study", "instances"), f"{text}; expected 1, or a distribution in [effects]"


def _check_fit(study: Study) -> Iterator[Complaint]:
    """What only the finished worlds and policies can tell."""
    from opportune.simulation.pack import policy_labels  # noqa: PLC0415  (most wrong files are refused before)

    try:
        problems = [world.informed_problem() for world in study.worlds()]
    except InputError as error:
        yield ("reward",), str(error)
        return
    so_far: list[Policy] = []
    for i in range(len(study.settings.policies)):
        so_far += study.policies_of(i)
        try:
            for policy, problem in itertools.product(study.policies_of(i), problems):
                rule_for(policy, problem, horizon=study.settings.study.horizon)
            policy_labels(so_far)
        except InputError as error:
            yield ("policies", i), str(error)
            return


def _check_memory(source: str, steps: int) -> None:
    """Refuse to keep more steps than fit into this machine's memory."""
    if "SC_PHYS_PAGES" not in getattr(os, "sysconf_names", ()):
        return
    there = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE") / 2**30
    needed = steps * BYTES_PER_STEP / 2**30
    if needed > 0.9 * there:
        text = f"{source}: keeping {steps:,} steps takes {needed:.0f} GiB of memory; there are {there:.0f}"
        raise InputError(f"{text}; expected trace = false in [study], or fewer replicates")


# --- terms of the formula


def term_names(formula: str, variables: Mapping[str, Sequence[Any]], actions: Sequence[str]) -> tuple[str, ...]:
    """The features of a formula by names that people write: "action=call:stress", "mood=low", "intercept"."""
    import pandas as pd  # noqa: PLC0415  (slow to import)
    from formulaic import Formula  # noqa: PLC0415  (likewise)

    from opportune.problems.formula import design  # noqa: PLC0415  (likewise)

    width = design(formula, variables, actions).shape[-1]  # refuses what is no formula
    frame = pd.DataFrame(list(itertools.product(*variables.values(), actions)), columns=[*variables, "action"])
    for name, levels in {**variables, "action": actions}.items():
        if any(isinstance(level, str) for level in levels):
            frame[name] = pd.Categorical(frame[name], categories=list(levels))
    terms = [str(term) for term in Formula(f"0 + {formula}") if str(term) not in {"0", "1"}]
    columns = list(Formula(" + ".join(["1", *terms])).get_model_matrix(frame).columns)
    if len(columns) > width:
        columns.remove("Intercept")
    names = tuple(_friendly(column) for column in columns)
    return names if len(set(names)) == len(names) else tuple(columns)


def _friendly(column: str) -> str:
    """What people call a column of formulaic: action[T.call]:stress is action=call:stress."""
    return re.sub(r"\[(?:T\.)?(.*?)\](?=:|$)", r"=\1", column).replace("Intercept", "intercept")


def _normal_term(key: str) -> str:
    """A term's name whatever the order and spacing of its factors, and in formulaic's spelling as well."""
    name = re.sub(r"\s*([-+*/^(),])\s*", r"\1", _friendly(key))
    return ":".join(sorted(part.strip() for part in name.split(":")))


def _nearest_term(key: str, terms: Sequence[str]) -> tuple[str, str]:
    """A hint at the term that was meant, and that term."""
    normal_terms = {_normal_term(term): term for term in terms}
    near = difflib.get_close_matches(_normal_term(key), normal_terms, n=1)
    if near:
        return f"did you mean {normal_terms[near[0]]!r}?", normal_terms[near[0]]
    return f"expected one of {', '.join(map(repr, terms))}", ""


def _formula_complaints(formula: str, variables: list[str]) -> Iterator[str]:
    """What is wrong with a formula's words and signs: it names variables and a few functions, no code."""
    words = re.findall(r"[^\W\d]\w*|\d+(?:\.\d+)?|[-+*/:^(),\s]|.", formula)
    for word in dict.fromkeys(words):
        if word.isidentifier() and word not in (*variables, "action", *FUNCTIONS):
            hint = _did_you_mean(word, [*variables, "action"])
            yield f"formula in [reward] names {word!r}, which is no variable{hint}"
    signs = [sign for sign in dict.fromkeys(words) if not re.fullmatch(r"\w+|\d+\.\d+|[-+*/:^(),\s]", sign)]
    if signs:
        yield f"formula in [reward] has {' '.join(signs)}; expected variables, numbers and + - * / : ^ ( ) ,"
    if "action" not in words:
        yield "formula in [reward] does not name action; expected it, or every action would be worth the same"


# --- complaints


def _listed(source: str, lines: Mapping[Place, int], complaints: Iterable[Complaint]) -> str:
    """Complaints in the order of the file, one a line, each with its line number."""
    found = sorted((_line(lines, place), message) for place, message in complaints)
    return "\n".join(f"{source}, line {line}: {message}" if line else f"{source}: {message}" for line, message in found)


def _line(lines: Mapping[Place, int], place: Place) -> int:
    """The line of a place, or of the nearest thing around it; 0 if nothing of it is in the file."""
    while place and place not in lines:
        place = place[:-1]
    return lines.get(place, 0)


def _complaints(errors: Iterable[ErrorDetails], content: Mapping[str, Any], within: Place = ()) -> list[Complaint]:
    """What pydantic found wrong, in words; a missing key that an unknown one comes near to is left out."""
    found: list[Complaint] = []
    guessed: set[Place] = set()
    missing: list[Complaint] = []
    for error in errors:
        place = (*within, *error["loc"])
        if error["type"] == "extra_forbidden":
            message, guess = _unknown_key(place)
            guessed.add((*place[:-1], guess))
            found.append((place, message))
        elif error["type"] == "missing":
            missing.append((place, _missing_key(place)))
        elif error["type"] == "study":
            found.append(_own_complaint(place, error["ctx"]["key"], error["ctx"]["message"]))
        else:
            found.append((place, _wrong_value(place, content)))
    return found + [(place[:-1], message) for place, message in missing if place not in guessed]


def _own_complaint(place: Place, key: str, message: str) -> tuple[Place, str]:
    """A validator's complaint; about variables and effects it leaves the subject to us."""
    if place[0] == "variables":
        message = f"[variables.{place[1]}] {message}"
    elif place[0] == "effects":
        message = f"{str(place[1])!r} in [effects] {message}"
    return ((*place, key) if key else place), message


def _unknown_key(place: Place) -> tuple[str, str]:
    key, known = str(place[-1]), list(_table_at(place[:-1]).model_fields)
    if len(place) == 1:
        near = difflib.get_close_matches(key, known, n=1)
        hint = f"did you mean {_brackets(near[0])}?" if near else f"expected {', '.join(map(_brackets, known))}"
        return f"unknown section [{key}]; {hint}", near[0] if near else ""
    if place[0] == "effects":
        known.remove("value")
    near = difflib.get_close_matches(key, known, n=1)
    text = f"unknown key {key!r} in {_section(place)}"
    if near:
        return f"{text}; did you mean {near[0]!r}?", near[0]
    for section, table in _SECTIONS.items():
        if key in table.model_fields:
            return f"{text}; it belongs in {_brackets(section)}", ""
    return f"{text}; expected one of {', '.join(known)}", ""


def _missing_key(place: Place) -> str:
    key = str(place[-1])
    expected = _table_at(place[:-1]).model_fields[key].description
    if len(place) == 1:
        return f"{_brackets(key)} is missing; expected {expected}"
    return f"{_section(place)} lacks {key!r}; expected {expected}"


def _wrong_value(place: Place, content: Mapping[str, Any]) -> str:
    """A wrong value: what was given and what the field's description says was expected."""
    value: Any = content
    known: Place = ()
    for part in place:  # beyond what the file holds, the path names pydantic's own alternatives
        try:
            value = value[part]
        except (KeyError, IndexError, TypeError):
            break
        known = (*known, part)
    if len(known) == 1:
        expected = StudyFile.model_fields[str(known[0])].description
        return f"{known[0]} is {_show(value)}; expected {expected}"
    if known[0] == "variables" and len(known) == 2:
        return f"{known[1]} in [variables] is {_show(value)}; expected a table [variables.{known[1]}]"
    if known[0] == "policies" and len(known) == 2:
        return f"policies holds {_show(value)}; expected {StudyFile.model_fields['policies'].description}"
    name = "".join(f"[{part}]" if isinstance(part, int) else part for part in known[_depth(known) :])
    field = next(str(part) for part in known[_depth(known) :])
    model = _table_at(known[: _depth(known)])
    expected = model.model_fields[field].description
    text = f"{name} in {_section(known)} is {_show(value)}; expected {expected}"
    options = re.findall(r"'(\w+)'", expected or "")
    return text + (_did_you_mean(value, options) if isinstance(value, str) and options else "")


_SECTIONS: dict[str, type[BaseModel]] = {
    "study": StudyTable,
    "variables": VariableTable,
    "contexts": ContextsTable,
    "reward": RewardTable,
    "effects": Effect,
    "world": WorldTable,
    "policies": PolicyTable,
}


def _table_at(place: Place) -> type[BaseModel]:
    return _SECTIONS[str(place[0])] if place else StudyFile


def _depth(place: Place) -> int:
    """How many parts of a place lead to its table: 2 where tables have names or numbers, else 1."""
    return 2 if place[0] in {"variables", "effects", "policies"} else 1


def _brackets(section: str) -> str:
    return {"policies": "[[policies]]", "variables": "[variables.NAME]"}.get(section, f"[{section}]")


def _section(place: Place) -> str:
    """What the table around a place is called in the file."""
    if place[0] == "variables":
        return f"[variables.{place[1]}]"
    if place[0] == "effects" and len(place) > 2:
        return f"{str(place[1])!r} of [effects]"
    return _brackets(str(place[0]))


def _did_you_mean(word: str, known: Sequence[str]) -> str:
    near = difflib.get_close_matches(word.lower(), [k.lower() for k in known], n=1)
    return "".join(f"; did you mean {k!r}?" for k in known if near and k.lower() == near[0])


def _show(value: Any) -> str:
    """A value as it stands in the file, shortened."""
    try:
        text = json.dumps(value, ensure_ascii=False)
    except (TypeError, ValueError):
        text = str(value)
    if isinstance(value, str):
        text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."


def _syntax_complaint(source: str, text: str, message: str) -> str:
    """What tomllib says, with the line where ours stand."""
    found = re.fullmatch(r"(.*) \(at (?:line (\d+), column (\d+)|end of document)\)", message)
    if not found:
        return f"{source}: not TOML: {message}"
    line = found[2] or str(text.count("\n") + 1)
    column = f" at column {found[3]}" if found[3] else " at the end of the file"
    return f"{source}, line {line}: not TOML: {found[1][0].lower()}{found[1][1:]}{column}"


# --- lines of keys


def key_lines(text: str) -> dict[Place, int]:
    """The line of every table, key and list entry, in a text that tomllib accepts (it keeps none)."""
    return _Scanner(text).scan()


class _Scanner:
    """Walks through valid TOML and notes on which line each place begins."""

    def __init__(self, text: str) -> None:
        self.text = text
        self.at = 0
        self.lines: dict[Place, int] = {}
        self.tables_in: dict[Place, int] = {}  # how many [[tables]] an array has so far

    def scan(self) -> dict[Place, int]:
        table: Place = ()
        self._skip()
        while self.at < len(self.text):
            if self.text[self.at] == "[":
                table = self._header()
            else:
                self._pair(table)
            self._skip()
        return self.lines

    def _skip(self, also: str = "") -> None:
        """Go past blanks, line ends and comments."""
        while self.at < len(self.text):
            if self.text[self.at] == "#":
                end = self.text.find("\n", self.at)
                self.at = len(self.text) if end < 0 else end
            elif self.text[self.at] in " \t\r\n" + also:
                self.at += 1
            else:
                return

    def _note(self, place: Place, at: int) -> None:
        self.lines.setdefault(place, self.text.count("\n", 0, at) + 1)

    def _header(self) -> Place:
        """[a.b] or [[a.b]]: the place of the table that it opens."""
        begin = self.at
        array = self.text.startswith("[[", self.at)
        self.at += 2 if array else 1
        key = self._key()
        self.at += 2 if array else 1
        place: Place = ()
        for i, part in enumerate(key):
            place = (*place, part)
            self._note(place, begin)
            if array and i == len(key) - 1:
                self.tables_in[place] = self.tables_in.get(place, 0) + 1
            if place in self.tables_in:
                place = (*place, self.tables_in[place] - 1)
                self._note(place, begin)
        return place

    def _key(self) -> list[str]:
        """A key, dotted or not, up to the sign after it."""
        parts: list[str] = []
        while True:
            self._skip()
            if self.text[self.at] in "\"'":
                begin = self.at
                self._string()
                parts.append(tomllib.loads(f"key = {self.text[begin : self.at]}")["key"])
            else:
                word = re.compile(r"[A-Za-z0-9_-]+").match(self.text, self.at)
                assert word is not None
                parts.append(word[0])
                self.at = word.end()
            self._skip()
            if self.text[self.at] != ".":
                return parts
            self.at += 1

    def _pair(self, table: Place) -> None:
        """A key with its value, whose own keys are noted too."""
        begin = self.at
        key = self._key()
        for i in range(len(key)):
            self._note((*table, *key[: i + 1]), begin)
        self.at += 1
        self._value((*table, *key))

    def _value(self, place: Place) -> None:
        self._skip()
        sign = self.text[self.at]
        if sign in "\"'":
            self._string()
        elif sign in "[{":
            self.at += 1
            self._skip()
            count = 0
            while self.text[self.at] not in "]}":
                if sign == "[":
                    self._note((*place, count), self.at)
                    self._value((*place, count))
                else:
                    self._pair(place)
                count += 1
                self._skip(",")
            self.at += 1
        else:
            word = re.compile(r"[^,\]}#\n]+").match(self.text, self.at)
            assert word is not None
            self.at = word.end()

    def _string(self) -> None:
        """Go past a string of any of the four kinds."""
        quote = self.text[self.at]
        mark = quote * 3 if self.text.startswith(quote * 3, self.at) else quote
        self.at += len(mark)
        while not self.text.startswith(mark, self.at):
            self.at += 2 if quote == '"' and self.text[self.at] == "\\" else 1
        self.at += len(mark)
        while len(mark) == 3 and self.text.startswith(quote, self.at):  # up to two quotes may end the text itself
            self.at += 1
