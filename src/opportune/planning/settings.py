"""The settings of a plan: the study, the budgets to try, the number of participants and replications, the target."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from opportune import checks
from opportune.errors import InputError
from opportune.policy import Budget, Policy
from opportune.problems.variables import levels_of
from opportune.recommenders import LinUCB
from opportune.revealers import RECOMMENDED, Always, Never, Pace
from opportune.revealers.pace import CANDIDATES
from opportune.study import Study
from opportune.study.arms import share_nudged
from opportune.study.arrivals import decisions_per_day
from opportune.study.schema import PolicyTable
from opportune.study.timetable import first_date

PARTICIPANTS = 100
REPLICATES = 200
MOST_BUDGETS, MOST_PARTICIPANTS = 1_000, 1_000_000
TARGET = 0.9
DEFAULT_SHARES = (0.0, 0.025, 0.05, 0.1, 0.2)
"""Budgets to try if the file has none, as shares of the decisions."""
TRACE_BYTES = 250_000_000
BYTES_PER_STEP = 80


@dataclass(frozen=True)
class Settings:
    """A plan's settings, checked: see `settings_of`."""

    study: Study
    budgets: tuple[float, ...]
    target: float
    participants: int
    replicates: int
    device: str

    @property
    def horizon(self) -> int:
        """Decisions per participant."""
        return self.study.settings.study.horizon

    @property
    def per_day(self) -> int:
        """Decisions per day."""
        return decisions_per_day(self.study.settings)

    @property
    def days(self) -> float:
        """Days of a participant in the study."""
        return self.horizon / self.per_day

    @property
    def seed(self) -> int:
        """The study's seed."""
        return self.study.settings.study.seed

    @property
    def unit(self) -> str:
        """The unit of rewards."""
        return self.study.settings.reward.unit or "points"

    @property
    def nudge(self) -> str:
        """The word for one nudge."""
        return self.study.settings.nudge.name

    @property
    def nudges(self) -> str:
        """The word for several nudges."""
        return self.study.settings.nudge.several

    @property
    def shared(self) -> bool:
        """Whether participants share one budget."""
        return self.study.settings.study.budget_shared

    @property
    def first_weekday(self) -> int:
        """The weekday of the study's first day; Monday is 0."""
        return first_date(self.study.settings).weekday()

    @property
    def proposed(self) -> float:
        """The budget that the file proposes: that of [serve] or, by default, the largest one to try."""
        given = self.study.settings.serve.budget
        return float(self.budgets[-1] if given is None else given)

    @property
    def nudged_share(self) -> float:
        """The share of participants who are in an arm with nudges; 1 without arms."""
        return share_nudged(self.study.settings)

    @property
    def people(self) -> int:
        """The number of participants who may get nudges."""
        return round(self.participants * self.nudged_share)

    @property
    def fewer(self) -> int:
        """Replications in the search for the least budget, where fewer are enough."""
        return max(min(self.replicates, 5), self.replicates // 4)

    @property
    def fewest(self) -> int:
        """Replications of each what-if."""
        return max(min(self.replicates, 5), self.replicates // 10)

    @property
    def traced(self) -> int:
        """Replications with every step kept, as many as memory allows."""
        return max(2, min(self.fewer, self._kept))

    @property
    def fewest_traced(self) -> int:
        """Replications of what-ifs in which participants leave, for which every step is kept."""
        return max(2, min(self.fewest, self._kept))

    @property
    def traced_at_once(self) -> int:
        """The number of policies that can be traced at once with `fewest_traced` replications."""
        return max(1, self._kept // self.fewest_traced)

    @property
    def _kept(self) -> int:
        """The number of replications of all participants that fit into memory with every step."""
        return TRACE_BYTES // (BYTES_PER_STEP * self.participants * self.horizon)

    @cached_property
    def worlds(self) -> list[Any]:
        """One world per participant, each with its own effects."""
        general = self.study.settings.study.model_copy(update={"instances": self.participants})
        settings = self.study.settings.model_copy(update={"study": general})
        return Study(source=self.study.source, text=self.study.text, settings=settings).worlds()

    def levels(self, name: str) -> tuple[Any, ...] | None:
        """The levels of a variable; None if it is continuous."""
        variable = self.study.variables[name]
        return levels_of(tuple(variable) if isinstance(variable, list) else variable)

    # The policies

    @property
    def entries(self) -> list[int]:
        """The indices of the file's policies that a budget limits, the plan's policy first."""
        tables = self.study.settings.policies
        limited = [i for i, entry in enumerate(tables) if entry.needs_budget]
        served = self.study.settings.serve.policy
        for wanted in (lambda e: served is not None and _name(e) == served, lambda e: e.kind == RECOMMENDED.kind):
            chosen = [i for i in limited if wanted(tables[i])]
            if chosen:
                return [chosen[0], *(i for i in limited if i != chosen[0])]
        return limited

    @property
    def main(self) -> int:
        """The index of the plan's policy in the file."""
        return self.entries[0]

    def name(self, entry: int) -> str:
        """The name of a policy of the file."""
        return _name(self.study.settings.policies[entry])

    def policy(self, entry: int, budget: float) -> Policy:
        """A policy of the file with a budget per participant; with 0 it never nudges and keeps its recommender."""
        if budget <= 0.0:
            return self.never(entry)
        return self.policy_of(self.study.settings.policies[entry], budget)

    def policy_of(self, entry: PolicyTable, budget: float) -> Policy:
        """A policy as it runs live, with a budget per participant if it needs one."""
        amount = budget if entry.needs_budget else None
        n = self.participants
        return self.study.policy_of(entry, amount, participants=n, planned=n, served=True)

    def served(self, entry: int, budget: float) -> Policy:
        """A policy of the file as it runs live: actions keep a least probability unless the file says otherwise."""
        chosen = self.study.settings.policies[entry]
        n = self.participants
        return self.study.policy_of(chosen, budget, participants=n, planned=n, served=True)

    def never(self, entry: int) -> Policy:
        """No nudges at all, with the policy's own recommender."""
        return self._unlimited(entry, Never(), "never")

    def always(self, entry: int) -> Policy:
        """A nudge at every decision, with the policy's own recommender."""
        return self._unlimited(entry, Always(), "always")

    def curve(self, budget: float) -> dict[float, Policy]:
        """The plan's policy at every budget to try, at `budget`, without a limit, and (inf) at every decision."""
        budgets = sorted({*self.budgets, float(budget), float(self.horizon)})
        return {b: self.policy(self.main, b) for b in budgets} | {math.inf: self.always(self.main)}

    def randomised(self, least: float, budget: float) -> Policy:
        """PACE with randomised nudges at candidate moments, and the plan's budget, budget kind and sharing."""
        general = self.study.settings.study
        entry = self.study.settings.policies[self.main]
        recommender = self.served(self.main, 1.0).recommender if entry.kind == Pace.kind else LinUCB(**Pace.suits)
        amount = budget * self.participants if self.shared else budget
        return Policy(
            recommender=recommender,
            revealer=Pace(randomise=CANDIDATES, least=least),
            budget=Budget(amount, hard=general.budget_kind == "hard", shared=self.shared),
            pooled=entry.pooled,
            partial_every=self.study.partial_every,
            limits=self.study.limits_among(self.participants, planned=self.participants),
            name=f"PACE, candidates {least:g}",
        )

    def _unlimited(self, entry: int, revealer: Never | Always, name: str) -> Policy:
        own = self.policy_of(self.study.settings.policies[entry], 1.0)
        return replace(own, revealer=revealer, budget=None, name=name)


def settings_of(
    study: Study,
    *,
    budgets: Sequence[float] | None = None,
    target: float = TARGET,
    participants: int | None = None,
    replicates: int = REPLICATES,
    device: str = "cpu",
) -> Settings:
    """A plan's settings, checked before anything is simulated.

    Args:
        study: the study.
        budgets: nudges per participant to try; by default the file's, and 0.
        target: the share to reach of the most that nudges bring.
        participants: how many there will be; by default the file's number, or 100.
        replicates: how often each participant is simulated.
        device: "cpu", "cuda" or "auto".

    """
    if not isinstance(study, Study):
        raise InputError(f"study is {type(study).__name__}; expected a Study, as load_study returns it")
    study.require_truth()
    horizon = study.settings.study.horizon
    given = list(study.settings.study.budgets)
    if budgets is not None:
        given = checks.listed("budgets", budgets, "a list of numbers, such as [0, 5, 10]", most=MOST_BUDGETS)
        if not given:
            raise InputError("budgets is empty; expected a list of numbers, such as [0, 5, 10]")
    elif not given:
        given = [math.ceil(horizon * share) for share in DEFAULT_SHARES]
    if (served := study.settings.serve.budget) is not None:
        given = [*given, served]
    checked = sorted({0.0, *(checks.real("budgets", b, least=0.0, most=float(horizon)) for b in given)})
    if len(checked) < 2:
        raise InputError(f"budgets is {given}; expected at least one number above 0")
    if study.settings.study.budget_kind == "hard" and not all(b.is_integer() for b in checked):
        raise InputError(f"budgets is {given}; expected whole numbers, since a hard budget counts nudges")
    planned = study.settings.participants.planned or PARTICIPANTS
    made = Settings(
        study=study,
        budgets=tuple(checked),
        target=checks.real("target", target, above=0.0, below=1.0),
        participants=checks.whole(
            "participants", planned if participants is None else participants, least=2, most=MOST_PARTICIPANTS
        ),
        replicates=checks.whole("replicates", replicates, least=2, most=2**32 - 1),
        device=checks.choice("device", device, ("cpu", "cuda", "auto")),
    )
    if not made.entries:
        raise InputError(f"{study.source}: no policy in [[policies]] has a budget; expected one, such as kind = 'PACE'")
    return made


def _name(entry: PolicyTable) -> str:
    return entry.name or entry.kind
