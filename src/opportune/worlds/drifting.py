"""Drifting worlds: contexts whose probabilities change over the course of a study, or that stay for a while.

A table contains the probability of each context at each step; one number is the probability that the last step's
context stays instead. That covers weekly cycles (a table of seven rows, which repeats), trends and good moments that
stop coming (a row for each step), and contexts that persist.
"""

from functools import cached_property
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from opportune import checks
from opportune.engine.compiled import inner_function
from opportune.engine.declared import Declares, Numbers
from opportune.engine.hooks import WORLDS
from opportune.errors import InputError
from opportune.problems.finite import Problem
from opportune.worlds.common import Happenings
from opportune.worlds.finite import Floats
from opportune.worlds.linear import LinearWorld, find_context, moment_of


class Settings(NamedTuple):
    """The truth as numbers: LinearWorld's, with a slot for each step of the course."""

    noise_sd: Annotated[Numbers, 1]
    period: Annotated[Numbers, 1]
    slot_of: Annotated[Numbers, "period"]
    cumulative: Annotated[Numbers, "slots", "contexts"]
    value: Annotated[Numbers, "contexts", "actions"]
    best: Annotated[Numbers, "contexts"]
    blind: Annotated[Numbers, "strata", "actions"]
    stay: Annotated[Numbers, 1]  # the probability that the last step's context stays


@inner_function
def arrive(p, own, draws, step, arrival):  # type: ignore[no-untyped-def]
    """The last context if `arrival` < stay; otherwise one by the step's row, chosen by the rest of the uniform."""
    n, stay = p.sizes, own.settings.stay[0]
    context = int(p.lately.context[0]) - 1
    if context < 0 or arrival >= stay:
        u = arrival if context < 0 else (arrival - stay) / (1.0 - stay)
        row = (step - 1) % int(own.settings.period[0])
        context = find_context(own.settings.cumulative, row * n.contexts, n.contexts, u)
        p.lately.context[0] = context + 1
    return moment_of(p, step, context)


@WORLDS.add
class DriftingWorld(LinearWorld):
    """A linear world whose context probabilities depend on the step, and whose contexts may persist.

    Args:
        problem: the agents' knowledge.
        theta: the true parameter.
        course: the probability of each context, one row per step [n, K]; the first row follows the last.
        stay: the probability that the context of the last step stays, regardless of the row; less than 1.
        settings: noise_sd, name and happenings, as for LinearWorld.

    Metrics compare with the long run, `context_probs`, the mean of the rows; `drift` also gives it to the agents.

    """

    declares: ClassVar[Declares] = Declares(settings=Settings)
    arrive: ClassVar[Any] = staticmethod(arrive)

    def __init__(self, problem: Problem, *, theta: Any, course: Any, stay: float = 0.0, **settings: Any) -> None:
        if not isinstance(problem, Problem):
            raise InputError(f"problem is {checks.brief(problem)}; expected a Problem")
        if problem.schedule.variables:
            raise InputError("the problem has a schedule; expected none, since the course sets what arrives when")
        known = ("noise_sd", "name", *Happenings.NAMES)
        for setting in settings:
            checks.choice("a world's setting", setting, known)
        self.course = _rows(course, problem.contexts)
        self.stay = checks.real("stay", stay, least=0.0, below=1.0)
        super().__init__(problem, theta=theta, context_probs=self.course.mean(axis=0), **settings)

    @classmethod
    def drift(cls, world: LinearWorld, *, course: Any, stay: float = 0.0) -> "DriftingWorld":
        """A world with drifting contexts; agents that knew the probabilities know those of the long run."""
        if not isinstance(world, LinearWorld):
            raise InputError(f"world is {checks.brief(world)}; expected a LinearWorld")
        problem = world.problem
        if problem.context_probs is not None:
            problem = problem.replace(context_probs=_rows(course, problem.contexts).mean(axis=0))
        return cls(
            problem, theta=world.theta, course=course, stay=stay, noise_sd=world.noise_sd, name=world.name,
            **world.happenings.settings(),
        )  # fmt: skip

    @cached_property
    def slot_of(self) -> NDArray[np.int64]:
        """The identity: every step of the course has its own row."""
        return np.arange(len(self.course))

    @cached_property
    def cumulative(self) -> Floats:
        """Cumulative probabilities of the contexts at each step of the course: [n, K]."""
        return np.cumsum(self.course, axis=1)

    def numbers(self) -> dict[str, Any]:
        """The truth as numbers, for the fields of its settings."""
        known = {**super().numbers(), "stay": self.stay}
        return {name: known[name] for name in Settings._fields}

    def replace(self, **changes: Any) -> "DriftingWorld":
        """A copy with some settings changed."""
        known = ("problem", "theta", "course", "stay", "noise_sd", "name", *Happenings.NAMES)
        for setting in changes:
            checks.choice("a world's setting", setting, known)
        settings: dict[str, Any] = {
            "theta": self.theta, "course": self.course, "stay": self.stay, "noise_sd": self.noise_sd,
            **self.happenings.settings(), "name": self.name, **changes,
        }  # fmt: skip
        return DriftingWorld(settings.pop("problem", self.problem), **settings)

    def __repr__(self) -> str:
        return f"DriftingWorld({self.name or 'unnamed'}, {self.problem!r})"


def _rows(course: Any, contexts: int) -> Floats:
    """The course, checked: a probability vector for each step."""
    rows = checks.array("course", course, ("steps", contexts))
    if rows.size and rows.min() >= 0.0 and np.abs(rows.sum(axis=1) - 1.0).max() <= 1e-9:  # the usual case, checked fast
        return rows
    return np.stack([checks.probabilities(f"course at step {t}", row, contexts) for t, row in enumerate(rows, 1)])
