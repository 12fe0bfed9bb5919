"""`Policy`: who recommends, who reveals and with what budget; and how its names become numbers for the core."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar

from opportune import checks
from opportune.core import reveal
from opportune.core.layout import ADAPTIVE, BANDIT, CONSTANT, RANDOM, Rule
from opportune.errors import InputError
from opportune.problems.finite import Problem

SCALES = ("adaptive", "range", "gap")
UNKNOWN = ("plugin", "optimistic")


@dataclass(frozen=True, kw_only=True)
class LinUCB:
    """The recommender of the paper: linear UCB.

    `unknown` says what to do where the context distribution is not known: "plugin" goes by observed
    frequencies, "optimistic" maximises over a confidence set around them (SPEC section 8).
    """

    unknown: str = "plugin"

    def __post_init__(self) -> None:
        checks.choice("unknown", self.unknown, UNKNOWN)


@dataclass(frozen=True, kw_only=True)
class FixedAction:
    """A reference recommender: always the same action."""

    action: int

    def __post_init__(self) -> None:
        checks.whole("action", self.action, least=0)


@dataclass(frozen=True, kw_only=True)
class RandomAction:
    """A reference recommender: every action equally likely, whatever the context."""


@dataclass(frozen=True, kw_only=True)
class FixedRate:
    """The paper's naive revealer: probability B/T at every step."""

    rule: ClassVar[int] = reveal.FIXED_RATE
    label: ClassVar[str] = "naive"


@dataclass(frozen=True, kw_only=True)
class PrimalDual:
    """PD1, Algorithm C.1: reveal when the gap beats the price; the price rises with spending."""

    scale: str = "adaptive"
    rule: ClassVar[int] = reveal.PRIMAL_DUAL
    label: ClassVar[str] = "PD1"

    def __post_init__(self) -> None:
        checks.choice("scale", self.scale, SCALES)


@dataclass(frozen=True, kw_only=True)
class LearningPrimalDual:
    """PD2, Algorithm 1: as PD1, and the more when the recommender's stale action differs from the fresh one.

    `tolerance` is beta_0; unless given it is the paper's 1.2 Dmin ln(10) sqrt(10) / ln(B).
    """

    scale: str = "adaptive"
    tolerance: float | None = None
    rule: ClassVar[int] = reveal.LEARNING_PRIMAL_DUAL
    label: ClassVar[str] = "PD2"

    def __post_init__(self) -> None:
        checks.choice("scale", self.scale, SCALES)
        if self.tolerance is not None:
            checks.real("tolerance", self.tolerance, least=0.0)


@dataclass(frozen=True, kw_only=True)
class Never:
    """Never reveal."""

    rule: ClassVar[int] = reveal.NEVER
    label: ClassVar[str] = "never"


@dataclass(frozen=True, kw_only=True)
class Always:
    """Reveal at every step while the budget lasts."""

    rule: ClassVar[int] = reveal.ALWAYS
    label: ClassVar[str] = "always"


@dataclass(frozen=True, kw_only=True)
class Periodic:
    """Reveal at steps `every`, 2 `every`, ... while the budget lasts."""

    every: int
    rule: ClassVar[int] = reveal.PERIODIC
    label: ClassVar[str] = "periodic"

    def __post_init__(self) -> None:
        checks.whole("every", self.every, least=1)


Recommender = LinUCB | FixedAction | RandomAction
Revealer = FixedRate | PrimalDual | LearningPrimalDual | Never | Always | Periodic
NEEDS_BUDGET = (FixedRate, PrimalDual, LearningPrimalDual)


@dataclass(frozen=True)
class Budget:
    """How many reveals there are.

    Args:
        amount: B.
        hard: expected (False, the paper's): the probabilities sum to at most B. Hard: besides, no nudge once B
            have happened; B is then a whole number.
        shared: one budget for all participants of a study instead of one each.

    """

    amount: float
    hard: bool = field(default=False, kw_only=True)
    shared: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        amount = checks.real("budget", self.amount, above=0.0)
        if self.hard and not amount.is_integer():
            raise InputError(f"budget is {amount:g}; a hard budget counts nudges, expected a whole number")
        object.__setattr__(self, "amount", amount)


@dataclass(frozen=True, kw_only=True)
class Policy:
    """A recommender, a revealer and a budget. Baselines without a budget reveal as their rule says."""

    recommender: Recommender = field(default_factory=LinUCB)
    revealer: Revealer = field(default_factory=LearningPrimalDual)
    budget: Budget | None = None
    name: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.recommender, Recommender):
            raise InputError(f"recommender is {self.recommender!r}; expected a recommender, such as LinUCB()")
        if not isinstance(self.revealer, Revealer):
            raise InputError(f"revealer is {self.revealer!r}; expected a revealer, such as LearningPrimalDual()")
        if self.budget is not None:
            object.__setattr__(self, "budget", _budget(self.budget))
        if self.budget is None and isinstance(self.revealer, NEEDS_BUDGET):
            kind = type(self.revealer).__name__
            raise InputError(f"{kind} has no budget; expected budget=... with the number of reveals")
        if not self.name:
            object.__setattr__(self, "name", self.revealer.label)

    @property
    def scale(self) -> str:
        """How gaps are scaled; "" where the revealer does not go by them."""
        return str(getattr(self.revealer, "scale", ""))

    @property
    def shared(self) -> bool:
        """Whether participants share one budget."""
        return self.budget is not None and self.budget.shared

    @property
    def optimistic(self) -> bool:
        """Whether an unknown context distribution is met with optimism."""
        return isinstance(self.recommender, LinUCB) and self.recommender.unknown == "optimistic"

    def describe(self) -> dict[str, Any]:
        """The policy as plain JSON values."""
        return {
            "name": self.name,
            "recommender": _describe(self.recommender),
            "revealer": _describe(self.revealer),
            "budget": None if self.budget is None else dict(vars(self.budget)),
        }

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any]) -> "Policy":
        """The policy that `describe` described."""
        budget = saved["budget"]
        return cls(
            recommender=_build(saved["recommender"], (LinUCB, FixedAction, RandomAction)),
            revealer=_build(saved["revealer"], Revealer.__args__),
            budget=None if budget is None else Budget(**budget),
            name=saved["name"],
        )


def naive_ucb(budget: float | Budget, *, unknown: str = "plugin", name: str = "") -> Policy:
    """The paper's benchmark: LinUCB with reveals at the fixed rate B/T."""
    return Policy(recommender=LinUCB(unknown=unknown), revealer=FixedRate(), budget=_budget(budget), name=name)


def pd1_ucb(budget: float | Budget, *, scale: str = "adaptive", unknown: str = "plugin", name: str = "") -> Policy:
    """PD1-UCB: LinUCB with the primal-dual revealer."""
    return Policy(
        recommender=LinUCB(unknown=unknown),
        revealer=PrimalDual(scale=scale),
        budget=_budget(budget),
        name=name,
    )


def pd2_ucb(budget: float | Budget, *, scale: str = "adaptive", unknown: str = "plugin", name: str = "") -> Policy:
    """PD2-UCB, the paper's algorithm: LinUCB with the primal-dual revealer that attends to learning."""
    return Policy(
        recommender=LinUCB(unknown=unknown),
        revealer=LearningPrimalDual(scale=scale),
        budget=_budget(budget),
        name=name,
    )


def rule_for(policy: Policy, problem: Problem, *, horizon: int, participants: int = 1) -> Rule:
    """The policy in numbers, for one problem and horizon; refuses what does not fit them."""
    revealer = policy.revealer
    decisions = horizon * participants if policy.shared else horizon
    budget = math.inf if policy.budget is None else policy.budget.amount
    if math.isfinite(budget) and budget > decisions:
        raise InputError(f"budget is {budget:g}; expected at most {decisions}, the number of decisions it is for")
    tolerance = math.inf
    if isinstance(revealer, LearningPrimalDual):
        tolerance = paper_tolerance(problem, budget) if revealer.tolerance is None else revealer.tolerance
    treatment = BANDIT
    if isinstance(policy.recommender, RandomAction):
        treatment = RANDOM
    elif isinstance(policy.recommender, FixedAction):
        most = problem.actions - 1
        treatment = checks.whole("action", policy.recommender.action, least=0, most=most)
    if policy.optimistic and (problem.reported or problem.cells > 1):
        raise InputError("unknown='optimistic' needs a problem whose variables are all sensed")
    return Rule(
        rule=revealer.rule,
        budget=budget,
        hard=policy.budget is not None and policy.budget.hard,
        rate=budget / decisions if isinstance(revealer, FixedRate) else 0.0,
        tolerance=tolerance,
        every=getattr(revealer, "every", 1),
        growth=reveal.growth(budget) if math.isfinite(budget) else math.e,
        scaling=ADAPTIVE if _scale(policy, problem) is None else CONSTANT,
        scale=_scale(policy, problem) or 1.0,
        treatment=treatment,
    )


def paper_tolerance(problem: Problem, budget: float) -> float:
    """beta_0 = 1.2 Dmin ln(10) sqrt(10) / ln(B), infinite for B <= 1: the rule then is PD1's."""
    if budget <= 1.0:
        return math.inf
    return 1.2 * problem.least_distance * math.log(10.0) * math.sqrt(10.0) / math.log(budget)


def _scale(policy: Policy, problem: Problem) -> float | None:
    """What gaps are divided by; None where that is the present largest gap.

    A revealer that does not go by gaps reports them on the scale that costs least: by the range where it is known.
    """
    if policy.scale == "gap":
        if problem.largest_gap is None:
            raise InputError("scale 'gap' needs the truth: largest_gap=... in the problem; or use scale='adaptive'")
        return problem.largest_gap
    if policy.scale == "adaptive" or (policy.scale == "" and problem.value_range is None):
        return None
    if problem.value_range is None:
        raise InputError("scale 'range' needs value_range=(u_min, u_max) in the problem; or use scale='adaptive'")
    return problem.value_range[1] - problem.value_range[0]


def _budget(budget: float | Budget) -> Budget:
    return budget if isinstance(budget, Budget) else Budget(budget)


def _describe(part: Recommender | Revealer) -> dict[str, Any]:
    return {"kind": type(part).__name__, **vars(part)}


def _build(saved: Mapping[str, Any], kinds: tuple[Any, ...]) -> Any:
    settings = dict(saved)
    names = {kind.__name__: kind for kind in kinds}
    return names[checks.choice("kind", settings.pop("kind"), names)](**settings)
