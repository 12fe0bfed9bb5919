"""`Policy`: who recommends, who reveals and with what budget; and how its names become numbers for the core."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

import numpy as np
from numpy.typing import NDArray

from opportune import checks
from opportune.algorithm.budget import growth
from opportune.engine.declared import ADAPTIVE, CONSTANT, POINTWISE, UNIFORM, Owner, Owners
from opportune.engine.layout import Layout
from opportune.errors import InputError
from opportune.recommenders import RECOMMENDERS, LinUCB, Recommender
from opportune.revealers import REVEALERS, FixedRate, LearningPrimalDual, Pace, PrimalDual, Revealer
from opportune.revealers.base import Use

LEAST_BUDGET = 1e-6
"""Less than this, the price of a reveal cannot be computed."""
NOBODY = Owner()


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
        if isinstance(self.amount, int | float) and self.amount == 0 and self.amount is not False:
            raise InputError(
                "budget is 0; expected a finite number > 0; for no nudge at all take the revealer Never, kind 'never'"
            )
        amount = checks.real("budget", self.amount, above=0.0)
        if amount < LEAST_BUDGET:
            raise InputError(f"budget is {amount:g}; expected at least {LEAST_BUDGET:g}, or it buys nothing")
        checks.keep(self, amount=amount, hard=checks.yes_no("hard", self.hard))
        checks.keep(self, shared=checks.yes_no("shared", self.shared))
        if self.hard and not amount.is_integer():
            raise InputError(f"budget is {amount:g}; a hard budget counts nudges, expected a whole number")


@dataclass(frozen=True, kw_only=True)
class Policy:
    """A recommender, a revealer and a budget. Baselines without a budget reveal as their rule says.

    With `pooled`, all participants of a study learn one model of the reward together instead of one each; what was
    revealed to whom, and what a participant's contexts look like, stays each one's own.
    """

    recommender: Recommender = field(default_factory=LinUCB)
    revealer: Revealer = field(default_factory=LearningPrimalDual)
    budget: Budget | None = None
    pooled: bool = False
    name: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.recommender, Recommender):
            given = checks.shown(self.recommender)
            raise InputError(f"recommender is {given}; expected a recommender, such as LinUCB()")
        if not isinstance(self.revealer, Revealer):
            given = checks.shown(self.revealer)
            raise InputError(f"revealer is {given}; expected a revealer, such as LearningPrimalDual()")
        checks.registered(self.recommender, RECOMMENDERS)
        checks.registered(self.revealer, REVEALERS)
        if self.budget is not None:
            checks.keep(self, budget=_budget(self.budget))
        checks.keep(self, pooled=checks.yes_no("pooled", self.pooled))
        if self.budget is None and self.revealer.needs_budget:
            kind = type(self.revealer).__name__
            raise InputError(f"{kind} has no budget; expected budget=... with the number of reveals")
        name = checks.text("name of the policy", self.name, empty=True)
        checks.keep(self, name=name or self.revealer.label)

    @property
    def scale(self) -> str:
        """How gaps are scaled; "" where the revealer does not go by them."""
        return str(getattr(self.revealer, "scale", ""))

    @property
    def shared(self) -> bool:
        """Whether participants share one budget."""
        return self.budget is not None and self.budget.shared

    @property
    def together(self) -> bool:
        """Whether participants share something, so that a study runs as a whole."""
        return self.shared or self.pooled

    @property
    def optimistic(self) -> bool:
        """Whether an unknown context distribution is met with optimism."""
        return getattr(self.recommender, "unknown", "") == "optimistic"

    @property
    def pointwise(self) -> bool:
        """Whether the confidence radius is pointwise."""
        return getattr(self.recommender, "radius", "") == "pointwise"

    def describe(self) -> dict[str, Any]:
        """The policy as plain JSON values."""
        return {
            "name": self.name,
            "recommender": _describe(self.recommender),
            "revealer": _describe(self.revealer),
            "budget": None if self.budget is None else dict(vars(self.budget)),
            "pooled": self.pooled,
        }

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any]) -> "Policy":
        """The policy that `describe` described."""
        described = checks.mapping("policy", saved, "what describe() gave")
        checks.settings("the policy", described, cls)
        for name in ("recommender", "revealer", "budget", "name"):
            if name not in described:
                raise InputError(f"the policy lacks {name!r}; expected what describe() gave")
        budget = described["budget"]
        if budget is not None:
            budget = checks.mapping("budget of the policy", budget, "what describe() gave")
            checks.settings("the budget", budget, Budget)
            if len(budget) < len(fields(Budget)):
                raise InputError(f"budget of the policy is {checks.shown(budget)}; expected what describe() gave")
        return cls(
            recommender=_build("recommender", described["recommender"], RECOMMENDERS.named()),
            revealer=_build("revealer", described["revealer"], REVEALERS.named()),
            budget=None if budget is None else Budget(**budget),
            pooled=described.get("pooled", False),
            name=described["name"],
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


def pd2_ucb(
    budget: float | Budget,
    *,
    scale: str = "adaptive",
    unknown: str = "plugin",
    rotate: bool = False,
    kappa: float = 1.0,
    radius: str = "uniform",
    tolerance: float | None = None,
    name: str = "",
) -> Policy:
    """PD2-UCB, the paper's algorithm: LinUCB with the primal-dual revealer that attends to learning.

    `unknown`, `rotate`, `kappa` and `radius` are those of `LinUCB`; `scale` and `tolerance` are those of
    `LearningPrimalDual`.
    """
    return Policy(
        recommender=LinUCB(unknown=unknown, rotate=rotate, kappa=kappa, radius=radius),
        revealer=LearningPrimalDual(scale=scale, tolerance=tolerance),
        budget=_budget(budget),
        name=name,
    )


def layout_for(
    policy: Policy, problem: Any, *, horizon: int, participants: int = 1, held: int | None = None,
    world: Owner = NOBODY, **form: Any,
) -> Layout:  # fmt: skip
    """Where everything lies that a policy, its problem and a world need.

    `held` is how many pending steps are kept in it (as many as the horizon, unless given); `form` suits a device
    and a world.
    """
    base: Layout = problem.layout(optimistic=policy.optimistic, horizon=horizon if held is None else held, **form)
    use = _use(policy, problem, base, horizon=horizon, participants=participants)
    revealer, recommender = (
        Owner(part.declares, tuple(part.extents(use).items())) for part in (policy.revealer, policy.recommender)
    )
    return base.with_owners(Owners(revealer, recommender, world))


def _use(policy: Policy, problem: Any, at: Layout, *, horizon: int, participants: int) -> Use:
    """What a policy is used for."""
    return Use(
        problem=problem,
        sizes=at.sizes,
        budget=math.inf if policy.budget is None else policy.budget.amount,
        horizon=horizon,
        sharers=participants if policy.shared else 1,
        resigned=policy.revealer.resigned,
    )


def rule_for(
    policy: Policy, problem: Any, at: Layout | None = None, *, horizon: int, participants: int = 1, member: int = 0
) -> NDArray[np.float64]:
    """The policy in numbers, for one problem and horizon; refuses what does not fit them."""
    if policy.optimistic and (problem.reported or problem.strata > 1 or problem.contexts == 0):
        raise InputError("unknown='optimistic' needs finitely many contexts whose variables are all sensed")
    at = layout_for(policy, problem, horizon=horizon, participants=participants) if at is None else at
    use = _use(policy, problem, at, horizon=horizon, participants=participants)
    if math.isfinite(use.budget) and use.budget > use.decisions:
        raise InputError(
            f"budget is {use.budget:g}; expected at most {use.decisions}, the number of decisions it is for"
        )
    if policy.pointwise:
        checks.scale("d noise_sd^2 / theta_bound^2", problem.pointwise_regularisation)
    scale = _scale(policy, problem)
    return at.filled(
        "rule",
        rule={
            "revealer": policy.revealer.number,
            "recommender": policy.recommender.number,
            "amount": use.budget,
            "hard": policy.budget is not None and policy.budget.hard,
            "growth": growth(use.budget) if math.isfinite(use.budget) else math.e,
            "decisions": use.decisions,
            "sharers": use.sharers,
            "member": member if policy.shared else 0,
            "radius": POINTWISE if policy.pointwise else UNIFORM,
            "kappa": getattr(policy.recommender, "kappa", 1.0),
            "scaling": ADAPTIVE if scale is None else CONSTANT,
            "scale": scale or 1.0,
        },
        revealer_settings=policy.revealer.numbers(use),
        recommender_settings=policy.recommender.numbers(use),
    )


def pace_ucb(
    budget: float | Budget,
    *,
    kappa: float = 1.0,
    radius: str = "uniform",
    randomise: float | None = None,
    value: str = "paper",
    guard: float | None = None,
    name: str = "",
) -> Policy:
    """PACE-UCB, the recommended policy: rotating LinUCB with the revealer that paces itself."""
    return Policy(
        recommender=LinUCB(rotate=True, kappa=kappa, radius=radius),
        revealer=Pace(randomise=randomise, value=value, guard=guard),
        budget=_budget(budget),
        name=name,
    )


def _scale(policy: Policy, problem: Any) -> float | None:
    """What gaps are divided by; None where that is the present largest gap.

    A revealer that does not go by gaps reports them on the scale that costs least: by the range where it is known.
    """
    if policy.scale == "gap":
        if problem.largest_gap is None:
            raise InputError("scale 'gap' needs the truth: largest_gap=... in the problem; or use scale='adaptive'")
        return float(problem.largest_gap)
    if policy.scale == "adaptive" or (policy.scale == "" and problem.value_range is None):
        return None
    if problem.value_range is None:
        raise InputError("scale 'range' needs value_range=(u_min, u_max) in the problem; or use scale='adaptive'")
    return float(problem.value_range[1] - problem.value_range[0])


def _budget(budget: float | Budget) -> Budget:
    return budget if isinstance(budget, Budget) else Budget(budget)


def _describe(part: Recommender | Revealer) -> dict[str, Any]:
    return {"kind": type(part).__name__, **{f.name: getattr(part, f.name) for f in fields(part)}}


def _build(what: str, saved: Any, kinds: Mapping[str, Any]) -> Any:
    settings = checks.mapping(f"{what} of the policy", saved, "its kind and settings")
    kind = kinds[checks.choice(f"kind of {what}", settings.pop("kind", None), kinds)]
    checks.settings(kind.__name__, settings, kind)
    for field_ in fields(kind):
        if field_.name not in settings:
            raise InputError(f"{kind.__name__} lacks {field_.name!r}; expected its settings")
    return kind(**settings)
