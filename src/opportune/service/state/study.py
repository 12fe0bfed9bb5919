"""A study file as the service runs it: what decides, and the times and words that the file sets."""

import contextlib
import hashlib
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any

from opportune.live.cohort import Cohort
from opportune.policy import Policy
from opportune.problems.finite import Problem
from opportune.service.state import clock
from opportune.service.state.packing import Unsound, pack
from opportune.study import Study, load_study, parse_study
from opportune.study.calendar import Calendar
from opportune.study.serving import live

LARGEST = 1e12
"""Rewards beyond this cannot be right, whatever they count."""


def file_hash(text: str) -> str:
    """What the record calls a study file by."""
    return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True)
class StudyInForce:
    """What of a study file the service needs."""

    study: Study
    text: str
    hash: str
    policies: dict[str, Policy]
    """Of each arm; without arms, the one policy by the name ""."""
    sizes: dict[str, int]
    """How many participants each is for."""
    policy: Policy
    """The policy, or that of the first arm that nudges."""
    calendar: Calendar | None
    """When nudges can be made; None: at all times."""
    run_in: int
    """Decision points at the beginning at which nobody is nudged."""
    participants: int
    horizon: int
    seed: int
    fallback: str
    times: tuple[int, ...]
    """Decision times in minutes after midnight, in the participants' own time; none: when the app asks."""
    timezone: str
    answer_window: int
    """How long an answer is waited for, in microseconds."""
    reward_window: int
    """How long a reward is waited for, in microseconds."""
    silence: int
    """How long a participant may be silent without an alert, in microseconds."""
    reward_default: float | None
    reward_bounds: tuple[float, float]
    webhook: str | None
    unblinded: tuple[str, ...]
    """Staff who see probabilities, prices and coins, by name."""
    pooling: int
    """After how many days what participants have in common is brought up to date; 0: they have nothing in common."""
    nudges_by: str
    """Who shows nudges to participants: staff, who must look at the call list, or the app that asks."""

    @classmethod
    def from_text(cls, text: str, source: str = "study.toml") -> "StudyInForce":
        """What a study file says; raises `InputError` with what it lacks for a live study."""
        return _parsed(text, source)

    @classmethod
    def of(cls, study: Study) -> "StudyInForce":
        """What a study needs to run live."""
        found, settings, text = live(study), study.settings, study.text
        low, high = settings.reward.bounds or (-LARGEST, LARGEST)
        return cls(
            study=study,
            text=text,
            hash=file_hash(text),
            policies=found.policies,
            sizes=found.sizes,
            policy=found.policy,
            calendar=found.calendar,
            run_in=0 if study.limits is None else study.limits.run_in,
            participants=found.participants,
            horizon=settings.study.horizon,
            seed=settings.study.seed,
            fallback=found.fallback,
            times=tuple(time.hour * 60 + time.minute for time in settings.schedule.clock),
            timezone=settings.schedule.timezone,
            answer_window=round(settings.nudge.answer_minutes * clock.MINUTE),
            reward_window=round(settings.reward.wait_hours * clock.HOUR),
            silence=round(settings.serve.silent_hours * clock.HOUR),
            reward_default=settings.reward.default,
            reward_bounds=(low, high),
            webhook=settings.serve.webhook,
            unblinded=tuple(settings.serve.unblinded),
            pooling=study.pooling if any(policy.partial for policy in found.policies.values()) else 0,
            nudges_by=settings.serve.nudges_by,
        )

    @classmethod
    def from_file(cls, path: Path) -> "StudyInForce":
        """What the study file at a path says."""
        return cls.of(load_study(path))

    def cohorts(self) -> dict[str, Cohort]:
        """The participants' agents in each arm, nobody enrolled yet; staff work for all arms."""
        problem, made = live(self.study).problem, dict[str, Cohort]()
        for arm, policy in self.policies.items():
            made[arm] = Cohort(
                problem, policy, horizon=self.horizon, seed=self.seed, participants=self.sizes[arm],
                staff_of=next(iter(made.values()), None),
            )  # fmt: skip
        return made

    @property
    def shared(self) -> bool:
        """Whether participants share a budget."""
        return any(policy.shared for policy in self.policies.values())

    def spends(self, arm: str) -> bool:
        """Whether there are nudges in an arm; that of everybody is "" in a study without arms."""
        return not arm or self.policies[arm].revealer.spends

    @property
    def together(self) -> bool:
        """Whether participants share something."""
        return any(policy.together for policy in self.policies.values())

    def try_out(self) -> None:
        """Make a decision that does not count, so that the first one that does need not wait for what is loaded."""
        agent = next(iter(self.cohorts().values())).seat(0, stream=0)
        problem = agent.problem
        values = problem.levels(0) if isinstance(problem, Problem) else problem.middle_values()
        given = {*problem.schedule.variables, *problem.histories, *agent.reported_names}
        slot: dict[str, Any] = {} if self.calendar is None else {"hours": 0.0, "day": 0}
        made = agent.propose({name: value for name, value in values.items() if name not in given}, **slot)
        agent.settle(answered=False if made.nudged else None)
        agent.learn(self.reward_default or 0.0)
        with contextlib.suppress(Unsound):
            pack(agent)

    @property
    def amount(self) -> float | None:
        """The budget: of all together where it is shared, else of each; None without one."""
        if self.shared:
            return sum(policy.budget.amount for policy in self.policies.values() if policy.budget is not None)
        return None if self.policy.budget is None else self.policy.budget.amount

    @property
    def hard(self) -> bool:
        """Whether the budget counts nudges."""
        return self.policy.budget is not None and self.policy.budget.hard

    @property
    def per_day(self) -> int:
        """Decision points per day where the file has times for them; else 0."""
        return len(self.times)


@lru_cache(maxsize=8)
def _parsed(text: str, source: str) -> StudyInForce:
    return StudyInForce.of(parse_study(text, source=source))
