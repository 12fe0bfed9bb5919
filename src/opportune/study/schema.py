"""The tables of a study file. The description of each field says what is expected there.

The registries determine the kinds of policies, the recommenders and their settings.
"""

import dataclasses
import itertools
from collections.abc import Sequence
from typing import Annotated, Any, Literal

from pydantic import AfterValidator, BaseModel, BeforeValidator, Field, model_validator
from pydantic_core import PydanticCustomError

from opportune.checks import MOST_STEPS
from opportune.engine.hooks import Registry
from opportune.errors import InputError
from opportune.problems.settings import LEAST_WIDTH, MOST_ACTIONS
from opportune.recommenders import RECOMMENDERS, LinUCB, Recommender
from opportune.revealers import RECOMMENDED, REVEALERS, Revealer
from opportune.study.analysis import AnalysisTable
from opportune.study.base import WRONG, Mistakes, Table, WrongValueError, keys_of, refuse, show
from opportune.study.people import ActionTable, NudgeTable, ParticipantsTable, RedcapTable, ScheduleTable, ServeTable
from opportune.study.trial import ArmsTable, LearningTable, PriorEffect, ProbabilitiesTable, StaffTable
from opportune.study.truth import Effect, WorldTable, as_effect
from opportune.study.variables import VariableTable

MOST_INSTANCES = 100_000
REST = "*"
"""The key of [effects] for all terms that are not named."""
BUDGETS = "a list of numbers > 0, such as [10, 20]"
CHOICES: dict[str, Registry] = {"kind": REVEALERS, "recommender": RECOMMENDERS}
"""The keys of [[policies]] whose values are names from a registry."""


_Budgets = list[Annotated[float, Field(gt=0.0)]]


class StudyTable(Table):
    """[study]: name, size, actions and budgets."""

    name: str = Field(
        pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,99}$",
        description="a name of letters, digits, '.', '_' and '-', at most 100 (results are saved under it)",
    )
    seed: int = Field(default=1, ge=0, le=2**64 - 1, description="a whole number >= 0")
    horizon: int = Field(ge=1, le=MOST_STEPS, description="a whole number >= 1, the decisions in a run")
    replicates: int = Field(default=50, ge=1, le=2**32 - 1, description="a whole number >= 1, the runs of each policy")
    instances: int = Field(
        default=1, ge=1, le=MOST_INSTANCES, description="a whole number >= 1, the sets of true effects to draw"
    )
    actions: list[str] = Field(description="a list of at least two different names, such as ['rest', 'call']")
    budgets: _Budgets = Field(default=[], description=BUDGETS)
    decisions_per_day: Annotated[int, Field(ge=1, le=1440)] | None = Field(
        default=None, description="a whole number from 1 to 1440"
    )
    budget_kind: Literal["expected", "hard"] = Field(default="expected", description="'expected' or 'hard'")
    budget_shared: bool = Field(
        default=False, description="true (participants share one budget) or false (one budget each)"
    )
    trace: bool = Field(default=True, description="true (keep every step) or false (keep totals only)")
    run_in_days: int = Field(
        default=0, ge=0, le=3660, description="a whole number >= 0, the days before the first nudge is allowed"
    )
    run_in: Literal["equal", "fixed"] = Field(
        default="equal",
        description="'equal' (allowed actions equally likely) or 'fixed' (the fallback), the advice in the run-in",
    )
    language: str = Field(
        default="en",
        pattern=r"^[a-z]{2,3}(-[A-Za-z0-9]{2,8})*$",
        description="the language of the file's texts, such as 'en', 'de' or 'pt-BR'",
    )

    def mistakes(self) -> Mistakes:
        """Actions must be different."""
        if (
            not 2 <= len(self.actions) <= MOST_ACTIONS
            or len(set(self.actions)) < len(self.actions)
            or "" in self.actions
        ):
            expected = type(self).model_fields["actions"].description
            yield "actions", f"is {show(self.actions)}; expected {expected}"


class ContextsTable(Table):
    """[contexts]: joint probabilities, and whether agents know them."""

    known: bool = Field(default=True, description="true, or false if the agents must learn the probabilities")
    joint: list[Any] | None = Field(
        default=None, description="a probability for each combination of levels, first variable slowest"
    )


class RewardTable(Table):
    """[reward]: the model of the reward that agents know."""

    formula: str = Field(description="a formula over the variables and action, such as 'action + action:stress'")
    noise_sd: float = Field(gt=0.0, description="a number > 0, the sd of the reward's noise")
    theta_bound: float | None = Field(
        default=None, gt=0.0, description="a number > 0, a bound on the norm of the effects"
    )
    value_range: Annotated[list[float], Field(min_length=2, max_length=2)] | None = Field(
        default=None, description="[lowest, highest] expected reward of the best action"
    )
    delta: float = Field(default=0.05, gt=0.0, lt=1.0, description="a number between 0 and 1")
    unit: Annotated[str, Field(min_length=1)] | None = Field(
        default=None, description="the unit of rewards, such as 'minutes'"
    )
    family: Literal["gaussian", "binary", "count"] = Field(
        default="gaussian", description="'gaussian', 'binary' or 'count', how simulated rewards are drawn"
    )
    bounds: Annotated[list[float], Field(min_length=2, max_length=2)] | None = Field(
        default=None, description="[lowest, highest] valid reward"
    )
    wait_hours: float = Field(
        default=72.0, gt=0.0, description="a number > 0, the hours after which a missing reward expires"
    )
    default: float | None = Field(default=None, description="a number, used for a reward that has expired")

    def mistakes(self) -> Mistakes:
        """Bounds must be in order, and other keys must agree with them."""
        yield self._mistakes_of_bounds()
        yield self._mistakes_of_value_range()

    def _mistakes_of_bounds(self) -> Mistakes:
        if self.bounds is None:
            return
        low, high = self.bounds
        if low >= high:
            yield "bounds", f"is {show(self.bounds)}; expected [lowest, highest] with lowest < highest"
            return
        yield self._mistakes_of_default(low, high)
        if self.family == "binary" and self.bounds != [0.0, 1.0]:
            yield "bounds", f"is {show(self.bounds)}, and family is 'binary'; expected [0, 1]"

    def _mistakes_of_default(self, low: float, high: float) -> Mistakes:
        if self.default is not None and not low <= self.default <= high:
            yield "default", f"is {self.default:g}; expected a number within bounds, {show([low, high])}"

    def _mistakes_of_value_range(self) -> Mistakes:
        if self.value_range is None:
            return
        low, high = self.value_range
        if low >= high:
            yield "value_range", f"is {show(self.value_range)}; expected [lowest, highest] with lowest < highest"
        elif high - low < LEAST_WIDTH:
            yield "value_range", f"is {show(self.value_range)}; expected a width of at least {LEAST_WIDTH:g}"


def one_of(names: Sequence[str]) -> str:
    """Names as a choice: 'a', 'b' or 'c'."""
    quoted = [repr(name) for name in names]
    return " or ".join([", ".join(quoted[:-1]), quoted[-1]] if len(quoted) > 1 else quoted)


def expected(table: type[BaseModel], key: str) -> str:
    """What is expected for a table's key: the registered names, or the field's description."""
    if table is PolicyTable and key in CHOICES:
        return one_of(list(CHOICES[key].kinds()))
    field = keys_of(table).get(key)
    return (field.description if field is not None else None) or "a value"


def _registered(key: str) -> AfterValidator:
    def check(name: str) -> str:
        if name not in CHOICES[key].kinds():
            raise PydanticCustomError("choice", "unknown name")  # `messages` writes the message
        return name

    return AfterValidator(check)


class PolicyTable(Table):
    """[[policies]]: a policy to simulate, at each of its budgets."""

    kind: Annotated[str, _registered("kind")] = Field(description="the name of a revealer")
    recommender: Annotated[str, _registered("recommender")] = Field(
        default=LinUCB.kind, description="the name of a recommender"
    )
    name: Annotated[str, Field(min_length=1)] | None = Field(default=None, description="a name for tables and figures")
    budgets: Annotated[_Budgets, Field(min_length=1)] | None = Field(default=None, description=BUDGETS)
    scale: Literal["adaptive", "range", "gap"] = Field(default="adaptive", description="'adaptive', 'range' or 'gap'")
    every: Annotated[int, Field(ge=1)] | None = Field(default=None, description="a whole number >= 1")
    tolerance: Annotated[float, Field(ge=0.0)] | None = Field(default=None, description="a number >= 0")
    randomise: Literal["candidates"] | Annotated[float, Field(gt=0.0, le=1.0)] | None = Field(
        default=None,
        description="'candidates', or a number above 0 and up to 1",
        json_schema_extra={"$comment": 'default when served, with `schema = 1`: `"candidates"`'},
    )
    least: Annotated[float, Field(gt=0.0, le=0.5)] | None = Field(
        default=None, description="a number above 0 and up to 0.5"
    )
    value: Literal["realised", "paper"] = Field(default="realised", description="'realised' or 'paper'")
    guard: Annotated[float, Field(gt=0.0, le=1.0)] | None = Field(
        default=None, description="a number above 0 and up to 1"
    )
    unknown: Literal["plugin", "optimistic"] = Field(default="plugin", description="'plugin' or 'optimistic'")
    pooled: bool | Literal["partial"] = Field(
        default=False,
        description="true (all instances learn one model), false (one each) or 'partial' (one each, shrunk towards a "
        "common one)",
    )
    rotate: bool = Field(default=False, description="true or false")
    kappa: Annotated[float, Field(ge=0.0, le=1e6)] = Field(default=1.0, description="a number >= 0")
    radius: Literal["uniform", "pointwise"] = Field(default="uniform", description="'uniform' or 'pointwise'")
    inflation: Annotated[float, Field(ge=0.0, le=1e6)] = Field(default=1.0, description="a number >= 0")
    points: Annotated[int, Field(ge=2, le=4096, multiple_of=2)] | None = Field(
        default=None, description="an even number from 2 to 4096"
    )
    floor: Annotated[float, Field(gt=0.0, le=0.5)] | None = Field(
        default=None, description="a number above 0 and up to 0.5"
    )
    action: str | None = Field(default=None, description="the name of an action in [study]")
    settings: dict[str, Any] = Field(default={})  # settings of rules from outside; in a file, keys of the table

    @model_validator(mode="before")
    @classmethod
    def _take_settings(cls, given: Any) -> Any:
        """Collect the keys that are settings of rules from outside."""
        if not isinstance(given, dict):
            return given
        given = {key: value for key, value in given.items() if (key, value) != ("settings", WRONG)}
        if "settings" in given:
            raise refuse("settings", "unknown key 'settings' in [[policies]]; expected each as a key of its own")
        entries = itertools.chain.from_iterable(CHOICES.values())
        others = {field.name for entry in entries for field in dataclasses.fields(entry)} - set(cls.model_fields)
        if others.isdisjoint(given):
            return given
        kept = {key: value for key, value in given.items() if key not in others}
        return {**kept, "settings": {key: given[key] for key in given if key in others}}

    def mistakes(self) -> Mistakes:
        """Settings must be those of the policy's kind and recommender."""
        given = self.model_fields_set - {"kind", "recommender", "name", "pooled", "settings"}
        for key in (*(key for key in type(self).model_fields if key in given), *self.settings):
            yield self._mistakes_of_owner(key)
        yield self._mistakes_of_missing("of kind", "kind")
        yield self._mistakes_of_missing("with recommender", "recommender")
        yield self._mistakes_of_least()
        if self.settings:
            yield self._mistakes_of_settings()

    def _mistakes_of_owner(self, key: str) -> Mistakes:
        """A setting that is given must belong to the revealer or to the recommender."""
        revealers, recommenders = _owners(REVEALERS, key), _owners(RECOMMENDERS, key)
        self._value(key)  # a wrong value has been reported
        if self.kind not in revealers and self.recommender not in recommenders:
            of = f"kind {self.kind!r}" if revealers else f"recommender {self.recommender!r}"
            owners = " or ".join(map(repr, revealers or recommenders))
            yield key, f"{key} does not apply to {of} in [[policies]]; it is for {owners}"

    def _mistakes_of_missing(self, of: str, key: str) -> Mistakes:
        """A setting without a default must be given."""
        name = getattr(self, key)
        for field in dataclasses.fields(CHOICES[key].kinds()[name]):
            if field.default is dataclasses.MISSING and field.name not in {*self.model_fields_set, *self.settings}:
                lacks = f"[[policies]] {of} {name!r} lacks {field.name!r}"
                yield field.name, f"{lacks}; expected {expected(PolicyTable, field.name)}"

    def _mistakes_of_least(self) -> Mistakes:
        if self.least is not None and self.randomise != "candidates":
            yield "least", "least in [[policies]] is for randomise = 'candidates'; expected that beside it"

    def _mistakes_of_settings(self) -> Mistakes:
        """Rules from outside check their own settings."""
        try:
            _ = (self.revealer, self._recommender(**self._settings(self._recommender)))
        except InputError as error:
            yield "", f"[[policies]] of kind {self.kind!r}: {error}"

    @property
    def needs_budget(self) -> bool:
        """Whether it needs budgets, its own or those of [study]."""
        return bool(self.rule.needs_budget)

    @property
    def rule(self) -> type[Revealer]:
        """The class of the rule that picks the moments."""
        return REVEALERS.kinds()[self.kind]  # type: ignore[no-any-return]

    @property
    def _recommender(self) -> type[Recommender]:
        return RECOMMENDERS.kinds()[self.recommender]  # type: ignore[no-any-return]

    @property
    def revealer(self) -> Revealer:
        """The rule that picks the moments."""
        return self.rule(**self._settings(self.rule))

    def recommender_among(self, actions: Sequence[str]) -> Recommender:
        """The rule that picks one of these actions."""
        settings = self._settings(self._recommender)
        if self._recommender is LinUCB and self.unknown == "plugin":
            settings = {**self.rule.suits, **settings}  # as in pace_ucb
        if self.action is not None:
            settings["action"] = list(actions).index(self.action)
        return self._recommender(**settings)

    def _settings(self, chosen: type[Revealer] | type[Recommender]) -> dict[str, Any]:
        given = {*self.model_fields_set, *self.settings}
        return {field.name: self._value(field.name) for field in dataclasses.fields(chosen) if field.name in given}

    def _value(self, key: str) -> Any:
        value = self.settings[key] if key in self.settings else getattr(self, key)
        if value is WRONG:
            raise WrongValueError
        return value


def _owners(registry: Registry, key: str) -> list[str]:
    """The kinds in a registry that have a setting with this key."""
    if key == "budgets":
        return [kind for kind, entry in registry.kinds().items() if getattr(entry, "spends", False)]
    return [
        kind for kind, entry in registry.kinds().items() if key in {field.name for field in dataclasses.fields(entry)}
    ]


class StudyFile(Table):
    """The whole file. Only simulations use [effects] and [world], which describe the truth."""

    edition: Literal[1] = Field(
        default=1,
        alias="schema",
        description="1, the edition that randomises nudges and actions by default when served",
    )
    study: StudyTable = Field(description="a table [study]")
    variables: Annotated[dict[str, VariableTable], Field(min_length=1)] = Field(
        description="a table [variables.NAME] for each variable of the context"
    )
    contexts: ContextsTable = Field(default=ContextsTable(), description="a table [contexts]")
    reward: RewardTable = Field(description="a table [reward]")
    effects: dict[str, Annotated[Effect, BeforeValidator(as_effect)]] = Field(
        default={}, description="a table [effects] with the true effect of each term"
    )
    world: WorldTable = Field(default=WorldTable(), description="a table [world]")
    policies: Annotated[list[PolicyTable], Field(min_length=1)] = Field(
        default=[PolicyTable(kind=RECOMMENDED.kind)],
        description="a table [[policies]] for each policy, with double brackets",
    )
    actions: dict[str, ActionTable] = Field(default={}, description="a table [actions.NAME] for an action in [study]")
    nudge: NudgeTable = Field(default=NudgeTable(), description="a table [nudge]")
    participants: ParticipantsTable = Field(default=ParticipantsTable(), description="a table [participants]")
    schedule: ScheduleTable = Field(default=ScheduleTable(), description="a table [schedule]")
    serve: ServeTable = Field(default=ServeTable(), description="a table [serve]")
    redcap: RedcapTable | None = Field(default=None, description="a table [redcap] with the url of its API")
    staff: StaffTable = Field(default=StaffTable(), description="a table [staff]")
    arms: ArmsTable | None = Field(default=None, description="a table [arms] with a name and a share for each arm")
    probabilities: ProbabilitiesTable = Field(default=ProbabilitiesTable(), description="a table [probabilities]")
    learning: LearningTable = Field(default=LearningTable(), description="a table [learning]")
    prior: dict[str, PriorEffect] = Field(
        default={}, description="a table [prior] with the prior mean and sd of terms, { mean = ..., sd = ... }"
    )
    analysis: AnalysisTable = Field(default=AnalysisTable(), description="a table [analysis]")
