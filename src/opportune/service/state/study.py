"""A study file as the service runs it: policies, times, and the other settings that it needs."""

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
"""Larger rewards are refused as errors, whatever they measure."""


def file_hash(text: str) -> str:
    """The hash by which the record identifies a study file."""
    return hashlib.sha256(text.encode()).hexdigest()


@dataclass(frozen=True)
class StudyInForce:
    """The settings of a study file that the service needs."""

    study: Study
    text: str
    hash: str
    policies: dict[str, Policy]
    """The policy of each arm; without arms, a single policy named ""."""
    sizes: dict[str, int]
    """The number of participants in each arm."""
    policy: Policy
    """The policy; with arms, that of the first arm that nudges."""
    calendar: Calendar | None
    """When nudges are possible; None: at all times."""
    run_in: int
    """The number of decision points at the beginning without nudges."""
    participants: int
    horizon: int
    seed: int
    fallback: str
    times: tuple[int, ...]
    """Decision times in minutes after midnight, in the participant's own time; empty: whenever the app asks."""
    timezone: str
    answer_window: int
    """How long a nudge waits for an answer, in microseconds."""
    reward_window: int
    """How long a decision waits for its reward, in microseconds."""
    silence: int
    """How long a participant may be silent without an alert, in microseconds."""
    reward_default: float | None
    reward_bounds: tuple[float, float]
    webhook: str | None
    unblinded: tuple[str, ...]
    """Staff who see probabilities, prices and coins, by name."""
    pooling: int
    """After how many days the pooled part of the models is updated; 0: models are not partially pooled."""
    nudges_by: str
    """Who delivers nudges: staff, from the call list, or the app."""

    @classmethod
    def from_text(cls, text: str, source: str = "study.toml") -> "StudyInForce":
        """Read a study file's text; raises `InputError` if it is wrong or lacks something that a live study needs."""
        return _parsed(text, source)

    @classmethod
    def of(cls, study: Study) -> "StudyInForce":
        """The settings of a study that is already parsed."""
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
        """Read the study file at a path."""
        return cls.of(load_study(path))

    def cohorts(self) -> dict[str, Cohort]:
        """A new cohort for each arm, with nobody enrolled; all arms share the same staff."""
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
        """Whether an arm has nudges; a study without arms has a single arm named ""."""
        return not arm or self.policies[arm].revealer.spends

    @property
    def together(self) -> bool:
        """Whether participants share something."""
        return any(policy.together for policy in self.policies.values())

    @property
    def in_turn(self) -> bool:
        """Whether the order of decisions at one moment matters: a budget, a model or staff's calls of a day are shared.

        Models that are pooled in part change once a day, before all of its decisions.
        """
        return any(policy.shared or policy.one_model or policy.capped for policy in self.policies.values())

    def try_out(self) -> None:
        """Make a trial decision: it loads what decisions need, so that the first real one does not wait for it."""
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
        """The budget: the total if it is shared, else each participant's; None without a budget."""
        if self.shared:
            return sum(policy.budget.amount for policy in self.policies.values() if policy.budget is not None)
        return None if self.policy.budget is None else self.policy.budget.amount

    @property
    def hard(self) -> bool:
        """Whether the budget is hard: a limit on the number of nudges."""
        return self.policy.budget is not None and self.policy.budget.hard

    @property
    def per_day(self) -> int:
        """Decision points per day; 0 if the file sets no decision times."""
        return len(self.times)


@lru_cache(maxsize=8)
def _parsed(text: str, source: str) -> StudyInForce:
    return StudyInForce.of(parse_study(text, source=source))
