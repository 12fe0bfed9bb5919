"""Linear worlds: the truth behind a finite problem, and the paper's synthetic study (SPEC section 9)."""

import copy
from functools import cached_property
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from opportune import checks
from opportune.core.rng import PARAMETER, PROBABILITY, draw
from opportune.errors import InputError
from opportune.problems.finite import Problem
from opportune.worlds.step import LINEAR

Floats = NDArray[np.float64]


class LinearWorld:
    """The truth of a finite problem: X = <theta, phi[s, a]> + normal noise.

    Args:
        problem: what the agents know.
        theta: the true parameter.
        noise_sd: the noise; the problem's unless given.
        context_probs: how contexts arrive; the problem's unless given (needed where the problem has none).
        open_rate: how probable it is that the patient opens the app unasked, at each step.
        response_rate: how probable it is that a nudge is answered.
        name: for people.

    """

    kind: ClassVar[int] = LINEAR
    history: ClassVar[int] = 0  # contexts arrive independently: the world keeps no state of its own

    def __init__(
        self,
        problem: Problem,
        *,
        theta: Any,
        noise_sd: float | None = None,
        context_probs: Any = None,
        open_rate: float = 0.0,
        response_rate: float = 1.0,
        name: str = "",
    ) -> None:
        if not isinstance(problem, Problem):
            raise InputError(f"problem is {type(problem).__name__}; expected a Problem")
        self.problem = problem
        self.theta: Floats = checks.array("theta", theta, (problem.d,))
        self.noise_sd = checks.real("noise_sd", problem.noise_sd if noise_sd is None else noise_sd, least=0.0)
        probs = problem.context_probs if context_probs is None else context_probs
        if probs is None:
            raise InputError("the problem's context_probs are unknown; expected context_probs=... for the world")
        self.context_probs: Floats = checks.probabilities("context_probs", probs, problem.contexts)
        self.open_rate = checks.real("open_rate", open_rate, least=0.0, most=1.0)
        self.response_rate = checks.real("response_rate", response_rate, least=0.0, most=1.0)
        self.name = name

    @cached_property
    def values(self) -> Floats:
        """<theta, phi[k, a]>, what action a is worth in context k: [K, A]."""
        return np.asarray(self.problem.features @ self.theta)

    @cached_property
    def blind_values(self) -> Floats:
        """<theta, bar(z, a)>, what action a is worth to one who sees only the public part z: [Z, A]."""
        problem = self.problem
        return np.asarray(problem.cell_means(problem.cell_of, problem.cells, self.context_probs) @ self.theta)

    @cached_property
    def gaps(self) -> Floats:
        """u* - v* for each context: what its sensed part is worth knowing: [K]."""
        problem = self.problem
        sensed = problem.cell_means(problem.sense_of, problem.senses, self.context_probs) @ self.theta
        return np.asarray(sensed.max(axis=1)[problem.sense_of] - self.blind_values.max(axis=1)[problem.cell_of])

    @cached_property
    def largest_gap(self) -> float:
        """The largest gap of a context that can happen."""
        return float(self.gaps[self.context_probs > 0].max())

    def numbers(self) -> Floats:
        """The world as the flat array that the compiled step functions take."""
        head = [self.noise_sd, self.open_rate, 0.0, self.response_rate, 0.0]
        return np.concatenate([head, np.cumsum(self.context_probs), self.values.ravel(), self.blind_values.ravel()])

    def informed_problem(self) -> Problem:
        """The problem with the largest true gap filled in, which scale `gap` needs."""
        if self.problem.largest_gap is not None or self.largest_gap <= 0.0:
            return self.problem
        informed = copy.copy(self.problem)
        informed.largest_gap = self.largest_gap
        return informed

    def truth_table(self) -> dict[str, tuple[tuple[str, ...], Floats]]:
        """What metrics need of the truth, as {name: (axes, values)}."""
        best = self.values.max(axis=1)
        blind = self.blind_values.max(axis=1)[self.problem.cell_of]
        bounds = self.problem.value_range or (np.nan, np.nan)
        return {
            "value_range": (("bound",), np.array(bounds)),
            "true_gap": (("k",), self.gaps),
            "true_best": (("k",), best),
            "true_blind": (("k",), blind),
            "context_probs": (("k",), self.context_probs),
            "theta": (("feature",), self.theta),
        }

    def replace(self, **changes: Any) -> "LinearWorld":
        """The same world with some settings changed."""
        settings: dict[str, Any] = {
            "theta": self.theta,
            "noise_sd": self.noise_sd,
            "context_probs": self.context_probs,
            "open_rate": self.open_rate,
            "response_rate": self.response_rate,
            "name": self.name,
            **changes,
        }
        return LinearWorld(settings.pop("problem", self.problem), **settings)

    def __repr__(self) -> str:
        return f"LinearWorld({self.name or 'unnamed'}, {self.problem!r})"


def synthetic_worlds(
    n: int, seed: int, *, known: bool = True, contexts: int = 10, actions: int = 5
) -> list[LinearWorld]:
    """The paper's synthetic instances (Section 5): instance i depends on (seed, i) alone.

    Contexts have values 1..K, phi = [one-hot of a over actions 1.., s, s times one-hot], theta is uniform on
    (0, 1)^d, context probabilities are uniform draws normalised, the noise sd is 0.1. With `known=False` the
    agents are not told the probabilities.
    """
    checks.whole("n", n, least=1)
    checks.whole("seed", seed, least=0, most=2**64 - 1)
    checks.whole("contexts", contexts, least=2)
    checks.whole("actions", actions, least=2)
    key = np.uint64(seed)  # also where it exceeds 2^63
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
