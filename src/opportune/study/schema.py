"""What a study file may hold: a model for each table, whose descriptions say what is expected there."""

from typing import Annotated, Any, Literal

from pydantic import BeforeValidator, Field, model_validator

from opportune.core.rng import normal
from opportune.revealers import Always, FixedRate, LearningPrimalDual, Never, Periodic, PrimalDual, Revealer
from opportune.study.base import Table, refuse, show
from opportune.study.variables import VariableTable

REST = "*"
"""The key of [effects] that stands for every term not named."""
BUDGETS = "a list of numbers > 0, such as [10, 20]"
EFFECT = "a number, { low = ..., high = ... } or { mean = ..., sd = ... }"
BUDGETED = ("naive", "PD1", "PD2")
"""The kinds of policy that need a budget."""


_Budgets = list[Annotated[float, Field(gt=0.0)]]


class StudyTable(Table):
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
    budgets: _Budgets = Field(default=[], description=BUDGETS)
    decisions_per_day: Annotated[int, Field(ge=1, le=1440)] | None = Field(
        default=None, description="a whole number from 1 to 1440"
    )
    budget_kind: Literal["expected", "hard"] = Field(default="expected", description="'expected' or 'hard'")
    trace: bool = Field(default=True, description="true (keep every step) or false (keep totals only)")

    @model_validator(mode="after")
    def _names(self) -> "StudyTable":
        if len(self.actions) < 2 or len(set(self.actions)) < len(self.actions) or "" in self.actions:
            expected = type(self).model_fields["actions"].description
            raise refuse("actions", f"actions in [study] is {show(self.actions)}; expected {expected}")
        return self


class ContextsTable(Table):
    """[contexts]: how contexts arrive, beyond each variable's own probabilities."""

    known: bool = Field(default=True, description="true, or false if the agents must learn the probabilities")
    joint: list[Any] | None = Field(
        default=None, description="a probability for each combination of levels, first variable slowest"
    )


class RewardTable(Table):
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
            text = f"value_range in [reward] is {show(self.value_range)}"
            raise refuse("value_range", f"{text}; expected [lowest, highest] with lowest < highest")
        return self


class Effect(Table):
    """The true effect of one term: a number, or a distribution it is drawn from."""

    value: float | None = Field(default=None, description="a number")
    low: float | None = Field(default=None, description="a number")
    high: float | None = Field(default=None, description="a number")
    mean: float | None = Field(default=None, description="a number")
    sd: float | None = Field(default=None, ge=0.0, description="a number >= 0")

    @model_validator(mode="after")
    def _check(self) -> "Effect":
        if self.model_fields_set not in ({"value"}, {"low", "high"}, {"mean", "sd"}):
            raise refuse("", f"has {', '.join(sorted(self.model_fields_set)) or 'nothing'}; expected {EFFECT}")
        if self.low is not None and self.high is not None and self.low > self.high:
            raise refuse("low", f"has low = {self.low:g} and high = {self.high:g}; expected low <= high")
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
    raise refuse("", f"is {show(given)}; expected {EFFECT}")


class WorldTable(Table):
    """[world]: how patients treat the app and its nudges."""

    open_rate: float = Field(
        default=0.0, ge=0.0, le=1.0, description="a probability, that a patient opens the app unasked"
    )
    response_rate: float = Field(default=1.0, ge=0.0, le=1.0, description="a probability, that a nudge is answered")
    available_rate: float = Field(
        default=1.0, ge=0.0, le=1.0, description="a probability, that a patient is available at a decision"
    )
    reward_rate: float = Field(default=1.0, ge=0.0, le=1.0, description="a probability, that a reward ever arrives")
    reward_delay: int = Field(
        default=0, ge=0, le=10_000, description="a whole number from 0 to 10000, the most steps a reward is late"
    )


_KINDS: dict[str, set[str]] = {
    "naive": {"unknown", "budgets"},
    "PD1": {"unknown", "budgets", "scale"},
    "PD2": {"unknown", "budgets", "scale", "tolerance"},
    "never": {"unknown"},
    "always": {"unknown", "budgets"},
    "periodic": {"unknown", "budgets", "every"},
}


class PolicyTable(Table):
    """[[policies]]: one policy to try, at each of its budgets."""

    kind: Literal["naive", "PD1", "PD2", "never", "always", "periodic"] = Field(
        description="'naive', 'PD1', 'PD2', 'never', 'always' or 'periodic'"
    )
    name: Annotated[str, Field(min_length=1)] | None = Field(default=None, description="a name for tables and figures")
    budgets: Annotated[_Budgets, Field(min_length=1)] | None = Field(default=None, description=BUDGETS)
    scale: Literal["adaptive", "range", "gap"] = Field(default="adaptive", description="'adaptive', 'range' or 'gap'")
    every: Annotated[int, Field(ge=1)] | None = Field(default=None, description="a whole number >= 1")
    tolerance: Annotated[float, Field(ge=0.0)] | None = Field(default=None, description="a number >= 0")
    unknown: Literal["plugin", "optimistic"] = Field(default="plugin", description="'plugin' or 'optimistic'")
    pooled: bool = Field(default=False, description="true (all instances learn one model) or false (one each)")

    @model_validator(mode="after")
    def _check(self) -> "PolicyTable":
        for key in type(self).model_fields:
            if key in self.model_fields_set and key not in _KINDS[self.kind] | {"kind", "name", "pooled"}:
                owners = " or ".join(repr(kind) for kind, keys in _KINDS.items() if key in keys)
                raise refuse(key, f"{key} does not apply to kind {self.kind!r} in [[policies]]; it is for {owners}")
        if self.kind == "periodic" and self.every is None:
            raise refuse("", "[[policies]] of kind 'periodic' lacks 'every'; expected a whole number >= 1")
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


class StudyFile(Table):
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
