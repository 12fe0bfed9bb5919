"""Conformance suites: the rules for all revealers, recommenders and worlds, as checks for your own.

    from opportune.testing import check_recommender, check_revealer, check_world

    check_revealer(MyRevealer(every=3), budget=4)

Each check runs its subject on small problems of every kind (`PROBLEMS`), with every driver, and raises AssertionError
with a sentence that says what was expected, and on which problem. A check takes seconds; the first one also compiles.
One part runs Numba's CUDA simulator in another process, which imports the modules that this one has imported: a script
that calls a check needs `if __name__ == "__main__":` around the call, or `simulator=False`.
"""

from typing import Any

from opportune import checks
from opportune.errors import InputError
from opportune.policy import Budget, Policy
from opportune.recommenders import RECOMMENDERS, Recommender
from opportune.revealers import REVEALERS, Always, LearningPrimalDual, Never, Periodic, Revealer
from opportune.testing.cases import HORIZON, PROBLEMS, Case, cases_for, simulated
from opportune.testing.drivers import check_purity, check_record, check_simulator
from opportune.testing.eligibility import check_eligibility
from opportune.testing.live import check_blindness, check_live
from opportune.testing.worlds import check_arrivals, check_numbers, check_results
from opportune.worlds import WORLDS, SimulatedWorld

__all__ = ["PROBLEMS", "check_recommender", "check_revealer", "check_world"]


def check_revealer(revealer: Revealer, *, budget: float = 4.0, simulator: bool = True) -> None:
    """Check a revealer against the rules for all revealers.

    On every problem: probabilities lie in [0, 1] and sum to at most the budget, and hard budgets limit the number of
    nudges; a run depends only on its seed and stream; `Agent`, `Cohort` and the CUDA kernel make the decisions of
    `simulate`, the first two also if they are saved and restored midway. No forbidden action is taken, and no nudge is
    made where a calendar, a run-in or a cap allows none.

    Args:
        revealer: with its settings, such as `PrimalDual(scale="range")`. Its class is registered.
        budget: a whole number of reveals to test it with, at most 36; half a reveal is tested, too.
        simulator: whether to run Numba's CUDA simulator, which takes some seconds.

    """
    who = _registered(revealer, Revealer, REVEALERS)
    budget = checks.whole("budget", int(budget) if isinstance(budget, float) and budget.is_integer() else budget,
                          least=1, most=HORIZON)  # fmt: skip
    checks.yes_no("simulator", simulator)
    policies = [
        Policy(revealer=revealer, budget=Budget(budget), name="expected"),
        Policy(revealer=revealer, budget=Budget(budget, hard=True), name="hard"),
        Policy(revealer=revealer, budget=Budget(0.5), name="half"),
    ]
    if not revealer.needs_budget:
        policies.append(Policy(revealer=revealer, name="without a budget"))
    together = Policy(revealer=revealer, budget=Budget(2 * budget, shared=True), name="shared")
    check_everywhere(who, policies, together, simulator)
    for case in cases_for(who, policies)[:1]:
        check_eligibility(who, case, policies)


def check_recommender(recommender: Recommender, *, simulator: bool = True) -> None:
    """Check a recommender against the rules for all recommenders.

    On every problem: actions exist; a blind action depends only on what was known at the last reveal and on public
    variables; a run depends only on its seed and stream; `Agent`, `Cohort` and the CUDA kernel make the decisions of
    `simulate`, the first two also if they are saved and restored midway. No forbidden action is taken: blind actions
    are judged by public variables, those at a reveal by all variables.

    Args:
        recommender: with its settings, such as `Thompson(inflation=2)`. Its class is registered.
        simulator: whether to run Numba's CUDA simulator, which takes some seconds.

    """
    who = _registered(recommender, Recommender, RECOMMENDERS)
    checks.yes_no("simulator", simulator)
    policies = [
        Policy(recommender=recommender, revealer=LearningPrimalDual(), budget=Budget(6), name="PD2"),
        Policy(recommender=recommender, revealer=Periodic(every=5), name="periodic"),
        Policy(recommender=recommender, revealer=Always(), name="always"),
    ]
    together = Policy(recommender=recommender, revealer=Periodic(every=5), pooled=True, name="pooled")
    check_everywhere(who, policies, together, simulator)
    check_blindness(who, recommender)


def check_world(world: SimulatedWorld, *, simulator: bool = True) -> None:
    """Check a world against the rules for all worlds.

    Its numbers are finite and constant. Arrivals are valid and, if the world keeps no state of its own, do not depend
    on actions. Rewards are finite, and no outcome beats the best possible one. A run depends only on its seed and
    stream, different streams give different runs, and the CUDA kernel gives the same results.

    Args:
        world: its class is registered.
        simulator: whether to run Numba's CUDA simulator, which takes some seconds.

    """
    who = _registered(world, SimulatedWorld, WORLDS)
    checks.yes_no("simulator", simulator)
    check_numbers(who, world)
    check_arrivals(who, world)
    policies = [
        Policy(revealer=Never(), name="never"),
        Policy(revealer=Periodic(every=4), name="periodic"),
        Policy(revealer=Always(), name="always"),
    ]
    case = Case("its own problem", [world, world])
    data = simulated(case, policies)
    check_purity(who, case, policies, data)
    check_results(who, world, data)
    if simulator:
        check_simulator(who, [(case, policies)])


def check_everywhere(who: str, policies: list[Policy], together: Policy, simulator: bool) -> None:
    """The checks that revealers and recommenders share."""
    cases = cases_for(who, policies)
    for case in cases:
        data = simulated(case, policies)
        check_record(who, case, policies, data)
        check_purity(who, case, policies, data)
        shared = simulated(case, [together])
        check_record(who, case, [together], shared)
        for resumed in (False, True):
            for i, policy in enumerate(policies):
                check_live(who, case, policy, data.isel(policy=i), resumed=resumed)
            check_live(who, case, together, shared.isel(policy=0), resumed=resumed)
    if simulator and not any(policy.optimistic for policy in policies):
        check_simulator(who, [(case, policies) for case in cases])


def _registered(thing: Any, base: Any, registry: Any) -> str:
    """The name of the subject in messages; rejects what cannot be checked."""
    if not isinstance(thing, base) and type(thing) not in registry.entries:
        raise InputError(f"{checks.brief(thing)} is not a {registry.kind}; expected one")
    if type(thing) not in registry.entries:
        raise InputError(f"{type(thing).__name__} is not registered; expected opportune.register above the class")
    return str(thing) if registry is not WORLDS else type(thing).__name__
