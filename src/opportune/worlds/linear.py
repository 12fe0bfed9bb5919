"""Linear worlds: the truth behind a finite problem, and the paper's synthetic study (Section 5)."""

import copy
from functools import cached_property
from typing import Annotated, Any, ClassVar, NamedTuple

import numpy as np
from numpy.typing import NDArray

from opportune import checks
from opportune.algorithm.protocol import Moment
from opportune.algorithm.rng import PARAMETER, PROBABILITY, draw, normal
from opportune.engine.compiled import inner_function
from opportune.engine.declared import Declares, Numbers
from opportune.engine.hooks import WORLDS
from opportune.errors import InputError
from opportune.problems.finite import Problem
from opportune.problems.settings import MOST_ACTIONS, MOST_CONTEXTS
from opportune.worlds.common import Happenings

Floats = NDArray[np.float64]

MOST_WORLDS = 1_000_000


class Settings(NamedTuple):
    """The truth in numbers."""

    noise_sd: Annotated[Numbers, 1]
    period: Annotated[Numbers, 1]  # L, of the schedule
    slot_of: Annotated[Numbers, "period"]  # the slot of each of its steps
    cumulative: Annotated[Numbers, "slots", "contexts"]  # context probabilities in each slot
    value: Annotated[Numbers, "contexts", "actions"]  # <theta, phi[k, a]>
    best: Annotated[Numbers, "contexts"]  # the best of these
    blind: Annotated[Numbers, "strata", "actions"]  # <theta, bar(z, a)>


@inner_function
def find_context(cumulative, first, contexts, u):  # type: ignore[no-untyped-def]
    """The first context whose cumulative probability exceeds u: as many as there are that do not.

    Counting them all takes no longer than to stop at the right one, which a processor cannot foresee.
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
    """The context of a step, by its uniform `arrival`; of those that the schedule has at this step."""
    contexts, period, first = p.sizes.contexts, int(own.settings.period[0]), 0
    if period > 1:
        first = int(own.settings.slot_of[(step - 1) % period]) * contexts
    return moment_of(p, step, find_context(own.settings.cumulative, first, contexts, arrival))


@inner_function
def respond(p, own, draws, moment, action, noise):  # type: ignore[no-untyped-def]
    """What comes of an action: reward, expected reward, that of the best action; `noise` is a uniform."""
    mean = own.settings.value[moment.context * p.sizes.actions + action]
    return mean + own.settings.noise_sd[0] * normal(noise), mean, own.settings.best[moment.context]


@inner_function
def blind_value(p, own, moment, action, outcome):  # type: ignore[no-untyped-def]
    """<theta, bar(z, a)>: what the paper counts where nothing was revealed."""
    return own.settings.blind[moment.stratum * p.sizes.actions + action]


@WORLDS.add
class LinearWorld:
    """The truth of a finite problem: X = <theta, phi[s, a]> + normal noise.

    Args:
        problem: what the agents know.
        theta: the true parameter.
        noise_sd: the noise; the problem's unless given.
        context_probs: how contexts arrive; the problem's unless given (needed where the problem has none). Where the
            problem has a schedule, they arrive with these probabilities among those of the step's place in it.
        happenings: how probable it is, at each step, that the patient opens the app unasked (`open_rate`, 0), answers
            a nudge (`response_rate`, 1) and is available (`available_rate`, 1), that a reward arrives at all
            (`reward_rate`, 1), and up to how many steps late (`reward_delay`, 0).
        name: for people.

    """

    number: ClassVar[int]
    declares: ClassVar[Declares] = Declares(settings=Settings)
    stay: float = 0.0  # how probable it is that the last step's context stays
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
        name: str = "",
        **happenings: Any,
    ) -> None:
        if not isinstance(problem, Problem):
            raise InputError(f"problem is {checks.shown(problem)}; expected a Problem")
        self.problem = problem
        self.theta: Floats = checks.array("theta", theta, (problem.d,))
        self.noise_sd = checks.real("noise_sd", problem.noise_sd if noise_sd is None else noise_sd, least=0.0)
        probs = problem.context_probs if context_probs is None else context_probs
        if probs is None:
            raise InputError("the problem's context_probs are unknown; expected context_probs=... for the world")
        self.context_probs: Floats = checks.probabilities("context_probs", probs, problem.contexts)
        self.happenings = Happenings.checked(happenings)
        self.name = checks.text("name of the world", name, empty=True)
        self.happenings.warn_of_theta(self.theta * problem.units, problem.theta_bound)

    @cached_property
    def values(self) -> Floats:
        """<theta, phi[k, a]>, what action a is worth in context k: [K, A]."""
        return np.asarray(self.problem.features @ self.theta)

    @cached_property
    def blind_values(self) -> Floats:
        """<theta, bar(z, a)>, what action a is worth to one who sees only the public part z: [Z, A]."""
        problem = self.problem
        return np.asarray(problem.means(problem.stratum_of, problem.strata, self.context_probs) @ self.theta)

    @cached_property
    def gaps(self) -> Floats:
        """u* - v* for each context: what its sensed part is worth knowing: [K]."""
        problem = self.problem
        sensed = problem.means(problem.sense_of, problem.senses, self.context_probs) @ self.theta
        return np.asarray(sensed.max(axis=1)[problem.sense_of] - self.blind_values.max(axis=1)[problem.stratum_of])

    @cached_property
    def largest_gap(self) -> float:
        """The largest gap of a context that can happen."""
        return float(self.gaps[self.context_probs > 0].max())

    @cached_property
    def slot_of(self) -> NDArray[np.int64]:
        """The slot of each step of the schedule's period: [L]."""
        return self.problem.slots()[0]

    @cached_property
    def cumulative(self) -> Floats:
        """Cumulative probabilities of the contexts in each slot of the schedule: [slots, K]."""
        slots = self.problem.slots()[1]
        return np.stack([np.cumsum(within(self.context_probs, members)) for members in slots])

    def extents(self) -> dict[str, int]:
        """The lengths of dimensions that its declarations name and problems do not have."""
        return {"period": self.slot_of.size, "slots": len(self.cumulative)}

    def numbers(self) -> dict[str, Any]:
        """The truth in numbers, for the fields of its settings."""
        return {
            "noise_sd": self.noise_sd,
            "period": self.slot_of.size,
            "slot_of": self.slot_of,
            "cumulative": self.cumulative,
            "value": self.values,
            "best": self.values.max(axis=1),
            "blind": self.blind_values,
        }

    def informed_problem(self) -> Problem:
        """The problem with the largest true gap filled in, which scale `gap` needs."""
        return self._informed

    @cached_property
    def _informed(self) -> Problem:
        """`informed_problem`, made once: what follows from a problem is kept with it, for every simulation."""
        if self.problem.largest_gap is not None or self.largest_gap <= 0.0:
            return self.problem
        informed = copy.copy(self.problem)
        informed.largest_gap = self.largest_gap
        return informed

    def truth_table(self) -> dict[str, tuple[tuple[str, ...], Floats]]:
        """What metrics need of the truth, as {name: (axes, values)}."""
        best = self.values.max(axis=1)
        blind = self.blind_values.max(axis=1)[self.problem.stratum_of]
        bounds = self.problem.value_range or (np.nan, np.nan)
        return {
            "value_range": (("bound",), np.array(bounds)),
            "true_gap": (("contexts",), self.gaps),
            "true_best": (("contexts",), best),
            "true_blind": (("contexts",), blind),
            "context_probs": (("contexts",), self.context_probs),
            "theta": (("feature",), self.theta),
        }

    def replace(self, **changes: Any) -> "LinearWorld":
        """A copy with some settings changed."""
        settings: dict[str, Any] = {
            "theta": self.theta,
            "noise_sd": self.noise_sd,
            "context_probs": self.context_probs,
            **self.happenings.settings(),
            "name": self.name,
            **changes,
        }
        return LinearWorld(settings.pop("problem", self.problem), **settings)

    def __repr__(self) -> str:
        return f"LinearWorld({self.name or 'unnamed'}, {self.problem!r})"


def within(probs: Floats, members: NDArray[np.bool_]) -> Floats:
    """Probabilities given that the context is one of these; all alike where none of them can happen."""
    if members.all():
        return probs
    kept = np.where(members, probs, 0.0)
    if kept.sum() <= 0.0:
        kept = members.astype(np.float64)
    return np.asarray(kept / kept.sum())


def synthetic_worlds(
    n: int, seed: int, *, known: bool = True, contexts: int = 10, actions: int = 5
) -> list[LinearWorld]:
    """The paper's synthetic instances (Section 5): instance i depends on (seed, i) alone.

    Contexts have values 1..K, phi = [one-hot of a over actions 1.., s, s times one-hot], theta is uniform on
    (0, 1)^d, context probabilities are uniform draws normalised, the noise sd is 0.1. With `known=False` the
    agents are not told the probabilities.
    """
    n = checks.whole("n", n, least=1, most=MOST_WORLDS)
    key = np.uint64(checks.seed("seed", seed))  # also where it exceeds 2^63
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
