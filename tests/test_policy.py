"""`Policy`: its parts, its numbers for the core, round trips; and every input that is refused."""

import json
import math
import re
from collections.abc import Callable
from dataclasses import FrozenInstanceError
from typing import Any

import numpy as np
import pytest

from opportune.engine.declared import ADAPTIVE, CONSTANT
from opportune.errors import InputError
from opportune.policy import Budget, Policy, layout_for, naive_ucb, pace_ucb, pd1_ucb, pd2_ucb, rule_for
from opportune.problems.finite import Problem
from opportune.recommenders import RECOMMENDERS, EqualCoins, FixedAction, LinUCB, Thompson
from opportune.revealers import REVEALERS, Always, FixedRate, LearningPrimalDual, Never, Pace, Periodic, PrimalDual

make_policy: Callable[..., Policy] = Policy  # given what its types would not allow
make_periodic: Callable[..., Periodic] = Periodic


def problem(**settings: Any) -> Problem:
    return Problem(np.random.default_rng(1).normal(size=(4, 3, 2)), **settings)


def rule(
    policy: Policy, known: Problem | None = None, *, horizon: int = 10, participants: int = 1, group: str = "rule"
) -> Any:
    """A policy's numbers for the core, under their names."""
    known = problem() if known is None else known
    at = layout_for(policy, known, horizon=horizon, participants=participants)
    return at.views(group, rule_for(policy, known, at, horizon=horizon, participants=participants))


def revealer(policy: Policy, *given: Any, **settings: Any) -> Any:
    """A revealer's own numbers."""
    return rule(policy, *given, **settings, group="revealer.settings")


def recommender(policy: Policy, *given: Any, **settings: Any) -> Any:
    """A recommender's own numbers."""
    return rule(policy, *given, **settings, group="recommender.settings")


@pytest.mark.parametrize(
    ("amount", "given"),
    [
        (0, "0"),
        (-1.5, "-1.5"),
        (math.inf, "inf"),
        (math.nan, "nan"),
        ("10", "'10'"),
        (None, "None"),
        (True, "True"),
    ],
)
@pytest.mark.parametrize("make", [Budget, naive_ucb, pd1_ucb, pd2_ucb])
def test_budget_must_be_a_positive_number(make: Callable[[Any], Any], amount: Any, given: str) -> None:
    """A budget that is zero, negative, not finite or no number is refused wherever it is given."""
    with pytest.raises(InputError, match=f"^budget is {re.escape(given)}; expected a finite number > 0") as caught:
        make(amount)
    assert ("the revealer Never" in str(caught.value)) == (amount == 0)


def test_hard_budget_is_whole() -> None:
    """A hard budget counts nudges, so it cannot be a fraction; an expected one can."""
    message = "budget is 2.5; a hard budget counts nudges, expected a whole number"
    with pytest.raises(InputError, match="^" + re.escape(message) + "$"):
        Budget(2.5, hard=True)
    assert Budget(2.5).amount == 2.5
    assert Budget(3.0, hard=True).amount == 3.0


@pytest.mark.parametrize("hard", [False, True])
def test_budget_above_the_horizon(hard: bool) -> None:
    """A budget of more than one reveal a decision is refused; one for each is not."""
    with pytest.raises(InputError, match=r"^budget is 11; expected at most 10, the number of decisions it is for$"):
        rule(pd2_ucb(Budget(11, hard=hard)))
    made = rule(pd2_ucb(Budget(10, hard=hard)))
    assert (made.amount[0], made.hard[0]) == (10.0, hard)


def test_shared_budget_is_for_all_decisions() -> None:
    """A shared budget may reach the decisions of all participants together; it is spread over them."""
    budget = Budget(40, shared=True)
    for policy, decisions in ((naive_ucb(budget), 40), (naive_ucb(Budget(10)), 10)):
        assert rule(policy, participants=4).decisions[0] == decisions
    with pytest.raises(InputError, match=r"^budget is 40; expected at most 30, the number of decisions it is for$"):
        rule(naive_ucb(budget), participants=3)


@pytest.mark.parametrize("make", [PrimalDual, LearningPrimalDual])
@pytest.mark.parametrize(
    ("scale", "hint"),
    [
        ("adaptve", "; did you mean 'adaptive'?"),
        ("Range", "; did you mean 'range'?"),
        ("gaps", "; did you mean 'gap'?"),
        ("largest", ""),
        (None, ""),
        (1.0, ""),
    ],
)
def test_unknown_scale(make: Callable[..., Any], scale: Any, hint: str) -> None:
    """An unknown scale is refused with the known ones, and with the nearest if one is near."""
    message = f"scale is {scale!r}; expected one of 'adaptive', 'range', 'gap'{hint}"
    with pytest.raises(InputError, match="^" + re.escape(message) + "$"):
        make(scale=scale)


def test_scales_that_need_to_know_something() -> None:
    """Scale `range` needs the range of values and `gap` the largest gap; both say where to give it."""
    message = "scale 'range' needs value_range=(u_min, u_max) in the problem; or use scale='adaptive'"
    with pytest.raises(InputError, match="^" + re.escape(message) + "$"):
        rule(pd2_ucb(3, scale="range"))
    message = "scale 'gap' needs the truth: largest_gap=... in the problem; or use scale='adaptive'"
    with pytest.raises(InputError, match="^" + re.escape(message) + "$"):
        rule(pd1_ucb(3, scale="gap"))
    known = problem(value_range=(-1.0, 1.5), largest_gap=0.75)
    for scale, expected in (("range", 2.5), ("gap", 0.75)):
        made = rule(pd1_ucb(3, scale=scale), known)
        assert (made.scaling[0], made.scale[0]) == (CONSTANT, expected)
    assert rule(pd1_ucb(3)).scaling[0] == ADAPTIVE


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda: pd2_ucb(3, unknown="plug-in"),
            "unknown is 'plug-in'; expected one of 'plugin', 'optimistic'; did you mean 'plugin'?",
        ),
        (lambda: Periodic(every=0), "every is 0; expected a whole number from 1 to 2147483648"),
        (lambda: make_periodic(every=2.0), "every is 2.0; expected a whole number from 1 to 2147483648"),
        (lambda: LearningPrimalDual(tolerance=-0.1), "tolerance is -0.1; expected a finite number >= 0"),
        (lambda: LearningPrimalDual(tolerance=math.nan), "tolerance is nan; expected a finite number >= 0"),
        (lambda: FixedAction(action=-1), "action is -1; expected a whole number from 0 to 126"),
        (
            Policy,
            "LearningPrimalDual has no budget; expected budget=... with the number of reveals",
        ),
        (
            lambda: make_policy(budget=3, pooled="Partial"),
            "pooled is 'Partial'; expected True, False or 'partial'",
        ),
        (
            lambda: Policy(revealer=FixedRate()),
            "FixedRate has no budget; expected budget=... with the number of reveals",
        ),
        (
            lambda: make_policy(revealer="PD2", budget=3),
            "revealer is 'PD2'; expected a revealer, such as LearningPrimalDual()",
        ),
        (
            lambda: make_policy(revealer=Never, name="never"),
            "revealer is the class Never; expected a revealer, such as LearningPrimalDual()",
        ),
        (
            lambda: make_policy(recommender="UCB", budget=3),
            "recommender is 'UCB'; expected a recommender, such as LinUCB()",
        ),
        (lambda: make_policy(budget="many"), "budget is 'many'; expected a finite number > 0"),
        (
            lambda: rule(Policy(recommender=FixedAction(action=3), revealer=Never())),
            "action is 3; expected a whole number from 0 to 2",
        ),
        (
            lambda: rule(pd2_ucb(3, unknown="optimistic"), problem(visibility={"context": "public"})),
            "unknown='optimistic' needs finitely many contexts whose variables are all sensed",
        ),
    ],
)
def test_wrong_settings(make: Callable[[], Any], message: str) -> None:
    """Settings that make no sense, or do not fit the problem, are refused with what was expected."""
    with pytest.raises(InputError, match="^" + re.escape(message) + "$"):
        make()


@pytest.mark.parametrize("horizon", [1, 7])
def test_numbers_of_the_paper(horizon: int) -> None:
    """A policy's numbers for the core are the paper's: c, B, T and beta_0."""
    known = problem()
    policy = pd2_ucb(2.5 if horizon == 7 else 0.5)
    made, tolerance = (numbers(policy, known, horizon=horizon) for numbers in (rule, revealer))
    if horizon == 7:
        expected = 1.2 * known.least_distance * math.log(10) * math.sqrt(10) / math.log(2.5)
        assert tolerance.tolerance[0] == pytest.approx(expected, rel=1e-14)
        assert made.growth[0] == pytest.approx((1 + 1 / 2.5) ** 2.5, rel=1e-14)
    else:
        assert tolerance.tolerance[0] == math.inf  # B <= 1: the rule falls back to PD1
    naive = rule(naive_ucb(0.7), known, horizon=horizon)
    assert (naive.amount[0], naive.decisions[0]) == (0.7, horizon)
    own = Policy(revealer=LearningPrimalDual(tolerance=0.3), budget=Budget(1))
    assert revealer(own, known, horizon=horizon).tolerance[0] == 0.3


def test_every_revealer_and_recommender_has_its_number() -> None:
    """What a policy consists of reaches the core as its number in the registry, with its own settings."""
    rules = [FixedRate(), PrimalDual(), LearningPrimalDual(), Never(), Always(), Periodic(every=4)]
    assert {type(each) for each in rules} <= set(REVEALERS)
    numbers = [rule(make_policy(revealer=each, budget=Budget(2))).revealer[0] for each in rules]
    assert numbers == [list(REVEALERS).index(type(each)) for each in rules]
    assert revealer(make_policy(revealer=Periodic(every=4))).every[0] == 4.0
    learners = [LinUCB(), EqualCoins(), FixedAction(action=2), Thompson(inflation=3.0)]
    assert {type(each) for each in learners} <= set(RECOMMENDERS)
    for each in learners:
        made = rule(make_policy(recommender=each, revealer=Never()))
        assert made.recommender[0] == list(RECOMMENDERS).index(type(each))
        assert made.amount[0] == math.inf
    assert recommender(make_policy(recommender=FixedAction(action=2), revealer=Never())).action[0] == 2.0
    sampled = make_policy(recommender=Thompson(inflation=3.0), revealer=Never())
    assert recommender(sampled, problem(noise_sd=0.5)).scale[0] == 1.5  # inflation R


def test_short_forms() -> None:
    """The three short forms are the paper's policies, named as it names them."""
    assert naive_ucb(3) == Policy(revealer=FixedRate(), budget=Budget(3), name="naive")
    assert pd1_ucb(3, scale="gap") == Policy(revealer=PrimalDual(scale="gap"), budget=Budget(3), name="PD1")
    assert pd2_ucb(Budget(3, hard=True), unknown="optimistic", name="mine") == Policy(
        recommender=LinUCB(unknown="optimistic"),
        revealer=LearningPrimalDual(),
        budget=Budget(3, hard=True),
        name="mine",
    )
    assert pd2_ucb(3).scale == "adaptive"


@pytest.mark.parametrize("amount", [3, 3.0, np.int64(3), np.float32(3)], ids=repr)
def test_a_number_is_a_budget(amount: Any) -> None:
    """Any kind of number stands for an expected budget of that amount."""
    assert Policy(budget=amount) == pd2_ucb(amount) == pd2_ucb(Budget(3))
    assert Policy(revealer=Pace(), budget=amount) == pace_ucb(amount), "the recommender is one that suits the revealer"
    assert Policy(revealer=Pace(), recommender=LinUCB(), budget=amount) != pace_ucb(amount)
    assert type(Policy(budget=amount).budget.amount) is float  # type: ignore[union-attr]


def test_policies_are_frozen() -> None:
    """A policy and its parts cannot be changed after they are made."""
    policy = pd2_ucb(3)
    for part, name in ((policy, "name"), (policy.revealer, "scale"), (policy.budget, "amount")):
        with pytest.raises(FrozenInstanceError):
            setattr(part, name, "other")


@pytest.mark.parametrize(
    "policy",
    [
        naive_ucb(2.5),
        pd1_ucb(3, scale="range", unknown="optimistic"),
        pd2_ucb(Budget(3, hard=True, shared=True), name="mine"),
        Policy(revealer=LearningPrimalDual(tolerance=1 / 3), budget=Budget(1 / 3)),
        Policy(recommender=FixedAction(action=1), revealer=Never()),
        Policy(recommender=EqualCoins(), revealer=Always()),
        Policy(revealer=Periodic(every=3), budget=Budget(2)),
        Policy(recommender=Thompson(inflation=0.5), budget=Budget(2), pooled=True, name="Thompson"),
    ],
    ids=lambda policy: policy.name,
)
def test_round_trip(policy: Policy) -> None:
    """Written as JSON and read again, a policy is the same."""
    assert Policy.from_dict(json.loads(json.dumps(policy.describe(), allow_nan=False))) == policy


def test_unknown_kind_of_revealer() -> None:
    """A description with an unknown kind is refused with the nearest known one."""
    saved = pd1_ucb(3).describe()
    saved["revealer"]["kind"] = "PrimalDaul"
    message = r"^kind of revealer is 'PrimalDaul'; expected one of .*did you mean 'PrimalDual'\?$"
    with pytest.raises(InputError, match=message):
        Policy.from_dict(saved)
