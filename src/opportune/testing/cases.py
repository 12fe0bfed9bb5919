"""The problems that revealers and recommenders are tested on, and how they are simulated."""

import functools
from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

import numpy as np
import xarray as xr

from opportune.errors import InputError
from opportune.policy import Policy, rule_for
from opportune.problems.continuous import ContinuousProblem
from opportune.problems.finite import Problem
from opportune.problems.history import History
from opportune.problems.variables import Number, TimeOfDay
from opportune.rehearsal.conditions import context_at
from opportune.simulation.run import simulate
from opportune.worlds.continuous import ContinuousWorld
from opportune.worlds.distributions import Uniform
from opportune.worlds.linear import LinearWorld

HORIZON = 36
REPLICATES = 3
SEED = 2**63 + 11  # large, so that nothing passes only because numbers are small
HAPPENINGS: dict[str, Any] = {
    "open_rate": 0.1, "response_rate": 0.6, "available_rate": 0.9, "reward_rate": 0.85, "reward_delay": 3,
}  # fmt: skip


NEVER_IF: dict[str, Any] = {
    "never_if": {"rest": 'steps > 1.5 and time == "pm"', "call": "pain < -0.2 or not steps <= 1.8"},
    "when_unknown": {"rest": "forbid", "call": "allow"},
}


class Case(NamedTuple):
    """A problem to test something on."""

    name: str
    worlds: list[Any]  # its participants
    horizon: int = HORIZON


def _finite(*, known: bool, reported: bool, masked: bool = False, **happenings: Any) -> list[Any]:
    """Two participants with finitely many contexts: time of day public, place sensed, mood sensed or reported."""
    rng = np.random.default_rng(1)
    variables = {"hour": ["am", "pm"], "place": ["home", "work"], "mood": ["good", "fair", "low"]}
    probabilities = rng.dirichlet(np.full(12, 2.0))
    problem = Problem(
        rng.normal(size=(12, 3, 4)), probabilities if known else None, noise_sd=0.3, theta_bound=2.0,
        value_range=(-1.0, 3.0), largest_gap=2.0, variables=variables, allowed=_allowed(masked),
        when_unknown={"2": "allow"} if masked else None,
        visibility={"hour": "public", "mood": "reported"} if reported else {},
    )  # fmt: skip
    thetas = rng.normal(size=(2, 4))
    return [LinearWorld(problem, theta=t, context_probs=probabilities, **happenings) for t in thetas]


def _allowed(masked: bool) -> Any:
    """The actions that may be recommended in each context; the second one is always allowed."""
    allowed = np.ones((12, 3), dtype=np.bool_)
    if masked:
        allowed[[1, 2, 8], 0] = False
        allowed[::2, 2] = False
    return allowed


def _continuous(*, reported: bool, masked: bool = False, **happenings: Any) -> list[Any]:
    """Two participants with continuous variables, whose features are computed at each moment."""
    problem = ContinuousProblem(
        "1 + action * (steps + pain) + time",
        {"time": TimeOfDay(["am", "pm"]), "steps": Number(0.0, 2.0), "pain": Number(-1.0, 1.0)},
        ["rest", "walk", "call"],
        visibility={"pain": "reported" if reported else "sensed"},
        noise_sd=0.3, theta_bound=3.0, value_range=(-1.0, 3.0), largest_gap=2.0, **(NEVER_IF if masked else {}),
    )  # fmt: skip
    thetas = np.random.default_rng(2).normal(size=(2, problem.d))
    drawn = {"steps": Uniform(0.0, 2.0), "pain": Uniform(-1.0, 1.0)}
    return [ContinuousWorld(problem, theta=t, distributions=drawn, **happenings) for t in thetas]


def _remembering() -> list[Any]:
    """Two participants with history variables, who differ, habituate and are away for days."""
    problem = ContinuousProblem(
        "1 + action * (recent + dose) + stress",
        {
            "stress": Number(0.0, 1.0),
            "recent": History(of="reward", summary="mean", decisions=4, discount=0.9, low=-2.0, high=2.0),
            "dose": History(of="nudges", summary="sum", days=5),
        },
        ["rest", "walk"], noise_sd=0.3, theta_bound=3.0, value_range=(-1.0, 3.0), largest_gap=2.0,
    )  # fmt: skip
    thetas = np.random.default_rng(3).normal(size=(2, problem.d))
    people: dict[str, Any] = {
        **HAPPENINGS, "response_spread": 0.5, "habituation": 0.7, "spells": {"rate": 0.05, "days": 2},
        "persistence": {"stress": 0.5}, "bounds": (-1.0, 2.0),
    }  # fmt: skip
    drawn = {"stress": Uniform(0.0, 1.0)}
    return [ContinuousWorld(problem, theta=t, distributions=drawn, **people) for t in thetas]


def _problems() -> dict[str, list[Any]]:
    return {
        "known probabilities": _finite(known=True, reported=False),
        "unknown probabilities": _finite(known=False, reported=False, open_rate=0.1, response_rate=0.6),
        "public, sensed and reported variables": _finite(known=True, reported=True, masked=True, **HAPPENINGS),
        "reported variables, unknown probabilities": _finite(known=False, reported=True, masked=True, **HAPPENINGS),
        "continuous variables": _continuous(reported=False, **HAPPENINGS),
        "continuous variables, one reported": _continuous(reported=True, masked=True, **HAPPENINGS),
        "variables of one's own history": _remembering(),
    }


PROBLEMS = tuple(_problems())
"""The names of the problems that revealers and recommenders are tested on, each with two participants. In all but the
first two, patients open the app unasked, leave nudges unanswered and are away, and rewards come late or never. If
variables are reported, some actions are forbidden at some moments."""


def must(holds: bool, who: str, where: str, otherwise: str) -> None:
    """Raise an AssertionError that names the subject, the problem and the broken rule, unless it holds."""
    if not holds:
        raise AssertionError(f"{who}, {where}: {otherwise}")


def cases_for(who: str, policies: Sequence[Policy]) -> list[Case]:
    """The problems that the policies support; those that they reject are left out."""
    cases, refused = [], []
    for name, worlds in _problems().items():
        problem = worlds[0].informed_problem()
        try:
            for policy in policies:
                rule_for(policy, problem, horizon=HORIZON, participants=len(worlds))
            cases.append(Case(name, worlds))
        except InputError as error:
            refused.append(str(error))
    must(bool(cases), who, "all problems", f"every problem is rejected ({refused[:1]}); expected one that is not")
    return cases


def simulated(case: Case, policies: Sequence[Policy], **settings: Any) -> xr.Dataset:
    """Simulate the policies in a case's worlds, with every step kept."""
    given = {"horizon": case.horizon, "replicates": REPLICATES, "seed": SEED, "progress": False, **settings}
    return simulate(given.pop("worlds", case.worlds), list(policies), **given)


@functools.lru_cache(maxsize=10_000)
def simulated_context(world: Any, index: int, step: int, stream: int) -> tuple[Mapping[str, Any], Mapping[str, Any]]:
    """The context of a simulated participant at a step, by name: public and sensed values, and reported ones."""
    given, reported = context_at(world, index, step, seed=SEED, stream=stream)
    return MappingProxyType(given), MappingProxyType(reported)
