"""A study built from its file: the worlds and policies that the settings describe, and how to run them."""

import copy
import math
import warnings
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray
from pydantic import ValidationError

from opportune import checks
from opportune.algorithm.rng import PARAMETER, draw
from opportune.errors import InputError
from opportune.policy import Budget, Policy
from opportune.problems.continuous import ContinuousProblem
from opportune.problems.finite import Problem
from opportune.problems.variables import DayOfStudy, Number
from opportune.study.arrivals import decisions_per_day, distributions_of, probabilities_of, table_of, variables_of
from opportune.study.checks import check_memory, find_errors
from opportune.study.lines import key_lines
from opportune.study.messages import list_errors, schema_errors
from opportune.study.schema import BUDGETS, REST, Effect, StudyFile, StudyTable
from opportune.study.terms import normal_term, term_names
from opportune.worlds import ContinuousWorld, LinearWorld
from opportune.worlds.common import BEYOND
from opportune.worlds.distributions import Resampled
from opportune.worlds.expected import expected_features

if TYPE_CHECKING:
    import xarray as xr

Floats = NDArray[np.float64]


@dataclass(frozen=True)
class Study:
    """A checked study: what its worlds and policies are, and how to run it."""

    source: str
    """What errors call the file."""
    text: str
    """The file as it was read."""
    settings: StudyFile
    """The content of a study file."""

    @property
    def name(self) -> str:
        """The study's name, under which results are saved."""
        return self.settings.study.name

    @cached_property
    def variables(self) -> dict[str, Any]:
        """The variables of the context, as `Problem.from_formula` takes them."""
        return variables_of(self.settings)

    @cached_property
    def continuous(self) -> bool:
        """Whether some variable may be any number of a range, so that contexts are not a finite set."""
        return any(isinstance(variable, Number | DayOfStudy) for variable in self.variables.values())

    @cached_property
    def table(self) -> Resampled | None:
        """The rows of the study's own data from which variables are drawn jointly, if there are any."""
        return table_of(self.settings, Path(self.source).parent)

    @cached_property
    def terms(self) -> tuple[str, ...]:
        """The names of the formula's terms, in the order of the features: the keys of [effects]."""
        return term_names(self.settings.reward.formula, self.variables, self.settings.study.actions)

    @cached_property
    def effects(self) -> dict[str, Effect]:
        """The true effect of each term."""
        by_term = {normal_term(key): effect for key, effect in self.settings.effects.items()}
        rest = by_term.get(REST)
        return {term: found for term in self.terms if (found := by_term.get(normal_term(term), rest))}

    @property
    def has_truth(self) -> bool:
        """Whether the file says what works, which a simulation needs and a live study does not have."""
        return bool(self.settings.effects)

    @cached_property
    def probabilities(self) -> Floats:
        """The probability of each context where contexts are a finite set, first variable slowest."""
        return probabilities_of(self.settings, self.variables, self.table)

    def worlds(self) -> list[Any]:
        """One world for each instance, a LinearWorld or a ContinuousWorld; instance i depends on (seed, i) alone."""
        self.require_truth()
        study = self.settings.study
        make = self._continuous_world if self.continuous else self._linear_world
        worlds = []
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", message=BEYOND, category=UserWarning)  # said once, for all instances
            for i in range(study.instances):
                draws = [float(draw(np.uint64(study.seed), i, j, PARAMETER)) for j in range(len(self.terms))]
                theta = np.array([effect.at(u) for effect, u in zip(self.effects.values(), draws, strict=True)])
                worlds.append(make(theta, self.name if study.instances == 1 else f"instance {i}"))
        return worlds

    def warn_of_effects(self, worlds: Sequence[Any]) -> None:
        """Warn if true effects are beyond what the file says that agents go by."""
        given = self.settings.reward.theta_bound
        if given is None:
            return  # it follows from the effects
        norms = [float(np.linalg.norm(world.theta * world.problem.units)) for world in worlds]
        beyond = sum(norm > given * (1.0 + 1e-9) for norm in norms)
        if beyond:
            checks.warn(
                f"{self.source}: effects have a norm of up to {max(norms):.4g}, in {beyond} of {len(norms)} instances "
                f"beyond theta_bound = {given:g} in [reward], which agents go by; expected at least that norm"
            )

    def policies(self) -> list[Policy]:
        """Every policy at each of its budgets."""
        return [policy for i in range(len(self.settings.policies)) for policy in self.policies_of(i)]

    def policies_of(self, i: int) -> list[Policy]:
        """Policy i of the file at each of its budgets."""
        entry, study = self.settings.policies[i], self.settings.study
        general = study.budgets if entry.needs_budget else [None]
        return [self.policy(i, amount, participants=study.instances) for amount in entry.budgets or general]

    def policy(self, i: int, budget: float | None, *, participants: int) -> Policy:
        """Policy i of the file with a budget per participant; participants who share one have the sum of theirs."""
        entry, study = self.settings.policies[i], self.settings.study
        shared = study.budget_shared
        amount = None if budget is None else budget * participants if shared else budget
        return Policy(
            recommender=entry.recommender_among(study.actions),
            revealer=entry.revealer,
            budget=None if amount is None else Budget(amount, hard=study.budget_kind == "hard", shared=shared),
            pooled=entry.pooled,
            name=entry.name or "",
        )

    def replace(self, **changes: Any) -> "Study":
        """Return a copy with some keys of [study] changed, such as `replicates=2`; all is checked again."""
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
        """Simulate every policy in every world, as `simulate` does; the file's text goes with the results."""
        from opportune.simulation import simulate  # noqa: PLC0415  (checking a file does without it)

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
        )
        unit = self.settings.reward.unit
        said = {"study": self.name, "study_file": self.text} | ({} if unit is None else {"unit": unit})
        return data.assign_attrs(said)

    def require_truth(self) -> None:
        """Refuse to simulate a study whose file does not say what works."""
        if not self.has_truth:
            text = "[effects] is missing, and nothing can be simulated without it"
            raise InputError(f"{self.source}: {text}; expected the true effect of each term")

    def check(self) -> None:
        """Refuse parts that do not fit together, all of them in one error."""
        found = find_errors(self)
        if found:
            raise InputError(list_errors(self.source, key_lines(self.text), found))

    @cached_property
    def problem(self) -> Problem | ContinuousProblem:
        """What the agents know, value_range aside where it comes from the truth."""
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
            visibility={name: v.visibility for name, v in self.settings.variables.items() if v.schedule is None},
            decisions_per_day=decisions_per_day(self.settings),
        )
        if reward.theta_bound is None:
            bounds = [effect.bound for effect in self.effects.values()]
            problem = problem.replace(theta_bound=math.hypot(*(bounds * problem.units)) or 1.0)
        if isinstance(problem, ContinuousProblem):
            given = reward.value_range
            problem = problem.replace(value_range=None if given is None else (given[0], given[1]))
            if known:
                means = expected_features(problem, distributions_of(self.settings), table=self.table)
                problem = problem.replace(known_means=means)
        return problem

    def require_bound(self) -> None:
        """Refuse to build what agents know where neither the file nor the truth bounds the effects."""
        if not self.has_truth and self.settings.reward.theta_bound is None:
            text = "[reward] lacks 'theta_bound', which agents need where the file has no [effects]"
            raise InputError(f"{self.source}: {text}; expected a number > 0, a bound on the norm of the effects")

    def _continuous_world(self, theta: Floats, name: str) -> ContinuousWorld:
        assert isinstance(self.problem, ContinuousProblem)
        return ContinuousWorld(
            self.problem,
            theta=theta,
            distributions=distributions_of(self.settings),
            table=self.table,
            name=name,
            **self.settings.world.model_dump(),
        )

    def _linear_world(self, theta: Floats, name: str) -> LinearWorld:
        return LinearWorld(
            self._problem_for(theta),
            theta=theta,
            context_probs=self.probabilities,
            name=name,
            **self.settings.world.model_dump(),
        )

    def _problem_for(self, theta: Floats) -> Problem:
        """The finite problem with a value_range, from the truth unless the file gives one."""
        assert isinstance(self.problem, Problem)
        problem, given = self.problem, self.settings.reward.value_range
        best = (problem.features @ theta).max(axis=1)
        low, high = given or (float(best.min()), float(best.max()))
        if low >= high:  # every context is worth the same: no range to speak of
            return problem
        problem = copy.copy(problem)
        problem.value_range = (low, high)
        return problem
