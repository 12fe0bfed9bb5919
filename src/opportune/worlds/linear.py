"""Linear worlds: the truth behind a finite problem, and the paper's synthetic study (Section 5)."""

from collections.abc import Mapping
from functools import cached_property
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from opportune import checks
from opportune.algorithm.protocol import Moment
from opportune.algorithm.rng import PARAMETER, PROBABILITY, STAY, draw
from opportune.engine.compiled import inner_function, step_function
from opportune.engine.declared import Declares, Numbers
from opportune.engine.hooks import WORLDS
from opportune.errors import InputError
from opportune.problems.finite import Problem
from opportune.problems.settings import MOST_ACTIONS, MOST_CONTEXTS
from opportune.worlds.common import Happenings, check_persistence, true_parameter
from opportune.worlds.finite import FiniteWorld, Floats
from opportune.worlds.rewards import outcome_of, reward_around

MOST_WORLDS = 1_000_000
MOST_LASTING = 60
"""The most variables of a world that may persist."""


class Settings(NamedTuple):
    """The truth as numbers."""

    noise_sd: Annotated[Numbers, 1]
    period: Annotated[Numbers, 1]  # L, the period of the schedule
    slot_of: Annotated[Numbers, "period"]  # the slot of each of its steps
    cumulative: Annotated[Numbers, "slots", "contexts"]  # context probabilities in each slot
    persisting: Annotated[Numbers, 1]  # the number of variables that persist
    stays: Annotated[Numbers, "persisting"]  # the probability that a variable keeps its value
    level: Annotated[Numbers, "persisting", "contexts"]  # the number of its level in each context
    value: Annotated[Numbers, "contexts", "actions"]  # <theta, phi[k, a]>
    best: Annotated[Numbers, "contexts"]  # the expected reward of the best action
    blind: Annotated[Numbers, "strata", "actions"]  # the expected reward given only the public part


@inner_function
def find_context(cumulative, first, contexts, u):  # type: ignore[no-untyped-def]
    """The first context whose cumulative probability exceeds u, found by counting those that do not.

    Counting all of them takes no longer than stopping at the right one, which branch prediction cannot foresee.
    """
    context = 0
    for k in range(contexts - 1):
        context += cumulative[first + k] <= u
    return context


@inner_function
def moment_of(p, step, context):  # type: ignore[no-untyped-def]
    """The decision point at which this context arrives."""
    n = p.sizes
    stratum = int(p.constants.stratum_of[context]) if n.strata > 1 else 0
    sense = int(p.constants.sense_of[context]) if n.senses > 0 else context
    return Moment(step, stratum, sense, context)


@inner_function
def arrive(p, own, draws, step, arrival):  # type: ignore[no-untyped-def]
    """The context of a step, from its uniform `arrival`, among those that the schedule allows at this step."""
    contexts, period, first = p.sizes.contexts, int(own.settings.period[0]), 0
    if period > 1:
        first = int(own.settings.slot_of[(step - 1) % period]) * contexts
    if own.settings.persisting[0] == 0.0:
        return moment_of(p, step, find_context(own.settings.cumulative, first, contexts, arrival))
    return moment_of(p, step, find_lasting(p, own.settings, draws, step, first, arrival))


@step_function
def find_lasting(p, truth, draws, step, first, arrival):  # type: ignore[no-untyped-def]
    """The context of a step if variables persist: some keep their values, the others are drawn given these."""
    n, cumulative = p.sizes.contexts, truth.cumulative
    last = int(p.lately.context[0]) - 1
    staying = 0  # a bit for each variable
    for v in range(int(truth.persisting[0])):
        if last >= 0 and draw(draws.seed, draws.stream, step, STAY + v) < truth.stays[v]:
            staying |= 1 << v
    total = 0.0
    for k in range(n):
        if fits(truth, n, staying, k, last):
            total += cumulative[first + k] - (cumulative[first + k - 1] if k > 0 else 0.0)
    context, reached = last, 0.0
    for k in range(n):
        chance = cumulative[first + k] - (cumulative[first + k - 1] if k > 0 else 0.0)
        if chance > 0.0 and reached <= arrival * total and fits(truth, n, staying, k, last):
            context = k
            reached += chance
    p.lately.context[0] = context + 1
    return context


@inner_function
def fits(truth, contexts, staying, k, last):  # type: ignore[no-untyped-def]
    """Whether context k agrees with the last one in the variables that stay."""
    for v in range(int(truth.persisting[0])):
        if staying & (1 << v) and truth.level[v * contexts + k] != truth.level[v * contexts + last]:
            return False
    return True


@inner_function
def respond(p, own, draws, moment, action, noise):  # type: ignore[no-untyped-def]
    """The result of an action: reward, expected reward, that of the best action; `noise` is a uniform."""
    mean, sd = own.settings.value[moment.context * p.sizes.actions + action], own.settings.noise_sd[0]
    return reward_around(p, mean, sd, noise), outcome_of(p, mean, sd), own.settings.best[moment.context]


@inner_function
def blind_value(p, own, moment, action, outcome):  # type: ignore[no-untyped-def]
    """The expected reward given only the public part, which is the paper's value without a reveal."""
    return own.settings.blind[moment.stratum * p.sizes.actions + action]


@WORLDS.add
class LinearWorld(FiniteWorld):
    """The truth of a finite problem: X = <theta, phi[s, a]> + normal noise, or according to its family and bounds.

    Args:
        problem: the agents' knowledge.
        theta: the true parameter, a number for each feature or {term: effect} (`problem.terms`; others are 0).
        noise_sd: standard deviation of the reward's noise; by default that of the problem.
        context_probs: the probabilities of contexts; by default the problem's (required if the problem has none). If
            the problem has a schedule, these are restricted to the contexts that are possible at each step.
        persistence: {variable: the probability that it keeps its value from the previous decision point}; the others
            are drawn again given these, so that in the long run contexts have the given probabilities.
        happenings: the probability, at each step, that the patient opens the app unasked (`open_rate`, 0), answers
            a nudge (`response_rate`, 1) and is available (`available_rate`, 1), that a reward arrives at all
            (`reward_rate`, 1), and the most steps that it is late (`reward_delay`, 0); how answers differ between
            people and change over time, and the distribution of rewards: see `worlds.common.Happenings`.
        name: a label for tables and figures.

    """

    number: ClassVar[int]
    declares: ClassVar[Declares] = Declares(settings=Settings)
    stay: float = 0.0  # the probability that the last step's context stays
    arrive: ClassVar[Any] = staticmethod(arrive)
    respond: ClassVar[Any] = staticmethod(respond)
    blind_value: ClassVar[Any] = staticmethod(blind_value)

    def __init__(
        self,
        problem: Problem,
        *,
        theta: Any,
        noise_sd: float | None = None,
        context_probs: Any = None,
        persistence: Mapping[str, float] | None = None,
        name: str = "",
        **happenings: Any,
    ) -> None:
        if not isinstance(problem, Problem):
            raise InputError(f"problem is {checks.brief(problem)}; expected a Problem")
        self.problem = problem
        self.theta: Floats = true_parameter(problem, theta)
        self.noise_sd = checks.real("noise_sd", problem.noise_sd if noise_sd is None else noise_sd, least=0.0)
        probs = problem.context_probs if context_probs is None else context_probs
        if probs is None:
            raise InputError("the problem's context_probs are unknown; expected context_probs=... for the world")
        self.context_probs: Floats = checks.probabilities("context_probs", probs, problem.contexts)
        self.persistence = check_persistence(persistence, problem.variables, problem.schedule.variables)
        if self.persistence:
            self._check_lasting()
        self.happenings = Happenings.checked(happenings, strata=problem.strata)
        self.name = checks.text("name of the world", name, empty=True)
        self.happenings.warn_of_theta(self.theta * problem.units, problem.theta_bound)

    @cached_property
    def values(self) -> Floats:
        """<theta, phi[k, a]>, the linear mean of action a in context k: [K, A]."""
        return np.asarray(self.problem.features @ self.theta)

    @cached_property
    def outcomes(self) -> Floats:
        """The expected reward of action a in context k, by family and bounds: [K, A]."""
        return self.happenings.expected(self.values, self.noise_sd)

    def _averaged(self, part_of: NDArray[np.int64], parts: int) -> Floats:
        """The expected reward of each action, averaged over the contexts of each part."""
        if self.happenings.bends:
            return super()._averaged(part_of, parts)
        return np.asarray(self.problem.means(part_of, parts, self.context_probs) @ self.theta)

    def _check_lasting(self) -> None:
        """Reject persistence if contexts depend on the schedule: values that stay might not be possible later."""
        if len(self.persistence) > MOST_LASTING:
            raise InputError(f"persistence has {len(self.persistence)} variables; expected at most {MOST_LASTING}")
        problem = self.problem
        names, scheduled = list(problem.variables), problem.schedule.variables
        axes = tuple(i for i, name in enumerate(names) if name in scheduled)
        shape = tuple(len(levels) for levels in problem.variables.values())
        joint = self.context_probs.reshape(shape)
        others = tuple(i for i in range(len(names)) if i not in axes)
        apart = joint.sum(axis=axes, keepdims=True) * joint.sum(axis=others, keepdims=True)
        if np.abs(joint - apart).max() > 1e-9:
            raise InputError(
                "persistence is given where contexts depend on the schedule; expected variables that do not depend "
                "on the time"
            )

    def extents(self) -> dict[str, int]:
        """The lengths of dimensions that its declarations name and problems lack."""
        return {"period": self.slot_of.size, "slots": len(self.cumulative), "persisting": len(self.persistence)}

    def numbers(self) -> dict[str, Any]:
        """The truth as numbers, for the fields of its settings."""
        return {
            "noise_sd": self.noise_sd,
            "period": self.slot_of.size,
            "slot_of": self.slot_of,
            "cumulative": self.cumulative,
            "persisting": len(self.persistence),
            "stays": list(self.persistence.values()),
            "level": self._levels(),
            "value": self.values,
            "best": self.best,
            "blind": self.blind_values,
        }

    def _levels(self) -> Floats:
        """The number of each persisting variable's level in each context: [variables, K]."""
        shape = tuple(len(levels) for levels in self.problem.variables.values())
        every = dict(zip(self.problem.variables, np.indices(shape).reshape(len(shape), -1), strict=True))
        return np.array([every[name] for name in self.persistence], dtype=np.float64)

    def truth_table(self) -> dict[str, tuple[tuple[str, ...], Floats]]:
        """The truth that metrics need, as {name: (axes, values)}."""
        return {**super().truth_table(), "theta": (("feature",), self.theta)}

    def replace(self, **changes: Any) -> "LinearWorld":
        """A copy with some settings changed."""
        settings: dict[str, Any] = {
            "theta": self.theta,
            "noise_sd": self.noise_sd,
            "context_probs": self.context_probs,
            "persistence": self.persistence,
            **self.happenings.settings(),
            "name": self.name,
            **changes,
        }
        return LinearWorld(settings.pop("problem", self.problem), **settings)

    def __repr__(self) -> str:
        return f"LinearWorld({self.name or 'unnamed'}, {self.problem!r})"


def synthetic_worlds(
    n: int, seed: int, *, known: bool = True, contexts: int = 10, actions: int = 5
) -> list[LinearWorld]:
    """The paper's synthetic instances (Section 5): instance i depends only on (seed, i).

    Contexts have values 1..K, phi = [one-hot of a over actions 1.., s, s times one-hot], theta is uniform on
    (0, 1)^d, context probabilities are normalised uniform draws, the noise sd is 0.1. With `known=False` the
    agents do not know the probabilities.
    """
    n = checks.whole("n", n, least=1, most=MOST_WORLDS)
    key = np.uint64(checks.seed("seed", seed))  # also for seeds above 2^63
    known = checks.yes_no("known", known)
    contexts = checks.whole("contexts", contexts, least=2, most=MOST_CONTEXTS)
    actions = checks.whole("actions", actions, least=2, most=MOST_ACTIONS)
    needed = 8.0 * (n + 2) * contexts * actions * (2 * actions - 1)
    checks.memory(f"features of {n:,} worlds", needed, "fewer worlds, contexts or actions")
    features = synthetic_features(contexts, actions)
    d = features.shape[2]
    worlds = []
    for i in range(n):
        theta = np.array([draw(key, i, j, PARAMETER) for j in range(d)])
        weight = np.array([draw(key, i, k, PROBABILITY) for k in range(contexts)])
        probs = weight / weight.sum()
        best = (features @ theta).max(axis=1)
        problem = Problem(
            features,
            probs if known else None,
            noise_sd=0.1,
            theta_bound=float(np.sqrt(d)),
            value_range=(float(best.min()), float(best.max())),
            variables={"s": range(1, contexts + 1)},
        )
        worlds.append(LinearWorld(problem, theta=theta, context_probs=probs, name=f"instance {i}"))
    return worlds


def synthetic_features(contexts: int, actions: int) -> Floats:
    """phi(s, a) = [one-hot of a over actions 1..A-1, s, s * one-hot] for s = 1..K."""
    one_hot = np.eye(actions)[:, 1:]
    s = np.arange(1.0, contexts + 1.0)
    phi = np.zeros((contexts, actions, 2 * actions - 1))
    phi[:, :, : actions - 1] = one_hot
    phi[:, :, actions - 1] = s[:, None]
    phi[:, :, actions:] = s[:, None, None] * one_hot
    return phi
