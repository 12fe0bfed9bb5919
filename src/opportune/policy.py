"""`Policy`: a recommender, a revealer and a budget, and their conversion to numbers for the core."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any, Literal

import numpy as np
from numpy.typing import NDArray

from opportune import checks
from opportune.algorithm.budget import growth
from opportune.engine.declared import ADAPTIVE, CONSTANT, POINTWISE, UNIFORM, Owner, Owners
from opportune.engine.layout import Layout
from opportune.errors import InputError
from opportune.limits import Limits
from opportune.recommenders import RECOMMENDERS, LinUCB, Recommender
from opportune.recommenders.fixed import check_always_allowed
from opportune.revealers import REVEALERS, FixedRate, LearningPrimalDual, Pace, PrimalDual, Revealer
from opportune.revealers.base import Use
from opportune.revealers.pace import LEAST

LEAST_BUDGET = 1e-6
"""Below this, the price of a reveal cannot be computed."""
NOBODY = Owner()
MOST_UPDATE = 10_000
NO_LIMITS = Limits()


@dataclass(frozen=True)
class Budget:
    """The number of reveals.

    Args:
        amount: B.
        hard: False, the paper's kind, limits expectation: the probabilities sum to at most B. True also stops nudging
            after B nudges; B is then a whole number.
        shared: one budget for all participants of a study instead of one each.

    """

    amount: float
    hard: bool = field(default=False, kw_only=True)
    shared: bool = field(default=False, kw_only=True)

    def __post_init__(self) -> None:
        if isinstance(self.amount, int | float) and self.amount == 0 and self.amount is not False:
            raise InputError(
                "budget is 0; expected a finite number > 0; for no nudges at all use the revealer Never, kind 'never', "
                "or, in a Python policy, propose none"
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
    """A recommender, a revealer and a budget. Baselines without a budget reveal according to their rule alone.

    With `pooled`, all participants of a study learn one model of the reward together instead of one each; reveals
    and context frequencies stay separate. With "partial", each participant has their own model, drawn towards a
    common mean (docs/pace.md): random effects. The mean is updated every `partial_every` decision times of a
    simulation; live, at every call of `Cohort.update_prior`. `limits` define where no nudge is allowed. The default
    recommender is `LinUCB` with the settings that suit the revealer.

    With `update` = k, a participant's rewards wait: just before decision points k + 1, 2k + 1, and so on, the model
    learns from those that have arrived.
    """

    recommender: Recommender = None  # type: ignore[assignment]  # LinUCB with the settings that suit the revealer
    revealer: Revealer = field(default_factory=LearningPrimalDual)
    budget: Budget | None = None
    pooled: bool | Literal["partial"] = False
    partial_every: int = 1
    limits: Limits | None = None
    update: int = 1
    name: str = ""

    def __post_init__(self) -> None:
        if not isinstance(self.revealer, Revealer):
            given = checks.brief(self.revealer)
            raise InputError(f"revealer is {given}; expected a revealer, such as LearningPrimalDual()")
        if self.recommender is None:
            checks.keep(self, recommender=LinUCB(**self.revealer.suits))
        if not isinstance(self.recommender, Recommender):
            given = checks.brief(self.recommender)
            raise InputError(f"recommender is {given}; expected a recommender, such as LinUCB()")
        checks.registered(self.recommender, RECOMMENDERS)
        checks.registered(self.revealer, REVEALERS)
        if self.budget is not None:
            checks.keep(self, budget=_budget(self.budget))
        if self.pooled != "partial":
            checks.keep(self, pooled=_pooled(self.pooled))
        elif isinstance(self.recommender, LinUCB) and not self.pointwise:
            raise InputError("pooled is 'partial', which has a pointwise radius; expected radius = 'pointwise' with it")
        every = checks.whole("partial_every", self.partial_every, least=1, most=checks.MOST_STEPS)
        checks.keep(self, partial_every=every)
        if self.limits is not None and not isinstance(self.limits, Limits):
            raise InputError(f"limits is {checks.brief(self.limits)}; expected Limits, such as Limits(per_week=2)")
        checks.keep(self, update=checks.whole("update", self.update, least=1, most=MOST_UPDATE))
        if self.budget is None and self.revealer.needs_budget:
            kind = type(self.revealer).__name__
            raise InputError(f"{kind} has no budget; expected budget=... with the number of reveals")
        if self.revealer.needs_sharing and not self.shared:
            raise InputError("response learns from all who share the budget; expected Budget(..., shared=True)")
        name = checks.text("name of the policy", self.name, empty=True)
        checks.keep(self, name=name or self.revealer.label)

    @property
    def scale(self) -> str:
        """The scaling of gaps; "" if the revealer does not use gaps."""
        return str(getattr(self.revealer, "scale", ""))

    @property
    def shared(self) -> bool:
        """Whether participants share one budget."""
        return self.budget is not None and self.budget.shared

    @property
    def one_model(self) -> bool:
        """Whether all participants learn one model."""
        return self.pooled is True

    @property
    def partial(self) -> bool:
        """Whether each participant's model is drawn towards a common mean."""
        return self.pooled == "partial"

    @property
    def together(self) -> bool:
        """Whether participants share something, so that their steps must be simulated together."""
        return self.shared or bool(self.pooled) or self.capped

    @property
    def capped(self) -> bool:
        """Whether participants share staff with a daily limit on nudges."""
        return self.limits is not None and self.limits.per_day is not None

    @property
    def optimistic(self) -> bool:
        """Whether an unknown context distribution is handled with optimism."""
        return getattr(self.recommender, "unknown", "") == "optimistic"

    @property
    def randomised(self) -> bool:
        """Whether actions are drawn with known probabilities."""
        coins = self.limits is not None and self.limits.run_in > 0 and self.limits.run_in_actions == "equal"
        return coins or self.recommender.randomised

    @property
    def rotating(self) -> bool:
        """Whether blind steps rotate among the actions that may be best."""
        return getattr(self.recommender, "rotate", False) is True

    @property
    def counted(self) -> bool:
        """Whether a hard budget is charged for nudges made instead of their probabilities."""
        hard = self.budget is not None and self.budget.hard
        return hard and isinstance(self.revealer, Pace) and self.revealer.by_candidates

    @property
    def floor(self) -> float:
        """The least probability of every allowed action; 0 if there is none."""
        return getattr(self.recommender, "floor", None) or 0.0

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
            **({"partial_every": self.partial_every} if self.partial else {}),
            "limits": None if self.limits is None else dict(vars(self.limits)),
            "update": self.update,
        }

    @classmethod
    def from_dict(cls, saved: Mapping[str, Any]) -> "Policy":
        """The policy that `describe` described."""
        described = checks.mapping("policy", saved, "what describe() returned")
        checks.settings("the policy", described, cls)
        for name in ("recommender", "revealer", "budget", "name"):
            if name not in described:
                raise InputError(f"the policy lacks {name!r}; expected what describe() returned")
        budget = described["budget"]
        if budget is not None:
            budget = checks.mapping("budget of the policy", budget, "what describe() returned")
            checks.settings("the budget", budget, Budget)
            if len(budget) < len(fields(Budget)):
                raise InputError(f"budget of the policy is {checks.brief(budget)}; expected what describe() returned")
        limits = described.get("limits")
        if limits is not None:
            limits = checks.mapping("limits of the policy", limits, "what describe() returned")
            checks.settings("the limits", limits, Limits)
        return cls(
            recommender=_build("recommender", described["recommender"], RECOMMENDERS.named()),
            revealer=_build("revealer", described["revealer"], REVEALERS.named()),
            budget=None if budget is None else Budget(**budget),
            pooled=described.get("pooled", False),
            partial_every=described.get("partial_every", 1),
            limits=None if limits is None else Limits(**limits),
            update=described.get("update", 1),
            name=described["name"],
        )


def _pooled(value: Any) -> bool:
    """Whether all participants learn one model; False if models are pooled in part."""
    if isinstance(value, str):
        raise InputError(f"pooled is {checks.brief(value)}; expected True, False or 'partial'")
    return checks.yes_no("pooled", value)


def naive_ucb(budget: float | Budget, *, unknown: str = "plugin", name: str = "") -> Policy:
    """The paper's benchmark: LinUCB with reveals at the fixed rate B/T."""
    return Policy(recommender=LinUCB(unknown=unknown), revealer=FixedRate(), budget=_budget(budget), name=name)


def pd1_ucb(budget: float | Budget, *, scale: str = "adaptive", unknown: str = "plugin", name: str = "") -> Policy:
    """PD1-UCB: LinUCB with the primal-dual revealer."""
    recommender, revealer = LinUCB(unknown=unknown), PrimalDual(scale=scale)
    return Policy(recommender=recommender, revealer=revealer, budget=_budget(budget), name=name)


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
    """PD2-UCB, the paper's algorithm: LinUCB with the primal-dual revealer that takes learning into account.

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
    """The layout of a policy, its problem and a world.

    `held` is the number of pending steps that it has room for, by default the horizon; `form` depends on the device
    and the world.
    """
    limits = policy.limits
    base: Layout = problem.layout(
        optimistic=policy.optimistic, random=policy.partial, horizon=horizon if held is None else held,
        randomised=policy.randomised, rotating=policy.rotating, update=policy.update, limited=limits is not None,
        remembered=0 if limits is None else limits.remembered, **form,
    )  # fmt: skip
    use = _use(policy, problem, base, horizon=horizon, participants=participants)
    revealer, recommender = (
        Owner(part.declares, tuple(part.extents(use).items())) for part in (policy.revealer, policy.recommender)
    )
    return base.with_owners(Owners(revealer, recommender, world))


def _use(policy: Policy, problem: Any, at: Layout, *, horizon: int, participants: int) -> Use:
    """The use of a policy: its problem, budget, horizon and participants."""
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
    """The policy as numbers, for one problem and horizon; rejects policies that do not fit them."""
    if policy.optimistic and (problem.reported or problem.strata > 1 or problem.contexts == 0):
        raise InputError("unknown='optimistic' needs finitely many contexts whose variables are all sensed")
    at = layout_for(policy, problem, horizon=horizon, participants=participants) if at is None else at
    use = _use(policy, problem, at, horizon=horizon, participants=participants)
    if math.isfinite(use.budget) and use.budget > use.decisions:
        raise InputError(
            f"budget is {use.budget:g}; expected at most {use.decisions}, the number of decisions it is for"
        )
    if policy.limits is not None and policy.limits.run_in_action is not None:
        check_always_allowed("run_in_action", policy.limits.run_in_action, problem)
    if policy.floor * problem.actions > 1.0:
        most = 1.0 / problem.actions
        raise InputError(
            f"floor is {policy.floor:g}; expected at most {most:g}, since there are {problem.actions} actions"
        )
    if policy.pointwise or policy.partial:
        checks.scale("d noise_sd^2 / theta_bound^2", problem.pointwise_regularisation)
    scale = _scale(policy, problem)
    return at.filled(
        "rule",
        rule={
            "revealer": policy.revealer.number,
            "recommender": policy.recommender.number,
            "amount": use.budget,
            "hard": policy.budget is not None and policy.budget.hard,
            "counted": policy.counted,
            "growth": growth(use.budget) if math.isfinite(use.budget) else math.e,
            "decisions": use.decisions,
            "sharers": use.sharers,
            "member": member if policy.shared else 0,
            "radius": POINTWISE if policy.pointwise or policy.partial else UNIFORM,
            "prior_every": policy.partial_every if policy.partial else 0,
            "kappa": getattr(policy.recommender, "kappa", 1.0),
            "chances": policy.recommender.chances,
            "floor": policy.floor,
            "scaling": ADAPTIVE if scale is None else CONSTANT,
            "scale": scale or 1.0,
            **(policy.limits or NO_LIMITS).numbers(),
        },
        revealer_settings=policy.revealer.numbers(use),
        recommender_settings=policy.recommender.numbers(use),
    )


def pace_ucb(
    budget: float | Budget,
    *,
    kappa: float = 1.0,
    radius: str = "pointwise",
    randomise: float | str | None = None,
    least: float = LEAST,
    value: str = "realised",
    guard: float | None = None,
    response: bool = False,
    name: str = "",
) -> Policy:
    """PACE-UCB, the recommended policy: rotating LinUCB with a revealer that paces its own spending.

    `kappa` and `radius` are those of `LinUCB`; the others are those of `Pace`.
    """
    return Policy(
        recommender=LinUCB(rotate=True, kappa=kappa, radius=radius),
        revealer=Pace(randomise=randomise, least=least, value=value, guard=guard, response=response),
        budget=_budget(budget),
        name=name,
    )


def _scale(policy: Policy, problem: Any) -> float | None:
    """The divisor of gaps; None if it is the current largest gap.

    A revealer that does not use gaps reports them on the cheapest scale: by the range if it is known.
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
