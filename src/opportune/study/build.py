"""`Study`: the worlds and policies that a study file describes, and their simulation."""

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from opportune import checks
from opportune.errors import InputError
from opportune.limits import Limits
from opportune.policy import Budget, Policy
from opportune.problems.continuous import ContinuousProblem
from opportune.problems.finite import Problem
from opportune.problems.history import History
from opportune.problems.terms import normal_term, term_names
from opportune.problems.variables import DayOfStudy, Number
from opportune.study.arms import arm_at, arm_entries, share_nudged, stratum_of
from opportune.study.arrivals import (
    decisions_per_day,
    distributions_of,
    probabilities_of,
    table_of,
    variables_of,
    visibility_of,
)
from opportune.study.base import WrongValueError
from opportune.study.checks import check_memory, find_errors
from opportune.study.lines import key_lines
from opportune.study.messages import list_errors, schema_errors
from opportune.study.randomised import least_action, least_nudge, with_candidates, with_floor
from opportune.study.schema import BUDGETS, REST, PolicyTable, StudyFile, StudyTable
from opportune.study.simulated import baseline_at, worlds_of
from opportune.study.timetable import timetable_of
from opportune.study.truth import Effect
from opportune.worlds.distributions import Resampled
from opportune.worlds.expected import expected_features

if TYPE_CHECKING:
    import xarray as xr

    from opportune.simulation.timetable import Timetable

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Study:
    """A checked study file with its worlds and policies."""

    source: str
    """The name of the file in error messages."""
    text: str
    """The file's text."""
    settings: StudyFile
    """The file's content."""

    @property
    def name(self) -> str:
        """The study's name; result files are named after it."""
        return self.settings.study.name

    @cached_property
    def variables(self) -> dict[str, Any]:
        """The variables of the context in the form that `Problem.from_formula` takes."""
        return variables_of(self.settings)

    @cached_property
    def continuous(self) -> bool:
        """Whether a variable can be any number in a range, so that contexts are not a finite set."""
        return any(isinstance(variable, Number | DayOfStudy | History) for variable in self.variables.values())

    @cached_property
    def table(self) -> Resampled | None:
        """The table of the study's own data from which variables are drawn jointly; None without one."""
        return table_of(self.settings, Path(self.source).parent)

    @cached_property
    def terms(self) -> tuple[str, ...]:
        """The names of the formula's terms, in the order of the features: the keys of [effects]."""
        return term_names(self.settings.reward.formula, self.variables, self.settings.study.actions)

    @cached_property
    def effects(self) -> dict[str, Effect]:
        """The true effect of each term; empty without [effects]."""
        by_term = {normal_term(key): effect for key, effect in self.settings.effects.items()}
        rest = by_term.get(REST)
        found = {term: effect for term in self.terms if (effect := by_term.get(normal_term(term), rest))}
        if by_term and len(found) < len(self.terms):
            raise WrongValueError  # a term without an effect is reported by `effect_checks`
        return found

    @property
    def has_truth(self) -> bool:
        """Whether the file contains true effects, which simulations need and live studies lack."""
        return bool(self.settings.effects)

    @cached_property
    def probabilities(self) -> Floats:
        """The probability of each context of a finite set; the last variable changes fastest."""
        return probabilities_of(self.settings, self.variables, self.table)

    def worlds(self) -> list[Any]:
        """One world per instance, a LinearWorld or a ContinuousWorld. Each is one participant."""
        return [*worlds_of(self)]

    @cached_property
    def by_weekday(self) -> dict[str, Problem | ContinuousProblem]:
        """A cache of the problems of participants who begin on other weekdays than the first participants."""
        return {}

    @cached_property
    def limits(self) -> Limits | None:
        """The limits on nudges other than the calendar; None without any."""
        settings = self.settings
        fixed = settings.study.run_in_days > 0 and settings.study.run_in == "fixed"
        limits = Limits(
            run_in=settings.study.run_in_days * decisions_per_day(settings),
            run_in_actions="fixed" if fixed else "equal",
            run_in_action=settings.study.actions.index(self.fallback) if fixed else None,
            per_week=settings.nudge.per_week,
            least_hours_between=settings.nudge.least_hours_between,
            per_day=settings.staff.per_day,
        )
        return None if limits == Limits() else limits

    def limits_among(self, simulated: int, *, planned: int) -> Limits | None:
        """The limits for the simulated participants of an arm with nudges, given how many are planned in all arms.

        The daily cap of staff is for all planned participants in arms with nudges, so it is scaled in proportion.
        """
        limits = self.limits
        if limits is None or limits.per_day is None:
            return limits
        nudged = planned * share_nudged(self.settings) or simulated
        return replace(limits, per_day=max(1, round(limits.per_day * simulated / nudged)))

    @property
    def fallback(self) -> str:
        """The action to recommend when no policy can decide."""
        return self.settings.serve.fallback or self.settings.study.actions[0]

    def allocation(self, participants: int) -> list[str]:
        """The arm of each simulated participant, in order of enrolment."""
        arms, seed = self.settings.arms, self.settings.study.seed
        assert arms is not None
        places: dict[int, int] = {}
        found = []
        for i in range(participants):
            stratum = stratum_of(self, baseline_at(self, i))
            found.append(arm_at(arms, seed, stratum=stratum, place=places.get(stratum, 0)))
            places[stratum] = places.get(stratum, 0) + 1
        return found

    def timetable(self, participants: int) -> "Timetable | None":
        """The decision times of simulated participants, with the points at which the calendar allows no nudge."""
        return timetable_of(self, participants)

    def warn_of_effects(self, worlds: Sequence[Any]) -> None:
        """Warn if true effects exceed `theta_bound`, which the agents rely on."""
        given = self.settings.reward.theta_bound
        if given is None:
            return  # the bound follows from the effects
        norms = [float(np.linalg.norm(world.theta * world.problem.units)) for world in worlds]
        beyond = sum(norm > given * (1.0 + 1e-9) for norm in norms)
        if beyond:
            checks.warn(
                f"{self.source}: effects have a norm of up to {max(norms):.4g}, in {beyond} of {len(norms)} instances "
                f"beyond theta_bound = {given:g} in [reward], which agents rely on; expected at least that norm"
            )

    def policies(self) -> list[Policy]:
        """Every policy at each of its budgets; with arms, the policy of each arm."""
        if self.settings.arms is not None:
            return [policy for entry in arm_entries(self.settings).policies.values() for policy in self._of_arm(entry)]
        return [policy for i in range(len(self.settings.policies)) for policy in self.policies_of(i)]

    def policies_of(self, i: int) -> list[Policy]:
        """Policy i of the file at each of its budgets."""
        entry, study = self.settings.policies[i], self.settings.study
        general = study.budgets if entry.needs_budget else [None]
        return [self._simulated(entry, amount) for amount in entry.budgets or general]

    def _of_arm(self, entry: PolicyTable) -> list[Policy]:
        """An arm's policy with the budget of [serve], or without one there, at each budget of the file."""
        serve, study = self.settings.serve, self.settings.study
        budgets: list[Any] = [None]
        if entry.needs_budget:
            budgets = [serve.budget] if serve.budget is not None else [*(entry.budgets or study.budgets)]
        return [self._simulated(entry, amount) for amount in budgets]

    def _simulated(self, entry: PolicyTable, budget: float | None) -> Policy:
        """The policy of an entry, for the file's instances, who stand for the planned participants."""
        n = self.settings.study.instances
        planned = self.settings.participants.planned or n
        return self.policy_of(entry, budget, participants=n, planned=planned)

    def policy(self, i: int, budget: float | None, *, participants: int) -> Policy:
        """Policy i of the file with a budget per participant; a shared budget is the sum over participants."""
        return self.policy_of(self.settings.policies[i], budget, participants=participants)

    def policy_of(
        self, entry: PolicyTable, budget: float | None, *, participants: int, served: bool = False,
        planned: int | None = None,
    ) -> Policy:  # fmt: skip
        """The policy of an entry, with a budget per participant; with `served`, as it runs live.

        With `planned`, its participants are simulated and stand for that many in all arms (see `limits_among`).
        """
        settings, study = self.settings, self.settings.study
        shared = study.budget_shared
        amount = None if budget is None else budget * participants if shared else budget
        recommender = entry.recommender_among(study.actions)
        return Policy(
            recommender=with_floor(recommender, least_action(settings, served=served)),
            revealer=with_candidates(entry.revealer, least_nudge(settings, served=served)),
            budget=None if amount is None else Budget(amount, hard=study.budget_kind == "hard", shared=shared),
            pooled=entry.pooled,
            partial_every=self.partial_every,
            update=self.update,
            limits=self.limits if planned is None else self.limits_among(participants, planned=planned),
            name=entry.name or "",
        )

    @property
    def pooling(self) -> int:
        """The days between updates of the common model, for partial pooling."""
        return {"day": 1, "week": 7}[self.settings.learning.pooling]

    @property
    def partial_every(self) -> int:
        """The decision times between updates of the common model, for partial pooling."""
        return self.pooling * decisions_per_day(self.settings)

    @property
    def update(self) -> int:
        """The decisions of a participant between updates of the model."""
        each = {"each reward": 0, "day": 1, "week": 7}[self.settings.learning.update]
        return max(1, each * decisions_per_day(self.settings))

    def replace(self, **changes: Any) -> "Study":
        """Return a copy with some keys of [study] changed, such as `replicates=2`; the whole copy is checked."""
        for key in changes:
            checks.choice("key of [study]", key, StudyTable.model_fields)
        content = {**self.settings.study.model_dump(exclude_unset=True), **changes}
        try:
            changed = StudyTable.model_validate(content)
        except ValidationError as error:
            found = schema_errors(error.errors(), {"study": content}, ("study",))
            raise InputError("\n".join(text for _, text in found)) from None
        study = replace(self, settings=self.settings.model_copy(update={"study": changed}))
        study.check()
        return study

    def run(self, *, progress: bool = True, on_interrupt: str = "raise") -> "xr.Dataset":
        """Simulate every policy in every world, as `simulate` does; the results include the file's text."""
        from opportune.simulation import simulate  # noqa: PLC0415  (not needed to check a file)

        self.require_truth()
        study, policies = self.settings.study, self.policies()
        if not policies:
            raise InputError(f"{self.source}: budgets in [study] is missing; expected {BUDGETS}")
        worlds = self.worlds()
        self.warn_of_effects(worlds)
        if study.trace:
            check_memory(self.source, study.horizon * study.replicates * len(worlds) * len(policies))
        data = simulate(
            worlds,
            policies,
            horizon=study.horizon,
            replicates=study.replicates,
            seed=study.seed,
            trace=study.trace,
            progress=progress,
            on_interrupt=on_interrupt,
            timetable=self.timetable(len(worlds)),
        )
        unit = self.settings.reward.unit
        if self.settings.arms is not None:
            data = data.assign_coords(arm=("world", self.allocation(len(worlds))))
        nudge = self.settings.nudge
        said = {"study": self.name, "study_file": self.text, "nudge": nudge.name, "nudges": nudge.several}
        said |= {} if unit is None else {"unit": unit}
        return data.assign_attrs(said)

    def require_truth(self) -> None:
        """Raise `InputError` if the file contains no true effects to simulate."""
        if not self.has_truth:
            text = "[effects] is missing, and nothing can be simulated without it"
            raise InputError(f"{self.source}: {text}; expected the true effect of each term")

    def check(self) -> None:
        """Raise one `InputError` that lists everything that does not fit together."""
        found, waiting = find_errors(self)
        if found:
            raise InputError(list_errors(self.source, key_lines(self.text), found, waiting=waiting))

    @cached_property
    def problem(self) -> Problem | ContinuousProblem:
        """The problem as agents know it, without a `value_range` that follows from the truth."""
        reward, known = self.settings.reward, self.settings.contexts.known
        self.require_bound()
        problem: Problem | ContinuousProblem = Problem.from_formula(
            reward.formula,
            self.variables,
            self.settings.study.actions,
            self.probabilities if known and not self.continuous else None,
            noise_sd=reward.noise_sd,
            theta_bound=1.0 if reward.theta_bound is None else reward.theta_bound,
            delta=reward.delta,
            visibility=visibility_of(self.settings),
            **self._safety,
            decisions_per_day=decisions_per_day(self.settings),
        )
        if reward.theta_bound is None:
            bounds = [effect.bound for effect in self.effects.values()]
            problem = problem.replace(theta_bound=math.hypot(*(bounds * problem.units)) or 1.0)
        if isinstance(problem, ContinuousProblem):
            given = reward.value_range
            problem = problem.replace(value_range=None if given is None else (given[0], given[1]))
            if known and not problem.histories:  # the means of histories depend on decisions, so they are learned
                means = expected_features(problem, distributions_of(self.settings), table=self.table)
                problem = problem.replace(known_means=means)
        if self.settings.prior:
            mean, sd = self._prior(problem)
            problem = problem.replace(prior_mean=mean, prior_sd=sd)
        return problem

    @property
    def _safety(self) -> dict[str, dict[str, str]]:
        """When actions are forbidden, and what to do when that is unknown."""
        actions = self.settings.actions.items()
        never = {name: table.never_if for name, table in actions if table.never_if is not None}
        doubts = {name: table.when_unknown for name, table in actions if table.when_unknown is not None}
        return {"never_if": never, "when_unknown": doubts} if never else {}  # type: ignore[dict-item]

    def _prior(self, problem: Any) -> tuple[list[float], list[float]]:
        """The prior means and sds of all terms; without an entry, they follow from the bound on effects."""
        by_term = {normal_term(key): prior for key, prior in self.settings.prior.items()}
        usual = problem.theta_bound / math.sqrt(problem.d)
        found = [by_term.get(normal_term(term), by_term.get(REST)) for term in self.terms]
        means = [0.0 if prior is None else prior.mean for prior in found]
        sds = [usual / unit if prior is None else prior.sd for prior, unit in zip(found, problem.units, strict=True)]
        return means, [float(sd) for sd in sds]

    def require_bound(self) -> None:
        """Raise `InputError` if neither the file nor the truth bounds the effects."""
        if not self.has_truth and self.settings.reward.theta_bound is None:
            text = "[reward] lacks 'theta_bound', which agents need where the file has no [effects]"
            raise InputError(f"{self.source}: {text}; expected a number > 0, a bound on the norm of the effects")
